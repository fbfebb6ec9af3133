"""BIP 141's commitment read the slow and obvious way: wtxids, their tree, and what a block's coinbase says of them."""

from __future__ import annotations

from tests.oracles import merkle
from tests.oracles.wire import Tape, Tx, read_tx, sha256d


def raw_transactions(block: bytes) -> list[bytes]:
    """The transactions of a block of a chain with segwit, as serialised."""
    tape = Tape(block)
    tape.take(80)
    results = []
    for _ in range(tape.varint()):
        start = tape.position
        read_tx(tape, segwit=True)
        results.append(block[start : tape.position])
    return results


def wtxid(raw: bytes) -> bytes:
    """The hash of a transaction with its witness, without what Litecoin adds for its MWEB (internal byte order)."""
    tape = Tape(raw)
    version, flag = tape.take(4), 0
    if raw[4:6] in (b"\0\x01", b"\0\x08", b"\0\x09"):
        flag = tape.take(2)[1]
    start = tape.position
    inputs = tape.varint()
    for _ in range(inputs):
        tape.take(36)
        tape.take(tape.varint())
        tape.take(4)
    for _ in range(tape.varint()):
        tape.take(8)
        tape.take(tape.varint())
    if flag & 1:
        for _ in range(inputs):
            for _ in range(tape.varint()):
                tape.take(tape.varint())
    body = raw[start : tape.position]
    if flag & 8:
        assert tape.take(1) == b"\0"
    locktime = tape.take(4)
    assert tape.position == len(raw)
    return sha256d(version + (b"\0\x01" if flag & 1 else b"") + body + locktime)


def wtxids(block: bytes) -> list[bytes]:
    """The leaves of a block's witness tree."""
    return [bytes(32), *(wtxid(raw) for raw in raw_transactions(block)[1:])]


def is_honest(block: bytes) -> bool:
    """Whether a block's witnesses are those that its coinbase commits to, or there are neither."""
    txs = [read_tx(Tape(raw), segwit=True) for raw in raw_transactions(block)]
    message = commitment(txs[0])
    if message is None:
        return not any(stack for tx in txs for stack in tx.witnesses)
    if txs[0].witnesses == () or len(txs[0].witnesses[0]) != 1 or len(txs[0].witnesses[0][0]) != 32:
        return False
    return sha256d(merkle.root(wtxids(block)) + txs[0].witnesses[0][0]) == message


def commitment(coinbase: Tx) -> bytes | None:
    """The commitment in the last output that commits to witnesses."""
    result = None
    for out in coinbase.outs:
        if out.script[:6] == bytes.fromhex("6a24aa21a9ed") and len(out.script) >= 38:
            result = out.script[6:38]
    return result
