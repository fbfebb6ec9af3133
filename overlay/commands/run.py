"""`a2b up`, `a2b index`, `a2b serve`: follow the chains, serve, or both in one process."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn

from indexer.settings import Settings
from overlay.commands import options
from overlay.services import cache_loops, make_data, version
from overlay.terminal import is_terminal, log_lines, say

NODE = 'A2B_CHAINS="bsv=files:/path/to/node/blocks?network=mainnet" a2b up'


def up(
    config: options.Config = None,
    data: options.Data = None,
    database: options.Database = None,
    search: options.Search = None,
    chains: options.Chains = None,
    host: options.Host = None,
    port: options.Port = None,
) -> None:
    """Follow the configured chains and serve, in one process.

    With nothing configured: the packaged sample blocks, SQLite and an index in ./a2b-data, on 127.0.0.1:8080.
    """
    told = options.settings(config, data=data, database=database, search=search, chains=chains, host=host, port=port)
    _run(told, follow=True, serve=True)


def follow(
    config: options.Config = None,
    data: options.Data = None,
    database: options.Database = None,
    chains: options.Chains = None,
) -> None:
    """Follow the configured chains into the database; serve nothing."""
    _run(options.settings(config, data=data, database=database, chains=chains), follow=True, serve=False)


def serve(
    config: options.Config = None,
    data: options.Data = None,
    database: options.Database = None,
    search: options.Search = None,
    host: options.Host = None,
    port: options.Port = None,
) -> None:
    """Serve what another process (`a2b index`) writes into the database; follow nothing."""
    told = options.settings(config, data=data, database=database, search=search, host=host, port=port)
    _run(told, follow=False, serve=True)


def _run(settings: Settings, *, follow: bool, serve: bool) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    for line in _plan(settings, follow=follow, serve=serve):
        say(line)
    sys.stdout.flush()
    make_data(settings)
    cache_loops(settings)
    log_lines()
    _work(settings, follow=follow, serve=serve)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    """A signal while everything is still being imported: nothing has begun, so nothing is left to end."""
    raise SystemExit(0)


def _plan(settings: Settings, *, follow: bool, serve: bool) -> list[str]:
    shown = settings.shown()
    lines = [f"a2b {version()}"]
    if follow and settings.sample:
        lines.append(
            f"follows   the packaged sample blocks, as chain {settings.chains[0].name!r} (nothing is configured)"
        )
    elif follow:
        lines += [f"follows   {chain.shown}" for chain in settings.chains]
    lines.append(f"stores    {shown['database']}" + (f", index {shown['search']}" if serve else ""))
    if serve:
        lines.append(f"serves    http://{settings.host}:{settings.port}" if settings.port else "serves    a free port")
    if follow and settings.sample:
        lines.append(f"to follow your own node: {NODE}")
    return lines


def _work(settings: Settings, *, follow: bool, serve: bool) -> None:
    import asyncio

    from overlay.runner import Runner
    from overlay.services import build

    house = build(settings, follow=follow, serve=serve)
    try:
        runner = Runner(house, _serving)
        if follow and is_terminal():
            from overlay.bars import Bars

            runner.also(Bars(runner.standing.progress).show)
        asyncio.run(runner.run())
    finally:
        house.close()


def _serving(url: str) -> None:
    say(f"serving on {url}")
    sys.stdout.flush()
