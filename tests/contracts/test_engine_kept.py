"""Places on page one for those who have said longest what they say, on every engine, and pages of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from random import Random
from typing import Any

import pytest

from overlay.document import Document
from overlay.engines import Engine, open_engine
from overlay.engines.tantivy import TantivyEngine
from overlay.query import Hit, Query
from overlay.search import kept
from overlay.search.ranking import BEST
from tests.contracts.listed import ask, ids, listing, put
from tests.contracts.test_engine_laws import tier_by_tier

SAID = ("alpha", "beta", "gamma", "delta", "web", "search")
LONG = "we seek a web search for alpha with gamma and some delta"


def documents() -> list[Document]:
    """Listings that say a few words at all levels, many of them since the same moment; some are in no block, or are
    told of as they were."""
    chance = Random(8)

    def some(most: int) -> str:
        return " ".join(chance.choices(SAID, k=chance.randrange(most)))

    return [
        listing(f"{at * 7919 % 1000:03}", some(3) or "Nameless", description=some(30), tags=tuple(set(some(2).split())),
                height=None if at % 17 == 0 else 400 - at // 4, kind="tool" if at % 3 else "agent")
        for at in range(400)
    ]  # fmt: skip


@contextmanager
def every_kind(
    documents: list[Document], request: pytest.FixtureRequest, paths: pytest.TempPathFactory
) -> Iterator[list[Engine]]:
    """Engines that hold these, of every kind, and one that answers from memory, in several segments: the first is
    Tantivy with its files."""
    with ExitStack() as stack:
        made: list[Engine] = []
        for name in ("tantivy", "whoosh", "tantivy"):
            made.append(open_engine(f"{name}:{paths.mktemp(name)}"))
            stack.callback(made[-1].close)
        assert isinstance(made[-1], TantivyEngine)
        made[-1].hold()
        for engine in made:
            for seq, turns in enumerate((range(14), range(14, 19), (19,)), 1):  # who tie stand in several segments
                put(engine, *(each for at, each in enumerate(documents) if at % 20 in turns), seq=seq)
        yield made


@pytest.fixture(scope="module")
def engines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Engine]]:
    with every_kind(documents(), request, tmp_path_factory) as made:
        yield made


def naturally(engine: Engine, query: Query) -> list[Hit]:
    """All hits where no place is kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "PAGE", 10_000)
        return list(engine.search(query._replace(limit=1_000)).hits)


