"""The mempool in stories: newcomers and updates are pending until they are mined, replaced or gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.model import EventKind, Status
from indexer.state_hash import state_hash
from indexer.store import Change, RegistrationHistory
from indexer.sync import mempool
from indexer.sync.mempool_cache import memory_of
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import agent
from tests.indexing import Indexing, unconfirmed_ids
from tests.mempool_chain import MempoolChain


class MempoolRegistry(MempoolChain):
    """A mint, its chain with a mempool, and the indexer that follows it."""

    def __init__(self, url: str, coin: str = "bsv") -> None:
        super().__init__(coin)
        self.indexing = Indexing(url, self.chain)

    async def look(self) -> None:
        await self.indexing.refresh()

    def story(self, id_: Outpoint) -> RegistrationHistory:
        return self.indexing.store.history.with_pending([str(id_)]).get(str(id_), RegistrationHistory())

    def kinds(self, id_: Outpoint) -> tuple[list[str], list[str]]:
        """The kinds of a registration's events in blocks, and of its pending ones."""
        story = self.story(id_)
        return [past.event.kind.value for past in story.confirmed], [item.event.kind.value for item in story.pending]

    def news(self, since: int) -> list[tuple[str, str, int | None, str]]:
        return [_row(change) for change in self.indexing.store.outbox.after(since, 1_000)]


def _row(change: Change) -> tuple[str, str, int | None, str]:
    return change.op, change.id, change.height, change.reason


@pytest.fixture
def registry(database_url: str) -> Iterator[MempoolRegistry]:
    created = MempoolRegistry(database_url)
    with created.indexing:
        yield created


async def test_a_newcomer_is_pending_and_then_confirmed(registry: MempoolRegistry) -> None:
    echo = registry.kit.inscribe(agent("Echo"))
    registry.announce(echo)
    await registry.look()
    assert registry.kinds(echo) == ([], ["inscribed"])
    assert registry.news(0) == [("upsert", str(echo), None, "pending")]
    [event] = registry.indexing.store.pending.events("demo")
    assert event.card is not None
    assert event.card in registry.indexing.store.content.cards([event.card])
    registry.mine(echo)
    await registry.look()
    assert registry.kinds(echo) == (["inscribed"], [])
    assert registry.news(1) == [("upsert", str(echo), 2, "inscribed")]
    assert event.card in registry.indexing.store.content.cards([event.card])


async def test_an_update_is_pending_beside_the_confirmed_revision(registry: MempoolRegistry) -> None:
    echo = registry.kit.inscribe(agent("Echo"))
    registry.mine(echo)
    await registry.look()
    before = state_hash(registry.indexing.store, "demo", 2)
    registry.announce(registry.kit.update(echo, agent("Echo 2")))
    await registry.look()
    assert registry.kinds(echo) == (["inscribed"], ["reinscribed"])
    assert state_hash(registry.indexing.store, "demo", 2) == before
    assert registry.indexing.live() == {str(echo)}


async def test_a_chain_of_unconfirmed_transactions_is_followed_in_spend_order(registry: MempoolRegistry) -> None:
    kit = registry.kit
    echo = kit.inscribe(agent("Echo"))
    moves = [echo]
    for owner in ("bob", "carol", "dave", "erin"):
        moves.append(kit.move(moves[-1], owner))
    last = kit.update(moves[-1], agent("Echo 2"))
    registry.announce(last, *moves[::-1])
    await registry.look()
    assert registry.kinds(echo) == ([], ["inscribed", *["moved"] * 4, "reinscribed"])
    state = registry.story(echo).pending[-1].event.state
    assert state is not None
    assert (state.outpoint, state.winner) == (last, last)


@pytest.mark.parametrize("batch", [1, 2, 1_000])
async def test_children_that_come_first_are_found_when_their_parents_do(
    registry: MempoolRegistry, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mempool, "BATCH", batch)
    kit = registry.kit
    echo = kit.inscribe(agent("Echo"))
    first, second = (moved := kit.move(echo)), kit.move(moved, "carol")
    registry.announce(first, second)
    await registry.look()
    assert registry.indexing.store.pending.events("demo") == []
    registry.announce(echo)
    await registry.look()
    assert registry.kinds(echo) == ([], ["inscribed", "moved", "moved"])


