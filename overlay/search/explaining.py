"""Why a listing makes the points it makes: for each word of the question what stands for it, in which fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from overlay.search.meaning import Meaning, Reading
from overlay.search.ranking import BEST, LEVELS, QUARTERS, QUIET, counted, standing, weigh
from overlay.search.said import document, fields
from overlay.search.text import stem, words

if TYPE_CHECKING:
    from overlay.document import Document


def understood(asked: Sequence[Meaning]) -> list[dict[str, Any]]:
    """How the words of a question were read, as JSON: all that may stand for each."""
    return [
        {"word": word.written, "readings": [_told(each) | {"points": max(each.points)} for each in word.readings]}
        for word in asked
    ]


def explained(
    item: Mapping[str, Any], asked: Sequence[Meaning], score: float, *, kept: bool, short: bool
) -> dict[str, Any]:
    """The points that an item makes, word by word, as JSON; `best` is what a listing could make at most. What a `score`
    holds beyond is for words that stand close together, for holding all of a `short` question, or, where it is `kept`,
    for having said so for long. `standing` says how loudly it is heard, and why."""
    listed = document(item)
    levels, _ = weigh(listed)
    held = [(fields_here.pointer, fields_here.weight, Counter(map(stem, words(fields_here.text))))
            for fields_here in fields(item)]  # fmt: skip
    told = [_word(word, levels, held) for word in asked]
    points = sum(each["points"] for each in told)
    more = max(0, round(score * BEST) - points) if asked else 0
    made = {"points": points + more, "best": BEST, "words": told, "closeness": 0, "coverage": 0, "seniority": 0}
    made["seniority" if kept else "coverage" if short else "closeness"] = more
    return made | {"standing": _standing(listed)}


def _standing(listed: Document) -> dict[str, Any]:
    """The highest level of its words, what that is made of, and which words of its name have a lower one."""
    made = [{"what": what, "levels": quarters / QUARTERS} for what, quarters in counted(listed)]
    told: dict[str, Any] = {"level": standing(listed) / QUARTERS, "of": LEVELS, "counted": made}
    return told | {"quiet": {"words": list(listed.quiet), "level": QUIET}} if listed.quiet else told


Held = list[tuple[str, int, Counter[str]]]


def _word(word: Meaning, levels: Mapping[str, int], held: Held) -> dict[str, Any]:
    """What counts for a word: of all that stands for it and that the listing says, what makes the most points."""
    made = [(_points(each, levels), each) for each in word.readings if all(term in levels for term in each.terms)]
    if not made:
        return {"word": word.written, "points": 0, "match": None, "terms": [], "fields": []}
    points, reading = max(made, key=lambda pair: pair[0])
    where = [
        {"pointer": pointer, "weight": weight, "count": count}
        for pointer, weight, counts in held
        if (count := sum(counts[term] for term in reading.terms))
    ]
    return {"word": word.written, "points": points, **_told(reading), "fields": where}


def _points(reading: Reading, levels: Mapping[str, int]) -> int:
    return sum(reading.points[levels[term] - 1] for term in reading.terms)


def _told(reading: Reading) -> dict[str, Any]:
    told: dict[str, Any] = {"match": reading.match, "terms": list(reading.terms)}
    return told | {"edits": reading.edits} if reading.match == "corrected" else told
