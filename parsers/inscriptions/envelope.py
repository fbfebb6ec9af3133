"""Ord envelopes: files inside output scripts (law 2). Those in the tapscripts of inputs are read by `tapscript`.

An envelope is `OP_FALSE OP_IF "ord"`, pairs of field and value, the body, `OP_ENDIF`. Parsing walks opcodes: the same
bytes inside a push, which real contracts contain, are not an envelope.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from parsers.bitcoin.script import OP_1, OP_ENDIF, OP_FALSE, OP_IF, Op, ops, push, pushes

Field = tuple[bytes, bytes]

MARK = b"ord"
CONTENT_TYPE, CONTENT_ENCODING = b"\x01", b"\x09"
_BODY_TAGS = (b"", b"\x00")
_OPENING = bytes((OP_FALSE, OP_IF)) + push(MARK)
_MAX_NEAR_MISSES = 16


@dataclass(frozen=True, slots=True)
class Inscription:
    """A complete envelope. `start` and `end` are its byte offsets in the script, OP_FALSE and OP_ENDIF included.

    `fields` holds every pair in order, including the content type and repetitions. `oddities` lists what is unusual:
    `pushed-tag`, `repeated-field`, `content-type-not-utf8`.
    """

    content_type: str
    body: bytes
    fields: tuple[Field, ...] = ()
    oddities: tuple[str, ...] = ()
    start: int = 0
    end: int = 0

    def field(self, name: bytes) -> bytes | None:
        """The value of the last field with this name, None without one."""
        return next((value for key, value in reversed(self.fields) if key == name), None)

    @property
    def encoding(self) -> str:
        """The content encoding that the envelope declares (gzip, br), "" for none."""
        return (self.field(CONTENT_ENCODING) or b"")[:100].decode("utf-8", "replace")


class NearMiss(NamedTuple):
    """Bytes that resemble an envelope but are not one: a reason code, and the content type they declare ("" for
    none)."""

    code: str
    content_type: str = ""


def read(script: bytes) -> Inscription | None:
    """The first valid envelope of an output script, None without one. Takes time linear in the script; never raises."""
    if MARK not in script:
        return None
    return next((attempt for attempt in _attempts(script) if isinstance(attempt, Inscription)), None)


def near_misses(script: bytes) -> tuple[NearMiss, ...]:
    """The near misses of a script without a valid envelope, each once, at most 16; empty for a script with one."""
    if MARK not in script:
        return ()
    misses: dict[NearMiss, None] = {}
    for attempt in _attempts(script):
        if isinstance(attempt, Inscription):
            return ()
        if len(misses) < _MAX_NEAR_MISSES:
            misses[attempt] = None
    if not misses and _OPENING in script:
        pushed = next((op.data for op in ops(script) if op.data is not None and _OPENING in op.data), None)
        if pushed is not None:
            inner = read(pushed)
            misses[NearMiss("envelope-in-push", inner.content_type if inner else "")] = None
    return tuple(misses)


def is_json(content_type: str) -> bool:
    """Whether a content type is `application/json`; case and parameters are ignored (RFC 9110 §8.3.1)."""
    return content_type.partition(";")[0].strip().lower() == "application/json"


def _attempts(script: bytes) -> Iterator[Inscription | NearMiss]:
    walk = ops(script)
    before = last = -1
    for op in walk:
        if op.data == MARK and last == OP_IF and before == OP_FALSE:
            attempt, before, last = _envelope(walk, op.start - 2)
            yield attempt
        else:
            before, last = last, op.opcode


def _envelope(walk: Iterator[Op], start: int) -> tuple[Inscription | NearMiss, int, int]:
    """Parse the script after `OP_FALSE OP_IF "ord"`; also returns the last two opcodes walked, which may open
    another."""
    fields: list[Field] = []
    pushed_tag = False
    before = -1
    for tag in walk:
        if tag.data is None:
            return _stopped(tag, "envelope-no-body", fields), before, tag.opcode
        value = next(walk, None)
        is_body = tag.data in _BODY_TAGS
        if value is None or value.data is None:
            return _stopped(value, "envelope-open", fields, is_body), tag.opcode, value.opcode if value else -1
        if is_body:
            close = next(walk, None)
            if close is None or close.opcode != OP_ENDIF:
                return _near("envelope-open", fields), value.opcode, close.opcode if close else -1
            oddities = ("pushed-tag",) if pushed_tag else ()
            raw = _content_type(fields)
            shown = _described(value.data, tuple(fields), raw, oddities, start, close.end)
            return shown, value.opcode, close.opcode
        pushed_tag |= tag.data == CONTENT_TYPE and tag.opcode != OP_1
        fields.append((tag.data, value.data))
        before = value.opcode
    return _near("envelope-open", fields), -1, -1


def _stopped(op: Op | None, at_endif: str, fields: list[Field], is_body: bool = False) -> NearMiss:
    if op is None or op.truncated:
        return _near("body-truncated" if op and is_body else "envelope-open", fields)
    return _near(at_endif if op.opcode == OP_ENDIF else "envelope-opcode", fields)


def _near(code: str, fields: list[Field]) -> NearMiss:
    return NearMiss(code, _content_type(fields)[:256].decode("utf-8", "replace"))


def _content_type(fields: list[Field]) -> bytes:
    return next((value for name, value in reversed(fields) if name == CONTENT_TYPE), b"")


def inscription(body: bytes, fields: list[Field], start: int, end: int) -> Inscription:
    """An inscription with the first value of each of these fields, as ordinals have it (law 3a)."""
    first: dict[bytes, bytes] = {}
    for name, value in fields:
        first.setdefault(name, value)
    oddities = ("repeated-field",) if len(first) < len(fields) else ()
    return _described(body, tuple(first.items()), first.get(CONTENT_TYPE, b""), oddities, start, end)


def _described(
    body: bytes, fields: tuple[Field, ...], raw: bytes, oddities: tuple[str, ...], start: int, end: int
) -> Inscription:
    if len({name for name, _ in fields}) < len(fields):
        oddities = (*oddities, "repeated-field")
    content_type = raw.decode("utf-8", "replace")
    if content_type.encode() != raw:
        oddities = (*oddities, "content-type-not-utf8")
    return Inscription(content_type, body, fields, oddities, start, end)


def build(content_type: str | None, body: bytes, fields: Iterable[Field] = (), *, pushed_tag: bool = False) -> bytes:
    """An envelope with `fields` before the content type (None: no content type); `pushed_tag` pushes the byte 1 instead
    of OP_1.

    Raises ValueError for a field with a name that would be parsed as the tag of the body.
    """
    parts = [_OPENING]
    for name, value in fields:
        if name in _BODY_TAGS:
            raise ValueError(f"a field named {name!r} would be read as the body")
        parts.append(pushes(name, value))
    if content_type is not None:
        parts += [b"\x01\x01" if pushed_tag else push(CONTENT_TYPE), push(content_type.encode())]
    return b"".join([*parts, bytes((OP_FALSE,)), push(body), bytes((OP_ENDIF,))])
