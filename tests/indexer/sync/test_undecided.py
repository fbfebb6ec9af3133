"""Law 3 where values are not known: an undecidable update is stored, listed, requested again, never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.diagnosis.diagnoser import Diagnoser
from indexer.headers.networks import by_caip2
from indexer.model import BlockRef
from indexer.resolution.session import MAP_CHARACTERS, MAP_KEYS, MISSING, merge_map
from indexer.store import block_writer
from indexer.sync import follower as follow
from parsers.bitcoin import block
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import COIN, ChainKit, agent
from tests.chainkit_scripts import body_of, inscription, p2pkh
from tests.fakes import MemoryChain
from tests.indexing import Indexing

AGENT = {"app": "test", "type": "a2b-agent"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/a2b.db"


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are asked for again at every look."""
    monkeypatch.setattr(follow, "RETRY_SECONDS", 0.0)


def story(kit: ChainKit) -> tuple[Outpoint, Outpoint, Outpoint]:
    """A registration, and an update of it behind a coin: the registration, that coin, and the update's outpoint."""
    first, fund = kit.inscribe(agent("One")), kit.fund()
    script = inscription(body_of(agent("Two")), AGENT, "alice")
    update = kit.spend([fund, first], [(COIN, p2pkh("change")), (1, script)])
    kit.mine(first)
    kit.mine(update)
    return first, fund, update.outpoint(1)


async def test_an_update_behind_an_unknown_value_is_undecided_and_leaves_no_state_hash(url: str) -> None:
    kit = ChainKit()
    first, fund, update = story(kit)
    chain = MemoryChain(*kit.blocks)
    chain.hidden.add(fund)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        diagnosis = indexing.registration(first)
        assert (diagnosis["status"], diagnosis["outpoint"], diagnosis["card"]["name"]) == ("undecided", None, "One")
        assert diagnosis["owner"] == kit.address("alice")
        kinds = [(revision["kind"], revision["valid"], revision["outpoint"]) for revision in diagnosis["revisions"]]
        assert kinds == [("inscribed", True, str(first)), ("undecided", False, None)]
        assert diagnosis["revisions"][1]["reason"].endswith(f"is undecided: {fund}")
        # the card in the same transaction is an update or a first record: that is not known either
        assert [past.event.outpoint for past in indexing.store.history.undecided("demo")] == [None, update]
        assert indexing.hashes([2, 3])[3] is None
        assert indexing.hashes([2, 3])[2] is not None
        assert indexing.store.registrations.counts("demo")["undecided"] == 1
        diagnosis = Diagnoser(indexing.store, {"demo": by_caip2("bsv:regtest")}).by_name(update.txid[::-1].hex())
        assert [step["code"] for step in diagnosis["steps"] if not step["ok"]] == ["values-unknown"]


async def test_it_is_resolved_when_the_value_becomes_known_and_nothing_shows_of_the_doubt(url: str) -> None:
    kit = ChainKit()
    first, fund, update = story(kit)
    kit.mine(kit.pay())
    kit.mine(kit.move(update, owner="carol"))
    chain = MemoryChain(*kit.blocks)
    chain.hidden.add(fund)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        assert indexing.kinds(first) == ["inscribed", "undecided"]
        query = len(chain.requests)
        await indexing.catch_up()
        assert (indexing.kinds(first), len(chain.requests)) == (["inscribed", "undecided"], query + 2)
        chain.hidden.clear()
        await indexing.catch_up()
        assert indexing.kinds(first) == ["inscribed", "reinscribed", "moved"]
        assert indexing.store.history.undecided("demo") == []
        resolved = indexing.facts()
    with Indexing(f"{url}2", MemoryChain(*kit.blocks)) as fresh:
        await fresh.catch_up()
        assert fresh.facts() == resolved


async def test_nothing_is_requested_again_before_the_pause_is_over(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "RETRY_SECONDS", 600.0)
    kit = ChainKit()
    first, fund, _ = story(kit)
    chain = MemoryChain(*kit.blocks)
    chain.hidden.add(fund)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        await indexing.catch_up()
        chain.hidden.clear()
        chain.requests.clear()
        await indexing.catch_up()
        assert (chain.requests, indexing.kinds(first)) == ([], ["inscribed", "undecided"])
        indexing.restart()
        await indexing.catch_up()
        assert indexing.kinds(first) == ["inscribed", "reinscribed"]


