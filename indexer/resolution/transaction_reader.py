"""Reads one transaction into events, in the order of a block or as if the block held nothing else. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from indexer.headers.networks import CoinRules
from indexer.model import BlockFacts, BlockRef, Proofs, RegistrationState
from indexer.resolution.output_envelopes import OutputEnvelopeReader
from indexer.resolution.registration_lookup import RegistrationLookup
from indexer.resolution.session import Origins, Session, Values
from indexer.resolution.witness_envelopes import WitnessEnvelopeReader
from parsers.bitcoin.tx import Outpoint, Transaction
from parsers.bitcoin.witness_commitment import CoinbaseProof


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The facts of a block, and the data that was missing to decide them: outpoints of unknown value, and transactions
    of cards with origins to trace, by the outputs that hold the cards. With those, the facts may differ."""

    reading: BlockFacts
    missing_values: frozenset[Outpoint]
    untraced: Mapping[Outpoint, Transaction] = field(default_factory=dict)


def read_alone(
    raw: Transaction, height: int, rules: CoinRules, network: str, registry: RegistrationLookup, values: Values,
    origins: Origins | None = None,
) -> ReadResult:  # fmt: skip
    """Read one transaction as if the block at `height` held nothing else: for diagnosis."""
    registrations_by_outpoint = registrations_at(registry, prevouts([raw]))
    values_here = {raw.outpoint(vout): output.satoshis for vout, output in enumerate(raw.outputs)}
    session = Session(height, rules, network, registrations_by_outpoint, values, values_here, origins)
    read_tx(session, 0, raw)
    return result_of(session, BlockRef("", height, b"", b"", 0, b""))


def read_tx(session: Session, index: int, transaction: Transaction) -> None:
    """Add the events of a transaction with this index in its block to a session."""
    reader = WitnessEnvelopeReader if session.rules.envelope == "witness" else OutputEnvelopeReader
    reader(session, index, transaction).read()


def result_of(
    session: Session, ref: BlockRef, proved: Proofs | None = None, coinbase: CoinbaseProof | None = None
) -> ReadResult:
    """The facts of block `ref` that a session has read."""
    in_memory = session.events.in_memory
    events = session.events if in_memory is None else tuple(in_memory)
    facts = BlockFacts(ref, events, session.cards.settled(), proved if proved is not None else {}, coinbase)
    return ReadResult(facts, frozenset(session.missing_values), session.untraced)


def prevouts(transactions: Iterable[Transaction]) -> Iterator[Outpoint]:
    """The outpoints that transactions spend."""
    return (spent.prevout for transaction in transactions for spent in transaction.inputs)


def registrations_at(
    registry: RegistrationLookup, outpoints: Iterable[Outpoint]
) -> dict[Outpoint, list[RegistrationState]]:
    """The registrations at outpoints, by outpoint."""
    return {outpoint: list(states) for outpoint, states in registry.at_outpoints(outpoints).items()}
