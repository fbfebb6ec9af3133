"""The domain of a listing is asked by who checks it: what the host says wins over what the server says of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from indexer.fetcher.host_names import HostNames
from indexer.fetcher.reasons import Refusal
from indexer.settings import Settings
from indexer.store import FetchState, visits
from overlay.listings.local_source import LocalSource
from overlay.listings.repository import ListingRepository
from overlay.verify import NOT_CHECKED, PROVED, domains
from tests.chain_records import due_locators
from tests.chainkit import ChainKit, agent, tool
from tests.chainkit_scripts import map_tape, p2pkh
from tests.fakes import MemoryChain
from tests.https import Https
from tests.indexing import Indexing
from tests.overlay.asked_hosts import AskedHosts
from tests.overlay.forging_server import REGTEST, FakeSource, Look, Server, check, look, words
from tests.overlay.test_cli import Run, alone, run
from tests.parsers.writers import build_split
from tests.pointer_facts import Clock, card, digest, serves

__all__ = ["alone", "look", "run"]

HOST = "echo.example"
CARD = agent("Echo", url=f"https://{HOST}/a2a")
CHECKED = "2026-01-01T00:00:00Z"


@pytest.fixture
def listed(look: Look) -> tuple[Server, str]:
    """An agent whose url is at HOST, which the server has not asked."""
    kit = ChainKit()
    tx = kit.inscribe(CARD)
    kit.mine(tx)
    return Server(look(kit, "bsv"), str(tx)), str(tx)


def claims(server: Server, id_: str, by: str | None) -> None:
    """The server says that the host speaks for the listing in this way, or does not."""
    more = {"by": by} if by else {}
    server.items[id_]["domain"] = {"host": HOST, "verified": bool(by), "checkedAt": CHECKED, **more}


def body(server: Server, id_: str) -> bytes:
    return sha256(server.cards[id_]).digest()


CLAIMS: dict[str, Callable[[Server, str], HostNames]] = {
    "name": lambda _, id_: HostNames(named=frozenset({id_, f"{'11' * 32}_0"})),
    "dns": lambda _, id_: HostNames(in_dns=frozenset({id_})),
    "hash": lambda server, id_: HostNames(served=frozenset({body(server, id_)})),
    "": lambda _server, _id: HostNames(),
}


@pytest.mark.parametrize("by", CLAIMS)
def test_what_the_host_says_is_proved_where_the_answer_says_the_same(listed: tuple[Server, str], by: str) -> None:
    server, id_ = listed
    claims(server, id_, by)
    hosts = AskedHosts(CLAIMS[by](server, id_))
    report = check(server, id_, hosts=hosts)
    assert report.missing == []
    assert words(report, "domain", PROVED).startswith(HOST)
    assert hosts.requests == [HOST]
    assert "domain" not in report.not_proved_members
    assert "domain.checkedAt" in report.not_proved_members


@pytest.mark.parametrize(
    "host_claims",
    [
        HostNames(),
        HostNames(named=frozenset({f"{'11' * 32}_0"})),
        HostNames(served=frozenset({bytes(32)})),
        HostNames(refusal=Refusal("fetch-missing", "404")),
    ],
)
@pytest.mark.parametrize("by", ["name", "dns", "hash"])
def test_a_domain_that_does_not_speak_for_the_listing_is_found_out(
    listed: tuple[Server, str], host_claims: HostNames, by: str
) -> None:
    server, id_ = listed
    claims(server, id_, by)
    report = check(server, id_, hosts=AskedHosts(host_claims))
    assert report.missing == ["domain"]
    assert f"by the answer {HOST} confirms the listing, but it does not" in words(report, "domain")
    assert "domain" in report.not_proved_members


def test_naming_beats_hash(listed: tuple[Server, str]) -> None:
    server, id_ = listed
    claims(server, id_, "hash")
    host_claims = HostNames(served=frozenset({body(server, id_)}), named=frozenset({f"{'11' * 32}_0"}))
    assert check(server, id_, hosts=AskedHosts(host_claims)).missing == ["domain"]


@pytest.mark.parametrize(
    "host_claims",
    [HostNames(refusal=Refusal("fetch-connect", "no")), HostNames(dns_refusal=Refusal("fetch-dns", "no"))],
)
def test_an_unreachable_host_proves_nothing_and_disproves_nothing(
    listed: tuple[Server, str], host_claims: HostNames
) -> None:
    server, id_ = listed
    claims(server, id_, "name")
    report = check(server, id_, hosts=AskedHosts(host_claims))
    assert report.missing == []
    assert "could not be checked" in words(report, "domain", NOT_CHECKED)
    assert "domain" in report.not_proved_members


def test_an_answer_that_says_less_or_otherwise_than_the_host_is_named(listed: tuple[Server, str]) -> None:
    server, id_ = listed
    for by in ("", "dns", "hash"):
        claims(server, id_, by)
        report = check(server, id_, hosts=AskedHosts(CLAIMS["name"](server, id_)))
        assert report.missing == []
        assert "and the answer differs" in words(report, "domain", NOT_CHECKED)
        assert "domain" in report.not_proved_members


def test_offline_no_host_gets_a_request_and_another_host_is_detected_all_the_same(listed: tuple[Server, str]) -> None:
    server, id_ = listed
    claims(server, id_, "name")
    report = check(server, id_)
    assert words(report, "domain", NOT_CHECKED) == f"{HOST} is not checked"
    assert "domain" in report.not_proved_members
    server.items[id_]["domain"]["host"] = "bank.example"
    assert check(server, id_).missing == ["listing"]
    server.items[id_]["domain"] = None
    assert check(server, id_).missing == ["listing"]


def test_a_tool_has_no_badge(look: Look) -> None:
    kit = ChainKit()
    tx = kit.inscribe(tool("clock", url=f"https://{HOST}/mcp"), "a2b-mcp")
    kit.mine(tx)
    server, id_ = Server(look(kit, "bsv"), str(tx)), str(tx)
    assert server.items[id_]["domain"]["host"] == HOST
    claims(server, id_, "name")
    assert check(server, id_, hosts=AskedHosts(CLAIMS["name"](server, id_))).missing == ["domain"]


# -- pointers ----------------------------------------------------------------------------------------------------------

POINTED = "a.example"
ALPHA = card("Alpha")


@pytest.fixture
def pointed(tmp_path: Path) -> Server:
    """A card pointed at with its hash, and one without."""
    kit = ChainKit()
    kit.mine(kit.point(POINTED, digest(ALPHA)), kit.point("bare.example"))
    clock = Clock()
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", MemoryChain(*kit.blocks, name="demo")) as indexing:
        asyncio.run(indexing.catch_up())
        for job in due_locators(indexing.store, 10**15, 10):
            clock.now = max(clock.now, job.next_at)
        visits.record_fetch(indexing.writer, POINTED, serves(clock.tick(), ALPHA))
        visits.record_fetch(indexing.writer, "bare.example", serves(clock.tick(), ALPHA, state=FetchState.UNHASHED))
        return Server(LocalSource(ListingRepository(indexing.store)), POINTED, "bare.example")


def test_a_card_whose_hash_is_on_chain_is_proved_and_its_domain_visited(pointed: Server) -> None:
    report = check(pointed, POINTED, hosts=AskedHosts(bodies={POINTED: ALPHA}))
    assert report.missing == []
    assert words(report, "domain", PROVED) == f"{POINTED} serves the card that the pointer names"
    assert {"integrity", "domain", "name", "offers", "txid"}.isdisjoint(report.not_proved_members)
    assert {"anchors", "createdHeight"} <= set(report.not_proved_members)


@pytest.mark.parametrize("coin", ["bsv", "btc", "ltc", "bch", "doge"])
@pytest.mark.parametrize("form", ["domain", "split", "uri"])
def test_a_pointer_is_proved_on_every_chain_and_in_every_form(tmp_path: Path, coin: str, form: str) -> None:
    kit = ChainKit(coin)
    id_ = "https://a.example/cards/alpha.json" if form == "uri" else POINTED
    if form == "domain":
        kit.mine(kit.point(POINTED, digest(ALPHA)))
    else:
        fields = {"app": "test", "type": "a2b", "hash": digest(ALPHA).hex(), "uri": id_}
        scripts = build_split(POINTED, digest(ALPHA), 30) if form == "split" else [map_tape(fields)]
        kit.mine(kit.spend([kit.fund()], [(10**6, p2pkh("alice")), *((0, script) for script in scripts)]))
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", MemoryChain(*kit.blocks, name="demo", coin=coin)) as indexing:
        asyncio.run(indexing.catch_up())
        (job,) = due_locators(indexing.store, 10**15, 10)
        visits.record_fetch(indexing.writer, id_, serves(job.next_at + 1, ALPHA))
        local = LocalSource(ListingRepository(indexing.store))
        report = check(
            local,
            id_,
            hosts=AskedHosts(bodies={id_: ALPHA}),
            trusted=FakeSource(holds=True),
            expected=f"{coin}:regtest",
        )
    assert report.missing == [], report.steps
    assert "domain" not in report.not_proved_members


def test_a_card_that_is_not_served_any_more_is_drifted_or_a_lie(pointed: Server) -> None:
    hosts = AskedHosts(bodies={POINTED: b"{}"})
    report = check(pointed, POINTED, hosts=hosts)
    assert report.missing == ["domain"]
    assert "serves something else" in words(report, "domain")
    pointed.items[POINTED]["integrity"] = "drifted"
    assert check(pointed, POINTED, hosts=hosts).missing == []
    report = check(pointed, POINTED, hosts=AskedHosts())
    assert report.missing == []
    assert "does not serve the card" in words(report, "domain", NOT_CHECKED)
    assert {"integrity", "domain"} <= set(report.not_proved_members)
    pointed.items[POINTED]["integrity"] = "inscribed"
    assert check(pointed, POINTED, hosts=hosts).missing == ["listing"]


def test_a_card_without_a_hash_is_never_verified(pointed: Server) -> None:
    report = check(pointed, "bare.example", hosts=AskedHosts(bodies={"bare.example": ALPHA}))
    assert report.missing == ["card"]
    assert "names a locator and no hash" in words(report, "card")
    assert {"name", "offers", "cardSha256", "integrity"} <= set(report.not_proved_members)
    assert "txid" not in report.not_proved_members


def test_a_pointer_proves_nothing_of_another_locator(pointed: Server) -> None:
    pointed.items[POINTED]["id"] = pointed.proofs[POINTED]["id"] = "b.example"
    report = check(pointed, POINTED)
    assert report.missing == ["answer"]
    pointed.items["b.example"], pointed.proofs["b.example"] = pointed.items[POINTED], pointed.proofs[POINTED]
    pointed.cards["b.example"] = ALPHA
    pointed.items["b.example"]["domain"]["host"] = "b.example"
    report = check(pointed, "b.example")
    assert {"card", "registration"} <= set(report.missing)
    assert "names 'a.example'" in words(report, "registration")


def test_a_pointer_has_no_satoshi_that_moves(pointed: Server) -> None:
    pointed.proofs[POINTED]["before"] = pointed.proofs[POINTED]["after"] = []
    pointed.proofs[POINTED]["parents"] = []
    assert "registration" in check(pointed, POINTED).missing


# -- over the network --------------------------------------------------------------------------------------------------


def test_the_command_asks_the_domain_as_the_index_does(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    url = Settings.load({"data": str(tmp_path / "data")}).database
    kit = ChainKit()
    tx = kit.inscribe(CARD)
    kit.mine(tx)
    with Indexing(url, MemoryChain(*kit.blocks, name="demo")) as indexing, Https(tmp_path, HOST) as server:
        asyncio.run(indexing.catch_up())
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(domains, "TxtRecords", _NoRecords)
        item = LocalSource(ListingRepository(indexing.store)).listing(str(tx))
        result = run("verify", tx, "--data", tmp_path / "data", "--chain", REGTEST)
        assert result.code == 0
        assert f"domain: proved\n    {HOST} does not name the listing, as the answer says" in result.out
        assert (HOST, "/.well-known/agent.json") in server.requests
        server.bodies[HOST, "/.well-known/agent.json"] = json.dumps({"x-a2b-id": str(tx)}).encode()
        result = run("verify", tx, "--data", tmp_path / "data", "--chain", REGTEST, "--json")
        steps: dict[str, Any] = {step["step"]: step for step in result.json["steps"]}
        assert item["domain"]["verified"] is False
        assert steps["domain"]["detail"] == f"{HOST} names the listing in its card, and the answer differs"
        query = len(server.requests)
        assert run("verify", tx, "--data", tmp_path / "data", "--offline").code == 0
        assert len(server.requests) == query


class _NoRecords:
    """A resolver that knows no record."""

    async def ids(self, _host: str) -> frozenset[str]:
        return frozenset()
