"""Results of functions by their arguments, whose texts strangers choose."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

MOST = 128 << 10
"""UTF-8 bytes of texts in the memo at least; up to twice as many. Nine words in ten are among the commonest. A result
may take a hundred times the bytes of its text (in a script without spaces, or with a mark after every letter): with
texts that strangers choose a memo takes 13 MB at most."""

LONGEST = 48
"""UTF-8 bytes of a text whose result is stored; those of a longer one are seldom used again."""


class Memo(dict[str, _Result]):
    """`memo[text]` is the result of a function for a text, computed at the first use: for functions that are called for
    every word of every listing. Reading takes a third of the time of `lru_cache`. Once the texts have `MOST` bytes,
    only those are kept that are used before they have as many again; those above `LONGEST` are not kept."""

    def __init__(self, function: Callable[[str], _Result]) -> None:
        super().__init__()
        self._function, self._before = function, dict[str, _Result]()
        self._size = 0

    def __missing__(self, text: str) -> _Result:
        size = len(text) if text.isascii() else 3 * len(text)
        if size > LONGEST:
            return self._function(text)
        if self._size + size > MOST:
            self._before, self._size = dict(self), 0
            self.clear()
        self._size += size
        result = self._before.get(text)
        self[text] = result = self._function(text) if result is None else result
        return result


def memoized(function: Callable[[str], _Result]) -> Callable[[str], _Result]:
    """A function that keeps its results in a `Memo`."""
    return Memo(function).__getitem__


def cached_if(
    is_short: Callable[..., bool], most: int
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Cache the results of a function for arguments that are short, at most so many."""

    def decorate(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        cached: Callable[..., _Result] = lru_cache(most)(function)

        @wraps(function)
        def call(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
            return (cached if is_short(*arguments) else function)(*arguments, **named)

        return call

    return decorate
