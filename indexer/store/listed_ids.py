"""The ids of what is listed, in runs of one size, as a sitemap lists them."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Select, func, select

from indexer.model import Status
from indexer.store.fetches import FetchState
from indexer.store.pointer_queries import SAME_POINTER
from indexer.store.queries import Queries
from indexer.store.registrations import is_newest
from indexer.store.schema import CHAIN, events, locators, meta, sightings

POINTERS = ""
"""The run of ids that pointers name, in the place of a chain's name."""

_SERVED = (FetchState.MET.value, FetchState.UNHASHED.value)


class IdRun(NamedTuple):
    """The ids of a chain, or of pointers, after an id."""

    chain: str
    after: str


class ListedIds(Queries):
    """The ids of live registrations of each chain, then those of pointers to a card that is served."""

    def runs(self, size: int) -> list[IdRun]:
        """The runs of `size` ids that make up all, in order: as many as there are, whatever they contain when they are
        read. It goes through all ids."""
        names = self._scalars(select(meta.c.key).where(meta.c.key.startswith(CHAIN)))
        runs: list[IdRun] = []
        for chain in [*sorted(name.removeprefix(CHAIN) for name in names), POINTERS]:
            numbered = (
                _ids(chain).add_columns(func.row_number().over(order_by=_column(chain)).label("number")).subquery()
            )
            ends = select(numbered.c.id).where(numbered.c.number % size == 0).order_by(numbered.c.id)
            starts = ["", *self._scalars(ends)]
            runs += (IdRun(chain, after) for after in starts if self.page(IdRun(chain, after), 1))
        return runs

    def page(self, run: IdRun, size: int) -> list[str]:
        """At most `size` ids of a run."""
        column = _column(run.chain)
        return self._scalars(_ids(run.chain).where(column > run.after).order_by(column).limit(size))


def _column(chain: str) -> Any:
    return events.c.registration if chain else events.c.anchor


def _ids(chain: str) -> Select[Any]:
    if chain:
        live = (events.c.chain == chain, events.c.status == Status.LIVE.value, is_newest(chain))
        return select(events.c.registration.label("id")).where(*live)
    served = select(events.c.anchor.label("id")).where(events.c.anchor.is_not(None))
    served = served.join(sightings, SAME_POINTER).join(locators, locators.c.locator == sightings.c.locator)
    return served.where(locators.c.state.in_(_SERVED), events.c.valid).group_by(events.c.anchor)
