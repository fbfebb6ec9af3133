"""Whether listings that hold all words of a short question drive out those that hold some.

They do, unless even the best of them says these words quietly, as in a long list of words, and others say some of them
louder: else a few cards that list a thousand words would be all that is found for whatever nobody else says whole.
Then those that hold some are found, too, and holding all makes `COVERED` points more. All that is listed decides
(`among`), whatever of it filters leave, so that they do not change how a question is taken.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.query import Query
from overlay.search.ranking import BEST

ENOUGH = 2 * BEST // 5
"""Points of one that means what it says: of questions of two words that stand together in an agent's card one in six
has no such answer (measured)."""
LEAST = 3 * BEST // 10
"""Points of one that is no mere list of words; where none makes `MORE` times as many, it drives out others, too. One in
eleven has no such answer."""
MORE = 6, 5
COVERED = 9 * BEST // 40
"""Points for holding all words, where those that hold some are found, too. Who lists all words quietly stays behind who
says one of two loudly; who says two of three is passed by one that holds all in a long description."""


def among(query: Query) -> Query:
    """The same question put to all that is listed, as of a height and of a status as it asks for."""
    return Query(query.text, statuses=query.statuses, as_of=query.as_of, height_chain=query.height_chain)


def drive_out(covering: int, is_more: Callable[[int], bool]) -> bool:
    """Whether those that hold all words, of which the best makes so many points, are the only ones to be found.
    `is_more` finds out whether anything makes more than so many, without what holding all counts; it is asked where
    that decides."""
    return covering >= ENOUGH or (covering >= LEAST and not is_more(MORE[0] * covering // MORE[1]))