async def test_a_value_that_was_looked_up_once_is_kept(url: str) -> None:
    kit = ChainKit()
    first, fund, _ = story(kit)
    chain = MemoryChain(*kit.blocks)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        assert chain.requests == [fund]
        block_writer.forget(indexing.writer, "demo", -1)
        indexing.restart()
        await indexing.catch_up()
        assert chain.requests == [fund]
        assert indexing.kinds(first) == ["inscribed", "reinscribed"]


async def test_values_of_transactions_that_are_read_anyway_and_of_registrations_are_not_requested(url: str) -> None:
    kit = ChainKit()
    one, two = kit.inscribe(agent("One")), kit.inscribe(agent("Two"))
    kit.mine(one, two)
    three = kit.inscribe(agent("Three"))
    change = Outpoint(three.txid, 1)
    rest = kit.satoshis(change)
    moved = kit.spend([one, change, two], [(1, p2pkh("a")), (rest, p2pkh("b")), (1, p2pkh("c"))])
    kit.mine(three, moved)
    chain = MemoryChain(*kit.blocks)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        assert chain.requests == []
        assert indexing.registration(two)["outpoint"] == str(moved.outpoint(2))


async def test_events_before_the_unknown_value_are_decided_and_cards_that_it_cannot_reach_are_new(url: str) -> None:
    kit = ChainKit()
    one, two, fund = kit.inscribe(agent("One")), kit.inscribe(agent("Two")), kit.fund()
    kit.mine(one, two)
    script = inscription(body_of(agent("New")), AGENT, "alice")
    tx = kit.spend(
        [one, (fund, COIN), two], [(1, p2pkh("bob")), (0, script), (1, script), (COIN, p2pkh("x"))], locktime=1
    )
    kit.mine(tx)
    chain = MemoryChain(*kit.blocks)
    chain.hidden.add(fund)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        assert indexing.kinds(one) == ["inscribed", "moved"]
        assert indexing.kinds(two) == ["inscribed", "undecided"]
        # output 2 may hold the satoshi of `two`, output 1 holds none at all
        assert [past.event.outpoint for past in indexing.store.history.undecided("demo")] == [None, tx.outpoint(2)]
        assert indexing.rejections() == [(str(tx.outpoint(1)), "the output holds no satoshis")]


async def test_more_unknown_values_than_an_event_names_are_requested_in_turn(url: str) -> None:
    kit = ChainKit()
    first = kit.inscribe(agent())
    kit.mine(first)
    funds = [kit.fund() for _ in range(MISSING + 10)]
    kit.mine(
        kit.spend([*funds, first], [(1, p2pkh("bob"))] * 3 + [(len(funds) * COIN - 3, p2pkh("x")), (1, p2pkh("y"))])
    )
    chain = MemoryChain(*kit.blocks)
    chain.hidden.update(funds)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        (past,) = indexing.store.history.undecided("demo")
        assert past.event.reasons[0].detail.split() == [str(fund) for fund in funds[:MISSING]]
        chain.hidden.difference_update(funds[:MISSING])
        await indexing.catch_up()
        (past,) = indexing.store.history.undecided("demo")
        assert past.event.reasons[0].detail.split() == [str(fund) for fund in funds[MISSING:]]
        chain.hidden.clear()
        await indexing.catch_up()
        assert indexing.kinds(first) == ["inscribed", "moved"]


