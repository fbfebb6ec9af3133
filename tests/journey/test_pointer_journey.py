"""From pointers on chain and what was fetched for them to answers over HTTP, with both engines."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import ClientSession

from indexer.model import Event, EventKind
from indexer.settings import Settings
from indexer.state_hash import digest as state_digest
from indexer.state_hash import state_hash
from indexer.store import FetchState, Store, Writer, block_writer, chain_marks, connect, visits
from indexer.store.requests import Requests
from overlay.api.services import AppServices, ProcessInfo, PublisherServices
from overlay.app.diagnosis import diagnose
from overlay.app.status_service import StatusService
from overlay.duplicates.duplicate_index import DuplicateIndex
from overlay.engines import ENGINES
from overlay.listings.repository import ListingRepository
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from parsers.cards import Kind
from tests.facts import CARD, born, name, says, state
from tests.opensearch_server import index_url
from tests.overlay.answer_models import fits
from tests.overlay.calls import raw
from tests.overlay.conftest import Serve, serve
from tests.pointer_facts import Clock, card, digest, fails, points, serves

__all__ = ["serve"]

ALPHA, BETA, GAMMA = card("Alpha"), card("Beta"), card("Gamma")
PAGE = "https://b.example/agents/my%20agent.json?x=1"
WELL_KNOWN = "https://a.example/.well-known/agent.json"


class Registry:
    """Facts, an index of them, and a client that asks over HTTP."""

    def __init__(
        self,
        store: Store,
        writer: Writer,
        clock: Clock,
        services: AppServices,
        client: ClientSession,
        duplicates: DuplicateIndex,
    ) -> None:
        self.store, self.writer, self.clock, self._client = store, writer, clock, client
        self._feed = IndexProjector(store, services.engine, duplicates)
        self._prev: dict[str, str] = {}

    def block(self, label: str, *messages: Event, chain: str = "demo", cards: dict[bytes, bytes] | None = None) -> None:
        """Mine these; heights go up by themselves, and `4b` goes on from whatever is there."""
        prev = self._prev.get(chain, "")
        placed = tuple(replace(item, position=index, tx_index=index + 1) for index, item in enumerate(messages))
        block_writer.append(self.writer, chain, [says(label, *placed, prev=prev, chain=chain, cards=cards)])
        self._prev[chain] = label

    def reorg(self, above: str, chain: str = "demo") -> None:
        block_writer.forget(self.writer, chain, int(above))
        self._prev[chain] = above

    def fetched(self, locator: str, *bodies: bytes, **more: Any) -> None:
        visits.record_fetch(self.writer, locator, serves(self.clock.tick(), *bodies, **more))

    def failed(self, locator: str, reason: str, **more: Any) -> None:
        visits.record_fetch(self.writer, locator, fails(self.clock.tick(), reason, **more))

    async def get(self, path: str, status: int = 200) -> Any:
        self._feed.run()
        async with self._client.get(raw(path)) as answer:
            body = await answer.read()
            assert answer.status == status, body
            return json.loads(body)

    async def body(self, path: str) -> tuple[bytes, str]:
        async with self._client.get(raw(path)) as answer:
            assert answer.status == 200
            return await answer.read(), answer.headers["ETag"]

    async def listing(self, id_: str) -> Any:
        answer = await self.get(f"/v1/listings/{quote(id_, safe='')}")
        fits(answer, "Listing")
        return answer

    async def missing(self, id_: str) -> str:
        detail: str = (await self.get(f"/v1/listings/{quote(id_, safe='')}", 404))["detail"]
        return detail

    async def matching(self, **parameters: str) -> list[str]:
        """The ids that a search finds, after checking that what it shows is what each listing says."""
        query = "&".join(f"{key}={quote(value)}" for key, value in parameters.items())
        page = await self.get(f"/v1/search?{query}")
        fits(page, "Page")
        for item in page["items"] if "asOfHeight" not in parameters else ():
            whole = await self.get(f"/v1/listings/{quote(item['id'], safe='')}")
            assert {key: item[key] for key in whole if key != "cheapest"} == {
                key: whole[key] for key in whole if key != "cheapest"
            }
        return sorted(item["id"] for item in page["items"])


@pytest.fixture
def clock() -> Clock:
    return Clock(1_700_000_000_000)


@pytest.fixture
def facts(tmp_path: Path, clock: Clock) -> Iterator[tuple[Store, Writer]]:
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    writer = Writer(engine, clock)
    for chain in ("demo", "ltc", "eth"):
        chain_marks.name_chain(writer, chain, f"{chain}:regtest")
    yield Store(engine), writer
    writer.close()
    engine.dispose()


@pytest.fixture(params=list(ENGINES))
async def registry(
    request: pytest.FixtureRequest, tmp_path: Path, facts: tuple[Store, Writer], clock: Clock, serve: Serve
) -> AsyncIterator[Registry]:
    store, writer = facts
    with closing(SearchIndex(index_url(request, request.param, tmp_path / "index"))) as index:
        services = AppServices(
            engine=index,
            store=ListingRepository(store),
            process=ProcessInfo(status=dict, ready=lambda: None, version="test", requests=Requests(store.engine)),
            publishing=PublisherServices(diagnose=lambda what: diagnose(Settings(), store, what)),
            chains=store.chains,
            heights=lambda: dict.fromkeys(store.chains(), 100),
        )
        with closing(DuplicateIndex(str(tmp_path / "claims"))) as duplicates:
            yield Registry(store, writer, clock, services, await serve(services), duplicates)


# -- listed -----------------------------------------------------------------------------------------------------------


async def test_a_pointer_is_listed_once_its_card_is_fetched_and_its_hash_met(registry: Registry) -> None:
    registry.block("1", points("a.example", ALPHA))
    assert await registry.matching(q="alpha") == []
    assert "has not been fetched yet" in await registry.missing("a.example")
    registry.fetched("a.example", ALPHA)
    assert await registry.matching(q="alpha") == ["a.example"]
    item = await registry.listing("a.example")
    text = "2023-11-14T22:13:21Z"
    answers = (
        "type",
        "status",
        "name",
        "integrity",
        "cardSha256",
        "updatedHeight",
        "createdHeight",
        "timestamp",
        "chain",
    )
    assert [item[key] for key in answers] == [
        "agent", "live", "Alpha", "hash-verified", digest(ALPHA).hex(), 1, 1, text, "demo",
    ]  # fmt: skip
    assert item["domain"] == {"host": "a.example", "verified": True, "checkedAt": text}
    txid = name("a.example")[::-1].hex()
    assert item["anchors"] == [
        {"chain": "demo", "txid": txid, "outpoint": f"{txid}_0", "height": 1, "hash": digest(ALPHA).hex(), "met": True,
         "time": text},
    ]  # fmt: skip
    assert (item["anchorCount"], item["fetchedFrom"], item["outpoint"]) == (1, WELL_KNOWN, f"{txid}_0")
    assert (item["origin"], item["warnings"]) == (None, (await registry.listing("a.example"))["warnings"])


async def test_status_home_page_and_search_count_the_same(registry: Registry) -> None:
    service = StatusService(Settings.load({"data": "nowhere"}), registry.store, None, "test")

    async def totals() -> tuple[int, int, int]:
        """The number of live listings in the status, of results of the search, and of listings on the home page."""
        service.refresh()
        total = (await registry.get("/v1/search"))["total"]
        page, _ = await registry.body("/")
        shown = re.search(rb'id="count" role="status">(?:[^<]* of )?(\d+ listings?|Nothing found)<', page)
        assert shown is not None
        number = 0 if shown[1] == b"Nothing found" else int(shown[1].split()[0])
        return service.status()["listings"]["live"], total, number

    assert await totals() == (0, 0, 0)
    registry.block(
        "1",
        born("x", height=1),
        points("a.example", ALPHA),
        points(PAGE, BETA, "page"),
        cards={CARD: card("Inscribed")},
    )
    assert await totals() == (1, 1, 1)
    registry.fetched("a.example", ALPHA)
    registry.fetched(PAGE, ALPHA, state=FetchState.MISMATCH, reason="fetch-mismatch")
    assert await totals() == (2, 2, 2)
    registry.fetched(PAGE, BETA)
    assert await totals() == (3, 3, 3)
    registry.block("2", points("c.example", card("Gamma")), points("d.example"))
    registry.fetched("c.example", card("Gamma"))
    registry.fetched("d.example", b'{"no": "card"}', state=FetchState.UNHASHED)
    assert await totals() == (4, 4, 4)
    assert (
        StatusService(Settings.load({"data": "nowhere"}), registry.store, None, "test").status()["listings"]["live"]
        == 4
    )
    registry.reorg("1")
    assert await totals() == (3, 3, 3)


async def test_the_card_is_served_in_the_exact_bytes_that_were_fetched(registry: Registry) -> None:
    body = b'{\n "name": "Spaced",' + ALPHA[1:]
    registry.block("1", points(PAGE, body, "page"))
    registry.fetched(PAGE, body)
    assert await registry.body(f"/v1/listings/{quote(PAGE, safe='')}/card") == (body, f'"{digest(body).hex()}"')


async def test_ids_with_slashes_and_colons_are_found_percent_encoded(registry: Registry) -> None:
    ids = [PAGE, "https://b.example/history", "https://b.example/a/card", "https://b.example/%2F/proof"]
    registry.block("1", *(points(id_, card(f"N{n}"), f"at {n}") for n, id_ in enumerate(ids)))
    for number, id_ in enumerate(ids):
        registry.fetched(id_, card(f"N{number}"))
    for number, id_ in enumerate(ids):
        item = await registry.listing(id_)
        assert (item["id"], item["name"]) == (id_, f"N{number}")
        path = f"/v1/listings/{quote(id_, safe='')}"
        assert (await registry.body(f"{path}/card"))[0] == card(f"N{number}")
        assert (await registry.get(f"{path}/history"))["id"] == id_
    assert await registry.matching(domain="b.example") == sorted(ids)


async def test_a_mismatch_is_never_listed_and_says_why(registry: Registry) -> None:
    registry.block("1", points("a.example", ALPHA))
    detail = {"state": FetchState.MISMATCH, "reason": "fetch-mismatch", "detail": "00ff"}
    registry.fetched("a.example", BETA, **detail)
    assert await registry.matching() == []
    assert "another SHA-256: 00ff" in await registry.missing("a.example")


async def test_a_pointer_without_a_hash_is_unhashed_and_never_verified(registry: Registry) -> None:
    registry.block("1", points("a.example"), points("b.example", BETA))
    registry.fetched("a.example", ALPHA, state=FetchState.UNHASHED)
    registry.fetched("b.example", BETA)
    item = await registry.listing("a.example")
    assert (item["integrity"], item["domain"]["verified"]) == ("unhashed", False)
    assert await registry.matching() == ["a.example", "b.example"]
    assert await registry.matching(verified="true") == ["b.example"]
    assert await registry.matching(verified="false") == ["a.example"]


async def test_the_same_domain_on_two_chains_is_one_listing(registry: Registry) -> None:
    registry.block("1", points("a.example", ALPHA))
    registry.block("7", points("a.example", ALPHA, "second"), chain="ltc")
    registry.fetched("a.example", ALPHA)
    assert await registry.matching(q="alpha") == ["a.example"]
    item = await registry.listing("a.example")
    assert [(anchor["chain"], anchor["height"], anchor["met"]) for anchor in item["anchors"]] == [
        ("demo", 1, True), ("ltc", 7, True),
    ]  # fmt: skip
    assert (item["chain"], item["updatedHeight"]) == ("demo", 1)
    assert await registry.matching(chain="demo") == await registry.matching(chain="ltc") == ["a.example"]
    assert await registry.matching(chain="eth") == []
    assert (item["anchorCount"], item["domain"]["verified"]) == (2, True)
    assert await registry.matching(domain="a.example", verified="true") == ["a.example"]
    assert await registry.matching(domain="a.example", verified="true", chain="ltc") == ["a.example"]
    assert await registry.matching(domain="b.example") == await registry.matching(verified="false") == []


async def test_of_identical_cards_one_is_found_and_says_how_many_there_are(registry: Registry) -> None:
    registry.block(
        "1", points("a.example", ALPHA), points("b.example", ALPHA, position=1), points(PAGE, None, "page", 2)
    )
    registry.fetched("a.example", ALPHA)
    registry.fetched("b.example", ALPHA)
    registry.fetched(PAGE, BETA, state=FetchState.UNHASHED)
    page = await registry.get("/v1/search?q=agent&facets=type")
    assert {item["id"]: item.get("duplicates") for item in page["items"]} == {"a.example": 1, PAGE: None}
    assert (page["total"], page["facets"]) == (2, {"type": [{"value": "agent", "count": 2}]})
    assert await registry.matching(q="alpha") == ["a.example"]
    assert await registry.matching(q="alpha", domain="b.example") == ["b.example"]
    assert (await registry.listing("a.example"))["duplicates"] == 1
    later = await registry.listing("b.example")
    assert "duplicates" not in later
    answers = {warning["code"]: warning["detail"] for warning in later["warnings"]}
    assert answers["same-name"] == "another listing had this name before: a.example"
    assert {warning["code"] for warning in (await registry.listing(PAGE))["warnings"]} >= {"same-url"}
    registry.block("2", points("a.example", BETA, "newer"))
    registry.fetched("a.example", BETA)
    assert await registry.matching(q="alpha") == ["b.example"]
    assert (await registry.listing("b.example"))["warnings"] == [
        warning for warning in later["warnings"] if warning["code"] not in ("same-name", "same-text")
    ]


async def test_a_tool_of_several_servers_may_be_pointed_at(registry: Registry) -> None:
    config = json.dumps({"mcpServers": {"one": {"command": "a"}, "two": {"command": "b"}}}).encode()
    registry.block("1", points(PAGE, config, "page", kind=Kind.TOOL, form="map"))
    registry.fetched(PAGE, config)
    assert (await registry.listing(PAGE))["servers"] == [f"{PAGE}#one", f"{PAGE}#two"]
    assert await registry.matching(type="tool") == [f"{PAGE}#one", f"{PAGE}#two"]
    assert (await registry.listing(f"{PAGE}#two"))["command"] == "b"


async def test_an_ipfs_card_is_verified_by_its_cid_though_it_has_no_domain(registry: Registry) -> None:
    locator = "ipfs://bafkreih0000"
    registry.block("1", points(locator, where="ipfs", domain=""))
    outcome = serves(registry.clock.tick(), ALPHA)
    visits.record_fetch(registry.writer, locator, replace(outcome, served=(outcome.served[0]._replace(by_cid=True),)))
    item = await registry.listing(locator)
    assert (item["integrity"], item["domain"]) == (
        "hash-verified", {"host": "api.example", "verified": False, "checkedAt": None} | {
            "checkedAt": item["domain"]["checkedAt"]},
    )  # fmt: skip
    assert await registry.matching(verified="true") == [locator]


async def test_heights_know_the_pointer_and_the_past_does_not(registry: Registry) -> None:
    registry.block("1", born("x", height=1), cards={born("x").card or b"": ALPHA})
    registry.block("2", points("a.example", BETA))
    registry.fetched("a.example", BETA)
    assert await registry.matching(fromBlock="2", chain="demo") == ["a.example"]
    assert len(await registry.matching(asOfHeight="2", chain="demo")) == 1
    assert await registry.matching(asOfHeight="2", chain="demo", q="beta") == []
    assert state_hash(registry.store, "demo", 2) == state_digest([state("x", "x", 1)])


# -- changing ---------------------------------------------------------------------------------------------------------


async def test_a_new_revision_is_shown_once_it_is_served(registry: Registry) -> None:
    registry.block("1", points("a.example", ALPHA))
    registry.fetched("a.example", ALPHA)
    registry.block("2", points("a.example", BETA, "update"))
    assert await registry.matching(q="alpha") == ["a.example"]
    registry.fetched("a.example", BETA)
    assert (await registry.matching(q="alpha"), await registry.matching(q="beta")) == ([], ["a.example"])
    item = await registry.listing("a.example")
    assert (item["updatedHeight"], item["createdHeight"]) == (2, 1)
    history = await registry.get("/v1/listings/a.example/history")
    answers = [(revision["kind"], revision["height"], revision["cardSha256"]) for revision in history["revisions"]]
    assert answers == [("pointed", 2, digest(BETA).hex()), ("pointed", 1, digest(ALPHA).hex())]


async def test_a_listing_that_drifts_stays_and_says_so(registry: Registry) -> None:
    registry.block("1", points("a.example", ALPHA))
    registry.fetched("a.example", ALPHA)
    registry.fetched("a.example", BETA, state=FetchState.MISMATCH, reason="fetch-mismatch")
    item = await registry.listing("a.example")
    since = "2023-11-14T22:13:22Z"
    assert (item["name"], item["integrity"]) == ("Alpha", "drifted")
    assert item["drift"] == {"cardSha256": digest(BETA).hex(), "since": since}
    (warning,) = [element for element in item["warnings"] if element["code"] == "drifted"]
    assert since in warning["detail"]
    assert await registry.matching(verified="true") == []
    assert await registry.matching(verified="false") == ["a.example"]
    assert item["domain"]["verified"] is False
    registry.fetched("a.example", ALPHA)
    item = await registry.listing("a.example")
    assert await registry.matching(verified="true") == ["a.example"]
    assert (item["integrity"], item["domain"]["verified"]) == ("hash-verified", True)


async def test_each_drift_is_in_the_history_with_its_hash_and_time(registry: Registry) -> None:
    other = {"state": FetchState.MISMATCH, "reason": "fetch-mismatch"}
    registry.block("1", points("a.example", ALPHA))
    registry.fetched("a.example", ALPHA)
    assert "drifts" not in await registry.get("/v1/listings/a.example/history")
    registry.fetched("a.example", b"front page", **other)  # until 22:13:22
    registry.fetched("a.example", b"front page", **other)
    registry.fetched("a.example", ALPHA)
    registry.fetched("a.example", BETA, **other)
    registry.block("2", points("a.example", BETA, "update"))
    registry.fetched("a.example", BETA)
    registry.fetched("a.example", ALPHA)
    history = await registry.get("/v1/listings/a.example/history")
    assert [drift["cardSha256"] for drift in history["drifts"]] == [
        digest(body).hex() for body in (ALPHA, BETA, b"front page")
    ]
    times = [drift["since"] for drift in history["drifts"]]
    assert (times == sorted(times, reverse=True), len(set(times))) == (True, 3)
    assert times[-1] == "2023-11-14T22:13:22Z"
    assert len(history["revisions"]) == 2


async def test_every_listing_of_a_chain_with_unproved_headers_says_so(registry: Registry) -> None:
    """Listings indexed before the chain was marked, and after; none of another chain."""
    registry.block("1", points("a.example", ALPHA))
    registry.block("1", points("c.example", GAMMA), chain="ltc")
    registry.fetched("a.example", ALPHA)
    registry.fetched("c.example", GAMMA)
    assert await registry.matching() == ["a.example", "c.example"]
    chain_marks.mark_unproved(registry.writer, "demo")
    registry.block("2", points("b.example", BETA))
    registry.fetched("b.example", BETA)
    assert await registry.matching() == ["a.example", "b.example", "c.example"]
    marked = {}
    for item in (await registry.get("/v1/search"))["items"]:
        marked[item["id"]] = [element for element in item["warnings"] if element["code"] == "headers-unproved"]
    sentence = "merge-mined headers of its chain were taken without their proof of work (auxpow=unchecked)"
    warning = {"code": "headers-unproved", "severity": "low", "pointer": "", "detail": sentence}
    assert marked == {"a.example": [warning], "b.example": [warning], "c.example": []}


async def test_a_host_that_fails_takes_nothing_back(registry: Registry) -> None:
    registry.block("1", points("a.example", ALPHA))
    registry.fetched("a.example", ALPHA)
    registry.failed("a.example", "fetch-connect")
    assert (await registry.listing("a.example"))["integrity"] == "hash-verified"
    assert await registry.matching() == ["a.example"]


async def test_a_reorg_takes_back_what_its_blocks_pointed_at(registry: Registry) -> None:
    registry.block("1", points("a.example", ALPHA))
    registry.fetched("a.example", ALPHA)
    registry.block("2", points("a.example", BETA, "update"), points("b.example", ALPHA))
    registry.fetched("a.example", BETA)
    registry.fetched("b.example", ALPHA)
    assert await registry.matching() == ["a.example", "b.example"]
    registry.reorg("1")
    assert await registry.matching() == ["a.example"]
    assert (await registry.listing("a.example"))["name"] == "Alpha"
    await registry.missing("b.example")
    registry.block("2b", points("a.example", BETA, "update"))
    item = await registry.listing("a.example")
    assert (item["name"], item["updatedHeight"]) == ("Beta", 2)


async def test_strangers_change_nothing_but_the_anchors(registry: Registry) -> None:
    registry.block("1", points("a.example", ALPHA))
    registry.fetched("a.example", ALPHA)
    before = await registry.listing("a.example")
    inscribed = replace(born("mallory"), card=digest(BETA))
    registry.block("2", inscribed, points("a.example", BETA, "later wrong"), cards={digest(BETA): BETA})
    registry.block("3", points("a.example", ALPHA, "later right"), points("a.example", where="loose"))
    flood = [points("a.example", b"%d" % n, f"flood {n}") for n in range(300)]
    registry.block("4", *flood)
    registry.fetched("a.example", ALPHA)
    item = await registry.listing("a.example")
    varying = ("anchors", "anchorCount", "domain")
    assert {key: item[key] for key in item if key not in varying} == {
        key: before[key] for key in before if key not in varying
    }
    assert item["anchorCount"] == 304
    assert len(item["anchors"]) == 32
    by_txid = {anchor["txid"]: anchor["met"] for anchor in item["anchors"]}
    assert by_txid[name("a.example")[::-1].hex()]
    assert by_txid[name("later right")[::-1].hex()]
    assert await registry.matching(q="beta") == []


async def test_a_rebuilt_index_is_the_same(registry: Registry) -> None:
    registry.block("1", points("a.example", ALPHA), points("b.example", BETA), points("c.example", ALPHA))
    registry.fetched("a.example", ALPHA)
    registry.fetched("b.example", BETA)
    before = await registry.get("/v1/search")
    registry._feed.rebuild()
    after = await registry.get("/v1/search")
    assert before["items"] == after["items"]
    assert len(after["items"]) == 2


# -- entries of registries --------------------------------------------------------------------------------------------

ENTRY = "eip155:1:0x8004a169fb4a3325136eb29fa0ceb6d2e539a432/7"


def entry(where: str, uri: str = PAGE, **more: Any) -> Event:
    about = {"uri": uri, "form": "erc8004", "domain": "b.example"}
    owner = more.pop("owner", "0xalice")
    return replace(points(ENTRY, None, where, **about), owner=owner, **more)


FILE = json.dumps(
    {
        "type": "https://eips.ethereum.org/EIPS/eip-8004#registration-v1",
        "name": "Entry",
        "description": "An agent of a registry.",
        "services": [{"name": "A2A", "endpoint": "https://b.example/a2a", "version": "0.3.0"}],
    }
).encode()


async def test_an_entry_of_a_registry_is_listed_by_its_registration_file(registry: Registry) -> None:
    registry.block("5", entry("made"), chain="eth")
    registry.fetched(PAGE, FILE, state=FetchState.UNHASHED)
    item = await registry.listing(ENTRY)
    assert (item["name"], item["integrity"], item["owner"]) == ("Entry", "unhashed", "0xalice")
    assert item["domain"]["host"] == "b.example"
    assert await registry.matching(q="entry") == [ENTRY]
    registry.block("6", entry("sold", kind=EventKind.MOVED, owner="0xbob"), chain="eth")
    item = await registry.listing(ENTRY)
    assert (item["owner"], item["updatedHeight"]) == ("0xbob", 5)
    registry.block("7", entry("end", kind=EventKind.BURNED, owner=None, valid=False), chain="eth")
    assert (await registry.listing(ENTRY))["status"] == "burned"
    assert await registry.matching(q="entry") == []


async def test_an_entry_that_carried_its_card_and_then_points_elsewhere_shows_what_is_served(
    registry: Registry,
) -> None:
    carried = born("made", height=5)
    assert carried.state is not None
    inside = replace(carried.state, id=ENTRY, card=digest(ALPHA))
    registry.block("5", replace(carried, card=digest(ALPHA), state=inside), chain="eth", cards={digest(ALPHA): ALPHA})
    assert (await registry.listing(ENTRY))["name"] == "Alpha"
    registry.block("6", entry("elsewhere", state=inside), chain="eth")
    assert (await registry.listing(ENTRY))["name"] == "Alpha"
    registry.fetched(PAGE, FILE, state=FetchState.UNHASHED)
    assert (await registry.listing(ENTRY))["name"] == "Entry"
    assert await registry.matching() == [ENTRY]
    assert await registry.matching(q="alpha") == []
    assert await registry.matching(asOfHeight="5", chain="eth", q="alpha") == [ENTRY]
    history = await registry.get(f"/v1/listings/{quote(ENTRY, safe='')}/history")
    assert [revision["kind"] for revision in history["revisions"]] == ["pointed", "inscribed"]
