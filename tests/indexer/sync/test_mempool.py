"""The mempool in stories: newcomers and updates are pending until they are mined, replaced or gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.model import EventKind, Status
from indexer.state_hash import state_hash
from indexer.store import Change, RegistrationHistory
from indexer.sync import mempool
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import ChainKit, Minable, agent
from tests.fakes import MemoryChain
from tests.indexing import Indexing


class Town:
    """A mint, its chain with a mempool, and the indexer that follows it."""

    def __init__(self, url: str, coin: str = "bsv") -> None:
        self.kit = ChainKit(coin)
        self.chain = MemoryChain(*self.kit.blocks, coin=coin)
        self.indexing = Indexing(url, self.chain)

    def announce(self, *what: Minable) -> None:
        for item in what:
            self.chain.unconfirmed[self.kit.tx(item).txid] = self.kit.raw(item)

    def evict(self, *what: Minable) -> None:
        for item in what:
            del self.chain.unconfirmed[self.kit.tx(item).txid]

    def mine(self, *what: Minable) -> None:
        """A block with these, which leave the mempool."""
        for item in what:
            self.chain.unconfirmed.pop(self.kit.tx(item).txid, None)
        self.chain.arrive(self.kit.mine(*what))

    async def look(self) -> None:
        await self.indexing.refresh()

    def story(self, id_: Outpoint) -> RegistrationHistory:
        return self.indexing.store.history.with_pending([str(id_)]).get(str(id_), RegistrationHistory())

    def kinds(self, id_: Outpoint) -> tuple[list[str], list[str]]:
        """What happened to a registration in blocks, and what is pending."""
        story = self.story(id_)
        return [past.event.kind.value for past in story.confirmed], [item.event.kind.value for item in story.pending]

    def news(self, since: int) -> list[tuple[str, str, int | None, str]]:
        return [_row(change) for change in self.indexing.store.outbox.after(since, 1_000)]


def _row(change: Change) -> tuple[str, str, int | None, str]:
    return change.op, change.id, change.height, change.reason


@pytest.fixture
def town(database_url: str) -> Iterator[Town]:
    created = Town(database_url)
    with created.indexing:
        yield created


async def test_a_newcomer_is_pending_and_then_confirmed(town: Town) -> None:
    echo = town.kit.inscribe(agent("Echo"))
    town.announce(echo)
    await town.look()
    assert town.kinds(echo) == ([], ["inscribed"])
    assert town.news(0) == [("upsert", str(echo), None, "pending")]
    [event] = town.indexing.store.pending.events("demo")
    assert event.card is not None
    assert event.card in town.indexing.store.content.cards([event.card])
    town.mine(echo)
    await town.look()
    assert town.kinds(echo) == (["inscribed"], [])
    assert town.news(1) == [("upsert", str(echo), 2, "inscribed")]
    assert event.card in town.indexing.store.content.cards([event.card])


async def test_an_update_is_pending_beside_the_confirmed_revision(town: Town) -> None:
    echo = town.kit.inscribe(agent("Echo"))
    town.mine(echo)
    await town.look()
    before = state_hash(town.indexing.store, "demo", 2)
    town.announce(town.kit.update(echo, agent("Echo 2")))
    await town.look()
    assert town.kinds(echo) == (["inscribed"], ["reinscribed"])
    assert state_hash(town.indexing.store, "demo", 2) == before
    assert town.indexing.live() == {str(echo)}


async def test_a_chain_of_unconfirmed_transactions_is_followed_in_spend_order(town: Town) -> None:
    kit = town.kit
    echo = kit.inscribe(agent("Echo"))
    moves = [echo]
    for owner in ("bob", "carol", "dave", "erin"):
        moves.append(kit.move(moves[-1], owner))
    last = kit.update(moves[-1], agent("Echo 2"))
    town.announce(last, *moves[::-1])
    await town.look()
    assert town.kinds(echo) == ([], ["inscribed", *["moved"] * 4, "reinscribed"])
    state = town.story(echo).pending[-1].event.state
    assert state is not None
    assert (state.outpoint, state.winner) == (last, last)


@pytest.mark.parametrize("batch", [1, 2, 1_000])
async def test_children_that_come_first_are_found_when_their_parents_do(
    town: Town, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mempool, "BATCH", batch)
    kit = town.kit
    echo = kit.inscribe(agent("Echo"))
    first, second = (moved := kit.move(echo)), kit.move(moved, "carol")
    town.announce(first, second)
    await town.look()
    assert town.indexing.store.pending.events("demo") == []
    town.announce(echo)
    await town.look()
    assert town.kinds(echo) == ([], ["inscribed", "moved", "moved"])


async def test_what_is_evicted_disappears_with_its_card(town: Town) -> None:
    echo = town.kit.inscribe(agent("Echo"))
    update = town.kit.update(echo, agent("Echo 2"))
    town.mine(echo)
    other = town.kit.inscribe(agent("Other"))
    town.announce(update, other)
    await town.look()
    cards = [event.card for event in town.indexing.store.pending.events("demo") if event.card]
    assert len(town.indexing.store.content.cards(cards)) == 2
    seq = town.indexing.store.outbox.newest_seq()
    town.evict(update, other)
    await town.look()
    assert (town.kinds(echo), town.kinds(other)) == ((["inscribed"], []), ([], []))
    assert sorted(town.news(seq)) == sorted(
        [("upsert", str(echo), None, "evicted"), ("remove", str(other), None, "evicted")]
    )
    assert town.indexing.store.content.cards(cards) == {}


async def test_a_double_spend_takes_the_place_of_what_it_replaces(town: Town) -> None:
    echo = town.kit.inscribe(agent("Echo"))
    town.mine(echo)
    one, other = town.kit.update(echo, agent("One")), town.kit.update(echo, agent("Other"))
    town.announce(one)
    await town.look()
    town.evict(one)
    town.announce(other)
    await town.look()
    assert [item.event.outpoint for item in town.story(echo).pending] == [other]


async def test_a_mined_double_spend_takes_the_pending_chain_away_at_once(town: Town) -> None:
    kit = town.kit
    echo = kit.inscribe(agent("Echo"))
    town.mine(echo)
    one = kit.update(echo, agent("One"))
    town.announce(one, kit.move(one))
    await town.look()
    assert town.kinds(echo)[1] == ["reinscribed", "moved"]
    town.mine(kit.update(echo, agent("Other")))
    await town.indexing.catch_up()  # the mempool has not been looked at again
    assert town.kinds(echo) == (["inscribed", "reinscribed"], [])


async def test_when_a_parent_is_mined_its_child_stays_pending(town: Town) -> None:
    kit = town.kit
    echo = kit.inscribe(agent("Echo"))
    moved = kit.move(echo)
    town.announce(echo, moved)
    await town.look()
    town.mine(echo)
    await town.indexing.catch_up()
    assert town.kinds(echo) == (["inscribed"], ["moved"])
    await town.look()
    assert town.kinds(echo) == (["inscribed"], ["moved"])
    town.mine(moved)
    await town.look()
    assert town.kinds(echo) == (["inscribed", "moved"], [])


async def test_nothing_pending_survives_a_restart_unseen(town: Town) -> None:
    echo = town.kit.inscribe(agent("Echo"))
    town.announce(echo)
    await town.look()
    town.indexing.restart()
    town.chain.down = "still starting"
    with pytest.raises(Exception, match="still starting"):
        await town.indexing.open()
    assert town.kinds(echo) == ([], [])
    assert town.news(1) == [("remove", str(echo), None, "evicted")]
    town.chain.down = ""
    town.indexing.restart()
    await town.look()
    assert town.kinds(echo) == ([], ["inscribed"])


async def test_after_a_reorg_what_returns_to_the_mempool_is_pending_again(town: Town) -> None:
    kit = town.kit
    echo = kit.inscribe(agent("Echo"))
    update = kit.update(echo, agent("Echo 2"))
    town.mine(echo)
    town.mine(update)
    moved = kit.move(update)
    town.announce(moved)
    await town.look()
    assert town.kinds(echo) == (["inscribed", "reinscribed"], ["moved"])
    kit.mine_empty(3, parent=kit["1"])
    town.chain.arrive(*kit.blocks)
    await town.indexing.catch_up()
    assert town.kinds(echo) == ([], [])
    town.announce(echo, update)
    await town.look()
    assert town.kinds(echo) == ([], ["inscribed", "reinscribed", "moved"])


async def test_while_the_source_has_another_tip_nothing_is_taken_away(town: Town) -> None:
    echo = town.kit.inscribe(agent("Echo"))
    town.announce(echo)
    await town.look()
    town.mine(echo)
    for follower in town.indexing.followers:
        await follower.refresh_mempool()  # before the block was read
    assert town.kinds(echo) == ([], ["inscribed"])


async def test_a_list_older_than_the_block_brings_nothing_back(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mempool, "RETRY_SECONDS", 0.0)
    kit = town.kit
    echo = kit.inscribe(agent("Echo"))
    town.mine(echo)
    update, rival = kit.update(echo, agent("Echo 2")), kit.update(echo, agent("Rival"))
    other = kit.inscribe(agent("Other"))
    listed = (update, rival, kit.move(rival), other)
    town.announce(update, other)
    await town.look()
    town.mine(update, other)
    town.announce(*listed)
    await town.look()
    assert town.indexing.store.pending.events("demo") == []
    assert (town.kinds(echo)[0], town.kinds(other)[0]) == (["inscribed", "reinscribed"], ["inscribed"])
    kit.mine_empty(3, parent=kit["2"])
    town.chain.arrive(*kit.blocks)
    for item in listed[1:3]:
        town.evict(item)
    await town.look()
    assert (town.kinds(echo)[1], town.kinds(other)[1]) == (["reinscribed"], ["inscribed"])


async def test_what_spends_a_registration_of_a_block_read_later_is_found_then(town: Town) -> None:
    kit = town.kit
    echo = kit.inscribe(agent("Echo"))
    moved = kit.move(echo)
    town.announce(moved)
    await town.look()  # its parent is nowhere yet
    assert town.indexing.store.pending.events("demo") == []
    town.mine(echo)
    await town.look()
    assert town.kinds(echo) == (["inscribed"], ["moved"])


async def test_a_value_that_an_unconfirmed_parent_holds_is_looked_up(town: Town) -> None:
    kit = town.kit
    echo = kit.inscribe(agent("Echo"))
    town.mine(echo)
    paid = kit.pay(satoshis=500)
    carried = kit.spend([paid, echo], [(500, b"\x51"), (1, b"\x52")])
    town.announce(paid, carried)
    await town.look()
    assert town.kinds(echo)[1] == ["moved"]
    state = town.story(echo).pending[-1].event.state
    assert state is not None
    assert state.outpoint == carried.outpoint(1)


async def test_what_cannot_be_told_is_undecided_until_it_can(town: Town) -> None:
    kit = town.kit
    echo = kit.inscribe(agent("Echo"))
    town.mine(echo)
    coin = kit.fund()
    town.chain.hidden.add(coin)
    town.announce(kit.spend([coin, echo], [(1_000_000, b"\x51"), (1, b"\x52")]))
    await town.look()
    [pending] = town.story(echo).pending
    assert (pending.event.kind, pending.event.state and pending.event.state.status) == (
        EventKind.UNDECIDED, Status.UNDECIDED,
    )  # fmt: skip
    town.chain.hidden.clear()
    town.mine()
    await town.look()
    assert town.kinds(echo)[1] == ["moved"]


async def test_pointers_and_near_misses_are_told_of_their_transaction(town: Town) -> None:
    pointer, near = town.kit.point("echo.example"), town.kit.inscribe(b"{", satoshis=2)
    town.announce(pointer, near)
    await town.look()
    messages = [town.indexing.store.pending.of_transaction(item.txid)[0].event.kind.value for item in (pointer, near)]
    assert messages == ["pointed", "rejected"]
    assert town.indexing.store.pending.ids() == []
    assert town.news(0) == []


async def test_what_does_not_fit_waits_for_the_next_look(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mempool, "BATCH", 1)
    monkeypatch.setattr(mempool, "LOOK_BYTES", 0)
    town.announce(*(town.kit.inscribe(agent(f"Agent {number}")) for number in range(3)))
    counts = []
    for _ in range(3):
        await town.look()
        counts.append(len(town.indexing.store.pending.events("demo")))
    assert counts == [1, 2, 3]


async def test_there_is_room_again_when_something_leaves(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mempool, "RETRY_SECONDS", 0.0)
    one, other = (town.kit.inscribe(agent(name)) for name in ("One", "Two"))
    monkeypatch.setattr(mempool, "KEPT_BYTES", town.kit.tx(one).size + 1)
    town.announce(one)
    await town.look()
    town.announce(other)
    await town.look()
    [follower] = town.indexing.followers
    assert (town.kinds(one)[1], town.kinds(other)[1]) == (["inscribed"], [])
    assert (follower.mempool.unread, follower.progress.mempool) == (1, 2)
    town.evict(one)
    await town.look()
    await town.look()
    assert (town.kinds(one)[1], town.kinds(other)[1]) == ([], ["inscribed"])


async def test_a_transaction_that_is_not_what_the_source_calls_it_is_not_read(
    town: Town, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad, long = (town.kit.inscribe(agent(name)) for name in ("Good", "Bad", "Long"))
    town.announce(good)
    town.chain.unconfirmed[bad.txid] = town.kit.raw(good)
    town.chain.unconfirmed[long.txid] = town.kit.raw(long) + b"\0"
    town.chain.unconfirmed[b"e" * 32] = b""
    await town.look()
    assert [event.outpoint for event in town.indexing.store.pending.events("demo")] == [good]
    assert "returned no valid transaction" in caplog.text


async def test_a_source_without_a_mempool_leaves_nothing_pending(town: Town) -> None:
    echo = town.kit.inscribe(agent("Echo"))
    town.announce(echo)
    await town.look()

    async def nothing() -> None:
        return None

    town.chain.mempool = nothing  # type: ignore[method-assign]
    await town.look()
    assert town.kinds(echo) == ([], [])
    assert town.indexing.followers[0].progress.mempool is None


async def test_an_unchanged_mempool_writes_nothing(town: Town) -> None:
    echo = town.kit.inscribe(agent("Echo"))
    town.announce(echo, town.kit.pay())
    await town.look()
    seq = town.indexing.store.outbox.newest_seq()
    town.announce(town.kit.pay())
    await town.look()
    town.mine()
    await town.look()
    assert town.indexing.store.outbox.newest_seq() == seq


@pytest.mark.parametrize("coin", ["btc", "ltc"])
async def test_a_taproot_inscription_is_pending_too(tmp_path: Path, coin: str) -> None:
    town = Town(f"sqlite:///{tmp_path}/a2b.db", coin)
    with town.indexing:
        echo = town.kit.reveal(agent("Echo"))
        town.announce(echo, town.kit.pay(source=(echo, 10_000)))
        await town.look()
        assert town.kinds(echo) == ([], ["inscribed", "moved"])
        town.mine(echo)
        await town.look()
        assert town.kinds(echo) == (["inscribed"], ["moved"])


async def test_what_follows_an_undecided_transaction_is_found_once_that_is_decided(town: Town) -> None:
    kit = town.kit
    echo = kit.inscribe(agent("Echo"))
    town.mine(echo)
    coin = kit.fund()
    town.chain.hidden.add(coin)
    other = kit.spend([coin, echo], [(1, kit.tx(kit.inscribe(agent("Other"))).outputs[0].script), (1, b"\x51")])
    town.announce(other, kit.spend([other.outpoint(0)], [(1, b"\x52")]))
    await town.look()
    assert [event.kind for event in town.indexing.store.pending.events("demo")] == [EventKind.UNDECIDED] * 2
    town.chain.hidden.clear()
    town.mine()
    await town.look()
    assert town.kinds(other.outpoint(0)) == ([], ["inscribed", "moved"])
