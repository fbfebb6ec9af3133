"""Many messages hashed at once, beside hashlib one by one; merkle trees beside the slow, obvious way."""

from __future__ import annotations

import random
from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parsers.bitcoin import batch_sha256, block, bump, merkle_tree
from parsers.bitcoin.tx import read as read_tx
from parsers.bitcoin.tx import varint
from parsers.errors import BlockError
from tests.bench.synthetic import COINBASE, Maker
from tests.parsers.bitcoin.test_block import child
from tests.parsers.writers import from_branch


def twice(data: bytes | memoryview) -> bytes:
    return sha256(sha256(data).digest()).digest()


def hashed(messages: Sequence[bytes]) -> list[bytes]:
    """The messages as pieces of one buffer, hashed together."""
    offsets = np.cumsum([0, *map(len, messages)])
    return list(batch_sha256.digests(batch_sha256.hash_ranges(b"".join(messages), offsets[:-1], offsets[1:])))


def slow_levels(txids: Sequence[bytes]) -> list[list[bytes]]:
    """Every level of the merkle tree, from the txids to the root, each with its copy where the number is odd."""
    levels = [list(txids)]
    while len(levels[-1]) > 1:
        if len(levels[-1]) % 2:
            levels[-1].append(levels[-1][-1])
        pairs = zip(levels[-1][::2], levels[-1][1::2], strict=True)
        levels.append([twice(left + right) for left, right in pairs])
    return levels


def rows(hashes: Sequence[bytes]) -> batch_sha256.Hashes:
    return np.frombuffer(b"".join(hashes), np.uint32).reshape(-1, 8).copy()


# --- messages


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.integers(0, 400), min_size=1, max_size=150), st.integers(0, 2**32))
@example([0], 0)
@example([*range(130)], 1)
@example([3] * batch_sha256.FEW_MESSAGES, 1)
@example([55, 56, 63, 64, 65, 119, 120, 127, 128, 129], 2)
def test_each_message_is_hashed_as_hashlib_does(sizes: list[int], seed: int) -> None:
    pick = random.Random(seed)
    messages = [pick.randbytes(size) for size in sizes]
    assert hashed(messages) == [twice(message) for message in messages]


@pytest.mark.parametrize("size", [batch_sha256.LARGE - 1, batch_sha256.LARGE, batch_sha256.LARGE + 1, 300_000])
def test_large_messages_among_small_ones_are_hashed_too(size: int) -> None:
    pick = random.Random(size)
    sizes = [10, size, 250, 64, size - 9, *[100] * 80, size]
    messages = [pick.randbytes(item) for item in sizes]
    assert hashed(messages) == [twice(message) for message in messages]


def test_pieces_may_be_anywhere_and_overlap() -> None:
    data = random.Random(5).randbytes(1000)
    starts, stops = np.array([900, 3, 3, 500] * 20), np.array([1000, 700, 700, 500] * 20)
    digests = batch_sha256.digests(batch_sha256.hash_ranges(memoryview(data), starts, stops))
    assert list(digests) == [twice(data[start:stop]) for start, stop in zip(starts, stops, strict=True)]


def test_no_message_gives_no_hash() -> None:
    assert hashed([]) == []


def test_more_hashes_than_are_turned_into_bytes_at_once() -> None:
    messages = [number.to_bytes(4, "little") for number in range(10_000)]
    assert hashed(messages) == [twice(message) for message in messages]


@pytest.mark.parametrize(
    ("lanes", "processor", "features"), [(8, "haswell", "+avx,+avx2,+bmi2"), (4, "x86-64", "+sse2")]
)
def test_older_processors_give_the_same_hashes(lanes: int, processor: str, features: str) -> None:
    code = """
import platform
from tests.parsers.bitcoin import test_batch_sha256 as tests
from parsers.bitcoin.sha256_lanes import LANES
if platform.machine() == "x86_64":
    print(LANES)
else:
    print("another machine")
tests.test_large_messages_among_small_ones_are_hashed_too(70_000)
tests.test_a_tree_is_that_of_the_slow_way(137)
"""
    message = child(code, NUMBA_CPU_NAME=processor, NUMBA_CPU_FEATURES=features)
    if message == "another machine":
        pytest.skip("only x86-64 can pretend to be an older x86-64")
    assert message == str(lanes)


# --- trees


@pytest.mark.parametrize("count", [*range(1, 40), 63, 64, 65, 66, 67, 127, 128, 129, 130, 131, 257, 1000])
def test_a_tree_is_that_of_the_slow_way(count: int) -> None:
    txids = [twice(number.to_bytes(4, "little")) for number in range(count)]
    levels = slow_levels(txids)
    chosen = sorted(random.Random(count).sample(range(count), min(count, 20)))
    tree = merkle_tree.merkle(rows(txids), chosen)
    assert tree.root == levels[-1][0]
    assert len(tree.branches) == len(chosen)
    for index, branch in zip(chosen, tree.branches, strict=True):
        assert len(branch) == len(levels) - 1
        for level, node in enumerate(branch):
            number = index >> level ^ 1
            is_copy = number == (count + (1 << level) - 1) >> level
            assert node == (None if is_copy else levels[level][number])
        path = from_branch(7, index, txids[index], branch)
        assert path.root(txids[index]) == tree.root
        assert path.to_bytes() == bump.branch_bytes(7, index, txids[index], branch)


