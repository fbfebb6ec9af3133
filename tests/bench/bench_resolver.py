"""Several block readers and one resolver: `python -m tests.bench.bench_resolver [--readers N] [--transactions N]`.

A simulation of what a million transactions a second would need. Reader processes scan parts of blocks, parse the
transactions that may concern the registry, and judge their cards as if no registration were spent. One resolver gets
the results in the order of the block, follows the satoshis, and reads those transactions again that spend a
registration. Of each block, its events must be those of `BlockReader`, which reads the block alone. Reported are the
transactions a second of a reader's core; the transactions and events a second of the resolver's core; and how many
readers keep one resolver busy. Results are pickled and unpickled. Not part of it: storing events, fetching blocks,
hashing them, and spends across parts of one block, for which readers look through their inputs again.
"""

from __future__ import annotations

import argparse
import pickle
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from multiprocessing import get_context
from random import Random
from typing import NamedTuple

from indexer.headers.networks import network
from indexer.model import BlockRef, Event, RegistrationState
from indexer.resolution.block_reader import BlockReader, flag_candidates
from indexer.resolution.output_envelopes import OutputEnvelopeReader
from indexer.resolution.registration_lookup import RegistrationLookup
from indexer.resolution.session import Session
from indexer.resolution.spend_order import OutputValues
from indexer.spill import Spill
from parsers.bitcoin import block, tx
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, serialise, sha256d, varint
from tests.bench.synthetic import COINBASE, Maker

BSV = network("bsv", "regtest")
PART = 4_000
"""Transactions of a part of a block."""

BLOCKS, MOVED = 3, 0.3
"""Blocks, and the share of the registrations of a block that the next one transfers."""

Result = tuple[int, list[Outpoint], bytes, list[Event]]
"""A transaction that may concern the registry: its number in the block, what it spends, its bytes, and its events as
long as it spends no registration."""


class Part(NamedTuple):
    """Transactions of a block from a number on."""

    height: int
    first: int
    count: int
    data: bytes

    def as_block(self) -> bytes:
        """The bytes of a block of these transactions, with an empty header."""
        return bytes(block.HEADER) + varint(self.count) + self.data


def session_of(height: int) -> Session:
    """A session that knows no registration yet."""
    return Session(height, BSV.rules, BSV.kind, {}, {}, OutputValues())


def read_part(part: Part, watched: Iterable[Outpoint]) -> tuple[float, bytes]:
    """The work of a reader: its processor seconds, and its results, pickled. `watched` are outpoints of
    registrations."""
    began = time.process_time()
    data = part.as_block()
    candidates = flag_candidates(data, block.scan(data, block.WatchedOutpoints(watched)), BSV.rules)
    session, results = session_of(part.height), list[Result]()
    for candidate in candidates:
        raw = data[candidate.offset : candidate.offset + candidate.size]
        transaction, index = tx.read(raw), part.first + candidate.tx_index
        session.events = Spill()
        OutputEnvelopeReader(session, index, transaction).read()
        results.append((index, [spent.prevout for spent in transaction.inputs], raw, list(session.events)))
    pickled = pickle.dumps(results, pickle.HIGHEST_PROTOCOL)
    return time.process_time() - began, pickled


class Resolver:
    """Follows the satoshis of all registrations through the results of readers, in order."""

    def __init__(self) -> None:
        self.registrations: dict[Outpoint, list[RegistrationState]] = {}
        self.session = session_of(0)

    def begin(self, height: int) -> None:
        """Begin a block."""
        self.session = replace(session_of(height), registrations_by_outpoint=self.registrations)

    def take(self, results: Iterable[Result]) -> None:
        """Add the events of these transactions."""
        session = self.session
        for index, prevouts, raw, events in results:
            if any(prevout in self.registrations for prevout in prevouts):
                OutputEnvelopeReader(session, index, tx.read(raw)).read()
                continue
            for event in events:
                session.events.append(replace(event, position=len(session.events)))
                if event.state and event.state.outpoint:
                    self.registrations.setdefault(event.state.outpoint, []).append(event.state)


