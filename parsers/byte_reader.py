"""A forward reader over bytes that refuses to run past the end: what transactions, proofs and CIDs are parsed with."""

from __future__ import annotations

from parsers.errors import ParseError


class ByteReader:
    """Reads forward from byte `offset` of `data`. Every method raises `error` naming the offset where it stopped.
    `budget` is how many items may be counted in all, and `max_items` how many at once, None for any number."""

    __slots__ = ("budget", "data", "end", "max_items", "offset")

    error: type[ParseError] = ParseError

    def __init__(self, data: bytes, offset: int = 0, budget: int | None = None, max_items: int | None = None) -> None:
        self.data, self.offset, self.end, self.budget, self.max_items = data, offset, len(data), budget, max_items

    def take(self, size: int, what: str) -> bytes:
        """The next `size` bytes; `what` names them in the error."""
        start = self.offset
        if size > self.end - start:
            raise self.error(f"{what} of {size:,} bytes runs past the end", start)
        self.offset = start + size
        return self.data[start : self.offset]

    def byte(self, what: str) -> int:
        """The next byte as a number."""
        return self.take(1, what)[0]

    def varint(self, what: str) -> int:
        """A Bitcoin varint (CompactSize, little-endian), in any of its lengths."""
        first = self.byte(what)
        if first < 0xFD:
            return first
        return int.from_bytes(self.take(1 << (first - 0xFC), what), "little")

    def count(self, what: str, smallest: int) -> int:
        """A varint that counts items of at least `smallest` bytes; raises for more than the remaining data can hold."""
        start = self.offset
        count = self.varint(f"the number of {what}")
        if count * smallest > self.end - self.offset:
            raise self.error(f"{count:,} {what} do not fit in {self.end - self.offset:,} bytes", start)
        self.spend(count, what, start)
        if self.max_items is not None and count > self.max_items:
            raise self.error(f"{count:,} {what}, where at most {self.max_items:,} are read", start)
        return count

    def spend(self, count: int, what: str, start: int) -> None:
        """Take `count` items, read from byte `start` on, off the budget; raises where they are more than are left."""
        if self.budget is not None:
            self.budget -= count
            if self.budget < 0:
                raise self.error(f"{count:,} {what} are more than are read here", start)

    def finish(self, what: str) -> None:
        """Refuse bytes that are left over after `what`."""
        if self.offset != self.end:
            raise self.error(f"{self.end - self.offset:,} bytes follow {what}", self.offset)
