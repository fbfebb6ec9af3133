"""Strangers' JSON as records: structs with members of exact types.

Bytes are held to the bounds of `strict_json` first; `convert` makes records of the value. Its errors have one form,
which names the member, and after a colon what is wrong with it. Documents that are signed are held to a `RecordShape`
instead (`parsers/claims/record_shape.py`), as the value itself is what was signed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from parsers.errors import ParseError

T = TypeVar("T")

ABSENT = msgspec.UNSET
"""The default of a member that may be absent and may not be null, of type Absent."""

Absent: TypeAlias = msgspec.UnsetType
EMPTY: Any = msgspec.field(default_factory=dict)
"""The default of an object that may be absent."""

_MISSING, _POSITION = "Object missing required field `", " - at `$"
_STEP = re.compile(r"\.([^.\[`]+)|\[(\d+|\.\.\.)\]")
_MAX_FAULT = 160


class JsonObject(msgspec.Struct, rename="camel", gc=False):
    """An object with these members; others are ignored. A value of JSON refers to no other one in a circle."""


def whole(least: int, most: int) -> Meta:
    """Whole numbers from `least` to `most`, within 64 bits with a sign."""
    return Meta(ge=least, le=most)


def least(number: int) -> Meta:
    """Numbers from `number` on."""
    return Meta(ge=number)


def matching(pattern: str) -> Meta:
    """Texts that match a pattern, which has to name their beginning and end."""
    return Meta(pattern=pattern)


def sized(most: int | None = None, least: int | None = None) -> Meta:
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


def published(**schema: Any) -> Meta:
    """The rest of the published schema of a member, to which values are not held."""
    return Meta(extra_json_schema=schema)


def schema_of(kind: type[JsonObject]) -> dict[str, Any]:
    """The JSON Schema of objects with these members and no others, with the schemas of inner objects in their places:
    JSON Schema as documents write it, without titles, descriptions and defaults."""
    (reference,), components = msgspec.json.schema_components([kind], ref_template="{name}")
    return _resolved(reference, components)


def _resolved(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    members = {name: value for name, value in schema.items() if name not in ("title", "description", "default")}
    if "$ref" in members:
        return _resolved(components[members.pop("$ref")], components) | members
    if "properties" in members and "additionalProperties" not in members:
        members["properties"] = {name: _resolved(part, components) for name, part in members["properties"].items()}
        members["additionalProperties"] = False
    if isinstance(members.get("items"), dict):
        members["items"] = _resolved(members["items"], components)
    return members


def object_or_empty(value: Any) -> dict[str, Any]:
    """A JSON object as it is, an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def unhex(text: str, name: str, size: int | None = None) -> bytes:
    """The bytes of lower-case hex, `size` of them if that is given. Raises ParseError; `name` is the member's."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raise unreadable(name) from None
    if size not in (None, len(raw)) or raw.hex() != text:
        raise unreadable(name)
    return raw


class RecordError(ParseError):
    """A value that is not the record that it should be: the JSON Pointer of the member, and whether it is `missing`,
    of the `wrong-type`, or `not-one-of` the texts that it may be. `detail` is msgspec's sentence."""

    def __init__(self, message: str, code: str = "wrong-type", pointer: str = "", detail: str = "") -> None:
        super().__init__(message)
        self.code, self.pointer, self.detail = code, pointer, detail


def unreadable(name: str, what: str = "the answer") -> RecordError:
    """The error for a member with another value than it may have."""
    message = f"{what}'s {name} is missing or cannot be read"
    return RecordError(message, "wrong-type", f"/{name}", message)


def convert(
    value: Any, kind: type[T], what: str = "the answer", *, custom: Callable[[type, Any], Any] | None = None
) -> T:
    """The record of a kind in a JSON value. Raises RecordError; `what` names the value in it. `custom` makes values of
    types that msgspec does not know."""
    try:
        return msgspec.convert(value, kind, dec_hook=custom)
    except msgspec.ValidationError as error:
        raise _error(str(error), what) from None
    except UnicodeEncodeError:
        raise _error("a text has a lone surrogate", what) from None


def _error(text: str, what: str) -> RecordError:
    """The one form of an error: the last name on the way to the member, which is of a struct, and what is wrong."""
    text = text.encode("ascii", "backslashreplace").decode()
    fault, marker, position = text.rpartition(_POSITION)
    fault = fault if marker else text
    steps = [name or index for name, index in _STEP.findall(position)] if marker else []
    is_missing = fault.startswith(_MISSING)
    steps += [fault[len(_MISSING) : -1]] if is_missing else []
    names = [step for step in steps if not step.isdigit()]
    subject = f"{what}'s {names[-1]}" if names else what
    reason = "" if is_missing else f": {fault[:1].lower()}{fault[1:_MAX_FAULT]}"
    code = "missing" if is_missing else "not-one-of" if fault.startswith("Invalid enum value") else "wrong-type"
    pointer = "".join(f"/{step}" for step in steps)
    return RecordError(f"{subject} is missing or cannot be read{reason}", code, pointer, text)