async def test_on_a_witness_chain_updates_and_first_records_wait_for_values_too(url: str) -> None:
    kit = ChainKit("ltc")
    first = kit.reveal(agent("One"))
    fund, other = kit.fund(), kit.fund()
    kit.mine(first)
    moved = kit.spend([fund, first], [(COIN, p2pkh("x")), (10_000, p2pkh("bob"))])
    stack = kit.tx(kit.reveal(agent("New"), map_in="envelope")).inputs[0].witness
    new = kit.spend([other, kit.fund()], [(COIN, p2pkh("x")), (COIN, p2pkh("carol"))], witnesses=[(), stack])
    kit.mine(moved, new)
    chain = MemoryChain(*kit.blocks, coin="ltc")
    chain.hidden.update({fund, other})
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        assert indexing.kinds(first) == ["inscribed", "undecided"]
        assert [past.event.txid for past in indexing.store.history.undecided("demo")] == [moved.txid, new.txid]
        assert indexing.store.registrations.counts("demo") == {
            "live": 0,
            "burned": 0,
            "undecided": 1,
            "rejected": 0,
            "pointers": 0,
        }
        chain.hidden.clear()
        await indexing.catch_up()
        assert indexing.kinds(first) == ["inscribed", "moved"]
        assert indexing.live() == {str(first), str(new.outpoint(1))}


async def test_a_reorg_takes_an_undecided_update_back(url: str) -> None:
    kit = ChainKit()
    first, fund, _ = story(kit)
    chain = MemoryChain(*kit.blocks)
    chain.hidden.add(fund)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        kit.mine(kit.move(first), parent=kit["2"])
        kit.mine()
        chain.arrive(*kit.blocks)
        await indexing.catch_up()
        assert indexing.kinds(first) == ["inscribed", "moved"]
        assert None not in indexing.hashes(range(5)).values()


# -- bounds -----------------------------------------------------------------------------------------------------------


def test_a_merged_map_keeps_what_came_first_and_always_app_and_type() -> None:
    assert merge_map({"a": "1", "b": "2"}, {"c": "3", "a": "4"}) == {"a": "4", "b": "2", "c": "3"}
    many = {f"key {number}": "x" for number in range(100)}
    stored = merge_map(many, {"app": "late", "type": "a2b"})
    assert len(stored) == MAP_KEYS
    assert list(stored) == [f"key {number}" for number in range(MAP_KEYS - 2)] + ["app", "type"]
    long = merge_map(
        {"a": "x" * 1000, "b": "y" * 1000, "c": "z" * 1000}, {"type": "a2b", "d": "w" * 1000, "e": "v" * 1000}
    )
    assert list(long) == ["a", "b", "c", "type", "d"]
    assert sum(len(key) + len(value) for key, value in long.items()) <= MAP_CHARACTERS
    assert merge_map({}, {}) == {}


async def test_a_registration_carries_a_bounded_map_along(url: str) -> None:
    kit = ChainKit()
    first = tx = kit.inscribe(agent())
    kit.mine(first)
    for number in range(6):
        tx = kit.map_only(tx, {f"{number} {key}": "v" * 60 for key in range(20)})
        kit.mine(tx)
    with Indexing(url, MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
        stored = indexing.registration(first)["map"]
    assert stored["type"] == "a2b-agent"
    assert len(stored) <= MAP_KEYS
    assert sum(len(key) + len(value) for key, value in stored.items()) <= MAP_CHARACTERS


async def test_a_block_is_walked_once_however_often_values_are_looked_up(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The value of the coin before the update is looked up, which reads the update again, and not its block."""
    kit = ChainKit()
    first, fund, update = story(kit)
    chain = MemoryChain(*kit.blocks)
    walked: list[int] = []
    count, mined = block.first_transaction, chain.mined

    def counted(data: block.Buffer) -> tuple[int, int]:
        walked.append(len(data))
        return count(data)

    def uncounted(before: BlockRef) -> dict[bytes, tuple[int, bytes]]:
        seen = len(walked)
        answer = mined(before)
        del walked[seen:]
        return answer

    monkeypatch.setattr(block, "first_transaction", counted)
    monkeypatch.setattr(chain, "mined", uncounted)
    with Indexing(url, chain) as indexing:
        await indexing.catch_up()
        assert fund in chain.requests
        assert indexing.kinds(first) == ["inscribed", "reinscribed"]
        assert indexing.registration(first)["outpoint"] == str(update)
    assert sorted(walked) == sorted(len(one.raw) for one in kit.blocks)
