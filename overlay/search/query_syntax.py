"""What is typed into the search field: words, and the few operators that people know from elsewhere.

`"web search"` must be said word for word; `-word` and `-"a phrase"` must not be; `tag:`, `owner:` and `skill:` with a
word or a phrase are filters, and with a hyphen before them what a listing must not have. An operator begins a word:
inside of one, marks, hyphens and colons mean nothing, and neither do two hyphens. A mark without a second one, a hyphen
alone and a filter without a value say nothing. So every text is a question, and none is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from overlay.query import Operators
from overlay.search.analysis import query_words, sequences, stem

_MARKS = '"\u201c\u201d\u201e\u201f\uff02'
_HINT = re.compile(f"[-:{_MARKS}]")  # without one of these there is no operator: most texts are done in a microsecond
_UNFINISHED = re.compile(rf"[-\s{_MARKS}]*")
_OPERATOR = re.compile(rf"(?:^|\s)(?:-[^\W_]|-?[{_MARKS}]|-?(?ai:tag|owner|skill):)")
# The second part of a phrase is looked for once at most where there is none, so all of it takes linear time.
_TOKEN = re.compile(
    rf"(?P<no>-(?=[^\W_]|[{_MARKS}]))?(?:(?P<field>(?ai:tag|owner|skill)):)?"
    rf"(?:[{_MARKS}](?P<phrase>[^{_MARKS}]*)[{_MARKS}]|(?P<word>\S*))"
)


class ParsedText(NamedTuple):
    """A text as it is understood. `text` holds the words to rank by, those of `phrases` among them; the rest are texts
    and values as typed, in order."""

    text: str
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    not_tags: tuple[str, ...] = ()
    not_owners: tuple[str, ...] = ()
    not_skills: tuple[str, ...] = ()


def read(text: str) -> ParsedText:
    """Understand a text; one without operators is all words, untouched. Takes linear time."""
    if not _HINT.search(text):
        return ParsedText(text=text)
    if _UNFINISHED.fullmatch(text):  # as when a phrase is begun: nothing is asked for yet
        return ParsedText(text="")
    if not _OPERATOR.search(text):
        return ParsedText(text=text)
    found: dict[str, list[str]] = {}
    words: list[str] = []
    for match in _TOKEN.finditer(text):
        kind, said = _token(match)
        if kind == "phrases" and not _UNFINISHED.fullmatch(said):
            words.append(said)
        if said and (match["phrase"] is not None or kind != "phrases"):
            found.setdefault(kind, []).append(said)
    return ParsedText(text=" ".join(filter(None, words)), **{kind: tuple(each) for kind, each in found.items()})


def without(text: str, kind: str, value: str) -> str:
    """A text without the filters that it holds of a kind, `tags` or `skills`, with a value; else as it is."""
    if not _OPERATOR.search(text):
        return text
    kept = [match[0] for match in _TOKEN.finditer(text) if not _asks_for(match, kind, value)]
    return " ".join(filter(None, map(str.strip, kept)))


def _asks_for(match: re.Match[str], kind: str, value: str) -> bool:
    found, said = _token(match)
    return found == kind and (said.casefold() == value.casefold() if kind == "tags" else said == value)


def _token(match: re.Match[str]) -> tuple[str, str]:
    """What kind of thing a token asks for, or that it is a word or a phrase, and what it says."""
    said = (match["word"] if match["phrase"] is None else match["phrase"]).strip()
    if match["field"] is None:
        return ("excluded" if match["no"] else "phrases"), said
    kind = f"{match['field'].lower()}s"
    return (f"not_{kind}" if match["no"] else kind), said.strip(_MARKS)


def operators(understood: ParsedText) -> Operators | None:
    """What an engine is asked beside words and filters; None when that is nothing. Tags are case-folded here, owners
    and skills are as typed."""
    more = understood.phrases, understood.excluded, understood.not_tags, understood.not_owners, understood.not_skills
    if not any(more):
        return None
    found = Operators(
        phrases=_once(sequence for text in understood.phrases for sequence in sequences(text)[:1]),
        excluded=_once(sequence for text in understood.excluded for sequence in _every_spelling(text)),
        not_tags=_once(tag.casefold() for tag in understood.not_tags),
        not_owners=_once(understood.not_owners),
        not_skills=_once(understood.not_skills),
    )
    return None if found == _NONE else found


_NONE = Operators()


def _once(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _every_spelling(text: str) -> list[str]:
    """A text as a phrase; a single compound also written together, for it is found so, too."""
    found, words = sequences(text)[:1], query_words(text)
    if len(words) == 1 and words[0].whole:
        found.append(stem(words[0].whole))
    return found
