"""Strict JSON for card bytes: RFC 8259 in UTF-8, one value, within limits that are law (law 12), numbers kept exact.

The C scanner of the standard library does the work. What it lets through (constants, lone surrogates, repeated keys)
is caught in its hooks or by one look at the bytes; depth is measured before it may recurse.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from itertools import accumulate
from typing import Any, NoReturn

from parsers.errors import CardError
from parsers.reasons import Reason

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
MAX_DIGITS = 100
MAX_EXPONENT = 400
MAX_POINTER = 512
MAX_DUPLICATES = 64

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {0x5B: 1, 0x7B: 1, 0x5D: -1, 0x7D: -1}
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_LONE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


def loads(body: bytes) -> tuple[Any, tuple[Reason, ...]]:
    """Read card bytes as one JSON value; integers come as int, other numbers as Decimal.

    Also returns a warning `duplicate-key` for each repeated key, whose last value counts. Raises CardError with the
    one reason why the bytes are refused.
    """
    text = _text(body)
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and depth(body) > MAX_DEPTH:
        _refuse("card-nesting")
    repeated: list[tuple[dict[str, Any], list[str]]] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            repeated.append((found, _repeated_keys(pairs)))
        return found

    decoder = json.JSONDecoder(
        object_pairs_hook=members, parse_float=_decimal, parse_int=_integer, parse_constant=_constant
    )
    try:
        value = decoder.decode(text)
    except json.JSONDecodeError as error:
        _refuse("card-json", f"{error.msg[:1].lower()}{error.msg[1:]} at line {error.lineno}, column {error.colno}")
    if _SURROGATE.search(body):
        _refuse_lone_surrogates(body)
    return value, tuple(_duplicates(value, repeated)) if repeated else ()


def depth(body: bytes) -> int:
    """The deepest nesting of arrays and objects in JSON bytes, brackets inside strings not counted, without recursion.

    Exact for JSON; for bytes that are not, at least the depth that a parser reaches before it finds out.
    """
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(unescaped.split(b'"')[::2]).translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)


def step(pointer: str, key: str | int) -> str:
    """The JSON Pointer (RFC 6901) of member or element `key` of what `pointer` names, cut at 512 characters."""
    if isinstance(key, int):
        return f"{pointer}/{key}"[:MAX_POINTER]
    escaped = key[:MAX_POINTER].replace("~", "~0").replace("/", "~1").replace("\0", "\N{REPLACEMENT CHARACTER}")
    return f"{pointer}/{escaped}"[:MAX_POINTER]


def _refuse(code: str, detail: str = "") -> NoReturn:
    raise CardError((Reason(code, detail),)) from None


def _text(body: bytes) -> str:
    if len(body) > MAX_BYTES:
        _refuse("card-size", f"{len(body):,} bytes")
    if body.startswith(b"\xef\xbb\xbf"):
        _refuse("card-bom")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse("card-utf8", f"{error.reason} at {_place(body, error.start)}")


def _integer(literal: str) -> int:
    if len(literal) > MAX_DIGITS and len(literal.lstrip("-")) > MAX_DIGITS:
        _refuse("card-number", f"{len(literal):,} digits")
    return int(literal)


def _decimal(literal: str) -> Decimal:
    """A number with a fraction or an exponent: the digits before the exponent count, and the exponent's value."""
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


def _constant(name: str) -> NoReturn:
    _refuse("card-constant", name)


def _refuse_lone_surrogates(body: bytes) -> None:
    """Looks at the bytes, not at the value, so that a repeated key cannot hide one. Escaped backslashes are masked."""
    lone = _LONE.search(body.replace(b"\\\\", b"--"))
    if lone:
        _refuse("card-surrogate", f"{lone[0].decode()} at {_place(body, lone.start())}")


def _place(body: bytes, offset: int) -> str:
    """Line and column, counted from 1 in characters, of the byte at `offset`; all bytes before it are UTF-8."""
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
    """A warning for each repeated key that is part of the value: what a later key replaced has no place in it."""
    keys_of = {id(found): keys for found, keys in repeated}
    warnings: list[Reason] = []
    todo: list[tuple[str, Any]] = [("", value)]
    while todo and len(warnings) < MAX_DUPLICATES:
        pointer, item = todo.pop()
        if isinstance(item, dict):
            for key in keys_of.get(id(item), ()):
                at = step(pointer, key)
                warnings.append(Reason("duplicate-key", at, at))
            todo.extend((step(pointer, key), child) for key, child in item.items() if isinstance(child, (dict, list)))
        else:
            todo.extend((step(pointer, at), child) for at, child in enumerate(item) if isinstance(child, (dict, list)))
    return sorted(warnings[:MAX_DUPLICATES], key=lambda reason: reason.pointer)
