"""Meaning in the order of results: the scores by words and by text vectors, combined into one score.

    (1 - w) · score + w · greatest score · (cosine - least cosine) / (greatest cosine - least cosine)

Questions of more than four content words also find the 60 listings with the greatest cosines among those that pass the
filters, and w is 0.4; the cosines are those of these 60. Shorter ones, such as names and ids, find nothing more: their
best results by words are re-ordered by their own cosines, and w is 0.2. Either is less for words that are corrected and
for letters that are not Latin, which the vocabulary of the vectors hardly has. What each brings: `docs/ranking.md`.
"""

from __future__ import annotations

from overlay.search.analysis import fold
from overlay.search.planner import SHORT, QueryPlan
from overlay.search.query import Query
from overlay.search.sorting import is_reversed, order

NEAREST = 60
"""Listings that a question finds by meaning."""
MOST_ALONE = 10
"""Listings that are shown where nothing contains a word of the question."""
FINDING, REORDERING = 0.4, 0.2


def weight(query: Query, plan: QueryPlan) -> float:
    """The weight w of meaning; 0 for operators, for look-ups, and in other orders than relevance."""
    content = plan.content
    is_plain = query.operators is None and not query.lookups and order(query) == "relevance" and not is_reversed(query)
    if not content or not is_plain:
        return 0.0
    most = FINDING if len(content) > SHORT else REORDERING
    return most * (1 - len(plan.corrected) / len(content)) * latin_share(query.text)


def latin_share(text: str) -> float:
    """The share of Latin letters among the letters of a text, from 0 to 1; 0 without letters."""
    if text.isascii():
        return float(any(map(str.isalpha, text)))
    letters = [letter for letter in fold(text).casefold() if letter.isalpha()]
    return sum(map(str.isascii, letters)) / len(letters) if letters else 0.0
