"""Sort keys: the orders of results, the same in every engine."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from overlay.search.analysis import fold
from overlay.search.query import PRICE_SORTS, SORTS, TIERS
from parsers.cards.intervals import per_day

if TYPE_CHECKING:
    from overlay.search.document import Document
    from overlay.search.query import Query

_HEIGHT_BITS = 30
_HEIGHT_MOST = (1 << _HEIGHT_BITS) - 1
_TIME_MOST = 2**33 - 1
_NAME = 100


_UNRATED, _TIME_BITS, _LOW_BITS = 1_001, 33, 19

NUMBERS = ("newest", "made", "rated", "rated_up")
"""The fields of `order_fields` that are numbers, which engines store in columns."""

DOWNWARD = frozenset({"relevance", "updated", "created", "rating"})
"""The orders whose natural direction is descending: the newest or best first."""


def order_fields(document: Document) -> dict[str, int | str]:
    """The fields that documents are ordered by; numbers are below 2^63.

    `newest` and `made` are larger for later updates and first records: by block time, then by height; unconfirmed ones
    are the latest. `rated` is larger for better ratings, least without one; `rated_up`, for the worst rating first, is
    largest without one; equal ratings are ordered by the latest update. `name_order` ignores case, accents and width,
    and ends in the id.
    """
    rating = document.rating
    time = _TIME_MOST if document.updated_time is None else min(max(document.updated_time, 0), _TIME_MOST)
    latest = time << _LOW_BITS | _by_id(document.id) >> (_HEIGHT_BITS - _LOW_BITS)
    return {
        "newest": _moment(document.updated_time, document.updated_height, document.id),
        "made": _moment(document.created_time, document.created_height, document.id),
        "rated": (0 if rating is None else rating + 1) << (_TIME_BITS + _LOW_BITS) | latest,
        "rated_up": (_UNRATED if rating is None else rating) << (_TIME_BITS + _LOW_BITS) | latest,
        "name_order": f"{fold(document.name).casefold()[:_NAME]}\0{document.id}".replace("\n", " "),
    }


def order_field(query: Query) -> str:
    """The field of `order_fields` by which the hits of a query are ordered; neither by relevance nor by price."""
    field = {"created": "made", "rating": "rated", "name": "name_order"}.get(query.sort, "newest")
    return "rated_up" if field == "rated" and is_reversed(query) else field


def _moment(time: int | None, height: int | None, id_: str) -> int:
    """A sort key less than 2^63. Listings without a time are sorted by id; equal keys are rare."""
    if time is None:
        return _TIME_MOST << _HEIGHT_BITS | _by_id(id_)
    return min(max(time, 0), _TIME_MOST - 1) << _HEIGHT_BITS | min(height or 0, _HEIGHT_MOST)


def _by_id(id_: str) -> int:
    """Less than 2^30, and larger for ids that sort first."""
    return _HEIGHT_MOST - (int.from_bytes(id_.encode()[:4].ljust(4, b"\0")) >> 2)


def order(query: Query) -> str:
    """The order of hits: without words all are equally relevant, and the latest come first."""
    return LATEST if query.sort == "relevance" and not query.text.strip() else query.sort


def is_reversed(query: Query) -> bool:
    """Whether hits are requested against the natural direction of their order: ascending for names and prices, else
    descending."""
    return query.descending is not None and query.descending != (query.sort in DOWNWARD)


def compares_per_day(query: Query) -> bool:
    """Whether prices are compared per day (`parsers.cards.intervals.per_day`) instead of as amounts: in the order
    `price_per_day`, and in `price` with a filter for an interval that has a length."""
    if query.sort == "price":
        return any(per_day(Decimal(1), interval) is not None for interval in query.intervals)
    return query.sort == "price_per_day"


def compares_cost(query: Query) -> bool:
    """Whether the cost of a month is compared; without calls, `cost` compares amounts, as `price` does."""
    return query.sort == "cost" and query.calls is not None


PER_DAY, AMOUNT, COST = "per-day", "amount", "cost"


def price_comparison(query: Query) -> str | None:
    """How a query compares prices: `COST`, `PER_DAY` or `AMOUNT`; None where it does not. Bounds always apply to
    amounts."""
    if compares_cost(query):
        return COST
    if query.sort not in PRICE_SORTS and query.min_price is None and query.max_price is None:
        return None
    return PER_DAY if compares_per_day(query) else AMOUNT


LATEST = "latest"
_SHAPES: dict[str, tuple[tuple[type, ...], ...]] = {
    **dict.fromkeys(SORTS, ((int, int, str),)),
    "relevance": ((int, float, str), (int, int, str)),
    "name": ((int, str),),
    **dict.fromkeys(PRICE_SORTS, ((int, int, str, str, str), (int, int, str))),
}
_Key = tuple[Any, ...]


def follows(query: Query, key: _Key, after: _Key) -> bool:
    """Whether a sort key comes after another one in the order of a query."""
    first = 2 if query.sort in PRICE_SORTS else 1  # these ascend in both directions
    if query.sort != "relevance" and key[:first] != after[:first]:
        return bool(key[:first] > after[:first])
    return bool(key < after if is_reversed(query) else key > after)


_AMOUNT = re.compile(r"[0-9]{4,120}")


def is_key(sort: str, key: tuple[Any, ...]) -> bool:
    """Whether a key that a client sent is a valid key of an order. Its first element is the tier of the listing (by
    relevance: 1 beyond the re-ranked candidates)."""
    if tuple(map(type, key)) not in _SHAPES[sort] or key[0] not in range(TIERS):
        return False
    return sort not in PRICE_SORTS or (
        key[1] == 1 if len(key) == 3 else key[1] == 0 and bool(_AMOUNT.fullmatch(key[3]))
    )
