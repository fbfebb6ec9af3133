"""How a question was understood: for each of its words, which index terms stand for it, and why."""

from __future__ import annotations

from typing import NamedTuple

from overlay.search.matching import Choice, plan
from overlay.search.text import Compound, asked, edits, stem
from overlay.search.vocabulary import Vocabulary

MATCHES = ("exact", "parts", "joined", "corrected", "completed")
"""Why terms stand for a word: they are it; they are its parts; they are it written together; it is mistyped; it is the
beginning."""


class Reading(NamedTuple):
    """Terms that together stand for a word, what they add at each level (`matching.Choice`), why (one of `MATCHES`) and
    how many typing errors that forgives."""

    terms: tuple[str, ...]
    points: tuple[int, ...]
    match: str
    edits: int


class Meaning(NamedTuple):
    """A word as it was written, and all that may stand for it: a listing counts the one that gives the most points."""

    written: str
    readings: tuple[Reading, ...]


def meanings(text: str, vocabulary: Vocabulary) -> tuple[Meaning, ...]:
    """How an index with these words understands a text, word by word."""
    words = zip(asked(text), plan(text, vocabulary).words, strict=False)
    return tuple(
        Meaning(compound.written, tuple(_reading(compound, choice, vocabulary) for choice in word.choices))
        for compound, word in words
    )


def _reading(compound: Compound, choice: Choice, vocabulary: Vocabulary) -> Reading:
    match, wrong = _why(compound, choice.terms, vocabulary)
    return Reading(choice.terms, choice.points, match, wrong)


def _why(compound: Compound, terms: tuple[str, ...], vocabulary: Vocabulary) -> tuple[str, int]:
    exact = tuple(map(stem, compound.parts))
    if terms == exact:
        return ("exact" if len(exact) == 1 else "parts"), 0
    if compound.whole is not None and terms == (stem(compound.whole),):
        return "joined", 0
    if len(terms) == len(exact):
        wrong = [_errors(part, term, vocabulary) for part, term in zip(compound.parts, terms, strict=True)]
        if None not in wrong:
            return "corrected", sum(each or 0 for each in wrong)
    return "completed", 0


def _errors(part: str, term: str, vocabulary: Vocabulary) -> int | None:
    """How many errors lie between a word and what a term stands for; None when it is not near."""
    if stem(part) == term:
        return 0
    most = edits(Compound(part, (part,), None))
    if not most or vocabulary.frequency(stem(part)):
        return None
    return next((near.edits for near in vocabulary.similar(part, most) if stem(near.word) == term), None)
