"""Run the loops of a long-running command in one event loop until a signal, and end them in order."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from aiohttp import web

from overlay.api.server import close, create_runner, drain, listen
from overlay.app.chain_loops import Loop
from overlay.app.composition import AppContext
from overlay.app.memory import limit_arenas, tune_garbage_collection
from overlay.app.search_start import SearchStart
from overlay.app.supervision import Supervisor
from overlay.app.workers import CLEAN_SECONDS, DRAIN_SECONDS, PATIENCE_SECONDS

SWITCH_SECONDS = 0.0005
"""How long a thread that runs Python keeps others waiting. An answer releases the interpreter lock about six times:
while another thread indexes, 700 searches a second are answered with this, and 100 with Python's default of 5 ms."""


class Runner:
    """Runs the parts of a command until a signal.

    `on_serving` is called with the URL once requests are answered, which is `url` from then on; with `share_port`,
    other processes of this user may serve on the same port. `on_signal` is called at a signal, and `on_exit`, in
    another thread, before the process exits in spite of threads that do not end.
    """

    def __init__(
        self,
        context: AppContext,
        on_serving: Callable[[str], None] = lambda _: None,
        *,
        share_port: bool = False,
        on_signal: Callable[[], None] = lambda: None,
        on_exit: Callable[[], None] = lambda: None,
    ) -> None:
        self.context, self.status, self.url = context, context.status, ""
        self._supervisor = Supervisor(context.counters)
        self._on_serving, self._share_port = on_serving, share_port
        self._on_signal, self._on_exit = on_signal, on_exit
        self._signalled, self._interrupted = asyncio.Event(), asyncio.Event()
        self._extra_loops: list[Loop] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def add_loop(self, loop: Loop) -> None:
        """Run this, too, until the end; an exception ends the process."""
        self._extra_loops.append(loop)

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT. Raises SourceError, StoreError, EngineError, AddressError or OSError."""
        limit_arenas()
        tune_garbage_collection()
        sys.setswitchinterval(SWITCH_SECONDS)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._handle_signal, number)
        server = await self._serve(self.context.search_start) if self.context.search_start else None
        try:
            for loop in self.context.loops():
                self._start(self._supervisor.keep_running(loop))
            for loop in self._extra_loops:
                self._start(loop())
            await self._wait()
        finally:
            await self._end(server)

    async def _serve(self, search_start: SearchStart) -> web.AppRunner:
        settings = self.context.settings
        self._tasks.add(await search_start.begin())
        server = create_runner(self.context.web_app())
        self.url = await listen(server, settings.host, settings.port, share=self._share_port)
        self._on_serving(self.url)
        return server

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    async def _wait(self) -> None:
        """Return after a signal; raise what ended a task."""
        self._start(self._wait_for_signal())
        while not self._signalled.is_set():
            done, self._tasks = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()

    async def _wait_for_signal(self) -> None:
        await self._signalled.wait()

    def _handle_signal(self, number: int) -> None:
        """End; a second Ctrl-C does not wait for requests under way."""
        if self._signalled.is_set():
            if number == signal.SIGINT:
                self._interrupted.set()
            return
        self._signalled.set()
        serving = DRAIN_SECONDS + CLEAN_SECONDS if self.context.engine else 0.0
        self._exit_after(serving + PATIENCE_SECONDS)
        self._on_signal()

    def _exit_after(self, seconds: float) -> None:
        """Exit then, even if a thread still works: threads cannot be interrupted, and every write is a transaction."""
        timer = threading.Timer(seconds, self._exit)
        timer.daemon = True
        timer.start()

    def _exit(self) -> None:
        self._on_exit()
        os._exit(0)

    async def _end(self, server: web.AppRunner | None) -> None:
        for task in self._tasks:
            task.cancel()
        if server is not None and self._signalled.is_set():
            await drain(server, DRAIN_SECONDS, self._interrupted, CLEAN_SECONDS)
            self._exit_after(PATIENCE_SECONDS)
        elif server is not None:
            await close(server, CLEAN_SECONDS)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for chain in self.context.chains:
            await chain.close()
