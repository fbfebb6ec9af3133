"""Deliveries of webhooks: what is reported, once and in order, retried and never lost, and bounded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature

from indexer.store.locks import AdvisoryLock
from indexer.store.process_lock import ProcessLock
from indexer.store.subscriptions import MAX_LOG, MAX_REPORTED, MAX_WAITING, ListingReport, NewDelivery
from overlay.systems.webhooks.delivery_loop import BACKOFF, GIVE_UP_SECONDS
from overlay.systems.webhooks.matcher import MAX_CHANGES
from tests.chainkit import agent
from tests.databases import database_url, postgresql
from tests.overlay.webhooks.office import IDENTITY, Office, Target, office, target, verify
from tests.waiting import until

__all__ = ["database_url", "office", "postgresql", "target"]


async def test_a_new_listing_that_holds_all_words_is_reported_and_no_other(office: Office, target: Target) -> None:
    office.mine(office.kit.inscribe(agent("Lantern", description="Lights the harbour, and did so earlier.")))
    await office.look()
    id_ = office.subscribe("q=harbours lantern&type=agent")
    both = office.kit.inscribe(agent("Lantern", description="Lights a harbour."), owner="alice")
    office.mine(both, office.kit.inscribe(agent("Lantern only")), office.kit.inscribe(agent("Harbour only")))
    await office.look()
    await office.deliver()
    [message] = target.messages
    verify(message, IDENTITY.ed25519_public)
    assert (message.id, message.timestamp) == (f"{id_}-1", 1_800_000_000)
    body = message.body
    assert (body["type"], body["subscription"], body["sequence"], body["more"]) == ("search.changed", id_, 1, 0)
    [change] = body["changes"]
    assert (change["op"], change["id"], change["height"]) == ("match", str(both), 3)
    assert change["url"] == f"https://registry.example/v1/listings/{both}"
    listing = change["listing"]
    assert (listing["name"], listing["status"], listing["updatedHeight"]) == ("Lantern", "live", 3)
    with pytest.raises(InvalidSignature):
        verify(message._replace(timestamp=message.timestamp + 1), IDENTITY.ed25519_public)
    await office.deliver()
    await office.look()
    await office.deliver()
    assert len(target.messages) == 1


async def test_the_life_of_a_listing_is_reported_from_the_mempool_to_its_end(office: Office, target: Target) -> None:
    office.subscribe("q=lantern")
    lantern = office.kit.inscribe(agent("Lantern"))

    async def reported() -> list[tuple[str, Any]]:
        target.messages.clear()
        await office.look()
        await office.deliver()
        changes = [change for message in target.messages for change in message.body["changes"]]
        return [(change["op"], (change["listing"] or {}).get("status")) for change in changes]

    office.announce(lantern)
    assert await reported() == [("match", "pending")]
    office.mine(lantern)
    assert await reported() == [("match", "live")]
    office.mine()
    assert await reported() == [], "nothing new of it"
    update = office.kit.update(lantern, agent("Lantern", description="Brighter."))
    office.mine(update)
    assert await reported() == [("match", "live")]
    other = office.kit.update(update, agent("Darkness"))
    office.mine(other)
    assert await reported() == [("gone", None)]
    office.mine(again := office.kit.update(other, agent("Lantern again")))
    assert await reported() == [("match", "live")]
    office.mine(office.kit.burn(again))
    assert await reported() == [("gone", None)]


async def test_what_a_reorganisation_takes_is_reported_as_gone(office: Office, target: Target) -> None:
    office.subscribe()
    office.mine()
    fork = office.kit.tip
    office.mine(office.kit.inscribe(agent("Echo")))
    await office.look()
    await office.deliver()
    office.chain.arrive(first := office.kit.mine(parent=fork), office.kit.mine(parent=first))
    await office.look()
    await office.deliver()
    assert [op for message in target.messages for op, _ in message.changes] == ["match", "gone"]
    assert target.messages[-1].body["changes"][0]["listing"] is None


async def test_copies_of_a_listing_are_not_reported(office: Office, target: Target) -> None:
    office.subscribe()
    text = "Repeats every word that it hears, loud and clear, in seven languages and at any time of the day."
    office.mine(office.kit.inscribe(agent("Echo", description=text), owner="alice"))
    await office.look()
    office.mine(office.kit.inscribe(agent("Echo", description=text), owner="bob"))
    await office.look()
    await office.deliver()
    await office.deliver()
    assert [message.changes for message in target.messages] == [[("match", "Echo")]]


async def test_filters_hold_on_one_offer_and_phrases_and_exclusions_count(office: Office, target: Target) -> None:
    prices = [{"id": "p", "currency": "USD", "amount": "5", "address": "1abc"}]
    dear = [prices[0] | {"amount": "50"}]
    office.subscribe('q="loud echo" -paid&maxPrice=9&priceCurrency=USD')
    office.mine(
        office.kit.inscribe(agent("A loud echo") | {"x-payment-config": prices}),
        office.kit.inscribe(agent("Dear", description="A loud echo.") | {"x-payment-config": dear}),
        office.kit.inscribe(agent("Echo, loud") | {"x-payment-config": prices}),
        office.kit.inscribe(agent("Paid", description="Loud echo, paid.") | {"x-payment-config": prices}),
    )
    await office.look()
    await office.deliver()
    assert [message.changes for message in target.messages] == [[("match", "A loud echo")]]


async def test_a_failed_delivery_is_sent_again_unchanged_with_growing_pauses(office: Office, target: Target) -> None:
    id_ = office.subscribe()
    office.mine(office.kit.inscribe(agent("Echo")))
    await office.look()
    target.status = 500
    pauses = []
    for _ in range(4):
        await office.deliver()
        due = office.state(id_).next_at
        assert due is not None
        pauses.append(due - office.clock.now)
        office.clock.now = due - 1
        await office.deliver()
        office.clock.now = due
    assert pauses == [10, 30, 90, 270]
    [entry] = office.subscriptions.log(id_)
    assert (entry.state, entry.tries, entry.outcome) == ("waiting", 4, "500")
    assert office.state(id_).failing_since == 1_800_000_000
    target.status = 204
    await office.deliver()
    assert len(target.messages) == 5
    assert len({(message.id, message.raw) for message in target.messages}) == 1
    assert len({message.timestamp for message in target.messages}) == 5
    for message in target.messages:
        verify(message, IDENTITY.ed25519_public)
    [entry] = office.subscriptions.log(id_)
    assert (entry.state, entry.body, entry.tries, entry.outcome) == ("delivered", None, 5, "204")
    assert (office.state(id_).failing_since, office.state(id_).next_at) == (None, None)


async def test_a_target_may_ask_for_a_longer_pause_and_redirects_are_failures(office: Office, target: Target) -> None:
    id_ = office.subscribe()
    office.mine(office.kit.inscribe(agent("Echo")))
    await office.look()
    target.status, target.headers = 503, {"Retry-After": "600"}
    await office.deliver()
    assert office.state(id_).next_at == 1_800_000_600
    target.status, target.headers = 307, {"Location": "https://hook.example/elsewhere"}
    office.clock.now += 600
    await office.deliver()
    assert len(target.messages) == 2
    assert office.subscriptions.log(id_)[0].outcome == "307"


async def test_a_subscription_ends_after_three_days_of_failures(office: Office, target: Target) -> None:
    id_ = office.subscribe()
    office.mine(office.kit.inscribe(agent("Echo")))
    await office.look()
    target.status = 500
    began = office.clock.now
    while (due := office.state(id_).next_at) is not None:
        assert due - office.clock.now <= BACKOFF.longest
        office.clock.now = due
        await office.deliver()
    assert office.clock.now - began >= GIVE_UP_SECONDS
    assert office.clock.now - began < GIVE_UP_SECONDS + BACKOFF.longest
    ended = office.state(id_)
    assert (ended.reason, ended.ended_at) == ("three-days-of-failures", office.clock.now)
    assert office.subscriptions.log(id_)[0].state == "dropped"
    office.mine(office.kit.inscribe(agent("Another echo")))
    await office.look()
    assert len(office.subscriptions.log(id_)) == 1
    office.subscriptions.trim(int(office.clock.now) + 8 * 86_400)
    assert office.subscriptions.get(id_) is None


async def test_a_target_that_is_gone_ends_its_subscription(office: Office, target: Target) -> None:
    id_ = office.subscribe()
    office.mine(office.kit.inscribe(agent("Echo")))
    await office.look()
    target.status = 410
    await office.deliver()
    assert office.state(id_).reason == "target-gone"


async def test_a_crash_after_sending_repeats_the_delivery_under_its_id(office: Office, target: Target) -> None:
    id_ = office.subscribe()
    office.mine(office.kit.inscribe(agent("Echo")))
    await office.look()
    waiting = office.subscriptions.oldest_waiting(id_)
    assert waiting is not None
    assert waiting.body is not None
    await office.targets.post("https://hook.example/in", f"{id_}-1", waiting.body)  # and then the process dies
    office.indexing.restart()
    office.projector = type(office.projector)(office.indexing.store, office.index, office.duplicates)
    office.start()
    office.mine(office.kit.inscribe(agent("Second echo")))
    await office.look()
    await office.deliver()
    await office.deliver()
    assert [message.id for message in target.messages] == [f"{id_}-1", f"{id_}-1", f"{id_}-2"]
    assert target.messages[0].raw == target.messages[1].raw
    assert target.messages[2].changes == [("match", "Second echo")]


async def test_two_processes_queue_a_change_once(office: Office, target: Target) -> None:
    id_ = office.subscribe()
    office.mine(office.kit.inscribe(agent("Echo")))
    await office.indexing.refresh()
    office.projector.run()
    other = office.new_matcher()
    position = office.subscriptions.position()
    steps = await asyncio.gather(*(asyncio.to_thread(matcher.step) for matcher in (office.matcher, other)))
    assert any(steps)
    assert len(office.subscriptions.log(id_)) == 1
    stale = NewDelivery(id_, 2, b"{}", [ListingReport("x", "x", b"1")])
    assert not office.subscriptions.enqueue(position, ("epoch", 1), [stale], 0), "another one moved the position"
    assert len(office.subscriptions.log(id_)) == 1


async def test_one_process_holds_a_lock_until_it_ends(office: Office) -> None:
    lock, other = (ProcessLock(office.indexing.store.engine, "servers.lock", AdvisoryLock.SERVERS) for _ in range(2))
    assert lock.acquire()
    assert lock.acquire()
    assert not other.acquire()
    lock.release()
    assert other.acquire()
    assert not lock.acquire()
    other.release()


async def test_a_slow_target_holds_up_no_other(office: Office, target: Target) -> None:
    slow = [office.subscribe(url=f"https://slow.example/{number}") for number in range(3)]
    quick = office.subscribe()
    office.mine(office.kit.inscribe(agent("Echo")))
    await office.look()
    await office.loop.start()
    await until(lambda: office.subscriptions.log(quick)[0].state == "delivered")
    held = [message.host for message in target.messages if message.host == "slow.example"]
    assert len(held) <= 2, "of one domain"
    assert {office.subscriptions.log(id_)[0].state for id_ in slow} == {"waiting"}
    target.gate.set()
    await office.loop.settle()
    await office.deliver()
    assert {office.subscriptions.log(id_)[0].state for id_ in slow} == {"delivered"}


async def test_the_queue_and_the_log_of_a_subscription_are_bounded(office: Office, target: Target) -> None:
    id_ = office.subscribe()

    def queue(first: int, count: int) -> None:
        for number in range(first, first + count):
            new = NewDelivery(id_, number, b'{"type": "x", "changes": []}', [ListingReport(f"l{number}", "r", b"1")])
            assert office.subscriptions.enqueue(office.subscriptions.position(), ("e", number), [new], 5)

    queue(1, MAX_WAITING + 5)
    states = [entry.state for entry in office.subscriptions.log(id_)]
    assert states == ["waiting"] * MAX_WAITING + ["dropped"] * 5
    for _ in range(MAX_WAITING):
        await office.deliver()
    assert [message.body["type"] for message in target.messages] == ["x"] * MAX_WAITING
    for first in range(MAX_WAITING + 6, 80, 5):
        queue(first, 5)
        for _ in range(5):
            await office.deliver()
    assert len(office.subscriptions.log(id_)) == MAX_LOG
    reports = [ListingReport(f"m{number}", "r", b"1") for number in range(MAX_REPORTED)]
    enlarged = NewDelivery(id_, 1_000, b"{}", reports)
    office.subscriptions.enqueue(office.subscriptions.position(), ("e", 1_000), [enlarged], 5)
    office.subscriptions.trim(6)
    assert {report.listing for report in office.subscriptions.reports(["r"]).values()} == {
        one.listing for one in reports
    }


async def test_many_changes_at_once_are_cut_and_counted(office: Office, target: Target) -> None:
    office.subscribe()
    office.mine(*(office.kit.inscribe(agent(f"Echo {number}")) for number in range(MAX_CHANGES + 3)))
    await office.look()
    await office.deliver()
    [message] = target.messages
    assert (len(message.changes), message.body["more"]) == (MAX_CHANGES, 3)


async def test_a_deleted_subscription_gets_nothing_more(office: Office, target: Target) -> None:
    id_ = office.subscribe()
    office.mine(office.kit.inscribe(agent("Echo")))
    await office.look()
    office.subscriptions.delete(id_)
    await office.deliver()
    office.mine(office.kit.inscribe(agent("Another echo")))
    await office.look()
    assert target.messages == []
    assert office.subscriptions.log(id_) == []
    assert office.subscriptions.reports(["x"]) == {}
