"""The members of a stranger's JSON object, taken one by one and by type."""

from __future__ import annotations

from typing import Any, TypeVar

from parsers.tx import Outpoint

_LARGEST = 2**63 - 1
_T = TypeVar("_T")


class SnapshotError(Exception):
    """A file that is no snapshot, or that contradicts itself: the message says where and what."""


class Fields:
    """One JSON object of a stranger's: every member is taken once and by type, and nothing may be left over.

    Raises SnapshotError naming the member.
    """

    def __init__(self, value: Any, what: str) -> None:
        if not isinstance(value, dict):
            raise SnapshotError(f"{what} is not an object")
        self._left, self._what = dict(value), what

    def take(self, name: str, kind: type[_T]) -> _T:
        """A member of exactly this type."""
        value = self._left.pop(name, self)
        if type(value) is not kind:
            raise SnapshotError(f"{name} of {self._what} is {_said(value)}, and must be a {kind.__name__}")
        return value

    def has(self, name: str) -> bool:
        """Whether there is such a member."""
        return name in self._left

    def maybe(self, name: str, kind: type[_T]) -> _T | None:
        """A member of this type, or null."""
        if name in self._left and self._left[name] is None:
            del self._left[name]
            return None
        return self.take(name, kind)

    def number(self, name: str, most: int = _LARGEST) -> int:
        """A whole number from 0 to `most`."""
        value = self.take(name, int)
        if not 0 <= value <= most:
            raise SnapshotError(f"{name} of {self._what} is {value}, and must be from 0 to {most}")
        return value

    def hex(self, name: str, size: int = 32) -> bytes:
        """Bytes of that size, written as lower-case hex."""
        text = self.take(name, str)
        try:
            value = bytes.fromhex(text)
        except ValueError:
            value = b""
        if len(value) != size or value.hex() != text:
            raise SnapshotError(f"{name} of {self._what} is {text[:70]!a}, and must be {size} bytes of hex")
        return value

    def maybe_none(self, name: str, size: int) -> bytes:
        """Bytes of that size, or none at all."""
        return self.hex(name, 0 if self._left.get(name) == "" else size)

    def maybe_hex(self, name: str) -> bytes | None:
        """32 bytes of hex, or null."""
        return self.maybe(name, type(None)) if self._left.get(name, "") is None else self.hex(name)

    def outpoint(self, name: str) -> Outpoint:
        """An outpoint as `str(Outpoint)` writes it."""
        text = self.take(name, str)
        try:
            value = Outpoint.parse(text)
        except ValueError as error:
            raise SnapshotError(f"{name} of {self._what}: {error}") from None
        if str(value) != text:
            raise SnapshotError(f"{name} of {self._what} is {text[:80]!a}, written otherwise than {value}")
        return value

    def maybe_outpoint(self, name: str) -> Outpoint | None:
        """An outpoint, or null."""
        return self.maybe(name, type(None)) if self._left.get(name, "") is None else self.outpoint(name)

    def word(self, name: str, words: type[_T]) -> _T:
        """A member of an enumeration."""
        text = self.take(name, str)
        try:
            return words(text)  # type: ignore[call-arg]
        except ValueError:
            raise SnapshotError(f"{name} of {self._what} is {text[:40]!a}, which is not a {words.__name__}") from None

    def nothing_left(self) -> None:
        """Refuse members that nobody knows."""
        if self._left:
            raise SnapshotError(f"{self._what} has a member {next(iter(self._left))[:60]!a} that is not known")


def _said(value: Any) -> str:
    return "missing" if isinstance(value, Fields) else f"{value!a:.60}"
