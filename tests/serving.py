"""The service in this process: houses over chains in memory, their loops, and a client that asks them over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from indexer.errors import SourceError
from indexer.settings import Settings
from indexer.store import Writer
from overlay.app.composition import AppContext, build
from overlay.app.runner import Runner
from overlay.app.storage import open_duplicates, open_index, open_store
from tests.compiled import compile_loops
from tests.fakes import MemoryChain
from tests.waiting import until


def settings(folder: Path, **flags: Any) -> Settings:
    """Settings with a data folder below this one, a free port, and a chain `live`."""
    return Settings.load({"data": str(folder / "data"), "port": 0, "chains": "live=files:/nowhere", **flags})


def new_app(folder: Path, *chains: MemoryChain, serve: bool = True, follow: bool = True, **flags: Any) -> AppContext:
    """A process that follows these chains and serves them, or does one of both."""
    options = settings(folder, **flags)
    store = open_store(options, create=True)
    return AppContext(
        settings=options,
        store=store,
        chains=chains,
        writer=Writer(store.engine) if follow else None,
        engine=open_index(options, create=True) if serve else None,
        duplicates=open_duplicates(options) if serve else None,
    )


def built(folder: Path, chains: str, **flags: str) -> AppContext:
    """The process that `a2b up` builds for these chains, as the setting names them."""
    return build(settings(folder, chains=chains, **flags), follow=True, serve=True)


@asynccontextmanager
async def running(app_context: AppContext) -> AsyncIterator[tuple[Runner, asyncio.Task[None]]]:
    """The loops of a context, until the end."""
    compile_loops()
    runner = Runner(app_context)
    task = asyncio.create_task(runner.run())
    try:
        yield runner, task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, SourceError):
            await task
        app_context.close()


@asynccontextmanager
async def serving(app_context: AppContext) -> AsyncIterator[ClientSession]:
    """A client that asks the loops of a context, once these are ready. Raises what ends them before that."""
    async with running(app_context) as (runner, task):
        await until(lambda: task.done() or (runner.url and runner.status.ready() is None))
        if task.done():
            await task
        async with ClientSession(runner.url) as session:
            yield session
