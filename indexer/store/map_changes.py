"""The fields of a registration (MAP, or the metadata of an entry) in rows of `events`: whole, or only the changes.

A key of a large map changes, or its satoshi moves, for a hundredth of what the whole map takes. Such an event has the
changes alone, and in `map_base` the place of an earlier event of its registration with the whole map: those between
have changes, too. They are at most `MOST_CHANGES`, and together not longer than the map: so reading one costs at most
twice its length, and storing all of them about twice what the changes take.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, select

from indexer.store.queries import Queries, Row
from indexer.store.schema import events

SMALL = 512
"""Characters (JSON) up to which a map is always stored whole."""

MOST_CHANGES = 512

Fields = dict[str, str]


class _Stored(NamedTuple):
    """The map after the newest event of a registration: the place of the whole one before it, the number of events
    with changes since, and their characters."""

    fields: Fields
    base: int
    changes: int
    size: int


def dump(fields: Mapping[str, str]) -> str:
    """A map as it is stored."""
    return json.dumps(fields, ensure_ascii=True, separators=(",", ":"))


class MapWriter:
    """Leaves out of new rows of `events` of a chain, which come in order, what did not change. The rows of one writer
    are not stored yet, and stay in memory."""

    def __init__(self, connection: Connection, chain: str) -> None:
        self._connection, self._chain = connection, chain
        self._newest: dict[str, _Stored | None] = {}  # None: the newest map is small

    def shorten(self, row: dict[str, Any], fields: Fields) -> None:
        """Replace the map of a row by its changes, where it is large and they are short."""
        id_, whole = row["registration"], row["map"]
        if len(whole) <= SMALL:
            self._newest[id_] = None
            return
        before = self._newest[id_] if id_ in self._newest else self._stored(id_, row["place"])
        changes = _changes(before.fields, fields) if before is not None and before.changes < MOST_CHANGES else None
        if before is None or changes is None or before.size + len(text := dump(changes)) > len(whole):
            self._newest[id_] = _Stored(fields, row["place"], 0, 0)
            return
        row["map"], row["map_base"] = text, before.base
        self._newest[id_] = _Stored(fields, before.base, before.changes + 1, before.size + len(text))

    def _stored(self, id_: str, up_to: int) -> _Stored | None:
        """The stored fields after the newest event of a registration, None without any or where its map is small."""
        before = _of(self._chain, id_).where(events.c.place < up_to).order_by(events.c.place.desc()).limit(1)
        newest = self._connection.execute(before).mappings().first()
        if newest is None or (newest["map_base"] is None and len(newest["map"]) <= SMALL):
            return None
        base = newest["place"] if newest["map_base"] is None else newest["map_base"]
        steps = list(_since(self._connection, self._chain, id_, base, newest["place"]))
        return _Stored(steps[-1].fields, base, len(steps) - 1, sum(step.size for step in steps[1:]))


class _Step(NamedTuple):
    """The map after an event, and the characters that the event has of it."""

    event_place: int
    size: int
    fields: Fields


def _since(connection: Connection, chain: str, id_: str, base: int, last: int) -> Iterator[_Step]:
    """The maps of a registration from the event at `base`, which has a whole one, to that at `last`."""
    fields: Fields = {}
    between = _of(chain, id_).where(events.c.place.between(base, last)).order_by(events.c.place)
    for row in connection.execute(between).mappings():
        fields = {**fields, **json.loads(row["map"])}
        yield _Step(row["place"], len(row["map"]), fields)


def _of(chain: str, id_: str) -> Select[Any]:
    """The maps of a registration."""
    statement = select(events.c.place, events.c.map, events.c.map_base)
    return statement.where(events.c.registration == id_, events.c.chain == chain)


def _changes(before: Fields, after: Fields) -> Fields | None:
    """The changes that turn one map into the other, in its order; None where keys went away or others are first."""
    changes = {key: value for key, value in after.items() if before.get(key) != value}
    return changes if [*{**before, **changes}] == [*after] else None


def with_whole_maps(connection: Connection, matches: Iterable[Row]) -> list[Row]:
    """Rows of `events`, in which `map` is the whole map, as a dict, where only changes are stored."""
    matches = list(matches)
    if not matches or "map_base" not in matches[0]:
        return matches
    newest: dict[tuple[str, str, int], int] = {}  # the last place, by chain, registration and place of the whole map
    for row in matches:
        if row["map_base"] is not None:
            key = row["chain"], row["registration"], row["map_base"]
            newest[key] = max(newest.get(key, 0), row["place"])
    maps: dict[tuple[str, int], Fields] = {}
    for (chain, id_, base), last in newest.items():
        maps |= {(chain, step.event_place): step.fields for step in _since(connection, chain, id_, base, last)}
    return [
        row if row["map_base"] is None else {**row, "map": maps[row["chain"], row["place"]], "map_base": None}
        for row in matches
    ]


class EventQueries(Queries):
    """Reads of rows of `events`, each with the whole map."""

    def _completed(self, connection: Connection, matches: Iterable[Row]) -> list[Row]:
        return with_whole_maps(connection, matches)