async def test_what_is_evicted_disappears_with_its_card(registry: MempoolRegistry) -> None:
    echo = registry.kit.inscribe(agent("Echo"))
    update = registry.kit.update(echo, agent("Echo 2"))
    registry.mine(echo)
    other = registry.kit.inscribe(agent("Other"))
    registry.announce(update, other)
    await registry.look()
    cards = [event.card for event in registry.indexing.store.pending.events("demo") if event.card]
    assert len(registry.indexing.store.content.cards(cards)) == 2
    seq = registry.indexing.store.outbox.newest_seq()
    registry.evict(update, other)
    await registry.look()
    assert (registry.kinds(echo), registry.kinds(other)) == ((["inscribed"], []), ([], []))
    assert sorted(registry.news(seq)) == sorted(
        [("upsert", str(echo), None, "evicted"), ("remove", str(other), None, "evicted")]
    )
    assert registry.indexing.store.content.cards(cards) == {}


async def test_a_double_spend_takes_the_place_of_what_it_replaces(registry: MempoolRegistry) -> None:
    echo = registry.kit.inscribe(agent("Echo"))
    registry.mine(echo)
    one, other = registry.kit.update(echo, agent("One")), registry.kit.update(echo, agent("Other"))
    registry.announce(one)
    await registry.look()
    registry.evict(one)
    registry.announce(other)
    await registry.look()
    assert [item.event.outpoint for item in registry.story(echo).pending] == [other]


async def test_a_mined_double_spend_takes_the_pending_chain_away_at_once(registry: MempoolRegistry) -> None:
    kit = registry.kit
    echo = kit.inscribe(agent("Echo"))
    registry.mine(echo)
    one = kit.update(echo, agent("One"))
    registry.announce(one, kit.move(one))
    await registry.look()
    assert registry.kinds(echo)[1] == ["reinscribed", "moved"]
    registry.mine(kit.update(echo, agent("Other")))
    await registry.indexing.catch_up()  # the mempool has not been looked at again
    assert registry.kinds(echo) == (["inscribed", "reinscribed"], [])


async def test_when_a_parent_is_mined_its_child_stays_pending(registry: MempoolRegistry) -> None:
    kit = registry.kit
    echo = kit.inscribe(agent("Echo"))
    moved = kit.move(echo)
    registry.announce(echo, moved)
    await registry.look()
    registry.mine(echo)
    await registry.indexing.catch_up()
    assert registry.kinds(echo) == (["inscribed"], ["moved"])
    await registry.look()
    assert registry.kinds(echo) == (["inscribed"], ["moved"])
    registry.mine(moved)
    await registry.look()
    assert registry.kinds(echo) == (["inscribed", "moved"], [])


async def test_nothing_pending_survives_a_restart_unseen(registry: MempoolRegistry) -> None:
    echo = registry.kit.inscribe(agent("Echo"))
    registry.announce(echo)
    await registry.look()
    registry.indexing.restart()
    registry.chain.down = "still starting"
    with pytest.raises(Exception, match="still starting"):
        await registry.indexing.open()
    assert registry.kinds(echo) == ([], [])
    assert registry.news(1) == [("remove", str(echo), None, "evicted")]
    registry.chain.down = ""
    registry.indexing.restart()
    await registry.look()
    assert registry.kinds(echo) == ([], ["inscribed"])


async def test_after_a_reorg_what_returns_to_the_mempool_is_pending_again(registry: MempoolRegistry) -> None:
    kit = registry.kit
    echo = kit.inscribe(agent("Echo"))
    update = kit.update(echo, agent("Echo 2"))
    registry.mine(echo)
    registry.mine(update)
    moved = kit.move(update)
    registry.announce(moved)
    await registry.look()
    assert registry.kinds(echo) == (["inscribed", "reinscribed"], ["moved"])
    kit.mine_empty(3, parent=kit["1"])
    registry.chain.arrive(*kit.blocks)
    await registry.indexing.catch_up()
    assert registry.kinds(echo) == ([], [])
    registry.announce(echo, update)
    await registry.look()
    assert registry.kinds(echo) == ([], ["inscribed", "reinscribed", "moved"])


