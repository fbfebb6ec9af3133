"""Bitcom tapes after an OP_RETURN, and MAP (Magic Attribute Protocol) among them; B and AIP are recognised.

A tape is a run of pushes between `|` pushes; its first push names the protocol. Sources: the bitcom wiki's protocol
prefixes, and what indexers in the field read: SET only, all MAP tapes of an output merged, a later key wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from parsers.envelope import Inscription
from parsers.script import OP_RETURN, ops, pushes

PREFIX = b"1PuQa7K62MiKCtssSLKy1kh56WWU7MtUR5"
B_PREFIX = b"19HxigV4QyBv3tHpQVcUEQyq1pzZVdoAut"
AIP_PREFIX = b"15PciHG22SNLQJXMoSUaWVi7WSqc7hCfva"
SEPARATOR = b"|"

MAX_KEY = 256
MAX_VALUE = 1024
MAX_KEYS = 256

_NAMES = {PREFIX: "MAP", B_PREFIX: "B", AIP_PREFIX: "AIP", b"SIGMA": "SIGMA"}


class Tape(NamedTuple):
    """One tape. `start` is the byte offset of the OP_RETURN or `|` push before it."""

    start: int
    pushes: tuple[bytes, ...]

    @property
    def protocol(self) -> str:
        """The short name of a known protocol, else the first push as text (at most 64 characters)."""
        return _NAMES.get(self.pushes[0]) or self.pushes[0][:256].decode("utf-8", "replace")[:64]


class B(NamedTuple):
    """A file on a B tape: data, media type, encoding and file name ("" when absent)."""

    data: bytes
    media_type: str
    encoding: str = ""
    filename: str = ""


class Aip(NamedTuple):
    """A signature on an AIP tape, as claimed: it is read, not verified. `indexes` are the pushes it says it covers."""

    algorithm: str
    address: str
    signature: bytes
    indexes: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Map:
    """All MAP of an output. `fields` come from SET commands, merged in script order; `commands` are those seen.

    `oddities`: `odd-key` (a key without a value), `key-size`, `value-size`, `not-utf8`, `keys` (more than 256 keys).
    """

    fields: dict[str, str] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    oddities: tuple[str, ...] = ()


def tapes(script: bytes) -> list[Tape]:
    """The tapes after the script's first OP_RETURN, empty ones left out.

    `|` separates only as a push of its own. OP_1 to OP_16 count as pushes of one byte. Any other opcode ends its tape,
    and what follows is skipped up to the next `|`. A push that runs past the script takes nothing back.
    """
    if OP_RETURN not in script:
        return []
    walk = ops(script)
    start = next((op.start for op in walk if op.opcode == OP_RETURN), -1)
    found: list[Tape] = []
    items: list[bytes] = []
    reading = start >= 0
    for op in walk:
        if op.data == SEPARATOR:
            found.append(Tape(start, tuple(items)))
            start, items, reading = op.start, [], True
        elif op.data is None:
            reading = False
        elif reading:
            items.append(op.data)
    found.append(Tape(start, tuple(items)))
    return [tape for tape in found if tape.pushes]


def read(script: bytes, inscription: Inscription | None = None) -> Map | None:
    """All MAP of an output: its tapes, and the envelope's field named by the prefix, merged in script order.

    None when there is no MAP at all; a Map without fields when there are only commands other than SET.
    """
    if PREFIX not in script:
        return None
    sources = [(tape.start, tape.pushes[1:]) for tape in tapes(script) if tape.pushes[0] == PREFIX]
    nested = nested_pushes(inscription)
    if inscription is not None and nested is not None:
        sources.append((inscription.start, nested))
    return merge(pushes for _, pushes in sorted(sources, key=lambda source: source[0]))


def read_field(inscription: Inscription) -> Map | None:
    """The MAP inside an envelope alone, as tapscripts carry it (law 3a)."""
    nested = nested_pushes(inscription)
    return None if nested is None else merge([nested])


def nested_pushes(inscription: Inscription | None) -> tuple[bytes, ...] | None:
    """The pushes of the envelope's field named by the MAP prefix, whose value is a script: `SET <key> <value>` …"""
    value = inscription.field(PREFIX) if inscription else None
    if value is None:
        return None
    items = (op.data for op in ops(value))
    return tuple(
        item for item in takewhile(lambda item: item is not None and item != SEPARATOR, items) if item is not None
    )


def merge(sources: Iterable[tuple[bytes, ...]]) -> Map | None:
    """One Map of several tapes (each without its prefix), None of none. A later key wins and keeps its first place."""
    fields: dict[str, str] = {}
    commands: list[str] = []
    oddities: dict[str, None] = {}
    for command, *items in (source or (b"",) for source in sources):
        commands.append(command[:64].decode("utf-8", "replace"))
        if command == b"SET":
            _set(fields, items, oddities)
    return Map(fields, tuple(commands), tuple(oddities)) if commands else None


def _set(fields: dict[str, str], items: list[bytes], oddities: dict[str, None]) -> None:
    if len(items) % 2:
        oddities["odd-key"] = None
    for key, value in zip(items[0::2], items[1::2], strict=False):
        if (oddity := _pair(fields, key, value)) is not None:
            oddities[oddity] = None


def _pair(fields: dict[str, str], key: bytes, value: bytes) -> str | None:
    """Set one pair, or say why it is skipped."""
    if len(key) > MAX_KEY:
        return "key-size"
    if len(value) > MAX_VALUE:
        return "value-size"
    try:
        name, text = _text(key), _text(value)
    except UnicodeDecodeError:
        return "not-utf8"
    if name not in fields and len(fields) >= MAX_KEYS:
        return "keys"
    fields[name] = text
    return None


def _text(raw: bytes) -> str:
    """Text as indexers in the field keep it: NUL, and its JSON escape, are a space."""
    return raw.decode("utf-8").replace("\0", " ").replace("\\u0000", " ")


def read_b(tape: Tape) -> B | None:
    """The file of a B tape, None when this is none or too short."""
    if tape.pushes[0] != B_PREFIX or len(tape.pushes) < 3:
        return None
    texts = [item[:256].decode("utf-8", "replace") for item in tape.pushes[2:5]]
    return B(tape.pushes[1], *texts)


def read_aip(tape: Tape) -> Aip | None:
    """The signature claimed on an AIP tape, not verified; None when this is none or too short."""
    if tape.pushes[0] != AIP_PREFIX or len(tape.pushes) < 4:
        return None
    algorithm, address = (item[:64].decode("utf-8", "replace") for item in tape.pushes[1:3])
    return Aip(algorithm, address, tape.pushes[3], tape.pushes[4:])


def build(fields: Mapping[str, str], *more: tuple[bytes, ...]) -> bytes:
    """`OP_RETURN`, a MAP SET tape of `fields`, then each of `more` as a tape of its own.

    Raises ValueError for a key or value that a reader would skip, change or take for a separator.
    """
    script = bytes((OP_RETURN,)) + pushes(PREFIX) + build_field(fields)
    for items in more:
        script += pushes(SEPARATOR, *items)
    return script


def build_field(fields: Mapping[str, str]) -> bytes:
    """The value of an envelope's MAP field: a script `SET <key> <value>` … Raises ValueError as `build` does."""
    scratch: dict[str, str] = {}
    items = [b"SET"]
    for key, value in fields.items():
        pair = (key.encode(), value.encode())
        if SEPARATOR in pair or _pair(scratch, *pair) is not None or scratch.get(key) != value:
            raise ValueError(f"{key[:64]!r}: {value[:64]!r} cannot be written as MAP")
        items += pair
    return pushes(*items)
