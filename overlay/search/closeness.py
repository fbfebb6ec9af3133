"""Words that stand close together in a long question and in a listing: `vector database` is more than both words.

Only the first `MOST` hits are looked at, in whatever order their words made. Each keeps its words in order, as numbers
(`said`), so that comparing 48 listings takes a third of a millisecond. A pair counts by how few of these hits have it:
what all of them say tells none of them apart. Points are only added, so hits that were not looked at stay behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from overlay.search.ranking import BEST, texts
from overlay.search.text import stem, words

if TYPE_CHECKING:
    from overlay.document import Document

MOST = 48
_LONGEST = 512  # words of a listing
_APART = 2  # words: next to each other, or with one between them
_WORTH = 0.08  # of a pair's rarity, in units of a word's (measured)
_BREAK = 0  # between texts, whose words are not beside each other
_PLAIN = frozenset(("a", "an", "the", "of", "and", "or", "to", "for", "in", "on", "with", "by", "from", "via", "using",
                    "is", "are", "be", "as", "at", "that", "this", "it", "its", "into", "their", "your", "you",
                    "through", "while", "within", "can", "any", "all", "other", "such", "including",
                    "allowing"))  # fmt: skip
"""Words that only join others."""
_PLAIN_TERMS = frozenset(map(stem, _PLAIN))

Slots = npt.NDArray[np.int64]


class Closeness(NamedTuple):
    """The words of a question by number: `terms` are the numbers of terms (ascending) and `slots` the words that they
    stand for; `pairs[a, b]` is the number of the pair in which word b follows a, or -1, and there are `several`.
    `worth` is in points."""

    terms: npt.NDArray[np.uint32]
    slots: Slots
    pairs: Slots
    several: int
    worth: float


def said(document: Document) -> bytes:
    """The words of a listing in order, as 32-bit numbers, for those that stand in more than one text with a break."""
    found: list[int] = []
    for _, text in texts(document):
        if found and found[-1] != _BREAK:
            found += [_BREAK] * _APART
        found += (number(stem(word)) for word in words(text) if word not in _PLAIN)
        if len(found) >= _LONGEST:
            break
    return np.array(found[:_LONGEST], "<u4").tobytes()


def number(term: str) -> int:
    """A term as a number; two terms in four billion have the same one."""
    return crc32(term.encode()) or 1


def closeness(words: Iterable[Sequence[tuple[str, ...]]], unit: float) -> Closeness | None:
    """How to look for the pairs of a question, of whose words the choices of terms are given in order; `unit` is the
    points of a unit of gain. None when it has no pairs."""
    slots: dict[int, int] = {}
    order: list[int] = []
    for choices in words:
        if len(choices[0]) > 1:
            order += (slots.setdefault(number(term), len(slots)) for term in choices[0] if term not in _PLAIN_TERMS)
        elif len(choices) > 1 or choices[0][0] not in _PLAIN_TERMS:
            order.append(_slot(slots, [number(terms[0]) for terms in choices if len(terms) == 1]))
    return _paired(slots, order, unit)


def _slot(slots: dict[int, int], terms: list[int]) -> int:
    """The slot of a word: that of the first of its terms that has one, or a new one, for all of them."""
    known = next((slots[term] for term in terms if term in slots), max(slots.values(), default=-1) + 1)
    for term in terms:
        slots.setdefault(term, known)
    return known


def _paired(slots: dict[int, int], order: list[int], unit: float) -> Closeness | None:
    pairs = np.full((len(slots) + 1, len(slots) + 1), -1, np.int64)
    count = 0
    for apart in range(1, _APART + 1):
        for one, other in zip(order, order[apart:], strict=False):
            if one != other and pairs[one, other] < 0:
                pairs[one, other] = count
                count += 1
    if not count:
        return None
    terms = np.array(sorted(slots), np.uint32)
    return Closeness(terms, np.array([slots[term] for term in sorted(slots)], np.int64), pairs, count, _WORTH * unit)


def closer(asked: Closeness, said: Sequence[bytes]) -> list[int]:
    """The points that close words add to each of the first hits, whose words in order are given."""
    flat = np.frombuffer(b"".join(said), "<u4")
    if not len(flat):
        return [0] * len(said)
    at = np.minimum(np.searchsorted(asked.terms, flat), len(asked.terms) - 1)
    slots = np.where(asked.terms[at] == flat, asked.slots[at], -1)  # the last row and column hold no pair
    of = np.repeat(np.arange(len(said)), [len(each) // 4 for each in said])
    held = np.zeros((len(said), asked.several), np.int64)
    for apart in range(1, _APART + 1):
        pairs = asked.pairs[slots[:-apart], slots[apart:]]
        kept = (pairs >= 0) & (of[:-apart] == of[apart:])
        held[of[apart:][kept], pairs[kept]] = 1
    holding = held.sum(0)
    rare = np.log(1 + (len(said) - holding + 0.5) / (holding + 0.5))
    added: list[int] = (held @ np.rint(asked.worth * rare).astype(np.int64)).tolist()  # whole numbers add up exactly
    return added


Key = tuple[int, int, str]
"""As hits are ordered by relevance: points and time, turned around so that they ascend, and the id."""


def brought_near(asked: Closeness, keys: Sequence[Key], said: Sequence[bytes]) -> list[Key]:
    """The keys of the first hits with what closeness adds to their points, never more than `BEST` together."""
    added = closer(asked, said)
    return [(max(-BEST, key[0] - more), *key[1:]) for key, more in zip(keys, added, strict=True)]
