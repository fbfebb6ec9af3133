"""Visits to endpoints: `python -m tests.bench.bench_probes [--listings N] [--urls N]`.

A day of visits to the URLs of unchanged listings, written one by one: the rows of changes that they write, and the
milliseconds of each. The loop over the URLs of many domains, with a clock that only this program moves: how soon all
are visited, and whether the log of visits keeps the budgets. The processor time of a request of a visit beside one of a
card fetch, of the same server. And the 99th percentile of searches while visits are made.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Address
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, NamedTuple
from zlib import crc32

import trustme
from sqlalchemy import func, select

from indexer.fetcher.budgets import VisitRate, VisitRates
from indexer.fetcher.card_fetcher import CardFetcher
from indexer.fetcher.connections import Admit
from indexer.fetcher.dns import TxtRecords
from indexer.fetcher.fetch_loop import FetchLoop
from indexer.fetcher.host_names import DomainVerifier
from indexer.fetcher.http_fetcher import PostAnswer
from indexer.fetcher.reasons import FetchError
from indexer.store import Store, Writer, connect
from indexer.store.checks import CHECK_INTERVAL
from indexer.store.schema import changes
from overlay.systems.liveness.liveness_checks import LivenessChecks
from overlay.systems.liveness.probes import probe
from overlay.systems.liveness.store import HealthState, ProbeMethod, ProbeOutcome, ProbeTarget, record_probe
from overlay.systems.liveness.store import record_targets as record
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.hostile import HOSTS, Hostile, Net, answer, raw
from tests.pointer_facts import NOW, Clock
from tests.serving import new_app, serving

HOST = HOSTS[0]
CARD = b'{"name": "Agent", "url": "https://agent.example/", "description": "%s"}' % (b"x" * 2_000)
BATCH = 200
SECOND = 1_000
DAY_OF_A_MILLION = 86_400 / 1_000_000
"""Seconds between the visits of a day to a million endpoints."""


class Visited(NamedTuple):
    """A visit: when (seconds), and the domain and the URL."""

    time: float
    domain: str
    url: str


class LoggedHosts:
    """Hosts that answer every request, each at an address of another block, and the log of visits to them."""

    limits = SimpleNamespace(redirects=3)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.log: list[Visited] = []

    async def get(self, _url: str, **_options: Any) -> Any:
        """No host serves a card."""
        raise FetchError("fetch-missing")

    @asynccontextmanager
    async def visit(self, admit: Admit) -> AsyncIterator[Any]:
        async def check_opt_out(url: str) -> None:
            host = url.split("/")[2]
            admit(host, IPv4Address(0x10000000 + (crc32(host.encode()) & 0xFFFFFFF)), 443)
            self.log.append(Visited(self._clock(), host, url))

        async def look(_url: str, _headers: Mapping[str, str], _method: str = "HEAD", _most: int = 0) -> PostAnswer:
            return PostAnswer(200, b"", None)

        yield SimpleNamespace(check_opt_out=check_opt_out, look=look)


def enlist(writer: Writer, urls: Sequence[str]) -> None:
    """Have these URLs visited, each for a registration."""
    for start in range(0, len(urls), BATCH):
        few = urls[start : start + BATCH]
        targets = [ProbeTarget(f"of {url}", url, ProbeMethod.READ.value, named=True) for url in few]
        record(writer, targets, [target.registration for target in targets], None, NOW)


def rows_of_changes(store: Store) -> int:
    """The rows of the outbox."""
    with store.engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(changes)).scalar_one())


def unchanged_day(store: Store, writer: Writer, listings: int) -> int:
    """The rows of changes that a day of visits to unchanged listings writes; prints how long one takes."""
    urls = [f"https://host{number}.example/mcp" for number in range(listings)]
    enlist(writer, urls)
    for url in urls:
        record_probe(writer, url, ProbeOutcome(HealthState.ANSWERS, latency_ms=100), NOW)
    before, begun = rows_of_changes(store), time.perf_counter()
    for url in urls:
        record_probe(writer, url, ProbeOutcome(HealthState.ANSWERS, latency_ms=120), NOW + CHECK_INTERVAL)
    took, written = time.perf_counter() - begun, rows_of_changes(store) - before
    print(f"{listings:,} unchanged listings: {written} rows of changes, {took / listings * 1e3:.2f} ms a visit stored")
    return written


async def budgeted_days(store: Store, writer: Writer, domains: int, urls: int, days: int = 2) -> list[Visited]:
    """The log of so many days of visits to URLs of these domains; prints how long the first visit of all takes."""
    clock = Clock(NOW)
    hosts: Any = LoggedHosts(clock)
    checks = [LivenessChecks(hosts, store, writer, "https://registry.example")]
    loop = FetchLoop(
        store, writer, CardFetcher(hosts), DomainVerifier(hosts, TxtRecords()), checks=checks, clock=clock,
        ticking=clock,
    )  # fmt: skip
    enlist(writer, [f"https://name{number % domains}.example{number % domains}.com/{number}" for number in range(urls)])
    for day in range(1, days + 1):
        while len(hosts.log) < day * urls:
            await loop.look()
            loop.start()
            await loop.settle()
            clock.tick(SECOND)
        print(f"{urls:,} URLs of {domains:,} domains: all visited after {clock() - NOW / 1_000:,.0f} s")
        clock.now = NOW + day * CHECK_INTERVAL
    return list(hosts.log)


def broken_rules(log: Iterable[Visited], rates: VisitRates) -> list[str]:
    """The visits of a log that are beyond the budgets: of a domain, of all, and of a URL a day."""
    by_name: dict[str, list[float]] = {}
    for visited in log:
        for name in (visited.domain, visited.url, ""):
            by_name.setdefault(name, []).append(visited.time)
    a_day = VisitRate(CHECK_INTERVAL / SECOND, 1)
    broken = []
    for name, times in by_name.items():
        rate = rates.total if not name else a_day if "/" in name else rates.domain
        tokens, before = float(rate.burst), times[0]
        for moment in times:
            tokens = min(rate.burst, tokens + (moment - before) / rate.interval) - 1
            before = moment
            if tokens < -1e-6:
                broken.append(f"{name or 'all'}: a visit too many at {moment:,.0f} s")
    return broken


async def beside_a_fetch(times: int) -> None:
    """Print the processor time of a request of a visit, and of a card fetch; that of the server is in both."""
    authority = trustme.CA()
    costs = {}
    async with Hostile(authority) as server:
        server.say("/card.json", raw(answer("200 OK", CARD)))
        server.say("/endpoint", raw(answer("200 OK", b"")))
        fetcher = Net(server, authority).fetcher()
        works: dict[str, Callable[[], Awaitable[object]]] = {
            "fetch": lambda: fetcher.get(f"https://{HOST}/card.json"),
            "visit": lambda: probe(fetcher, f"https://{HOST}/endpoint", ProbeMethod.READ, "+https://registry.example"),
        }
        for name, work in works.items():
            await work()
            server.requests.clear()
            begun = time.process_time()
            for _ in range(times):
                await work()
            costs[name] = (time.process_time() - begun) / len(server.requests)
    visit, fetch = costs["visit"], costs["fetch"]
    print(f"a request of a visit {visit * 1e3:.2f} ms, of a card fetch {fetch * 1e3:.2f} ms: {visit / fetch:.2f} times")


async def beside_searches(folder: Path, listings: int, rounds: int, interval: float, questions: int = 200) -> None:
    """Print the 99th percentile of the time of a search over HTTP while a visit is made at each interval (seconds),
    beside that of searches alone, taken in turns; the server that is visited is in the same process, too."""
    authority, kit = trustme.CA(), ChainKit(funds=listings)
    for start in range(0, listings, BATCH):
        numbers = range(start, min(start + BATCH, listings))
        kit.mine(
            *(kit.inscribe(agent(f"Agent {number}", description=f"Charts of {number % 97}")) for number in numbers)
        )
    times: dict[bool, list[float]] = {False: [], True: []}
    async with Hostile(authority) as server, serving(new_app(folder, MemoryChain(*kit.blocks, name="live"))) as session:
        server.say("/endpoint", raw(answer("200 OK", b"")))
        fetcher = Net(server, authority).fetcher()

        async def visit() -> None:
            while True:
                await probe(fetcher, f"https://{HOST}/endpoint", ProbeMethod.READ, "+https://registry.example")
                await asyncio.sleep(interval)

        for number in range(2 * rounds + 2):
            is_beside = bool(number % 2)
            visiting = asyncio.create_task(visit()) if is_beside else None
            for question in range(questions):
                begun = time.perf_counter()
                async with session.get(
                    "/v1/search", params={"q": f"charts {number * questions + question}"}
                ) as response:
                    assert (await response.json())["total"]
                times[is_beside].append(time.perf_counter() - begun)
            if visiting is not None:
                visiting.cancel()
            if number < 2:  # both are warm now
                times[is_beside].clear()
    alone, beside = (sorted(times[which])[int(len(times[which]) * 0.99)] for which in (False, True))
    print(
        f"p99 of a search alone {alone * 1e3:.2f} ms, beside {1 / interval:.0f} visits a second {beside * 1e3:.2f} ms: "
        f"{beside / alone:.2f} times"
    )


def main() -> None:
    """Measure all four."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=100_000)
    parser.add_argument("--domains", type=int, default=1_000)
    parser.add_argument("--urls", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    asyncio.run(beside_a_fetch(args.times))
    for interval in (VisitRates().total.interval, DAY_OF_A_MILLION):
        with TemporaryDirectory() as folder:
            asyncio.run(beside_searches(Path(folder), 2_000, args.rounds, interval))
    with TemporaryDirectory() as folder:
        for name in ("day", "budgets"):
            engine = connect(f"sqlite:///{Path(folder) / name}.db")
            store, writer = Store(engine), Writer(engine)
            if name == "day":
                assert unchanged_day(store, writer, args.listings) == 0
            else:
                log = asyncio.run(budgeted_days(store, writer, args.domains, args.urls))
                assert (broken := broken_rules(log, VisitRates())) == [], broken[:9]
            writer.close()
            engine.dispose()


if __name__ == "__main__":
    main()
