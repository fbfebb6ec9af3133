"""Pages of a long question: the best hits in the order that close words make, the others behind them."""

from __future__ import annotations

from typing import NamedTuple

from overlay.engines.tantivy.pages import Key, Keyed, Order, Read, page, page_after
from overlay.search.closeness import MOST, Closeness, brought_near


def nearer(closeness: Closeness, first: list[Keyed]) -> list[Keyed]:
    """The first hits, the most relevant first, with what closeness adds to their points, and in that order."""
    keys = brought_near(closeness, [(key[0], key[1], key[2]) for key, _ in first], [record.said for _, record in first])
    rows: list[Keyed] = list(zip(keys, (record for _, record in first), strict=True))
    rows.sort(key=lambda row: row[0])
    return rows


class Near(NamedTuple):
    """`best` are the first hits with their new keys, the most relevant first, whichever way pages go; `edge` is the
    last key they had before. Points are only added, so all others have keys behind it."""

    order: Order
    read: Read
    others: int
    best: list[Keyed]
    edge: Key

    @classmethod
    def of(cls, order: Order, read: Read, total: int, closeness: Closeness) -> Near:
        """From hits in the order of their points, of which there are some."""
        first = page(order, read, max(0, total - MOST) if order.reverse else 0, MOST)
        if order.reverse:
            first.reverse()
        return cls(order, read, total - len(first), nearer(closeness, first), first[-1][0])

    def page(self, start: int, limit: int) -> list[Keyed]:
        """Hits number `start` to `start + limit`."""
        if not self.order.reverse:
            rows = self.best[start : start + limit]
            return rows + self._others(max(start, len(self.best)), limit - len(rows))
        rows = self._others(start, min(limit, self.others - start))
        return rows + self.best[::-1][max(0, start - self.others) :][: limit - len(rows)]

    def _others(self, start: int, limit: int) -> list[Keyed]:
        return page(self.order, self.read, start, limit) if self.others > 0 and limit > 0 else []

    def after(self, key: Key, limit: int) -> list[Keyed]:
        """The `limit` hits that come strictly after a key."""
        if not self.order.reverse:
            rows = [row for row in self.best if row[0] > key][:limit]
            more = limit - len(rows)
            return rows + (page_after(self.order, self.read, max(key, self.edge), more) if more else [])
        found = page_after(self.order, self.read, key, limit) if key > self.edge else []
        rows = [row for row in found if row[0] > self.edge]
        return rows + [row for row in self.best[::-1] if row[0] < key][: limit - len(rows)]
