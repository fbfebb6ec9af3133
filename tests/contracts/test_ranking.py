"""The order by relevance: what each rule changes, on every engine. How good it is on the whole: `test_relevance.py`."""

from __future__ import annotations

from collections import Counter
from itertools import chain, pairwise
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.api.search_answer import explained
from overlay.projection.search_index import SearchIndex
from overlay.search.analysis import sequences
from overlay.search.diversity import MOST, PAGE, SHARE, diversified, source_number, spread
from overlay.search.document import Document
from overlay.search.query import Hit, Lookup, Operators, shown_mark
from parsers.cards import Skill
from tests.contracts.listed import ask, ids, listing, matching_ids, put


def rich(id_: str, word: str) -> Document:
    """An agent whose name, tag and skills all hold a word, and that has much more to tell."""
    skills = tuple(
        Skill(f"{word.lower()}_{what}", f"{word} {what}", f"Tells the {what} of the {word.lower()} anywhere on earth.",
              (word.lower(), "nature"), (f"What is the {word.lower()} {what}?",))
        for what in ("forecast", "history", "alerts", "maps", "comparison")
    )  # fmt: skip
    text = f"An agent for travellers and farmers that answers questions about the {word.lower()} from many stations."
    return listing(id_, f"{word} Agent", description=text, tags=(word.lower(), "travel"), skills=skills)


def test_a_rich_card_does_not_fall_behind_one_line_cards_that_hold_the_word(engine: SearchIndex) -> None:
    towns = [f"{first}{last} Weather" for first in ("North", "South", "East", "West", "New") for last in (
        "ham", "ton", "field", "bury", "ford", "wick", "port", "dale", "stead", "mouth", "gate", "well")]  # fmt: skip
    put(engine, *(listing(f"1{index:02}", name) for index, name in enumerate(towns)), rich("200", "Weather"))
    assert len(towns) == 60
    for question in ("weather", "weather agent", "weather forecast", "waether"):
        assert ids(ask(engine, question))[0] == "200", question


def test_a_listing_that_holds_all_words_comes_before_those_that_hold_one_in_their_names(engine: SearchIndex) -> None:
    put(
        engine,
        *(listing(f"1{index}", "Invoice", description="invoice") for index in range(5)),
        *(listing(f"2{index}", "Translation", description="translation") for index in range(5)),
        listing("3", "Office helper", description="Makes an invoice and its translation into any language."),
    )
    hits = ask(engine, "invoice translation")
    assert ids(hits)[0] == "3"
    assert (hits.total, hits.matched) == (11, 1)
    assert ids(ask(engine, "invoice translation", sort="created", descending=False))[0] == "3"


def test_words_that_stand_together_count_more_than_the_same_words_apart(engine: SearchIndex) -> None:
    put(
        engine,
        listing("1", "One", description="A vector for each database of the customer."),
        listing("2", "Two", description="A database vector for each of the customer."),
        listing("3", "Three", description="A vector database for each of the customer."),
        *(listing(f"9{index}", "Other", description="Something else for the customer.") for index in range(9)),
    )
    assert ids(ask(engine, "vector database"))[0] == "3"


def test_the_listing_whose_name_is_the_question_comes_first_also_where_it_is_mistyped(engine: SearchIndex) -> None:
    put(
        engine,
        listing(
            "1", "Docs2Prompt server", description="docs2prompt makes prompts from docs2prompt documents", height=1
        ),
        listing("2", "Docs2Prompt", height=300),
    )
    for question in ("docs2prompt", "Docs2Prompt", "docs2propmt"):
        assert ids(ask(engine, question))[0] == "2", question


