"""Submitted transactions whose coins are spent: what a source says of them, and what follows where it says nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.admission.admission import Admissions
from indexer.diagnosis.diagnoser import Diagnoser
from indexer.headers.networks import by_caip2
from indexer.store import submissions
from indexer.store.submissions import FullError
from indexer.sync import coin_checks
from indexer.sync.coin_checks import Verdict
from overlay.listings.repository import ListingRepository
from parsers.bitcoin.tx import Outpoint, read
from parsers.reasons import UNPROVED
from tests.bitcoind import pay
from tests.indexing import Indexing, unconfirmed_ids
from tests.minting import Mint


class SubmittedRegistry:
    """An indexer of a mint's chain, and what takes submissions into its database."""

    def __init__(self, url: str) -> None:
        self.mint = Mint(coins=12)
        self.indexing = Indexing(url, self.mint.chain)
        self.admissions = Admissions(self.indexing.store)

    def submit(self, *raws: bytes, client: str = "") -> str:
        self.admissions.submit(self.mint.package(*raws), client)
        return f"{read(raws[-1]).hex_id}_0"

    def silence(self) -> None:
        """From now on the source is one that has blocks alone."""
        self.mint.chain.has_blocks_alone = True

    async def shown(self) -> dict[str, str]:
        """The status of every unconfirmed registration, after a refresh."""
        await self.indexing.refresh()
        listings = ListingRepository(self.indexing.store)
        shown = [(id_, listings.listing(id_)) for id_ in unconfirmed_ids(self.indexing.store)]
        return {id_: one.undecided.code if one.undecided else "pending" for id_, one in shown if one}


@pytest.fixture
async def registry(database_url: str) -> AsyncIterator[SubmittedRegistry]:
    registry = SubmittedRegistry(database_url)
    with registry.indexing:
        await registry.indexing.catch_up()
        yield registry


async def test_a_coin_that_a_mined_transaction_of_others_has_spent_makes_no_listing(
    registry: SubmittedRegistry,
) -> None:
    """The proof of the coin is valid for ever, and the transaction that spent it was in a block before."""
    registry.mint.mine(registry.mint.payment(0))
    await registry.indexing.catch_up()
    spent, good = registry.submit(registry.mint.inscribed("Free")), registry.submit(registry.mint.inscribed("Paid", 1))
    child = registry.submit(
        raw := registry.mint.inscribed("Free"), registry.mint.inscribed("Child", 2, registry.mint.coin_of(raw, 1))
    )
    assert await registry.shown() == {good: UNPROVED}
    assert {f"{txid[::-1].hex()}_0" for txid in registry.indexing.store.submissions.pending("live")} == {good}
    assert len({spent, good, child}) == 3