@settings(deadline=None)  # the first call compiles
@given(st.integers(2, 200), st.data())
def test_two_equal_hashes_side_by_side_are_refused(count: int, data: st.DataObject) -> None:
    txids = [twice(number.to_bytes(4, "little")) for number in range(count)]
    left = 2 * data.draw(st.integers(0, count // 2 - 1))
    txids[left + 1] = txids[left]
    with pytest.raises(BlockError, match="CVE-2012-2459"):
        merkle_tree.merkle(rows(txids))


def test_equal_halves_are_refused_also_further_up() -> None:
    for half in (4, 64, 128):
        txids = [twice(number.to_bytes(4, "little")) for number in range(half)]
        merkle_tree.merkle(rows(txids))
        with pytest.raises(BlockError, match="CVE-2012-2459"):
            merkle_tree.merkle(rows([*txids, *txids, *txids[:1]]))


def test_equal_hashes_that_are_no_brothers_do_not_matter() -> None:
    txids = [twice(number.to_bytes(4, "little")) for number in range(4)]
    txids[2] = txids[1]
    assert merkle_tree.merkle(rows(txids)).root == slow_levels(txids)[-1][0]


# --- blocks


def with_witness(bare: bytes, items: int) -> bytes:
    """A transaction of one input with a witness of so many items."""
    stack = varint(items) + b"".join(varint(40 + n) + bytes([n]) * (40 + n) for n in range(items))
    return bare[:4] + b"\0\1" + bare[4:-4] + stack + bare[-4:]


@pytest.mark.parametrize("all_of_them", [True, False])
def test_txids_are_over_the_form_without_witness(all_of_them: bool) -> None:
    maker = Maker(3)
    bares = [COINBASE, *(tx for tx in (maker.payment() for _ in range(160)) if tx[4] == 1)]
    full = [with_witness(bare, number % 5) if all_of_them or number % 3 else bare for number, bare in enumerate(bares)]
    data = bytes(80) + varint(len(full)) + b"".join(full)
    expected = [twice(bare) for bare in bares]
    assert list(block.txids(data, segwit=True)) == expected
    assert [read_tx(raw, segwit=True).txid for raw in full] == expected
    assert block.merkle_root(data, segwit=True) == slow_levels(expected)[-1][0]
    tree = block.merkle_tree(data, block.tx_offsets(data, segwit=True), segwit=True)
    for index, txid, branch in tree.branches(np.array([1, len(full) - 1])):
        assert txid == expected[index]
        assert from_branch(1, index, txid, branch).merkle_root == tree.root


def test_a_tree_of_a_real_looking_block_holds_all_its_transactions() -> None:
    maker = Maker(9)
    raws = [COINBASE, *(maker.payment() for _ in range(300)), maker.picture(), maker.picture(), maker.registration()]
    data = bytes(80) + varint(len(raws)) + b"".join(raws)
    txids = [twice(raw) for raw in raws]
    assert list(block.txids(data)) == list(block.txids(data, block.tx_offsets(data))) == txids
    tree = block.merkle_tree(data, block.tx_offsets(data))
    assert tree.root == block.merkle_root(data) == slow_levels(txids)[-1][0]
    branches = list(tree.branches(np.arange(len(raws))))
    assert [(index, txid) for index, txid, _ in branches] == list(enumerate(txids))
    for index, txid, branch in branches:
        assert from_branch(1, index, txid, branch).merkle_root == tree.root


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 25, 31, 33, 40, 41, 63, 65, 100, 129])
def test_a_tree_in_parts_is_the_tree_as_a_whole(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merkle_tree, "SUBTREE_LEAVES", 8)
    txids = [twice(number.to_bytes(4, "little")) for number in range(count)]
    whole = merkle_tree.merkle(rows(txids), range(count))
    tree = merkle_tree.MerkleTree(rows(txids))
    assert tree.root == whole.root
    assert list(tree.branches(np.arange(count))) == list(zip(range(count), txids, whole.branches, strict=True))
    some = np.array(sorted(random.Random(count).sample(range(count), min(count, 5))))
    assert [way for _, _, way in tree.branches(some)] == [whole.branches[index] for index in some.tolist()]
    assert list(tree.branches(np.empty(0, np.int64))) == []


def test_equal_halves_are_refused_in_a_tree_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merkle_tree, "SUBTREE_LEAVES", 8)
    for half in (4, 8, 16, 64):
        txids = [twice(number.to_bytes(4, "little")) for number in range(half)]
        with pytest.raises(BlockError, match="CVE-2012-2459"):
            merkle_tree.MerkleTree(rows([*txids, *txids, *txids[:1]]))
