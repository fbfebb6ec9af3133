"""BIP 141's commitment: the tree of wtxids beside a slow one, and proofs of one transaction's witness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.bitcoin import block, tx, witness_commitment
from parsers.bitcoin.bump import MerklePath
from parsers.bitcoin.tx import COINBASE_TXID, Outpoint, TxInput, TxOutput, sha256d, varint
from parsers.bitcoin.witness_commitment import PREFIX, CoinbaseProof
from parsers.errors import ParseError, ProofError
from tests.chainkit_coins import serialise_tx
from tests.oracles import merkle
from tests.oracles import witness_commitments as oracle
from tests.parsers.writers import from_branch

RESERVED = b"\x07" * 32


def transaction(number: int, stack: Sequence[bytes] = (), *, mweb: bool = False) -> bytes:
    """A transaction with one input; with `mweb` it integrates the MWEB, as the last one of a Litecoin block does."""
    spent = TxInput(Outpoint(sha256d(b"%d" % number), 1), b"", 0xFFFFFFFF, tuple(stack))
    raw = serialise_tx((spent,), (TxOutput(number, b"\x51" * (number % 40)),))
    if not mweb:
        return raw
    flag, rest = (b"\0\x09", raw[6:]) if stack else (b"\0\x08", raw[4:])
    return raw[:4] + flag + rest[:-4] + b"\0" + rest[-4:]


def coinbase(outputs: Sequence[bytes], reserved: Sequence[bytes] = (RESERVED,)) -> bytes:
    """A coinbase with outputs of these scripts and this witness."""
    spent = TxInput(Outpoint(COINBASE_TXID, 0xFFFFFFFF), b"\x01\x02height", 0xFFFFFFFF, tuple(reserved))
    return serialise_tx((spent,), tuple(TxOutput(0, script) for script in outputs))


def assembled(raws: Sequence[bytes]) -> bytes:
    return bytes(80) + varint(len(raws)) + b"".join(raws)


def mined(raws: Sequence[bytes]) -> bytes:
    """A block of these transactions, whose coinbase commits to their witnesses; its header is empty."""
    root = merkle.root([bytes(32), *map(oracle.wtxid, raws)])
    return assembled([coinbase([PREFIX + sha256d(root + RESERVED)]), *raws])


def proof(data: bytes, number: int) -> tuple[bytes, MerklePath, CoinbaseProof, bytes]:
    """The proof of the witness of transaction `number` of a block, made by the book."""
    raws = oracle.raw_transactions(data)
    txids = [tx.read(raw, segwit=True).txid for raw in raws]
    wtxids = oracle.wtxids(data)
    first = tx.read(raws[0], segwit=True)
    bare = tx.serialise(first.inputs, first.outputs, first.version, first.locktime)
    beside = from_branch(7, 0, txids[0], merkle.branch(txids, 0)).to_bytes()
    return (
        raws[number],
        from_branch(7, number, txids[number], merkle.branch(txids, number)),
        CoinbaseProof(bare, RESERVED, beside),
        from_branch(7, number, wtxids[number], merkle.branch(wtxids, number)).to_bytes(),
    )


stacks = st.lists(st.binary(max_size=90), max_size=3)
blocks = st.lists(st.tuples(stacks, st.booleans()), min_size=1, max_size=12).map(
    lambda shapes: mined([transaction(n, stack, mweb=mweb) for n, (stack, mweb) in enumerate(shapes)])
)


# -- the tree of wtxids


@settings(max_examples=200, deadline=None)
@given(blocks)
def test_the_root_and_branches_of_wtxids_are_those_of_a_slow_tree(data: bytes) -> None:
    wtxids = oracle.wtxids(data)
    tree = block.witness_tree(data, block.tx_offsets(data, segwit=True))
    assert tree.root == merkle.root(wtxids)
    every = np.arange(len(wtxids))
    assert list(tree.branches(every)) == [(n, wtxid, merkle.branch(wtxids, n)) for n, wtxid in enumerate(wtxids)]
    for number, raw in enumerate(oracle.raw_transactions(data)[1:], 1):
        assert tx.wtxid(raw) == wtxids[number]


@pytest.mark.parametrize("count", [63, 64, 65, 300])
def test_large_blocks_are_hashed_alike(count: int) -> None:
    raws = [transaction(n, [bytes([n % 251]) * (n % 700)] * (n % 3), mweb=n % 50 == 9) for n in range(count)]
    data = mined(raws)
    tree = block.witness_tree(memoryview(data), block.tx_offsets(data, segwit=True))
    wtxids = oracle.wtxids(data)
    assert tree.root == merkle.root(wtxids)
    branches = list(tree.branches(np.array([0, 9, count])))
    assert branches == [(number, wtxids[number], merkle.branch(wtxids, number)) for number in (0, 9, count)]


def test_a_block_has_a_witness_where_a_transaction_carries_one() -> None:
    bare = coinbase([b"\x51"], [])
    for stack, mweb, expected in (((), False, False), ((), True, False), ((b"x",), False, True), ((b"x",), True, True)):
        data = assembled([bare, transaction(1), transaction(2, stack, mweb=mweb)])
        assert block.has_witness(data, block.tx_offsets(data, segwit=True)) is expected


# -- what a coinbase commits to


@pytest.mark.parametrize(
    ("scripts", "expected"),
    [
        ([], None),
        ([b"\x51"], None),
        ([PREFIX + b"a" * 31], None),
        ([PREFIX + b"a" * 32], b"a" * 32),
        ([PREFIX + b"a" * 32 + b"more"], b"a" * 32),
        ([PREFIX + b"a" * 32, b"\x51", PREFIX + b"b" * 32, PREFIX + b"c" * 31], b"b" * 32),
        ([b"\x6a" + PREFIX + b"a" * 32], None),
    ],
)
def test_the_last_output_that_is_long_enough_commits(scripts: list[bytes], expected: bytes | None) -> None:
    parsed = tx.read(coinbase(scripts), segwit=True)
    assert witness_commitment.commitment(parsed) == expected
    (read,) = [oracle.read_tx(oracle.Tape(coinbase(scripts)), segwit=True)]
    assert oracle.commitment(read) == expected


@pytest.mark.parametrize("stack", [[], [b""], [b"x" * 31], [b"x" * 33], [RESERVED, RESERVED]])
def test_only_a_witness_of_one_item_of_32_bytes_is_a_reserved_value(stack: list[bytes]) -> None:
    root = sha256d(b"root")
    parsed = tx.read(coinbase([PREFIX + sha256d(root + b"".join(stack))], stack), segwit=True)
    assert witness_commitment.reserved_value(parsed) == b""
    with pytest.raises(ProofError, match="no reserved value"):
        witness_commitment.check(parsed, witness_commitment.reserved_value(parsed), root)


# -- proofs of one witness


@settings(max_examples=150, deadline=None)
@given(blocks, st.data())
def test_the_witness_that_was_mined_is_proved_and_no_other(data: bytes, draw: st.DataObject) -> None:
    number = draw.draw(st.integers(1, len(oracle.raw_transactions(data)) - 1))
    raw, path, first, branch = proof(data, number)
    witness_commitment.verify(raw, path, first, branch)
    result = tx.read_exactly(raw, segwit=True)
    other = draw.draw(stacks.filter(lambda stack: tuple(stack) != result.inputs[0].witness))
    swapped = serialise_tx(
        (result.inputs[0]._replace(witness=tuple(other)),),
        result.outputs,
        version=result.version,
        locktime=result.locktime,
    )
    assert tx.read(swapped, segwit=True).txid == result.txid, "a txid does not cover the witness"
    with pytest.raises(ProofError, match="its witness is not the one that was mined"):
        witness_commitment.verify(swapped, path, first, branch)


DATA = mined([transaction(number, [b"stack"] * (number % 2)) for number in range(6)])


def other_block() -> bytes:
    return mined([transaction(number, [b"another"]) for number in range(6)])


def short_block() -> bytes:
    return mined([transaction(number, [b"another"]) for number in range(2)])


RAW, PATH, FIRST, BRANCH = proof(DATA, 2)
TWIN = tx.read(RAW, segwit=True)

FORGERIES: dict[str, tuple[dict[str, Any], str]] = {
    "no merkle path": ({"branch": None}, "no merkle path for its wtxid"),
    "the txid's merkle path": ({"branch": PATH.to_bytes()}, "lacks wtxid"),
    "a path of another length": ({"branch": proof(short_block(), 2)[3]}, "not of the same length"),
    "a path of another block": ({"branch": proof(other_block(), 2)[3]}, "lacks wtxid"),
    "another reserved value": ({"coinbase": FIRST._replace(reserved=bytes(32))}, "not those that its coinbase"),
    "no reserved value": ({"coinbase": FIRST._replace(reserved=b"")}, "no reserved value"),
    "the coinbase of another block": ({"coinbase": proof(other_block(), 2)[2]}, "of another block"),
    "the coinbase of a shorter block": ({"coinbase": proof(short_block(), 2)[2]}, "of another block"),
    "another coinbase": ({"coinbase": FIRST._replace(raw=proof(other_block(), 2)[2].raw)}, "not the coinbase"),
    "a transaction that is not a coinbase": (
        {
            "coinbase": FIRST._replace(
                raw=tx.serialise(TWIN.inputs, TWIN.outputs, TWIN.version, TWIN.locktime), bump=PATH.to_bytes()
            )
        },
        "not the coinbase",
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_proof_that_does_not_hold_is_refused(forgery: str) -> None:
    changes, message = FORGERIES[forgery]
    answers: dict[str, Any] = {"raw": RAW, "path": PATH, "coinbase": FIRST, "branch": BRANCH}
    witness_commitment.verify(**answers)
    with pytest.raises(ParseError, match=message):
        witness_commitment.verify(**answers | changes)


def test_a_coinbase_that_is_not_first_commits_to_nothing() -> None:
    """A transaction anywhere else in the block could be made by anybody."""
    raws = oracle.raw_transactions(DATA)
    fake = coinbase([PREFIX + sha256d(sha256d(b"x") + RESERVED)], [])
    data = assembled([raws[0], raws[1], fake, *raws[3:]])
    txids = [tx.read(raw, segwit=True).txid for raw in oracle.raw_transactions(data)]
    position = from_branch(7, 2, txids[2], merkle.branch(txids, 2))
    coinbase_proof = CoinbaseProof(fake, RESERVED, position.to_bytes())
    path = from_branch(7, 1, txids[1], merkle.branch(txids, 1))
    with pytest.raises(ProofError, match="not the coinbase of a block"):
        witness_commitment.verify(raws[1], path, coinbase_proof, BRANCH)


def test_where_a_block_commits_to_no_witness_no_transaction_has_one() -> None:
    data = assembled([coinbase([b"\x51"], []), transaction(1), transaction(2, [b"unexpected"])])
    assert not oracle.is_honest(data)
    witness_commitment.verify(*proof(data, 1)[:2], proof(data, 1)[2]._replace(reserved=b""), None)
    raw, path, first, _ = proof(data, 2)
    with pytest.raises(ProofError, match="its block commits to none"):
        witness_commitment.verify(raw, path, first._replace(reserved=b""), None)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=150), st.binary(max_size=200), st.binary(max_size=40), st.binary(max_size=200) | st.none())
def test_any_bytes_are_refused_with_an_error_of_the_parsers(
    raw: bytes, first: bytes, reserved: bytes, branch: bytes | None
) -> None:
    for answer in (CoinbaseProof(first, reserved, branch or b""), CoinbaseProof(first, reserved, FIRST.bump), FIRST):
        with pytest.raises(ParseError):
            witness_commitment.verify(raw, PATH, answer, branch)
