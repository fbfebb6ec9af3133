"""Ord envelopes: files inside output scripts (law 2), and inside the tapscript of an input (law 3a).

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
_ANNEX = 0x50
_MAX_NEAR_MISSES = 16
_CONTROL_BLOCKS = frozenset(range(33, 33 + 32 * 128 + 1, 32))


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
    """Bytes that resemble an envelope but are none: a reason code, and the content type they declare ("" for none)."""

    code: str
    content_type: str = ""


def read(script: bytes) -> Inscription | None:
    """The first valid envelope of an output script, None without one. Takes time linear in the script; never raises."""
    if MARK not in script:
        return None
    return next((attempt for attempt in _attempts(script) if isinstance(attempt, Inscription)), None)


def near_misses(script: bytes) -> tuple[NearMiss, ...]:
    """The near misses of a script without a valid envelope, each once, at most 16; none for a script that has one."""
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
    """Parse what follows `OP_FALSE OP_IF "ord"`; also returns the last two opcodes walked, which may open another."""
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
            return _inscription(value.data, fields, pushed_tag, start, close.end), value.opcode, close.opcode
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


def _inscription(body: bytes, fields: list[Field], pushed_tag: bool, start: int, end: int) -> Inscription:
    oddities = ["pushed-tag"] if pushed_tag else []
    if len({name for name, _ in fields}) < len(fields):
        oddities.append("repeated-field")
    raw = _content_type(fields)
    content_type = raw.decode("utf-8", "replace")
    if content_type.encode() != raw:
        oddities.append("content-type-not-utf8")
    return Inscription(content_type, body, tuple(fields), tuple(oddities), start, end)


def read_witness(witness: tuple[bytes, ...]) -> list[Inscription]:
    """Every envelope with a body in the tapscript of an input's witness stack, in order (law 3a, BIP 341).

    Here the body is the concatenation of all pushes after the empty tag. A witness without a tapscript has no envelope.
    """
    script = tapscript(witness)
    if script is None or MARK not in script:
        return []
    envelopes = []
    walk = ops(script)
    before = last = -1
    for op in walk:
        if op.data == MARK and last == OP_IF and before == OP_FALSE:
            items, before, stop = _run(walk)
            last = stop.opcode if stop else -1
            if stop is not None and last == OP_ENDIF and (envelope := _from_items(items, op.start - 2, stop.end)):
                envelopes.append(envelope)
        else:
            before, last = last, op.opcode
    return envelopes


def tapscript(witness: tuple[bytes, ...]) -> bytes | None:
    """The script of a taproot script-path spend: the item before the control block, ignoring the annex (BIP 341).

    None for any other witness.
    """
    stack = witness[:-1] if len(witness) >= 2 and witness[-1][:1] == bytes((_ANNEX,)) else witness
    if len(stack) < 2 or len(stack[-1]) not in _CONTROL_BLOCKS:
        return None
    return stack[-2]


def _run(walk: Iterator[Op]) -> tuple[list[bytes], int, Op | None]:
    """The pushes up to the first opcode that pushes nothing, the opcode of the last push, and that first opcode."""
    items: list[bytes] = []
    before = -1
    for op in walk:
        if op.data is None:
            return items, before, op
        items.append(op.data)
        before = op.opcode
    return items, before, None


def _from_items(items: list[bytes], start: int, end: int) -> Inscription | None:
    body_index = next((index for index in range(0, len(items), 2) if not items[index]), None)
    if body_index is None:
        return None
    fields = list(zip(items[0:body_index:2], items[1:body_index:2], strict=True))
    return _inscription(b"".join(items[body_index + 1 :]), fields, False, start, end)


def build(content_type: str | None, body: bytes, fields: Iterable[Field] = (), *, pushed_tag: bool = False) -> bytes:
    """An envelope with `fields` before the content type (None: no content type); `pushed_tag` pushes the byte 1 instead
    of OP_1.

    Raises ValueError for a field whose name would be parsed as the tag of the body.
    """
    parts = [_OPENING, _pairs(fields)]
    if content_type is not None:
        parts += [b"\x01\x01" if pushed_tag else push(CONTENT_TYPE), push(content_type.encode())]
    return b"".join([*parts, bytes((OP_FALSE,)), push(body), bytes((OP_ENDIF,))])


def _pairs(fields: Iterable[Field]) -> bytes:
    parts = []
    for name, value in fields:
        if name in _BODY_TAGS:
            raise ValueError(f"a field named {name!r} would be read as the body")
        parts.append(pushes(name, value))
    return b"".join(parts)
