"""How a question was understood: for each of its words, which index terms stand for it, and why."""

from __future__ import annotations

from typing import NamedTuple

from overlay.search.matching import Choice, compounds, plan
from overlay.search.text import Compound, edits, stem
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
    words = zip(compounds(text, vocabulary), plan(text, vocabulary).words, strict=True)
    return tuple(
        Meaning(compound.written, tuple(_reading(compound, choice, vocabulary) for choice in word.choices))
        for compound, word in words
    )


def _reading(compound: Compound, choice: Choice, vocabulary: Vocabulary) -> Reading:
    match, wrong = _why(compound, choice, vocabulary)
    return Reading(choice.terms, choice.points, match, wrong)


def _why(compound: Compound, choice: Choice, vocabulary: Vocabulary) -> tuple[str, int]:
    exact = tuple(map(stem, compound.parts))
    if choice.terms == exact:
        return ("exact" if len(exact) == 1 else "parts"), 0
    if compound.whole is not None and choice.terms == (stem(compound.whole),):
        return "joined", 0
    if choice.completes or len(choice.terms) != len(exact):
        return "completed", 0
    return "corrected", sum(
        _errors(part, term, vocabulary) for part, term in zip(compound.parts, choice.terms, strict=True)
    )


def _errors(part: str, term: str, vocabulary: Vocabulary) -> int:
    """How many errors lie between a word and what a term stands for, when it stands for it."""
    if stem(part) == term:
        return 0
    most = max(1, edits(Compound(part, (part,), None)))
    return next((near.edits for near in vocabulary.similar(part, most) if stem(near.word) == term), most)
