"""What proves a listing to somebody who trusts nobody: the winning revision's transaction, its way from the
registration, and its block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from indexer.facts import BlockRef
from indexer.networks import by_caip2, mined
from indexer.pointing import is_outpoint, pointing
from indexer.store import Revision, Store, proofs
from parsers import beef, bump, tx
from parsers.errors import ParseError
from parsers.tx import Outpoint

MAX_RAW = 16 << 20
"""Bytes of transactions that a proof holds at most: a card is at most 1 MiB, and a stranger's transaction any size."""

MAX_LINEAGE = 1_000
"""Transactions between a registration and where it is now that a proof holds at most."""


class NoProofError(Exception):
    """There is no proof to give: the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The proof of a listing: the outpoint of its winning revision, that transaction, and where it was mined.

    `raw` and `path` (BRC-74) are as kept. `before` holds the raw transactions from the registration to the one before
    the winner, `after` those that moved the satoshi since, oldest first; both None where they are not kept or too many.
    `parents` are kept transactions of which these spend outputs before the satoshi's: their values say where it went.
    `beef` (BRC-62) is over the transaction without its witness, as no reader of BEEF knows witnesses.
    """

    chain: str
    caip2: str
    outpoint: Outpoint
    ref: BlockRef
    raw: bytes
    path: bytes
    beef: bytes
    before: tuple[bytes, ...] | None
    after: tuple[bytes, ...] | None
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
    return _with_lineage(_bare(store, chain, state.winner), store, history)


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
    size = proofs.size(store.engine, chain, [outpoint.txid])
    if size is not None and size > MAX_RAW:
        raise NoProofError(f"its transaction has {size:,} bytes, and at most {MAX_RAW:,} are handed out")
    found = proofs.proof(store.engine, chain, outpoint.txid)
    if found is None and not mined(store.chains().get(chain, "")):
        raise NoProofError("what it says is believed: its chain is told by an endpoint, without proof of work")
    if found is None:
        raise NoProofError(
            "no proof is kept: its transaction has more than 16 MiB, or its block was read before proofs were kept; "
            "then index the chain again to have them"
        )
    caip2 = store.chains().get(chain, chain)
    raw, path, _ = found.proof
    return Evidence(
        chain=chain, caip2=caip2, outpoint=outpoint, ref=found.ref, raw=raw, path=path,
        beef=_beef(raw, path, caip2), before=None, after=None,
    )  # fmt: skip


def _with_lineage(found: Evidence, store: Store, history: Sequence[Revision]) -> Evidence:
    """The same with the other transactions of the history, as far as they are kept."""
    txids = list(dict.fromkeys(past.event.txid for past in history))
    size = proofs.size(store.engine, found.chain, txids)
    if len(txids) > MAX_LINEAGE or size is None or size > MAX_RAW:
        return found
    raws = proofs.raws(store.engine, found.chain, txids)
    if raws.keys() != set(txids):
        return found  # a reorg came between the two questions
    at = txids.index(found.outpoint.txid)
    way = [raws[txid] for txid in txids]
    parents = _parents(found, store, txids, way, MAX_RAW - size)
    return replace(found, before=tuple(way[:at]), after=tuple(way[at + 1 :]), parents=parents)


def _parents(
    found: Evidence, store: Store, txids: Sequence[bytes], way: Sequence[bytes], room: int
) -> tuple[bytes, ...]:
    """The kept transactions whose outputs are spent before the one that comes from the way itself."""
    network = by_caip2(found.caip2)
    segwit = network is not None and network.rules.segwit
    wanted: set[bytes] = set()
    for raw in way[1:]:
        spent = [each.prevout.txid for each in tx.read(raw, segwit=segwit).inputs]
        ours = next((number for number, txid in enumerate(spent) if txid in txids), 0)
        wanted |= set(spent[:ours])
    kept = [txid for txid in sorted(wanted)[:MAX_LINEAGE] if proofs.size(store.engine, found.chain, [txid]) is not None]
    if (proofs.size(store.engine, found.chain, kept) or 0) > room:
        return ()
    return tuple(proofs.raws(store.engine, found.chain, kept).values())


def _beef(raw: bytes, path: bytes, caip2: str) -> bytes:
    network = by_caip2(caip2)
    if network is not None and network.rules.segwit:
        found = tx.read(raw, segwit=True)
        raw = tx.serialise(found.inputs, found.outputs, found.version, found.locktime)
    try:
        return beef.write([(raw, bump.read(path))])
    except ParseError as error:
        raise NoProofError(f"the proof that is kept does not hold: {error}") from error
