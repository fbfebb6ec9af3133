"""Bitcom tapes after an OP_RETURN, and the MAP (Magic Attribute Protocol) records among them.

A tape is a run of pushes between `|` pushes; its first push is the prefix of its protocol. Sources: the bitcom wiki's
list of prefixes, and the behaviour of indexers in the field: only SET counts, all MAP tapes of an output are merged,
and a later key wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from parsers.bitcoin.script import OP_RETURN, ops, pushes
from parsers.inscriptions.envelope import Inscription

PREFIX = b"1PuQa7K62MiKCtssSLKy1kh56WWU7MtUR5"
SEPARATOR = b"|"

MAX_KEY = 256
MAX_VALUE = 1024
MAX_KEYS = 256


class Tape(NamedTuple):
    """One tape: its pushes, and in `start` the byte offset of the OP_RETURN or `|` push before it."""

    start: int
    pushes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Map:
    """The MAP record of an output: the `fields` of its SET commands, merged in script order, and all its `commands`.

    `oddities`: `odd-key` (a key without a value), `key-size`, `value-size`, `not-utf8`, `keys` (more than 256 keys).
    """

    fields: dict[str, str] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    oddities: tuple[str, ...] = ()


def tapes(script: bytes) -> list[Tape]:
    """The tapes after the script's first OP_RETURN, without empty ones.

    Only a push of exactly `|` separates tapes. OP_1NEGATE and OP_1 to OP_16 count as pushes of one byte. Any other
    opcode ends its tape, and the bytes up to the next `|` are skipped. A push that runs past the script ends the last
    tape.
    """
    if OP_RETURN not in script:
        return []
    walk = ops(script)
    start = next((op.start for op in walk if op.opcode == OP_RETURN), -1)
    complete: list[Tape] = []
    items: list[bytes] = []
    reading = start >= 0
    for op in walk:
        if op.data == SEPARATOR:
            complete.append(Tape(start, tuple(items)))
            start, items, reading = op.start, [], True
        elif op.data is None:
            reading = False
        elif reading:
            items.append(op.data)
    complete.append(Tape(start, tuple(items)))
    return [tape for tape in complete if tape.pushes]


def read(script: bytes, inscription: Inscription | None = None) -> Map | None:
    """The MAP record of an output: its tapes and the envelope's field with MAP's prefix, merged in script order.

    None without any MAP; a Map without fields when all commands are other than SET.
    """
    if PREFIX not in script:
        return None
    sources = [(tape.start, tape.pushes[1:]) for tape in tapes(script) if tape.pushes[0] == PREFIX]
    nested = nested_pushes(inscription)
    if inscription is not None and nested is not None:
        sources.append((inscription.start, nested))
    return merge(pushes for _, pushes in sorted(sources, key=lambda source: source[0]))


def read_field(inscription: Inscription) -> Map | None:
    """The MAP record inside an envelope, where tapscripts have it (law 3a); None without one."""
    nested = nested_pushes(inscription)
    return None if nested is None else merge([nested])


def nested_pushes(inscription: Inscription | None) -> tuple[bytes, ...] | None:
    """The pushes in the envelope's field with MAP's prefix, a script `SET <key> <value>` …; None without the field."""
    value = inscription.field(PREFIX) if inscription else None
    if value is None:
        return None
    items = (op.data for op in ops(value))
    return tuple(
        item for item in takewhile(lambda item: item is not None and item != SEPARATOR, items) if item is not None
    )


def merge(sources: Iterable[tuple[bytes, ...]]) -> Map | None:
    """Merge tapes (without their prefix) into one Map, None without a tape; a later value replaces an earlier one."""
    fields: dict[str, str] = {}
    commands: list[str] = []
    oddities: dict[str, None] = {}
    for command, *items in (source or (b"",) for source in sources):
        commands.append(command[:64].decode("utf-8", "replace"))
        if command != b"SET":
            continue
        if len(items) % 2:
            oddities["odd-key"] = None
        for key, value in zip(items[0::2], items[1::2], strict=False):
            if (oddity := _pair(fields, key, value)) is not None:
                oddities[oddity] = None
    return Map(fields, tuple(commands), tuple(oddities)) if commands else None


def _pair(fields: dict[str, str], key: bytes, value: bytes) -> str | None:
    """Set one pair, or return the oddity for which it is skipped."""
    if len(key) > MAX_KEY:
        return "key-size"
    if len(value) > MAX_VALUE:
        return "value-size"
    try:
        # NUL and its JSON escape become spaces, as in other indexers
        name, text = (raw.decode("utf-8").replace("\0", " ").replace("\\u0000", " ") for raw in (key, value))
    except UnicodeDecodeError:
        return "not-utf8"
    if name not in fields and len(fields) >= MAX_KEYS:
        return "keys"
    fields[name] = text
    return None


def build(fields: Mapping[str, str], *further: tuple[bytes, ...]) -> bytes:
    """A script of `OP_RETURN`, a MAP SET tape of `fields`, and further tapes.

    Raises ValueError for a key or value that `read` would skip, change or take for a separator.
    """
    script = bytes((OP_RETURN,)) + pushes(PREFIX) + build_field(fields)
    for items in further:
        script += pushes(SEPARATOR, *items)
    return script


def build_field(fields: Mapping[str, str]) -> bytes:
    """The value of an envelope's MAP field, a script `SET <key> <value>` …; raises ValueError as `build` does."""
    scratch: dict[str, str] = {}
    items = [b"SET"]
    for key, value in fields.items():
        pair = (key.encode(), value.encode())
        if SEPARATOR in pair or _pair(scratch, *pair) is not None or scratch.get(key) != value:
            raise ValueError(f"{key[:64]!r}: {value[:64]!r} cannot be written as MAP")
        items += pair
    return pushes(*items)
