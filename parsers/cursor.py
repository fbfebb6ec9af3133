"""A cursor over bytes that refuses to run past the end: what binary proofs are read with."""

from __future__ import annotations

from parsers.errors import ParseError


class Cursor:
    """Reads forward from `at` (bytes). Every method raises ParseError naming the byte where reading stopped."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at, self.end = data, at, len(data)

    def take(self, size: int, what: str) -> bytes:
        """The next `size` bytes."""
        start = self.at
        if size > self.end - start:
            raise ParseError(f"{what} of {size:,} bytes runs past the end", start)
        self.at = start + size
        return self.data[start : self.at]

    def byte(self, what: str) -> int:
        """The next byte as a number."""
        return self.take(1, what)[0]

    def varint(self, what: str) -> int:
        """A Bitcoin varint (CompactSize), also one that is longer than it need be."""
        first = self.byte(what)
        if first < 0xFD:
            return first
        return int.from_bytes(self.take(1 << (first - 0xFC), what), "little")

    def count(self, what: str, smallest: int) -> int:
        """A varint that counts items of at least `smallest` bytes each: a claim beyond the data is refused."""
        start = self.at
        count = self.varint(f"the number of {what}")
        if count * smallest > self.end - self.at:
            raise ParseError(f"{count:,} {what} do not fit in {self.end - self.at:,} bytes", start)
        return count

    def finish(self, what: str) -> None:
        """Refuse bytes that are left over after `what`."""
        if self.at != self.end:
            raise ParseError(f"{self.end - self.at:,} bytes follow {what}", self.at)
