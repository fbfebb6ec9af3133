"""The parts of all answers: records in camel case, their texts and numbers, and their encoding.

Unknown members are ignored by clients, and words, times and patterns are texts to them, as they may be those of a newer
version; the schemas name those of this one.
"""

from __future__ import annotations

import json
from decimal import Decimal
from hashlib import sha256
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from overlay.text import compact_json
from overlay.text.compact_json import decode
from parsers.cards.money import plain
from parsers.json_records import convert


class Amount(Decimal):
    """An amount or a percentage, in JSON a text without an exponent."""


def _written(value: Any) -> str:
    if isinstance(value, Amount):
        return plain(value)
    raise TypeError(f"{type(value).__name__} is not part of an answer")


def _read(kind: type, value: Any) -> Any:
    if kind is not Amount or isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise TypeError("expected a decimal number as a text")
    try:
        amount = Amount(value)
    except ArithmeticError:
        amount = Amount("NaN")
    if not amount.is_finite():
        raise ValueError(f"{str(value)[:40]!a} is not a decimal number")
    return amount


def text(description: str = "", **schema: Any) -> Meta:
    """Annotations of texts in the schema beyond their type, which clients do not check."""
    return Meta(extra_json_schema=schema | ({"description": description} if description else {}))


def words(*values: str, description: str = "") -> Meta:
    """The values that a text has in this version."""
    return text(description, enum=list(values))


Count = Annotated[int, Meta(ge=0)]
Txid = Annotated[str, text(pattern="^[0-9a-f]{64}$")]
Hex = Annotated[str, text(pattern="^([0-9a-f]{2})+$")]
OutpointText = Annotated[str, text(pattern="^[0-9a-f]{64}_[0-9]+$")]
Time = Annotated[str, text(format="date-time")]
TestNetwork = Annotated[
    str, Meta(description="A sentence where the chain is a test network, whose work proves nothing; else absent.")
]
PerDay = Annotated[
    Amount | None,
    Meta(
        description="The amount for one day, to 12 digits: a month has 30.436875 days, a year 365.2425. "
        "Null per call, and for what is not a duration."
    ),
]


class Record(msgspec.Struct, kw_only=True, rename="camel"):
    """Members in camel case, in any order."""


_ENCODER = msgspec.json.Encoder(enc_hook=_written)


def encode(value: Any) -> bytes:
    """A record, or what contains records, as compact UTF-8 JSON. Lone surrogates are written as escapes."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        builtins = msgspec.to_builtins(value, enc_hook=_written)
        return json.dumps(builtins, separators=(",", ":"), allow_nan=False).encode()


def as_json(value: Any) -> Any:
    """A record, or what contains records, as a JSON value."""
    return decode(encode(value))


def read(value: Any, kind: Any) -> Any:
    """The record in a JSON value. Raises RecordError naming the first member that does not fit."""
    return convert(value, kind, custom=_read)


def schema_digest(model: type[msgspec.Struct]) -> str:
    """The SHA-256 of the schema of a model, without its prose, in hex."""
    schema, components = msgspec.json.schema_components([model], schema_hook=lambda kind: {"type": kind.__name__})
    return sha256(compact_json.encode(_without_prose([schema, components]))).hexdigest()


def _without_prose(value: Any) -> Any:
    """A schema without titles and descriptions, its objects in the order of their names."""
    if isinstance(value, list | tuple):
        return [_without_prose(part) for part in value]
    if not isinstance(value, dict):
        return value
    shown = {
        name: part for name, part in value.items() if name not in ("title", "description") or isinstance(part, dict)
    }
    return {name: _without_prose(part) for name, part in sorted(shown.items())}
