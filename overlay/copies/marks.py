"""What follows for a listing from the claims of others, and how its item tells."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from overlay.compact import encode
from overlay.copies import voices
from overlay.copies.claims import ADDRESS, NAME, URL
from overlay.search.ranking import names
from overlay.search.text import stem, words
from parsers.reasons import Reason

if TYPE_CHECKING:
    from overlay.document import Document

CODES = {NAME: ("same-name", "/name"), URL: ("same-url", "/url"), ADDRESS: ("same-address", "")}


class Marks(NamedTuple):
    """`behind` are the views in which an identical listing goes before this one ("" for all, the names of chains, and
    `copies.HERE`); `duplicates` is how many go behind this one; `earlier` names, by the kind of claim, the id of the
    listing that had the same first, and whether it has the same owner. `crowded` and `age` are those of `Document`;
    `quiet` are the values of words of the name, and `named` says that all of it is quiet."""

    behind: tuple[str, ...] = ()
    duplicates: int = 0
    earlier: tuple[tuple[str, str, bool], ...] = ()
    crowded: bool = False
    named: bool = False
    quiet: frozenset[int] = frozenset()
    age: int = 0


NONE = Marks()
CROWDED, QUIET = "crowded", "crowded-name"
_WARNINGS = frozenset((*(code for code, _ in CODES.values()), CROWDED, QUIET))
_COUNTED = ("duplicates", "quiet", "age")
"""Members of an item that say what follows for it."""


def marked(item: dict[str, Any], marks: Marks, quiet: Sequence[str] = ()) -> dict[str, Any]:
    """An item with what follows for it; `quiet` are the terms of its name."""
    warnings = list(map(_warning, marks.earlier))
    warnings += [_about("", CROWDED, "")] if marks.crowded else []
    warnings += [_about("/name", QUIET, ", ".join(_written(item["name"], quiet)))] if quiet else []
    counted = {"duplicates": marks.duplicates, "quiet": list(quiet), "age": marks.age}
    item = item | {name: value for name, value in counted.items() if value}
    return item | {"warnings": [*item["warnings"], *warnings]} if warnings else item


def _warning(earlier: tuple[str, str, bool]) -> dict[str, str]:
    kind, id_, same_owner = earlier
    code, pointer = CODES[kind]
    return _about(pointer, code, f"{id_}, of the same owner" if same_owner else id_)


def _written(name: str, quiet: Sequence[str]) -> Iterable[str]:
    """Terms as the name has them first."""
    found = {stem(word): word for word in reversed(list(words(name)))}
    return (found.get(term, term) for term in quiet)


def _about(pointer: str, code: str, detail: str) -> dict[str, str]:
    return {"code": code, "pointer": pointer, "detail": Reason(code, detail).sentence}


def told(item: dict[str, Any], indexed: bytes | None) -> dict[str, Any]:
    """An item made from the store, with what its stored item in an index says of others."""
    if indexed is None:
        return item
    known = json.loads(indexed)
    more = [each for each in known["warnings"] if each["code"] in _WARNINGS]
    counted = {name: known[name] for name in _COUNTED if name in known}
    return {**item, "warnings": [*item["warnings"], *more], **counted} if more or counted else item


def _quiet(name: str, answers: str, marks: Marks) -> tuple[str, ...]:
    return tuple(term for term in names(name) if marks.named or voices.named(answers, term) in marks.quiet)


def marked_document(document: Document, marks: Mapping[str, Marks]) -> Document:
    """A document with what follows for its listing; those that are not current say nothing of it."""
    found = marks.get(document.id, NONE)
    if document.likeness is None or found == NONE:
        return document
    quiet = _quiet(document.name, document.likeness.answers, found) if found.quiet or found.named else ()
    if found == NONE._replace(age=found.age):  # which most come to have: no reason to read an item
        item = document.item[:-1] + b',"age":%d}' % found.age
    else:
        item = encode(marked(json.loads(document.item), found, quiet))
    return replace(document, behind=found.behind, age=found.age, crowded=found.crowded, quiet=quiet, item=item)
