"""The formula of relevance, slow and obvious: one listing after the other, one pair of words after the other.

The rules are written down again from `docs/relevance.md`. It reads what `forward.encode` returns, and replaces
`rerank.factors`, so that the ablation can switch rules off."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32

import numpy as np

from overlay.search.planner import RELATED, QueryPlan, TermGroup
from overlay.search.rerank import Factors

WEIGHTS: Sequence[float] = (3.0, 1.0, 1.0)
SHARES: Sequence[float] = (0.6, 0.3, 0.5)
MEAN_LENGTHS = (3, 4, 22)
NAME_WORDS = 8
SATURATION, PROXIMITY, NEAR, EXACT_NAME = 0.9, 0.25, 2, 0.5
VERIFIED, SIGNED, AGE, OLD, DEPRECATED = 0.05, 0.02, 0.03, 180 * 86_400, 0.5
LOST, NOT_RUNNABLE = 0.97, 0.97
_HEAD = "<6H6?d2I"


class Listing(NamedTuple):
    """The terms of name, keywords and description that have a position (0: a gap), then those that have none."""

    placed: list[list[int]]
    others: list[list[int]]
    is_compound: bool
    verified: bool
    signed: bool
    deprecated: bool
    lost: bool
    not_runnable: bool
    since: float


def read(blob: bytes) -> Listing:
    """Decode a forward index."""
    *sizes, is_compound, verified, signed, deprecated, lost, not_runnable, since, _, _ = struct.unpack_from(_HEAD, blob)
    terms = list(struct.unpack(f"<{sum(sizes)}I", blob[struct.calcsize(_HEAD) :]))
    sections = []
    for size in sizes:
        sections.append(terms[:size])
        terms = terms[size:]
    return Listing(sections[:3], sections[3:], is_compound, verified, signed, deprecated, lost, not_runnable, since)


def factors(plan: QueryPlan, blobs: Sequence[bytes], newest: float | None = None) -> Factors:
    """The factors of listings; age counts from the newest of them, or another time."""
    listings = list(map(read, blobs))
    last = max((0.0, *(listing.since for listing in listings))) if newest is None else newest
    rows = [words_of(plan.groups, listing) for listing in listings]
    shape = len(listings), len(plan.groups)
    words = np.array([[value for value, _ in row] for row in rows], np.float64).reshape(shape)
    terms = np.array([[number for _, number in row] for row in rows], np.int64).reshape(shape)
    near = np.array([nearness(plan.groups, listing) for listing in listings], np.float64)
    exact = np.array([exact_name(plan.groups, listing) for listing in listings], np.float64)
    static = np.array([static_rank(listing, last) for listing in listings], np.float64)
    flags = np.array([flags_of(listing) for listing in listings], np.float64)
    return Factors(words, terms, near, exact, static, (words.sum(1) + near) * exact * static, flags)


def numbers(group: TermGroup) -> list[int]:
    return [crc32(alternative.term.encode()) or 1 for alternative in group.alternatives]


def plain(group: TermGroup) -> TermGroup:
    """A word without related ones, which count neither for neighbours nor for names."""
    return group._replace(alternatives=tuple(one for one in group.alternatives if one.match != RELATED))


def words_of(groups: Sequence[TermGroup], listing: Listing) -> list[tuple[float, int]]:
    """For each word what its best alternative counts, and which it is."""
    return [_word(group, listing) for group in groups]


def _word(group: TermGroup, listing: Listing) -> tuple[float, int]:
    best, chosen = 0.0, -1
    for number, (alternative, term) in enumerate(zip(group.alternatives, numbers(group), strict=True)):
        frequency = 0.0
        for section, terms in enumerate((*listing.placed, *listing.others)):
            share, field = SHARES[section % 3], section % 3
            norm = WEIGHTS[field] / (1 - share + share * len(listing.placed[field]) / MEAN_LENGTHS[field])
            alone = WEIGHTS[0] / (1 - share + share / MEAN_LENGTHS[0])
            before = frequency
            for index, other in enumerate(terms):  # one by one, so that equal scores are equal
                if other == term:
                    frequency += norm * (WEIGHTS[2] / WEIGHTS[0] if field == 0 and index >= NAME_WORDS else 1.0)
            if field == 0:  # repeated, no more than a name of this word alone
                frequency = min(frequency, max(before, alone))
        value = alternative.value * frequency / (frequency + SATURATION)
        if value > best * (1 + 1e-12):
            best, chosen = value, number
    return best, chosen


def repeats(listing: Listing) -> int:
    """The repeated words among the first ones of a name."""
    head = listing.placed[0][:NAME_WORDS]
    return len(head) - len(set(head))


def nearness(groups: Sequence[TermGroup], listing: Listing) -> float:
    """A quarter of the rarer of each two neighbouring words, if they follow each other within two positions."""
    total = 0.0
    for one, other in pairwise(map(plain, groups)):
        pairs = {(first, second) for first in numbers(one) for second in numbers(other) if first != second}
        if any(
            (terms[start], terms[end]) in pairs
            for terms in (listing.placed[0][:NAME_WORDS], *listing.placed[1:])
            for start in range(len(terms))
            for end in range(start + 1, min(start + NEAR + 1, len(terms)))
        ):
            total += PROXIMITY * max(one.rarity, other.rarity)
    return total


def exact_name(groups: Sequence[TermGroup], listing: Listing) -> float:
    """1.5 where the name has the query's words and no other, less by the weights of alternatives and repeated words."""
    terms = {term for group in groups for term in numbers(group)}
    is_exact = terms.issuperset(listing.placed[0]) or (listing.is_compound and not terms.isdisjoint(listing.others[0]))
    if not is_exact:
        return 1.0
    name = {*listing.placed[0], *listing.others[0]}
    weights = [
        max(
            (one.weight for one, term in zip(group.alternatives, numbers(group), strict=True) if term in name),
            default=0.0,
        )
        for group in map(plain, groups)
    ]
    distinct = 1 - repeats(listing) / max(1, len(listing.placed[0]))
    return 1 + EXACT_NAME * min(1.0, *weights) * distinct


def flags_of(listing: Listing) -> int:
    return (
        2 * listing.is_compound + 4 * listing.verified + 8 * listing.signed + 16 * listing.deprecated
        + 32 * listing.lost + 64 * listing.not_runnable
    )  # fmt: skip


def static_rank(listing: Listing, newest: float) -> float:
    age = -1.0 if listing.since < 0 else min((newest - listing.since) / OLD, 1.0)
    return (
        (1 + VERIFIED * listing.verified)
        * (1 + SIGNED * listing.signed)
        * (1 + AGE * age)
        * (DEPRECATED if listing.deprecated else 1)
        * (LOST if listing.lost else 1)
        * (NOT_RUNNABLE if listing.not_runnable else 1)
    )
