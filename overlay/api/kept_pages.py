"""A cache of search pages: searches are often repeated, and the page stays the same until the index, the heights or the
exchange rates change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from aiohttp import web

from overlay.api.search_statistics import CountedSearch
from overlay.engines import IndexPosition

MOST_BYTES = 16 * 1024 * 1024
"""Bytes of stored pages in each process that serves: some 500 pages of 20 listings, or 2,000 compressed ones."""

_LARGEST = MOST_BYTES // 32
_OBJECT, _VIEW, _OVERHEAD = 40, 240, 1_000
"""Bytes of memory of a piece besides its content, of a piece that is a view, and of the headers and key of a page."""


class PageStamp(NamedTuple):
    """The state that a page of a search depends on besides the question: the version of the index and the change that
    it has read up to, the chains with their indexed heights, and the exchange rates (`ExchangeRates.stamp`)."""

    version: object
    position: IndexPosition | None
    chains: Mapping[str, str]
    heights: Mapping[str, int]
    rates: tuple[object, ...]


class Question(NamedTuple):
    """A raw query string, and whether the page is compressed."""

    query_string: str
    gzip: bool


class KeptPage(NamedTuple):
    """A body in pieces, some of which may be parts of a mapped index; its headers; and the search as it is counted."""

    body: tuple[bytes | memoryview, ...]
    headers: Mapping[str, str]
    search: CountedSearch | None = None


class KeptPages:
    """The pages of one stamp that were sent last, at most `MOST_BYTES` of them."""

    def __init__(self) -> None:
        self._stamp: PageStamp | None = None
        self._pages: OrderedDict[Question, tuple[KeptPage, int]] = OrderedDict()  # each with its bytes
        self.size = 0

    def get(self, question: Question, stamp: PageStamp) -> KeptPage | None:
        """The page of a question, None without one. Pages of another stamp are dropped."""
        if stamp != self._stamp:
            self._pages.clear()
            self._stamp, self.size = stamp, 0
        stored = self._pages.get(question)
        if stored is None:
            return None
        self._pages.move_to_end(question)
        return stored[0]

    def keep(self, question: Question, stamp: PageStamp, page: KeptPage) -> None:
        """Add a page of the current stamp, and drop the least recently sent ones."""
        if stamp != self._stamp or question in self._pages or (size := _bytes(question, page)) > _LARGEST:
            return
        self._pages[question] = page, size
        self.size += size
        while self.size > MOST_BYTES:
            self.size -= self._pages.popitem(last=False)[1][1]


def _bytes(question: Question, page: KeptPage) -> int:
    """The memory that a page takes: a mapped piece counts as its view only."""
    pieces = [_VIEW if type(piece) is memoryview else len(piece) + _OBJECT for piece in page.body]
    return len(question.query_string) + sum(pieces) + _OVERHEAD


KEPT_PAGES: web.AppKey[KeptPages] = web.AppKey("kept pages", KeptPages)
