"""Highlights, explanations, and help when nothing is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.api import search_answer
from overlay.api.problems import BadRequestError
from overlay.api.search_answer import extras
from overlay.api.search_request import from_pairs
from overlay.engines import IndexPosition
from overlay.listings import item_json
from overlay.listings.listing import Listing, listings_of
from overlay.projection.documents import document
from overlay.projection.search_index import SearchIndex
from overlay.search.analysis import words
from overlay.search.facts import EXACT
from overlay.search.forward import Analysed
from overlay.search.highlighting import MOST_RANGES, highlights, in_utf16, text_at, texts
from overlay.search.planner import Alternative, QueryPlan, TermGroup
from overlay.search.query import Hits
from parsers import cards
from parsers.cards import Kind
from tests.overlay.calls import get
from tests.overlay.fakes import sample_listings

CONFIG = {
    "mcpServers": {
        "web_search": {
            "command": "npx", "description": "Searches the web. And more.", "keywords": ["internet"],
            "tools": ["getDexChart"], "provider": {"organization": "Café ☕ a/b", "url": "https://a.example"},
        }
    }
}  # fmt: skip


def shown(sample: Path) -> Iterator[Listing]:
    """Every listing of the sample chain, and a tool that says something everywhere."""
    listings = sample_listings(sample)
    for listing in listings:
        assert listing.card_body is not None
        yield from listings_of(listing, cards.read(listing.card_body, listing.state.kind))
    tool = next(listing for listing in listings if listing.state.kind is Kind.TOOL)
    yield from listings_of(tool, cards.read(json.dumps(CONFIG).encode(), Kind.TOOL))


def test_an_item_holds_all_that_is_searched(sample: Path) -> None:
    for subject in shown(sample):
        item = item_json.listing_json(subject)
        held = {word for pointer, text in texts(item) for word in words(text)}
        assert held == Analysed.of(document(subject)).surfaces | set(words(item["summary"]))
        assert all(text_at(item, pointer) == text for pointer, text in texts(item))


def ask_for(*terms: str) -> QueryPlan:
    return QueryPlan(tuple(TermGroup(term, (Alternative(term, 1.0, 1.0, "exact"),), 1.0, 1.0) for term in terms))


def marked(item: dict[str, Any], plan: QueryPlan) -> dict[str, list[str]]:
    return {
        highlight.pointer: [text_at(item, highlight.pointer)[start:end] for start, end in highlight.ranges]
        for highlight in highlights(item, plan)
    }


def test_words_are_marked_wherever_an_item_says_them() -> None:
    item = {
        "type": "agent", "name": "Web searches", "description": "web_search. For the Web!", "summary": "web_search.",
        "tags": ["web", "pay"], "skills": [{"id": "webSearch", "name": "Find", "examples": ["a web"]}],
    }  # fmt: skip
    assert marked(item, ask_for("web", "search")) == {
        "/name": ["Web", "searches"],
        "/description": ["web", "search", "Web"],
        "/summary": ["web", "search"],
        "/tags/0": ["web"],
        "/skills/0/id": ["webSearch"],
        "/skills/0/examples/0": ["web"],
    }


def test_no_item_takes_long_to_mark() -> None:
    item = {"name": "pay " * 50_000, "description": "pay " * 50_000}
    assert sum(len(highlight.ranges) for highlight in highlights(item, ask_for("pay"))) == MOST_RANGES


@given(st.text(st.sampled_from("ab \U0001f600é"), min_size=1), st.data())
def test_ranges_are_counted_as_in_javascript(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    ((first, last),) = in_utf16(text, [(start, end)])
    assert text.encode("utf-16-le")[2 * first : 2 * last].decode("utf-16-le") == text[start:end]


@pytest.fixture(scope="module", params=["native", "whoosh"])
def engine(
    request: pytest.FixtureRequest, sample: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SearchIndex]:
    """The sample chain's listings in an index."""
    opened = SearchIndex(f"{request.param}:{tmp_path_factory.mktemp('index')}")
    documents = [document(subject) for subject in list(shown(sample))[:-1]]
    opened.replace([item.registration for item in documents], documents, IndexPosition("e", 1))
    yield opened
    opened.close()