def placed(hits: list[Hit], before: list[Hit], ahead: int) -> list[tuple[str, int]]:
    """The ids and points as the law says: `before` are the hits by their words alone, which tell who makes enough."""
    if len(hits) <= 20:
        return [(hit.id, points(hit)) for hit in hits]
    made = {hit.id: points(hit) for hit in before}
    since = {document.id: (document.created_time or 2**40, document.id) for document in documents()}
    enough = sorted((id_ for id_ in made if made[id_] >= 2 * max(made.values()) // 3), key=since.__getitem__)[:10]
    first, rest = hits[:ahead], hits[ahead:]
    moved = [(id_, points(first[-1])) for id_ in enough if id_ not in {hit.id for hit in first}]
    others = [(hit.id, points(hit)) for hit in rest if hit.id not in enough]
    return [*((hit.id, points(hit)) for hit in first), *moved, *others]


def points(hit: Hit) -> int:
    return round(hit.score * BEST)


@pytest.mark.parametrize("narrow", [{}, {"kind": "tool"}, {"facets": ("type",)}, {"statuses": ("live",)}],
                         ids=["all", "tools", "facets", "live"])  # fmt: skip
@pytest.mark.parametrize(
    "text", ["alpha", "alhpa", "web_search", "beta gamma", "alpha beta gamma", "alpha zzzz", LONG, ""]
)
def test_the_most_senior_that_make_enough_points_stand_behind_the_first(
    engines: list[Engine], text: str, narrow: dict[str, Any]
) -> None:
    query = Query(text=text, **narrow)
    files, *_ = engines
    natural = naturally(files, query)
    before = natural
    if text == LONG:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("overlay.search.closeness._WORTH", 0.0)
            before = naturally(files, query)
    whole = list(files.search(query._replace(limit=1_000)).hits)
    assert [(hit.id, points(hit)) for hit in whole] == placed(natural, before, 10 if text == LONG else 5)
    assert [hit.sort_key for hit in whole] == sorted(hit.sort_key for hit in whole)
    assert any(kept.is_kept(hit.sort_key) for hit in whole) == (
        [hit.id for hit in whole] != [hit.id for hit in natural]
    )
    for engine, how in [*((engine, nullcontext()) for engine in engines), (files, tier_by_tier())]:
        with how:
            assert naturally(engine, query) == natural
            assert list(engine.search(query._replace(limit=1_000)).hits) == whole
            for start in (0, 3, 4, 5, 9, 10, 14, 15, 19, 20, 27, len(whole) - 4):
                for limit in (1, 6, 20):
                    part = query._replace(limit=limit, offset=max(0, start))
                    assert list(engine.search(part).hits) == whole[part.offset : part.offset + limit], (start, limit)
                after = query._replace(limit=7, after=whole[max(0, start)].sort_key)
                assert list(engine.search(after).hits) == whole[max(0, start) + 1 :][:7]


def test_no_place_is_kept_where_page_one_shows_all_that_is_found(engine: Engine) -> None:
    put(engine, *(listing(f"1{at:02}", "Alpha beta" if at else "Alpha", height=at) for at in range(20)))
    assert ids(ask(engine, "alpha beta", limit=30))[-1] != "100"
    assert not any(kept.is_kept(hit.sort_key) for hit in ask(engine, "alpha", limit=30).hits)
    assert not any(kept.is_kept(hit.sort_key) for hit in ask(engine, limit=30).hits)
    assert ids(ask(engine, "alpha", descending=False, limit=30))[-1] == "100"


def test_what_is_shown_in_a_kept_place_has_the_points_of_the_hit_before(engine: Engine) -> None:
    more = "word " * 9
    put(
        engine,
        listing("1", "Other", description=f"Says alpha {more}", height=1),
        *(listing(f"2{at:02}", "Alpha", description="alpha", height=10 + at) for at in range(30)),
    )
    hits = ask(engine, "alpha").hits
    assert [hit.id for hit in hits[:7]] == ["200", "201", "202", "203", "204", "1", "205"]
    assert hits[4].score == hits[5].score == hits[6].score
    assert kept.is_kept(hits[5].sort_key)
    assert next(iter(ask(engine, "alpha", descending=False, limit=50).hits)).id == "1"


@pytest.mark.parametrize("text", ["", "alpha"])
@pytest.mark.parametrize("limit", [3, 5, 7, 12, 20])
def test_who_pages_on_while_others_come_and_go_misses_nobody(engine: Engine, text: str, limit: int) -> None:
    put(engine, *(listing(f"1{at:02}", f"Alpha {at}", height=at) for at in range(60)))
    first = ask(engine, text, limit=limit).hits
    put(engine, listing("900", "Alpha beta", height=900), listing("159", "Gone", status="burned"), seq=2)
    seen, after = [hit.id for hit in first], first[-1].sort_key
    while page := ask(engine, text, limit=limit, after=after, moved=True).hits:
        seen += [hit.id for hit in page]
        after = page[-1].sort_key
    assert {f"1{at:02}" for at in range(59)} <= set(seen)


def test_no_place_is_kept_for_one_of_a_crowd(engine: Engine) -> None:
    crowd = [listing(f"1{at:02}", "Alpha", crowded=at > 2) for at in range(30)]
    put(engine, *crowd, *(listing(f"2{at:02}", f"Alpha {at}") for at in range(40)))
    page = ids(ask(engine))
    assert page[5:15] == ["100", "101", "102", *(f"2{at:02}" for at in range(7))]
    assert not {id_ for id_ in ids(ask(engine, "alpha")) if "102" < id_ < "200"}
