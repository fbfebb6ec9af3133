"""Cursors: the end of a page as opaque text, which a client sends to get the next page."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from binascii import b2a_base64
from typing import Any, NamedTuple

import orjson

from overlay.search.query import MARK_BYTES

MAX_LENGTH = 8_192  # an id of 2 kB and a name of 100 characters, escaped
MOST_SHOWN = 500
"""Shown listings in a page cursor, limited by the length of a URL."""
_MAX_KEYS = 8
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class PagePosition(NamedTuple):
    """The end of a page: the last hit's sort key under `sort` (as in the URL), the index generation it was read from,
    how many listings precede the next page, which exchange rates made the order (`exchange_rates.table_version`; empty
    where none did), the listings shown so far (`query.shown_mark`), where the order can change with the index, and the
    mark of the question that it belongs to (`query.question_mark`)."""

    sort: str
    key: tuple[Any, ...]
    epoch: str
    seq: int
    position: int
    rates: str = ""
    shown: bytes = b""
    question: str = ""


def encode(position: PagePosition) -> str:
    """Base64url JSON without padding. Raises TypeError when the engine's sort key is not made of JSON scalars."""
    *scalars, shown, question = position
    return _as_text(orjson.dumps((*scalars, _as_text(shown), question)))


def _as_text(raw: bytes) -> str:
    return b2a_base64(raw, newline=False).translate(_URL_SAFE, b"=").decode()


def _from_text(text: str) -> bytes:
    return urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))


def decode(text: str) -> PagePosition:
    """The inverse of `encode`. Raises ValueError for any other text."""
    if not 0 < len(text) <= MAX_LENGTH:
        raise ValueError(f"a cursor of {len(text):,} characters was not given out here")
    try:
        fields = json.loads(_from_text(text))
        *fields, shown, question = fields
        shown = _from_text(shown)
    except (UnicodeError, Base64Error, ValueError, RecursionError, AttributeError, TypeError):
        raise ValueError("the cursor was not given out here") from None
    fits = len(shown) <= MOST_SHOWN * MARK_BYTES and len(shown) % MARK_BYTES == 0
    if not (len(fields) == 6 and _well_formed(*fields) and _is_text(question) and fits):
        raise ValueError("the cursor was not given out here")
    sort, key, epoch, seq, position, rates = fields
    return PagePosition(sort, tuple(key), epoch, seq, position, rates, shown, question)


def _well_formed(sort: object, key: object, epoch: object, seq: object, position: object, rates: object) -> bool:
    return (
        _is_text(sort)
        and _is_text(rates)
        and _is_text(epoch)
        and _counts(seq)
        and _counts(position)
        and isinstance(key, list)
        and 0 < len(key) <= _MAX_KEYS
        and all(_scalar(part) for part in key)
    )


def _counts(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _scalar(value: object) -> bool:
    if type(value) is float:
        return abs(value) != float("inf") and value == value  # NaN is not equal to itself
    return value is None or _is_text(value) or (type(value) is int and abs(value) < 2**63)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)
