"""Fill an empty database from a snapshot, by replaying its transactions or on trust; all or nothing."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar

from indexer.headers.networks import by_caip2, mined
from indexer.model import EVM, RULES, BlockFacts, BlockRef, Event, Proof
from indexer.snapshot.codec import (
    PROOF,
    ChainHead,
    Counts,
    Headers,
    SnapshotError,
    parse,
    pointers_line,
)  # fmt: skip
from indexer.snapshot.replay import VerifiedChain
from indexer.snapshot.trusted import TrustedChain
from indexer.state_hash import update_state_hash
from indexer.store import Store, Writer, block_writer, chain_marks, contents, second_readings
from indexer.store.imports import begin_import, empty, finish_import
from indexer.store.source_store import SourceStore
from indexer.store.state_hashes import StateHash
from parsers.bitcoin import tx
from parsers.bitcoin.witness_commitment import CoinbaseProof
from parsers.cards.strict_json import MAX_BYTES
from parsers.errors import ParseError

log = logging.getLogger(__name__)

BATCH_LINES, BATCH_BYTES = 500, 8 << 20
"""Lines and bytes held in memory before they are stored: a block's events always together."""

MAX_BLOCK_BYTES = 1 << 30
"""Bytes of one block's lines without its proofs, which are not held in memory: a million events."""

Progress = Callable[[int, int], None]
"""Called with blocks done, of how many; the latter is 0 while it is unknown."""


@dataclass(frozen=True, slots=True)
class ChainReport:
    """The imported part of a chain: its blocks up to `height` (None: none) of `newest`; in words how their headers were
    `checked`, and why no further (`gap`). `state_hash` is that at `height`, compared with the file's unless there is a
    gap."""

    name: str
    caip2: str
    height: int | None
    newest: int
    checked: str
    gap: str
    state_hash: str | None


@dataclass(frozen=True, slots=True)
class Report:
    """The numbers of imported records, and the chains that they are of."""

    blocks: int
    events: int
    proofs: int
    chains: tuple[ChainReport, ...]


_ImportedChain = VerifiedChain | TrustedChain


def import_snapshot(
    source: Iterable[bytes],
    store: Store,
    writer: Writer,
    progress: Progress = lambda _done, _all: None,
    *,
    trust: bool = False,
) -> Report:
    """Fill an empty database from a snapshot's lines; all or nothing, also when interrupted.

    Headers are checked by the rules of a live source, from genesis or to a packaged checkpoint. Every event is
    recomputed from its transaction, and a merkle path proves the transaction by its header. Finally the state hashes
    are compared. A chain ends before the first block that the file does not prove. With `trust` only the state hashes
    are compared, and chains without proofs are imported, too.

    `writer` proves that no other process writes. Raises SnapshotError naming what is not true, StoreError when the
    database is not empty or refuses.
    """
    if trust:
        log.warning("this snapshot is imported on trust: nothing in it is verified but the state hashes")
    begin_import(store.engine)
    try:
        report = _Import(store, writer, progress, trust=trust).run(source)
    except BaseException:
        empty(store.engine)
        raise
    finish_import(store.engine)
    for chain in report.chains:
        if chain.gap:
            part = "not imported" if chain.height is None else f"imported up to block {chain.height:,}"
            log.warning("%s is %s, as the file proves no more: %s", chain.name, part, chain.gap)
    return report


