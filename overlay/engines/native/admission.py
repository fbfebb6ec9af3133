"""Which documents of a segment the filters of a query admit, and which of their offers meet it."""

from __future__ import annotations

from decimal import Decimal
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from overlay.engines.native import search_kernels as kernels
from overlay.engines.native.segment import Bytes, Ints, Scratch, Segment
from overlay.search.facts import is_plain, required, selection, unwanted
from overlay.search.prices import asks_offer, asks_price
from overlay.search.query import Query
from parsers.cards.money import decimal_key
from parsers.cards.rate_table import amount_bounds

_MOST = 2**63 - 1
_FEW = 16
"""Documents with other facts, for each candidate, from which the facts of each candidate are read instead, unless to
compare these takes more steps."""
_NONE = np.empty(0, np.uint8)


def admitted(segment: Segment, query: Query, scratch: Scratch) -> Bytes:
    """A byte for each document: 1 where the filters of a query admit it. It is in the scratch, or the segment's own."""
    plain = is_plain(query)
    mask, a = segment.plain if plain else segment.live, segment.arrays
    groups = [segment.numbers("facts", group) for group in (*(() if plain else selection(query)), *required(query))]
    sized = sorted(((_size(a["fact_offsets"], facts), facts) for facts in groups), key=itemgetter(0))
    used = 0
    for index, (size, facts) in enumerate(sized):
        if index and size > _FEW * sized[0][0]:
            candidates, offsets = _with_facts(segment, sized[0][1]), a["document_facts_offsets"]
            if size >= _size(offsets, candidates) * len(facts):
                kernels.keep(mask, candidates, offsets, a["document_facts"], facts)
                continue
        kernels.admit(mask, scratch.masks[used], a["fact_offsets"], a["fact_documents"], facts)
        mask, used = scratch.masks[used], 1 - used
    return _narrowed(segment, query, scratch, mask)


def _size(offsets: Ints, rows: npt.NDArray[Any]) -> int:
    """The number of values of some rows, such as that of the documents with some facts."""
    return int((offsets[rows + 1] - offsets[rows]).sum())


def _with_facts(segment: Segment, facts: Ints) -> npt.NDArray[np.uint32]:
    """The documents with each of some facts."""
    offsets, documents = segment.arrays["fact_offsets"], segment.arrays["fact_documents"]
    parts = [documents[offsets[fact] : offsets[fact + 1]] for fact in facts.tolist()]
    return parts[0] if len(parts) == 1 else np.concatenate([documents[:0], *parts])


def _narrowed(segment: Segment, query: Query, scratch: Scratch, mask: Bytes) -> Bytes:
    """The documents of a mask that meet the filters which are not facts."""
    bounds = list(_bounds(query))
    excluded = unwanted(query)
    named = sum(map(bool, (query.currencies, query.intervals, query.skills)))
    # one offer must meet two or more filters, or a filter by its amount or address
    by_amount = asks_price(query) or query.free is not None or query.payable is not None
    asks_one = by_amount or (asks_offer(query) and named > 1)
    if not (bounds or excluded or asks_one or query.operators is not None):
        return mask
    if mask is segment.plain or mask is segment.live:
        scratch.masks[0][:] = mask
        mask = scratch.masks[0]
    for name, low, high in bounds:
        kernels.between(mask, segment.arrays[name], low, high)
    if excluded:
        facts = segment.numbers("facts", excluded)
        kernels.exclude(mask, segment.arrays["fact_offsets"], segment.arrays["fact_documents"], facts)
    if query.operators is not None:
        for sequence in query.operators.phrases:
            documents = _containing(segment, sequence, mask)
            chosen = mask[documents]
            mask[:] = 0
            mask[documents] = chosen
        for sequence in query.operators.excluded:
            mask[_containing(segment, sequence, mask)] = 0
    if asks_one:
        mark_offers(segment, query, scratch, np.flatnonzero(mask.view(np.bool_)), mask)
    return mask


def _bounds(query: Query) -> list[tuple[str, int, int]]:
    """The columns that a query bounds, each with the least and the largest value; a missing value is negative."""
    bounds = []
    if query.as_of is not None:
        bounds += [("since", 0, query.as_of), ("until", query.as_of + 1, _MOST)]
    if query.from_height is not None or query.to_height is not None:
        bounds.append(("height", query.from_height or 0, _MOST if query.to_height is None else query.to_height))
    if query.updated_since is not None:
        bounds.append(("time", max(0, query.updated_since), _MOST))
    return [(name, min(low, _MOST), min(high, _MOST)) for name, low, high in bounds]


