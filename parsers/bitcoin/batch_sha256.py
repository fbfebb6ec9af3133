"""Double SHA-256 of many messages at once, such as the transactions of a block or the nodes of a merkle level.

As many messages are hashed together as the processor has vector lanes; the result is the same on every processor. Only
the messages passed to hashlib hold the GIL. Hashes are in internal byte order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ctypes import string_at
from hashlib import sha256
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from parsers.bitcoin.intrinsics import copy, load8, load63
from parsers.bitcoin.sha256_lanes import INITIAL_STATE, LANES, compress
from parsers.bitcoin.tx import sha256d
from parsers.bitcoin.watched_outpoints import Buffer, address
from parsers.jit import compiled, kernel

Hashes = npt.NDArray[np.uint32]
"""n hashes of shape (n, 8): the bytes of a row in memory are the hash."""

IntArray = npt.NDArray[np.int64]

LARGE = 1 << 16
"""Bytes from which a message is hashed alone, by hashlib: at the end of a block it would leave the other lanes idle."""

FEW_MESSAGES = 64
"""Messages up to which hashlib is faster than filling the lanes."""

_FIRST = np.array(INITIAL_STATE, np.uint32)
_IDLE, _BODY, _END = 0, 1, 2
_NEVER = 1 << 62


class _Workspace(NamedTuple):
    """The memory of a kernel, and the addresses of the parts that the vector code reads and writes."""

    state: Hashes  # 8 rows: a word of every lane's state
    second: Hashes  # the same for the second hash
    ring: Hashes  # a block per lane: a first hash and its padding
    ends: IntArray  # per lane the last one or two blocks of a message
    pos: IntArray  # the address that every lane reads from
    ring_pos: IntArray
    state_address: int
    second_address: int
    ends_address: int
    pos_address: int
    ring_pos_address: int


def hash_ranges(data: Buffer, starts: IntArray, stops: IntArray) -> Hashes:
    """The double SHA-256 of `data[start:stop]` for all pairs of starts and stops (byte offsets within the data)."""
    view = memoryview(data)
    if len(starts) <= FEW_MESSAGES:
        ranges = zip(starts.tolist(), stops.tolist(), strict=True)
        return from_digests([sha256(sha256(view[start:stop]).digest()).digest() for start, stop in ranges])
    array, base = address(data)
    rows = np.empty((len(starts), 8), np.uint32)
    starts, stops = np.ascontiguousarray(starts), np.ascontiguousarray(stops)
    hash_messages(base, array.size, starts, stops, _workspace(), rows)
    for number in np.flatnonzero(stops - starts >= LARGE).tolist():
        first = sha256(view[starts[number] : stops[number]]).digest()
        rows[number] = np.frombuffer(sha256(first).digest(), np.uint32)
    return rows


def fold_level(hashes: Hashes, count: int) -> bool:
    """Overwrite the first rows with the parents of the first `count` (two or more) rows, a level of a merkle tree.

    Returns False for two equal siblings; the rows are unusable then.
    """
    return not fold(_address(hashes), count, _workspace(), hashes)


def from_digests(hashes: Sequence[bytes]) -> Hashes:
    """Hashes of 32 bytes each as rows of an array."""
    return np.frombuffer(b"".join(hashes), np.uint32).reshape(-1, 8).copy()


def strip_witnesses(data: Buffer, offsets: IntArray, witnesses: IntArray) -> tuple[memoryview, IntArray]:
    """The transactions of a block in the form that txids are computed from, concatenated, and their n + 1 offsets.

    `offsets` (n + 1) are those in the block, `witnesses` (n) the offsets of the witnesses, 0 for none.
    """
    array, base = address(data)
    sizes = np.where(witnesses > 0, witnesses - offsets[:-1] + 2, np.diff(offsets))
    targets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    stripped = np.empty(int(targets[-1]), np.uint8)
    copy_without_witness(base, offsets, witnesses, targets, _address(stripped))
    del array
    return stripped.data, targets


def digests(hashes: Hashes) -> Iterator[bytes]:
    """The rows of an array of hashes as 32 bytes each."""
    for first in range(0, len(hashes), _CHUNK):
        raw = hashes[first : first + _CHUNK].tobytes()
        yield from (raw[start : start + 32] for start in range(0, len(raw), 32))


_CHUNK = 4096


def _workspace() -> _Workspace:
    """Allocates everything in two arrays, because the allocation takes as long as hashing a small block."""
    words = np.zeros(32 * LANES, np.uint32)
    ends = np.zeros(18 * LANES, np.int64)
    words_at, ends_at = _address(words), _address(ends)
    ring = words[16 * LANES : 32 * LANES].reshape(LANES, 16)
    ring[:, 8], ring[:, 15] = 0x80, 0x00010000  # the padding of a message of 32 bytes
    pos, ring_pos = ends[16 * LANES : 17 * LANES], ends[17 * LANES :]
    ring_pos[:] = _STEPS + (words_at + 64 * LANES)
    return _Workspace(
        words[: 8 * LANES].reshape(8, LANES), words[8 * LANES : 16 * LANES].reshape(8, LANES), ring,
        ends[: 16 * LANES].reshape(LANES, 16), pos, ring_pos,
        words_at, words_at + 32 * LANES, ends_at, ends_at + 128 * LANES, ends_at + 136 * LANES,
    )  # fmt: skip


_STEPS = np.arange(LANES, dtype=np.int64) * 64


def _address(array: npt.NDArray[np.generic]) -> int:
    return int(array.__array_interface__["data"][0])


@compiled
def byteswap(word: np.uint32) -> np.uint32:
    """A word with the order of its four bytes reversed."""
    return np.uint32((word >> 24) | ((word >> 8) & 0xFF00) | ((word << 8) & 0xFF0000) | (word << 24))


@compiled
def reset(state: Hashes, lane: int) -> None:
    """Set a lane to the initial state of SHA-256."""
    for row in range(8):
        state[row, lane] = _FIRST[row]


@compiled
def collect(space: _Workspace, lane: int, slot: int) -> None:
    """Write the first hash of a lane to a slot of the ring."""
    for row in range(8):
        space.ring[slot, row] = byteswap(space.state[row, lane])


@compiled
def hash_again(space: _Workspace) -> None:
    """Hash the first hashes in the ring once more."""
    for lane in range(LANES):
        reset(space.second, lane)
    compress(space.second_address, space.ring_pos_address)


@compiled
def flush(space: _Workspace, used: int, numbers: IntArray, rows: Hashes) -> None:
    """Hash the `used` first hashes in the ring once more, and write the results to the rows with these numbers."""
    if used:
        hash_again(space)
        for lane in range(used):
            for row in range(8):
                rows[numbers[lane], row] = byteswap(space.second[row, lane])


@compiled
def pad(space: _Workspace, lane: int, pos: int, end: int, size: int) -> int:
    """Write the last blocks of a message of `size` bytes: its last `size` % 64 bytes, which begin at `pos`, and the
    padding.

    Returns the number of blocks. Bytes are read eight at a time as long as the data, which end at `end`, allow it.
    """
    rest = size & 63
    blocks = 1 if rest < 56 else 2
    words = space.ends[lane]
    whole = rest >> 3
    for number in range(whole):
        words[number] = load63(pos + 8 * number)
    left, last = rest & 7, 0
    if left and end - pos - 8 * whole >= 8:
        last = load63(pos + 8 * whole) & ((1 << (8 * left)) - 1)
    else:
        for number in range(left):
            last |= load8(pos + 8 * whole + number) << (8 * number)
    words[whole] = last | (0x80 << (8 * left))
    for number in range(whole + 1, 8 * blocks):
        words[number] = 0
    bits = 8 * size
    words[8 * blocks - 1] = ((bits & 0xFF) << 56) | ((bits & 0xFF00) << 40) | ((bits & 0xFF0000) << 24)
    return blocks


def _hash_messages(base: int, _end: int, starts: IntArray, stops: IntArray, _space: _Workspace, rows: Hashes) -> None:
    """As `hash_messages`, one after the other."""
    for number, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        if stop - start < LARGE:
            rows[number] = np.frombuffer(sha256d(string_at(base + start, stop - start)), np.uint32)


def _fold(base: int, count: int, _space: _Workspace, rows: Hashes) -> bool:
    """As `fold`, one after the other."""
    level = string_at(base, 32 * count)
    level += level[-32:] if count % 2 else b""
    for number in range((count + 1) // 2):
        pair = level[64 * number : 64 * number + 64]
        if 2 * number + 1 < count and pair[:32] == pair[32:]:
            return True
        rows[number] = np.frombuffer(sha256d(pair), np.uint32)
    return False


@kernel("space", "rows", interpreted=_hash_messages)
def hash_messages(base: int, end: int, starts: IntArray, stops: IntArray, space: _Workspace, rows: Hashes) -> None:
    """Write the double SHA-256 of every range to its row; messages of LARGE bytes or more are skipped.

    A lane that has finished a message takes the next one, so that all lanes are busy until the last few messages.
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
                space.pos[lane] = space.ends_address + 128 * lane
                continue
            if phase[lane] == _END:
                busy -= 1
                collect(space, lane, used)
                waiting[used] = number[lane]
                used += 1
                if used == LANES:
                    flush(space, used, waiting, rows)
                    used = 0
            while following < len(starts) and stops[following] - starts[following] >= LARGE:
                following += 1
            space.pos[lane] = space.ends_address + 128 * lane
            if following == len(starts):
                phase[lane], left[lane], step[lane] = _IDLE, _NEVER, 0
                continue
            start, size = starts[following], stops[following] - starts[following]
            number[lane] = following
            following += 1
            busy += 1
            reset(space.state, lane)
            after[lane] = pad(space, lane, base + start + (size & ~63), base + end, size)
            phase[lane], left[lane], step[lane] = _END, after[lane], 64
            if size >= 64:
                phase[lane], left[lane] = _BODY, size >> 6
                space.pos[lane] = base + start
        if not busy:
            break
        steps = left.min()
        for _ in range(steps):
            compress(space.state_address, space.pos_address)
            for lane in range(LANES):
                space.pos[lane] += step[lane]
        for lane in range(LANES):
            left[lane] -= steps
    flush(space, used, waiting, rows)


