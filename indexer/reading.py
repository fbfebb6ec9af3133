"""Read one block: which transactions matter, whose satoshis they move, what they say. Pure but for the block's bytes.

The order of things is the journey of a block (README): the walker flags transactions, then those that descend from
them within the block (law 3b), and then each is read in the order in which satoshis were spent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from indexer.chains import Excerpt, Rules
from indexer.facts import UNCONFIRMED, BlockRef, Proof, Reading, State
from indexer.one_sat import OutputReader
from indexer.output_values import OutputValues
from indexer.proving import BlockProofs, proofs
from indexer.registry import Registry
from indexer.session import Origins, Session, Values
from indexer.spend_order import spend_order
from indexer.spill import pieces
from indexer.tapscripts import WitnessReader
from parsers import block, tx
from parsers.errors import BlockError
from parsers.tx import Outpoint, Transaction


@dataclass(frozen=True, slots=True)
class Read:
    """A block's reading, and what it lacked: outpoints whose values were wanted and not known, and the transactions of
    cards whose origins are to be traced, by the outputs that hold the cards; with those it may read otherwise."""

    reading: Reading
    wanted: frozenset[Outpoint]
    untraced: Mapping[Outpoint, Transaction] = field(default_factory=dict)


def read_block(
    ref: BlockRef,
    data: memoryview | bytes | Excerpt,
    rules: Rules,
    network: str,
    watched: block.Watched,
    registry: Registry,
    values: Values,
    origins: Origins | None = None,
) -> Read:
    """Read a block, or an excerpt of one, of which every transaction is read.

    Raises BlockError when it is not what its header says, or cannot be a block at all.
    """
    if isinstance(data, Excerpt):
        return _read_excerpt(ref, data, rules, network, registry, values, origins)
    flagged = _Flagged(data, _flag(data, rules, watched), rules)
    session = Session(ref.height, rules, network, {}, values, OutputValues(flagged), origins)
    taken = block.Watched()
    order = spend_order(flagged)
    for portion in flagged.portions(order.positions):
        prevouts = _prevouts(transaction for _, _, transaction in portion)
        # where registrations are is always watched, so that the store need not be asked about other outpoints
        spent = {prevout for prevout in prevouts if prevout in watched and prevout not in taken}
        taken.add(spent)
        session.seats |= _seats(registry, spent)
        for position, index, transaction in portion:
            session.is_spent_here = bool(order.is_parent[position])
            _read_tx(session, index, transaction)
    made = proofs(ref, data, rules, _proved(session, flagged.numbered())) if session.events else BlockProofs({})
    return Read(session.reading(ref, *made), frozenset(session.wanted), session.untraced)


class _Flagged:
    """The transactions of a block that are read: each from its bytes whenever it is needed, so that none is held."""

    def __init__(self, data: memoryview | bytes, candidates: block.Candidates, rules: Rules) -> None:
        self._data, self._candidates, self._rules = data, candidates, rules

    def __iter__(self) -> Iterator[Transaction]:
        return (_read(self._data, candidate, self._rules) for candidate in self._candidates)

    def numbered(self) -> Iterator[tuple[int, Transaction]]:
        """The transactions with their numbers in the block."""
        return ((candidate.tx_index, _read(self._data, candidate, self._rules)) for candidate in self._candidates)

    def portions(self, positions: Sequence[int]) -> Iterator[list[tuple[int, int, Transaction]]]:
        """The transactions at these positions, each behind its position and its number in the block, as many at once as
        memory allows."""
        candidates = ((position, self._candidates[position]) for position in positions)
        for some in pieces(candidates, lambda pair: pair[1].size):
            yield [(position, each.tx_index, _read(self._data, each, self._rules)) for position, each in some]


def _read_excerpt(
    ref: BlockRef, excerpt: Excerpt, rules: Rules, network: str, registry: Registry, values: Values,
    origins: Origins | None,
) -> Read:  # fmt: skip
    """Read transactions that were proved to be in a block; the proofs of those that say something go with them.

    Raises BlockError where witnesses carry envelopes and are not proved: the merkle path of a txid does not do that.
    """
    if rules.envelope == "witness" and not excerpt.witnessed:
        raise BlockError(f"block {ref.height:,}: only a whole block of {rules.coin} proves the witnesses in it")
    told = {each.tx_index: tx.read(each.raw, segwit=rules.segwit) for each in excerpt.transactions}
    numbers = sorted(told)
    transactions = [told[number] for number in numbers]
    seats = _seats(registry, _prevouts(transactions))
    session = Session(ref.height, rules, network, seats, values, OutputValues(transactions), origins)
    for position in spend_order(transactions).positions:
        _read_tx(session, numbers[position], transactions[position])
    proved = set(_proved(session, told.items()))
    made = {
        told[each.tx_index].txid: Proof(each.raw, each.bump) for each in excerpt.transactions if each.tx_index in proved
    }
    return Read(session.reading(ref, made), frozenset(session.wanted), session.untraced)


def _proved(session: Session, transactions: Iterable[tuple[int, Transaction]]) -> Iterator[int]:
    """The numbers of the transactions of which proofs are stored: those that say something, and those whose outputs'
    values decided where a satoshi went, so that both can be checked again."""
    yield from (event.tx_index for event in session.events)
    if session.parents:
        yield from (index for index, transaction in transactions if transaction.txid in session.parents)


def read_alone(
    raw: Transaction, height: int, rules: Rules, network: str, registry: Registry, values: Values,
    origins: Origins | None = None,
) -> Read:  # fmt: skip
    """Read one transaction as if the block at `height` held nothing else: for diagnosis."""
    seats = _seats(registry, _prevouts([raw]))
    session = Session(height, rules, network, seats, values, OutputValues([raw]), origins)
    _read_tx(session, 0, raw)
    ref = BlockRef("", height, b"", b"", 0, b"")
    return Read(session.reading(ref), frozenset(session.wanted), session.untraced)


def read_unconfirmed(
    transactions: Iterable[Transaction],
    rules: Rules,
    network: str,
    watched: block.Watched,
    registry: Registry,
    before: Mapping[Outpoint, list[State]],
    values: Values,
    origins: Origins | None = None,
) -> Read:
    """Read transactions as if they were mined next: parents first, else in the order of their txids, whatever order
    they came in. `before` are registrations that earlier unconfirmed transactions left at outpoints. Heights are
    UNCONFIRMED, and every `tx_index` is 0."""
    by_txid = sorted(transactions, key=lambda each: each.txid)
    spent = {prevout for prevout in _prevouts(by_txid) if prevout in watched}
    seats = _seats(registry, spent) | dict(before)
    session = Session(UNCONFIRMED, rules, network, seats, values, OutputValues(by_txid), origins)
    for position in spend_order(by_txid).positions:
        _read_tx(session, 0, by_txid[position])
    ref = BlockRef("", UNCONFIRMED, b"", b"", 0, b"")
    return Read(session.reading(ref), frozenset(session.wanted), session.untraced)


def _read_tx(session: Session, index: int, transaction: Transaction) -> None:
    reader = WitnessReader if session.rules.envelope == "witness" else OutputReader
    reader(session, index, transaction).read()


def is_silent(data: memoryview, rules: Rules, watched: block.Watched) -> bool:
    """Whether a block holds no transaction worth reading, so that its reading is empty. Raises BlockError."""
    return not _worth_reading(data, rules, watched)


def _worth_reading(data: memoryview | bytes, rules: Rules, watched: block.Watched) -> block.Candidates:
    return block.worth_reading(data, watched, segwit=rules.segwit, witness=rules.envelope == "witness")


def _flag(data: memoryview | bytes, rules: Rules, watched: block.Watched) -> block.Candidates:
    """The transactions worth reading, and those that spend what they make, however deep (law 3b): two passes over the
    block, and one where nothing worth reading makes an output that can hold a registration."""
    flagged = _worth_reading(data, rules, watched)
    if rules.envelope is None:
        return flagged

    def outpoints_of(candidate: block.Candidate) -> Iterator[Outpoint]:
        return holdable(_read(data, candidate, rules), rules)

    born = block.Watched(outpoint for candidate in flagged for outpoint in outpoints_of(candidate))
    if not len(born):
        return flagged
    return block.spenders(data, born, segwit=rules.segwit).with_descendants(flagged, outpoints_of)


def _read(data: memoryview | bytes, candidate: block.Candidate, rules: Rules) -> Transaction:
    return tx.read(bytes(data[candidate.offset : candidate.offset + candidate.size]), segwit=rules.segwit)


def holdable(transaction: Transaction, rules: Rules) -> Iterator[Outpoint]:
    """The outputs in which a registration may come to rest."""
    if rules.envelope is None:
        return
    for vout, made in enumerate(transaction.outputs):
        if made.satoshis == 1 or (rules.envelope == "witness" and made.satoshis > 0):
            yield transaction.outpoint(vout)


def _prevouts(transactions: Iterable[Transaction]) -> Iterator[Outpoint]:
    return (spent.prevout for transaction in transactions for spent in transaction.inputs)


def _seats(registry: Registry, outpoints: Iterable[Outpoint]) -> dict[Outpoint, list[State]]:
    return {outpoint: list(states) for outpoint, states in registry.at(outpoints).items()}
