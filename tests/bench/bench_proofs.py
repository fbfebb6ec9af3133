"""Proofs verified a second, beside the bare hashing they need: `python -m tests.bench.bench_proofs`.

`hashlib` climbs the same paths with the hashes already at hand, and nothing checked: what is above that is reading,
checking and objects. bitcoinX and bsv-sdk are not a measure here: neither reads every BUMP, or checks all of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from statistics import median
from time import perf_counter

from parsers.bitcoin import beef, bump
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, serialise, sha256d
from tests.oracles import merkle
from tests.parsers.writers import from_branch

ROUNDS = 7


def rate(work: Callable[[], object], count: int) -> float:
    """How many a second, by the median of a few rounds."""
    times = []
    for _ in range(ROUNDS):
        began = perf_counter()
        work()
        times.append(perf_counter() - began)
    return count / median(times)


def paths(transactions: int, count: int) -> list[tuple[bytes, bytes, list[bytes | None], int]]:
    """Some transactions of a block: their BUMPs, txids, branches and numbers."""
    txids = [sha256(b"%d" % number).digest() for number in range(transactions)]
    rows = merkle.rows(txids)
    created = []
    for index in range(0, transactions, max(1, transactions // count)):
        branch = [
            row[index >> level ^ 1] if index >> level ^ 1 < len(row) else None for level, row in enumerate(rows[:-1])
        ]
        path = from_branch(800_000, index, txids[index], branch)
        assert path.merkle_root == rows[-1][0]
        created.append((path.to_bytes(), txids[index], branch, index))
    return created


def climb(txid: bytes, branch: Sequence[bytes | None], index: int) -> bytes:
    """The root, by hashlib alone."""
    for sibling in branch:
        beside = txid if sibling is None else sibling
        joined = beside + txid if index & 1 else txid + beside
        txid = sha256(sha256(joined).digest()).digest()
        index >>= 1
    return txid


def bumps(transactions: int) -> None:
    created = paths(transactions, 1_000)
    depth = len(created[0][2])

    def verify() -> None:
        for raw, txid, _, _ in created:
            bump.read(raw).root(txid)

    def hashing() -> None:
        for _, txid, branch, index in created:
            climb(txid, branch, index)

    ours, bare = rate(verify, len(created)), rate(hashing, len(created))
    print(
        f"BUMPs of one transaction of {transactions:,} ({depth} levels) read and verified: {ours:,.0f} a second; "
        f"hashlib climbing them {bare:,.0f}: {ours / bare:.2f} x"
    )


def compound(transactions: int) -> None:
    txids = [sha256(b"%d" % number).digest() for number in range(transactions)]
    raw = bump.MerklePath(1, (tuple(bump.PathLeaf(index, txid, True) for index, txid in enumerate(txids)),)).to_bytes()
    ours = rate(lambda: bump.read(raw), transactions)
    bare = rate(lambda: merkle.root(txids), transactions)
    print(
        f"a BUMP of all {transactions:,} transactions of a block: {ours:,.0f} transactions a second; "
        f"hashlib making the same root {bare:,.0f}: {ours / bare:.2f} x"
    )


def diamonds(length: int) -> None:
    """Ancestry that branches and joins again at every step."""
    first = serialise((TxInput(Outpoint(b"\1" * 32, 0), b"", 0),), (TxOutput(10**9, b"\x51"),) * 2)
    chain = [first]
    for step in range(length):
        parent = sha256d(chain[-1])
        ins = tuple(TxInput(Outpoint(parent, vout), b"\x51" * 107, 0) for vout in (0, 1))
        chain.append(serialise(ins, (TxOutput(10**9 - step, b"\x51" * 25),) * 2))
    path = from_branch(1, 0, sha256d(first), [])
    raw = beef.write([(first, path), *((item, None) for item in chain[1:])])
    ours = rate(lambda: beef.verify(beef.read(raw), lambda *_: True), len(chain))
    bare = rate(lambda: [sha256d(item) for item in chain], len(chain))
    print(
        f"a BEEF of {len(chain):,} transactions ({len(raw):,} bytes), each spending both outputs of the one before: "
        f"{ours:,.0f} transactions a second; hashlib hashing them {bare:,.0f}: {ours / bare:.2f} x"
    )


def main() -> None:
    """All of it."""
    bumps(1)
    bumps(2_000)
    bumps(60_000)
    compound(60_000)
    diamonds(20)
    diamonds(5_000)


if __name__ == "__main__":
    main()
