"""Double SHA-256 of all transactions of a block, and their merkle tree: as many at a time as the machine has lanes.

All hashes are in internal byte order. Whatever the processor, the answers are the same; nothing here holds the GIL
but the few messages that hashlib takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from parsers.compiled import compiled, copy, kernel, load8, load63
from parsers.compiled_sha256 import FIRST, LANES, compress
from parsers.errors import BlockError
from parsers.watched import Buffer, address

Words = npt.NDArray[np.uint32]
"""Hashes: a row of eight words for each, whose bytes in memory are the hash."""

Numbers = npt.NDArray[np.int64]

LARGE = 1 << 16
"""Bytes from which on a message is hashed by itself, by hashlib: at the end of a block it would leave lanes empty."""

FEW = 64
"""Messages up to which hashlib is done before the lanes are laid out."""

_FIRST = np.array(FIRST, np.uint32)
_IDLE, _BODY, _END = 0, 1, 2
_NEVER = 1 << 62


class _Space(NamedTuple):
    """Memory that a kernel works in, and the addresses of what LLVM's vector code reads and writes."""

    state: Words  # 8 rows of a word of each message
    second: Words  # the same for the second hash
    ring: Words  # 16 blocks: a first hash and its padding
    ends: Numbers  # 16 times the last one or two blocks of a message
    at: Numbers  # where each lane reads
    ring_at: Numbers
    state_address: int
    second_address: int
    ends_address: int
    at_address: int
    ring_at_address: int


class Tree(NamedTuple):
    """A merkle root (32 bytes), and for each transaction asked about the nodes beside its way up, None for a copy."""

    root: bytes
    branches: list[list[bytes | None]]


def hash_all(data: Buffer, starts: Numbers, stops: Numbers) -> Words:
    """The double SHA-256 of each piece of `data` from a start to its stop, which must lie within it."""
    view = memoryview(data)
    if len(starts) <= FEW:
        pieces = zip(starts.tolist(), stops.tolist(), strict=True)
        return _rows([sha256(sha256(view[start:stop]).digest()).digest() for start, stop in pieces])
    held, base = address(data)
    rows = np.empty((len(starts), 8), np.uint32)
    starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)
    hash_messages(base, held.size, starts, stops, _space(), rows)
    for number in np.flatnonzero(stops - starts >= LARGE).tolist():
        first = sha256(view[starts[number] : stops[number]]).digest()
        rows[number] = np.frombuffer(sha256(first).digest(), np.uint32)
    return rows


def _rows(hashes: Sequence[bytes]) -> Words:
    return np.frombuffer(b"".join(hashes), np.uint32).reshape(-1, 8).copy()


def without_witness(data: Buffer, offsets: Numbers, witnesses: Numbers) -> tuple[memoryview, Numbers]:
    """The transactions of a block in the form that a txid is over, joined, and their n + 1 offsets there.

    `offsets` are those in the block (n + 1), `witnesses` (n) where each one's witness begins, 0 where it has none.
    """
    held, base = address(data)
    sizes = np.where(witnesses > 0, witnesses - offsets[:-1] + 2, np.diff(offsets))
    places = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    bare = np.empty(int(places[-1]), np.uint8)
    leave_out(base, offsets, witnesses, places, _address(bare))
    del held
    return bare.data, places


def merkle(hashes: Words, chosen: Sequence[int] = ()) -> Tree:
    """The root over the txids of a block, and the branches of the transactions of these numbers, in one pass.

    `hashes` is overwritten. Raises BlockError for two equal hashes side by side, with which a block of other
    transactions has the same root (CVE-2012-2459).
    """
    count, at = len(hashes), np.array(chosen, np.int64)
    space = _space() if count > FEW else None
    levels: list[list[bytes | None]] = []
    while count > FEW and space is not None:
        levels.append(_beside(hashes[:count], at ^ 1))
        if fold(_address(hashes), count, space, hashes):
            raise BlockError(_REPEATED)
        count, at = (count + 1) // 2, at >> 1
    root = _climb(list(each(hashes[:count])), at.tolist(), levels)
    return Tree(root, [list(branch) for branch in zip(*levels, strict=True)] or [[] for _ in chosen])


