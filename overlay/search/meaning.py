"""Meaning in the order of results: the scores by words and by text vectors, combined into one score.

    (1 - w) · score + w · greatest score · (cosine / greatest cosine - 0.3) / 0.7 + 0.3 · greatest score · nearness

A cosine below 0.3 of the greatest adds nothing. The nearness is that to the content word that a listing is farthest
from (`least_word`), 0 in other languages.

Questions of more than four content words, and shorter ones of which no listing contains all words, also find the 60
listings with the greatest cosines among those that pass the filters, without the words from `floor` on. Of other short
ones, such as names and ids, the best results by words are re-ordered. For long ones w is 0.4, for short ones 0.2.
Either is less for words that are corrected and for words in other letters than Latin ones that the table of foreign
words does not have. What each brings: `docs/relevance.md`.
"""

from __future__ import annotations

from math import log10

from overlay.search.analysis import fold
from overlay.search.planner import SHORT, QueryPlan
from overlay.search.query import Query
from overlay.search.sorting import is_reversed, order
from overlay.search.stop_words import is_foreign

NEAREST = 60
"""Listings that a question finds by meaning."""
MOST_ALONE = 10
"""Listings that are shown where nothing contains a word of the question."""
FINDING, REORDERING = 0.4, 0.2
FARTHEST_WORD = 0.3
"""The weight of the nearness of a listing to the word of the question that it is farthest from (`least_word`)."""
_FLOOR, _FLOOR_BY_TEN = 0.25, 0.05
"""The least cosine of a result without a word of the question among up to 200 listings; by how much it is greater among
ten times as many, of which the nearest is nearer by chance."""
_LOWERED = 0.15
"""By how much it is less for questions with words of other languages, whose rows are means of several words'."""
NEAR = 0.05
"""The nearest listing is far where its cosine is less than this above the floor."""
_MOSTLY = 0.5
"""The share of Latin letters of a text that is mostly in these."""


def floor(listings: int, *, is_of_other_language: bool = False) -> float:
    """The least cosine of a result that only meaning finds among so many listings."""
    lowered = _LOWERED if is_of_other_language else 0.0
    return _FLOOR - lowered + _FLOOR_BY_TEN * log10(max(1, listings / 200))


def weight(query: Query, plan: QueryPlan) -> float:
    """The weight w of meaning; 0 for operators, for look-ups, in other orders than relevance, and where more than half
    of a few words are unknown, which have no meaning."""
    content = plan.content
    if not content or not _is_plain(query) or _is_strange(query, plan):
        return 0.0
    most = FINDING if plan.is_long else REORDERING
    return most * (1 - len(plan.corrected) / len(content)) * known_share(query.text)


def is_gibberish(query: Query, plan: QueryPlan) -> bool:
    """Whether a short plain query in Latin letters has more unknown words than others."""
    return _is_strange(query, plan) and _is_plain(query) and latin_share(query.text) > _MOSTLY


def _is_plain(query: Query) -> bool:
    return query.operators is None and not query.lookups and order(query) == "relevance" and not is_reversed(query)


def _is_strange(query: Query, plan: QueryPlan) -> bool:
    """Whether a short text has more unknown words than others; a sentence of many is of another language, and the parts
    of its words often have the right meaning."""
    return (
        len(plan.content) <= SHORT
        and 2 * len(plan.unknown) > len(plan.content)
        and 2 * _unknown(query, plan) > len(plan.content)
    )


def _unknown(query: Query, plan: QueryPlan) -> int:
    """The number of words that no listing and no table has."""
    from overlay.search.foreign_words import is_known  # with numpy, which most that read queries do not load

    is_english = query.text.isascii() and not is_foreign(query.text.split())
    return sum(is_english or not is_known(word) for word in plan.unknown)


def known_share(text: str) -> float:
    """The share of the letters of a text that are Latin or of words that the table of foreign words has; 0 without
    letters."""
    if text.isascii():
        return latin_share(text)
    from overlay.search.foreign_words import rows_of, words_of  # as above

    words = [(sum(map(str.isalpha, word.text)), word) for word in words_of(text)]
    letters = sum(count for count, _ in words)
    return sum(count for count, word in words if word.text.isascii() or rows_of(word)) / letters if letters else 0.0


def latin_share(text: str) -> float:
    """The share of Latin letters among the letters of a text, from 0 to 1; 0 without letters."""
    if text.isascii():
        return float(any(map(str.isalpha, text)))
    letters = [letter for letter in fold(text).casefold() if letter.isalpha()]
    return sum(map(str.isascii, letters)) / len(letters) if letters else 0.0
