"""Cursors that a model can repeat: 16 characters with the position of the end of a page, and marks of its last listing
and of its question. Pages are read by position, which that listing confirms."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from overlay.api.parameters import MAX_LIMIT, MAX_OFFSET, SEARCH

Pairs = Sequence[tuple[str, str]]
Search = Callable[[Pairs], Awaitable[Mapping[str, Any]]]

_MARK, _POSITION = 5, 2
_NOT_OF_QUESTION = frozenset(("limit", "cursor", "offset"))


class CursorRefusedError(Exception):
    """A cursor that leads nowhere; the message says what to do."""


class _Cursor(NamedTuple):
    position: int
    last: bytes
    question: bytes

    def text(self) -> str:
        raw = self.position.to_bytes(_POSITION, "big") + self.last + self.question
        return urlsafe_b64encode(raw).decode().rstrip("=")


async def next_page(search: Search, pairs: Pairs, cursor: str) -> Mapping[str, Any]:
    """The page of a search, the first one for an empty cursor; its `nextCursor` is a short one. Raises
    CursorRefusedError."""
    parameters = [pair for pair in pairs if SEARCH.names[pair[0]].name != "cursor"]
    question = _mark(
        sorted((SEARCH.names[name].name, text) for name, text in parameters if name not in _NOT_OF_QUESTION)
    )
    begin = await _position(search, parameters, _read(cursor, question)) if cursor else 0
    page = await search([*parameters, ("offset", str(begin))])
    items, end = page["items"], begin + len(page["items"])
    if not items or not page.get("nextCursor") or end >= MAX_OFFSET:
        return {**page, "nextCursor": None}
    return {**page, "nextCursor": _Cursor(end, _mark(items[-1]["id"]), question).text()}


def _mark(value: object) -> bytes:
    return blake2b(repr(value).encode("utf-8", "surrogatepass"), digest_size=_MARK).digest()


def _read(text: str, question: bytes) -> _Cursor:
    try:
        raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except ValueError:
        raw = b""
    cursor = _Cursor(int.from_bytes(raw[:_POSITION], "big"), raw[_POSITION:-_MARK], raw[-_MARK:])
    if len(raw) != _POSITION + 2 * _MARK or cursor.text() != text or not 0 < cursor.position < MAX_OFFSET:
        raise CursorRefusedError("the cursor was not given out here: use `nextCursor` of the page before as it is")
    if cursor.question != question:
        detail = "the cursor belongs to another search: repeat the words, filters and order of its page"
        raise CursorRefusedError(detail)
    return cursor


async def _position(search: Search, pairs: Pairs, cursor: _Cursor) -> int:
    """Where the page after a cursor begins: after its last listing, which a change of the registry may have moved."""
    plain = [pair for pair in pairs if pair[0] != "limit"]
    first = max(0, cursor.position - MAX_LIMIT // 2)
    for begin, limit in ((cursor.position - 1, 1), (first, MAX_LIMIT)):
        page = await search([*plain, ("offset", str(begin)), ("limit", str(limit))])
        for number, item in enumerate(page["items"]):
            if _mark(item["id"]) == cursor.last:
                return begin + number + 1
    raise CursorRefusedError("the registry has changed since that page: search again without the cursor")
