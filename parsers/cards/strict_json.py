"""Strict JSON for card bytes: RFC 8259 in UTF-8, one value, within limits that are law (law 12), numbers kept exact;
and bounded JSON for requests, and for responses of other servers.

The C scanner of the standard library parses. What it accepts beyond RFC 8259 (constants, lone surrogates, repeated
keys) is caught in its hooks or by a search of the bytes; the depth is measured before it recurses.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import accumulate
from typing import Any, NamedTuple, NoReturn

from parsers.errors import CardError, ParseError
from parsers.reasons import Reason

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
MAX_DIGITS = 100
MAX_EXPONENT = 400
MAX_POINTER = 512
MAX_DUPLICATES = 64

MAX_ANSWER_DEPTH = 128
"""Levels of nesting in a response; those of other registries nest a card's members some levels down."""

FREE_VALUES, BYTES_A_VALUE = 100_000, 16
"""Values that a response may hold, plus one per this many bytes: `[[],[],…` takes 25 times its size in memory."""

_WINDOW = 1 << 16
_NO_BACKSLASH = re.compile(rb"[^\\]")
_NOT_MARKS = bytes(set(range(256)) - set(b"[]{},"))
_STEP = {0x5B: 1, 0x7B: 1, 0x5D: -1, 0x7D: -1}
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_LONE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


def loads(body: bytes) -> tuple[Any, tuple[Reason, ...]]:
    """Parse card bytes as one JSON value, with integers as int and other numbers as Decimal.

    Also returns a warning `duplicate-key` for every repeated key: its last value counts. Raises CardError with the
    reason why the bytes are refused.
    """
    if len(body) > MAX_BYTES:
        _refuse("card-size", f"{len(body):,} bytes")
    if body.startswith(b"\xef\xbb\xbf"):
        _refuse("card-bom")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse("card-utf8", f"{error.reason} at {_line_and_column(body, error.start)}")
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and outline(body).depth > MAX_DEPTH:
        _refuse("card-nesting")
    repeated: list[tuple[dict[str, Any], list[str]]] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        merged = dict(pairs)
        if len(merged) != len(pairs):
            repeated.append((merged, _repeated_keys(pairs)))
        return merged

    decoder = json.JSONDecoder(
        object_pairs_hook=members, parse_float=_decimal, parse_int=_integer, parse_constant=_constant
    )
    try:
        value = decoder.decode(text)
    except json.JSONDecodeError as error:
        what = f"{error.msg[:1].lower()}{error.msg[1:]}".removesuffix(" at").rstrip(": ")
        _refuse("card-json", f"{what} at line {error.lineno}, column {error.colno}")
    if (lone := _lone_surrogate(body)) is not None:
        _refuse("card-surrogate", f"{lone[0].decode()} at {_line_and_column(body, lone.start())}")
    return value, tuple(_duplicates(value, repeated)) if repeated else ()


class Outline(NamedTuple):
    """The depth of nesting of arrays and objects in JSON bytes, and the number of brackets and commas outside strings,
    which is never less than the number of values. Exact for valid JSON; for other bytes, the depth is at least the one
    that a parser reaches before it fails."""

    depth: int
    marks: int


def outline(body: bytes) -> Outline:
    """Measure JSON bytes without recursion, splitting no more than a window of them at a time."""
    level = deepest = marks = inside = 0
    for window in _windows(body):
        parts = window.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b"".join(parts[inside::2]).translate(None, _NOT_MARKS)
        inside ^= len(parts) & 1 ^ 1
        brackets = outside.translate(None, b",")
        marks += len(outside)
        highest = max(accumulate(map(_STEP.__getitem__, brackets), initial=level))
        deepest = max(deepest, highest)
        level += 2 * (brackets.count(b"[") + brackets.count(b"{")) - len(brackets)
    return Outline(deepest, marks)


def _windows(body: bytes) -> Iterator[bytes]:
    """The bytes in windows that do not split an escape sequence."""
    start = 0
    while start < len(body):
        whole = _NO_BACKSLASH.search(body, start + _WINDOW - 1)
        end = whole.end() if whole else len(body)
        yield body[start:end]
        start = end


