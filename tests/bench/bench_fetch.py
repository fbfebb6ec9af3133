"""Cards fetched and verified: `python -m tests.bench.bench_fetch [--hosts N]`.

A local TLS server answers 200 ms late for 500 hosts of their own certificate authority; each host's card is fetched by
its domain, its opt-out first, and held to its hash. Beside it, in the same run: what the same server gives to a plain
httpx client that checks nothing, and the whole loop: from pointers in the database to facts in it, within its budgets.
And what the flood costs: the memory of 100,000 pointers to one host and of as many names, waiting in the database and
in the loop, and the processor time of a body in chunks of one byte.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import trustme

from indexer.fetcher.card_fetcher import CardFetcher, CardRequest, CardState
from indexer.fetcher.connections import tls_context
from indexer.fetcher.dns import SystemResolver, TxtRecords
from indexer.fetcher.fetch_loop import FetchLoop
from indexer.fetcher.host_names import DomainVerifier
from indexer.fetcher.http_fetcher import HttpFetcher
from indexer.fetcher.reasons import FetchError
from indexer.fetcher.schedule import Job, Priority, Schedule
from indexer.model import BlockFacts, BlockRef, Event, EventKind, PointerAnchor
from indexer.store import Store, Writer, block_writer, connect
from parsers.bitcoin.tx import Outpoint
from tests.hostile import Behave, Hostile, Net, answer, raw

WORKERS = 64
LATENCY = 0.2
PATH = "/.well-known/agent.json"
CARD = b'{"name": "Agent", "url": "https://agent.example/", "description": "%s"}' % (b"x" * 2_000)
FLOOD = 100_000


def late(data: bytes) -> Behave:
    """Answer after the latency."""

    async def behave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(LATENCY)
        writer.write(data)

    return behave


async def for_all(hosts: list[str], work: Callable[[str], Awaitable[None]]) -> float:
    """Seconds that so many workers take for all hosts."""
    left = iter(hosts)

    async def worker() -> None:
        for host in left:
            await work(host)

    begun = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(WORKERS)))
    return time.perf_counter() - begun


async def cards(hosts: list[str], folder: Path) -> None:
    """Print how many cards are fetched a second, with every check and with none."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    async with Hostile(authority, hosts) as server:
        server.say(PATH, late(answer("200 OK", CARD)))
        server.say("/robots.txt", late(answer("404 Not Found")))
        table = {(host, 443): ("127.0.0.1", server.port) for host in hosts}
        fetching = CardFetcher(HttpFetcher(SystemResolver(), tls_context(str(folder / "ca.pem")), table))
        request = CardRequest((sha256(CARD).digest(),))

        async def checked(host: str) -> None:
            result = await fetching.fetch_card(host, request)
            assert result.state is CardState.MET, result.refusal

        trusting = ssl.create_default_context(cafile=str(folder / "ca.pem"))

        async def plain(host: str) -> None:
            async with httpx.AsyncClient(verify=trusting, trust_env=False) as client:
                for path in ("/robots.txt", PATH):
                    await client.get(
                        f"https://127.0.0.1:{server.port}{path}",
                        headers={"Host": host},
                        extensions={"sni_hostname": host},
                    )

        for title, work in (("fetched and verified", checked), ("plain httpx, nothing checked", plain)):
            took = await for_all(hosts, work)
            print(f"{title:30} {len(hosts) / took:7.0f} cards/s, {WORKERS} at once, {LATENCY * 1000:.0f} ms late")


def block(locators: list[str], digest: bytes) -> BlockFacts:
    """A block of pointers to these."""
    messages = [
        Event(
            kind=EventKind.POINTED, position=number, tx_index=number + 1, txid=sha256(locator.encode()).digest(),
            outpoint=Outpoint(sha256(locator.encode()).digest(), 0),
            pointer=PointerAnchor(id=locator, domain=locator, digest=digest, uri=None, form="raw32"),
        )
        for number, locator in enumerate(locators)
    ]  # fmt: skip
    return BlockFacts(BlockRef("demo", 1, bytes(32), bytes(32), 0, bytes(80)), tuple(messages), {})


