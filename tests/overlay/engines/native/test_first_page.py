"""The first page by relevance against the formula computed for every listing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from random import Random
from typing import NamedTuple

import pytest

from overlay.engines import IndexPosition
from overlay.projection.search_index import SearchIndex
from overlay.search.diversity import diversified, flooding, spread
from overlay.search.document import Document
from overlay.search.forward import Analysed, encode
from overlay.search.planner import CANDIDATES, QueryPlan
from overlay.search.query import Query
from tests.bench.listings import listings
from tests.contracts.listed import with_source
from tests.overlay.search.slow_factors import factors

LISTINGS, QUESTIONS, PAGE = 600, 100, 20


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    """Generated listings, of which an owner has a third."""
    generated = list(islice(listings(5), LISTINGS))
    return [
        with_source(replace(one, owner="flood", domain="", verified=False) if number % 3 == 0 else one)
        for number, one in enumerate(generated)
    ]


@pytest.fixture(scope="module")
def index(documents: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchIndex]:
    """An index of them in three segments, with deleted documents."""
    with closing(SearchIndex(f"native:{tmp_path_factory.mktemp('index')}")) as engine:
        for batch in (documents[:550], documents[500:590], documents[580:]):
            engine.replace([one.registration for one in batch], batch, IndexPosition("e", 1))
        yield engine


def questions(documents: Sequence[Document]) -> list[str]:
    """One to four words, such as listings have."""
    random = Random(3)
    texts = [f"{one.name} {one.description}".split() for one in documents]
    return [" ".join(random.sample(random.choice(texts), random.choice((1, 2, 2, 3, 4)))) for _ in range(QUESTIONS)]


class Indexed(NamedTuple):
    """The data of a listing that the formula reads."""

    id: str
    terms: set[str]
    forward: bytes
    source: int

    @classmethod
    def of(cls, one: Document) -> Indexed:
        analysed = Analysed.of(one)
        terms = {term for field in range(3) for term in analysed.field_terms(field)}
        return cls(one.id, terms, encode(analysed, one), one.source)


def first_page(plan: QueryPlan, indexed: Sequence[Indexed], newest: float) -> list[str]:
    """The first page of an order of all listings."""
    terms = {alternative.term for group in plan.content for alternative in group.alternatives}
    results = [one for one in indexed if not terms.isdisjoint(one.terms)]
    scores = factors(plan, [one.forward for one in results], newest).scores.tolist()
    pairs = sorted(zip(scores, results, strict=True), key=lambda pair: (-pair[0], pair[1].id))
    order = [one for _, one in pairs]
    if len(order) > CANDIDATES and flooding([one.source for one in order[:CANDIDATES]]):
        order = [order[index] for index in spread([one.source for one in order], CANDIDATES)]
    head = order[:CANDIDATES]
    return [head[index].id for index in diversified([one.source for one in head], PAGE)]


def test_the_first_page_is_that_of_the_whole_formula(index: SearchIndex, documents: list[Document]) -> None:
    indexed = list(map(Indexed.of, documents))
    newest = float(max(one.updated_time or 0 for one in documents))
    differing = [
        text
        for text in questions(documents)
        if [hit.id for hit in index.search(Query(text=text, limit=PAGE)).hits]
        != first_page(index.plan(text), indexed, newest)
    ]
    assert len(differing) <= QUESTIONS // 100, differing