def answer_of(engine: SearchIndex, *pairs: tuple[str, str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    parsed = from_pairs(pairs, {"bsv-regtest": "bsv:regtest"})
    hits, more = extras(engine, parsed, engine.search(parsed.query))
    return [json.loads(bytes(hit.item)) | {"score": hit.score} for hit in hits.hits], dict(more)


@pytest.mark.parametrize(
    "q", ["dex chart", "getDexChart", "towr security", "a map of the towers", "dexChrat tower", "tow"]
)
def test_factors_multiply_to_the_score_and_what_counts_is_marked(engine: SearchIndex, q: str) -> None:
    result, more = answer_of(engine, ("q", q), ("explain", "true"), ("highlight", "1"))
    assert result
    for item in result:
        explain = item["explain"]
        total = sum(word["score"] for word in explain["words"]) + explain["proximity"]
        assert item["score"] == explain["score"] == pytest.approx(total * explain["exactName"] * explain["staticRank"])
        assert all((word["score"] > 0) == (word["match"] is not None) for word in explain["words"])
        assert item["highlights"]
    assert [word["word"] for word in more["explain"]["words"]] == [
        word["word"] for word in result[0]["explain"]["words"]
    ]


def test_the_reason_of_a_match_is_explained(engine: SearchIndex) -> None:
    def match(q: str) -> set[tuple[str, int | None]]:
        _, more = answer_of(engine, ("q", q), ("explain", "1"))
        return {
            (alternative["match"], alternative.get("edits"))
            for alternative in more["explain"]["words"][0]["alternatives"]
        }

    assert ("exact", None) in match("tower x")
    assert ("corrected", 1) in match("securtiy x")
    assert ("completed", None) in match("towe")
    assert match("getDexChart x") >= {("exact", None), ("joined", None)}


def test_all_engines_understand_alike(sample: Path, tmp_path: Path) -> None:
    documents = [document(subject) for subject in shown(sample)]
    results = []
    for name in ("native", "whoosh"):
        opened = SearchIndex(f"{name}:{tmp_path / name}")
        opened.replace([], documents, IndexPosition("e", 1))
        results.append([opened.plan(q) for q in ("dexChrat towr", "x", "")])
        opened.close()
    assert results[0] == results[1]


def test_an_answer_with_hits_and_without_options_holds_nothing_more(engine: SearchIndex) -> None:
    result, more = answer_of(engine, ("q", "dex"))
    assert result
    assert not more
    assert all("highlights" not in item and "explain" not in item for item in result)


def test_the_filter_that_emptied_an_answer_is_named(engine: SearchIndex) -> None:
    total = engine.search(from_pairs([("q", "dex")], {}).query).total
    everything = engine.search(from_pairs([], {}).query).total
    result, more = answer_of(engine, ("q", "dex"), ("tag", "no such tag"))
    ((emptied,), detail) = more["emptiedBy"], f"none of {everything:,} listings meets tag=no such tag; in use: "
    assert (result, emptied["parameters"], emptied["total"]) == ([], ["tag"], total)
    assert emptied["detail"].startswith(detail)
    assert emptied["detail"].count(",") <= 7
    _, more = answer_of(engine, ("q", "dex"), ("tag", "no such tag"), ("owner", "nobody"), ("type", "agent"))
    (emptied,) = more["emptiedBy"]
    assert (emptied["parameters"], emptied["total"]) == (["type", "tag", "owner"], total)
    by_type, by_tag, by_owner = emptied["detail"].split("; ")[0], *emptied["detail"].split("; ")[1::2]
    assert by_type.endswith("listings meet type=agent, but none of these meets the rest of the search")
    assert by_tag.startswith("none of")
    assert by_owner == f"none of {everything:,} listings meets owner=nobody"
    _, more = answer_of(engine, ("q", "dex"), ("status", "undecided"))
    detail = f"none of {everything:,} listings meets status=undecided; in use: live"
    assert more == {"emptiedBy": [{"parameters": ["status"], "total": total, "detail": detail}]}


def test_an_order_of_ratings_says_that_nothing_is_rated(engine: SearchIndex) -> None:
    for sort, codes in (("rating", ["nothing-rated"]), ("-rating", ["nothing-rated"]), ("name", [])):
        search_request = from_pairs([("sort", sort)], {})
        hits = engine.search(search_request.query)
        assert [note.code for note in search_request.notes_on(hits)] == codes


def test_skills_and_tags_that_are_spelt_nearly_so_are_named(engine: SearchIndex) -> None:
    total = engine.search(from_pairs([("skillId", "getDexChart")], {}).query).total
    assert total
    for written in ("getDexCharts", "get-dex-chart", "GetDxChart", "etDexChart"):
        _, more = answer_of(engine, ("skillId", written))
        (emptied,) = more["emptiedBy"]
        assert emptied["near"]["skillId"][0] == {"value": "getDexChart", "count": total}
    _, more = answer_of(engine, ("skillId", "no such skill at all"))
    assert "near" not in more["emptiedBy"][0]


@pytest.mark.parametrize(
    ("q", "meant"),
    [
        ("waethre", "weather"),  # two errors in seven letters
        ("tower -tower", "tower"),
        ("waethre tag:oracle", "weather tag:oracle"),
        ("tower -tower -tag:lightning tag:security", "tower tag:security"),
    ],
)
def test_what_may_have_been_meant_is_proposed_when_it_finds_something(engine: SearchIndex, q: str, meant: str) -> None:
    result, more = answer_of(engine, ("q", q))
    assert result == []
    assert meant in {entry["q"] for entry in more["didYouMean"]}
    for item in more["didYouMean"]:
        assert engine.search(from_pairs([("q", item["q"])], {}).query).total == item["total"] > 0


def test_a_phrase_that_no_listing_contains_is_searched_by_its_words(engine: SearchIndex) -> None:
    for q, by_words in (
        ('"security tower"', "security tower"),
        ('"security tower" tag:"fraud-prevention" -dex', 'security tower tag:"fraud-prevention" -dex'),
    ):
        search_request = from_pairs([("q", q)], {})
        hits = engine.search(search_request.query)
        assert [hit.id for hit in hits.hits] == [
            hit.id for hit in engine.search(from_pairs([("q", by_words)], {}).query).hits
        ]
        assert hits.hits
        assert [note.code for note in search_request.notes_on(hits)] == ["phrase-not-found"]
    for q in ('"dex chart"', '"nowhere seen"'):
        search_request = from_pairs([("q", q)], {})
        assert search_request.notes_on(engine.search(search_request.query)) == ()


def test_facets_that_are_not_exact_are_named() -> None:
    """Beyond 10,000 results, those over offers of which one must meet other filters."""
    pairs = [("facets", "all"), ("acceptedCurrency", "USD"), ("interval", "month")]
    many, few = Hits([], EXACT, at_least=True), Hits([], EXACT)
    for of, more, names in (
        (many, pairs, "skillId, acceptedCurrency, interval"),
        (many, pairs[:1], ""),
        (few, pairs, ""),
    ):
        details = [note.detail for note in from_pairs(more, {}).notes_on(of) if note.code == "facets-not-exact"]
        assert [names in detail for detail in details] == ([True] if names else [])


@pytest.mark.parametrize("q", ["scurtiy", "email", "hotel booking", "blokchain", "waethre nothing-else"])
def test_words_of_one_or_two_listings_and_other_initials_are_not_proposed(engine: SearchIndex, q: str) -> None:
    assert answer_of(engine, ("q", q)) == ([], {})


@pytest.mark.parametrize("q", ["xyzzyq", "b08538c9a1f", "支汇", "!!!", "-", "x" * 300, "qzx " * 32])
def test_nothing_is_proposed_where_nothing_is_near(engine: SearchIndex, q: str) -> None:
    assert answer_of(engine, ("q", q)) in (([], {}), answer_of(engine))


odd = st.lists(
    st.sampled_from(['"', "-", "tag:", "skill:", "tower", "dex", "x", "支付", "é", " ", "\0", "\u201d"])
    | st.text(max_size=3)
)


@settings(max_examples=80, deadline=None)
@given(odd.map("".join))
def test_every_text_has_an_answer(engine: SearchIndex, text: str) -> None:
    try:
        result, more = answer_of(engine, ("q", text), ("highlight", "true"), ("explain", "true"))
    except BadRequestError:  # more than 4 kB
        return
    for item in result:
        for highlight in item["highlights"]:
            assert all(0 <= start < end for start, end in highlight["ranges"])
    for highlight in more.get("didYouMean", ()):
        assert engine.search(from_pairs([("q", highlight["q"])], {}).query).total == highlight["total"] > 0


async def test_highlights_and_help_are_served(client: ClientSession) -> None:
    page = await get(client, "/v1/search?q=tower&highlight=true&explain=1")
    assert page["items"][0]["highlights"][0]["ranges"]
    assert page["items"][0]["explain"]["stage"] == "engine"
    assert page["explain"]["words"][0]["word"] == "tower"
    assert page["explain"]["query"]["text"] == "tower"
    page = await get(client, "/v1/search?q=nosuchword&type=tool")
    assert "emptiedBy" not in page
    plain = await get(client, "/v1/search?q=tower")
    assert "explain" not in plain
    assert "highlights" not in plain["items"][0]


async def test_a_page_shows_the_question_as_it_was_sent(client: ClientSession) -> None:
    page = await get(client, "/v1/search?q=tower%20-tag%3Ax&explain=1")
    assert page["query"] == "tower -tag:x"
    assert page["explain"]["query"]["text"] == "tower"
    assert page["explain"]["query"]["operators"]["not_tags"] == ["x"]


@pytest.mark.parametrize("written", ["US$", "usdollar", "XYZ", "€"])
def test_currencies_that_there_are_are_named_where_there_is_no_such_one(engine: SearchIndex, written: str) -> None:
    _, more = answer_of(engine, ("acceptedCurrency", written))
    (emptied,) = more["emptiedBy"]
    total = engine.search(from_pairs([("currency", "USD")], {}).query).total
    assert {"value": "USD", "count": total} in emptied["near"]["acceptedCurrency"]


@pytest.mark.parametrize("written", ["p1m", "once", "P9Y"])
def test_intervals_that_there_are_are_named_where_there_is_no_such_one(engine: SearchIndex, written: str) -> None:
    search_request = from_pairs([("interval", written)], {})
    hits = engine.search(search_request.query)
    _, more = answer_of(engine, ("interval", written))
    (emptied,) = more["emptiedBy"]
    total = engine.search(from_pairs([("interval", "monthly")], {}).query).total
    assert {"value": "P1M", "count": total} in emptied["near"]["interval"]
    codes = [note["code"] for note in search_request.note_members(hits).get("notes", ())]
    assert codes == ([] if written == "P9Y" else ["interval-as-written"])


def test_words_of_parameters_are_read_in_any_case(engine: SearchIndex) -> None:
    def ids(*pairs: tuple[str, str]) -> list[str]:
        return [hit.id for hit in engine.search(from_pairs(pairs, {}).query).hits]

    written = ids(("type", "A2B-Agent"), ("status", "LIVE"), ("sort", "-Name"))
    assert written == ids(("type", "agent"), ("status", "live"), ("sort", "-name")) != []


def test_only_the_members_that_are_named_are_answered(engine: SearchIndex) -> None:
    def items(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
        search_request = from_pairs([("limit", "5"), *pairs], {})
        whole = search_answer.page(search_request, engine.search(search_request.query), None, {})
        members: list[dict[str, Any]] = json.loads(b"".join(whole))["items"]
        return members

    names = ("id", "name", "offers", "cheapest", "score")
    every, chosen = items(), items(("fields", "name,Offers"), ("fields", "cheapest,score"))
    assert chosen == [{name: item[name] for name in item if name in names} for item in every]
    assert items(("q", "nothing of the kind"), ("tag", "none"), ("fields", "name")) == []
    with pytest.raises(BadRequestError, match="'price' is not one of id, type, status"):
        items(("fields", "price"))
