"""Three public lists of MCP servers as configs to inscribe, and the questions about them.

Each question is another list's own description of the same server, so that no word of it was written for ours.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

Json = dict[str, Any]

MOST_WORDS, MOST_BYTES = 32, 512  # of a question that the API takes
_LONG_WORD = re.compile(r"[A-Za-z]{5,}")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Entry(NamedTuple):
    """A server of a list: its id there, and what its config says of it."""

    id: str
    name: str
    description: str
    keywords: tuple[str, ...]

    def config(self) -> Json:
        """An MCP config of this one server."""
        messages = {"command": "npx", "description": self.description, "keywords": list(self.keywords)}
        return {"mcpServers": {self.name[:200] or self.id: messages}}


class Question(NamedTuple):
    """A text, and the list and the entry that it describes."""

    text: str
    source: str
    target: str


def entries(data: Path) -> dict[str, list[Entry]]:
    """The entries of each list, the first where several have one id."""
    return {name: list(_first_of_each(data / f"{file}.jsonl", read)) for name, (file, read) in _LISTS.items()}


def _first_of_each(path: Path, read: Callable[[Json], Entry]) -> Iterator[Entry]:
    seen: set[str] = set()
    with path.open() as lines:
        for line in lines:
            entry = read(json.loads(line))
            if entry.id not in seen:
                seen.add(entry.id)
                yield entry


def _toolsdk(row: Json) -> Entry:
    return Entry(row["packageName"], row.get("name") or row["packageName"], _text(row), _texts(row.get("_category")))


def _tensorblock(row: Json) -> Entry:
    return Entry(row["id"], row["name"], _text(row), _texts(row.get("category")))


def _metorial(row: Json) -> Entry:
    outer = row.get("server") or {}
    server, listing = outer.get("server") or {}, row.get("listing") or {}
    skills = tuple(str(item) for item in listing.get("skills") or ())
    return Entry(outer.get("identifier") or row["path"], server.get("name") or row["path"], _text(server), skills)


_LISTS: dict[str, tuple[str, Callable[[Json], Entry]]] = {
    "toolsdk": ("toolsdk-packages", _toolsdk),
    "tensorblock": ("tensorblock-profiles", _tensorblock),
    "metorial": ("metorial-index", _metorial),
}


def _text(row: Json) -> str:
    return str(row.get("description") or "")


def _texts(value: Any) -> tuple[str, ...]:
    return (str(value),) if value else ()


def questions(data: Path) -> list[Question]:
    """The questions whose answer stands in one of the lists, as the API takes them."""
    with (data / "relevance-dev.jsonl").open() as lines:
        rows = [json.loads(line) for line in lines]
    return [
        Question(_bounded(row["query"]), row["target_source"], row["target_id"])
        for row in rows
        if "official" not in (row["query_source"], row["target_source"])
    ]


def short_questions(data: Path) -> dict[str, list[Question]]:
    """Questions as people type them, by kind: names, names with an error, the three and the two rarest words of a
    description."""
    results: dict[str, list[Question]] = {}
    with (data / "relevance-short-dev.jsonl").open() as lines:
        for row in map(json.loads, lines):
            results.setdefault(row["kind"], []).append(Question(row["query"], row["target_source"], row["target_id"]))
    return results


def _bounded(text: str) -> str:
    words = " ".join(text.split()[:MOST_WORDS])
    return words.encode()[:MOST_BYTES].decode(errors="ignore")


def misspelt(question: Question, number: int) -> Question:
    """With one inner letter of each Latin word of five letters and more left out, swapped with the next, or replaced;
    the same for the same row number."""
    chance = random.Random(number)

    def spoil(match: re.Match[str]) -> str:
        word = match.group()
        position = chance.randrange(1, len(word) - 2)
        kind = chance.randrange(3)
        if kind == 0:
            return word[:position] + word[position + 1 :]
        if kind == 1:
            return word[:position] + word[position + 1] + word[position] + word[position + 2 :]
        return word[:position] + chance.choice(_LETTERS.replace(word[position].lower(), "")) + word[position + 1 :]

    return question._replace(text=_LONG_WORD.sub(spoil, question.text))