@kernel("space", "rows", interpreted=_fold)
def fold(base: int, count: int, space: _Workspace, rows: Hashes) -> bool:
    """Overwrite the first rows with the parents of the first `count` (two or more) rows, which begin at `base`.

    Returns whether two siblings are equal; the rows are unusable then.
    """
    numbers = np.zeros(LANES, np.int64)
    parents = (count + 1) // 2
    padding = space.ends[1]
    padding[:8] = 0
    padding[0], padding[7] = 0x80, 0x0002000000000000
    for first in range(0, parents, LANES):
        used = min(LANES, parents - first)
        for lane in range(LANES):
            reset(space.state, lane)
            numbers[lane] = first + lane if lane < used else 0
            space.pos[lane] = base + 64 * numbers[lane]
            if lane < used and 2 * numbers[lane] + 1 < count and is_pair_equal(space.pos[lane]):
                return True
        if count % 2 and first + used == parents:
            for number in range(8):
                space.ends[0, number] = load63(base + 64 * (parents - 1) + 8 * (number % 4))
            space.pos[used - 1] = space.ends_address
        compress(space.state_address, space.pos_address)
        space.pos[:] = space.ends_address + 128
        compress(space.state_address, space.pos_address)
        for lane in range(LANES):
            collect(space, lane, lane)
        flush(space, used, numbers, rows)
    return False


