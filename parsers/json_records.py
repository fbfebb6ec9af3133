"""Strangers' JSON as records: structs with members of exact types.

Bytes are held to the bounds of `strict_json` first; `convert` makes records of the value. Its errors have one form,
which names the member, and after a colon what its value is and what it should be.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from parsers.errors import ParseError

T = TypeVar("T")

ABSENT = msgspec.UNSET
"""The default of a member that may be absent and may not be null, of type Absent."""

Absent: TypeAlias = msgspec.UnsetType

_MISSING = re.compile(r"Object missing required field `(.*)`\Z", re.DOTALL)
_POSITION = re.compile(r" - at `\$(.*)`\Z", re.DOTALL)
_MEMBER = re.compile(r"\.([^.\[]+)")
_MAX_NAME, _MAX_FAULT = 60, 160


class JsonObject(msgspec.Struct, rename="camel", gc=False):
    """An object with these members; others are ignored. A value of JSON refers to no other one in a circle."""


def whole(least: int, most: int) -> Meta:
    """Whole numbers from `least` to `most`, within 64 bits with a sign."""
    return Meta(ge=least, le=most)


def matching(pattern: str) -> Meta:
    """Texts that match a pattern, which has to name their beginning and end."""
    return Meta(pattern=pattern)


def sized(most: int, least: int = 0) -> Meta:
    """Texts, bytes and lists of `least` to `most` characters, bytes and elements."""
    return Meta(min_length=least, max_length=most)


def internal(text: str, name: str) -> bytes:
    """A hash in display order, 64 hex digits, in internal byte order. Raises ParseError; `name` is the member's."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) != 32 or len(text) != 64:  # fromhex skips spaces
        raise unreadable(name)
    return raw[::-1]


def unhex(text: str, name: str, size: int | None = None) -> bytes:
    """The bytes of lower-case hex, `size` of them if that is given. Raises ParseError; `name` is the member's."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raise unreadable(name) from None
    if size not in (None, len(raw)) or raw.hex() != text:
        raise unreadable(name)
    return raw


def unreadable(name: str, what: str = "the answer") -> ParseError:
    """The error for a member with another value than it may have."""
    return ParseError(f"{what}'s {name[:_MAX_NAME]} is missing or cannot be read")


def convert(value: Any, kind: type[T], what: str = "the answer") -> T:
    """The record of a kind in a JSON value. Raises ParseError; `what` names the value in it."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ParseError(_fault(str(error), what)) from None


def _fault(text: str, what: str) -> str:
    """The one form of an error: the last name on the way to the member, which is of a struct, and what is wrong."""
    position = _POSITION.search(text)
    fault = text[: position.start()] if position else text
    missing = _MISSING.match(fault)
    names = [missing[1]] if missing else _MEMBER.findall(position[1]) if position else []
    reason = "" if missing else f": {fault[:1].lower()}{fault[1:_MAX_FAULT]}"
    subject = f"{what}'s {names[-1][:_MAX_NAME]}" if names else what
    return f"{subject} is missing or cannot be read{reason}"