async def test_what_is_submitted_while_others_are_checked_waits_for_its_own_check(
    registry: SubmittedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.mint.mine(pay(registry.mint.coins[:2], [(1_000, registry.mint.key.lock)]))
    await registry.indexing.catch_up()
    registry.submit(registry.mint.inscribed("Free"))
    late = registry.mint.inscribed("Late", 1)
    unspent = registry.mint.chain.unspent

    async def slow(outpoints: Any) -> Any:
        monkeypatch.undo()
        registry.submit(late)
        return await unspent(outpoints)

    monkeypatch.setattr(registry.mint.chain, "unspent", slow)
    assert await registry.shown() == {}
    assert await registry.shown() == {}
    assert registry.indexing.store.submissions.pending("live") == frozenset()


async def test_where_no_source_can_say_a_submission_is_unproved_until_a_mempool_or_a_block_has_it(
    registry: SubmittedRegistry,
) -> None:
    registry.silence()
    first, second = registry.mint.inscribed("First"), registry.mint.inscribed("Second", 1)
    ids = [registry.submit(first), registry.submit(second)]
    assert await registry.shown() == dict.fromkeys(ids, UNPROVED)
    assert registry.indexing.store.pending.new_count("live") == 0
    (await registry.indexing.open())[0].mempool.offer(read(second).txid)
    assert await registry.shown() == {ids[0]: UNPROVED, ids[1]: "pending"}
    assert registry.indexing.store.pending.new_count("live") == 1
    registry.mint.mine(first)
    assert await registry.shown() == {ids[1]: "pending"}
    assert registry.indexing.live("live") == {ids[0]}


async def test_what_a_node_can_judge_is_unproved_until_it_is_in_its_mempool_and_not_again_when_it_leaves_that(
    registry: SubmittedRegistry,
) -> None:
    """Unspent coins cost nothing: one signs any number of listings, and none of them is ever sent."""
    raw = registry.mint.inscribed("Echo")
    id_ = registry.submit(raw)
    assert await registry.shown() == {id_: UNPROVED}
    registry.mint.broadcast(raw)
    assert await registry.shown() == {id_: "pending"}
    registry.mint.chain.unconfirmed.clear()
    assert await registry.shown() == {id_: "pending"}


async def test_a_mined_submission_is_no_more_unproved_after_a_reorganisation(registry: SubmittedRegistry) -> None:
    registry.silence()
    raw = registry.mint.inscribed("Echo")
    id_ = registry.submit(raw)
    registry.mint.mine(raw)
    assert await registry.shown() == {}
    fork = registry.mint.kit.mine(parent=registry.mint.block)
    registry.mint.chain.arrive(fork)
    registry.mint.chain.arrive(registry.mint.kit.mine(parent=fork))
    assert await registry.shown() == {id_: "pending"}


async def test_a_diagnosis_says_that_a_submission_is_unproved(registry: SubmittedRegistry) -> None:
    registry.mint.chain.has_blocks_alone = True
    raw = registry.mint.inscribed("Echo")
    id_ = registry.submit(raw)
    await registry.shown()
    diagnoser = Diagnoser(registry.indexing.store, {"live": by_caip2("bsv:regtest")})
    answer = diagnoser.by_name(read(raw).hex_id)
    failed = [(step["step"], step.get("code")) for step in answer["steps"] if not step["ok"]]
    assert failed == [("seen", UNPROVED), ("mined", None)]
    assert answer["steps"][-1]["detail"] == f"shown as undecided: {id_}"
    assert [reason["code"] for reason in answer["records"][0]["reasons"]] == [UNPROVED]


async def test_a_source_that_comes_to_answer_settles_what_was_unproved(registry: SubmittedRegistry) -> None:
    registry.silence()
    registry.mint.mine(registry.mint.payment(0))
    await registry.indexing.catch_up()
    free, good = registry.submit(registry.mint.inscribed("Free")), registry.submit(registry.mint.inscribed("Paid", 1))
    assert await registry.shown() == {free: UNPROVED, good: UNPROVED}
    registry.mint.chain.has_blocks_alone = False
    registry.mint.mine()
    assert await registry.shown() == {good: UNPROVED}


async def test_a_parent_that_was_mined_meanwhile_proves_its_unspent_outputs_and_no_others(
    registry: SubmittedRegistry,
) -> None:
    mint = registry.mint
    parent = pay([mint.coins[0]], [(30_000, mint.key.lock)] * 3)
    coins = [mint.coin_of(parent, number) for number in range(3)]
    listings = [
        pay([coin], [(1, mint.inscription(f"Of {coin.outpoint.vout}")), (20_000, mint.key.lock)]) for coin in coins
    ]
    registry.admissions.submit(mint.package(parent, listings[0]))
    assert len(await registry.shown()) == 1
    mint.mine(parent)
    mint.mine(pay([coins[1]], [(29_000, mint.key.lock)]))
    await registry.indexing.catch_up()
    ids = [registry.submit(parent, listing) for listing in listings]
    assert await registry.shown() == {ids[0]: UNPROVED, ids[2]: UNPROVED}


async def test_many_coins_are_requested_in_several_refreshes(
    registry: SubmittedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coin_checks, "MAX_COINS", 2)
    registry.mint.mine(registry.mint.payment(0))
    await registry.indexing.catch_up()
    ids = [registry.submit(registry.mint.inscribed(f"Number {number}", number)) for number in range(6)]
    for _ in range(4):
        shown = await registry.shown()
    assert shown == dict.fromkeys(ids[1:], UNPROVED)


@pytest.mark.parametrize("has_mempool", [True, False])
async def test_what_no_source_has_is_bounded_by_the_owner_of_coins_and_by_client(
    registry: SubmittedRegistry, monkeypatch: pytest.MonkeyPatch, has_mempool: bool
) -> None:
    """Also where its coins are unspent: it costs nothing until it is broadcast."""
    monkeypatch.setattr(submissions, "MAX_LISTINGS", 4)
    registry.mint.chain.has_blocks_alone = not has_mempool
    raws = [registry.mint.inscribed(f"Number {number}", number) for number in range(4)]
    for raw in raws:
        registry.submit(raw, client="a")
    await registry.shown()
    more = registry.mint.inscribed("More", 5)
    with pytest.raises(FullError, match="5 listings of the owner of this coin: at most 4"):
        registry.submit(more, client="c")
    if has_mempool:
        registry.mint.broadcast(raws[0])
    else:
        registry.mint.mine(raws[0])
    await registry.shown()
    registry.submit(more, client="a")


def test_free_outputs_of_other_keys_are_charged_to_the_owner_of_the_proved_coin(
    registry: SubmittedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submissions, "MAX_LISTINGS", 2)
    mint = registry.mint
    fan = pay([mint.coins[0]], [(20_000, mint.key.lock)] * 3)
    children = [
        pay([mint.coin_of(fan, number)], [(1, mint.inscription(f"{number}")), (9_000, mint.key.lock)])
        for number in range(3)
    ]
    registry.submit(fan, children[0], client="a")
    registry.submit(fan, children[1], client="b")
    with pytest.raises(FullError, match="owner of this coin"):
        registry.submit(fan, children[2], client="c")


async def test_other_overlays_are_not_offered_what_is_unproved(registry: SubmittedRegistry) -> None:
    registry.silence()
    raw = registry.mint.inscribed("Unproved")
    registry.submit(raw)
    await registry.shown()
    assert registry.indexing.store.topic_outputs.after("live", 0, 10) == []
    registry.mint.mine(raw)
    await registry.shown()
    (output,) = registry.indexing.store.topic_outputs.after("live", 0, 10)
    assert output.outpoint.txid == read(raw).txid


# -- what follows from coins, as a law


class Spend(NamedTuple):
    """A submitted transaction of two outputs, by number, and the coins that it spends: (parent, output), -1 for a mined
    transaction of others."""

    number: int
    coins: tuple[tuple[int, int], ...]


class World(NamedTuple):
    """Submitted transactions, those that are mined, those in the mempool, and the coins that others have spent."""

    spends: list[Spend]
    mined: set[int]
    seen: set[int]
    gone: set[tuple[int, int]]


@st.composite
def worlds(draw: Any) -> World:
    free = [(-1, number) for number in range(6)]
    spends: list[Spend] = []
    for number in range(draw(st.integers(1, 9))):
        coins = tuple(draw(st.lists(st.sampled_from(sorted(free)), min_size=1, max_size=2, unique=True)))
        free = [coin for coin in free if coin not in coins] + [(number, 0), (number, 1)]
        spends.append(Spend(number, coins))
    mined, seen, gone = set[int](), set[int](), set[tuple[int, int]]()
    for spend in spends:
        if all(parent in {-1, *mined} for parent, _ in spend.coins) and draw(st.booleans()):
            mined.add(spend.number)
    spent_here = {coin for spend in spends if spend.number in mined for coin in spend.coins}
    for coin in sorted({(-1, number) for number in range(6)} | {(one, vout) for one in mined for vout in (0, 1)}):
        if coin not in spent_here and draw(st.integers(0, 2)) == 0:
            gone.add(coin)
    for spend in spends:
        possible = all(parent in {-1, *mined, *seen} and (parent, vout) not in gone for parent, vout in spend.coins)
        if spend.number not in mined and possible and draw(st.booleans()):
            seen.add(spend.number)
    return World(spends, mined, seen, gone)


def name(number: int) -> bytes:
    return bytes([number + 1]) * 32


def can_be_mined(world: World, number: int) -> bool:
    """Whether the next block can hold an unmined transaction, with its unmined ancestors."""
    return all(
        coin not in world.gone and (coin[0] in {-1, *world.mined} or can_be_mined(world, coin[0]))
        for coin in world.spends[number].coins
    )


@given(worlds())
def test_what_is_dropped_is_what_no_block_can_hold(world: World) -> None:
    spends = {
        Outpoint(name(parent), vout): name(spend.number) for spend in world.spends for parent, vout in spend.coins
    }
    spent = {coin for spend in world.spends if spend.number in world.mined for coin in spend.coins} | world.gone
    answers = {
        Outpoint(name(parent), vout): parent in {-1, *world.mined} and (parent, vout) not in spent
        for spend in world.spends
        if spend.number not in world.seen
        for parent, vout in spend.coins
    }
    verdict = Verdict(spends, answers, {name(number) for number in world.seen})
    dropped = set(verdict.against())
    for spend in world.spends:
        if any(name(parent) in dropped for parent, _ in spend.coins):
            dropped.add(name(spend.number))
    waiting = {spend.number for spend in world.spends} - world.mined
    good = {name(number) for number in waiting if can_be_mined(world, number)}
    assert dropped & set(map(name, waiting)) == set(map(name, waiting)) - good