@compiled
def is_pair_equal(pos: int) -> bool:
    """Whether the two adjacent hashes at an address are equal."""
    for word in range(0, 32, 8):  # noqa: SIM110 - generators do not compile
        if load63(pos + word) != load63(pos + 32 + word):
            return False
    return True


@kernel()
def copy_without_witness(base: int, offsets: IntArray, witnesses: IntArray, targets: IntArray, target: int) -> None:
    """Copy transactions to `target`, at the offsets `targets`, without marker, flag and witness."""
    for number in range(len(witnesses)):
        start, stop, to = base + offsets[number], base + offsets[number + 1], target + targets[number]
        if not witnesses[number]:
            copy(to, start, stop - start)
            continue
        body = base + witnesses[number] - start - 6
        copy(to, start, 4)
        copy(to + 4, start + 6, body)
        copy(to + 4 + body, stop - 4, 4)


def prepare() -> None:
    """Compile every loop, or load it from the cache of an earlier process."""
    count = FEW_MESSAGES + 1
    ends = np.arange(count + 1, dtype=np.int64) * 80
    data, witnesses = np.arange(20 * int(ends[-1]), dtype=np.uint32), np.full(count, 20, np.int64) + ends[:-1]
    stripped, targets = strip_witnesses(data.data.cast("B"), ends, witnesses)
    fold_level(hash_ranges(stripped, targets[:-1], targets[1:]), count)
