"""Recompute a chain's events from the headers and proved transactions of a snapshot, as the follower reads blocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from indexer.chains import HeaderStore, PartialBlock, ProvenTransaction
from indexer.errors import SourceError
from indexer.headers.header_chain import HeaderChain
from indexer.headers.networks import Network, checkpoints, is_complete_from
from indexer.headers.proof_of_work import is_merge_mined
from indexer.headers.raw_tree import SIZE
from indexer.model import BlockFacts, BlockRef, Event, EventKind, Proof
from indexer.resolution.block_reader import PartialBlockReader
from indexer.resolution.registration_lookup import RegistrationLookup
from indexer.resolution.transaction_reader import ReadResult
from indexer.snapshot.codec import ChainHead, Headers, SnapshotError
from indexer.snapshot.proof_file import ProofFile, size_of
from indexer.spill import SpilledPairs
from indexer.store import Store
from parsers.bitcoin import bump, tx, witness_commitment
from parsers.bitcoin.bump import MerklePath
from parsers.bitcoin.tx import Outpoint
from parsers.bitcoin.witness_commitment import CoinbaseProof
from parsers.errors import ParseError

_NODES = 64
"""Bytes of two nodes of a merkle tree, which are not a transaction (CVE-2017-12842)."""

_SHORT = 150


class IncompleteSnapshotError(Exception):
    """A statement may be true, but the snapshot does not prove it; the message names the missing part."""


class VerifiedChain:
    """One chain of a snapshot: headers by the rules of a live source, every event recomputed from its transaction.

    `gap` is the reason why the import stops at some block: the file does not prove its events. Headers are still
    checked to the end, unless a header is not proved. `parents` are the txids of earlier transactions with used output
    values. Methods raise SnapshotError for false statements.
    """

    def __init__(self, head: ChainHead, network: Network, store: Store, rows: HeaderStore) -> None:
        self._head, self._network, self._store, self._rows = head, network, store, rows
        self._headers: HeaderChain | None = None
        self._registry = RegistrationLookup(store.registrations, head.name)
        self._block: ReplayedBlock | None = None
        self._next = head.first
        self._is_cut = False
        self.gap = ""
        self.parents: set[bytes] = set()

    @property
    def checked(self) -> str:
        """Which rules the headers were checked by, in words."""
        return self._headers.checked if self._headers is not None else "nothing"

    def add_headers(self, headers: Headers) -> None:
        """Check headers of the blocks before the chain's first."""
        joined = headers.raw
        raws = [joined[start : start + SIZE] for start in range(0, len(joined), SIZE)]
        newest = self._headers.newest() if self._headers is not None else None
        if (newest and newest.height + 1 != headers.first) or headers.first + len(raws) > self._head.first:
            raise SnapshotError(f"headers from {headers.first:,} on do not lead to block {self._head.first:,}")
        self._check(headers.first, raws)

    def begin(self, ref: BlockRef) -> None:
        """Check the header of the next block, which proofs and events follow."""
        if ref.height != self._next or ref.height > self._head.height:
            expected = f"block {self._next:,}" if self._next <= self._head.height else "no more"
            raise SnapshotError(f"block {ref.height:,} of {ref.chain} comes where {expected} is expected")
        self._next += 1
        self._check(ref.height, [ref.header])
        if self._headers is not None and not self._is_cut and self._headers.newest() != ref:
            raise SnapshotError(
                f"block {ref.height:,} ({ref.hash[::-1].hex()}) is not what its header says, "
                f"or does not continue the chain {ref.chain}"
            )
        is_late = not is_complete_from(self._network.caip2, self._head.first)
        block = ReplayedBlock(ref, self._network, self._registry, self._store, is_late=is_late)
        self._block = None if self.gap else block

    def _check(self, first: int, raws: list[bytes]) -> None:
        if self._is_cut:
            return
        try:
            self._refuse_unproved(first, raws)
            if self._headers is not None:
                self._headers.add(raws)
            else:
                self._start(first, raws)
        except IncompleteSnapshotError as error:
            self.gap, self._is_cut = self.gap or str(error), True
        except SourceError as error:
            raise SnapshotError(str(error)) from None

    def _refuse_unproved(self, first: int, raws: list[bytes]) -> None:
        """Raise IncompleteSnapshotError for merge-mined headers: the work of the other chain is not stored."""
        buried = max((point.height for point in checkpoints(self._network)), default=-1)
        for height, raw in enumerate(raws, first):
            if self._network.coin == "doge" and height > buried and is_merge_mined(raw):
                raise IncompleteSnapshotError(
                    f"the merge-mined proof of work (AuxPoW) of block {height:,} is not in the file"
                )

    def _start(self, first: int, raws: list[bytes]) -> None:
        """Start the chain of headers where the file has genesis or a checkpoint."""
        network, last = self._network, self._head.height
        points = [point.height for point in checkpoints(network)] or [0]
        if not any(first <= point <= last for point in points):
            raise IncompleteSnapshotError(
                f"its headers, from {first:,} to {last:,}, hold neither genesis nor a packaged checkpoint of {network}"
            )
        if first == 0 and raws and tx.sha256d(raws[0])[::-1].hex() != network.genesis:
            raise SnapshotError(f"its first block is not the genesis block of {network}, {network.genesis}")
        chain = HeaderChain(self._head.name, network, self._rows)
        chain.begin(first, raws)
        self._headers = chain

    def add_coinbase(self, coinbase: CoinbaseProof) -> None:
        """Add the coinbase that commits to the witnesses of the block."""
        if self._block is not None:
            self._block.coinbase = coinbase

    def add_proof(self, txid: bytes, proof: Proof) -> None:
        """Verify a transaction (txid in internal byte order) of the block against its header."""
        if self._block is not None:
            self._block.add_proof(txid, proof)

    def add_event(self, event: Event) -> None:
        """Compare an event with the one recomputed from its transaction."""
        try:
            if self._block is not None:
                self._block.compare(event)
        except IncompleteSnapshotError as error:
            self.gap, self._block = str(error), None

    def end(self) -> BlockFacts | None:
        """The facts of the block, None from the gap on."""
        if self._block is None:
            return None
        reading = self._block.reading()
        self.parents |= self._block.parents
        self._block = None
        self._registry.take(reading.events)
        return reading

    def stored(self) -> None:
        """All facts so far are in the store."""
        self._registry.clear()

    def finish(self) -> None:
        """Check that the headers are of the network and end in the block that the file names, and store them."""
        if self._headers is None:
            return
        newest = self._headers.newest()
        ends = self._is_cut or (newest is not None and newest.hash[::-1].hex() == self._head.hash)
        if not ends or not self._headers.anchored:
            raise SnapshotError(
                f"{self._head.name}: its headers do not lead to the block that the first line names: {self._head.hash}"
            )
        self._headers.save()


