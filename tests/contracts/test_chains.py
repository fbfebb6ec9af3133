"""The contract of every source of blocks, whatever it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
import pytest_asyncio

from indexer.chains import SCHEMES, Chain, PartialBlock
from indexer.errors import SourceError, SourceUnavailableError
from indexer.model import BlockRef
from parsers.bitcoin.tx import Outpoint, sha256d
from tests.chainkit import Block, ChainKit, agent
from tests.contracts.sources import PLUGS, Plug
from tests.fakes import RULES
from tests.waiting import PATIENCE

NOWHERE = Outpoint(b"\xee" * 32, 7)


@pytest.fixture
def kit() -> ChainKit:
    """Blocks 0 to 6; 2 and 4 hold an inscription."""
    mint = ChainKit(funds=8)
    for _ in range(2):
        mint.mine(mint.inscribe(agent()))
        mint.mine_empty(1)
    mint.mine_empty(1)
    return mint


@pytest_asyncio.fixture(params=list(PLUGS))
async def plug(request: pytest.FixtureRequest, kit: ChainKit, tmp_path: Path) -> AsyncIterator[Plug]:
    async with PLUGS[request.param](kit, tmp_path) as created:
        yield created


@pytest_asyncio.fixture
async def chain(plug: Plug) -> AsyncIterator[Chain]:
    created = plug.fresh()
    await created.open()
    yield created
    await created.close()


async def reached(chain: Chain, block: Block) -> BlockRef:
    """The tip, once it is this block: what was written is seen by the next looks. A source that reorganises just then
    may have no answer, and is asked again."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(SourceUnavailableError):
                tip = await chain.tip()
                if tip is not None and tip.hash == block.hash:
                    return tip
            await asyncio.sleep(0.01)


async def read(chain: Chain, first: int, last: int) -> list[BlockRef]:
    return [ref async for ref, _ in chain.blocks(first, last)]


def test_every_kind_of_source_is_put_to_the_contract() -> None:
    assert set(SCHEMES) - {"https"} <= set(PLUGS)


async def test_it_says_what_it_is_once_it_is_open(plug: Plug, chain: Chain) -> None:
    assert (chain.name, chain.caip2, chain.network) == ("demo", "bsv:regtest", "regtest")
    assert chain.rules == RULES["bsv"]
    assert (chain.finality, chain.first, chain.complete) == (None, 0, plug.whole)
    assert chain.checked


async def test_heights_have_the_blocks_of_the_best_chain_and_none_above_the_tip(chain: Chain, kit: ChainKit) -> None:
    tip = await reached(chain, kit.tip)
    assert (tip.chain, tip.height) == ("demo", 6)
    refs = [await chain.ref(height) for height in range(8)]
    assert refs[6:] == [tip, None]
    for ref, block in zip(refs, kit.branch(), strict=False):
        assert ref is not None
        assert (ref.chain, ref.height, ref.hash, ref.prev) == ("demo", block.height, block.hash, block.prev)
        assert (ref.time, ref.header[:80], sha256d(ref.header[:80])) == (block.time, block.raw[:80], block.hash)
    assert await chain.ref(1_000_000) is None


async def test_blocks_come_in_order_linked_and_with_their_bytes(plug: Plug, chain: Chain, kit: ChainKit) -> None:
    await reached(chain, kit.tip)
    results = []
    async for ref, data in chain.blocks(1, 6):
        block = kit.branch()[ref.height]
        assert ref == await chain.ref(ref.height)
        if plug.whole:
            assert bytes(memoryview(data)) == block.raw  # type: ignore[arg-type]
        else:
            assert isinstance(data, PartialBlock)
            assert {sha256d(transaction.raw) for transaction in data.transactions} <= set(block.txids)
        results.append(ref)
    assert [ref.height for ref in results] == [1, 2, 3, 4, 5, 6]
    assert all(later.prev == ref.hash for ref, later in pairwise(results))