async def loop(hosts: list[str], folder: Path) -> None:
    """Print how many cards the loop fetches, verifies and writes a second, from the block on."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "loop.pem"))
    engine = connect(f"sqlite:///{folder}/loop.db")
    store, writer = Store(engine), Writer(engine)
    async with Hostile(authority, hosts) as server:
        server.say(PATH, late(answer("200 OK", CARD)))
        server.say("/robots.txt", late(answer("404 Not Found")))
        table = {(host, 443): ("127.0.0.1", server.port) for host in hosts}
        fetcher = HttpFetcher(SystemResolver(), tls_context(str(folder / "loop.pem")), table)
        fetching = FetchLoop(store, writer, CardFetcher(fetcher), DomainVerifier(fetcher, TxtRecords()))
        block_writer.append(writer, "demo", [block(hosts, sha256(CARD).digest())])
        begun = time.perf_counter()
        running = asyncio.create_task(fetching.run())
        while (met := store.fetches.counts()["met"]) < len(hosts):
            assert not running.done(), running.exception()
            await asyncio.sleep(0.1)
        took = time.perf_counter() - begun
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        print(
            f"{'the loop, from block to fact':30} {met / took:7.0f} cards/s, hosts of {len(hosts)} registrable domains"
        )
    writer.close()
    engine.dispose()


async def flooded(folder: Path) -> None:
    """Print what the loop's memory is under a block of pointers."""
    for title, locator in (("pointers to one host", "https://victim.example/{}"), ("names", "name{}.test{}")):
        engine = connect(f"sqlite:///{folder}/{title[:5]}.db")
        store, writer = Store(engine), Writer(engine)
        fetcher = HttpFetcher(SystemResolver(), tls_context())
        block_writer.append(
            writer, "demo", [block([locator.format(number, number) for number in range(FLOOD)], bytes(32))]
        )
        fetching = FetchLoop(store, writer, CardFetcher(fetcher), DomainVerifier(fetcher, TxtRecords()))
        tracemalloc.start()
        begun, looks = time.perf_counter(), 0
        while len(fetching.schedule) < FLOOD and looks < 20:
            await fetching.look()
            looks += 1
        took = time.perf_counter() - begun
        size, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        waiting = len(fetching.schedule)
        text = f"{waiting:7,} taken in, {size / 1e6:.0f} MB, {peak / 1e6:.0f} MB at most, {took:.1f} s in {looks} looks"
        print(f"{FLOOD:,} {title:22} {text}")
        writer.close()
        engine.dispose()


def flood() -> None:
    """Print what pointers that wait cost in memory, and how fast they are taken in."""
    for title, key, host in (
        ("pointers to one host", "https://victim.example/{}", "victim.example"),
        ("names", "name{}.example", "name{}.example"),
    ):
        keys = [(key.format(number), host.format(number)) for number in range(FLOOD)]
        tracemalloc.start()
        schedule = Schedule(time.monotonic)
        begun = time.perf_counter()
        taken = sum(schedule.add(Job(key, host, Priority.NEW, 0.0)) for key, host in keys)
        took = time.perf_counter() - begun
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        print(f"{FLOOD:,} {title:22} {taken:7,} taken, {size / max(taken, 1):4.0f} bytes each, {taken / took:,.0f}/s")


async def crumbs() -> None:
    """Print the processor time that chunks of one byte cost until they are refused."""
    authority = trustme.CA()
    async with Hostile(authority) as server:
        server.say(PATH, raw(answer("200 OK", b"1\r\nx\r\n" * 5_000, "Transfer-Encoding: chunked", length=False)))
        fetcher = Net(server, authority).fetcher(limits=HttpFetcher(SystemResolver(), tls_context()).limits)
        begun = time.process_time()
        try:
            await fetcher.get(f"https://agent.example{PATH}")
        except FetchError as error:
            print(f"4,097 chunks of one byte       {1000 * (time.process_time() - begun):.0f} ms, then: {error}")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=500)
    count = parser.parse_args().hosts
    with TemporaryDirectory() as folder:
        asyncio.run(cards([f"agent{number}.example" for number in range(count)], Path(folder)))
        asyncio.run(loop([f"agent.site{number}" for number in range(count)], Path(folder)))
        asyncio.run(flooded(Path(folder)))
    asyncio.run(crumbs())
    flood()


if __name__ == "__main__":
    main()
