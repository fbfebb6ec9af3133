"""A publisher asks that his card, or his domain, be fetched again: stored for the process that fetches."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

import pytest
from aiohttp import ClientSession

from indexer.fetcher.domain_badges import BadgeQueue
from indexer.fetcher.host_names import HostNames
from indexer.fetcher.reasons import SENTENCES, Refusal
from indexer.setting_values import Quota
from indexer.store import Store, Writer, block_writer, visits
from indexer.store.badges import BADGE_CHECK
from indexer.store.host_topics import Recheck
from indexer.store.requests import RECHECK_PAUSE, Rechecks
from overlay.api.services import AppServices
from overlay.commands.show import trust_rows
from overlay.installation import installed
from overlay.projection.documents import DocumentReader
from tests.chainkit import agent
from tests.databases import store
from tests.due_checks import due
from tests.facts import born, outpoint_of, says
from tests.overlay.calls import engine_of, problem, raw
from tests.overlay.conftest import Serve
from tests.overlay.fakes import changed
from tests.pointer_facts import NOW, card, clock, fails, points, writer

ALPHA = card("Alpha")

__all__ = ["clock", "store", "writer"]


@pytest.fixture
def ask(store: Store) -> Callable[[str, int], list[Recheck]]:
    return Rechecks(store.engine).request


async def test_a_pointer_that_was_given_up_is_fetched_again_a_minute_after_the_last_time(
    store: Store, writer: Writer, ask: Callable[[str, int], list[Recheck]]
) -> None:
    block_writer.append(writer, "demo", [says("0", points("a.example", ALPHA))])
    visits.record_fetch(writer, "a.example", replace(fails(NOW, "fetch-missing"), next_at=None, detail="404"))
    assert store.fetches.statuses(["a.example"])["a.example"].next_at is None
    expected = Recheck("pointer", "a.example", "failed", "fetch-missing", "404", NOW, NOW + RECHECK_PAUSE)
    assert ask("a.example", NOW + 1_000) == [expected]
    assert ask("a.example", NOW + 30_000) == [expected], "asking again changes nothing"
    assert store.fetches.statuses(["a.example"])["a.example"].next_at == NOW + RECHECK_PAUSE
    assert [item.next_at for item in ask("a.example", NOW + 2 * RECHECK_PAUSE)] == [NOW + RECHECK_PAUSE]


async def test_what_is_due_before_stays_due(writer: Writer, ask: Callable[[str, int], list[Recheck]]) -> None:
    block_writer.append(writer, "demo", [says("0", points("a.example", ALPHA))])
    assert [(item.state, item.next_at) for item in ask("a.example", NOW + 5_000)] == [("new", NOW)]


async def test_the_host_of_an_inscribed_agent_is_visited_again(
    store: Store, writer: Writer, ask: Callable[[str, int], list[Recheck]]
) -> None:
    body = json.dumps(agent()).encode()
    digest = sha256(body).digest()
    block_writer.append(writer, "demo", [says("0", replace(born("a", card=digest), card=digest), cards={digest: body})])
    BadgeQueue(store, writer).step(NOW)
    id_ = str(outpoint_of("a"))
    visits.record_host(writer, HostNames(named=frozenset({id_})).verdict("echo.example"), NOW)
    domain, *of_systems = ask(id_, NOW + RECHECK_PAUSE)
    assert domain == Recheck("domain", "echo.example", "verified by name", "", "", NOW, NOW + RECHECK_PAUSE)
    identity = Recheck("identity", "echo.example", "new", "", "", None, NOW)
    assert of_systems == [identity for system in installed() if system.name == "motebit"]
    assert due(store.engine, BADGE_CHECK, NOW + RECHECK_PAUSE) == [(NOW + RECHECK_PAUSE, "echo.example")]


@pytest.mark.parametrize("code", SENTENCES)
def test_a_reason_without_a_detail_is_a_whole_sentence(code: str) -> None:
    sentence = Refusal(code).sentence
    assert "{}" not in sentence
    assert "  " not in sentence
    assert sentence.split()[-1] not in (
        "status",
        "within",
        "with",
        "on",
        "port",
        "fetch",
        "than",
        "not",
        "is",
        "in",
        "to:",
    )
    assert not sentence.endswith((":", ",", " "))
    if "{}" in SENTENCES[code]:
        assert Refusal(code, "7").sentence == SENTENCES[code].replace("{}", "7")


async def test_a_failed_check_is_in_the_listing_and_in_the_next_recheck_at_once(
    store: Store, writer: Writer, ask: Callable[[str, int], list[Recheck]]
) -> None:
    body = json.dumps(agent()).encode()
    digest = sha256(body).digest()
    block_writer.append(writer, "demo", [says("0", replace(born("a", card=digest), card=digest), cards={digest: body})])
    BadgeQueue(store, writer).step(NOW)
    id_, before = str(outpoint_of("a")), store.outbox.newest_seq()
    assert [check.state for check in ask(id_, NOW)] == ["new"]
    visits.record_host(writer, HostNames(refusal=Refusal("fetch-connect")).verdict("echo.example"), NOW)
    [document] = DocumentReader(store).documents([id_])
    domain = json.loads(document.item)["domain"]
    failure = {"at": "2027-01-15T08:00:00Z", "reason": "fetch-connect"}
    assert domain == {"host": "echo.example", "verified": False, "checkedAt": failure["at"], "lastFailure": failure}
    assert dict(trust_rows({"domain": domain}))["failed"] == "a check at 2027-01-15T08:00:00Z: fetch-connect"
    assert [change.id for change in store.outbox.after(before, 9)] == [id_], "the index shows it, too"
    assert [(check.state, check.reason) for check in ask(id_, NOW)] == [("not verified", "fetch-connect")]
    visits.record_host(writer, HostNames(named=frozenset({id_})).verdict("echo.example"), NOW + 1_000)
    [document] = DocumentReader(store).documents([id_])
    assert "lastFailure" not in json.loads(document.item)["domain"]


async def test_nothing_is_fetched_for_what_nobody_points_at(ask: Callable[[str, int], list[Recheck]]) -> None:
    assert ask("nobody.example", NOW) == []


# -- over HTTP


async def test_it_is_taken_with_202_and_says_when(services: AppServices, serve: Serve) -> None:
    requests: list[str] = []

    def recheck(id_: str, now: int) -> list[Recheck]:
        assert abs(now / 1000 - time.time()) < 60
        requests.append(id_)
        return [Recheck("pointer", id_, "mismatch", "fetch-mismatch", "ab" * 32, NOW, NOW + RECHECK_PAUSE)]

    client = await serve(changed(services, recheck=recheck, limits={"ingest": Quota(60, 60)}))
    async with client.post("/v1/listings/https%3A%2F%2Fa.example%2Fcard.json/recheck") as response:
        assert response.status == 202
        assert response.headers["Location"] == "/v1/listings/https%3A%2F%2Fa.example%2Fcard.json"
        assert '"ingest"' in response.headers["RateLimit-Policy"]
        body = await response.json()
    assert requests == ["https://a.example/card.json"]
    assert body["id"] == "https://a.example/card.json"
    assert body["checks"] == [
        {
            "what": "pointer", "name": "https://a.example/card.json", "state": "mismatch", "code": "fetch-mismatch",
            "detail": f"what is served has another SHA-256: {'ab' * 32}",
            "lastAt": "2027-01-15T08:00:00Z", "nextAt": "2027-01-15T08:01:00Z",
        }
    ]  # fmt: skip


async def test_what_nobody_knows_is_404_and_what_nothing_is_fetched_for_409(
    client: ClientSession, services: AppServices
) -> None:
    for unknown in ("nobody.example", "%00"):
        async with client.post(raw(f"/v1/listings/{unknown}/recheck")) as response:
            await problem(response, 404)
    registration = engine_of(services).documents[0].registration
    async with client.post(f"/v1/listings/{registration}/recheck") as response:
        assert "nothing is fetched" in (await problem(response, 409))["detail"]
