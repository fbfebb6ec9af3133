"""What proves a listing to a client that trusts no server: every transaction of its satoshi from the registration to
where it is now, each with its merkle path and block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from indexer.facts import State, Status
from indexer.networks import by_caip2, mined
from indexer.pointing import is_outpoint, pointing
from indexer.store import Revision, Store, proofs
from indexer.store.proofs import Proved
from parsers import beef, bump, tx
from parsers.errors import ParseError
from parsers.tx import Outpoint

MAX_RAW = 16 << 20
"""Bytes of transactions that a proof holds at most: a card is at most 1 MiB, and a stranger's transaction any size."""

MAX_LINEAGE = 1_000
"""Transactions between a registration and where it is now that a proof holds at most."""


class NoProofError(Exception):
    """There is no proof to give: the message says why."""


@dataclass(frozen=True, slots=True)
class Located:
    """An outpoint (None for a burned satoshi), the transaction that made it with its proof, and both as BEEF (BRC-62,
    version 1). The BEEF holds the transaction without its witness, as no reader of BEEF knows witnesses."""

    outpoint: Outpoint | None
    proved: Proved
    beef: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The proof of a listing. `winner` is the outpoint of its winning revision, `current` where its satoshi is now,
    None when that is the same place or is not proved here.

    `before` holds the transactions from the registration to the one before the winner, `after` those that moved the
    satoshi since, oldest first; both None where they are not kept or too many. `parents` are kept transactions of which
    these spend outputs before the satoshi's: their values say where it went. They need no merkle path: the transaction
    that spends them, which has one, commits to their txids.
    """

    chain: str
    caip2: str
    winner: Located
    current: Located | None = None
    before: tuple[Proved, ...] | None = None
    after: tuple[Proved, ...] | None = None
    parents: tuple[bytes, ...] = ()


def evidence(store: Store, registration: str) -> Evidence:
    """The proof of a registration's winning revision, or of the pointer that lists a card. Raises NoProofError; nobody
    knows the id when the chain holds no revision of it."""
    history = store.history(registration)
    if not history:
        return _of_pointer(store, registration)
    chain = history[0].chain
    history = [past for past in history if past.chain == chain]
    state = history[-1].event.state
    if state is None:
        raise NoProofError("it is not a registration")
    return _with_lineage(_bare(store, chain, state.winner), store, history, state)


def _of_pointer(store: Store, id_: str) -> Evidence:
    """The proof of the pointer that lists a card: what was fetched stands in no block."""
    found = None if is_outpoint(id_) else pointing(store, id_)
    anchor = found.standing.anchor if found is not None and found.standing is not None else None
    if anchor is None:
        raise NoProofError("no block holds it yet")
    if anchor.outpoint is None:
        raise NoProofError("the pointer that lists it stands in no output")
    return _bare(store, anchor.chain, anchor.outpoint)


def _bare(store: Store, chain: str, outpoint: Outpoint) -> Evidence:
    """The proof of what an outpoint says, alone."""
    caip2 = store.chains().get(chain, chain)
    size = proofs.sizes(store.engine, chain, [outpoint.txid]).get(outpoint.txid, 0)
    if size > MAX_RAW:
        raise NoProofError(f"its transaction has {size:,} bytes, and at most {MAX_RAW:,} are handed out")
    found = proofs.proof(store.engine, chain, outpoint.txid)
    if found is None and not mined(caip2):
        raise NoProofError("what it says is believed: its chain is told by an endpoint, without proof of work")
    if found is None:
        raise NoProofError(
            "no proof is kept: its transaction has more than 16 MiB, or its block is below the first one indexed, or "
            "was read before proofs were kept; then index the chain again to have them"
        )
    return Evidence(chain=chain, caip2=caip2, winner=_located(outpoint, found, caip2))


def _with_lineage(partial: Evidence, store: Store, history: Sequence[Revision], state: State) -> Evidence:
    """The same with where the satoshi is now, and with the other transactions of the history, as far as they are
    kept."""
    txids = list(dict.fromkeys(past.event.txid for past in history))
    winner, last = partial.winner.proved.txid, txids[-1]
    sizes = proofs.sizes(store.engine, partial.chain, txids)
    is_small = winner in sizes and last in sizes and sizes[winner] + sizes[last] <= MAX_RAW
    if last != winner and is_small and state.status is not Status.UNDECIDED:
        partial = _with_current(partial, store, last, state.outpoint)
    begins = str(history[0].event.outpoint) == state.id  # else it was registered before the first block indexed
    if not begins or len(txids) > MAX_LINEAGE or sizes.keys() != set(txids) or sum(sizes.values()) > MAX_RAW:
        return partial
    way = proofs.several(store.engine, partial.chain, txids)
    if way.keys() != set(txids):
        return partial  # a reorg came between the two questions
    number, ordered = txids.index(winner), [way[txid] for txid in txids]
    parents = _parents(partial, store, ordered, MAX_RAW - sum(sizes.values()))
    return replace(partial, before=tuple(ordered[:number]), after=tuple(ordered[number + 1 :]), parents=parents)


def _with_current(partial: Evidence, store: Store, txid: bytes, outpoint: Outpoint | None) -> Evidence:
    last = proofs.proof(store.engine, partial.chain, txid)
    return partial if last is None else replace(partial, current=_located(outpoint, last, partial.caip2))


def _parents(partial: Evidence, store: Store, way: Sequence[Proved], room: int) -> tuple[bytes, ...]:
    """The kept transactions whose outputs are spent before the one that comes from the way itself."""
    network = by_caip2(partial.caip2)
    segwit = network is not None and network.rules.segwit
    txids = {hop.txid for hop in way}
    wanted: set[bytes] = set()
    for hop in way[1:]:
        spent = [spending.prevout.txid for spending in tx.read(hop.proof.raw, segwit=segwit).inputs]
        ours = max((number for number, txid in enumerate(spent) if txid in txids), default=0)
        wanted |= set(spent[:ours]) - txids
    sizes = proofs.sizes(store.engine, partial.chain, sorted(wanted)[:MAX_LINEAGE])
    if sum(sizes.values()) > room:
        return ()
    return tuple(parent.proof.raw for parent in proofs.several(store.engine, partial.chain, sizes).values())


def _located(outpoint: Outpoint | None, proved: Proved, caip2: str) -> Located:
    return Located(outpoint, proved, _beef(proved.proof.raw, proved.proof.bump, caip2))


def _beef(raw: bytes, path: bytes, caip2: str) -> bytes:
    network = by_caip2(caip2)
    if network is not None and network.rules.segwit:
        found = tx.read(raw, segwit=True)
        raw = tx.serialise(found.inputs, found.outputs, found.version, found.locktime)
    try:
        return beef.write([(raw, bump.read(path))])
    except ParseError as error:
        raise NoProofError(f"the proof that is kept does not hold: {error}") from error
