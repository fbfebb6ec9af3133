"""Ord envelopes: files inside scripts (law 2), and inside a taproot input's tapscript (law 3a).

An envelope is `OP_FALSE OP_IF "ord"`, pairs of field and value, the body, `OP_ENDIF`. It is found by walking opcodes:
the same bytes inside a push are no envelope, and real contracts carry them there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from parsers.script import OP_1, OP_CODESEPARATOR, OP_ENDIF, OP_FALSE, OP_IF, Op, ops, push, pushes

Field = tuple[bytes, bytes]

MARK = b"ord"
CONTENT_TYPE = b"\x01"
_BODY_TAGS = (b"", b"\x00")
_OPENING = bytes((OP_FALSE, OP_IF)) + push(MARK)
_ANNEX = 0x50
_MOST_NEAR = 16
_CONTROL_BLOCKS = frozenset(range(33, 33 + 32 * 128 + 1, 32))


@dataclass(frozen=True, slots=True)
class Inscription:
    """A complete envelope. `start` and `end` are its byte offsets in the script, OP_FALSE and OP_ENDIF included.

    `fields` holds every pair as it stands, the content type and repeated ones too. `oddities` says what is unusual:
    `pushed-tag`, `repeated-field`, `content-type-not-utf8`.
    """

    content_type: str
    body: bytes
    fields: tuple[Field, ...] = ()
    oddities: tuple[str, ...] = ()
    start: int = 0
    end: int = 0

    def field(self, name: bytes) -> bytes | None:
        """The value of the last field called `name`, or None."""
        return next((value for key, value in reversed(self.fields) if key == name), None)


class NearMiss(NamedTuple):
    """What resembles an envelope and is none: a reason code, and the content type it declares ("" when it has none)."""

    code: str
    content_type: str = ""


def read(script: bytes) -> Inscription | None:
    """The first valid envelope of an output script, or None. Linear in the script, whatever it holds."""
    if MARK not in script:
        return None
    return next((found for found in _attempts(script) if isinstance(found, Inscription)), None)


def near_misses(script: bytes) -> tuple[NearMiss, ...]:
    """What resembles an envelope in a script that holds no valid one: without repeats, at most 16."""
    if MARK not in script:
        return ()
    found: dict[NearMiss, None] = {}
    for attempt in _attempts(script):
        if isinstance(attempt, Inscription):
            return ()
        if len(found) < _MOST_NEAR:
            found[attempt] = None
    if not found and _OPENING in script:
        pushed = next((op.data for op in ops(script) if op.data is not None and _OPENING in op.data), None)
        if pushed is not None:
            inner = read(pushed)
            found[NearMiss("envelope-in-push", inner.content_type if inner else "")] = None
    return tuple(found)


def is_json(content_type: str) -> bool:
    """Whether this is `application/json`; case and parameters do not matter (RFC 9110 §8.3.1)."""
    return content_type.partition(";")[0].strip().lower() == "application/json"


def _attempts(script: bytes) -> Iterator[Inscription | NearMiss]:
    walk = ops(script)
    before = last = -1
    for op in walk:
        if op.data == MARK and last == OP_IF and before == OP_FALSE:
            found, before, last = _envelope(walk, op.start - 2)
            yield found
        else:
            before, last = last, op.opcode


def _envelope(walk: Iterator[Op], start: int) -> tuple[Inscription | NearMiss, int, int]:
    """Read what follows `OP_FALSE OP_IF "ord"`; also gives the last two opcodes taken, which may open another one."""
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

    Here the body is all pushes after the empty tag, joined. A witness that spends no tapscript holds none.
    """
    script = tapscript(witness)
    if script is None or MARK not in script:
        return []
    found = []
    walk = ops(script)
    before = last = -1
    for op in walk:
        if op.data == MARK and last == OP_IF and before == OP_FALSE:
            items, before, stop = _run(walk)
            last = stop.opcode if stop else -1
            if stop is not None and last == OP_ENDIF and (one := _from_items(items, op.start - 2, stop.end)):
                found.append(one)
        else:
            before, last = last, op.opcode
    return found


def tapscript(witness: tuple[bytes, ...]) -> bytes | None:
    """The script of a taproot script-path spend: the item before the control block, the annex left out (BIP 341)."""
    stack = witness[:-1] if len(witness) >= 2 and witness[-1][:1] == bytes((_ANNEX,)) else witness
    if len(stack) < 2 or len(stack[-1]) not in _CONTROL_BLOCKS:
        return None
    return stack[-2]


def _run(walk: Iterator[Op]) -> tuple[list[bytes], int, Op | None]:
    """The pushes up to the first opcode that is none, the opcode of the last of them, and that opcode."""
    items: list[bytes] = []
    before = -1
    for op in walk:
        if op.data is None:
            return items, before, op
        items.append(op.data)
        before = op.opcode
    return items, before, None


def _from_items(items: list[bytes], start: int, end: int) -> Inscription | None:
    body_at = next((at for at in range(0, len(items), 2) if not items[at]), None)
    if body_at is None:
        return None
    fields = list(zip(items[0:body_at:2], items[1:body_at:2], strict=True))
    return _inscription(b"".join(items[body_at + 1 :]), fields, False, start, end)


def build(content_type: str | None, body: bytes, fields: Iterable[Field] = (), *, pushed_tag: bool = False) -> bytes:
    """An envelope. `fields` come before the content type (None: without one); `pushed_tag` pushes the byte 1, not OP_1.

    Raises ValueError for a field whose name would be read as the body's.
    """
    parts = [_OPENING, _pairs(fields)]
    if content_type is not None:
        parts += [b"\x01\x01" if pushed_tag else push(CONTENT_TYPE), push(content_type.encode())]
    return b"".join([*parts, bytes((OP_FALSE,)), push(body), bytes((OP_ENDIF,))])


def build_witness(content_type: str, body: bytes, fields: Iterable[Field] = (), *, chunk: int = 520) -> bytes:
    """An envelope for a tapscript, its body in pushes of at most `chunk` bytes (520 is the consensus limit).

    The content type's tag is a pushed byte, as ord writes it.
    """
    head = [_OPENING, _pairs(fields), b"\x01\x01", push(content_type.encode()), bytes((OP_FALSE,))]
    cuts = [*range(0, len(body), chunk), len(body)]
    return b"".join([*head, *(push(body[at:end]) for at, end in pairwise(cuts)), bytes((OP_ENDIF,))])


def _pairs(fields: Iterable[Field]) -> bytes:
    parts = []
    for name, value in fields:
        if name in _BODY_TAGS:
            raise ValueError(f"a field named {name!r} would be read as the body")
        parts.append(pushes(name, value))
    return b"".join(parts)


def build_output(
    lock: bytes, envelope: bytes, tail: bytes = b"", *, envelope_first: bool = True, separator: bool = False
) -> bytes:
    """An output script: envelope and lock in either order, OP_CODESEPARATOR between if wanted, then `tail` (MAP)."""
    between = bytes((OP_CODESEPARATOR,)) if separator else b""
    return (envelope + between + lock if envelope_first else lock + between + envelope) + tail