async def test_while_the_source_has_another_tip_nothing_is_taken_away(registry: MempoolRegistry) -> None:
    echo = registry.kit.inscribe(agent("Echo"))
    registry.announce(echo)
    await registry.look()
    registry.mine(echo)
    for follower in registry.indexing.followers:
        await follower.refresh_mempool()  # before the block was read
    assert registry.kinds(echo) == ([], ["inscribed"])


async def test_a_list_older_than_the_block_brings_nothing_back(
    registry: MempoolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mempool, "RETRY_SECONDS", 0.0)
    kit = registry.kit
    echo = kit.inscribe(agent("Echo"))
    registry.mine(echo)
    update, rival = kit.update(echo, agent("Echo 2")), kit.update(echo, agent("Rival"))
    other = kit.inscribe(agent("Other"))
    listed = (update, rival, kit.move(rival), other)
    registry.announce(update, other)
    await registry.look()
    registry.mine(update, other)
    registry.announce(*listed)
    await registry.look()
    assert registry.indexing.store.pending.events("demo") == []
    assert (registry.kinds(echo)[0], registry.kinds(other)[0]) == (["inscribed", "reinscribed"], ["inscribed"])
    kit.mine_empty(3, parent=kit["2"])
    registry.chain.arrive(*kit.blocks)
    for item in listed[1:3]:
        registry.evict(item)
    await registry.look()
    assert (registry.kinds(echo)[1], registry.kinds(other)[1]) == (["reinscribed"], ["inscribed"])


async def test_what_spends_a_registration_of_a_block_read_later_is_found_then(registry: MempoolRegistry) -> None:
    kit = registry.kit
    echo = kit.inscribe(agent("Echo"))
    moved = kit.move(echo)
    registry.announce(moved)
    await registry.look()  # its parent is nowhere yet
    assert registry.indexing.store.pending.events("demo") == []
    registry.mine(echo)
    await registry.look()
    assert registry.kinds(echo) == (["inscribed"], ["moved"])


async def test_a_value_that_an_unconfirmed_parent_holds_is_looked_up(registry: MempoolRegistry) -> None:
    kit = registry.kit
    echo = kit.inscribe(agent("Echo"))
    registry.mine(echo)
    paid = kit.pay(satoshis=500)
    carried = kit.spend([paid, echo], [(500, b"\x51"), (1, b"\x52")])
    registry.announce(paid, carried)
    await registry.look()
    assert registry.kinds(echo)[1] == ["moved"]
    state = registry.story(echo).pending[-1].event.state
    assert state is not None
    assert state.outpoint == carried.outpoint(1)


async def test_an_event_without_its_values_is_undecided_until_they_are_there(registry: MempoolRegistry) -> None:
    kit = registry.kit
    echo = kit.inscribe(agent("Echo"))
    registry.mine(echo)
    coin = kit.fund()
    registry.chain.hidden.add(coin)
    registry.announce(kit.spend([coin, echo], [(1_000_000, b"\x51"), (1, b"\x52")]))
    await registry.look()
    [pending] = registry.story(echo).pending
    assert (pending.event.kind, pending.event.state and pending.event.state.status) == (
        EventKind.UNDECIDED, Status.UNDECIDED,
    )  # fmt: skip
    registry.chain.hidden.clear()
    registry.mine()
    await registry.look()
    assert registry.kinds(echo)[1] == ["moved"]


async def test_pointers_and_near_misses_are_events_of_their_transaction(registry: MempoolRegistry) -> None:
    pointer, near = registry.kit.point("echo.example"), registry.kit.inscribe(b"{", satoshis=2)
    registry.announce(pointer, near)
    await registry.look()
    messages = [
        registry.indexing.store.pending.of_transaction(item.txid)[0].event.kind.value for item in (pointer, near)
    ]
    assert messages == ["pointed", "rejected"]
    assert unconfirmed_ids(registry.indexing.store) == []
    assert registry.news(0) == []


