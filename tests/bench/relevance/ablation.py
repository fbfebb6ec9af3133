"""The effect of each rule of the ranking: `python -m tests.bench.relevance.ablation [--rows N] [--only WORD]`.

The questions of `tests.bench.relevance` are put to the native engine, once with all rules and once without each.
Reported: MRR at 10 of each kind with all rules, and how much each rule adds to it (the MRR that is lost without it).
`docs/relevance.md` says what each is for. The formula is the slow one of the tests, whose rules can be switched off.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.bench.relevance.__main__ import SHARED, mine, rank, through_the_store
from tests.bench.relevance.lists import Question, entries, misspelt, questions, short_questions
from tests.overlay.search.slow_factors import factors

Kinds = Mapping[str, Sequence[Question]]
Figures = dict[str, float]


class Rule(NamedTuple):
    """A rule and what is put in its place: (target of `patch`, value)."""

    name: str
    without: tuple[tuple[str, Any], ...]


def _rule(name: str, *without: tuple[str, Any]) -> Rule:
    return Rule(name, without)


def _nothing(*_: Any) -> Iterator[Any]:
    return iter(())


def _in_stage_one_order(rows: Sequence[Any], *_: Any) -> list[Any]:
    return list(rows)


_PLANNER, _RERANK = "overlay.search.planner.", "tests.overlay.search.slow_factors."
_CANDIDATES = "overlay.search.candidates."

RULES = (
    _rule("planner: joined forms", (_PLANNER + "_Planner.joined", _nothing)),
    _rule("planner: corrections", (_PLANNER + "_Planner._corrections", _nothing)),
    _rule("planner: corrections of outnumbered words", (_PLANNER + "OUTNUMBERED", 10**9)),
    _rule("planner: corrections of one lost letter", (_PLANNER + "_LOST_ONE", 0)),
    _rule("planner: corrections before a generic ending", (_PLANNER + "_Planner._near_without_ending", lambda *_: [])),
    _rule("planner: split forms", (_PLANNER + "_Planner._split", _nothing)),
    _rule("planner: completions", (_PLANNER + "MAX_COMPLETIONS", 0)),
    _rule("planner: power of rarity", (_PLANNER + "POWER", 1.0)),
    _rule("planner: stop words", (_PLANNER + "_stop_words", lambda _: frozenset())),
    _rule("planner: generic words", (_PLANNER + "_generic_words", lambda *_: frozenset())),
    _rule("stage two as a whole", (_CANDIDATES + "_reranked", _in_stage_one_order)),
    _rule("stage two: weights of fields", (_RERANK + "WEIGHTS", (1.0, 1.0, 1.0))),
    _rule("stage two: lengths of fields", (_RERANK + "SHARES", (0.0, 0.0, 0.0))),
    _rule("stage two: saturation", (_RERANK + "SATURATION", 1e6)),
    _rule("stage two: proximity", (_RERANK + "PROXIMITY", 0.0)),
    _rule("stage two: exact name", (_RERANK + "EXACT_NAME", 0.0)),
    _rule("stage two: static rank", *((_RERANK + word, 0.0) for word in ("VERIFIED", "SIGNED", "AGE"))),
    _rule("stage two: deprecated", (_RERANK + "DEPRECATED", 1.0)),
    _rule("stage two: no answer", (_RERANK + "LOST", 1.0)),
    _rule("stage two: not runnable", (_RERANK + "NOT_RUNNABLE", 1.0)),
    _rule("diversity", (_CANDIDATES + "diversified", lambda sources, stop: list(range(len(sources)))[:stop])),
)


@contextmanager
def without(rule: Rule) -> Iterator[None]:
    """While a rule does not hold."""
    with ExitStack() as stack:
        for target, value in rule.without:
            stack.enter_context(patch(target, value))
        yield


def figures(kinds: Kinds, search: Callable[[Question], Sequence[str]]) -> Figures:
    """MRR at 10 of each kind."""
    results: Figures = {}
    for kind, query in kinds.items():
        positions = [rank(search(question), question.target) for question in query]
        results[kind] = mean(1 / position if position else 0.0 for position in positions)
    return results


def line(title: str, values: Mapping[str, float], form: str) -> str:
    """A line of the table."""
    return f"| {title} | " + " | ".join(format(value, form) for value in values.values()) + " |"


def main() -> None:
    """Index the three lists and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400, help="questions of each kind")
    parser.add_argument("--only", default="", help="rules whose names hold this")
    args = parser.parse_args()
    described = questions(SHARED)[: args.rows]
    kinds = {kind: short_question[: args.rows] for kind, short_question in short_questions(SHARED).items()} | {
        "description": described,
        "misspelt": [misspelt(question, number) for number, question in enumerate(described)],
    }
    rules = [item for item in RULES if args.only in item.name]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stack.enter_context(patch(_CANDIDATES + "factors", factors))
        search = _indexed(Path(folder))
        everything = figures(kinds, search)
        print("| | " + " | ".join(kinds) + " |")
        print("|---" * (len(kinds) + 1) + "|")
        print(line("all rules", everything, ".3f"), flush=True)
        for rule in rules:
            with without(rule):
                results = figures(kinds, search)
            print(line(rule.name, {kind: everything[kind] - results[kind] for kind in kinds}, "+.3f"), flush=True)


def _indexed(folder: Path) -> Callable[[Question], Sequence[str]]:
    """A search of the list that a question is about, each list read from its blocks into an index of its own."""
    searches: dict[str, Callable[[str], list[str]]] = {}
    for source, entry in entries(SHARED).items():
        kit, ids = mine(entry)
        path = folder / source
        path.mkdir()
        (search,), _ = asyncio.run(through_the_store(kit, path, [f"native:{path}/index"]))
        searches[source] = partial(_translated, search, ids)
    return lambda question: searches[question.source](question.text)


def _translated(search: Callable[[str], Sequence[str]], ids: Mapping[str, str], text: str) -> list[str]:
    return [ids[id_] for id_ in search(text)]


if __name__ == "__main__":
    main()
