"""The loops of a long-running command: followers, the feed of the index, the server; all in one event loop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from asyncio.subprocess import DEVNULL
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from indexer.chains import SourceError, SourceUnavailableError, Sparse
from indexer.follow import FIRST_PAUSE, LONGEST_PAUSE, Follower
from indexer.store import StoreUnavailableError
from indexer.store.logos import Logos as StoredLogos
from overlay.catalogue import Catalogue
from overlay.counters import Counters
from overlay.engines import BusyError, UnavailableError
from overlay.feed import Feed
from overlay.logos import Logos
from overlay.memory import few_arenas, rarely_collect, tidy_up
from overlay.news import News
from overlay.polling import Polling
from overlay.ports import Services, Watched
from overlay.services import BLOCKS, House, Loops, compiled_before, diagnose, version, writing_index
from overlay.standing import Standing
from overlay.workers import CLEAN_SECONDS, DRAIN_SECONDS, PATIENCE_SECONDS
from parsers.tx import Outpoint

if TYPE_CHECKING:
    from aiohttp import web

    from indexer.asking import Known

log = logging.getLogger(__name__)

SWITCH_SECONDS = 0.0005
"""What a thread that works in Python keeps others waiting, in seconds. An answer gives the interpreter up half a dozen
times: while another thread indexes, 100 searches a second are answered with the usual 5 ms, and 700 with this."""

BULK = 2_000
"""Changes carried over without a pause, after which the memory they took is given back."""

BUSY_SECONDS = 1.0
"""How often a process tries to become the one that feeds the index."""

AWAY_SECONDS = 0.5
"""How often a database that does not answer is tried again."""

AWAY_TOLD_SECONDS = 10.0
"""Between two lines that say so: half a dozen loops wait for it at once."""

OWNER_SECONDS = 5.0
"""What a source gets to say where an owner is, before a proof is served without that."""


class StoppingError(Exception):
    """Work given up because the process is to end."""


class Runner:
    """Runs a house until a signal. `serving` is called with the URL once requests are answered, which is `url` from
    then on; `share_port` lets other processes of this user serve on the same port, with whom `counters` are shared.
    `ending` is called at a signal, and `leaving`, by another thread, before this process leaves its threads behind."""

    def __init__(
        self,
        house: House,
        serving: Callable[[str], None] = lambda _: None,
        *,
        share_port: bool = False,
        counters: Counters | None = None,
        ending: Callable[[], None] = lambda: None,
        leaving: Callable[[], None] = lambda: None,
    ) -> None:
        self._house, self._serving, self._share_port = house, serving, share_port
        self._ending, self._leaving = ending, leaving
        self.standing = Standing(house.settings, house.store, house.engine, version())
        self._counters = counters or Counters()
        self.url = ""
        self._news = News()
        self._asked = asyncio.Event()
        self._signalled, self._hurry = asyncio.Event(), asyncio.Event()
        self._followers = [house.follower(chain, self._news.tell) for chain in house.chains]
        for follower in self._followers:
            self.standing.follow(follower.progress)
        for chain in house.chains:
            self.standing.watch(chain)
        self._stopping = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._compiling = asyncio.Lock()
        self._logos = Logos(StoredLogos(house.store.home))
        self._polling = Polling(house.store, self.standing, self._news, self._logos)
        self._away_told = -AWAY_TOLD_SECONDS
        self._beside: list[Callable[[], Coroutine[Any, Any, None]]] = []

    def also(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do this beside everything else, until the end."""
        self._beside.append(work)

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT. Raises SourceError, StoreError, EngineError, AddressError or OSError when it
        cannot go on."""
        few_arenas()
        rarely_collect()
        sys.setswitchinterval(SWITCH_SECONDS)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        server = await self._serve() if self._house.engine else None
        try:
            self._start_all()
            await self._until_stopped()
        finally:
            self._stopping.set()
            await self._end(server)

    def _stop(self, number: int) -> None:
        """End at a signal. Who presses Ctrl-C twice waits for no answers."""
        if self._signalled.is_set():
            if number == signal.SIGINT:
                self._hurry.set()
            return
        self._signalled.set()
        self._stopping.set()
        if self._house.engine is None:
            self._leave_after(PATIENCE_SECONDS)
        else:
            self._leave_after(DRAIN_SECONDS + CLEAN_SECONDS + PATIENCE_SECONDS)
        self._ending()

    def _leave_after(self, seconds: float) -> None:
        """What a thread is in the middle of cannot be interrupted; the process can be."""
        timer = threading.Timer(seconds, self._leave)
        timer.daemon = True
        timer.start()

    def _leave(self) -> None:
        self._leaving()
        os._exit(0)

    def _start_all(self) -> None:
        house = self._house
        for follower in self._followers:
            self._start(self._lasting(partial(self._follow, follower)))
        if house.chains:
            self._start(self._lasting(self._look_for_asked))
            # nobody is asked for the sake of a demonstration
            if house.settings.fetch_resolve or not house.settings.sample:
                self._start(self._lasting(self._fetch))
        if house.writer is not None and house.settings.rates:
            self._start(self._lasting(self._ask_for_rates))
        if house.engine is not None:
            feed = Feed(house.store, house.engine, house.duplicates)
            self._start(self._lasting(partial(self._carry, feed)))
            self._start(self._lasting(self.standing.keep_hashing))
            self._start(self._lasting(self._polling.rates))
            self._start(self._lasting(self._polling.logos))
            if not house.chains:
                self._start(self._lasting(self._polling.changes))
        for work in self._beside:
            self._start(work())
        self._start(self._wait_for_signal())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    async def _lasting(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin anew with what the database broke off by going away: a server restarts, or another takes over."""
        while True:
            try:
                await work()
                return
            except (StoreUnavailableError, UnavailableError) as error:
                if monotonic() - self._away_told >= AWAY_TOLD_SECONDS:
                    self._away_told = monotonic()
                    # as text: whoever keeps the line must not keep what the error holds
                    log.warning("waiting for the database: %s", str(error))
            # the frames that the error has passed through hold each other, and with them the right to write the index
            await asyncio.to_thread(gc.collect)
            await asyncio.sleep(AWAY_SECONDS)

    async def _wait_for_signal(self) -> None:
        await self._signalled.wait()

    async def _until_stopped(self) -> None:
        """Return after a signal; raise what ended a task."""
        while not self._signalled.is_set():
            done, self._tasks = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                with suppress(StoppingError):
                    task.result()

    async def _end(self, server: web.AppRunner | None) -> None:
        for task in self._tasks:
            task.cancel()
        if server is not None:
            await self._end_serving(server)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for chain in self._house.chains:
            await chain.close()

    async def _end_serving(self, server: web.AppRunner) -> None:
        from overlay.api.drain import close, drain

        if self._signalled.is_set():
            await drain(server, DRAIN_SECONDS, self._hurry)
            self._leave_after(PATIENCE_SECONDS)
        else:
            await close(server)

    # -- following

    async def _follow(self, follower: Follower) -> None:
        """One chain, from connecting on. Without anything else to do, a chain that stops ends the process; so does one
        that cannot be used at the start, unless others can."""
        if not isinstance(follower.chain, Sparse):  # a sparse chain has no blocks to walk
            async with self._compiling:
                await compile_aside(BLOCKS)
        try:
            await self._connect(follower)
        except SourceError as error:
            if self._is_last(follower):
                raise
            follower.give_up(str(error))
            return
        await follower.run()
        if self._house.engine is None and self._is_last(follower):
            raise SourceError(follower.progress.error)

    def _is_last(self, follower: Follower) -> bool:
        """Whether all other chains have stopped."""
        others = [each.progress for each in self._followers if each is not follower]
        return all(each.state == "stopped" for each in others)

    async def _connect(self, follower: Follower) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                await follower.open()
            except SourceUnavailableError as error:
                why = str(error).removeprefix(f"{follower.progress.name}: ")
                log.warning("%s is unreachable: %s; trying again in %d s", follower.progress.name, why, pause)
                follower.progress.state, follower.progress.error = "unreachable", str(error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                return

    async def _fetch(self) -> None:
        """Fetch what pointers name, and ask hosts what they say of agents."""
        fetching = await asyncio.to_thread(self._house.fetching, self._news.tell)
        self.standing.came_to = fetching.came_to
        with self._news.listen() as woken:
            await fetching.run(woken)

    async def _look_for_asked(self) -> None:
        """Fetch what publishers asked for, here or in another process, from the chains followed here."""
        from indexer.requests import RequestLoop
        from indexer.store.requests import Requests

        sources = [self._house.source(follower) for follower in self._followers]
        await RequestLoop(Requests(self._house.store.engine), sources, self._asked).run()

    # -- exchange rates

    async def _ask_for_rates(self) -> None:
        """Ask the feeds, in the process that writes facts."""
        from indexer.rates import RatesLoop
        from indexer.store.rates import Quotes

        told = self._house.settings
        quotes = Quotes(self._house.store.engine)
        loop = RatesLoop(
            told.rates, quotes, every=told.rates_every, max_age=told.rates_max_age, changed=self._polling.quoted
        )
        self.standing.hear(loop)
        await loop.run()

    # -- the index

    async def _carry(self, feed: Feed) -> None:
        """Keep the index in step: woken by every write, one batch at a time."""
        await asyncio.to_thread(feed.tidy)
        with self._news.listen() as woken:
            await self._carry_when(woken, feed)

    async def _carry_when(self, woken: asyncio.Event, feed: Feed) -> None:
        since_quiet = 0
        while True:
            woken.clear()
            reached = self.standing.reached()
            try:
                with writing_index(self._house.settings):
                    carried = await asyncio.to_thread(feed.step, self._give_up)
            except BusyError:
                # another process serving the same data feeds the index, and its commits are seen here too
                await asyncio.sleep(BUSY_SECONDS)
                continue
            since_quiet += carried
            if not carried:
                self.standing.publish(reached)
                if since_quiet >= BULK:
                    await asyncio.to_thread(tidy_up)
                since_quiet = 0
                await woken.wait()

    def _give_up(self, _done: int) -> None:
        if self._stopping.is_set():
            raise StoppingError

    # -- serving

    async def _serve(self) -> web.AppRunner:
        from overlay.api.app import create_app
        from overlay.api.server import create_runner, listen

        settings = self._house.settings
        await asyncio.to_thread(self._house.begin)
        server = create_runner(create_app(self.services()))
        self.url = await listen(server, settings.host, settings.port, share=self._share_port)
        self._serving(self.url)
        return server

    def _ask_sources(self) -> Callable[[bytes], Known | None]:
        """What asks the chains followed here for a transaction, from another thread."""
        from indexer.asking import Asking

        sources = [self._house.source(follower) for follower in self._followers]
        return Asking(sources, asyncio.get_running_loop())

    def watched(self) -> Watched:
        """What who watches this process is told."""
        return Watched(**self._told())

    def _told(self) -> dict[str, Any]:
        from indexer.store.requests import Requests

        return {
            "status": self.standing.status,
            "ready": self.standing.ready,
            "version": version(),
            "requests": Requests(self._house.store.home),
            "refused": self.standing.refused,
            "ingested": self.standing.ingested,
            "fetched": lambda: self.standing.came_to,
            "counters": self._counters,
            "log_requests": "requests" in self._house.settings.log,
        }

    def services(self) -> Services:
        """What the application is given."""
        store, engine = self._house.store, self._house.engine
        if engine is None:
            raise ValueError("a house without an index cannot serve")
        from indexer.store.rechecks import Rechecks

        settings = self._house.settings
        return Services(
            **self._told(),
            engine=engine,
            store=Catalogue(store),
            diagnose=partial(diagnose, settings, store, ask=self._ask_sources()),
            chains=self.standing.chains,
            heights=self.standing.heights,
            recheck=Rechecks(store.home).ask,
            asked=self._asked.set,
            news=self._news,
            exchange=self.standing.exchange,
            logos=self._logos,
            limits=settings.limits,
            change_blocks=settings.change_blocks,
            trusted_proxies=settings.trusted_proxies,
            check_owner=self._check_owner if any(each.owners for each in self._followers) else None,
        )

    async def _check_owner(self, chain: str, outpoint: Outpoint) -> bool | None:
        """Whether an outpoint is still unspent, as the source of a chain says within OWNER_SECONDS."""
        owners = next((each.owners for each in self._followers if each.progress.name == chain), None)
        if owners is None:
            return None
        try:
            async with asyncio.timeout(OWNER_SECONDS):
                return await owners.still_unspent(outpoint)
        except TimeoutError:
            return None


async def compile_aside(loops: Loops) -> None:
    """Have a process of its own compile loops: the compiler's 90 MB go with it.

    Where there is no cache to share, or it fails, this process compiles when they are first used.
    """
    if "NUMBA_CACHE_DIR" not in os.environ or compiled_before(loops):
        return
    command = (sys.executable, "-c", loops.prepare)
    child = await asyncio.create_subprocess_exec(*command, stdout=DEVNULL, stderr=DEVNULL)
    try:
        await child.wait()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()  # or asyncio logs that its loop closed before the child ended
