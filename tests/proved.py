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
    """Climb from every transaction that says something to the root in its block's header, and say how many. Beside
    these only such are stored whose outputs they spend in their own block: values of these may decide what is read."""
    with store.engine.connect() as connection:
        messages = {
            (row[0], row[1])
            for row in connection.execute(select(events.c.height, events.c.txid).where(events.c.chain == chain))
        }
        stored = {
            (row[0], row[1])
            for row in connection.execute(select(table.c.height, table.c.txid).where(table.c.chain == chain))
        }
    results = {(height, txid): store.proofs.get(chain, txid) for height, txid in messages}
    spent = {
        (height, one.prevout.txid)
        for (height, _), proved in results.items()
        if proved is not None
        for one in read_exactly(proved.proof.raw, segwit=segwit).inputs
    }
    assert messages <= stored <= messages | spent
    for height, txid in stored:
        result = store.proofs.get(chain, txid)
        assert result is not None
        assert read_exactly(result.proof.raw, segwit=segwit).txid == txid
        assert (result.ref, result.ref.height) == (store.blocks.get(chain, height), height)
        answer, root = climb(result.proof.bump, txid)
        assert (answer, root) == (height, result.ref.header[36:68])
        _check_witness(result, segwit=segwit)
    return len(messages)


def _check_witness(proved: proofs.Proved, *, segwit: bool) -> None:
    """Where witnesses carry envelopes, the one stored is the one that the block's coinbase commits to."""
    if not segwit:
        assert (proved.coinbase, proved.proof.witness) == (None, None)
        return
    assert proved.coinbase is not None
    first = read_tx(Tape(proved.coinbase.raw))
    assert climb(proved.coinbase.bump, bytes.fromhex(first.txid)[::-1]) == (proved.ref.height, proved.ref.header[36:68])
    message = commitment(first)
    if message is None:
        assert proved.proof.witness is None
        assert not read_tx(Tape(proved.proof.raw), segwit=True).witnesses
        return
    assert proved.proof.witness is not None
    _, root = climb(proved.proof.witness, wtxid(proved.proof.raw))
    assert message == sha256d(root + proved.coinbase.reserved)


def climb(path: bytes, txid: bytes) -> tuple[int, bytes]:
    """The height a BUMP of one transaction names, and the root it leads to; read the slow way (BRC-74)."""
    position = 0

    def number() -> int:
        nonlocal position
        first, size = path[position], {0xFD: 2, 0xFE: 4, 0xFF: 8}.get(path[position], 0)
        value = int.from_bytes(path[position + 1 : position + 1 + size], "little") if size else first
        position += 1 + size
        return value

    height, depth = number(), path[position]
    position += 1
    node, index = txid, -1
    for level in range(depth):
        leaves: dict[int, bytes | None] = {}
        for _ in range(number()):
            offset, flags = number(), path[position]
            position += 1
            leaves[offset] = None if flags == 1 else path[position : position + 32]
            position += 0 if flags == 1 else 32
            if flags == 2:
                assert (level, leaves[offset]) == (0, txid)
                index = offset
        if level or len(leaves) > 1:
            beside = leaves[index ^ 1]
            pair = node + (beside or node) if index % 2 == 0 else (beside or b"") + node
            node, index = sha256(sha256(pair).digest()).digest(), index >> 1
    assert (position, index) == (len(path), 0)
    return height, node
