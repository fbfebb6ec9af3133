"""The contract of the store about pointers and their fetches, on every database."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from sqlalchemy import func, select, update

from indexer.model import EventKind
from indexer.resolution.pointer_service import drifts
from indexer.store import FetchState, ServedBody, Store, Writer, block_writer, connect, visits
from indexer.store.fetches import MAX_FACTS, MAX_SERVINGS
from indexer.store.requests import RECHECK_PAUSE, Rechecks
from indexer.store.schema import cards, fetches, locators, servings, sightings
from parsers.cards import Kind
from parsers.reasons import Reason
from tests.chain_records import anchors, due_locators
from tests.facts import born, name, says
from tests.pointer_facts import Clock, card, digest, due, fails, news, points, serves, writer

ALPHA, BETA = card("Alpha"), card("Beta")

__all__ = ["writer"]


@pytest.fixture
def clock() -> Clock:
    return Clock()


def seen(store: Store) -> dict[bytes, tuple[str, int]]:
    with store.engine.connect() as connection:
        rows = connection.execute(select(sightings.c.txid, sightings.c.locator, sightings.c.seen_at))
        return {row.txid: (row.locator, row.seen_at) for row in rows}


def facts(store: Store, locator: str = "a.example") -> dict[bytes, tuple[int, int]]:
    with store.engine.connect() as connection:
        rows = connection.execute(select(fetches).where(fetches.c.locator == locator))
        return {row.sha256: (row.first_at, row.last_at) for row in rows}


# -- seeing -----------------------------------------------------------------------------------------------------------


def test_a_new_pointer_is_seen_and_asks_to_be_fetched_at_once(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", points("a.example", ALPHA))])
    assert seen(store) == {name("a.example"): ("a.example", 1_000)}
    (job,) = due_locators(store, 1_000, 10)
    assert (job.locator, job.state, job.tries, job.added_at) == ("a.example", FetchState.NEW, 0, 1_000)
    assert (job.last_at, job.next_at, job.fresh, job.hashless) == (None, 1_000, True, False)
    assert job.digests == (digest(ALPHA),)
    assert due_locators(store, 999, 10) == []
    assert news(store) == [("upsert", "a.example", "pointed")]


def test_pointers_that_are_not_valid_are_kept_and_never_fetched(store: Store, writer: Writer) -> None:
    bad = points("a.example", ALPHA)
    assert bad.pointer is not None
    bad = replace(bad, valid=False, reasons=(Reason("pointer-hash"),), pointer=replace(bad.pointer, id=None))
    block_writer.append(writer, "demo", [says("0", bad)])
    assert (seen(store), due(store), news(store)) == ({}, [], [])


def test_an_entry_of_a_registry_is_fetched_from_its_uri(store: Store, writer: Writer, clock: Clock) -> None:
    entry = "eip155:1:0x8004a169fb4a3325136eb29fa0ceb6d2e539a432/7"
    messages = points(entry, uri="https://a.example/agents/7.json", form="erc8004", domain="a.example")
    block_writer.append(writer, "demo", [says("0", messages)])
    assert due(store) == ["https://a.example/agents/7.json"]
    assert visits.record_fetch(writer, "https://a.example/agents/7.json", serves(clock.tick(), ALPHA)) == 1
    assert news(store)[1:] == [("upsert", entry, "fetched")]
    block_writer.forget(writer, "demo", -1)
    assert due(store) == []


def test_when_a_pointer_was_first_seen_outlives_a_reorg(store: Store, writer: Writer, clock: Clock) -> None:
    block_writer.append(writer, "demo", [says("0"), says("1", points("a.example", ALPHA))])
    clock.tick()
    block_writer.forget(writer, "demo", 0)
    assert news(store)[1:] == [("revert", "a.example", "reorg")]
    assert due(store) == []
    block_writer.append(writer, "demo", [says("1b", points("a.example", ALPHA), prev="0")])
    assert seen(store) == {name("a.example"): ("a.example", 1_000)}
    assert due(store) == ["a.example"]


def test_a_reorg_leaves_alone_what_another_pointer_still_names(store: Store, writer: Writer) -> None:
    block_writer.append(
        writer, "demo", [says("0", points("a.example", ALPHA)), says("1", points("a.example", BETA, "later"))]
    )
    block_writer.forget(writer, "demo", 0)
    assert due(store) == ["a.example"]


def test_a_reorg_announces_the_id_that_an_account_names_again(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0", points("a.example", ALPHA, "account"))])
    block_writer.append(writer, "demo", [says("1", points("b.example", BETA, "account"))])
    block_writer.append(writer, "demo", [says("2", points("c.example", BETA, "account"))])
    before = store.outbox.newest_seq()
    block_writer.forget(writer, "demo", 0)
    reverted = {change.id for change in store.outbox.after(before, 10)}
    assert reverted == {"a.example", "b.example", "c.example"}


def test_an_entry_with_another_uri_is_seen_again(store: Store, writer: Writer, clock: Clock) -> None:
    block_writer.append(writer, "demo", [says("0", points("a.example", ALPHA, "account"))])
    clock.tick()
    block_writer.append(writer, "demo", [says("1", points("b.example", BETA, "account"))])
    assert seen(store) == {name("account"): ("b.example", 2_000)}
    assert due(store) == ["b.example"]
    assert news(store)[1:] == [("upsert", "b.example", "pointed"), ("upsert", "a.example", "replaced")]
    clock.tick()
    block_writer.append(writer, "demo", [says("2", points("a.example", ALPHA, "account"))])
    assert seen(store) == {name("account"): ("a.example", 3_000)}


def test_an_entry_without_events_is_seen_again_by_another_pointer(store: Store, writer: Writer, clock: Clock) -> None:
    """As after a backup was restored, and the account has changed meanwhile."""
    block_writer.append(writer, "demo", [says("0"), says("1", points("a.example", ALPHA, "account"))])
    block_writer.forget(writer, "demo", 0)
    clock.tick()
    block_writer.append(writer, "demo", [says("1", points("b.example", BETA, "account"))])
    assert seen(store) == {name("account"): ("b.example", 2_000)}
    (job,) = due_locators(store, 2_000, 10)
    assert (job.locator, job.digests) == ("b.example", (digest(BETA),))
    block_writer.forget(writer, "demo", 0)
    unreadable = replace(points("c.example", ALPHA, "account"), valid=False)
    block_writer.append(writer, "demo", [says("1", unreadable)])
    assert (seen(store), due(store)) == ({}, [])


def test_a_pointer_keeps_the_kind_of_card_it_is_about(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0", points("a.example", ALPHA, kind=Kind.TOOL, form="map"))])
    (past,) = anchors(store, "a.example")
    assert past.event.pointer is not None
    assert past.event.pointer.kind is Kind.TOOL


# -- fetching ---------------------------------------------------------------------------------------------------------


def test_fetched_bytes_are_stored_and_returned(store: Store, writer: Writer, clock: Clock) -> None:
    block_writer.append(writer, "demo", [says("0", points("a.example", ALPHA))])
    begun = clock.tick()
    assert visits.record_fetch(writer, "a.example", serves(begun, ALPHA, validators={"https://a.example": ["x"]})) == 1
    assert facts(store) == {digest(ALPHA): (begun, begun)}
    assert store.content.cards([digest(ALPHA)]) == {digest(ALPHA): ALPHA}
    statuses_now = store.fetches.statuses(["a.example", "b.example"])
    assert list(statuses_now) == ["a.example"]
    now = statuses_now["a.example"]
    assert (now.state, now.reason, now.tries, now.last_at) == (FetchState.MET, "", 0, begun)
    assert (now.serving, now.serving_since) == (digest(ALPHA), begun)
    assert due(store, begun) == []
    (job,) = due_locators(store, 10**15, 1)
    assert (job.fresh, job.validators) == (False, {"https://a.example": ["x"]})
    assert news(store)[1:] == [("upsert", "a.example", "fetched")]


def test_the_same_again_is_no_news_until_it_meets_another_anchor(store: Store, writer: Writer, clock: Clock) -> None:
    block_writer.append(writer, "demo", [says("0", points("a.example", ALPHA))])
    first = clock.tick()
    visits.record_fetch(writer, "a.example", serves(first, ALPHA))
    assert visits.record_fetch(writer, "a.example", serves(clock.tick(), ALPHA)) == 0
    assert facts(store) == {digest(ALPHA): (first, clock.now)}
    clock.tick()
    block_writer.append(writer, "demo", [says("1", points("a.example", ALPHA, "again"))])
    assert due_locators(store, clock.now, 1)[0].fresh
    assert visits.record_fetch(writer, "a.example", serves(clock.tick(), ALPHA)) == 1


def test_something_else_is_news_and_is_served_since_then(store: Store, writer: Writer, clock: Clock) -> None:
    block_writer.append(writer, "demo", [says("0", points("a.example", ALPHA))])
    visits.record_fetch(writer, "a.example", serves(clock.tick(), ALPHA))
    changed = clock.tick()
    other = replace(serves(changed), state=FetchState.MISMATCH, served=(ServedBody("https://a.example", digest(BETA)),))
    assert visits.record_fetch(writer, "a.example", other) == 1
    existing = store.fetches.statuses(["a.example"])["a.example"]
    assert (existing.state, existing.tries, existing.serving, existing.serving_since) == (
        "mismatch",
        1,
        digest(BETA),
        changed,
    )
    assert visits.record_fetch(writer, "a.example", fails(clock.tick())) == 1
    existing = store.fetches.statuses(["a.example"])["a.example"]
    assert (existing.state, existing.reason, existing.tries) == ("failed", "fetch-connect", 2)
    assert (existing.serving, existing.serving_since) == (digest(BETA), changed)
    assert store.content.cards([digest(BETA)]) == {}


def test_an_anchor_seen_while_a_fetch_is_under_way_is_fetched_for_at_once(
    store: Store, writer: Writer, clock: Clock
) -> None:
    block_writer.append(writer, "demo", [says("0", points("a.example", ALPHA))])
    begun = clock.tick()
    clock.tick()
    block_writer.append(writer, "demo", [says("1", points("a.example", BETA, "later"))])
    visits.record_fetch(writer, "a.example", serves(begun, ALPHA))
    (job,) = due_locators(store, clock.now, 10)
    assert (job.next_at, job.fresh, job.digests) == (clock.now, True, (digest(BETA), digest(ALPHA)))


def test_a_recheck_makes_a_locator_that_was_given_up_due(store: Store, writer: Writer, clock: Clock) -> None:
    block_writer.append(writer, "demo", [says("0", points("a.example", ALPHA))])
    visits.record_fetch(writer, "a.example", fails(clock.tick(), state=FetchState.GIVEN_UP, next_at=None))
    assert due(store) == []
    rechecks = Rechecks(store.engine)
    (recheck,) = rechecks.request("a.example", clock.tick(RECHECK_PAUSE))
    assert rechecks.request("b.example", clock.now) == []
    (job,) = due_locators(store, clock.now, 10)
    assert (job.locator, job.state, job.next_at, job.tries) == ("a.example", FetchState.GIVEN_UP, clock.now, 1)
    assert (recheck.name, recheck.next_at) == ("a.example", clock.now)
    rechecks.request("a.example", clock.now + 5)
    assert due_locators(store, clock.now, 10) == [job]


def test_bytes_that_do_not_have_their_hash_are_refused_whole(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0", points("a.example", ALPHA))])
    with pytest.raises(ValueError, match="do not have the SHA-256"):
        visits.record_fetch(
            writer, "a.example", replace(serves(2_000), served=(ServedBody("https://x", digest(ALPHA), BETA),))
        )
    assert facts(store) == {}
    assert store.fetches.statuses(["a.example"])["a.example"].state is FetchState.NEW


def test_what_no_pointer_ever_named_is_not_written_down(store: Store, writer: Writer) -> None:
    assert visits.record_fetch(writer, "a.example", serves(2_000, ALPHA)) == 0
    assert (facts(store), store.content.cards([digest(ALPHA)])) == ({}, {})


def test_details_of_strangers_are_bounded(store: Store, writer: Writer) -> None:
    block_writer.append(writer, "demo", [says("0", points("a.example", ALPHA))])
    visits.record_fetch(writer, "a.example", fails(2_000, detail="a\0" * 10_000))
    assert store.fetches.statuses(["a.example"])["a.example"].detail == "a" * 500


def test_due_locators_come_in_pages_those_due_longest_first(store: Store, writer: Writer, clock: Clock) -> None:
    block_writer.append(writer, "demo", [says("0", *(points(f"{n}.example", ALPHA, position=n) for n in range(5)))])
    for number in (3, 1):
        visits.record_fetch(writer, f"{number}.example", fails(clock.now, next_at=clock.now + number))
    first = store.fetches.queued(clock.now + 60_000, 2, (-1, ""))
    second = store.fetches.queued(clock.now + 60_000, 2, first[-1][:2])
    third = store.fetches.queued(clock.now + 60_000, 2, second[-1][:2])
    pages = [[job.locator for job in page] for page in (first, second, third)]
    assert pages == [["0.example", "2.example"], ["4.example", "1.example"], ["3.example"]]


# -- bounds -----------------------------------------------------------------------------------------------------------


def test_a_host_that_serves_something_else_each_time_fills_nothing(store: Store, writer: Writer, clock: Clock) -> None:
    block_writer.append(
        writer, "demo", [says("0", points("a.example", ALPHA), points("a.example", where="loose", position=1))]
    )
    visits.record_fetch(writer, "a.example", serves(clock.tick(), ALPHA))
    for number in range(40):
        visits.record_fetch(writer, "a.example", serves(clock.tick(), card(f"{number}"), state=FetchState.UNHASHED))
    stored = facts(store)
    assert len(stored) == MAX_FACTS
    assert digest(ALPHA) in stored
    with store.engine.connect() as connection:
        bodies = set(connection.execute(select(cards.c.body)).scalars())
    assert bodies == {ALPHA, card("39"), card("38")}


def test_what_is_served_one_after_the_other_is_written_down(store: Store, writer: Writer, clock: Clock) -> None:
    block_writer.append(writer, "demo", [says("1", points("a.example", ALPHA))])
    other = {"state": FetchState.MISMATCH, "reason": "fetch-mismatch"}
    bodies = [ALPHA, BETA, BETA, ALPHA, *(b"%d" % number for number in range(MAX_SERVINGS - 3))]
    times = [clock.tick() for _ in bodies]
    for position, body in zip(times, bodies, strict=True):
        visits.record_fetch(writer, "a.example", serves(position, body, **({} if body == ALPHA else other)))
    visits.record_fetch(writer, "a.example", fails(clock.tick()))
    changes = [
        (digest(body), index) for number, (index, body) in enumerate(zip(times, bodies, strict=True)) if number != 2
    ]
    assert store.pointers.servings(["a.example", "b.example"]) == changes
    assert drifts(store, "a.example") == [(sha256, index) for sha256, index in changes[::-1] if sha256 != digest(ALPHA)]
    visits.record_fetch(writer, "a.example", serves(clock.tick(), BETA, **other))
    assert store.pointers.servings(["a.example"]) == [*changes[1:], (digest(BETA), clock.now)]


def test_a_drift_that_an_earlier_version_saw_is_returned(store: Store, writer: Writer, clock: Clock) -> None:
    block_writer.append(writer, "demo", [says("1", points("a.example", ALPHA))])
    visits.record_fetch(writer, "a.example", serves(clock.tick(), ALPHA))
    visits.record_fetch(
        writer, "a.example", serves(clock.tick(), BETA, state=FetchState.MISMATCH, reason="fetch-mismatch")
    )
    with store.engine.begin() as connection:
        servings.drop(connection)
    again = connect(store.engine.url.render_as_string(hide_password=False))
    assert drifts(Store(again), "a.example") == [(digest(BETA), clock.now)]
    again.dispose()


def test_bodies_that_others_need_are_not_dropped(store: Store, writer: Writer, clock: Clock) -> None:
    inscribed = replace(born("x"), position=2, card=digest(BETA))
    block_writer.append(writer, "demo", [says("0", points("a.example"), points("b.example", position=1), inscribed)])
    for body in (ALPHA, BETA):
        visits.record_fetch(writer, "a.example", serves(clock.tick(), body, state=FetchState.UNHASHED))
    visits.record_fetch(writer, "b.example", serves(clock.tick(), ALPHA, state=FetchState.UNHASHED))
    for number in range(MAX_FACTS + 1):
        visits.record_fetch(writer, "a.example", serves(clock.tick(), card(f"{number}"), state=FetchState.UNHASHED))
    assert store.content.cards([digest(ALPHA), digest(BETA), digest(card("1"))]) == {
        digest(ALPHA): ALPHA,
        digest(BETA): BETA,
    }


def test_a_flood_of_pointers_to_one_victim_is_one_job_that_knows_every_hash(
    store: Store, writer: Writer, clock: Clock
) -> None:
    flood = [points("a.example", b"%d" % n, f"flood {n}", n) for n in range(10_000)]
    block_writer.append(writer, "demo", [says("0", points("a.example", ALPHA)), says("1", *flood)])
    (job,) = due_locators(store, clock.now, 10)
    assert len(job.digests) == 16
    assert store.fetches.is_named("a.example", digest(ALPHA))
    assert store.fetches.is_named("a.example", digest(b"9999"))
    assert not store.fetches.is_named("a.example", digest(BETA))
    assert visits.record_fetch(writer, "a.example", serves(clock.tick(), ALPHA)) == 1
    assert len(store.outbox.after(0, 10_000)) == 3
    block_writer.forget(writer, "demo", 0)
    with store.engine.connect() as connection:
        assert connection.execute(select(func.count()).select_from(sightings)).scalar_one() == 10_001


def test_an_event_about_an_entry_that_ends_removes_it(store: Store, writer: Writer) -> None:
    entry = "eip155:1:0x8004a169fb4a3325136eb29fa0ceb6d2e539a432/7"
    ended = replace(points(entry, where="end", uri="https://a.example/7", form="erc8004"), kind=EventKind.BURNED)
    block_writer.append(writer, "demo", [says("0", replace(ended, valid=False))])
    assert news(store) == [("remove", entry, "burned")]


def test_counts_are_by_state(store: Store, writer: Writer, clock: Clock) -> None:
    block_writer.append(writer, "demo", [says("0", points("a.example", ALPHA), points("b.example", position=1))])
    visits.record_fetch(writer, "a.example", serves(clock.tick(), ALPHA))
    counts = store.fetches.counts()
    assert (counts["met"], counts["new"], counts["failed"]) == (1, 1, 0)
    with store.engine.begin() as connection:
        connection.execute(update(locators).values(state="given-up"))
    assert store.fetches.counts()["given-up"] == 2


def test_the_real_clock_says_when_a_pointer_was_seen(store: Store) -> None:
    before = int(time.time() * 1000)
    writer = Writer(store.engine)
    block_writer.append(writer, "demo", [says("0", points("a.example", ALPHA))])
    writer.close()
    assert before <= seen(store)[name("a.example")][1] <= int(time.time() * 1000)
