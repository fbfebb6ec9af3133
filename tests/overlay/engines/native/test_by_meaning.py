"""The effect of meaning on the order of results: listings near to a question, with and without its words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

import pytest

from overlay.api import search_answer
from overlay.api.search_request import from_pairs
from overlay.engines import IndexPosition
from overlay.projection.search_index import SearchIndex
from overlay.search import clusters
from overlay.search.document import Document
from overlay.search.meaning import FINDING, MOST_ALONE, NEAREST, REORDERING
from overlay.search.query import Hits
from overlay.text.compact_json import decode
from tests.contracts.listed import ask, ids, listing, put

WEATHER = listing("1", "Forecast API", description="Temperature, rain and wind of the next days for a city")
COINS = listing("2", "Ledger", description="Send coins between wallets and read balances")
PHOTOS = listing("3", "Darkroom", description="Crop, rotate and colour photographs")
VISIT = listing("4", "Paris guide", description="Museums and restaurants to visit in Paris")
QUESTION = "will someone visiting Paris tomorrow afternoon get wet without umbrella"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SearchIndex]:
    with closing(SearchIndex(f"native:{tmp_path}/index", meaning=True)) as opened:
        yield opened


@pytest.fixture
def without_meaning(index: SearchIndex, tmp_path: Path) -> Iterator[SearchIndex]:
    with closing(SearchIndex(f"native:{tmp_path}/index", meaning=False)) as opened:
        yield opened


def test_a_sentence_finds_a_listing_without_its_words_and_marks_it(index: SearchIndex) -> None:
    put(index, WEATHER, COINS, PHOTOS, VISIT)
    hits = ask(index, QUESTION)
    marks = {hit.id: hit.by_meaning for hit in hits.hits}
    assert marks["4"] is False
    assert marks["1"] is True
    assert "2" not in list(marks)[:2]
    assert (hits.total, hits.matched) == (1, 0)
    assert hits.plan.meaning == pytest.approx(FINDING)


def test_an_index_with_clusters_of_vectors_finds_the_same(
    index: SearchIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "LEAST", 1)
    listings = [listing(str(number), f"Forecast {number}", description="Rain") for number in range(5, 40)]
    with closing(SearchIndex(f"native:{tmp_path}/clustered", meaning=True)) as clustered:
        put(clustered, WEATHER, COINS, PHOTOS, VISIT, *listings)
        monkeypatch.undo()
        put(index, WEATHER, COINS, PHOTOS, VISIT, *listings)
        for question in (
            QUESTION,
            "a picture that is not straight shall be turned round",
            "how much money do I have left",
        ):
            hits, expected = ask(clustered, question, limit=60), ask(index, question, limit=60)
            assert [(hit.id, hit.score) for hit in hits.hits] == [(hit.id, hit.score) for hit in expected.hits]


def test_without_meaning_only_words_find(index: SearchIndex, without_meaning: SearchIndex) -> None:
    put(index, WEATHER, COINS, PHOTOS, VISIT)
    assert ids(ask(without_meaning, QUESTION)) == ["4"]
    assert index.has_meaning
    assert not without_meaning.has_meaning


def test_an_engine_without_vectors_has_no_meaning(tmp_path: Path) -> None:
    with closing(SearchIndex(f"whoosh:{tmp_path}/index", meaning=True)) as whoosh:
        put(whoosh, WEATHER, VISIT)
        assert not whoosh.has_meaning
        assert ids(ask(whoosh, QUESTION)) == ["4"]


def test_totals_and_facets_count_results_by_words_alone(index: SearchIndex) -> None:
    put(index, WEATHER, COINS, PHOTOS, VISIT)
    hits = ask(index, QUESTION, facets=("type",))
    assert hits.total == 1 < len(hits.hits)
    assert hits.facets == {"type": (("agent", 1),)}


def test_where_nothing_contains_a_word_at_most_ten_are_shown(index: SearchIndex) -> None:
    put(index, *(listing(str(number), f"Forecast {number}", description="Rain and wind") for number in range(1, 40)))
    hits = ask(index, "umbrella needed tomorrow afternoon downtown commute")
    assert (hits.total, len(hits.hits)) == (0, MOST_ALONE)
    assert all(hit.by_meaning for hit in hits.hits)
    assert not ask(index, "umbrella needed tomorrow afternoon downtown commute", offset=MOST_ALONE).hits


def test_results_of_meaning_alone_have_further_pages(index: SearchIndex) -> None:
    put(index, *(listing(str(number), f"Forecast {number}", description="Rain and wind") for number in range(1, 40)))
    seen = [
        list(map(len, pages(index, "umbrella needed tomorrow afternoon downtown commute", limit))) for limit in (4, 10)
    ]
    assert seen == [[4, 4, 2], [10]]


def test_meaning_orders_the_results_of_a_short_question(index: SearchIndex, without_meaning: SearchIndex) -> None:
    banking = listing("5", "Alpha", description="The bank holds money and pays interest on savings", height=100)
    river = listing("6", "Omega", description="The bank holds water and grows reeds along rivers", height=100)
    put(index, WEATHER, COINS, banking, river)
    for question, first in (("bank savings account", "5"), ("bank stream fishing", "6")):
        hits = ask(index, question)
        assert sorted(hit.id for hit in hits.hits if not hit.by_meaning) == ["5", "6"]
        assert hits.hits[0].id == first
        assert hits.plan.meaning == pytest.approx(REORDERING)
    assert ids(ask(without_meaning, "bank stream fishing"))[0] == "5"


@pytest.mark.parametrize("question", ["weather", "Is it sunny today?", "storm warning"])
def test_a_short_question_finds_by_meaning_where_nothing_has_all_its_words(index: SearchIndex, question: str) -> None:
    put(index, WEATHER, COINS, PHOTOS, VISIT)
    hits = ask(index, question)
    assert (hits.hits[0].id, hits.hits[0].by_meaning, hits.total) == ("1", True, 0)
    put(index, listing("7", question), seq=2)
    assert ids(ask(index, question)) == ["7"]


@pytest.mark.parametrize("gibberish", ["zqxv", "asdf qwer zxcv"])
def test_gibberish_finds_nothing(index: SearchIndex, gibberish: str) -> None:
    put(index, WEATHER, COINS, PHOTOS, VISIT)
    assert ids(ask(index, gibberish)) == []


def test_what_is_far_from_the_question_is_no_result(index: SearchIndex) -> None:
    put(index, WEATHER, COINS, PHOTOS, VISIT)
    assert not {hit.id for hit in ask(index, "somebody should repair our leaking kitchen sink").hits} & {"2", "4"}


def test_related_words_order_results_and_are_counted_nowhere(index: SearchIndex, without_meaning: SearchIndex) -> None:
    rates = listing("5", "Rates", description="Dollar and currency exchange for travellers", height=100)
    bank = listing("6", "Counter", description="Change of address for travellers", height=100)
    put(index, WEATHER, COINS, rates, bank)
    question = "change euros for travellers"
    wide, plain = ask(index, question, facets=("type",)), ask(without_meaning, question, facets=("type",))
    assert (wide.total, wide.matched, wide.facets) == (plain.total, plain.matched, plain.facets)
    assert set(wide.related["euros"]) <= {"currency", "dollar", "exchange"}
    assert next(hit for hit in wide.hits if hit.id == "5").lacks == ("change", "euros")
    assert plain.related == {}
    page = decode(b"".join(search_answer.page(from_pairs([("q", question)], {}), wide, index.position(), {})))
    assert page["related"][0] == {"word": "euros", "terms": wide.related["euros"]}


def test_a_name_that_is_the_question_precedes_names_that_repeat_it(index: SearchIndex) -> None:
    names = [" ".join(["Ledgerly"] * count) for count in (1, 2, 3)]
    things = ("shops", "farms", "ships")
    put(index, *(listing(str(n), name, description=f"keeps books for {thing}")
                 for n, (name, thing) in enumerate(zip(names, things, strict=True))))  # fmt: skip
    assert ids(ask(index, "ledgerly"))[0] == "0"


def test_filters_hold_for_what_meaning_finds(index: SearchIndex) -> None:
    tool = listing("5", "Rain radar", description="Showers near a place, minute by minute", kind="tool")
    gone = listing("6", "Umbrella", description="Rain", status="burned")
    put(index, WEATHER, tool, gone, VISIT)
    assert {hit.id for hit in ask(index, QUESTION, kind="agent").hits} <= {"1", "4"}
    assert "5" in {hit.id for hit in ask(index, QUESTION).hits}
    assert {hit.id for hit in ask(index, QUESTION, chains="ltc").hits} == set()


def test_operators_and_other_orders_are_by_words(index: SearchIndex) -> None:
    put(index, WEATHER, COINS, PHOTOS, VISIT)
    for pairs in (
        [("q", "paris museums restaurants visit umbrella -coins")],
        [("q", QUESTION), ("sort", "name")],
        [("q", QUESTION), ("sort", "-relevance")],
    ):
        hits = index.search(from_pairs(pairs, {}).query)
        assert ids(hits) == ["4"]
        assert hits.plan.meaning == 0


def test_pages_follow_each_other_and_hold_every_result_once(index: SearchIndex) -> None:
    guides = [listing(str(100 + n), f"Guide {n}", description="Visiting Paris", owner=f"o{n}") for n in range(70)]
    skies = [listing(str(300 + n), f"Sky {n}", description="Rain and wind", owner=f"p{n}") for n in range(70)]
    put(index, *guides, *skies)
    seen = list(chain.from_iterable(pages(index, QUESTION, 20)))
    assert len(seen) == len(set(seen))
    assert {guide.id for guide in guides} <= set(seen)
    assert ids_between(index, 0, 200) == ids_between(index, 0, 45) + ids_between(index, 45, 200)


def pages(index: SearchIndex, question: str, limit: int) -> Iterator[list[str]]:
    """The ids on each page, one after the other."""
    pairs = [("q", question), ("limit", str(limit))]
    request = from_pairs(pairs, {})
    while True:
        hits = index.search(request.query)
        yield [hit.id for hit in hits.hits]
        following = search_answer.next_cursor(request, hits, index.position())
        if following is None:
            return
        request = from_pairs([*pairs, ("cursor", following)], {})


def ids_between(index: SearchIndex, start: int, stop: int) -> list[str]:
    return [hit.id for hit in ask(index, QUESTION, offset=start, limit=stop - start).hits]


def test_a_flooded_topic_does_not_push_others_out(index: SearchIndex) -> None:
    flood = [
        listing(str(100 + n), f"Meteo {n}", description="Weather today: rainy, cloudy or sunny", owner="mallory")
        for n in range(NEAREST * 2)
    ]
    put(index, *flood, listing("1", "Umbrella reminder", description="Alerts before it gets wet"), VISIT)
    hits = ask(index, "tomorrow afternoon outdoor picnic forecast precipitation probability sunshine", limit=10)
    assert hits.total == 0
    assert "1" in ids_by_meaning(hits)
    assert len(ids_by_meaning(hits)) == MOST_ALONE


def ids_by_meaning(hits: Hits) -> set[str]:
    return {hit.id for hit in hits.hits if hit.by_meaning}


def test_explained_scores_are_the_scores(index: SearchIndex) -> None:
    put(index, WEATHER, COINS, PHOTOS, VISIT)
    hits = ask(index, QUESTION)
    for hit in hits.hits:
        explained = search_answer.explained(hits.plan, hit)
        words = sum(word["score"] for word in explained["words"]) + explained["proximity"]
        by_words = words * explained["exactName"] * explained["staticRank"]
        meaning = explained["meaning"]
        assert meaning["score"] >= -1e-9
        assert explained["score"] == pytest.approx((1 - meaning["weight"]) * by_words + meaning["score"])


def test_a_page_marks_what_meaning_found(index: SearchIndex) -> None:
    put(index, WEATHER, COINS, PHOTOS, VISIT)
    request = from_pairs([("q", QUESTION)], {})
    pieces = search_answer.page(request, index.search(request.query), index.position(), {})
    page = decode(b"".join(pieces))
    marked = {item["id"]: item.get("byMeaning") for item in page["items"]}
    assert (marked["1"], marked["4"]) == (True, None)
    assert len(next(item for item in page["items"] if item["id"] == "1")["lacks"]) == len(index.plan(QUESTION).content)


def test_an_index_of_another_table_is_to_be_rebuilt(
    index: SearchIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(index, WEATHER)
    assert index.position() == IndexPosition("epoch", 1)
    monkeypatch.setattr("overlay.engines.native.view.table_hash", lambda: "another")
    with closing(SearchIndex(f"native:{tmp_path}/index")) as other:
        assert other.position() is None


def states(*heights: int) -> list[Document]:
    """A listing that said something else in each stretch of heights."""
    texts = ("Rain and wind of tomorrow", "Coins and wallets")
    untils = (*heights[1:], None)
    return [
        listing("7", "Changing", description=text, from_height=height, until_height=until, height=height)
        for text, height, until in zip(texts, heights, untils, strict=True)
    ]


def test_a_question_about_the_past_compares_the_cards_of_then(index: SearchIndex) -> None:
    put(index, *states(100, 200), VISIT)
    past = ask(index, QUESTION, height_chain="bsv", as_of=150)
    assert "7" in {hit.id for hit in past.hits}