def test_of_equal_texts_verified_signed_and_older_ones_come_first_but_no_word_is_outweighed(
    engine: SearchIndex,
) -> None:
    day = 86_400
    put(
        engine,
        listing("1", "Ledger", time=1_700_000_000 + 400 * day, created_height=1),
        listing("2", "Ledger", time=1_700_000_000, created_height=1),
        listing("3", "Ledger", time=1_700_000_000 + 400 * day, signed=True, verified=True),
        listing("4", "Ledger export", time=1_700_000_000 + 400 * day),
        listing("5", "Ledger", time=1_700_000_000, verified=True, signed=True),
    )
    assert ids(ask(engine, "ledger"))[:4] == ["5", "3", "2", "1"]
    assert ids(ask(engine, "ledger export"))[0] == "4"


def test_a_deprecated_listing_is_below_others_whatever_it_is_named(engine: SearchIndex) -> None:
    day = 86_400
    put(
        engine,
        listing("1", "Ledger", time=1_700_000_000, verified=True, signed=True, deprecated=True),
        listing("2", "Ledger", description="Keeps a ledger.", time=1_700_000_000 + 400 * day),
        listing("3", "A ledger for companies", time=1_700_000_000 + 400 * day),
        listing("4", "Weather", time=1_700_000_000 + 400 * day),
    )
    assert ids(ask(engine, "ledger")) == ["2", "3", "1"]


def test_a_listing_that_has_not_answered_for_long_or_cannot_be_used_is_below_equal_ones(engine: SearchIndex) -> None:
    put(
        engine,
        listing("1", "Ledger", time=1_700_000_000, lost=True, health="fails"),
        listing("2", "Ledger", time=1_700_000_000, not_runnable=True),
        listing("3", "Ledger", time=1_700_000_000, owner="bob", health="needs-auth"),
        listing("4", "Weather", time=1_700_000_000),
        listing("5", "Ledger", time=1_700_000_000, owner="carol", lost=True, not_runnable=True),
    )
    order = ids(ask(engine, "ledger"))
    assert (order[0], order[-1]) == ("3", "5")
    lowered = {hit.id: explanation.get("lowered") for hit, explanation in factors(engine, "ledger")}
    assert lowered == {"1": ["no-answer"], "2": ["not-runnable"], "3": None, "5": ["no-answer", "not-runnable"]}


def factors(engine: SearchIndex, text: str) -> list[tuple[Hit, dict[str, Any]]]:
    hits = ask(engine, text, limit=100)
    return [(hit, explained(hits.plan, hit)) for hit in hits.hits]


def test_explained_factors_multiply_to_the_score(engine: SearchIndex) -> None:
    put(engine, rich("1", "Weather"), listing("2", "Weather", signed=True), listing("3", "Forecasts", verified=True))
    for text in ("weather", "weather forecast", "waether forecasts agent for all of us"):
        for hit, explanation in factors(engine, text):
            total = sum(word["score"] for word in explanation["words"]) + explanation["proximity"]
            product = total * explanation["exactName"] * explanation["staticRank"]
            assert explanation["score"] == hit.score == pytest.approx(product)
    matches = {word["word"]: word["match"] for word in factors(engine, "waether agent")[0][1]["words"]}
    assert matches == {"waether": "corrected", "agent": "exact"}


def test_beyond_the_candidates_scores_go_on_falling_in_the_order_of_the_engine(engine: SearchIndex) -> None:
    put(
        engine,
        *(listing(f"{index:03}", "Weather " + "town " * (index % 7), description="weather") for index in range(150)),
    )
    whole = factors(engine, "weather town")
    ranked = 100 if engine.name == "native" else 60
    assert [explanation["stage"] for _, explanation in whole] == ["rerank"] * ranked + ["engine"] * (100 - ranked)
    assert all(one.score >= other.score for (one, _), (other, _) in pairwise(whole))
    pages = [hit.id for index in range(0, 150, 30) for hit in ask(engine, "weather town", offset=index, limit=30).hits]
    assert pages[:100] == [hit.id for hit, _ in whole]
    assert sorted(pages) == [f"{index:03}" for index in range(150)]


