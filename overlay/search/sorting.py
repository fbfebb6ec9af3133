"""The orders that listings come in, the same in every engine: numbers and strings that put them so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from overlay.search.text import fold

if TYPE_CHECKING:
    from overlay.document import Document
    from overlay.query import Query

_HEIGHT_BITS = 30
_HEIGHT_MOST = (1 << _HEIGHT_BITS) - 1
_TIME_MOST = 2**33 - 1
_LARGEST = 2**63 - 1
_NAME = 100


def newest(document: Document) -> int:
    """Larger for later updates: by block time, at the same time by height; an unconfirmed one is the latest."""
    return _moment(document.updated_time, document.updated_height, document.id)


def made(document: Document) -> int:
    """Larger for later first records."""
    return _moment(document.created_time, document.created_height, document.id)


def seniority(document: Document) -> int:
    """Larger for those who have said longer what they say; the least for what is unconfirmed, or one of a crowd."""
    since = document.senior_since
    return _by_id(document.id) if since is None else _LARGEST - (min(max(since, 0), _TIME_MOST - 1) << _HEIGHT_BITS)


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
    "relevance": ((int, int, str),),
    LATEST: ((int, int, str),),
    "updated": ((int, str),),
    "created": ((int, str),),
    "name": ((str,),),
    "price": ((int, str, str, str), (int, str)),
}
_AMOUNT = re.compile(r"[0-9]{4,120}")


def is_key(sort: str, key: tuple[Any, ...]) -> bool:
    """Whether a key, which comes back from a stranger, can have been given out for an order."""
    if tuple(map(type, key)) not in _SHAPES[sort]:
        return False
    return sort != "price" or (key[0] == 1 if len(key) == 2 else key[0] == 0 and bool(_AMOUNT.fullmatch(key[2])))
