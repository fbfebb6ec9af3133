"""Reads one block into events: finds the relevant transactions, and reads them in spend order. Pure.

The order of things is the journey of a block (README): one walk over its bytes flags transactions, then those that
descend from them within the block are added (law 3b), and all are read in the order in which satoshis were spent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from indexer.chains import PartialBlock
from indexer.headers.networks import CoinRules
from indexer.model import UNCONFIRMED, BlockRef, Proof, Proofs, RegistrationState
from indexer.resolution.block_proofs import BlockProofs, proofs
from indexer.resolution.registration_lookup import RegistrationLookup
from indexer.resolution.session import Origins, Session, Values
from indexer.resolution.spend_order import OutputValues, spend_order
from indexer.resolution.transaction_reader import ReadResult, prevouts, read_tx, registrations_at, result_of
from indexer.spill import BYTES_AT_ONCE, SpilledPairs, pieces
from parsers.bitcoin import block, tx
from parsers.bitcoin.tx import Outpoint, Transaction
from parsers.errors import BlockError


class BlockReader:
    """Reads the bytes of a block, which are walked once, when the reader is made: `session` may be repeated with more
    values and origins, and `result` adds the proofs."""

    def __init__(
        self, ref: BlockRef, data: memoryview | bytes, rules: CoinRules, network: str, watched: block.WatchedOutpoints
    ) -> None:
        """Raises BlockError for what cannot be a block."""
        self._ref, self._data, self._rules, self._network, self._watched = ref, data, rules, network, watched
        self._scan = block.scan(data, watched, segwit=rules.segwit, witness=rules.envelope == "witness")

    @property
    def is_silent(self) -> bool:
        """Whether the block has no relevant transaction: then its facts are empty."""
        return not self._scan.candidates

    def contradicted(self, spends: Mapping[Outpoint, bytes]) -> set[bytes]:
        """The txids in `spends` whose outpoints this block spends by another transaction; the outpoints must be
        watched."""
        spending = (_read(self._data, candidate, self._rules) for candidate in self._scan.candidates)
        return {
            spends[spent.prevout]
            for spender in spending
            for spent in spender.inputs
            if spends.get(spent.prevout, spender.txid) != spender.txid
        }

    def session(self, registry: RegistrationLookup, values: Values, origins: Origins | None = None) -> Session:
        """Read the relevant transactions in spend order."""
        flagged, order = self._flagged, self._flagged.order
        session = Session(self._ref.height, self._rules, self._network, {}, values, OutputValues(flagged), origins)
        taken = block.WatchedOutpoints()
        for portion in flagged.portions(order.positions):
            inputs = prevouts(transaction for _, _, transaction in portion)
            # registrations are only at watched outpoints, so that the store is queried for no others
            spent = {prevout for prevout in inputs if prevout in self._watched and prevout not in taken}
            taken.add(spent)
            session.registrations_by_outpoint |= registrations_at(registry, spent)
            for position, index, transaction in portion:
                session.is_spent_here = bool(order.is_parent[position])
                read_tx(session, index, transaction)
        return session

    def result(self, session: Session) -> ReadResult:
        """The facts of the block with their proofs. Raises BlockError when the block does not match its header."""
        block_proofs = BlockProofs({})
        if session.events:
            proved = _proved(session, self._flagged.numbered())
            block_proofs = proofs(self._ref, self._data, self._scan, self._rules, proved)
        return result_of(session, self._ref, *block_proofs)

    @cached_property
    def _flagged(self) -> _Flagged:
        return _Flagged(self._data, flag_candidates(self._data, self._scan, self._rules), self._rules)


class _Flagged:
    """The relevant transactions of a block, parsed from its bytes on each access: none stays in memory. `order` is that
    in which they are read."""

    def __init__(self, data: memoryview | bytes, candidates: block.TxCandidates, rules: CoinRules) -> None:
        self._data, self._candidates, self._rules = data, candidates, rules
        self.order = spend_order(self)

    def __iter__(self) -> Iterator[Transaction]:
        return (_read(self._data, candidate, self._rules) for candidate in self._candidates)

    def numbered(self) -> Iterator[tuple[int, Transaction]]:
        """Pairs of index in the block and transaction."""
        return ((candidate.tx_index, _read(self._data, candidate, self._rules)) for candidate in self._candidates)

    def portions(self, positions: Sequence[int]) -> Iterator[list[tuple[int, int, Transaction]]]:
        """Lists of (position, index in the block, transaction) for these positions, as many at once as fit in
        memory."""
        candidates = ((position, self._candidates[position]) for position in positions)
        for some in pieces(candidates, lambda pair: pair[1].size):
            yield [
                (position, candidate.tx_index, _read(self._data, candidate, self._rules))
                for position, candidate in some
            ]


class PartialBlockReader:
    """Reads all transactions of a partial block, as `BlockReader` does. The proofs of transactions with events are part
    of the facts."""

    is_silent = False

    def __init__(self, ref: BlockRef, partial: PartialBlock, rules: CoinRules, network: str) -> None:
        """Raises BlockError where witnesses carry envelopes and are not proved: the merkle path of a txid does not do
        that."""
        if rules.envelope == "witness" and not partial.witnessed:
            raise BlockError(f"block {ref.height:,}: only a whole block of {rules.coin} proves the witnesses in it")
        self._ref, self._rules, self._network = ref, rules, network
        self._transactions = _PartialTransactions(partial, rules)

    def session(self, registry: RegistrationLookup, values: Values, origins: Origins | None = None) -> Session:
        """Read the transactions in spend order."""
        transactions = self._transactions
        there = registrations_at(registry, prevouts(transactions))
        session = Session(
            self._ref.height, self._rules, self._network, there, values, OutputValues(transactions), origins
        )
        for position in spend_order(transactions).positions:
            read_tx(session, *transactions[position])
        return session

    def result(self, session: Session) -> ReadResult:
        """The facts of the block with their proofs."""
        proved = set(_proved(session, self._transactions.numbered()))
        return result_of(session, self._ref, self._transactions.proofs(proved))


class _PartialTransactions:
    """The transactions of a partial block in block order: parsed once up to BYTES_AT_ONCE bytes, the others on each
    access, so they do not stay in memory."""

    def __init__(self, partial: PartialBlock, rules: CoinRules) -> None:
        self._proven, self._rules = partial.transactions, rules
        self._positions = sorted({proven.tx_index: number for number, proven in enumerate(self._proven)}.items())
        self._parsed: dict[int, Transaction] = {}
        self._parsed_bytes = 0

    def __getitem__(self, position: int) -> tuple[int, Transaction]:
        """The index in the block and the transaction at a position."""
        index, number = self._positions[position]
        transaction = self._parsed.get(number)
        if transaction is None:
            raw = self._proven[number].raw
            transaction = tx.read(raw, segwit=self._rules.segwit)
            if self._parsed_bytes + len(raw) <= BYTES_AT_ONCE:
                self._parsed[number] = transaction
                self._parsed_bytes += len(raw)
        return index, transaction

    def __iter__(self) -> Iterator[Transaction]:
        return (transaction for _, transaction in self.numbered())

    def numbered(self) -> Iterator[tuple[int, Transaction]]:
        """Pairs of index in the block and transaction."""
        return (self[position] for position in range(len(self._positions)))

    def proofs(self, indexes: Collection[int]) -> Proofs:
        """The proofs of the transactions with these indexes, in block order."""
        pairs: SpilledPairs[bytes, Proof] = SpilledPairs()
        for position, (index, number) in enumerate(self._positions):
            if index in indexes:
                proven = self._proven[number]
                size = len(proven.raw) + len(proven.bump)
                pairs.append((self[position][1].txid, Proof(proven.raw, proven.bump)), size)
        return pairs.settled()


def _proved(session: Session, transactions: Iterable[tuple[int, Transaction]]) -> Iterator[int]:
    """The indexes of the transactions with stored proofs: those with events, and those with output values that
    determined where a satoshi moved. Both can be verified later."""
    yield from (event.tx_index for event in session.events)
    if session.parents:
        yield from (index for index, transaction in transactions if transaction.txid in session.parents)


def read_unconfirmed(
    transactions: Iterable[Transaction],
    rules: CoinRules,
    network: str,
    watched: block.WatchedOutpoints,
    registry: RegistrationLookup,
    before: Mapping[Outpoint, list[RegistrationState]],
    values: Values,
    origins: Origins | None = None,
) -> ReadResult:
    """Read transactions as if they were mined next: parents first, else in the order of their txids, independent of
    their arrival. `before` are registrations at outputs of earlier unconfirmed transactions. Heights are UNCONFIRMED,
    and every `tx_index` is 0."""
    by_txid = sorted(transactions, key=lambda transaction: transaction.txid)
    spent = {prevout for prevout in prevouts(by_txid) if prevout in watched}
    registrations_by_outpoint = registrations_at(registry, spent) | dict(before)
    session = Session(UNCONFIRMED, rules, network, registrations_by_outpoint, values, OutputValues(by_txid), origins)
    for position in spend_order(by_txid).positions:
        read_tx(session, 0, by_txid[position])
    return result_of(session, BlockRef("", UNCONFIRMED, b"", b"", 0, b""))


def flag_candidates(data: memoryview | bytes, scan: block.BlockScan, rules: CoinRules) -> block.TxCandidates:
    """The relevant transactions of a scanned block and their descendants in it, at any depth (law 3b): the inputs of
    all transactions are read where a relevant one has an output that can hold a registration."""
    flagged = scan.candidates
    if rules.envelope is None:
        return flagged

    def outpoints_of(candidate: block.TxCandidate) -> Iterator[Outpoint]:
        return holdable(_read(data, candidate, rules), rules)

    created = block.WatchedOutpoints(outpoint for candidate in flagged for outpoint in outpoints_of(candidate))
    if not len(created):
        return flagged
    index = block.spenders(data, scan.offsets, created, segwit=rules.segwit)
    return index.with_descendants(flagged, outpoints_of)


def _read(data: memoryview | bytes, candidate: block.TxCandidate, rules: CoinRules) -> Transaction:
    return tx.read(bytes(data[candidate.offset : candidate.offset + candidate.size]), segwit=rules.segwit)


def holdable(transaction: Transaction, rules: CoinRules) -> Iterator[Outpoint]:
    """The outpoints of a transaction that can hold a registration."""
    if rules.envelope is None:
        return
    for vout, output in enumerate(transaction.outputs):
        if output.satoshis == 1 or (rules.envelope == "witness" and output.satoshis > 0):
            yield transaction.outpoint(vout)