def test_of_more_words_listings_that_hold_more_come_first(engine: SearchIndex) -> None:
    put(
        engine,
        listing("1", "Alpha alpha alpha"),
        listing("2", "alpha beta gamma delta"),
        listing("3", "alpha beta gamma epsilon"),
        listing("4", "beta gamma"),
        listing("5", "omega"),
    )
    assert ids(ask(engine, "alpha beta gamma delta")) == ["2", "3", "4", "1"]


def test_a_name_says_more_than_a_tag_and_a_tag_more_than_a_description(engine: SearchIndex) -> None:
    more = "word " * 60
    put(
        engine,
        listing("1", "Other", description=f"a chess player {more}"),
        listing("2", "Other", description=more, tags=("chess",)),
        listing("3", "Chess", description=more),
    )
    assert ids(ask(engine, "chess")) == ["3", "2", "1"]


@pytest.mark.parametrize("times", [2, 3, 30])
def test_a_name_written_twice_does_not_come_before_the_name_itself(engine: SearchIndex, times: int) -> None:
    text = "keeps the books of shops and farms"
    put(
        engine,
        listing("1", " ".join(["Ledgerly"] * times), description=text, height=1),
        listing("2", "Ledgerly", description=text, height=1),
        listing("3", "Ledgerly Books", description=text, height=1),
    )
    assert ids(ask(engine, "ledgerly"))[0] == "2"
    assert ids(ask(engine, "ledgerly books"))[0] == "3"
    assert matching_ids(engine, '"ledgerly"', operators=phrase("ledgerly ledgerly")) == {"1"}


def phrase(text: str) -> Operators:
    return Operators(phrases=tuple(sequences(text)[:1]))


def test_forty_equal_skills_count_as_one(engine: SearchIndex) -> None:
    def reader(id_: str) -> Skill:
        return Skill(id_, "Invoice reader", "Reads an invoice.", ("invoice",), ("Read this invoice.",))

    put(
        engine,
        listing("1", "Helper", skills=[reader("a")], height=1),
        listing("2", "Helper", skills=[reader("a")] * 40, height=1),
        listing("3", "Invoice", height=1),
        listing("4", "Helper", skills=[reader("a"), Skill("b", "Invoice writer")], height=1),
    )
    scores = {hit.id: hit.score for hit in ask(engine, "invoice").hits}
    assert scores["1"] == scores["2"] < scores["3"]
    assert scores["1"] < scores["4"]


def test_words_of_a_name_after_the_eighth_count_no_more_than_those_of_a_description(engine: SearchIndex) -> None:
    first, others = "alpha beta gamma delta epsilon zeta eta theta", "iota kappa lambda mu nu xi omicron pi rho sigma"
    put(
        engine,
        listing("1", f"{first} chess", height=1),
        listing("2", "Board", description=f"{first} {others} {others[:20]} {first} of chess", height=1),
        listing("3", f"chess {first}", height=1),
    )
    assert ids(ask(engine, "chess")) == ["3", "2", "1"]


def test_a_name_of_thirty_words_does_not_come_before_listings_that_are_about_some_of_them(engine: SearchIndex) -> None:
    frequent = [
        "translate",
        "document",
        "book",
        "flight",
        "weather",
        "tomorrow",
        "schedule",
        "meeting",
        "transcribe",
        "audio",
        "file",
        "convert",
        "currency",
        "track",
        "package",
        "find",
        "hotel",
        "news",
        "today",
        "stock",
        "price",
        "generate",
        "image",
        "send",
        "email",
        "summarize",
        "article",
        "video",
        "search",
        "web",
    ]
    put(
        engine,
        listing("1", " ".join(frequent), height=1),
        *(
            listing(f"{number}", f"{first} helper".title(), description=f"Helps to {first} any {second}.", height=1)
            for number, (first, second) in enumerate(zip(frequent[::2], frequent[1::2], strict=True), 10)
        ),
        *(listing(f"{number}", "Other", description="something else altogether") for number in range(100, 200)),
    )
    for start in range(8, len(frequent) - 3):
        question = " ".join(frequent[start : start + 4])
        assert ids(ask(engine, question))[0] != "1", question


