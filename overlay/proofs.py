"""What proves a listing to somebody who trusts nobody: the winning revision's transaction, its way from the
registration, and its block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from indexer.facts import BlockRef
from indexer.networks import by_caip2
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


def evidence(store: Store, registration: str) -> Evidence:
    """The proof of a registration's winning revision. Raises NoProofError; nobody knows the id when the chain holds no
    revision of it."""
    history = store.history(registration)
    if not history:
        raise NoProofError("no block holds it yet")
    chain = history[0].chain
    history = [past for past in history if past.chain == chain]
    state = history[-1].event.state
    if state is None:
        raise NoProofError("it is not a registration")
    size = proofs.size(store.engine, chain, [state.winner.txid])
    if size is not None and size > MAX_RAW:
        raise NoProofError(f"its transaction has {size:,} bytes, and at most {MAX_RAW:,} are handed out")
    found = proofs.proof(store.engine, chain, state.winner.txid)
    if found is None:
        raise NoProofError("its block was read without keeping proofs: index the chain again to have them")
    before, after = _lineage(store, history, state.winner.txid)
    caip2 = store.chains().get(chain, chain)
    raw, path = found.proof
    return Evidence(
        chain=chain, caip2=caip2, outpoint=state.winner, ref=found.ref, raw=raw, path=path,
        beef=_beef(raw, path, caip2), before=before, after=after,
    )  # fmt: skip


def _lineage(
    store: Store, history: Sequence[Revision], winner: bytes
) -> tuple[tuple[bytes, ...], tuple[bytes, ...]] | tuple[None, None]:
    """The raw transactions of a history before and after its winning revision."""
    chain = history[0].chain
    txids = list(dict.fromkeys(past.event.txid for past in history))
    if len(txids) > MAX_LINEAGE or (proofs.size(store.engine, chain, txids) or MAX_RAW + 1) > MAX_RAW:
        return None, None
    at = txids.index(winner)
    raws = proofs.raws(store.engine, chain, txids)
    if raws.keys() != set(txids):
        return None, None  # a reorg came between the two questions
    return tuple(raws[txid] for txid in txids[:at]), tuple(raws[txid] for txid in txids[at + 1 :])


def _beef(raw: bytes, path: bytes, caip2: str) -> bytes:
    network = by_caip2(caip2)
    if network is not None and network.rules.segwit:
        found = tx.read(raw, segwit=True)
        raw = tx.serialise(found.inputs, found.outputs, found.version, found.locktime)
    try:
        return beef.write([(raw, bump.read(path))])
    except ParseError as error:
        raise NoProofError(f"the proof that is kept does not hold: {error}") from error
