"""A registration's revisions as a time-line: the effect of each, whether it is valid, and its changes to the card."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from overlay.listings.repository import ListingRepository
from parsers.cards import strict_json
from parsers.errors import CardError

MOST_VALUES = 4_000
"""Values of a card that are compared; larger cards are not."""

LONGEST_WHERE = 500
"""Characters of the path of a value."""

_NAMES = ("id", "name")
_SHORT = 60
_PLAIN = re.compile(r"[\w$@:/+-]+(?: [\w$@:/+-]+)*")
"""A name without dots, brackets, quotes, backslashes and look-alikes, which needs no quotes in a path."""


class ListStep(NamedTuple):
    """A step into a list: the id or name of the entry, or its number from 1 on."""

    name: str | int


Way = tuple[str | ListStep, ...]
"""The path of a value: names of members and entries of lists, unique within a card."""


class Difference(NamedTuple):
    """A changed value. `kind` is added, removed or changed; `where` is its path as text, with ambiguous names
    quoted; `before` and `after` are JSON texts, "" for none."""

    kind: str
    where: str
    before: str
    after: str


def differences(before: bytes, after: bytes) -> list[Difference] | None:
    """The differences between two cards in the order of the later one, removed values last; None where either is not
    JSON or too large."""
    old, new = _values(before), _values(after)
    if old is None or new is None:
        return None
    return list(_compared(old, new))


def _compared(old: dict[Way, str], new: dict[Way, str]) -> Iterator[Difference]:
    for way, value in new.items():
        if way not in old:
            yield Difference("added", _text(way), "", value)
        elif old[way] != value:
            yield Difference("changed", _text(way), old[way], value)
    for way, value in old.items():
        if way not in new:
            yield Difference("removed", _text(way), value, "")


def _values(body: bytes) -> dict[Way, str] | None:
    """Every scalar value as JSON by its path; None for too many values, or too long paths."""
    try:
        card, _ = strict_json.loads(body)
    except CardError:
        return None
    values: dict[Way, str] = {}
    waiting: list[tuple[Way, int, Any]] = [((), 0, card)]
    while waiting:
        way, length, value = waiting.pop()
        size = len(value) if isinstance(value, (dict, list)) else 0
        if length > LONGEST_WHERE or len(values) + len(waiting) + size > MOST_VALUES:
            return None
        if size:
            inner = [((*way, step), length + len(_step(step)), value_) for step, value_ in _inner(value)]
            waiting.extend(reversed(inner))
        else:
            values[way] = _json(value)
    return values


def _inner(value: dict[str, Any] | list[Any]) -> Iterator[tuple[str | ListStep, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    else:
        names = _names(value)
        for number, entry in enumerate(value):
            yield ListStep(names[number] if names else number + 1), entry


def _text(way: Way) -> str:
    return "".join(map(_step, way)).removeprefix(".")


def _step(step: str | ListStep) -> str:
    """A step as text. A name in digits is quoted, to distinguish it from the number of an entry."""
    if isinstance(step, str):
        return f".{_quoted(step)}"
    name = step.name
    return f"[{json.dumps(name) if isinstance(name, str) and name.isdigit() else _quoted(str(name))}]"


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _names(values: list[Any]) -> list[str]:
    """Unique names of a list's entries (their id or name), or an empty list."""
    if all(isinstance(entry, str) and len(entry) <= _SHORT for entry in values) and len(set(values)) == len(values):
        return values
    for member in _NAMES:
        names = [entry.get(member) if isinstance(entry, dict) else None for entry in values]
        if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
            return [str(name) for name in names]
    return []


def _json(value: Any) -> str:
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


MOST = 30
"""Revisions on a page, the newest ones."""

READ_BYTES = 2 << 20
"""Bytes of all cards that are compared on a page."""

WORDS = {
    "inscribed": "registered", "reinscribed": "new revision", "moved": "moved to another output",
    "map_only": "described by MAP alone", "invalid": "refused revision", "foreign_content": "something else inscribed",
    "burned": "burned", "pointed": "pointed at", "rejected": "rejected", "undecided": "undecided",
}  # fmt: skip


class Entry(NamedTuple):
    """A revision: its JSON members, a word for its effect, the owner where that changed, and the differences from the
    card before; None where there is nothing to compare, or the cards are too large."""

    revision: Mapping[str, Any]
    word: str
    new_owner: str | None
    differences: Sequence[Difference] | None
    too_large: bool


def timeline(store: ListingRepository, revisions: Sequence[Mapping[str, Any]], bodies: dict[str, bytes]) -> list[Entry]:
    """The newest revisions, newest first. The cards that are compared are added to `bodies`, by SHA-256 (hex)."""
    shown = revisions[:MOST]
    left = READ_BYTES
    entries = []
    for number, revision in enumerate(shown):
        before, after = _card_before(revisions, number), revision["cardSha256"]
        changes, too_large = None, False
        if revision["valid"] and after and before and before != after:
            left -= _read(store, bodies, (before, after)) if left > 0 else 0
            if left > 0 and before in bodies and after in bodies:
                changes = differences(bodies[before], bodies[after])
            too_large = changes is None and (left <= 0 or (before in bodies and after in bodies))
        word = WORDS.get(revision["kind"], revision["kind"])
        entries.append(Entry(revision, word, _new_owner(revisions, number), changes, too_large))
    return entries


def _card_before(revisions: Sequence[Mapping[str, Any]], number: int) -> str | None:
    """The card of the last valid revision before this one."""
    chain = (
        revision["cardSha256"] for revision in revisions[number + 1 :] if revision["valid"] and revision["cardSha256"]
    )
    return next(chain, None)


def _new_owner(revisions: Sequence[Mapping[str, Any]], number: int) -> str | None:
    owner = revisions[number]["owner"]
    before = next((revision["owner"] for revision in revisions[number + 1 :] if revision["owner"]), None)
    return owner if owner and owner != before else None


def _read(store: ListingRepository, bodies: dict[str, bytes], digests: Sequence[str]) -> int:
    """Read the cards that are not read yet; returns their size in bytes."""
    size = 0
    for digest in digests:
        if digest not in bodies and (body := store.card(bytes.fromhex(digest))) is not None:
            bodies[digest] = body
            size += len(body)
    return size
