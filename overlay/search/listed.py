"""What a plain search finds, as postings are made of it: one log file of what came and went, in blocks of columns.

An index appends a block for every commit and keeps how far the log is valid; a process that answers many questions
reads it once (100,000 offers: 60 MB) and then follows it. Strings stand in it as 64-bit numbers (`key`), which no two
words that anybody meant share: with a million different ones, the odds against it are thirty million to one.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.search.facts import facts
from overlay.search.prices import amount_key

if TYPE_CHECKING:
    from overlay.document import Document

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
_HEAD = Struct("<8sQ")  # what follows, and its size in bytes
_MAGIC = b"a2blist2"
_KEYS_CACHED = 100_000
FACT = 0  # the level of a key that is no word
BATCH = 4_096  # documents of one block
OFFERS = 64  # of a listing that are looked at (law 12)


class Block(NamedTuple):
    """What one stretch of a log says. `gone` are places of documents that left before the others came; the others have
    places, numbers that put the latest and the most senior first (`sorting`), ids (`id_bytes` up to `id_ends`), keys
    with their levels up to `key_ends`, and offers up to `offer_ends`, which have amounts (`prices.amount_key`) and keys
    of their own up to `fact_ends`."""

    gone: U64
    places: U64
    newest: U64
    seniority: U64
    amounts: U64
    keys: U64
    offer_keys: U64
    id_ends: U32
    key_ends: U32
    offer_ends: U32
    fact_ends: U32
    levels: U8
    id_bytes: U8


@lru_cache(maxsize=_KEYS_CACHED)
def key(text: str) -> int:
    """The number that stands for a word, or for a fact with its `=` before it: 64 bits of BLAKE2b."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def fact_key(fact: str) -> int:
    """The number for what a filter asks for (`search.facts`); no word begins with a `=`."""
    return key(f"={fact}")


class Gathering:
    """What is to become blocks: documents that leave, and documents that come."""

    def __init__(self) -> None:
        self._gone = array("Q")
        self._wide = {name: array("Q") for name in ("places", "newest", "seniority", "amounts", "keys", "offer_keys")}
        self._ends = {name: array("I") for name in _NARROW}
        self._levels, self._ids = bytearray(), bytearray()

    def __len__(self) -> int:
        """How many documents came."""
        return len(self._wide["places"])

    def __bool__(self) -> bool:
        """Whether any came or left."""
        return bool(self._gone or len(self))

    def go(self, place: int) -> None:
        """A document leaves."""
        self._gone.append(place)

    def come(self, place: int, newest: int, seniority: int, document: Document, levels: Mapping[str, int]) -> None:
        """A listed document comes, with the levels of its terms (`ranking.weigh`)."""
        wide, ends = self._wide, self._ends
        wide["places"].append(place)
        wide["newest"].append(newest)
        wide["seniority"].append(seniority)
        self._ids += document.id.encode()
        ends["id_ends"].append(len(self._ids))
        wide["keys"].extend(map(key, levels))
        self._levels += bytes(levels.values())
        for fact in dict.fromkeys(facts(document)):
            wide["keys"].append(fact_key(fact))
            self._levels.append(FACT)
        ends["key_ends"].append(len(wide["keys"]))
        for offer in document.offers[:OFFERS]:
            wide["amounts"].append(amount_key(offer.amount))
            wide["offer_keys"].extend(map(fact_key, facts_of_offer(offer.currency, offer.interval_key, offer.accepted)))
            ends["fact_ends"].append(len(wide["offer_keys"]))
        ends["offer_ends"].append(len(wide["amounts"]))

    def block(self) -> Block:
        """All of it."""
        wide = {name: _u64(values) for name, values in self._wide.items()}
        ends = {name: np.frombuffer(values, np.uint32).copy() for name, values in self._ends.items()}
        told: dict[str, Any] = {"gone": _u64(self._gone), **wide, **ends}
        levels, ids = (np.frombuffer(bytes(each), np.uint8) for each in (self._levels, self._ids))
        return Block(**told, levels=levels, id_bytes=ids)


_NARROW = ("id_ends", "key_ends", "offer_ends", "fact_ends")


def _u64(values: array[int]) -> U64:
    return np.frombuffer(values, np.uint64).copy() if values else np.zeros(0, np.uint64)


def facts_of_offer(currency: str, interval: str, accepted: Sequence[str]) -> list[str]:
    """What filters compare of an offer, the currency of its price first."""
    return [priced(currency), paid(interval), *dict.fromkeys(map(taken, accepted))]


def priced(currency: str) -> str:
    """The fact that an offer's amount is in a currency."""
    return f"anchor:{currency}"


def paid(interval: str) -> str:
    """The fact that an offer is paid at an interval."""
    return f"interval:{interval}"


def taken(currency: str) -> str:
    """The fact that an offer takes a currency."""
    return f"currency:{currency}"


def pack(block: Block) -> bytes:
    """To bytes: sizes, then the columns, little-endian, the widest first so that all lie aligned."""
    sizes = np.array([len(column) for column in block], "<u8")
    parts = b"".join((sizes.tobytes(), *(column.astype(column.dtype.newbyteorder("<")).tobytes() for column in block)))
    return _HEAD.pack(_MAGIC, len(parts)) + parts + bytes(-len(parts) % 8)


def unpack(data: bytes) -> Block:
    """From what follows a head. Raises ValueError when it does not hold what its sizes say."""
    kinds = [np.dtype("<u8")] * 7 + [np.dtype("<u4")] * 4 + [np.dtype("u1")] * 2
    sizes = np.frombuffer(data, "<u8", len(kinds)).tolist()
    at = 8 * len(kinds)
    columns: list[Any] = []
    for size, kind in zip(sizes, kinds, strict=True):
        columns.append(np.frombuffer(data, kind, size, at))
        at += size * kind.itemsize
    if at != len(data):
        raise ValueError(f"a block of listed documents has {len(data):,} bytes where its sizes say {at:,}")
    return Block(*columns)


class Log:
    """The file of blocks. One process appends; any number read."""

    def __init__(self, path: Path, *, write: bool) -> None:
        """Open the file; for writing it is made when missing. Raises OSError."""
        self._path = path
        self._file = os.open(path, (os.O_RDWR | os.O_CREAT if write else os.O_RDONLY) | os.O_CLOEXEC, 0o644)

    def append(self, data: bytes, at: int) -> int:
        """Write from a place on, where the valid part ends: what a crash left beyond it is overwritten. Not yet
        durable: `sync` makes it so. The new end."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self._file, view, at)
            view, at = view[written:], at + written
        return at

    def sync(self) -> None:
        """Flush to the disk."""
        os.fsync(self._file)

    def blocks(self, start: int, end: int) -> Iterator[Block]:
        """What the valid part says from a place on. Raises OSError, or ValueError where it is damaged."""
        while start < end:
            magic, size = _HEAD.unpack(self._read(start, _HEAD.size))
            start += _HEAD.size
            if magic != _MAGIC or start + size > end:
                raise ValueError(f"{self._path} is damaged at {start:,}: rebuild the index")
            yield unpack(self._read(start, size))
            start += size + -size % 8

    def _read(self, start: int, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = os.pread(self._file, size - len(data), start + len(data))
            if not more:
                raise ValueError(f"{self._path} ends at {start + len(data):,}: rebuild the index")
            data += more
        return bytes(data)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
