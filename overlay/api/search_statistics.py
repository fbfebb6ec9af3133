"""Counts of searches, where the operator wants them: by day, in memory, and once a minute in the database.

Of a search without results, or with results by their meaning alone, its words are counted, each by itself and from the
day's fifth client on that searched for it: until then a word is a hash (`WordAskers`).
"""

from __future__ import annotations

import time
from asyncio import to_thread
from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from indexer.client_networks import networks_of
from indexer.store.search_counts import DayCounts, MissedWord
from overlay.api.shared_tables import DAY_SECONDS, FEWEST_CLIENTS
from overlay.api.zero_results import narrowing
from overlay.search.analysis import query_words
from overlay.search.stop_words import content_words
from parsers.cards.secrets import secret_in

if TYPE_CHECKING:
    from overlay.api.counters import Counters
    from overlay.api.search_request import SearchRequest
    from overlay.search.query import Hits

FLUSH_SECONDS = 60.0
"""Seconds between two writes: what a crash loses at most."""

LONGEST = 24
"""Letters of a word that is counted."""


class Outcome(StrEnum):
    """By which listings were found."""

    BY_WORDS = "words"
    BY_MEANING = "meaning"
    NOTHING = "nothing"


GAUGES = {Outcome.BY_WORDS: 8, Outcome.BY_MEANING: 9, Outcome.NOTHING: 10}
OPENED = 11
"""The numbers of the gauges that count searches by outcome, and opened listings."""


class CountedSearch(NamedTuple):
    """A search as it is counted: its outcome, and its words where these found nothing."""

    outcome: Outcome
    words: tuple[str, ...] = ()


def counted(search_request: SearchRequest, hits: Hits) -> CountedSearch | None:
    """The first page of a search with words or filters; None for any other."""
    query = search_request.query
    if search_request.position or query.after is not None or not (query.text.strip() or narrowing(query)):
        return None
    if hits.total and not (hits.hits and all(hit.by_meaning for hit in hits.hits)):
        return CountedSearch(Outcome.BY_WORDS)
    return CountedSearch(Outcome.BY_MEANING if hits.total else Outcome.NOTHING, tuple(public_words(query.text)))


def public_words(text: str) -> list[str]:
    """The distinct words of a text that may be counted, in lower case: none of a text with a secret in it; not those
    with `@`, without letters, or of more than `LONGEST` letters."""
    if secret_in(text):
        return []
    tokens = (token for token in content_words(text.split()) if _is_public(token))
    words = (compound.written.casefold() for token in tokens for compound in query_words(token))
    return [word for word in dict.fromkeys(words) if len(word) <= LONGEST and any(map(str.isalpha, word))]


def _is_public(token: str) -> bool:
    """Whether a text without spaces may be counted; a long one in a script without spaces is, by its pairs."""
    return not ("@" in token or "://" in token or secret_in(token) or (token.isascii() and len(token) > LONGEST))


_Add = Callable[[list[DayCounts], list[MissedWord]], None]


class SearchStatistics:
    """The counts of this process that are not stored yet, which `add` stores."""

    def __init__(self, counters: Counters, add: _Add, clock: Callable[[], float] = time.time) -> None:
        self._counters, self._add, self._clock = counters, add, clock
        self._days: Counter[tuple[int, str]] = Counter()
        self._words: Counter[tuple[int, str]] = Counter()

    def searched(self, search: CountedSearch, client: str) -> None:
        """Count a search of a client (`client_of`, or the key of a named one)."""
        day = self._today()
        self._counters.add(GAUGES[search.outcome], 1)
        self._days[day, "searches"] += 1
        if search.outcome is not Outcome.BY_WORDS:
            self._days[day, "empty" if search.outcome is Outcome.NOTHING else "by_meaning"] += 1
        network = networks_of(client)[-1].name  # a customer of IPv6 has as many clients as it likes
        for word in search.words:
            before, after = self._counters.askers.ask(word, network)
            if after >= FEWEST_CLIENTS:
                self._words[day, word] += 1 if before >= FEWEST_CLIENTS else FEWEST_CLIENTS

    def opened(self) -> None:
        """Count a listing that was opened."""
        self._counters.add(OPENED, 1)
        self._days[self._today(), "opened"] += 1

    async def store(self) -> None:
        """Add the counts to the database, in one transaction. Raises StoreError; then they remain."""
        self._today()
        days, words = self._days, self._words
        if not days:
            return
        self._days, self._words = Counter(), Counter()
        try:
            await to_thread(self._add, list(_by_day(days)), [MissedWord(*word, n) for word, n in words.items()])
        except Exception:
            self._days.update(days)
            self._words.update(words)
            raise

    def _today(self) -> int:
        """The day, at whose begin the clients of the last one are forgotten."""
        day = int(self._clock()) // DAY_SECONDS
        self._counters.askers.begin(day)
        return day


def _by_day(counts: Counter[tuple[int, str]]) -> Iterator[DayCounts]:
    for day in {day for day, _ in counts}:
        yield DayCounts(day, **{name: n for (other, name), n in counts.items() if other == day})
