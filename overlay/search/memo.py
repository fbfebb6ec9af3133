"""A function's results by its argument, for functions that are called for every word of every listing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")

MOST = 32_768
"""Results in the memo at least; up to twice as many. Nine words in ten are among the commonest."""

LONGEST = 64
"""Characters of a text whose result is stored. Strangers write the texts: longer ones seldom repeat, and together could
take any amount of memory."""


class Memo(dict[str, _Result]):
    """`memo[text]` is the result of a function for a text, computed at the first use. Reading takes a third of the time
    of `lru_cache`. Once there are `MOST`, only those are kept that are used before there are as many again; those of
    texts above `LONGEST` are not kept."""

    def __init__(self, function: Callable[[str], _Result]) -> None:
        super().__init__()
        self._function, self._before = function, dict[str, _Result]()

    def __missing__(self, text: str) -> _Result:
        if len(text) > LONGEST:
            return self._function(text)
        if len(self) >= MOST:
            self._before = dict(self)
            self.clear()
        result = self._before.get(text)
        self[text] = result = self._function(text) if result is None else result
        return result


def memoized(function: Callable[[str], _Result]) -> Callable[[str], _Result]:
    """A function that keeps its results in a `Memo`."""
    return Memo(function).__getitem__