class ReplayedBlock:
    """One block: its transactions, read once all are present, and their events in the file. `is_late`: reading began
    above the height at which A2B can begin, so the file may lack the past of some satoshis."""

    def __init__(
        self, ref: BlockRef, network: Network, registry: RegistrationLookup, store: Store, *, is_late: bool = False
    ) -> None:
        self._ref, self._network, self._registry, self._store = ref, network, registry, store
        self._is_late = is_late
        self.parents: set[bytes] = set()
        self.coinbase: CoinbaseProof | None = None
        self._proofs = ProofFile()
        self._positions: list[tuple[int, bytes]] = []
        self._read: ReadResult | None = None
        self._left: dict[bytes, deque[Event]] = {}
        self._events: list[Event] = []

    def add_proof(self, txid: bytes, proof: Proof) -> None:
        """Add a transaction. Raises SnapshotError unless its merkle path ends at the header."""
        named = f"the proof of {txid[::-1].hex()} in block {self._ref.height:,}"
        try:
            transaction = tx.read_exactly(proof.raw, segwit=self._network.rules.segwit)
            path = bump.read(proof.bump)
            root = path.root(txid)
        except ParseError as error:
            raise SnapshotError(f"{named} does not hold: {error}") from None
        if transaction.txid != txid or len(proof.raw) == _NODES:
            raise SnapshotError(f"{named} holds another transaction, {transaction.hex_id}")
        if (path.height, root) != (self._ref.height, self._ref.header[36:68]):
            raise SnapshotError(
                f"{named} leads to {root[::-1].hex()} at height {path.height:,}, not to the block's header"
            )
        self._check_witness(txid, proof, path)
        index = next(leaf.offset for leaf in path.levels[0] if leaf.hash == txid)
        self._proofs.add(txid, proof)
        self._positions.append((index, txid))

    def _check_witness(self, txid: bytes, proof: Proof, path: MerklePath) -> None:
        """Verify the witness, which the txid does not cover, against the coinbase (law 16)."""
        named = f"the witness of {txid[::-1].hex()} in block {self._ref.height:,}"
        if self.coinbase is None:
            if proof.witness is not None:
                raise SnapshotError(f"{named} has a merkle path, and no coinbase that commits to it")
            return
        try:
            witness_commitment.verify(proof.raw, path, self.coinbase, proof.witness)
        except ParseError as error:
            raise SnapshotError(f"{named} is not proved: {error}") from None

    def compare(self, event: Event) -> None:
        """Add an event that equals the one recomputed from its transaction. Raises SnapshotError where it differs,
        IncompleteSnapshotError where that cannot be known."""
        named = f"{event.kind} in {event.txid[::-1].hex()}, block {self._ref.height:,}"
        if event.txid not in self._proofs:
            raise IncompleteSnapshotError(f"the transaction of {named} is not in the file")
        if self._network.rules.envelope == "witness" and self.coinbase is None:
            raise IncompleteSnapshotError(f"the coinbase that commits to the witness of {named} is not in the file")
        replayed = self._next(event)
        if replayed != event:
            missing = ", ".join(map(str, sorted(self._replay().missing_values)[:3]))
            if missing or event.kind is EventKind.UNDECIDED:
                raise IncompleteSnapshotError(
                    f"where {named} leads depends on values that the file does not prove: {missing}"
                )
            if self._is_late:
                raise IncompleteSnapshotError(f"{named} depends on blocks before those that were read")
            raise SnapshotError(f"{named}: {_difference(event, replayed)}")
        if self._events and self._network.coin != "bch" and event.tx_index < self._events[-1].tx_index:
            raise SnapshotError(f"{named} is out of order: transactions of a block follow their parents")
        self._events.append(replayed)

    def _next(self, event: Event) -> Event | None:
        """The next event recomputed from the transaction, at the position of `event`. Near misses may be left out: only
        the newest are stored (law 7), and so the positions of others need not begin at 0."""
        self._replay()
        left = self._left.get(event.txid, deque())
        while left:
            replayed = replace(left.popleft(), position=event.position)
            if replayed == event or not _may_be_left_out(replayed):
                return replayed
        return None

    def _replay(self) -> ReadResult:
        """Read the transactions, as a block without any others."""
        if self._read is None:
            transactions = _BlockTransactions(self._proofs, sorted(self._positions))
            partial = PartialBlock(transactions, witnessed=self.coinbase is not None)
            try:
                self._read = self._with_values(partial)
            except ParseError as error:
                raise SnapshotError(str(error)) from None
            for event in self._read.reading.events:
                self._left.setdefault(event.txid, deque()).append(event)
        return self._read

    def _with_values(self, partial: PartialBlock) -> ReadResult:
        """Read a partial block, with the values of outputs that it needs from their transactions."""
        reader = PartialBlockReader(self._ref, partial, self._network.rules, self._network.kind)
        values, count_before = dict[Outpoint, int](), -1
        while len(values) > count_before:
            count_before = len(values)
            session = reader.session(self._registry, values, {} if self._is_late else None)
            values |= self._values(session.missing_values)
        return reader.result(session)

    def _values(self, requested: Iterable[Outpoint]) -> dict[Outpoint, int]:
        outpoints_by_txid: dict[bytes, list[Outpoint]] = {}
        for outpoint in requested:
            outpoints_by_txid.setdefault(outpoint.txid, []).append(outpoint)
        values: dict[Outpoint, int] = {}
        for txid, outpoints in outpoints_by_txid.items():  # one by one: each parent may have 16 MiB
            raws = self._store.content.parents({txid})
            self.parents |= raws.keys()
            outputs = {parent: tx.read(raw, segwit=True).outputs for parent, raw in raws.items()}
            values |= tx.values_of(outpoints, outputs)
        return values

    def reading(self) -> BlockFacts:
        """All facts of the block. Raises SnapshotError where its transactions have events that the file omits."""
        if not self._positions:
            return BlockFacts(self._ref, (), {})
        read = self._replay()
        for left in self._left.values():
            for event in left:
                if not _may_be_left_out(event):
                    raise SnapshotError(
                        f"{event.kind} in {event.txid[::-1].hex()}, block {self._ref.height:,}, is left out"
                    )
        proofs: SpilledPairs[bytes, Proof] = SpilledPairs()
        for pair in read.reading.proofs.items():
            proof = self._proofs.get(pair[0])  # with its witness
            proofs.append((pair[0], proof), size_of(proof))
        return BlockFacts(self._ref, tuple(self._events), read.reading.cards, proofs.settled(), self.coinbase)