def _containing(segment: Segment, sequence: str, mask: Bytes) -> Ints:
    """The documents of a mask that contain a sequence of terms, which are separated by spaces."""
    terms = segment.positions("terms", sequence.split(" "))
    if (terms < 0).any():
        return np.empty(0, np.int64)
    starts, a = segment.arrays["term_offsets"], segment.arrays
    rarest = min(terms.tolist(), key=lambda term: int(starts[term + 1] - starts[term]))
    documents = a["term_documents"][starts[rarest] : starts[rarest + 1]].astype(np.int64)
    documents = documents[mask[documents] != 0]
    is_held = np.zeros(len(documents), np.uint8)
    kernels.contains(documents, a["forward_offsets"], a["section_ends"], a["forward"], terms.astype(np.uint32), is_held)
    return np.asarray(documents[is_held != 0])


class _OfferChoice(NamedTuple):
    """The filters of a query on offers as arrays by number: currencies, intervals, skills, and 0 and 1 for whether it
    can be paid (empty: no filter), and the bounds of amounts by currency, or one of either for all."""

    currencies: Bytes
    intervals: Bytes
    skills: Bytes
    payable: Bytes
    low: Ints
    high: Ints


def mark_offers(segment: Segment, query: Query, scratch: Scratch, documents: Ints, mask: Bytes) -> None:
    """Mark in the scratch the offers of documents that meet the filters of a query, and remove documents without one
    from a mask."""
    a, offer_choice = segment.arrays, _offer_choice(segment, query)
    kernels.meeting(
        documents, a["offers_offsets"], a["offer_currency"], a["offer_interval"], a["offer_amount"],
        a["offer_accepted_offsets"], a["offer_accepted"], a["offer_names_skills"], a["offer_skills_offsets"],
        a["offer_skills"], a["own_skills_offsets"], a["own_skills"], a["offer_payable"], *offer_choice,
        scratch.meets, mask,
    )  # fmt: skip


def _offer_choice(segment: Segment, query: Query) -> _OfferChoice:
    low, high = _price_bounds(segment, query)
    if query.free is not None:
        _, above = _amounts_within(segment, None, Decimal(0))
        low, high = (low, np.minimum(high, above)) if query.free else (np.maximum(low, above), high)
    return _OfferChoice(
        _chosen(segment, "currencies", query.currencies),
        _chosen(segment, "intervals", query.intervals),
        _chosen(segment, "skills", query.skills),
        _NONE if query.payable is None else np.array([not query.payable, query.payable], np.uint8),
        low,
        high,
    )


def _chosen(segment: Segment, table: str, texts: tuple[str, ...]) -> Bytes:
    if not texts:
        return _NONE
    chosen = np.zeros(max(1, len(segment.arrays[f"{table}_offsets"]) - 1), np.uint8)
    chosen[segment.numbers(table, texts)] = 1
    return chosen


def _price_bounds(segment: Segment, query: Query) -> tuple[Ints, Ints]:
    """The numbers of the least amount, and of the first that is too large: of each currency, or one of either for all.
    Only currencies that are quoted or asked for are looked up: strangers name any number of others, which no amount
    is within the bounds of. Memory that is zero and not read costs nothing."""
    if not asks_price(query) or query.price_currency is None:
        low, high = _amounts_within(segment, query.min_price, query.max_price)
        return np.array([low]), np.array([high])
    currencies = len(segment.arrays["currencies_offsets"]) - 1
    lows, highs = np.zeros(max(2, currencies), np.int64), np.zeros(max(2, currencies), np.int64)
    compared = [query.price_currency, *query.rates]
    for currency, number in zip(compared, segment.positions("currencies", compared).tolist(), strict=True):
        if number >= 0:
            rate = Decimal(1) if currency == query.price_currency else query.rates[currency]
            if (bounds := amount_bounds(query.min_price, query.max_price, rate)) is not None:
                lows[number], highs[number] = _amounts_within(segment, *bounds)
    return lows, highs


def _amounts_within(segment: Segment, least: Decimal | None, most: Decimal | None) -> tuple[int, int]:
    """The number of the first amount from `least` on, and of the first beyond `most`."""
    amounts = len(segment.arrays["amounts_offsets"]) - 1
    keys = [decimal_key(bound) for bound in (least, most) if bound is not None]
    positions = iter(segment.positions("amounts", keys).tolist())
    low, high = 0, amounts
    if least is not None:
        position = next(positions)
        low = position if position >= 0 else -1 - position
    if most is not None:
        position = next(positions)
        high = position + 1 if position >= 0 else -1 - position
    return low, high
