"""Descendants of flagged transactions within a block are found in one pass, whatever their depth, width or order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.headers.networks import CoinRules
from indexer.resolution import block_reader as reading
from parsers.bitcoin import block
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, serialise, sha256d, varint
from tests.bench.synthetic import COINBASE, envelope

ONE_SAT = CoinRules("bsv", segwit=False, envelope="output")
WITNESS = CoinRules("ltc", segwit=True, envelope="witness")
POINTERS = CoinRules("doge", segwit=False, envelope=None)

PLAIN = b"\x51"
CLAIM = envelope(b"application/json", b"{}")
WATCHED = Outpoint(b"w" * 32, 0)


class Tx(NamedTuple):
    """A transaction, and what the oracle looks at."""

    raw: bytes
    txid: bytes
    spends: tuple[Outpoint, ...]
    values: tuple[int, ...]
    has_claim: bool


def make(spends: Sequence[Outpoint], values: Sequence[int], *, has_claim: bool = False, marked: bool = False) -> Tx:
    """A transaction with outputs of these values (satoshis); `marked` with a segwit marker and empty witnesses."""
    inputs = tuple(TxInput(outpoint, b"", 0) for outpoint in spends)
    outputs = tuple(TxOutput(value, PLAIN) for value in values)
    if has_claim:
        outputs += (TxOutput(2, CLAIM),)
        values = (*values, 2)
    bare = serialise(inputs, outputs)
    raw = bare[:4] + b"\0\1" + bare[4:-4] + bytes(len(inputs)) + bare[-4:] if marked else bare
    return Tx(raw, sha256d(bare), tuple(spends), tuple(values), has_claim)


def assembled(txs: Sequence[Tx]) -> bytes:
    return bytes(80) + varint(len(txs) + 1) + COINBASE + b"".join(tx.raw for tx in txs)


def oracle(txs: Sequence[Tx], rules: CoinRules) -> set[int]:
    """Numbers of the flagged transactions, by going over all of them until nothing is added."""
    followed, flagged = {WATCHED}, set[int]()
    while True:
        before = len(flagged)
        for number, tx in enumerate(txs, 1):
            if tx.has_claim or followed & set(tx.spends):
                flagged.add(number)
                followed |= {Outpoint(tx.txid, vout) for vout, value in enumerate(tx.values) if holds(value, rules)}
        if len(flagged) == before:
            return flagged


def holds(value: int, rules: CoinRules) -> bool:
    return rules.envelope is not None and (value == 1 or (rules.envelope == "witness" and value > 0))


def flagged_numbers(txs: Sequence[Tx], rules: CoinRules, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the flagged transactions, from one pass over the block."""
    passes = 0
    start = block.first_transaction

    def counted(data: block.Buffer) -> tuple[int, int]:
        nonlocal passes
        passes += 1
        return start(data)

    with monkeypatch.context() as patched:
        patched.setattr(block, "first_transaction", counted)
        data = assembled(txs)
        options = {"segwit": rules.segwit, "witness": rules.envelope == "witness"}
        scan = block.scan(data, block.WatchedOutpoints([WATCHED]), **options)
        candidates = list(reading.flag_candidates(data, scan, rules))
    assert passes == 1
    return [candidate.tx_index for candidate in candidates]


def chain(length: int, value: int = 1) -> Iterator[Tx]:
    spent = WATCHED
    for _ in range(length):
        yield make([spent], [value])
        spent = Outpoint(sha256d(serialise((TxInput(spent, b"", 0),), (TxOutput(value, PLAIN),))), 0)


