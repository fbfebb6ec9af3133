"""How well search finds what is described, on a small set: 1,000 public MCP tools, and what other lists say of some.

The set is a part of what `tests.bench.relevance` measures. The bars are a little below what was measured, so that a
change that costs relevance fails here before anybody runs the benchmark.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest

from overlay.engines import ENGINES
from overlay.projection.search_index import SearchIndex
from tests.bench.relevance.lists import Entry, Question, entries, questions, short_questions
from tests.contracts.listed import ask, ids, listing, put
from tests.opensearch_server import index_url

LIST, LISTINGS, QUESTIONS = "toolsdk", 1_000, 40
BARS = {"name": 0.98, "name-typo": 0.98, "short3": 0.64, "short2": 0.55, "description": 0.80}


class Sample(NamedTuple):
    """Entries of one list, and questions of each kind whose targets are among them."""

    entries: list[Entry]
    questions: dict[str, list[Question]]


@pytest.fixture(scope="module")
def sample(shared: Path) -> Sample:
    kinds = {**short_questions(shared / "data"), "description": questions(shared / "data")}
    requests = {
        kind: list(islice((item for item in of_kind if item.source == LIST), QUESTIONS))
        for kind, of_kind in kinds.items()
    }
    targets = {item.target for of_kind in requests.values() for item in of_kind}
    listed = sorted(entries(shared / "data")[LIST], key=lambda entry: entry.id not in targets)
    return Sample(listed[:LISTINGS], requests)


@pytest.fixture(scope="module", params=list(ENGINES))
def index(
    request: pytest.FixtureRequest, sample: Sample, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SearchIndex]:
    opened = SearchIndex(index_url(request, request.param, tmp_path_factory.mktemp("index")))
    put(
        opened,
        *(
            listing(
                entry.id, entry.name, kind="tool", description=entry.description, words=tuple(entry.keywords), height=1
            )
            for entry in sample.entries
        ),
    )
    yield opened
    opened.close()


@pytest.mark.parametrize("kind", list(BARS))
def test_mean_reciprocal_rank_among_the_first_ten(index: SearchIndex, sample: Sample, kind: str) -> None:
    total = 0.0
    for question in sample.questions[kind]:
        result = ids(ask(index, question.text, limit=10))
        total += 1 / (1 + result.index(question.target)) if question.target in result else 0.0
    mean = total / len(sample.questions[kind])
    assert mean >= BARS[kind], f"{mean:.3f} of {len(sample.questions[kind])} questions"
