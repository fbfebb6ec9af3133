"""The stored proof of a listing, for a client that trusts no server: every transaction of its satoshi from the
registration to its current location, each with merkle path and block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from indexer.headers.networks import by_caip2, mined
from indexer.model import RegistrationState, Status
from indexer.resolution.pointer_service import is_outpoint, pointer_listing
from indexer.store import Revision, Store
from indexer.store.proofs import Proved
from parsers.bitcoin import beef, bump, tx
from parsers.bitcoin.tx import Outpoint
from parsers.errors import ParseError

MAX_RAW = 16 << 20
"""Bytes of transactions in a proof, at most: a card has at most 1 MiB, but its transaction may have any size."""

MAX_LINEAGE = 1_000
"""Transactions of the satoshi in a proof, at most."""


class NoProofError(Exception):
    """There is no proof; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Located:
    """An outpoint (None for a burned satoshi), the transaction that created it with its proof, and both as BEEF
    (BRC-62, version 1). The BEEF holds the transaction without its witness, which the format does not support."""

    outpoint: Outpoint | None
    proved: Proved
    beef: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProof:
    """The proof of a listing. `winner` is the outpoint of its winning revision, `current` the satoshi's current
    location, None when that is the same outpoint or is not proved here.

    `before` holds the transactions from the registration to the one before the winner, `after` the later moves of the
    satoshi, oldest first; both None where they are not stored or too many. `parents` are stored transactions with
    outputs that these spend in inputs before the satoshi's: their values determine its position. They need no merkle
    path: the transaction that spends them has one, and commits to their txids.
    """

    chain: str
    caip2: str
    winner: Located
    current: Located | None = None
    before: tuple[Proved, ...] | None = None
    after: tuple[Proved, ...] | None = None
    parents: tuple[bytes, ...] = ()


def proof(store: Store, registration: str) -> StoredProof:
    """The proof of a registration's winning revision, or of the pointer that lists a card. Raises NoProofError, also
    for an id without a revision."""
    history = store.history.of(registration)
    if not history:
        return _of_pointer(store, registration)
    chain = history[0].chain
    history = [past for past in history if past.chain == chain]
    state = history[-1].event.state
    if state is None:
        raise NoProofError("it is not a registration")
    sizes = store.proofs.sizes(chain, {state.winner.txid, *(past.event.txid for past in history)})
    return _with_lineage(_bare(store, chain, state.winner, sizes), store, history, state, sizes)


def _of_pointer(store: Store, id_: str) -> StoredProof:
    """The proof of the pointer that lists a card; the card itself is in no block."""
    pointers = None if is_outpoint(id_) else pointer_listing(store, id_)
    anchor = pointers.resolution.anchor if pointers is not None and pointers.resolution is not None else None
    if anchor is None:
        raise NoProofError("no block holds it yet")
    if anchor.outpoint is None:
        raise NoProofError("the pointer that lists it is in no output")
    sizes = store.proofs.sizes(anchor.chain, [anchor.outpoint.txid])
    return _bare(store, anchor.chain, anchor.outpoint, sizes)


def _bare(store: Store, chain: str, outpoint: Outpoint, sizes: Mapping[bytes, int]) -> StoredProof:
    """The proof of one revision, without the other transactions of its satoshi; `sizes` are those of transactions that
    are stored."""
    caip2 = store.chains().get(chain, chain)
    size = sizes.get(outpoint.txid, 0)
    if size > MAX_RAW:
        raise NoProofError(f"its transaction has {size:,} bytes, and a proof holds at most {MAX_RAW:,}")
    proved = store.proofs.get(chain, outpoint.txid)
    if proved is None and not mined(caip2):
        raise NoProofError("its chain is read from a trusted endpoint and has no proof of work")
    if proved is None:
        raise NoProofError(
            "no proof is stored: its transaction has more than 16 MiB, or its block is below the first indexed one, or "
            "was indexed before proofs were stored; in that case, index the chain again"
        )
    return StoredProof(chain=chain, caip2=caip2, winner=_located(outpoint, proved, caip2))