class MerkleTree:
    """The merkle tree over the txids of a block, whose branches are made for a part of the block at a time.

    `root` is as that of `merkle`, and so is what raises BlockError. Memory: the hashes, which stay as they are.
    """

    def __init__(self, hashes: Words) -> None:
        self._hashes = hashes
        self._top = merkle(_rows([self._part(number, ())[0] for number in range(self._count)]), range(self._count))
        self.root = self._top.root

    @property
    def _count(self) -> int:
        """In how many parts the leaves are cut."""
        return -(-len(self._hashes) // PART)

    def branches(self, chosen: Numbers) -> Iterator[tuple[int, bytes, list[bytes | None]]]:
        """Of each of these numbers (ascending): itself, the txid, and the nodes beside its way up, None for a copy."""
        bounds = np.searchsorted(chosen, np.arange(self._count + 1) * PART)
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            some = chosen[bounds[number] : bounds[number + 1]]
            txids = each(self._hashes[some])
            _, ways = self._part(number, (some - number * PART).tolist())
            for index, txid, way in zip(some.tolist(), txids, ways, strict=True):
                yield index, txid, way + self._top.branches[number]

    def _part(self, number: int, chosen: Sequence[int]) -> tuple[bytes, list[list[bytes | None]]]:
        """The node above one part, and the branches up to it of these leaves, counted from the part's first."""
        leaves = self._hashes[number * PART : (number + 1) * PART]
        root, ways = merkle(leaves.copy(), chosen)
        # the last part may be lower than the others: what stands beside its root is a copy
        missing = (PART - 1).bit_length() - (len(leaves) - 1).bit_length() if self._count > 1 else 0
        for _ in range(missing):
            root = sha256(sha256(root + root).digest()).digest()
        return root, [[*way, *[None] * missing] for way in ways]


PART = 4096
"""Leaves, a power of two, whose branches are made together: two megabytes of them."""

_REPEATED = "the block repeats transactions so that its merkle root stays the same (CVE-2012-2459)"


def _beside(level: Words, numbers: Numbers) -> list[bytes | None]:
    """The nodes of these numbers; None for one past the end, which is a copy of the one before it."""
    raw = level[np.minimum(numbers, len(level) - 1)].tobytes()
    return [raw[32 * n : 32 * n + 32] if there else None for n, there in enumerate((numbers < len(level)).tolist())]


def _climb(nodes: list[bytes], at: list[int], levels: list[list[bytes | None]]) -> bytes:
    """The root above a few nodes; what stands beside the way up from each of these numbers is added to `levels`."""
    while len(nodes) > 1:
        levels.append([nodes[number ^ 1] if number ^ 1 < len(nodes) else None for number in at])
        if any(left == right for left, right in zip(nodes[::2], nodes[1::2], strict=False)):
            raise BlockError(_REPEATED)
        if len(nodes) % 2:
            nodes.append(nodes[-1])
        pairs = zip(nodes[::2], nodes[1::2], strict=True)
        nodes = [sha256(sha256(left + right).digest()).digest() for left, right in pairs]
        at = [number >> 1 for number in at]
    return nodes[0]


def each(hashes: Words) -> Iterator[bytes]:
    """Hashes as 32 bytes each."""
    for first in range(0, len(hashes), _AT_ONCE):
        raw = hashes[first : first + _AT_ONCE].tobytes()
        yield from (raw[at : at + 32] for at in range(0, len(raw), 32))


_AT_ONCE = 4096


def _space() -> _Space:
    """All of it in one piece of memory: a small block takes no longer to hash than this does to lay out."""
    words = np.zeros(32 * LANES, np.uint32)
    ends = np.zeros(18 * LANES, np.int64)
    words_at, ends_at = _address(words), _address(ends)
    ring = words[16 * LANES : 32 * LANES].reshape(LANES, 16)
    ring[:, 8], ring[:, 15] = 0x80, 0x00010000  # the padding of 32 bytes
    at, ring_at = ends[16 * LANES : 17 * LANES], ends[17 * LANES :]
    ring_at[:] = _STEPS + (words_at + 64 * LANES)
    return _Space(
        words[: 8 * LANES].reshape(8, LANES), words[8 * LANES : 16 * LANES].reshape(8, LANES), ring,
        ends[: 16 * LANES].reshape(LANES, 16), at, ring_at,
        words_at, words_at + 32 * LANES, ends_at, ends_at + 128 * LANES, ends_at + 136 * LANES,
    )  # fmt: skip


_STEPS = np.arange(LANES, dtype=np.int64) * 64


def _address(array: npt.NDArray[np.generic]) -> int:
    return int(array.__array_interface__["data"][0])


@compiled
def turned(word: np.uint32) -> np.uint32:
    """A word with its four bytes in the other order."""
    return np.uint32((word >> 24) | ((word >> 8) & 0xFF00) | ((word << 8) & 0xFF0000) | (word << 24))


@compiled
def restart(state: Words, lane: int) -> None:
    """Before the first block of a message."""
    for row in range(8):
        state[row, lane] = _FIRST[row]


@compiled
def gather(space: _Space, lane: int, place: int) -> None:
    """Put the first hash of a lane into the ring."""
    for row in range(8):
        space.ring[place, row] = turned(space.state[row, lane])


@compiled
def hash_again(space: _Space) -> None:
    """The second hash of the sixteen first ones in the ring."""
    for lane in range(LANES):
        restart(space.second, lane)
    compress(space.second_address, space.ring_at_address)


@compiled
def store(space: _Space, used: int, numbers: Numbers, rows: Words) -> None:
    """Hash again what is in the ring, and put it into the rows of these numbers."""
    if used:
        hash_again(space)
        for lane in range(used):
            for row in range(8):
                rows[numbers[lane], row] = turned(space.second[row, lane])


@compiled
def close(space: _Space, lane: int, at: int, end: int, size: int) -> int:
    """Write the last blocks of a message whose last `size` % 64 bytes stand at `at`: those, and the padding.

    Answers how many blocks. Bytes are read eight at a time where the data, which end at `end`, allow it.
    """
    rest = size & 63
    blocks = 1 if rest < 56 else 2
    words = space.ends[lane]
    whole = rest >> 3
    for number in range(whole):
        words[number] = load63(at + 8 * number)
    left, last = rest & 7, 0
    if left and end - at - 8 * whole >= 8:
        last = load63(at + 8 * whole) & ((1 << (8 * left)) - 1)
    else:
        for number in range(left):
            last |= load8(at + 8 * whole + number) << (8 * number)
    words[whole] = last | (0x80 << (8 * left))
    for number in range(whole + 1, 8 * blocks):
        words[number] = 0
    bits = 8 * size
    words[8 * blocks - 1] = ((bits & 0xFF) << 56) | ((bits & 0xFF00) << 40) | ((bits & 0xFF0000) << 24)
    return blocks


@kernel
def hash_messages(base: int, end: int, starts: Numbers, stops: Numbers, space: _Space, rows: Words) -> None:
    """Double SHA-256 of the bytes from each start to its stop, into that row; those of LARGE bytes are left out.

    A lane that is done takes the next message, so that all of them are busy up to the last few.
    """
    phase, left = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    step, after = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    number, waiting = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    following, used, busy = 0, 0, 0
    while True:
        for lane in range(LANES):
            if left[lane] > 0:
                continue
            if phase[lane] == _BODY:
                phase[lane], left[lane] = _END, after[lane]
                space.at[lane] = space.ends_address + 128 * lane
                continue
            if phase[lane] == _END:
                busy -= 1
                gather(space, lane, used)
                waiting[used] = number[lane]
                used += 1
                if used == LANES:
                    store(space, used, waiting, rows)
                    used = 0
            while following < len(starts) and stops[following] - starts[following] >= LARGE:
                following += 1
            space.at[lane] = space.ends_address + 128 * lane
            if following == len(starts):
                phase[lane], left[lane], step[lane] = _IDLE, _NEVER, 0
                continue
            start, size = starts[following], stops[following] - starts[following]
            number[lane] = following
            following += 1
            busy += 1
            restart(space.state, lane)
            after[lane] = close(space, lane, base + start + (size & ~63), base + end, size)
            phase[lane], left[lane], step[lane] = _END, after[lane], 64
            if size >= 64:
                phase[lane], left[lane] = _BODY, size >> 6
                space.at[lane] = base + start
        if not busy:
            break
        steps = left.min()
        for _ in range(steps):
            compress(space.state_address, space.at_address)
            for lane in range(LANES):
                space.at[lane] += step[lane]
        for lane in range(LANES):
            left[lane] -= steps
    store(space, used, waiting, rows)


@kernel
def fold(base: int, count: int, space: _Space, rows: Words) -> bool:
    """Put the parents of the first `count` (two or more) rows, which stand at `base`, in their place.

    Answers whether two brothers are the same: then the rows are no good any more.
    """
    numbers = np.zeros(LANES, np.int64)
    parents = (count + 1) // 2
    padding = space.ends[1]
    padding[:8] = 0
    padding[0], padding[7] = 0x80, 0x0002000000000000
    for first in range(0, parents, LANES):
        used = min(LANES, parents - first)
        for lane in range(LANES):
            restart(space.state, lane)
            numbers[lane] = first + lane if lane < used else 0
            space.at[lane] = base + 64 * numbers[lane]
            if lane < used and 2 * numbers[lane] + 1 < count and is_twice(space.at[lane]):
                return True
        if count % 2 and first + used == parents:
            for number in range(8):
                space.ends[0, number] = load63(base + 64 * (parents - 1) + 8 * (number % 4))
            space.at[used - 1] = space.ends_address
        compress(space.state_address, space.at_address)
        space.at[:] = space.ends_address + 128
        compress(space.state_address, space.at_address)
        for lane in range(LANES):
            gather(space, lane, lane)
        store(space, used, numbers, rows)
    return False


@compiled
def is_twice(at: int) -> bool:
    """Whether two hashes that stand side by side are the same."""
    for word in range(0, 32, 8):  # noqa: SIM110 - generators do not compile
        if load63(at + word) != load63(at + 32 + word):
            return False
    return True


@kernel
def leave_out(base: int, offsets: Numbers, witnesses: Numbers, places: Numbers, target: int) -> None:
    """Copy transactions to their places, without marker, flag and witness where they have one."""
    for number in range(len(witnesses)):
        start, stop, to = base + offsets[number], base + offsets[number + 1], target + places[number]
        if not witnesses[number]:
            copy(to, start, stop - start)
            continue
        body = base + witnesses[number] - start - 6
        copy(to, start, 4)
        copy(to + 4, start + 6, body)
        copy(to + 4 + body, stop - 4, 4)


def prepare() -> None:
    """Compile every loop, or load it as an earlier process compiled it."""
    ends = np.arange(FEW + 2, dtype=np.int64) * 80
    data, witnesses = np.arange(20 * int(ends[-1]), dtype=np.uint32), np.full(FEW + 1, 20, np.int64) + ends[:-1]
    bare, places = without_witness(data.data.cast("B"), ends, witnesses)
    merkle(hash_all(bare, places[:-1], places[1:]))