class _BlockTransactions(Sequence[ProvenTransaction]):
    """The transactions of a block in its order; each access reads the proofs."""

    def __init__(self, proofs: ProofFile, positions: Sequence[tuple[int, bytes]]) -> None:
        self._proofs, self._positions = proofs, positions

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, position: int) -> ProvenTransaction:  # type: ignore[override]  # nothing takes slices
        index, txid = self._positions[position]
        proof = self._proofs.get(txid)
        return ProvenTransaction(index, proof.raw, proof.bump)


def _may_be_left_out(event: Event) -> bool:
    return event.kind is EventKind.REJECTED


def _difference(event: Event, replayed: Event | None) -> str:
    """The first member that differs, for people."""
    if replayed is None:
        return "its transaction does not make this event"
    pairs: list[tuple[Any, Any]] = [(event, replayed)]
    if event.state is not None and replayed.state is not None:
        pairs.insert(0, (event.state, replayed.state))
    members = (
        (name, getattr(left, name), getattr(right, name)) for left, right in pairs for name in type(left).__slots__
    )
    name, stored, actual = next(member for member in members if member[1] != member[2])
    return f"{name} is {_shown(stored)}, and {_shown(actual)} by its transaction"


def _shown(value: object) -> str:
    return ascii((value.hex() if isinstance(value, bytes) else str(value))[:_SHORT])