@given(st.lists(st.integers(0, 3), max_size=70))
def test_at_most_three_of_a_source_are_before_others_on_a_page(sources_of: list[int]) -> None:
    order = diversified(sources_of, len(sources_of))
    assert sorted(order) == list(range(len(sources_of)))
    for start in range(0, len(order), PAGE):
        page, counts, follows = order[start : start + PAGE], Counter[int](), False
        for result in page:
            source = sources_of[result]
            is_over = source != 0 and counts[source] >= MOST
            assert is_over or not follows  # those within the limit come first
            follows = is_over
            counts.update([] if is_over else [source])


def flood(number: int = 30) -> list[Any]:
    """So many listings of one owner about one word, and five of others with longer texts."""
    spam = [listing(f"1{index:03}", "Invoice", owner="mallory", tags=(f"t{index}",)) for index in range(number)]
    more = "invoice among many other words that a longer text has"
    return [*spam, *(listing(f"9{index}", "Helper", owner=f"o{index}", description=more) for index in range(5))]


def test_one_owner_does_not_fill_the_first_page(engine: SearchIndex) -> None:
    put(engine, *flood())
    results = ids(ask(engine, "invoice", limit=20))
    assert [id_[0] for id_ in results] == ["1"] * 3 + ["9"] * 5 + ["1"] * 12


LONGER = "invoice and what else is said of it in a longer text"
VICTIM: dict[str, Any] = {"owner": "victim", "domain": "v.example", "description": LONGER}
INSTEAD: list[dict[str, Any]] = [
    {"domain": "mallory.example"},
    {"owner": "mallory"},
    {"domain": "", "owner": "mallory"},
]


@pytest.mark.parametrize("number", [8, 100])
@pytest.mark.parametrize("theirs", INSTEAD)
def test_a_flood_for_an_owner_or_a_host_takes_no_places_of_others_of_either(
    engine: SearchIndex, theirs: dict[str, Any], number: int
) -> None:
    """Anyone can inscribe for the address of another, or name the host of another."""
    flood_of = [listing(f"1{index:03}", "Invoice", **VICTIM | theirs) for index in range(number)]
    victims = [listing(f"9{index}", "Helper", **VICTIM) for index in range(3)]
    put(engine, *flood_of, *victims)
    results = ids(ask(engine, "invoice", limit=20))
    assert [id_[0] for id_ in results[:6]] == ["1"] * 3 + ["9"] * 3
    assert set(results[3:6]) == {"90", "91", "92"}


def test_one_verified_domain_shares_no_places_with_strangers_that_name_it(engine: SearchIndex) -> None:
    """Not even where they name its owner, too, and it has more listings than a source has places."""
    strangers = [listing(f"1{index}", "Invoice", **VICTIM | {"domain": "api.v.example"}) for index in range(8)]
    victims = [listing(f"9{index}", "Helper", **VICTIM, verified=True) for index in range(5)]
    put(engine, *strangers, *victims)
    results = ids(ask(engine, "invoice"))
    assert [id_[0] for id_ in results] == ["1"] * 3 + ["9"] * 5 + ["1"] * 5


def test_a_domain_with_the_crc_32_of_another_takes_no_places_of_it(engine: SearchIndex) -> None:
    """The numbers of domains were CRC-32 sums, of which anyone computes two that are equal."""
    twins = "43fd0fc9ea0e.example", "13effc2b380f.example"
    assert len({crc32(f"{domain} False".encode()) for domain in twins}) == 1
    flood_of = [listing(f"1{index}", "Invoice", owner=f"m{index}", domain=twins[0]) for index in range(3)]
    victim = listing("9", "Helper", owner="victim", domain=twins[1], description=LONGER)
    others = [
        listing(f"8{index}", "Office", owner=f"o{index}", description=f"{LONGER} and so on") for index in range(3)
    ]
    put(engine, *flood_of, victim, *others)
    assert ids(ask(engine, "invoice"))[3] == "9"