class _Source(NamedTuple):
    """The registrations by outpoint, as the store has them."""

    registrations: Mapping[Outpoint, list[RegistrationState]]

    def at_outpoints(self, _chain: str, outpoints: Iterable[Outpoint]) -> dict[Outpoint, list[RegistrationState]]:
        return {outpoint: self.registrations[outpoint] for outpoint in outpoints if outpoint in self.registrations}


def alone(
    height: int, parts: list[Part], registrations: Mapping[Outpoint, list[RegistrationState]]
) -> tuple[float, list[Event]]:
    """The events of a block that one `BlockReader` reads, and its processor seconds."""
    data = bytes(block.HEADER) + varint(sum(part.count for part in parts)) + b"".join(part.data for part in parts)
    began = time.process_time()
    watched = block.WatchedOutpoints(registrations)
    reader = BlockReader(BlockRef("bsv", height, b"", b"", 0, data[:80]), data, BSV.rules, BSV.kind, watched)
    session = reader.session(RegistrationLookup(_Source(registrations), "bsv"), {})
    return time.process_time() - began, list(session.events)


class Chain:
    """Makes blocks of payments, of which one in `every` transactions is a registration."""

    def __init__(self, every: int, transactions: int) -> None:
        self._maker, self._random = Maker(every), Random(every)
        self._payments = [self._maker.payment() for _ in range(PART)]
        self._every, self._transactions = every, transactions
        self._registrations: list[Outpoint] = []

    def parts(self, height: int) -> list[Part]:
        """The next block."""
        moved = iter(self._random.sample(self._registrations, int(MOVED * len(self._registrations))))
        parts, first, self._registrations = list[Part](), 0, []
        for start in range(0, self._transactions, PART):
            raws = [COINBASE] if start == 0 else []
            raws += [self._next(start + number, moved) for number in range(PART)]
            parts.append(Part(height, first, len(raws), b"".join(raws)))
            first += len(raws)
        return parts

    def _next(self, number: int, moved: Iterator[Outpoint]) -> bytes:
        if number % self._every == 0:
            raw = self._maker.registration()
            self._registrations.append(Outpoint(sha256d(raw), 0))
            return raw
        if (outpoint := next(moved, None)) is not None:
            return serialise((TxInput(outpoint, b"\x51", 0),), (TxOutput(1, self._maker.p2pkh()),))
        return self._payments[number % PART]


def row(every: int, readers: int, transactions: int) -> str:
    """The line with the times of a chain."""
    chain, resolver, reading, resolving, single, events = Chain(every, transactions), Resolver(), 0.0, 0.0, 0.0, 0
    with get_context("spawn").Pool(readers, block.prepare) as pool:
        for height in range(1, BLOCKS + 1):
            parts, watched = chain.parts(height), list(resolver.registrations)
            seconds, expected = alone(
                height, parts, {key: list(states) for key, states in resolver.registrations.items()}
            )
            single += seconds
            resolver.begin(height)
            for seconds, pickled in pool.starmap(read_part, [(part, watched) for part in parts]):
                reading += seconds
                began = time.process_time()
                resolver.take(pickle.loads(pickled))  # noqa: S301 - written by a reader
                resolving += time.process_time() - began
            assert list(resolver.session.events) == expected, f"the events of block {height} differ"
            events += len(expected)
    total = BLOCKS * transactions
    return (
        f"{'1 in ' + format(every, ','):<14}{events:>9,}{total / single:>14,.0f}{total / reading:>14,.0f}"
        f"{total / resolving:>16,.0f}{events / resolving:>14,.0f}{reading / resolving:>10,.0f}"
    )


def main() -> None:
    """Print a row for each share of registrations."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--readers", type=int, default=2)
    parser.add_argument("--transactions", type=int, default=5 * PART, help="of each block")
    args = parser.parse_args()
    block.prepare()
    print(f"{'registrations':<14}{'events':>9}{'alone, tx/s':>14}{'reader, tx/s':>14}{'resolver, tx/s':>16}"
          f"{'events/s':>14}{'readers':>10}")  # fmt: skip
    for every in (1_000, 100, 10, 1):
        print(row(every, args.readers, args.transactions), flush=True)


if __name__ == "__main__":
    main()