@pytest.mark.parametrize(("first", "last", "heights"), [(3, 4, [3, 4]), (6, 6, [6]), (5, 99, [5, 6]), (7, 9, [])])
async def test_blocks_are_those_requested_as_far_as_they_are_there(
    chain: Chain, kit: ChainKit, first: int, last: int, heights: list[int]
) -> None:
    await reached(chain, kit.tip)
    assert [ref.height for ref in await read(chain, first, last)] == heights


async def test_reading_can_be_given_up_in_the_middle_and_begun_again(chain: Chain, kit: ChainKit) -> None:
    await reached(chain, kit.tip)
    stream = chain.blocks(0, 6)
    async for ref, _ in stream:
        if ref.height == 2:
            break
    assert isinstance(stream, AsyncGenerator)
    await stream.aclose()
    assert [ref.height for ref in await read(chain, 2, 6)] == [2, 3, 4, 5, 6]


async def test_a_new_block_is_found_after_waiting(plug: Plug, chain: Chain, kit: ChainKit) -> None:
    await reached(chain, kit.tip)
    plug.learn(kit.mine())
    await asyncio.wait_for(chain.wait(5), PATIENCE)
    tip = await reached(chain, kit.tip)
    assert [ref.hash for ref in await read(chain, 7, tip.height)] == [kit.tip.hash]


async def test_waiting_ends_when_its_time_is_over_and_nothing_is_new(chain: Chain, kit: ChainKit) -> None:
    tip = await reached(chain, kit.tip)
    for _ in range(3):
        await asyncio.wait_for(chain.wait(0.01), PATIENCE)
        assert await chain.tip() == tip


async def test_the_branch_of_more_work_replaces_the_other(plug: Plug, chain: Chain, kit: ChainKit) -> None:
    await reached(chain, kit.tip)
    for block in [kit.mine(parent=kit["4"]), kit.mine(), kit.mine()]:
        plug.learn(block)
    tip = await reached(chain, kit["7a"])
    assert [ref.hash for ref in await read(chain, 0, tip.height)] == [block.hash for block in kit.branch(kit["7a"])]
    fork = await chain.ref(5)
    assert fork is not None
    assert fork.hash == kit["5a"].hash


async def test_what_is_read_while_the_best_chain_changes_is_one_branch_and_may_end_early(
    plug: Plug, chain: Chain, kit: ChainKit
) -> None:
    await reached(chain, kit.tip)
    results = []
    async for ref, _ in chain.blocks(0, 6):
        results.append(ref)
        if ref.height == 1:
            for block in [kit.mine(parent=kit["2"]), *(kit.mine() for _ in range(5))]:
                plug.learn(block)
    assert [ref.height for ref in results] == list(range(len(results)))
    assert all(later.prev == ref.hash for ref, later in pairwise(results))
    await reached(chain, kit.tip)
    assert [ref.hash for ref in await read(chain, 0, 8)] == [block.hash for block in kit.branch(kit.tip)]


async def test_a_refused_block_is_left_out_with_all_on_top_of_it(plug: Plug, chain: Chain, kit: ChainKit) -> None:
    if not plug.whole:
        pytest.skip("a source of excerpts checks them itself")
    await reached(chain, kit.tip)
    plug.learn(kit.mine(parent=kit["4"]))
    bad = await chain.ref(5)
    assert bad is not None
    for _ in range(4):  # several sources are asked one after the other before it is left out
        await chain.refuse(bad, "its bytes are bad")
        async for _ in chain.blocks(5, 5):
            pass
    tip = await chain.tip()
    assert tip is not None
    # a node tells only the branch that it has chosen itself: what stands below the bad block is left of it
    assert tip.hash in (kit["4"].hash, kit["5a"].hash)
    assert await chain.ref(6) is None
    existing = [ref.hash for ref in await read(chain, 3, 9)]
    assert existing == [kit["3"].hash, *[block.hash for block in kit.branch(kit["5a"])[4 : tip.height + 1]]]


