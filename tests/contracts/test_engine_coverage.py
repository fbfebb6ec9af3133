"""Listings that hold all words of a short question drive out the others where one of them means it, on every engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

import pytest

from overlay.document import Document
from overlay.engines import Engine
from overlay.engines.tantivy import TantivyEngine
from overlay.query import FACETS, Hit, Query
from overlay.search.ranking import BEST
from tests.contracts.listed import ask, found, ids, listing, put
from tests.contracts.test_engine_kept import every_kind, naturally
from tests.contracts.test_engine_laws import check, tier_by_tier
from tests.oracles.search import Oracle, ordered

LIST = " ".join(f"other{at}" for at in range(240))
"""Words enough to say each quietly."""


def documents() -> list[Document]:
    """Listings of which many say a word loudly, or alpha and gamma, and a few say all quietly: tools in long lists, one
    agent in a hundred words."""
    chance = Random(3)
    made = []
    for at in range(300):
        loud = chance.choice(("", "alpha", "beta", "gamma", "alpha gamma"))
        said = loud * chance.randrange(2) + " and more" * chance.randrange(9)
        if at % 31 == 0:
            loud, said = "Nameless", f"gamma beta {LIST} alpha"
        elif at == 9:
            loud, said = "Honest", f"gamma beta {LIST[:600]} alpha"
        kind = "tool" if at % 2 or at % 31 == 0 else "agent"
        height = None if at % 17 == 0 else 400 - at // 4
        made.append(listing(f"{at * 7919 % 1000:03}", loud or "None", description=said, kind=kind, height=height))
    return made


@pytest.fixture(scope="module")
def engines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Engine]]:
    with every_kind(documents(), request, tmp_path_factory) as made:
        yield made


NARROW: list[dict[str, Any]] = [
    {}, {"kind": "agent"}, {"kind": "tool"}, {"owners": ("eve",)}, {"facets": FACETS}, {"statuses": ("live",)},
    {"to_height": 350, "height_chain": "bsv"}, {"facets": FACETS, "kind": "agent"},
]  # fmt: skip


@pytest.mark.parametrize("narrow", NARROW, ids=str)
@pytest.mark.parametrize("text", ["alpha beta", "beta alpha gamma", "alhpa beta", "alpha gamma", "alpha zzzz beta"])
def test_where_nobody_means_all_words_those_that_hold_some_are_found_behind_those_that_hold_all(
    engines: list[Engine], text: str, narrow: dict[str, Any]
) -> None:
    query, oracle = Query(text=text, limit=1_000, **narrow), Oracle(documents())
    files, *_ = engines
    natural = naturally(files, query)
    expected = {each.id: each for each in oracle.found(query)}
    made = oracle.made(expected.values(), query)
    senior = ordered(list(expected.values()), query)
    assert [(hit.id, points(hit)) for hit in natural] == sorted(
        made.items(), key=lambda row: (-row[1], senior.index(row[0]))
    )
    whole = files.search(query)
    for engine, how in [*((engine, nullcontext()) for engine in engines), (files, tier_by_tier())]:
        with how:
            assert naturally(engine, query) == natural
            assert engine.search(query) == whole
            for sort in ("updated", "price"):
                check(engine.search(query._replace(sort=sort)), query._replace(sort=sort), oracle)
            for start in (0, 3, 5, 14, 20, 40):
                part = query._replace(limit=7, offset=start)
                assert list(engine.search(part).hits) == list(whole.hits[start : start + 7]), start
                if start < len(whole.hits):
                    after = query._replace(limit=7, after=whole.hits[start].sort_key)
                    assert list(engine.search(after).hits) == list(whole.hits[start + 1 :][:7])


def points(hit: Hit) -> int:
    return round(hit.score * BEST)


@pytest.fixture
def gateways(engine: Engine) -> Engine:
    """Thirty that say two words of three, and one list of words that has the third, too."""
    honest = (listing(f"1{at:02}", f"Payment gateway {at}", description="Refunds for shops") for at in range(30))
    put(engine, *honest, listing("900", "Zork", description=f"stripe {LIST} gateway payment", kind="tool"))
    return engine


@pytest.mark.parametrize("sort", ["relevance", "updated", "name", "price"])
def test_a_list_of_words_does_not_hide_those_that_mean_some_of_them(gateways: Engine, sort: str) -> None:
    assert len(found(gateways, "payment gateway stripe", sort=sort)) == 31
    assert len(found(gateways, "paymnet gatewya stripe", sort=sort)) == 31
    assert found(gateways, "payment gateway stripe", sort=sort, kind="tool") == {"900"}
    assert len(found(gateways, "payment gateway stripe", sort=sort, kind="agent")) == 30


def test_one_that_means_all_words_hides_the_others(gateways: Engine) -> None:
    put(gateways, listing("901", "Stripe", description="A payment gateway", kind="tool"), seq=2)
    assert ids(ask(gateways, "payment gateway stripe")) == ["901", "900"]
    facets = ask(gateways, "payment gateway stripe", facets=("type",)).facets
    assert facets == {"type": (("tool", 2),)}


def test_what_is_listed_decides_and_not_what_a_filter_leaves(gateways: Engine) -> None:
    put(gateways, listing("901", "Stripe payment gateway", chain="ltc", caip2="bip122:12a7"), seq=2)
    assert found(gateways, "payment gateway stripe", chains="bsv") == {"900"}
    assert len(found(gateways, "payment gateway stripe", chains="bsv", kind="agent")) == 30
    put(gateways, listing("901", "Stripe payment gateway", status="burned"), seq=3)
    assert len(found(gateways, "payment gateway stripe")) == 31
    assert found(gateways, "payment gateway stripe", statuses="burned") == {"901"}


def test_one_that_holds_all_in_a_long_text_hides_the_others_unless_one_of_them_is_louder(engine: Engine) -> None:
    more = LIST[:600]
    put(
        engine,
        listing("1", description=f"payment {more}"),
        listing("2", description=f"{more} stripe"),
        listing("3", description=f"stripe {more} payment"),
    )
    assert found(engine, "payment stripe") == {"3"}
    put(engine, listing("1", "Payment"), seq=2)
    assert found(engine, "payment stripe") == {"1", "2", "3"}


def test_one_that_holds_all_in_a_long_text_comes_before_those_that_say_two_of_three_loudly(engine: Engine) -> None:
    words = ["payment gateway", "payment stripe", "gateway stripe"]
    put(
        engine,
        *(listing(f"1{at:02}", f"The {words[at % 3]}", description="Refunds for shops") for at in range(60)),
        listing("900", "Zork", description=f"stripe {LIST[:600]} gateway payment"),
    )
    first, *others = ask(engine, "payment gateway stripe", limit=100).hits
    assert (first.id, len(others)) == ("900", 60)


@pytest.mark.parametrize("narrow", [{"owners": "alice"}, {"chains": "bsv"}, {"verified": False}, {"to_height": 2_000}])
def test_what_is_not_listed_decides_nothing_whatever_is_asked_first(gateways: Engine, narrow: dict[str, Any]) -> None:
    loud = {"description": "Stripe payment gateway", "until_height": 300, "height": 200}
    put(gateways, listing("901", "Stripe payment gateway", status="burned"), seq=2)
    put(gateways, listing("902", "Stripe payment gateway", **loud), listing("902", "Other", height=300), seq=3)
    narrow = narrow | ({"height_chain": "bsv"} if "to_height" in narrow else {})
    assert len(found(gateways, "payment gateway stripe", **narrow)) == 31
    assert len(found(gateways, "payment gateway stripe")) == 31


@pytest.mark.parametrize("sort", ["relevance", "updated", "name", "price"])
def test_one_that_is_found_behind_an_identical_one_does_not_decide(gateways: Engine, sort: str) -> None:
    put(gateways, listing("901", "Stripe payment gateway", behind=("",), owner="eve"), seq=2)
    put(gateways, listing("902", "A gateway", owner="eve"), seq=3)
    assert found(gateways, "payment gateway stripe", owners="eve", sort=sort) == {"901", "902"}


def test_a_list_of_words_does_not_hide_others_while_the_last_word_is_typed(gateways: Engine) -> None:
    put(gateways, *(listing(f"2{at:02}", f"Nothing {at}") for at in range(90)), seq=2)
    for text in ("payment str", "gateway stri", "payment gateway strip"):
        assert len(found(gateways, text)) == 31


def test_every_commit_decides_anew_in_memory_whatever_was_asked_before(tmp_path: Path) -> None:
    engine = TantivyEngine(str(tmp_path))
    engine.hold()
    said = [listing(f"1{at:02}", f"Payment gateway {at}", kind=("agent", "tool")[at % 2]) for at in range(30)]
    put(engine, *said, listing("900", "Zork", description=f"stripe {LIST} gateway payment", kind="tool"))
    assert len(found(engine, "payment gateway stripe")) == 31
    put(engine, listing("901", "Stripe payment gateway"), seq=2)
    assert found(engine, "payment gateway stripe", kind="tool") == {"900"}
    assert found(engine, "payment gateway stripe") == {"900", "901"}
    put(engine, listing("901", "Stripe payment gateway", status="burned"), seq=3)
    assert len(found(engine, "payment gateway stripe", kind="tool")) == 16
    assert len(found(engine, "payment gateway stripe")) == 31
    engine.close()
