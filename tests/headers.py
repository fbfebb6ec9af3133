"""Headers for tests: mined at regtest difficulty, kept in memory, and the slow oracle of which chain is best."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from indexer.headers.header_chain import HeaderChain
from indexer.headers.proof_of_work import is_met
from parsers.bitcoin.tx import sha256d

EASY = 0x207FFFFF
GENESIS_TIME = 1_600_000_000


def header(
    prev: bytes, *, root: int = 0, time: int = GENESIS_TIME, bits: int = EASY, mined: bool = True, version: int = 1
) -> bytes:
    """A header of 80 bytes on `prev` whose merkle root is a number; `mined`: with its proof of work, else without."""
    top = version.to_bytes(4, "little") + prev + root.to_bytes(32, "little") + time.to_bytes(4, "little")
    top += bits.to_bytes(4, "little")
    return next(
        raw for nonce in count() if is_met(sha256d(raw := top + nonce.to_bytes(4, "little")), bits or EASY) is mined
    )


def line(length: int, *, prev: bytes = bytes(32), first: int = 0, root: int = 0, bits: int = EASY) -> list[bytes]:
    """Headers one on the other, ten minutes apart, the first at height `first` on block `prev`."""
    results: list[bytes] = []
    for height in range(first, first + length):
        results.append(header(prev, root=root, time=GENESIS_TIME + 600 * height, bits=bits))
        prev = sha256d(results[-1])
    return results


class MemoryRows:
    """Where headers are kept, in memory: one joined run from a height on, as on a disk."""

    def __init__(self, *pieces: tuple[int, bytes]) -> None:
        self.pieces = dict(pieces)

    def load_headers(self, _chain: str) -> Iterator[tuple[int, bytes]]:
        yield from sorted(self.pieces.items())

    def save_headers(self, _chain: str, first: int, headers: bytes) -> None:
        self.pieces = {
            start: raw[: 80 * (first - start)] for start, raw in sorted(self.pieces.items()) if start < first
        }
        end = max((start + len(raw) // 80 for start, raw in self.pieces.items()), default=first)
        assert end == first, f"headers from {first} on leave a gap after {end}"
        if headers:
            self.pieces[first] = headers


class Oracle:
    """Every header seen by hash; the best chain is walked anew at each question."""

    def __init__(self) -> None:
        self.seen: dict[bytes, tuple[bytes, int, int]] = {}

    def add(self, raw: bytes, work: int) -> None:
        """Take a header worth `work` whose parent is known, or that has none."""
        digest, prev = sha256d(raw), raw[4:36]
        _, height, before = self.seen.get(prev, (b"", -1, 0))
        self.seen.setdefault(digest, (raw, height + 1, before + work))

    def branch(self, digest: bytes) -> list[bytes]:
        """The headers from genesis to a block."""
        results = []
        while digest in self.seen:
            results.append(self.seen[digest][0])
            digest = results[-1][4:36]
        return results[::-1]

    def best(self) -> list[bytes]:
        """The headers of the chain with most work, the first seen of equals (dicts keep the order of arrival)."""
        tip = max(self.seen, key=lambda digest: self.seen[digest][2], default=b"")
        return self.branch(tip)


def hashes(chain: HeaderChain) -> list[bytes]:
    """The best chain, by asking for every height."""
    tip = chain.tip()
    result = [chain.ref(height) for height in range(tip.height + 1)] if tip else []
    return [ref.hash for ref in result if ref]


def check_linked(chain: HeaderChain) -> None:
    """Check that the best chain is one, down to genesis."""
    tip = chain.tip()
    assert tip is not None
    for height in range(1, tip.height + 1):
        here, before = chain.ref(height), chain.ref(height - 1)
        assert here is not None
        assert before is not None
        assert (here.prev, sha256d(here.header)) == (before.hash, here.hash)
