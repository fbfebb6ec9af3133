"""The cache of unconfirmed transactions: what many outputs of one transaction cost."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from indexer.model import BlockFacts
from indexer.sync.mempool_cache import MempoolCache, memory_of
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, read, serialise
from tests.facts import born, ref, state

pytestmark = pytest.mark.usefixtures("often_collected")

MANY = 500


class CountedOutpoint(Outpoint):
    """An outpoint that counts how often one is compared with another."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedOutpoint.comparisons += 1
        return tuple(self) == other

    __hash__: Any = Outpoint.__hash__


def test_registrations_of_a_parent_are_looked_up_once_for_all_inputs_of_its_child() -> None:
    parent = read(serialise((TxInput(Outpoint(b"c" * 32, 0), b"", 0),), (TxOutput(1, b""),) * MANY))
    outputs = [CountedOutpoint(parent.txid, vout) for vout in range(MANY)]
    events = tuple(
        replace(born("a", number), txid=parent.txid, outpoint=output, state=state("a", "a", 1, outpoint=output))
        for number, output in enumerate(outputs)
    )
    cache = MempoolCache()
    cache.add(parent)
    assert cache.take(BlockFacts(ref("1"), events, {})) == []
    cache.add(read(serialise(tuple(TxInput(Outpoint(*output), b"", 0) for output in outputs[1:]), (TxOutput(1, b""),))))
    registrations = cache.registrations()
    assert {outpoint: [there.outpoint for there in states] for outpoint, states in registrations.items()} == {
        output: [output] for output in outputs[1:]
    }
    CountedOutpoint.comparisons = 0
    cache.registrations()
    assert CountedOutpoint.comparisons < 10 * MANY


def test_the_memory_of_a_parsed_transaction_is_not_underestimated() -> None:
    inputs = tuple(TxInput(Outpoint(number.to_bytes(32), number), b"", 7 * number) for number in range(2_000))
    outputs = tuple(TxOutput(1_000 + number, b"%d" % number) for number in range(2_000))
    for raw in (serialise(inputs, outputs[:1]), serialise(inputs[:1], outputs)):
        tracemalloc.start()
        try:
            transaction = read(raw)
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert taken / 2 < memory_of(transaction)
        assert memory_of(transaction) < 4 * taken
