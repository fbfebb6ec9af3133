"""The orders that listings come in, the same in every engine: numbers and strings that put them so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from overlay.search.analysis import fold

if TYPE_CHECKING:
    from overlay.document import Document
    from overlay.query import Query

_HEIGHT_BITS = 30
_HEIGHT_MOST = (1 << _HEIGHT_BITS) - 1
_TIME_MOST = 2**33 - 1
_NAME = 100


def newest(document: Document) -> int:
    """Larger for later updates: by block time, at the same time by height; an unconfirmed one is the latest."""
    return _moment(document.updated_time, document.updated_height, document.id)


def made(document: Document) -> int:
    """Larger for later first records."""
    return _moment(document.created_time, document.created_height, document.id)


def _moment(time: int | None, height: int | None, id_: str) -> int:
    """Less than 2^63. Without a time, ids that come first are larger, so that equal numbers stay rare."""
    if time is None:
        return _TIME_MOST << _HEIGHT_BITS | _by_id(id_)
    return min(max(time, 0), _TIME_MOST - 1) << _HEIGHT_BITS | min(height or 0, _HEIGHT_MOST)


def _by_id(id_: str) -> int:
    """Less than 2^30, and larger for ids that come first."""
    return _HEIGHT_MOST - (int.from_bytes(id_.encode()[:4].ljust(4, b"\0")) >> 2)


def name_key(document: Document) -> str:
    """Orders by name, without regard to case, accents and width, then by id."""
    return f"{fold(document.name).casefold()[:_NAME]}\0{document.id}".replace("\n", " ")


def order(query: Query) -> str:
    """The order that hits come in: without words all are equally relevant, and the latest come first."""
    return LATEST if query.sort == "relevance" and not query.text.strip() else query.sort


def is_reversed(query: Query) -> bool:
    """Whether hits are asked for the other way around."""
    return query.descending is not None and query.descending != (query.sort in _DOWNWARD)


def is_descending(query: Query) -> bool:
    """The direction asked for: relevance, updated and created go down by themselves, price and name up."""
    return is_reversed(query) != (query.sort in _DOWNWARD)


LATEST = "latest"
_DOWNWARD = frozenset({"relevance", "updated", "created"})
_SHAPES: dict[str, tuple[tuple[type, ...], ...]] = {
    "relevance": ((int, float, str), (int, int, str)),
    "updated": ((int, int, str),),
    "created": ((int, int, str),),
    "name": ((int, str),),
    "price": ((int, int, str, str, str), (int, int, str)),
}
_Key = tuple[Any, ...]


def follows(query: Query, key: _Key, after: _Key) -> bool:
    """Whether a sort key comes after another one in the order of a query."""
    first = 2 if query.sort == "price" else 1  # these go up in both directions
    if query.sort != "relevance" and key[:first] != after[:first]:
        return bool(key[:first] > after[:first])
    return bool(key < after if is_reversed(query) else key > after)


_AMOUNT = re.compile(r"[0-9]{4,120}")


def is_key(sort: str, key: tuple[Any, ...]) -> bool:
    """Whether a key, which comes back from a client, can be one of an order. Its first element is 0 for a listing that
    holds all words, 1 for another one (by relevance: for one beyond the candidates of stage two)."""
    if tuple(map(type, key)) not in _SHAPES[sort] or key[0] not in (0, 1):
        return False
    return sort != "price" or (key[1] == 1 if len(key) == 3 else key[1] == 0 and bool(_AMOUNT.fullmatch(key[3])))
