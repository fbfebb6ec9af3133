"""A registration's revisions as a time-line: what each did, whether it counted, and what it changed of the card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from overlay.pages.differences import Difference, differences
from overlay.ports import Store

MOST = 30
"""Revisions on a page, the newest; the others are JSON."""

READ_BYTES = 2 << 20
"""Cards that are read to be compared, all together."""

WORDS = {
    "inscribed": "registered", "reinscribed": "new revision", "moved": "moved to another output",
    "map_only": "told by MAP alone", "invalid": "refused revision", "foreign_content": "something else inscribed",
    "burned": "burned", "pointed": "pointed at", "rejected": "rejected", "undecided": "undecided",
}  # fmt: skip


class Entry(NamedTuple):
    """A revision: its members as JSON has them, a word for what it did, the owner if that is another one than before,
    and its differences from the card before; None where there is nothing to compare, or the two are too large."""

    revision: Mapping[str, Any]
    word: str
    new_owner: str | None
    differences: Sequence[Difference] | None
    too_large: bool


def timeline(store: Store, revisions: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """The newest revisions, newest first."""
    shown = revisions[:MOST]
    bodies: dict[str, bytes] = {}
    left = READ_BYTES
    entries = []
    for number, each in enumerate(shown):
        before, after = _card_before(revisions, number), each["cardSha256"]
        found, too_large = None, False
        if each["valid"] and after and before and before != after:
            left -= _read(store, bodies, (before, after)) if left > 0 else 0
            if left > 0 and before in bodies and after in bodies:
                found = differences(bodies[before], bodies[after])
            too_large = found is None and (left <= 0 or (before in bodies and after in bodies))
        word = WORDS.get(each["kind"], each["kind"])
        entries.append(Entry(each, word, _new_owner(revisions, number), found, too_large))
    return entries


def _card_before(revisions: Sequence[Mapping[str, Any]], number: int) -> str | None:
    """The card that counted before a revision."""
    chain = (each["cardSha256"] for each in revisions[number + 1 :] if each["valid"] and each["cardSha256"])
    return next(chain, None)


def _new_owner(revisions: Sequence[Mapping[str, Any]], number: int) -> str | None:
    owner = revisions[number]["owner"]
    before = next((each["owner"] for each in revisions[number + 1 :] if each["owner"]), None)
    return owner if owner and owner != before else None


def _read(store: Store, bodies: dict[str, bytes], wanted: Sequence[str]) -> int:
    """Read the cards that were not read yet; how many bytes that were."""
    size = 0
    for digest in wanted:
        if digest not in bodies and (body := store.card(bytes.fromhex(digest))) is not None:
            bodies[digest] = body
            size += len(body)
    return size