async def test_values_of_earlier_outputs_are_returned_and_none_is_invented(
    plug: Plug, chain: Chain, kit: ChainKit
) -> None:
    tip = await reached(chain, kit.tip)
    outpoints = [kit.funds(0), kit.funds(7)]
    values = await chain.values([*outpoints, NOWHERE, Outpoint(outpoints[0].txid, 60_000)], tip)
    expected = {outpoint: kit.satoshis(outpoint) for outpoint in outpoints}
    assert values == expected if plug.values else values.items() <= expected.items()
    assert await chain.values([], tip) == {}


async def test_ancestors_are_delivered_as_far_as_they_are_requested(plug: Plug, chain: Chain, kit: ChainKit) -> None:
    tip = await reached(chain, kit.tip)
    seen: dict[bytes, bytes] = {}
    child, parent = kit["4"].txids[1], kit["1"].txids[0]

    def follow(result: Mapping[bytes, bytes]) -> set[bytes]:
        seen.update(result)
        return {parent} if child in seen else {child, NOWHERE.txid}

    await chain.ancestors(tip, follow)
    if not plug.by_id:
        assert not seen
        return
    assert seen == {txid: kit.raw(Outpoint(txid, 0)) for txid in (child, *([parent] if plug.strangers else []))}
    if not plug.strangers:
        return
    seen.clear()
    before = await chain.ref(3)
    assert before is not None
    await chain.ancestors(before, lambda result: seen.update(result) or {parent} - seen.keys())
    assert seen == {parent: kit.raw(Outpoint(parent, 0))}
    await chain.ancestors(tip, lambda _: set())


async def test_heights_of_transactions_in_blocks_are_returned(plug: Plug, chain: Chain, kit: ChainKit) -> None:
    tip = await reached(chain, kit.tip)
    coming = kit.pay()
    plug.announce(coming.txid, kit.raw(coming))
    heights = {kit["4"].txids[1]: 4, kit["1"].txids[0]: 1}
    assert await chain.heights([*heights, NOWHERE.txid, coming.txid], tip) == (
        heights if plug.strangers and plug.by_id else {}
    )
    assert await chain.heights([], tip) == {}


async def test_the_mempool_is_listed_with_its_transactions(plug: Plug, chain: Chain, kit: ChainKit) -> None:
    await reached(chain, kit.tip)
    coming = kit.pay()
    plug.announce(coming.txid, kit.raw(coming))
    assert await chain.mempool() == (frozenset([coming.txid]) if plug.mempool else None)
    transactions = await chain.transactions([coming.txid, NOWHERE.txid])
    expected = {coming.txid: kit.raw(coming)}
    assert transactions == expected if plug.mempool else transactions.items() <= expected.items()
    assert await chain.transactions([]) == {}


async def test_closing_twice_and_opening_again_is_no_trouble(plug: Plug, kit: ChainKit) -> None:
    chain = plug.fresh()
    with suppress(SourceError):  # what was never opened may be closed all the same
        await chain.close()
    for _ in range(2):
        await chain.open()
        assert (await reached(chain, kit.tip)).height == 6
        assert [ref.height for ref in await read(chain, 5, 6)] == [5, 6]
        await chain.close()
        await chain.close()


async def test_a_cancelled_question_does_not_spoil_the_next(chain: Chain, kit: ChainKit) -> None:
    await reached(chain, kit.tip)
    for question in (chain.tip(), chain.wait(5), chain.mempool(), chain.ref(2)):
        query = asyncio.create_task(_put(question))
        await asyncio.sleep(0)
        query.cancel()
        await asyncio.gather(query, return_exceptions=True)
    assert [ref.height for ref in await read(chain, 0, 6)] == list(range(7))


async def _put(question: object) -> None:
    await question  # type: ignore[misc]
