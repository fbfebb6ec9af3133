"""Stop words: function words, and in English also the words of requests ("I am looking for", "please") and of numbers
up to twelve. They find nothing by themselves, and are not searched for in sentences: listings hardly use them, and
their rarity would outweigh the words that matter (MRR@10 of four benchmarks of stated needs: `docs/relevance.md`).

English is assumed unless more words of a text, and at least three, are function words of another language. The lists of
other languages are the Snowball project's, as Whoosh carries them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import cache

from overlay.search.analysis import QUOTES, fold

FEWEST_FOREIGN = 3
"""Function words of a language that make it certain."""

_FUNCTION_WORDS = frozenset(
    """
    a about above after again all also am an and any are arent as at be because been before being below
    between both but by can cannot cant could couldnt did didnt do does doesnt doing dont down during each
    few for from further had has hasnt have havent having he her here hers herself him himself his how i id
    if ill im in into is isnt it its itself ive just let lets me more most my myself no nor not now of off
    on once only or other our ours ourselves out over own same she should shouldnt so some such than that
    thats the their theirs them themselves then there theres these they this those through to too under
    until up us very was we were what whats when where which while who whom why will with within without
    wont would wouldnt you your youre yours yourself yourselves youve
    """.split()  # noqa: SIM905 - a list of words reads better
)
_REQUESTS = frozenset(
    """
    able additionally anyone anything assist assistance based come currently else even ever every everything
    finally furthermore get gets getting give gives go going got hello help helping helps hey hi include
    including interested kindly know like look looking lot make many may might moreover much must need
    needed needing needs one ones particular planning please possible possibly provide provides providing
    really recently recommend regarding related say see shall show someone something specific specifically
    suggest sure tell thank thanks think try trying use used using want wanted wanting wants way ways
    wondering
    """.split()  # noqa: SIM905 - a list of words reads better
)
_NUMBERS = frozenset(("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"))
GENERIC = frozenset(("agent", "agents", "api", "apis", "mcp", "server", "servers", "tool", "tools"))
"""Words for nearly every listing: beside other words they add to the score only and find nothing, in any text."""
ENGLISH = _FUNCTION_WORDS | _REQUESTS | _NUMBERS
"""Case-folded, without apostrophes."""


def stop_words(words: Iterable[str]) -> Set[str]:
    """The stop words that hold for a text of these words, which are folded, as the stop words are."""
    distinct = frozenset(words)
    english = len(distinct & _FUNCTION_WORDS)
    if len(distinct) - english < FEWEST_FOREIGN or len(distinct & _any_foreign()) < FEWEST_FOREIGN:
        return ENGLISH
    counts = {language: len(distinct & list_) for language, list_ in _foreign().items()}
    most = max(counts.values())
    if most < FEWEST_FOREIGN or most <= english:
        return ENGLISH
    # neighbouring languages share their function words
    return frozenset().union(*(list_ for language, list_ in _foreign().items() if counts[language] == most))


_PUNCTUATION = f".,;:!?()[]{{}}<>/-{QUOTES}"


def content_words(words: Sequence[str]) -> list[str]:
    """The words of a text that are not stop words, as they are written; all, where there are no others."""
    folded = _folded(words)
    stop = stop_words(folded)
    return [word for word, plain in zip(words, folded, strict=True) if plain and plain not in stop] or list(words)


def is_foreign(words: Sequence[str]) -> bool:
    """Whether the function words of a text are of another language than English."""
    return stop_words(_folded(words)) is not ENGLISH


def _folded(words: Sequence[str]) -> list[str]:
    return [fold(word).casefold().strip(_PUNCTUATION) for word in words]


@cache
def _any_foreign() -> frozenset[str]:
    return frozenset().union(*_foreign().values())


@cache
def _foreign() -> dict[str, frozenset[str]]:
    from whoosh.lang.stopwords import stoplists

    return {
        language: frozenset(fold(word).casefold() for word in words)
        for language, words in stoplists.items()
        if language != "en"
    }
