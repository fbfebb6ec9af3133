"""Deliveries of webhooks: what is reported, once and in order, retried and never lost, and bounded."""

from __future__ import annotations

import asyncio
import shutil
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography.exceptions import InvalidSignature
from sqlalchemy import insert

from indexer.store import connect
from indexer.store.database import writing
from indexer.store.process_lock import servers_lock
from indexer.store.queries import row_of
from overlay.projection.documents import DocumentReader
from overlay.systems.webhooks.delivery_loop import BACKOFF, GIVE_UP_SECONDS, PER_DOMAIN, DeliveryLoop
from overlay.systems.webhooks.matcher import MAX_CHANGES
from overlay.systems.webhooks.store import (
    MAX_LOG,
    MAX_REPORTED,
    MAX_WAITING,
    ListingReport,
    NewDelivery,
    StoredWebhook,
    StoredWebhooks,
    subscriptions,
)
from tests.chainkit import agent
from tests.databases import database_url, postgresql
from tests.overlay.webhooks.webhook_registry import IDENTITY, Target, WebhookRegistry, registry, target, verify
from tests.waiting import until

__all__ = ["database_url", "postgresql", "registry", "target"]


async def test_a_new_listing_that_holds_all_words_is_reported_and_no_other(
    registry: WebhookRegistry, target: Target
) -> None:
    registry.mine(registry.kit.inscribe(agent("Lantern", description="Lights the harbour, and did so earlier.")))
    await registry.look()
    id_ = registry.subscribe("q=harbours lantern&type=agent")
    both = registry.kit.inscribe(agent("Lantern", description="Lights a harbour."), owner="alice")
    registry.mine(both, registry.kit.inscribe(agent("Lantern only")), registry.kit.inscribe(agent("Harbour only")))
    await registry.look()
    await registry.deliver()
    [message] = target.messages
    verify(message, IDENTITY.ed25519_public)
    assert (message.id.startswith(f"{id_}-1-"), message.timestamp) == (True, 1_800_000_000)
    body = message.body
    assert (body["type"], body["subscription"], body["sequence"], body["more"]) == ("search.changed", id_, 1, 0)
    [change] = body["changes"]
    assert (change["op"], change["id"], change["height"]) == ("match", str(both), 3)
    assert change["url"] == f"https://registry.example/v1/listings/{both}"
    listing = change["listing"]
    assert (listing["name"], listing["status"], listing["updatedHeight"]) == ("Lantern", "live", 3)
    with pytest.raises(InvalidSignature):
        verify(message._replace(timestamp=message.timestamp + 1), IDENTITY.ed25519_public)
    await registry.deliver()
    await registry.look()
    await registry.deliver()
    assert len(target.messages) == 1


