"""Whether every event that is stored has a proof, judged without the code that made it."""

from __future__ import annotations

from hashlib import sha256

from sqlalchemy import select

from indexer.store import Store, proofs
from indexer.store.schema import events
from indexer.store.schema import proofs as table
from parsers.bitcoin.tx import read_exactly
from tests.oracles.wire import Tape, read_tx, sha256d
from tests.oracles.witness_commitments import commitment, wtxid


def check_proofs(store: Store, chain: str, *, segwit: bool = False) -> int:
    """Climb from every transaction that says something to the root in its block's header, and say how many."""
    with store.engine.connect() as connection:
        said = {
            (row[0], row[1])
            for row in connection.execute(select(events.c.height, events.c.txid).where(events.c.chain == chain))
        }
        kept = {
            (row[0], row[1])
            for row in connection.execute(select(table.c.height, table.c.txid).where(table.c.chain == chain))
        }
    assert kept == said
    for height, txid in said:
        found = store.proofs.get(chain, txid)
        assert found is not None
        assert read_exactly(found.proof.raw, segwit=segwit).txid == txid
        assert (found.ref, found.ref.height) == (store.blocks.get(chain, height), height)
        told, root = climb(found.proof.bump, txid)
        assert (told, root) == (height, found.ref.header[36:68])
        _check_witness(found, segwit=segwit)
    return len(said)


def _check_witness(found: proofs.Proved, *, segwit: bool) -> None:
    """Where witnesses carry envelopes, the one stored is the one that the block's coinbase commits to."""
    if not segwit:
        assert (found.coinbase, found.proof.witness) == (None, None)
        return
    assert found.coinbase is not None
    first = read_tx(Tape(found.coinbase.raw))
    assert climb(found.coinbase.bump, bytes.fromhex(first.txid)[::-1]) == (found.ref.height, found.ref.header[36:68])
    said = commitment(first)
    if said is None:
        assert found.proof.witness is None
        assert not read_tx(Tape(found.proof.raw), segwit=True).witnesses
        return
    assert found.proof.witness is not None
    _, root = climb(found.proof.witness, wtxid(found.proof.raw))
    assert said == sha256d(root + found.coinbase.reserved)


def climb(path: bytes, txid: bytes) -> tuple[int, bytes]:
    """The height a BUMP of one transaction names, and the root it leads to; read the slow way (BRC-74)."""
    at = 0

    def number() -> int:
        nonlocal at
        first, size = path[at], {0xFD: 2, 0xFE: 4, 0xFF: 8}.get(path[at], 0)
        value = int.from_bytes(path[at + 1 : at + 1 + size], "little") if size else first
        at += 1 + size
        return value

    height, depth = number(), path[at]
    at += 1
    node, index = txid, -1
    for level in range(depth):
        leaves: dict[int, bytes | None] = {}
        for _ in range(number()):
            offset, flags = number(), path[at]
            at += 1
            leaves[offset] = None if flags == 1 else path[at : at + 32]
            at += 0 if flags == 1 else 32
            if flags == 2:
                assert (level, leaves[offset]) == (0, txid)
                index = offset
        if level or len(leaves) > 1:
            beside = leaves[index ^ 1]
            pair = node + (beside or node) if index % 2 == 0 else (beside or b"") + node
            node, index = sha256(sha256(pair).digest()).digest(), index >> 1
    assert (at, index) == (len(path), 0)
    return height, node
