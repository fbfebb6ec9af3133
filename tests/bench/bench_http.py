"""Searches a second over HTTP on one core: `python -m tests.bench.bench_http [native whoosh ...] [--offers N]`.

A server process over an index of N offers (pages of 20 full items, no result cache) answers 16 connections that are
kept open: 60 % two exact words, 25 % one word with a typo, 15 % filters only. The words are as common in the index as
those of real questions are in real lists (`SHARES`). Two servers stand beside it in the same run: `bare`, an aiohttp
handler that returns a page of the same size and does nothing, and `canned`, the whole application over an engine that
finds the same 20 listings for free; `limited` is that with a rate limit on top, which is never met. Requests a second
of server CPU time are what one core can do, whatever else the machine is busy with.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import random
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import quantiles
from time import monotonic, perf_counter
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from indexer.model import RegistrationState, Status
from indexer.setting_values import Quota
from indexer.store.requests import TransactionRequest
from overlay.api.server import create_runner
from overlay.api.services import AppServices, ProcessInfo, PublisherServices, SiteSettings
from overlay.app.http_app import create_app
from overlay.app.memory import tune_garbage_collection
from overlay.engines import IndexPosition
from overlay.listings import item_json
from overlay.listings.listing import Listing
from overlay.listings.records import FeedPage, HistoryEntry, Registration
from overlay.projection.search_index import SearchIndex
from overlay.search.analysis import stem
from overlay.search.document import Document
from overlay.search.forward import Analysed
from overlay.search.query import Cheapest, Hit, Hits, Query, Suggestion
from overlay.text.compact_json import encode
from parsers.bitcoin.tx import Outpoint
from parsers.cards import AgentCard, Kind
from tests.bench.listings import listings, offers_of
from tests.ports import free_port

CONNECTIONS = 16
WARM_UP = 4.0
"""Seconds before measuring: every part of an index that was just written is slow to touch for the first time."""
SHARED = Path(os.environ.get("A2B_TEST_SHARED", Path(__file__).parents[3] / "shared")) / "data"


def documents(offers: int) -> list[Document]:
    """Listings with that many offers in all, with items of the size that the real feed makes."""
    return list(map(_full, offers_of(listings(data=SHARED if SHARED.is_dir() else None), offers)))


def _full(document: Document) -> Document:
    txid = bytes.fromhex(document.id[:64])[::-1]
    card = AgentCard(
        name=document.name, description=document.description, protocol="0.3", version="1.0.0", skills=document.skills,
        url=f"https://{document.domain or 'a.example'}/a2a", tags=document.tags, offers=document.offers,
    )  # fmt: skip
    state = RegistrationState(
        id=document.id, kind=Kind.AGENT, status=Status.LIVE, outpoint=Outpoint(txid, 0), offset=0, satoshis=1,
        owner=document.owner, map={"app": "bench", "type": "a2b-agent"}, card=txid, winner=Outpoint(txid, 0),
        updated_height=document.updated_height or 0, created_height=document.created_height or 0,
    )  # fmt: skip
    subject = Listing(
        state=state, card=card, chain="bsv", caip2="bsv:mainnet", updated_time=document.updated_time,
        created_time=document.created_time,
    )  # fmt: skip
    return replace(document, item=encode(item_json.listing_json(subject)))


SHARES = (0.000_1, 0.000_7, 0.004_7, 0.022, 0.077, 0.16, 0.4)
"""Of all listings, those that hold a word of a question: quantiles 0, 10, 25, 50, 75, 90 and 100 % over the words of
five letters and more in the questions of `relevance-dev.jsonl`, in the 18,155 listings of the three public lists."""
_QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


def _share(chance: random.Random) -> float:
    """How common the word to ask for shall be."""
    position = chance.random()
    upper = next(number for number, quantile in enumerate(_QUANTILES) if quantile >= position) or 1
    part = (position - _QUANTILES[upper - 1]) / (_QUANTILES[upper] - _QUANTILES[upper - 1])
    return float(SHARES[upper - 1] ** (1 - part) * SHARES[upper] ** part)


def questions(results: list[Document], seed: int = 7) -> Iterator[str]:
    """Query strings without end, in the mix said above."""
    chance = random.Random(seed)
    holding = Counter(term for document in results for term in _words(document))
    while True:
        dice, document = chance.random(), chance.choice(results)
        held = _words(document)

        def pick(held: dict[str, str] = held) -> str:
            threshold = math.log(_share(chance) * len(results))
            return held[min(held, key=lambda term: abs(math.log(holding[term]) - threshold))]

        if dice >= 0.85 or not held:
            currency, price = chance.choice(("USD", "BSV", "EUR")), chance.choice(("1", "10", "0.5"))
            yield urlencode({"acceptedCurrency": currency, "maxPrice": price, "type": chance.choice(("agent", "tool"))})
        elif dice >= 0.6:
            word = pick()
            position = chance.randrange(1, len(word) - 2)
            yield urlencode({"q": word[:position] + word[position + 1] + word[position] + word[position + 2 :]})
        else:
            yield urlencode({"q": f"{pick()} {pick()}"})


def _words(document: Document) -> dict[str, str]:
    """The words of a listing that a question may hold, by their stems."""
    results = {stem(word): word for word in Analysed.of(document).surfaces}
    return {term: word for term, word in results.items() if len(word) > 4 and word.isalpha()}


class Canned:
    """An engine that finds the same 20 listings whatever it is asked."""

    name, version, slow, is_slow_engine = "canned", "canned-1", False, False

    def __init__(self, results: list[Document]) -> None:
        first = results[:20]
        cheapest = Cheapest("price-0", "0.5", "USD", "P1M")
        self._hits = Hits(
            tuple(Hit(item.id, item.item, 12.345678, cheapest, (1.0, item.id)) for item in first), 1_234, 1_234
        )

    def position(self) -> IndexPosition | None:
        return IndexPosition("epoch", 1)

    def search(self, query: Query) -> Hits:  # noqa: ARG002 - whatever it is asked
        return self._hits

    def suggest(self, text: str, limit: int) -> list[Suggestion]:  # noqa: ARG002 - it has none
        return []


class Unasked:
    """Requests of nobody."""

    def add(self, txid: bytes, client: str, now: int, /) -> TransactionRequest:
        return TransactionRequest(txid=txid, client=client, requested_at=now, next_at=now)

    def counts(self) -> dict[str, int]:
        return {}


class Nothing:
    """A store that knows nothing: searching asks only the engine."""

    is_here = True

    def listing(self, _id: str, /) -> Registration | None:
        return None

    def history(self, _registration_id: str, /) -> list[HistoryEntry]:
        return []

    def card(self, _sha256: bytes, /) -> bytes | None:
        return None

    def changes(self, _since: int, _limit: int, _epoch: str | None = None, /) -> FeedPage:
        return FeedPage("epoch", (), 0)


def _engine(name: str, results: list[Document], folder: Path) -> Any:
    if name in ("canned", "limited"):
        return Canned(results)

    making = SearchIndex(f"{name}:{folder / name}")
    making.replace([], results, IndexPosition("epoch", 1))
    making.close()
    return SearchIndex(f"{name}:{folder / name}")


def _application(name: str, offers: int, folder: Path) -> web.Application:
    results = documents(offers)
    if name != "bare":
        chains, heights = {"bsv": "bsv:mainnet"}, {"bsv": 900_000}
        return create_app(
            AppServices(
                process=ProcessInfo(status=dict, ready=lambda: None, version="bench", requests=Unasked()),
                engine=_engine(name, results, folder), store=Nothing(), chains=lambda: chains, heights=lambda: heights,
                publishing=PublisherServices(diagnose=lambda _: {}),
                site=SiteSettings(limits={"read": Quota(999_999, 1)} if name == "limited" else {}),
            )
        )  # fmt: skip
    body = b'{"items":[' + b",".join(document.item for document in results[:20]) + b"]}"

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_get("/v1/search", answer)
    return app


async def _serve(name: str, offers: int, port: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        app = _application(name, offers, Path(folder))
        runner = web.AppRunner(app, access_log=None) if name == "bare" else create_runner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        tune_garbage_collection()
        await asyncio.Event().wait()


@dataclass(frozen=True, slots=True)
class Measured:
    """A server under load: requests and seconds by the clock and of its CPU, milliseconds each, bytes each."""

    requests: int
    seconds: float
    cpu: float
    latencies: list[float]
    size: float

    def row(self, name: str) -> str:
        """A line of the table."""
        cuts = quantiles(self.latencies, n=100)
        return (
            f"{name:<16}{self.requests / self.cpu:>10,.0f}{self.requests / self.seconds:>10,.0f}"
            f"{cuts[49]:>10.2f}{cuts[98]:>10.2f}{self.size / 1000:>10.1f}"
        )


async def _connection(
    port: int, requests: Iterator[str], gzip: bool, until: float, into: list[tuple[float, int]]
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    coding = "Accept-Encoding: gzip\r\n" if gzip else ""
    while monotonic() < until:
        began = perf_counter()
        writer.write(f"GET /v1/search?{next(requests)} HTTP/1.1\r\nHost: a\r\n{coding}\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        size = int(head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
        await reader.readexactly(size)
        into.append((1000 * (perf_counter() - began), size))
    writer.close()


def _cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _load(port: int, pid: int, requests: Iterator[str], seconds: float, *, gzip: bool) -> Measured:
    await asyncio.gather(*(_connection(port, requests, gzip, monotonic() + WARM_UP, []) for _ in range(CONNECTIONS)))
    results: list[tuple[float, int]] = []
    cpu, began = _cpu(pid), monotonic()
    await asyncio.gather(*(_connection(port, requests, gzip, began + seconds, results) for _ in range(CONNECTIONS)))
    sizes = [size for _, size in results]
    return Measured(
        len(results), monotonic() - began, _cpu(pid) - cpu, [ms for ms, _ in results], sum(sizes) / len(sizes)
    )


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
            asyncio.run(asyncio.sleep(0.1))
    raise SystemExit(f"the server ended with exit code {process.returncode}")


def main() -> None:
    """Measure each server in turn and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engines", nargs="*", default=["native"])
    parser.add_argument("--offers", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        asyncio.run(_serve(args.engines[0], args.offers, args.serve))
        return
    requests = list(islice(questions(documents(min(args.offers, 20_000))), 20_000))
    print(f"{'':<16}{'req/s CPU':>10}{'req/s':>10}{'p50 ms':>10}{'p99 ms':>10}{'kB':>10}")
    for name in ("bare", "canned", "limited", *args.engines):
        port = free_port()
        command = [sys.executable, "-m", "tests.bench.bench_http", name, "--serve", str(port)]
        process = subprocess.Popen([*command, "--offers", str(args.offers)])
        try:
            _wait(port, process)
            for gzip in (False, True) if name != "bare" else (False,):
                measured = asyncio.run(_load(port, process.pid, iter(requests * 10), args.seconds, gzip=gzip))
                print(measured.row(f"{name}, gzip" if gzip else name), flush=True)
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