@pytest.mark.parametrize("rules", [ONE_SAT, WITNESS])
@pytest.mark.parametrize("order", [1, -1])
def test_a_chain_of_8000_outputs_takes_two_passes_in_either_order(
    rules: CoinRules, order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    txs = list(chain(8_000))[::order]
    assert flagged_numbers(txs, rules, monkeypatch) == list(range(1, 8_001))


@pytest.mark.parametrize("order", [1, -1])
def test_a_chain_ends_where_an_output_cannot_hold_a_registration(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    txs = list(chain(50, value=2))[::order]
    first = [1] if order == 1 else [50]
    assert flagged_numbers(txs, ONE_SAT, monkeypatch) == first
    assert flagged_numbers(txs, POINTERS, monkeypatch) == first
    assert flagged_numbers(txs, WITNESS, monkeypatch) == list(range(1, 51))


@pytest.mark.parametrize("order", [1, -1])
def test_a_wide_fan_is_followed(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One transaction of 3,000 outputs, a spender of each, and one that merges what they make."""
    root = make([WATCHED], [1] * 3_000)
    leaves = [make([Outpoint(root.txid, vout)], [1, 5]) for vout in range(3_000)]
    merging = make([Outpoint(leaf.txid, 0) for leaf in leaves], [1])
    strangers = [make([Outpoint(leaf.txid, 1)], [1]) for leaf in leaves[:100]]
    txs = [root, *leaves, merging, *strangers][::order]
    expected = range(1, 3_003) if order == 1 else range(101, 3_103)
    assert flagged_numbers(txs, ONE_SAT, monkeypatch) == list(expected)


def test_a_block_that_repeats_transactions_is_followed_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of a parent, and many that say they spend it: each spender is answered once, not once for each copy."""
    root = make([WATCHED], [1])
    parent = make([Outpoint(root.txid, 0)], [1])
    spenders = [make([Outpoint(parent.txid, 0)], [number]) for number in range(2, 2_002)]
    answered = 0
    of = block.SpenderIndex.spending

    def counted(self: block.SpenderIndex, outpoints: Iterator[Outpoint]) -> object:
        nonlocal answered
        numbers = of(self, outpoints)
        answered += len(numbers)
        return numbers

    monkeypatch.setattr(block.SpenderIndex, "spending", counted)
    txs = [root, *[parent] * 2_000, *spenders]
    assert flagged_numbers(txs, ONE_SAT, monkeypatch) == list(range(1, 4_002))
    assert answered == 2_000


def test_spenders_that_were_named_need_not_be_named_again() -> None:
    root = make([WATCHED], [1])
    child = make([Outpoint(root.txid, 0)], [1])
    data = assembled([child, root])
    index = block.spenders(data, block.tx_offsets(data), block.WatchedOutpoints([WATCHED]))
    assert index.direct_spenders.tolist() == [2]
    assert index.spending([Outpoint(root.txid, 0), Outpoint(child.txid, 0)]).tolist() == [1]
    assert index.spending([Outpoint(root.txid, 0)]).tolist() == []
    assert index.spending([]).tolist() == []


@st.composite
def families(draw: st.DrawFn) -> list[Tx]:
    """Transactions that spend each other, strangers' outputs and the watched one, in any order."""
    txs: list[Tx] = []
    for number in range(draw(st.integers(1, 14))):
        created = [Outpoint(tx.txid, vout) for tx in txs for vout in range(len(tx.values))]
        foreign = Outpoint(bytes([number + 1]) * 32, 0)
        spends = draw(
            st.lists(st.sampled_from([*created, *[foreign] * 3, WATCHED]), min_size=1, max_size=3, unique=True)
        )
        values = draw(st.lists(st.sampled_from([0, 1, 1, 1, 2]), min_size=1, max_size=3))
        has_claim, marked = draw(st.integers(0, 9)) == 0, draw(st.booleans())
        txs.append(make([*spends, Outpoint(b"n" * 32, number)], values, has_claim=has_claim, marked=marked))
    return draw(st.permutations(txs))


@settings(max_examples=300, deadline=None)
@given(families(), st.sampled_from([ONE_SAT, WITNESS, POINTERS]))
def test_what_is_flagged_is_what_the_slow_oracle_flags(txs: list[Tx], rules: CoinRules) -> None:
    if not rules.segwit:
        txs = [tx for tx in txs if tx.raw[4:6] != b"\0\1"]
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert set(flagged_numbers(txs, rules, monkeypatch)) == oracle(txs, rules)
