"""Tolerant parsing of untrusted JSON objects: usable values are taken, others become warnings (law 12).

Texts are bounded (8 kB each, 64 kB per listing, in UTF-8) and free of U+0000. A field that is null counts as absent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from parsers.cards.strict_json import step
from parsers.reasons import Reason

MAX_TEXT = 8 << 10
MAX_LISTING = 64 << 10
MAX_WARNINGS = 100
MAX_OF_A_CODE = 16
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
Json = dict[str, Any]

_JSON_NAMES = {str: "a string", dict: "an object", list: "a list", bool: "a boolean", int: "a number"}


def kind_of(value: Any) -> str:
    """The type of a JSON value in words, for example "a list"."""
    return "null" if value is None else _JSON_NAMES.get(type(value), "a number")


class Fields:
    """Parses the fields of one listing and collects errors and warnings.

    `size` is the length in bytes of the JSON around it: text that cannot reach 64 kB is not counted. `room` is the part
    of the 64 kB that may still be taken, in bytes. `pointer` arguments are JSON Pointers (RFC 6901) of the holder.
    """

    __slots__ = ("_clipped", "_counts", "_left", "_more", "errors", "size", "warnings")

    def __init__(self, size: int, warnings: tuple[Reason, ...] = (), room: int = MAX_LISTING) -> None:
        self.size = size
        self.errors: list[Reason] = []
        self.warnings: list[Reason] = list(warnings)
        self._left: int | None = room if size > MAX_LISTING else None
        self._clipped = False
        self._more = 0
        self._counts: dict[str, int] = {}

    @property
    def room(self) -> int:
        """The part of the 64 kB of a listing that may still be taken, in bytes; all of it while it is not counted."""
        return MAX_LISTING if self._left is None else self._left

    def warn(self, code: str, detail: str = "", pointer: str = "") -> None:
        """Add a warning. Beyond 16 of a code, or 100 in total, warnings are only counted."""
        if self._wants(code):
            self.warnings.append(Reason(code, _safe(detail), pointer))

    def error(self, code: str, detail: str = "", pointer: str = "") -> None:
        """Add a broken hard rule."""
        self.errors.append(Reason(code, _safe(detail), pointer))

    def finish(self) -> tuple[Reason, ...]:
        """All warnings; the last one gives the number of warnings that were only counted."""
        if self._more:
            self.warnings.append(Reason("more-warnings", f"{self._more:,}"))
            self._more = 0
        return tuple(self.warnings)

    def wrong(self, value: Any, expected: str, *where: str | int) -> None:
        """Warn that a value has the wrong type and is ignored; `where` is a pointer and further steps."""
        if self._wants("wrong-type"):
            pointer = _joined(where)
            name = pointer.rpartition("/")[2]
            self.warnings.append(Reason("wrong-type", _safe(f"{name} is {kind_of(value)}, not {expected}"), pointer))

    def text(self, holder: Json, key: str, pointer: str = "") -> str:
        """The string member `key` of an object; empty when absent or not a string."""
        value = holder.get(key)
        if value is None:
            return ""
        if value.__class__ is not str:
            self.wrong(value, "a string", pointer, key)
            return ""
        return self.bounded(value, pointer, key)

    def texts(self, holder: Json, key: str, pointer: str, limit: int) -> tuple[str, ...]:
        """The non-blank strings of the list member `key`, at most `limit`."""
        values = self.items(holder, key, pointer)
        if self._left is None and len(values) <= limit and all(map(_is_plain, values)):
            return tuple(values)
        texts: list[str] = []
        for number, value in enumerate(values):
            if value.__class__ is not str:
                self.wrong(value, "a string", pointer, key, number)
            elif value and not value.isspace():
                if len(texts) == limit:
                    self.not_indexed(f"only the first {limit} of {key}", step(pointer, key))
                    break
                texts.append(self.bounded(value, pointer, key, number))
        return tuple(text for text in texts if text)

    def items(self, holder: Json, key: str, pointer: str = "") -> list[Any]:
        """The list member `key`; empty when absent or not a list."""
        value = holder.get(key)
        if isinstance(value, list):
            return value
        if value is not None:
            self.wrong(value, "a list", pointer, key)
        return []

    def objects(self, holder: Json, key: str, pointer: str = "") -> Iterator[tuple[str, Json]]:
        """The objects in the list member `key`, with their pointers."""
        list_at = step(pointer, key)
        for number, value in enumerate(self.items(holder, key, pointer)):
            if value.__class__ is dict:
                yield f"{list_at}/{number}", value
            else:
                self.wrong(value, "an object", list_at, number)

    def object(self, holder: Json, key: str, pointer: str = "") -> Json:
        """The object member `key`; empty when absent or not an object."""
        value = holder.get(key)
        if isinstance(value, dict):
            return value
        if value is not None:
            self.wrong(value, "an object", pointer, key)
        return {}

    def bounded(self, value: str, *where: str | int) -> str:
        """A text within the limits and without U+0000; `where` is the pointer of its holder and further steps."""
        if self._left is None and len(value) <= MAX_TEXT // 4 and "\0" not in value:
            return value
        value = value.replace("\0", REPLACEMENT)
        room = MAX_TEXT if self._left is None else min(MAX_TEXT, self._left)
        taken = cut(value, room)
        if self._left is not None:
            self._left -= len(taken.encode())
        if len(taken) < len(value) and not self._clipped:
            self._note_cut(room, where)
        return taken

    def identifier(self, value: str, *where: str | int) -> str:
        """A text that has a meaning only as a whole, for example the id of a skill: it does not count towards the 64
        kB."""
        if len(value) <= MAX_TEXT // 4 and "\0" not in value:
            return value
        taken = cut(value.replace("\0", REPLACEMENT), MAX_TEXT)
        if len(taken) < len(value):
            self._note_cut(MAX_TEXT, where)
        return taken

    def not_indexed(self, detail: str, pointer: str) -> None:
        """Warn that a part of the card is not indexed."""
        self.warn("not-indexed", detail, pointer)

    def _wants(self, code: str) -> bool:
        """Count a warning and return whether to add it; the total does not limit the code `not-indexed`."""
        count = self._counts.get(code, 0)
        if count >= MAX_OF_A_CODE or (len(self.warnings) >= MAX_WARNINGS and code != "not-indexed"):
            self._more += 1
            return False
        self._counts[code] = count + 1
        return True

    def _note_cut(self, room: int, where: tuple[str | int, ...]) -> None:
        pointer = _joined(where)
        if room == MAX_TEXT:
            self.not_indexed("only the first 8 kB of this text", pointer)
        else:
            self._clipped = True
            self.not_indexed("only the first 64 kB of text; from here on nothing", pointer)


def _is_plain(value: Any) -> bool:
    """Whether a value is a text that needs no change: the usual case, kept fast."""
    return value.__class__ is str and 0 < len(value) <= MAX_TEXT // 4 and "\0" not in value and not value.isspace()


def cut(value: str, room: int) -> str:
    """The longest prefix of a text that takes at most `room` bytes in UTF-8."""
    if len(value) * 4 <= room:
        return value
    raw = value[:room].encode()
    return value if len(raw) <= room and len(value) <= room else raw[:room].decode(errors="ignore")


def _joined(where: tuple[str | int, ...]) -> str:
    pointer = str(where[0])
    for part in where[1:]:
        pointer = step(pointer, part)
    return pointer


def _safe(detail: str) -> str:
    return cut(detail.replace("\0", REPLACEMENT), 300)