async def test_what_does_not_fit_waits_for_the_next_look(
    registry: MempoolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mempool, "BATCH", 1)
    monkeypatch.setattr(mempool, "LOOK_BYTES", 0)
    registry.announce(*(registry.kit.inscribe(agent(f"Agent {number}")) for number in range(3)))
    counts = []
    for _ in range(3):
        await registry.look()
        counts.append(len(registry.indexing.store.pending.events("demo")))
    assert counts == [1, 2, 3]


async def test_there_is_room_again_when_something_leaves(
    registry: MempoolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mempool, "RETRY_SECONDS", 0.0)
    one, other = (registry.kit.inscribe(agent(name)) for name in ("One", "Two"))
    monkeypatch.setattr(mempool, "CACHED_BYTES", memory_of(registry.kit.tx(one)) + 1)
    registry.announce(one)
    await registry.look()
    registry.announce(other)
    await registry.look()
    [follower] = registry.indexing.followers
    assert (registry.kinds(one)[1], registry.kinds(other)[1]) == (["inscribed"], [])
    assert (follower.mempool.unread, follower.progress.mempool) == (1, 2)
    registry.evict(one)
    await registry.look()
    await registry.look()
    assert (registry.kinds(one)[1], registry.kinds(other)[1]) == ([], ["inscribed"])


async def test_a_transaction_that_is_not_what_the_source_calls_it_is_not_read(
    registry: MempoolRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad, long = (registry.kit.inscribe(agent(name)) for name in ("Good", "Bad", "Long"))
    registry.announce(good)
    registry.chain.unconfirmed[bad.txid] = registry.kit.raw(good)
    registry.chain.unconfirmed[long.txid] = registry.kit.raw(long) + b"\0"
    registry.chain.unconfirmed[b"e" * 32] = b""
    await registry.look()
    assert [event.outpoint for event in registry.indexing.store.pending.events("demo")] == [good]
    assert "returned no valid transaction" in caplog.text


async def test_a_source_without_a_mempool_leaves_nothing_pending(registry: MempoolRegistry) -> None:
    echo = registry.kit.inscribe(agent("Echo"))
    registry.announce(echo)
    await registry.look()

    async def nothing() -> None:
        return None

    registry.chain.mempool = nothing  # type: ignore[method-assign]
    await registry.look()
    assert registry.kinds(echo) == ([], [])
    assert registry.indexing.followers[0].progress.mempool is None


async def test_an_unchanged_mempool_writes_nothing(registry: MempoolRegistry) -> None:
    echo = registry.kit.inscribe(agent("Echo"))
    registry.announce(echo, registry.kit.pay())
    await registry.look()
    seq = registry.indexing.store.outbox.newest_seq()
    registry.announce(registry.kit.pay())
    await registry.look()
    registry.mine()
    await registry.look()
    assert registry.indexing.store.outbox.newest_seq() == seq


@pytest.mark.parametrize("coin", ["btc", "ltc"])
async def test_a_taproot_inscription_is_pending_too(tmp_path: Path, coin: str) -> None:
    registry = MempoolRegistry(f"sqlite:///{tmp_path}/a2b.db", coin)
    with registry.indexing:
        echo = registry.kit.reveal(agent("Echo"))
        registry.announce(echo, registry.kit.pay(source=(echo, 10_000)))
        await registry.look()
        assert registry.kinds(echo) == ([], ["inscribed", "moved"])
        registry.mine(echo)
        await registry.look()
        assert registry.kinds(echo) == (["inscribed"], ["moved"])


async def test_what_follows_an_undecided_transaction_is_found_once_that_is_decided(registry: MempoolRegistry) -> None:
    kit = registry.kit
    echo = kit.inscribe(agent("Echo"))
    registry.mine(echo)
    coin = kit.fund()
    registry.chain.hidden.add(coin)
    other = kit.spend([coin, echo], [(1, kit.tx(kit.inscribe(agent("Other"))).outputs[0].script), (1, b"\x51")])
    registry.announce(other, kit.spend([other.outpoint(0)], [(1, b"\x52")]))
    await registry.look()
    assert [event.kind for event in registry.indexing.store.pending.events("demo")] == [EventKind.UNDECIDED] * 2
    registry.chain.hidden.clear()
    registry.mine()
    await registry.look()
    assert registry.kinds(other.outpoint(0)) == ([], ["inscribed", "moved"])