def _with_lineage(
    partial: StoredProof,
    store: Store,
    history: Sequence[Revision],
    state: RegistrationState,
    stored: Mapping[bytes, int],
) -> StoredProof:
    """Add the satoshi's current location and the other transactions of the history, where they are stored."""
    txids = list(dict.fromkeys(past.event.txid for past in history))
    winner, last = partial.winner.proved.txid, txids[-1]
    sizes = {txid: stored[txid] for txid in txids if txid in stored}
    is_small = winner in sizes and last in sizes and sizes[winner] + sizes[last] <= MAX_RAW
    if last != winner and is_small and state.status is not Status.UNDECIDED:
        moved = store.proofs.get(partial.chain, last)
        current = None if moved is None else _located(state.outpoint, moved, partial.caip2)
        partial = partial if current is None else replace(partial, current=current)
    # else it was registered before the first block indexed
    begins = str(history[0].event.outpoint) == state.id.partition("#")[0]
    if not begins or len(txids) > MAX_LINEAGE or sizes.keys() != set(txids) or sum(sizes.values()) > MAX_RAW:
        return partial
    others = [txid for txid in txids if txid != winner]
    way = {winner: partial.winner.proved} | (store.proofs.get_many(partial.chain, others) if others else {})
    if way.keys() != set(txids):
        return partial  # a reorg happened between the two queries
    number, ordered = txids.index(winner), [way[txid] for txid in txids]
    parents = _parents(partial, store, ordered, MAX_RAW - sum(sizes.values()))
    return replace(partial, before=tuple(ordered[:number]), after=tuple(ordered[number + 1 :]), parents=parents)


def _parents(partial: StoredProof, store: Store, way: Sequence[Proved], room: int) -> tuple[bytes, ...]:
    """The stored transactions with outputs that are spent beside the satoshi: their values determine where it moves."""
    network = by_caip2(partial.caip2)
    segwit = network is not None and network.rules.segwit
    txids = {hop.txid for hop in way}
    parent_txids: set[bytes] = set()
    for hop in way[1:]:
        spent = [spending.prevout.txid for spending in tx.read(hop.proof.raw, segwit=segwit).inputs]
        ours = max((number for number, txid in enumerate(spent) if txid in txids), default=0)
        parent_txids |= set(spent[:ours]) - txids
    # which satoshi an envelope in a witness inscribes depends on the inputs of its transaction (law 3a)
    revealed = tx.read(way[0].proof.raw, segwit=True).inputs if segwit else ()
    inscribed = {spending.prevout.txid for spending in revealed if len(revealed) > 1} - txids
    some = sorted(parent_txids | inscribed)[:MAX_LINEAGE]
    if not some:
        return ()
    sizes = store.proofs.sizes(partial.chain, some)
    looked_up = store.content.parent_sizes(inscribed.intersection(some) - sizes.keys())
    if sum(sizes.values()) + sum(looked_up.values()) > room:
        return ()
    proved = store.proofs.get_many(partial.chain, sizes).values()
    return (*(parent.proof.raw for parent in proved), *store.content.parents(looked_up).values())


def _located(outpoint: Outpoint | None, proved: Proved, caip2: str) -> Located:
    return Located(outpoint, proved, _beef(proved.proof.raw, proved.proof.bump, caip2))


def _beef(raw: bytes, path: bytes, caip2: str) -> bytes:
    network = by_caip2(caip2)
    if network is not None and network.rules.segwit:
        parsed = tx.read(raw, segwit=True)
        raw = tx.serialise(parsed.inputs, parsed.outputs, parsed.version, parsed.locktime)
    try:
        return beef.write([(raw, bump.read(path))])
    except ParseError as error:
        raise NoProofError(f"the stored proof is not valid: {error}") from error