async def test_a_listing_that_fails_keeps_no_other_from_being_reported(
    registry: WebhookRegistry, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.subscribe("q=lantern")
    bad = registry.kit.inscribe(agent("Lantern one"))
    registry.mine(bad)
    await registry.look()
    await registry.deliver()
    target.messages.clear()
    read = DocumentReader.documents

    def reading(reader: DocumentReader, registrations: Any) -> Any:
        if str(bad) in registrations:
            raise OverflowError("date value out of range")
        return read(reader, registrations)

    monkeypatch.setattr(DocumentReader, "documents", reading)
    good = registry.kit.inscribe(agent("Lantern two"))
    registry.mine(good, registry.kit.move(bad))
    await registry.look()
    await registry.deliver()
    [message] = target.messages
    assert [(change["op"], change["id"]) for change in message.body["changes"]] == [("match", str(good))]


async def test_the_life_of_a_listing_is_reported_from_the_mempool_to_its_end(
    registry: WebhookRegistry, target: Target
) -> None:
    registry.subscribe("q=lantern")
    lantern = registry.kit.inscribe(agent("Lantern"))

    async def reported() -> list[tuple[str, Any]]:
        target.messages.clear()
        await registry.look()
        await registry.deliver()
        changes = [change for message in target.messages for change in message.body["changes"]]
        return [(change["op"], (change["listing"] or {}).get("status")) for change in changes]

    registry.announce(lantern)
    assert await reported() == [("match", "pending")]
    registry.mine(lantern)
    assert await reported() == [("match", "live")]
    registry.mine()
    assert await reported() == [], "nothing new of it"
    update = registry.kit.update(lantern, agent("Lantern", description="Brighter."))
    registry.mine(update)
    assert await reported() == [("match", "live")]
    other = registry.kit.update(update, agent("Darkness"))
    registry.mine(other)
    assert await reported() == [("gone", None)]
    registry.mine(again := registry.kit.update(other, agent("Lantern again")))
    assert await reported() == [("match", "live")]
    registry.mine(registry.kit.burn(again))
    assert await reported() == [("gone", None)]


async def test_what_a_reorganisation_takes_is_reported_as_gone(registry: WebhookRegistry, target: Target) -> None:
    registry.subscribe()
    registry.mine()
    fork = registry.kit.tip
    registry.mine(registry.kit.inscribe(agent("Echo")))
    await registry.look()
    await registry.deliver()
    registry.chain.arrive(first := registry.kit.mine(parent=fork), registry.kit.mine(parent=first))
    await registry.look()
    await registry.deliver()
    assert [op for message in target.messages for op, _ in message.changes] == ["match", "gone"]
    assert target.messages[-1].body["changes"][0]["listing"] is None


async def test_copies_of_a_listing_are_not_reported(registry: WebhookRegistry, target: Target) -> None:
    registry.subscribe()
    text = "Repeats every word that it hears, loud and clear, in seven languages and at any time of the day."
    registry.mine(registry.kit.inscribe(agent("Echo", description=text), owner="alice"))
    await registry.look()
    registry.mine(registry.kit.inscribe(agent("Echo", description=text), owner="bob"))
    await registry.look()
    await registry.deliver()
    await registry.deliver()
    assert [message.changes for message in target.messages] == [[("match", "Echo")]]


async def test_filters_hold_on_one_offer_and_phrases_and_exclusions_count(
    registry: WebhookRegistry, target: Target
) -> None:
    prices = [{"id": "p", "currency": "USD", "amount": "5", "address": "1abc"}]
    dear = [prices[0] | {"amount": "50"}]
    registry.subscribe('q="loud echo" -paid&maxPrice=9&priceCurrency=USD')
    registry.mine(
        registry.kit.inscribe(agent("A loud echo") | {"x-payment-config": prices}),
        registry.kit.inscribe(agent("Dear", description="A loud echo.") | {"x-payment-config": dear}),
        registry.kit.inscribe(agent("Echo, loud") | {"x-payment-config": prices}),
        registry.kit.inscribe(agent("Paid", description="Loud echo, paid.") | {"x-payment-config": prices}),
    )
    await registry.look()
    await registry.deliver()
    assert [message.changes for message in target.messages] == [[("match", "A loud echo")]]


async def test_a_failed_delivery_is_sent_again_unchanged_with_growing_pauses(
    registry: WebhookRegistry, target: Target
) -> None:
    id_ = registry.subscribe()
    registry.mine(registry.kit.inscribe(agent("Echo")))
    await registry.look()
    target.status = 500
    pauses = []
    for _ in range(4):
        await registry.deliver()
        due = registry.state(id_).next_at
        assert due is not None
        pauses.append(due - registry.clock.now)
        registry.clock.now = due - 1
        await registry.deliver()
        registry.clock.now = due
    assert pauses == [10, 30, 90, 270]
    [entry] = registry.subscriptions.log(id_)
    assert (entry.state, entry.tries, entry.outcome) == ("waiting", 4, "500")
    assert registry.state(id_).failing_since == 1_800_000_000
    target.status = 204
    await registry.deliver()
    assert len(target.messages) == 5
    assert len({(message.id, message.raw) for message in target.messages}) == 1
    assert len({message.timestamp for message in target.messages}) == 5
    for message in target.messages:
        verify(message, IDENTITY.ed25519_public)
    [entry] = registry.subscriptions.log(id_)
    assert (entry.state, entry.body, entry.tries, entry.outcome) == ("delivered", None, 5, "204")
    assert (registry.state(id_).failing_since, registry.state(id_).next_at) == (None, None)


async def test_a_target_may_ask_for_a_longer_pause_and_redirects_are_failures(
    registry: WebhookRegistry, target: Target
) -> None:
    id_ = registry.subscribe()
    registry.mine(registry.kit.inscribe(agent("Echo")))
    await registry.look()
    target.status, target.headers = 503, {"Retry-After": "600"}
    await registry.deliver()
    assert registry.state(id_).next_at == 1_800_000_600
    target.status, target.headers = 307, {"Location": "https://hook.example/elsewhere"}
    registry.clock.now += 600
    await registry.deliver()
    assert len(target.messages) == 2
    assert registry.subscriptions.log(id_)[0].outcome == "307"


async def test_a_subscription_ends_after_three_days_of_failures(registry: WebhookRegistry, target: Target) -> None:
    id_ = registry.subscribe()
    registry.mine(registry.kit.inscribe(agent("Echo")))
    await registry.look()
    target.status = 500
    began = registry.clock.now
    while (due := registry.state(id_).next_at) is not None:
        assert due - registry.clock.now <= BACKOFF.longest
        registry.clock.now = due
        await registry.deliver()
    assert registry.clock.now - began >= GIVE_UP_SECONDS
    assert registry.clock.now - began < GIVE_UP_SECONDS + BACKOFF.longest
    ended = registry.state(id_)
    assert (ended.reason, ended.ended_at) == ("three-days-of-failures", registry.clock.now)
    assert registry.subscriptions.log(id_)[0].state == "dropped"
    registry.mine(registry.kit.inscribe(agent("Another echo")))
    await registry.look()
    assert len(registry.subscriptions.log(id_)) == 1
    registry.subscriptions.trim(int(registry.clock.now) + 8 * 86_400)
    assert registry.subscriptions.get(id_) is None


async def test_a_target_that_is_gone_ends_its_subscription(registry: WebhookRegistry, target: Target) -> None:
    id_ = registry.subscribe()
    registry.mine(registry.kit.inscribe(agent("Echo")))
    await registry.look()
    target.status = 410
    await registry.deliver()
    assert registry.state(id_).reason == "target-gone"


async def test_a_crash_after_sending_repeats_the_delivery_under_its_id(
    registry: WebhookRegistry, target: Target
) -> None:
    id_ = registry.subscribe()
    registry.mine(registry.kit.inscribe(agent("Echo")))
    await registry.look()
    waiting = registry.subscriptions.oldest_waiting(id_)
    assert waiting is not None
    assert waiting.body is not None
    await registry.targets.post(
        "https://hook.example/in", waiting.message_id, waiting.body
    )  # and then the process dies
    registry.indexing.restart()
    registry.projector = type(registry.projector)(registry.indexing.store, registry.index, registry.duplicates)
    registry.start()
    registry.mine(registry.kit.inscribe(agent("Second echo")))
    await registry.look()
    await registry.deliver()
    await registry.deliver()
    ids = [message.id for message in target.messages]
    assert (ids[0], ids[1], ids[2].startswith(f"{id_}-2-")) == (waiting.message_id, waiting.message_id, True)
    assert target.messages[0].raw == target.messages[1].raw
    assert target.messages[2].changes == [("match", "Second echo")]


async def test_two_processes_queue_a_change_once(registry: WebhookRegistry, target: Target) -> None:
    id_ = registry.subscribe()
    registry.mine(registry.kit.inscribe(agent("Echo")))
    await registry.indexing.refresh()
    registry.projector.run()
    other = registry.new_matcher()
    position = registry.subscriptions.position()
    steps = await asyncio.gather(*(asyncio.to_thread(matcher.step) for matcher in (registry.matcher, other)))
    assert any(steps)
    assert len(registry.subscriptions.log(id_)) == 1
    stale = NewDelivery(id_, 2, b"{}", [ListingReport("x", "x", b"1")])
    assert not registry.subscriptions.enqueue(position, ("epoch", 1), [stale], 0), "another one moved the position"
    assert len(registry.subscriptions.log(id_)) == 1


async def test_one_process_holds_a_lock_until_it_ends(registry: WebhookRegistry) -> None:
    lock, other = (servers_lock(registry.indexing.store.engine) for _ in range(2))
    assert lock.acquire()
    assert lock.acquire()
    assert not other.acquire()
    lock.release()
    assert other.acquire()
    assert not lock.acquire()
    other.release()


async def test_a_slow_target_holds_up_no_other(registry: WebhookRegistry, target: Target) -> None:
    slow = [registry.subscribe(url=f"https://slow.example/{number}") for number in range(3)]
    quick = registry.subscribe()
    registry.mine(registry.kit.inscribe(agent("Echo")))
    await registry.look()
    await registry.loop.start()
    await until(lambda: registry.subscriptions.log(quick)[0].state == "delivered")
    held = [message.host for message in target.messages if message.host == "slow.example"]
    assert len(held) <= 2, "of one domain"
    assert {registry.subscriptions.log(id_)[0].state for id_ in slow} == {"waiting"}
    target.gate.set()
    await registry.loop.settle()
    await registry.deliver()
    assert {registry.subscriptions.log(id_)[0].state for id_ in slow} == {"delivered"}


async def test_the_queue_and_the_log_of_a_subscription_are_bounded(registry: WebhookRegistry, target: Target) -> None:
    id_ = registry.subscribe()

    def queue(first: int, count: int) -> None:
        for number in range(first, first + count):
            new = NewDelivery(id_, number, b'{"type": "x", "changes": []}', [ListingReport(f"l{number}", "r", b"1")])
            assert registry.subscriptions.enqueue(registry.subscriptions.position(), ("e", number), [new], 5)

    queue(1, MAX_WAITING + 5)
    states = [entry.state for entry in registry.subscriptions.log(id_)]
    assert states == ["waiting"] * MAX_WAITING + ["dropped"] * 5
    for _ in range(MAX_WAITING):
        await registry.deliver()
    assert [message.body["type"] for message in target.messages] == ["x"] * MAX_WAITING
    for first in range(MAX_WAITING + 6, 80, 5):
        queue(first, 5)
        for _ in range(5):
            await registry.deliver()
    assert len(registry.subscriptions.log(id_)) == MAX_LOG
    reports = [ListingReport(f"m{number}", "r", b"1") for number in range(MAX_REPORTED)]
    enlarged = NewDelivery(id_, 1_000, b"{}", reports)
    registry.subscriptions.enqueue(registry.subscriptions.position(), ("e", 1_000), [enlarged], 5)
    registry.subscriptions.trim(6)
    assert {report.listing for report in registry.subscriptions.reports(["r"]).values()} == {
        one.listing for one in reports
    }


async def test_many_changes_at_once_are_cut_and_counted(registry: WebhookRegistry, target: Target) -> None:
    registry.subscribe()
    registry.mine(*(registry.kit.inscribe(agent(f"Echo {number}")) for number in range(MAX_CHANGES + 3)))
    await registry.look()
    await registry.deliver()
    [message] = target.messages
    assert (len(message.changes), message.body["more"]) == (MAX_CHANGES, 3)


async def test_a_deleted_subscription_gets_nothing_more(registry: WebhookRegistry, target: Target) -> None:
    id_ = registry.subscribe()
    registry.mine(registry.kit.inscribe(agent("Echo")))
    await registry.look()
    registry.subscriptions.delete(id_)
    await registry.deliver()
    registry.mine(registry.kit.inscribe(agent("Another echo")))
    await registry.look()
    assert target.messages == []
    assert registry.subscriptions.log(id_) == []
    assert registry.subscriptions.reports(["x"]) == {}


async def test_a_thousand_due_deliveries_to_one_domain_do_not_hide_another(tmp_path: Path) -> None:
    engine = connect(f"sqlite:///{tmp_path}/a.db")
    hosts = [*(f"h{number}.slow.example" for number in range(1_100)), "other.example"]
    rows = [
        row_of(
            StoredWebhook(
                id=host, client=host, url=f"https://{host}/in", search="q=a", base="", secret_sha256=b"",
                created_at=1, next_at=number,
            )
        )
        for number, host in enumerate(hosts)
    ]  # fmt: skip
    with writing(engine) as connection:
        connection.execute(insert(subscriptions), rows)
    stored = StoredWebhooks(engine)
    loop = DeliveryLoop(stored, cast("Any", None), cast("Any", None), clock=lambda: 2_000.0)
    assert [id_ for id_, _ in stored.due(2_000)] == hosts
    await loop.start()
    await loop.settle()
    assert "other.example" not in dict(stored.due(2_000))
    assert len(list(stored.due(2_000))) == 1_100 - PER_DOMAIN
    engine.dispose()


def test_a_database_that_was_put_back_queues_no_delivery_under_an_id_that_was_sent(tmp_path: Path) -> None:
    """A receiver that recognises repeats by their id would drop it."""
    usual = {"client": "c", "url": "https://a.example/", "search": "q=a", "base": "", "secret_sha256": b""}
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    StoredWebhooks(engine).add(StoredWebhook(id="w", **usual, created_at=1))
    engine.dispose()
    shutil.copy(tmp_path / "a2b.db", tmp_path / "copy.db")
    queued = []
    for name, body in (("a2b.db", b"{}"), ("copy.db", b'{"other": 1}')):
        engine = connect(f"sqlite:///{tmp_path}/{name}")
        webhooks = StoredWebhooks(engine)
        assert webhooks.enqueue(None, ("epoch", 1), [NewDelivery("w", 1, body, [])], 2)
        queued += [webhooks.oldest_waiting("w"), webhooks.oldest_waiting("w")]
        engine.dispose()
    ids = [delivery.message_id for delivery in queued if delivery is not None]
    assert (ids[0] == ids[1], ids[2] == ids[3], ids[0] == ids[2], len(ids)) == (True, True, False, 4)


def test_a_look_for_what_is_due_that_has_enough_closes_its_cursor(database_url: str) -> None:
    engine = connect(database_url)
    usual = {"client": "c", "url": "https://a.example/", "search": "q=a", "base": "", "secret_sha256": b""}
    rows = [row_of(StoredWebhook(id=f"{number}", **usual, created_at=1, next_at=number)) for number in range(100)]
    with writing(engine) as connection:
        connection.execute(insert(subscriptions), rows)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with closing(StoredWebhooks(engine).due(2_000)) as due:
            assert next(due) == ("0", "https://a.example/")
    assert [str(warning.message) for warning in warned if warning.category is ResourceWarning] == []
    engine.dispose()