class _Import:
    """One import: lines in, batches of checked blocks out."""

    def __init__(self, store: Store, writer: Writer, progress: Progress, *, trust: bool) -> None:
        self._store, self._writer, self._progress, self._trust = store, writer, progress, trust
        self._heads: dict[str, ChainHead] = {}
        self._chains: dict[str, _ImportedChain | None] = {}
        self._seen: Counter[str] = Counter()
        self._imported: Counter[str] = Counter()
        self._cards: list[bytes] = []
        self._parents: dict[bytes, bytes] = {}
        self._last_card = self._last_parent = b""
        self._block: BlockRef | None = None
        self._last_position = -1
        self._last_txid: bytes | None = None
        self._block_facts: list[BlockFacts] = []
        self._batch_bytes = self._block_bytes = 0
        self._ended = False

    def run(self, source: Iterable[bytes]) -> Report:
        for number, line in enumerate(source, 1):
            self._batch_bytes += len(line)
            self._block_bytes += 0 if line.startswith(PROOF) else len(line)
            try:
                key, value = parse(line)
                if self._ended or (key == "chains") != (number == 1):
                    raise SnapshotError("the chains come first, and the end last")
                self._HANDLERS[key](self, value)
                self._seen[key] += 1
            except SnapshotError as error:
                raise SnapshotError(f"line {number:,}: {error}") from None
        if not self._ended:
            raise SnapshotError("the file is cut off: its last line is missing")
        reports = tuple(self._finish(head) for head in self._heads.values())
        if reports and all(report.height is None for report in reports):
            gaps = "; ".join(f"{report.name}: {report.gap}" for report in reports)
            raise SnapshotError(f"nothing in the file can be verified: {gaps}")
        if not self._trust:
            used = {txid for chain in self._chains.values() if chain is not None for txid in chain.parents}
            contents.delete_other_parents(self._writer, used)
        return Report(self._imported["block"], self._imported["event"], self._imported["proof"], reports)

    # -- lines

    def _open(self, heads: tuple[ChainHead, ...]) -> None:
        for head in heads:
            if head.height < head.first or head.name in self._heads:
                raise SnapshotError(f"{head.name} is listed twice, or ends before it begins")
            network = by_caip2(head.caip2)
            other = next((other.name for other in self._heads.values() if other.caip2 == head.caip2), None)
            if other is not None and network is not None and network.kind != "regtest":
                raise SnapshotError(f"{other} and {head.name} are both {head.caip2}, and a network has one name")
            self._heads[head.name] = head
            self._check_rules(head)
            if self._trust:
                self._chains[head.name] = TrustedChain(head)
            else:
                rows = SourceStore(self._writer)
                self._chains[head.name] = VerifiedChain(head, network, self._store, rows) if network else None

    def _check_rules(self, head: ChainHead) -> None:
        """Refuse blocks that were read by other rules, but older ones on trust."""
        named = f"{head.name} was read by rules {head.rules} of the registry, and this program has rules {RULES}"
        if head.rules > RULES:
            raise SnapshotError(f"{named}: import it with a newer version")
        if head.rules < RULES and not self._trust:
            raise SnapshotError(
                f"{named}: export it again after `a2b index --again {head.name}`, or import it with --trust, which "
                "leaves it without a state hash"
            )

    def _card(self, body: bytes) -> None:
        digest = sha256(body).digest()
        if len(body) > MAX_BYTES:
            raise SnapshotError(f"a card has {len(body):,} bytes, more than {MAX_BYTES:,}")
        if self._block is not None or digest <= self._last_card:
            raise SnapshotError(f"the card {digest.hex()} is out of order: cards come first, sorted by SHA-256")
        self._last_card = digest
        if self._trust:
            # else each is read from its transaction
            self._cards.append(body)
        if self._is_full(len(self._cards)):
            self._flush()

    def _parent(self, raw: bytes) -> None:
        try:
            txid = tx.read_exactly(raw, segwit=True).txid
        except ParseError as error:
            raise SnapshotError(f"a parent is not a transaction: {error}") from None
        if self._block is not None or txid <= self._last_parent:
            raise SnapshotError(f"the parent {txid[::-1].hex()} is out of order: parents follow cards, sorted by txid")
        self._last_parent = txid
        self._parents[txid] = raw
        if self._is_full(len(self._parents)):
            self._flush()

    def _headers(self, headers: Headers) -> None:
        self._end_block()
        if (chain := self._chain_of(headers.chain)) is not None:
            chain.add_headers(headers)

    def _begin_block(self, ref: BlockRef) -> None:
        self._end_block()
        if self._cards or self._parents:
            self._flush()
        chain = self._chain_of(ref.chain)
        if chain is not None:
            chain.begin(ref)
        self._block, self._block_bytes = ref, 0
        self._last_position, self._last_txid = -1, None

    def _chain_of(self, name: str) -> _ImportedChain | None:
        if name not in self._chains:
            raise SnapshotError(f"the first line does not name the chain {name}")
        return self._chains[name]

    def _coinbase(self, coinbase: CoinbaseProof) -> None:
        chain = self._current_chain()
        if self._last_txid is not None or self._last_position >= 0:
            raise SnapshotError("a coinbase follows its block, before proofs and events")
        self._last_txid = b""
        if chain is not None:
            chain.add_coinbase(coinbase)

    def _proof(self, txid_and_proof: tuple[bytes, Proof]) -> None:
        chain, (txid, proof) = self._current_chain(), txid_and_proof
        if txid <= (self._last_txid or b"") or self._last_position >= 0:
            raise SnapshotError(
                f"the proof of {txid[::-1].hex()} is out of order: proofs are sorted by txid, before events"
            )
        self._last_txid = txid
        if chain is not None:
            chain.add_proof(txid, proof)

    def _event(self, event: Event) -> None:
        chain = self._current_chain()
        if event.position <= self._last_position:
            raise SnapshotError(f"event {event.position} follows event {self._last_position} of its block")
        self._last_position = event.position
        if chain is not None:
            chain.add_event(event)

    def _current_chain(self) -> _ImportedChain | None:
        if self._block is None:
            raise SnapshotError("proofs and events follow a block line, and none precedes them")
        if self._block_bytes > MAX_BLOCK_BYTES:
            raise SnapshotError(f"the lines of one block have more than {MAX_BLOCK_BYTES:,} bytes")
        return self._chains[self._block.chain]

    def _end(self, expected: Counts) -> None:
        self._end_block()
        self._flush()
        for name in Counts.__struct_fields__:
            if getattr(expected, name) != self._seen[name.removesuffix("s")]:
                raise SnapshotError(
                    f"there are {self._seen[name.removesuffix('s')]:,} {name}, not those of the last line"
                )
        self._ended = True

    _HANDLERS: ClassVar[dict[str, Callable[[_Import, Any], None]]] = {
        "chains": _open, "card": _card, "parent": _parent, "headers": _headers, "block": _begin_block,
        "coinbase": _coinbase, "proof": _proof, "event": _event, "end": _end,
    }  # fmt: skip

    # -- storing

    def _end_block(self) -> None:
        """Add the facts of the block that ends here to the batch, and store that when it is large enough."""
        chain = self._chains[self._block.chain] if self._block is not None else None
        facts = chain.end() if chain is not None else None
        self._block = None
        if facts is None:
            return
        if self._block_facts and self._block_facts[0].ref.chain != facts.ref.chain:
            self._flush()
        self._block_facts.append(facts)
        if self._is_full(len(self._block_facts) + sum(len(facts.events) for facts in self._block_facts)):
            self._flush()

    def _is_full(self, lines: int) -> bool:
        return lines >= BATCH_LINES or self._batch_bytes >= BATCH_BYTES

    def _flush(self) -> None:
        contents.store_cards(self._writer, self._cards)
        contents.store_parents(self._writer, self._parents)
        if self._block_facts:
            self._append(self._block_facts)
        self._cards, self._parents, self._block_facts, self._batch_bytes = [], {}, [], 0
        self._progress(self._seen["block"], sum(head.height - head.first + 1 for head in self._heads.values()))

    def _append(self, block_facts: list[BlockFacts]) -> None:
        head = self._heads[block_facts[0].ref.chain]
        chain_marks.name_chain(self._writer, head.name, head.caip2)
        if head.partial:
            chain_marks.mark_partial(self._writer, head.name)
        try:
            block_writer.append(self._writer, head.name, block_facts, sparse=not mined(head.caip2), rules=head.rules)
        except ValueError as error:
            raise SnapshotError(str(error)) from None
        if (chain := self._chains[head.name]) is not None:
            chain.stored()
        self._imported["block"] += len(block_facts)
        self._imported["event"] += sum(len(facts.events) for facts in block_facts)
        self._imported["proof"] += sum(len(facts.proofs) for facts in block_facts)

    # -- at the end

    def _finish(self, head: ChainHead) -> ChainReport:
        chain = self._chains[head.name]
        if chain is None:
            gap = f"{head.caip2} has no proof of work: its blocks rest on the word of an endpoint"
            return ChainReport(head.name, head.caip2, None, head.height, "", gap, None)
        chain.finish()
        newest = self._store.blocks.newest(head.name)
        if head.caip2.startswith(EVM):  # imported on trust: as those were that the file is of
            second_readings.begin(self._writer, head.name)
            second_readings.advance(self._writer, head.name, head.height)
        stored = update_state_hash(self._store, self._writer, head.name)
        digest = stored.digest if stored is not None else None
        if not chain.gap:
            self._compare(head, newest, stored)
        height = newest.height if newest is not None else None
        return ChainReport(head.name, head.caip2, height, head.height, chain.checked, chain.gap, digest)

    @staticmethod
    def _compare(head: ChainHead, newest: BlockRef | None, stored: StateHash | None) -> None:
        if newest is None or (newest.height, newest.hash[::-1].hex()) != (head.height, head.hash):
            raise SnapshotError(f"{head.name} does not end in the block that the first line names: {head.hash}")
        digest, pointers = (stored.digest, pointers_line(stored.pointers)) if stored is not None else (None, None)
        if head.rules == RULES and digest != head.state_hash:
            raise SnapshotError(
                f"{head.name}: the state hash at block {head.height:,} is {digest}, and the file says {head.state_hash}"
            )
        if head.rules == RULES and head.pointers is not None and pointers != head.pointers:
            raise SnapshotError(
                f"{head.name}: the hash over pointers at block {head.height:,} is {pointers}, "
                f"and the file says {head.pointers}"
            )