def test_a_number_of_a_source_depends_on_owner_host_and_the_key_of_the_database() -> None:
    whole = source_number(b"a key", "alice", "api.a.example")
    assert whole == source_number(b"a key", "alice", "a.example")  # the registrable domain
    others = [(b"b key", "alice", "a.example"), (b"a key", "bob", "a.example"), (b"a key", "alice", "b.example"),
              (b"a key", "alice", ""), (b"a key", "", "a.example")]  # fmt: skip
    assert len({whole, *(source_number(*other) for other in others)}) == 6
    assert whole >= 2**32


@pytest.mark.parametrize("number", [100, 700])
def test_a_flood_that_has_all_candidates_leaves_others_their_places_too(engine: SearchIndex, number: int) -> None:
    put(engine, *flood(number))
    results = ids(ask(engine, "invoice", limit=20))
    assert [id_[0] for id_ in results] == ["1"] * 3 + ["9"] * 5 + ["1"] * 12
    total = number + 5
    numbered = [id_ for offset in range(0, total, 15) for id_ in ids(ask(engine, "invoice", limit=15, offset=offset))]
    assert numbered[:100] == ids(ask(engine, "invoice", limit=100))
    assert len(set(numbered)) == len(numbered) == total
    assert len(ids(ask(engine, "invoice", limit=20, owners="mallory"))) == 20


@given(st.lists(st.integers(0, 3), max_size=130), st.integers(1, 70))
def test_candidates_of_a_flood_are_spread_over_sources(sources_of: list[int], count: int) -> None:
    order = spread(sources_of, count)
    assert sorted(order) == list(range(len(sources_of)))
    first, rest = order[:count], order[count:]
    assert first == sorted(first)
    assert rest == sorted(rest)
    counts = Counter(sources_of[index] for index in first if sources_of[index])
    if any(number > SHARE for number in counts.values()):  # then no other has room left
        assert all(counts[sources_of[index]] >= SHARE for index in rest)


@pytest.mark.parametrize("descending", [None, False])
@pytest.mark.parametrize("limit", [1, 7, 20])
@pytest.mark.parametrize("spam", [30, 80])
def test_pages_by_number_and_by_cursor_agree(
    engine: SearchIndex, limit: int, descending: bool | None, spam: int
) -> None:
    put(engine, *flood(spam))
    whole = ask(engine, "invoice", limit=100, descending=descending)
    keys = [hit.sort_key for hit in whole.hits]
    assert keys == sorted(keys, reverse=descending is False)
    assert len(set(keys)) == whole.total == spam + 5
    numbered, after, shown, followed = [], None, b"", []
    for offset in range(0, spam + 5, limit):
        numbered += ids(ask(engine, "invoice", limit=limit, offset=offset, descending=descending))
        page = ask(engine, "invoice", limit=limit, after=after, shown=shown, descending=descending)
        followed += ids(page)
        shown += b"".join(map(shown_mark, ids(page)))
        after = page.hits[-1].sort_key
    assert numbered == followed == ids(whole)


def test_a_listing_that_a_lookup_places_first_is_on_no_other_page(engine: SearchIndex) -> None:
    """It is far beyond the candidates of the words."""
    others = [listing(f"{number:03}", "Alpha", owner=f"owner {number}") for number in range(149)]
    last = listing("149", "Another", owner="last", description="one " * 200 + "alpha", more_facts=("package:x",))
    put(engine, *others, last)
    lookup = Lookup("package", ("package:x",), leads=True)
    pages = [ids(ask(engine, "alpha", lookups=(lookup,), limit=30, offset=offset)) for offset in range(0, 150, 30)]
    shown = list(chain.from_iterable(pages))
    assert shown[0] == "149"
    assert sorted(shown) == sorted({document.id for document in (*others, last)})