def request(body: bytes) -> Any:
    """Parse the JSON of a request, which may be signed, present a token or carry a payment: as `answer`, and without
    forms that other parsers read otherwise: repeated keys and lone surrogates. Raises ParseError."""
    if (lone := _lone_surrogate(body)) is not None:
        raise ParseError(f"JSON with the lone surrogate {lone[0].decode()}")
    return answer(body, members=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ParseError(f"JSON with the key {_repeated_keys(pairs)[0][:60]!a} twice in an object")
    return members


def answer(
    body: bytes, *, exact: bool = False, members: Callable[[list[tuple[str, Any]]], dict[str, Any]] | None = None
) -> Any:
    """Parse the JSON of a response that the caller has bounded in size; numbers with a fraction or an exponent become
    float, or Decimal if `exact`, and objects what `members` makes of their pairs. Raises ParseError for bytes that are
    not JSON in UTF-8, are nested deeper than MAX_ANSWER_DEPTH, have a number beyond the limits of cards, or far more
    values than text."""
    shape = outline(body)
    if shape.depth > MAX_ANSWER_DEPTH:
        raise ParseError(f"JSON nested deeper than {MAX_ANSWER_DEPTH} levels")
    if shape.marks > FREE_VALUES + len(body) // BYTES_A_VALUE:
        raise ParseError(f"JSON of {shape.marks:,} values in {len(body):,} bytes")
    real = _decimal if exact else _float
    try:
        return json.loads(
            body.decode("utf-8"), parse_float=real, parse_int=_integer, parse_constant=_constant,
            object_pairs_hook=members,
        )  # fmt: skip
    except CardError:
        raise ParseError("JSON with a number of more than 100 digits, an exponent beyond 400, or none at all") from None
    except json.JSONDecodeError as error:
        raise ParseError(f"no JSON: {error.msg[:1].lower()}{error.msg[1:]}", error.pos) from None
    except UnicodeDecodeError as error:
        raise ParseError("no JSON, as it is not UTF-8", error.start) from None


def step(pointer: str, key: str | int) -> str:
    """The JSON Pointer (RFC 6901) of member or element `key` of the value at `pointer`, cut at 512 characters."""
    if isinstance(key, int):
        return f"{pointer}/{key}"[:MAX_POINTER]
    escaped = key[:MAX_POINTER].replace("~", "~0").replace("/", "~1").replace("\0", "\N{REPLACEMENT CHARACTER}")
    return f"{pointer}/{escaped}"[:MAX_POINTER]


def _refuse(code: str, detail: str = "") -> NoReturn:
    raise CardError((Reason(code, detail),)) from None


def _integer(literal: str) -> int:
    if len(literal) > MAX_DIGITS and len(literal.lstrip("-")) > MAX_DIGITS:
        _refuse("card-number", f"{len(literal):,} digits")
    return int(literal)


def _decimal(literal: str) -> Decimal:
    """A number with a fraction or an exponent; the digits before the exponent and the exponent's value are bounded."""
    mantissa, _, exponent = literal.lower().partition("e")
    if len(mantissa) > MAX_DIGITS:
        digits = sum(map(str.isdigit, mantissa))
        if digits > MAX_DIGITS:
            _refuse("card-number", f"{digits:,} digits")
    if exponent:
        power = exponent.lstrip("+-0")
        if len(power) > 3 or int(power or 0) > MAX_EXPONENT:
            _refuse("card-number", f"exponent {exponent[:20]}")
    return Decimal(literal)


def _float(literal: str) -> float:
    value = float(literal)
    if value in (math.inf, -math.inf):
        _refuse("card-number", literal[:20])
    return value


def _constant(name: str) -> NoReturn:
    _refuse("card-constant", name)


def _lone_surrogate(body: bytes) -> re.Match[bytes] | None:
    """The first half of a surrogate pair. The bytes are searched, not the value, because a repeated key could hide one.
    Escaped backslashes are masked."""
    return _LONE.search(body.replace(b"\\\\", b"--")) if _SURROGATE.search(body) else None


def _line_and_column(body: bytes, offset: int) -> str:
    """Line and column, from 1 and in characters, of the byte at `offset`; the bytes before it must be UTF-8."""
    *lines, last = body[:offset].decode().split("\n")
    return f"line {len(lines) + 1:,}, column {len(last) + 1:,}"


def _repeated_keys(pairs: list[tuple[str, Any]]) -> list[str]:
    seen: set[str] = set()
    repeated: dict[str, None] = {}
    for key, _ in pairs:
        if key in seen:
            repeated[key] = None
        seen.add(key)
    return list(repeated)


def _duplicates(value: Any, repeated: list[tuple[dict[str, Any], list[str]]]) -> list[Reason]:
    """A warning for every repeated key that is part of the value; values that a later key replaced are not."""
    keys_of = {id(holder): keys for holder, keys in repeated}
    warnings: list[Reason] = []
    todo: list[tuple[str, Any]] = [("", value)]
    while todo and len(warnings) < MAX_DUPLICATES:
        pointer, item = todo.pop()
        if isinstance(item, dict):
            for key in keys_of.get(id(item), ()):
                member = step(pointer, key)
                warnings.append(Reason("duplicate-key", member, member))
            todo.extend((step(pointer, key), child) for key, child in item.items() if isinstance(child, (dict, list)))
        else:
            todo.extend(
                (step(pointer, index), child) for index, child in enumerate(item) if isinstance(child, (dict, list))
            )
    return sorted(warnings[:MAX_DUPLICATES], key=lambda reason: reason.pointer)
