"""The one codec of events: the members of an event, its state and its pointer as cells of `events` and `pending`, and
as members of a line of a snapshot."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from indexer.model import BlockRef, Event, EventKind, PointerAnchor, RegistrationState, Status
from indexer.store import map_changes
from indexer.store.queries import Row
from indexer.store.schema import POSITION_BITS
from parsers.bitcoin.tx import Outpoint
from parsers.cards import Kind
from parsers.reasons import SENTENCES, Reason


def _same(value: Any) -> Any:
    return value


class Form(NamedTuple):
    """How a value that is not None is stored in its cell, or cells, and read from these, and how it is written in a
    line and read from that."""

    cells: Callable[[Any], Any] = _same
    of_cells: Callable[..., Any] = _same
    text: Callable[[Any], Any] = _same
    of_text: Callable[[Any], Any] = _same


class Codec:
    """The members of a record, each with its column or columns, of which the last is null where it is None; "" for one
    that has none."""

    def __init__(self, **members: tuple[str | tuple[str, ...], Form]) -> None:
        self.forms = {name: form for name, (_, form) in members.items()}
        single = {name: columns for name, (columns, _) in members.items() if isinstance(columns, str) and columns}
        wide = {name: columns for name, (columns, _) in members.items() if isinstance(columns, tuple)}
        self._names, self._columns = tuple(single), tuple(single.values())
        self._values, self._cells = attrgetter(*single), itemgetter(*single.values())
        self._converted = [
            (name, column, self.forms[name]) for name, column in single.items() if self.forms[name].cells is not _same
        ]
        self._wide = [(name, columns, self.forms[name]) for name, columns in wide.items()]
        self.no_cells = dict.fromkeys((*self._columns, *(name for columns in wide.values() for name in columns)))

    def cells(self, record: object) -> dict[str, Any]:
        """The cells of a record by column."""
        row = dict(zip(self._columns, self._values(record), strict=True))
        for _, column, form in self._converted:
            if row[column] is not None:
                row[column] = form.cells(row[column])
        for name, columns, form in self._wide:
            value = getattr(record, name)
            row.update(zip(columns, form.cells(value) if value is not None else (None,) * len(columns), strict=True))
        return row

    def of_cells(self, row: Row) -> dict[str, Any]:
        """The members of the record that has these cells."""
        members = dict(zip(self._names, self._cells(row), strict=True))
        for name, _, form in self._converted:
            if members[name] is not None:
                members[name] = form.of_cells(members[name])
        for name, columns, form in self._wide:
            members[name] = None if row[columns[-1]] is None else form.of_cells(*[row[column] for column in columns])
        return members

    def line(self, record: object) -> dict[str, Any]:
        """The members of a record that are not None, as a line has them."""
        return {
            name: form.text(value) for name, form in self.forms.items() if (value := getattr(record, name)) is not None
        }

    def of_line(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """The members of the record that has this line. Raises ValueError."""
        return {name: None if line[name] is None else form.of_text(line[name]) for name, form in self.forms.items()}


def _whole_map(base: int | None, fields: str | dict[str, str]) -> dict[str, str]:
    """The map. Raises ValueError for cells that did not pass through `map_changes.with_whole_maps`."""
    if base is not None:
        raise ValueError(f"an event has only the changes of its map since the event at place {base}")
    return fields if isinstance(fields, dict) else json.loads(fields)


def _read_reasons(parts: tuple[tuple[str, str, str], ...]) -> tuple[Reason, ...]:
    for code, *_ in parts:
        if code not in SENTENCES:
            raise ValueError(f"{code[:60]!a} is an unknown reason code")
    return tuple(Reason(*reason) for reason in parts)


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _enumerated(kind: type[EventKind | Kind | Status]) -> Form:
    return Form(cells=attrgetter("value"), of_cells=kind, of_text=kind)


_PLAIN = Form()
_TXID = Form(text=lambda txid: txid[::-1].hex(), of_text=lambda text: bytes.fromhex(text)[::-1])
_DIGEST = Form(text=bytes.hex, of_text=bytes.fromhex)
_OUTPOINT = Form(tuple, Outpoint, str, Outpoint.parse)
_MAP = Form(lambda fields: (None, map_changes.dump(fields)), _whole_map, lambda fields: tuple(fields.items()), dict)
_REASONS = Form(
    lambda reasons: _dump([list(reason) for reason in reasons]) if reasons else None,
    lambda text: tuple(Reason(*reason) for reason in json.loads(text)),
    tuple,
    _read_reasons,
)

EVENT = Codec(
    kind=("kind", _enumerated(EventKind)), tx_index=("tx_index", _PLAIN), txid=("txid", _TXID),
    spent=(("spent_txid", "spent_vout"), _OUTPOINT), card=("card", _DIGEST), valid=("valid", _PLAIN),
    reasons=("reasons", _REASONS), owner=("owner", _PLAIN), signer=("signer", _PLAIN),
)  # fmt: skip
"""The members of an event besides its position, its outpoint, its state and its pointer."""

STATE = Codec(
    id=("registration", _PLAIN), kind=("type", _enumerated(Kind)), status=("status", _enumerated(Status)),
    outpoint=(("at_txid", "at_vout"), _OUTPOINT), offset=("at_offset", _PLAIN), satoshis=("at_satoshis", _PLAIN),
    owner=("holder", _PLAIN), map=(("map_base", "map"), _MAP), card=("winner_card", _DIGEST),
    winner=(("winner_txid", "winner_vout"), _OUTPOINT), updated_height=("updated_height", _PLAIN),
    created_height=("created_height", _PLAIN),
)  # fmt: skip

POINTER = Codec(
    id=("anchor", _PLAIN), domain=("", _PLAIN), digest=("", _DIGEST), uri=("", _PLAIN), form=("", _PLAIN),
    kind=("", _enumerated(Kind)),
)  # fmt: skip
"""The members of a pointer; those after its id are a list in one cell, in this order and as a line has them."""

_LISTED = tuple(POINTER.forms)[1:]


def event_position(height: int, position: int = 0) -> int:
    """The integer that orders the events of a chain, by height and by position in the block."""
    return height << POSITION_BITS | position


def event_row(ref: BlockRef, event: Event) -> dict[str, Any]:
    """An event of block `ref` as a row of `events`."""
    pointer, line = event.pointer, POINTER.line(event.pointer) if event.pointer else {}
    return {
        "chain": ref.chain,
        "place": event_position(ref.height, event.position),
        "height": ref.height,
        "vout": event.outpoint.vout if event.outpoint else None,
        **EVENT.cells(event),
        "pointer": _dump([line.get(name) for name in _LISTED]) if pointer else None,
        "anchor": pointer.id if pointer else None,
        "anchor_digest": pointer.digest if pointer and pointer.id is not None else None,
        **(STATE.cells(event.state) if event.state else STATE.no_cells),
    }


def event(row: Row) -> Event:
    """The event that `row` of `events` holds."""
    members = EVENT.of_cells(row)
    members["reasons"] = members["reasons"] or ()
    outpoint = Outpoint(row["txid"], row["vout"]) if row["vout"] is not None else None
    position = row["place"] & ((1 << POSITION_BITS) - 1)
    return Event(position=position, outpoint=outpoint, state=state(row), pointer=pointer(row), **members)


def state(row: Row) -> RegistrationState | None:
    """The registration's state after the event in `row`, None where the event is not about one."""
    return RegistrationState(**STATE.of_cells(row)) if row["registration"] is not None else None


def pointer(row: Row) -> PointerAnchor | None:
    """The pointer of the event in `row`, None where it has none."""
    if row["pointer"] is None:
        return None
    listed = dict(zip(_LISTED, json.loads(row["pointer"]), strict=True))
    return PointerAnchor(**POINTER.of_line({"id": row["anchor"], **listed}))


def block(row: Row) -> BlockRef:
    """The block that `row` of `blocks` holds."""
    return BlockRef(row["chain"], row["height"], row["hash"], row["prev"], row["time"], row["header"])
