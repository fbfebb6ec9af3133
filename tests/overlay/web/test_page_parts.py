"""The parts that pages are made of: differences of cards, links of a search, amounts, measures, settings to copy."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from indexer.model import LOGO_BYTES
from overlay.api.problems import ProblemError
from overlay.api.search_request import from_pairs
from overlay.engines import IndexPosition
from overlay.pricing.exchange_rates import ExchangeRates
from overlay.search.query import Hits, Query
from overlay.text.safe_text import visible
from overlay.web import rendering
from overlay.web.amounts import about, percent, short
from overlay.web.assets import assets
from overlay.web.badges import MEANINGS, badges, explained
from overlay.web.facets import MAX_CACHED, REST, FacetCache, chips, cleared, filter_text, groups
from overlay.web.highlight import marked
from overlay.web.links import link, setting, without
from overlay.web.rendering import LISTING_BYTES, PAGE_BYTES, REGISTER_BYTES, WITH_LOGOS, Measure, render_within
from overlay.web.timeline import LONGEST_WHERE, MOST_VALUES, Difference, differences
from parsers.cards.rate_table import RateTable

COMPLETIONS = 6 * (300 + 150)
"""Bytes of six completions: a text of 100 characters, and an id with the names of the members."""


def test_any_page_with_all_that_it_loads_fits_into_100_kilobytes() -> None:
    loaded = {name: len(asset.body) for name, asset in assets().items()}
    loaded["register.js"] += loaded["wallet.js"]
    shared = loaded["style.css"] + loaded["page.js"] + loaded["icon.svg"]
    for script in ("listing.js", "publish.js", "register.js", "search.js", "status.js"):
        room = {"listing.js": LISTING_BYTES, "register.js": REGISTER_BYTES}.get(script, PAGE_BYTES)
        assert room + LOGO_BYTES + shared + loaded[script] < 100_000, script
    assert WITH_LOGOS + COMPLETIONS + shared + loaded["search.js"] < 100_000


# -- differences

values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abid", min_size=1, max_size=3), inner),
    max_leaves=20,
)


def dumped(card: Any) -> bytes:
    return json.dumps(card).encode()


def leaves(value: Any, where: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], str]:
    """The slow oracle: every value that holds no others by the whole way to it, lists by number."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, (dict, list)):
        inner = list(value.items() if isinstance(value, dict) else enumerate(value))
    if not inner:
        return {where: json.dumps(value, ensure_ascii=False)}
    return {k: v for key, item in inner for k, v in leaves(item, (*where, key)).items()}


@given(values, values)
def test_cards_differ_exactly_where_their_values_do(before: Any, after: Any) -> None:
    changes = differences(dumped(before), dumped(after))
    assert changes is not None
    assert differences(dumped(after), dumped(after)) == []
    assert all(item.before != item.after for item in changes)
    old, new = leaves(before), leaves(after)
    if any(isinstance(step, int) for where in (*old, *new) for step in where):
        return  # entries of lists are compared by name
    names = {".".join(where): where for where in (*old, *new)}
    if len(names) == len(old.keys() | new.keys()):
        changed = {name for name, where in names.items() if old.get(where) != new.get(where)}
        assert {item.where for item in changes} == changed


entries = st.fixed_dictionaries({"id": st.text(min_size=1, max_size=3), "n": st.integers(0, 3)})


@given(st.lists(entries, unique_by=lambda item: item["id"]), st.randoms())
def test_entries_with_names_may_change_places(skills: list[dict[str, Any]], random: Any) -> None:
    moved = skills[:]
    random.shuffle(moved)
    assert differences(dumped({"skills": skills}), dumped({"skills": moved})) == []


def test_a_change_is_shown_at_its_position() -> None:
    before = {"name": "A", "skills": [{"id": "x", "tags": ["a", "b"]}, {"id": "y"}], "price": 1.10}
    after = {"name": "B", "skills": [{"id": "y"}, {"id": "x", "tags": ["b", "c"]}], "more": None}
    assert differences(dumped(before), dumped(after)) == [
        Difference("changed", "name", '"A"', '"B"'),
        Difference("added", "skills[x].tags[c]", "", '"c"'),
        Difference("added", "more", "", "null"),
        Difference("removed", "skills[x].tags[a]", '"a"', ""),
        Difference("removed", "price", "1.1", ""),
    ]


def paid(amount: int, **more: Any) -> bytes:
    return dumped({"prices": [{"id": "c", "amount": amount}], **more})


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("prices[c].amount", '"prices[c].amount"'), ('"prices', '"\\"prices"'), ("a price", "a price"),
        ("prices\u200b", '"prices\u200b"'), ("prices ", '"prices "'), ("", '""'),
        ("prices\uff3bc\uff3d", '"prices\uff3bc\uff3d"'),
    ],
)  # fmt: skip
def test_no_name_is_taken_for_the_way_to_another_value(name: str, shown: str) -> None:
    assert differences(paid(1, **{name: "-"}), paid(99)) == [
        Difference("changed", "prices[c].amount", "1", "99"),
        Difference("removed", shown, '"-"', ""),
    ]


@pytest.mark.parametrize(
    ("before", "after", "where"),
    [
        ([{"id": "1"}], [{"id": "2"}], ('prices["2"].id', 'prices["1"].id')),
        ([{"id": "1"}], [{"id": "1"}, {"id": "1"}], ("prices[1].id", "prices[2].id", 'prices["1"].id')),
        ([{"id": "a].b"}], [{"id": "a"}, {"id": "a"}], ("prices[1].id", "prices[2].id", 'prices["a].b"].id')),
        (["c"], {"c": "c"}, ("prices.c", "prices[c]")),
        ({"": 1}, [1], ("prices[1]", 'prices.""')),
    ],
)  # fmt: skip
def test_entries_by_name_by_number_and_members_are_distinguished(
    before: Any, after: Any, where: tuple[str, ...]
) -> None:
    changes = differences(dumped({"prices": before}), dumped({"prices": after}))
    assert changes is not None
    assert tuple(item.where for item in changes) == where


hostile = st.recursive(
    st.integers(0, 2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a.[]"\\1 ', max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(hostile)
def test_no_two_values_of_a_card_have_the_same_label(card: Any) -> None:
    changes = differences(dumped("another"), dumped(card))
    assert changes is not None
    added = [item.where for item in changes if item.kind == "added"]
    assert len(set(added)) == len(leaves(card)) - (not isinstance(card, (dict, list)) or not card)


@given(st.binary(max_size=200))
def test_any_bytes_are_compared_or_not(body: bytes) -> None:
    changes = differences(body, b'{"a": 1}')
    assert changes is None or isinstance(changes, list)


@pytest.mark.parametrize(
    "card",
    [list(range(MOST_VALUES + 1)), {"x" * (LONGEST_WHERE + 1): {"y": 1}}, {"a": {str(n): n for n in range(50_000)}}],
    ids=["long", "deep", "wide"],
)
def test_what_is_too_large_is_not_compared(card: Any) -> None:
    assert differences(dumped(card), b"{}") is None


# -- the URL as the state

words = st.text("ab &=%+ü/", min_size=1, max_size=5).filter(str.strip)
given_pairs = st.lists(st.tuples(st.sampled_from(["q", "tag", "skillId", "type", "offset", "cursor", "sort"]), words))


def pairs_of(url: str) -> list[tuple[str, str]]:
    assert urlsplit(url).path == "/"
    return parse_qsl(urlsplit(url).query, keep_blank_values=True)


@given(given_pairs, words)
def test_a_filter_that_is_added_and_taken_away_leaves_the_search_as_it_was(
    supplied: list[tuple[str, str]], value: str
) -> None:
    plain = pairs_of(link(without(supplied, "tag", value.strip().casefold())))
    added = [*plain, ("tag", value)]
    assert pairs_of(link(added))[-1] == ("tag", value)
    assert pairs_of(link(without(added, "tag", value.strip().casefold()))) == plain
    assert [pair for pair in pairs_of(link(setting(added, "tag", "z"))) if pair[0] == "tag"] == [("tag", "z")]
    assert not {"offset", "cursor"} & {name for name, _ in plain}, "another search begins at its first page"


def test_facets_lead_to_narrower_and_wider_searches() -> None:
    supplied = [("q", "x"), ("tag", "Maps"), ("offset", "20")]
    parsed = from_pairs(supplied, {})
    facet_groups = groups(
        supplied, parsed.query, {"tag": [("maps", 3), ("sea", 2)], "type": [("agent", 3)], "interval": []}
    )
    assert [(group.name, [choice[:2] for choice in group.choices]) for group in facet_groups] == [
        ("tag", [("maps", 3), ("sea", 2)]), ("verified", [("domain or hash", None)]),
    ]  # fmt: skip
    maps, sea = facet_groups[0].choices
    assert (maps.chosen, pairs_of(maps.url)) == (True, [("q", "x")])
    assert (sea.chosen, pairs_of(sea.url)) == (False, [("q", "x"), ("tag", "Maps"), ("tag", "sea")])


def test_what_is_typed_is_chosen_and_can_be_left_out() -> None:
    supplied = [("query", 'tag:Maps x tag:"two words" -tag:maps skill:find'), ("tag", "maps")]
    parsed = from_pairs(supplied, {})
    results = {
        group.name: group for group in groups(supplied, parsed.query, {"tag": [("maps", 3)], "skillId": [("find", 3)]})
    }
    maps, two = results["tag"].choices
    assert [pairs_of(item.url) for item in (maps, two)] == [
        [("query", 'x tag:"two words" -tag:maps skill:find')],
        [("query", "tag:Maps x -tag:maps skill:find"), supplied[1]],
    ]
    assert pairs_of(results["skillId"].choices[0].url)[0][1] == 'tag:Maps x tag:"two words" -tag:maps'


def test_a_chosen_value_that_is_not_among_the_commonest_is_not_shown_as_empty() -> None:
    supplied = [("tag", "rare")]
    query = from_pairs(supplied, {}).query
    many = [(f"t{index:02}", 60 - index) for index in range(50)]
    answers = {0: many[:3], None: many, 4: [("rare", 4), *many]}
    for count, result in answers.items():
        (tags, *_) = groups(supplied, query, {"tag": result})
        assert (tags.choices[0].label, tags.choices[0].listings) == ("rare", count)
    (tags, *_) = groups(supplied, query, {})
    assert tags.choices[0].listings is None


def test_values_of_a_list_are_chosen_and_left_out_one_by_one_and_a_skill_in_any_case() -> None:
    supplied = [("tag", "maps,two"), ("skill", "FIND"), ("currency", "usd, bsv")]
    query = from_pairs(supplied, {}).query._replace(tags=("maps", "two"))  # as the index resolves it
    counts = {"tag": [("maps", 3), ("two", 1)], "skillId": [("Find", 3), ("x", 1)], "acceptedCurrency": [("USD", 2)]}
    results = {group.name: group for group in groups(supplied, query, counts)}
    maps, two = results["tag"].choices
    assert (maps.chosen, two.chosen) == (True, True)
    others = [("skill", "FIND"), ("currency", "usd"), ("currency", "bsv")]
    assert pairs_of(maps.url) == [("tag", "two"), *others]
    find = results["skillId"].choices[0]
    assert (find.label, find.listings, find.chosen) == ("Find", 3, True)
    assert pairs_of(find.url) == [("tag", "maps"), ("tag", "two"), *others[1:]]
    whole = groups([("tag", "a,b")], from_pairs([("tag", "a,b")], {}).query, {"tag": [("a,b", 1), ("a", 2)]})[0]
    assert [(one.label, one.url) for one in whole.choices if one.chosen] == [("a,b", "/")]


@pytest.mark.parametrize("supplied", [("chain", "bsv:mainnet"), ("status", "all")])
def test_what_is_chosen_under_another_name_can_be_left_out(supplied: tuple[str, str]) -> None:
    query = from_pairs([supplied], {"bsv": "bsv:mainnet"}).query
    (choices, _) = groups([supplied], query, {supplied[0]: [("bsv", 2)] if supplied[0] == "chain" else [("live", 2)]})
    assert all(choice.url == "/" for choice in choices.choices if choice.chosen)


def test_a_currency_that_bounds_of_prices_are_in_is_chosen_in_place_of_others() -> None:
    counts = {"acceptedCurrency": [("EUR", 3), ("USD", 2)]}
    for more, leads in (([("maxPrice", "5")], ["USD"]), ([], ["EUR", "USD"])):
        supplied = [("acceptedCurrency", "EUR"), *more]
        usd = groups(supplied, from_pairs(supplied, {}).query, counts)[0].choices[1]
        assert [value for name, value in pairs_of(usd.url) if name == "acceptedCurrency"] == leads
        assert from_pairs(pairs_of(usd.url), {})


def test_the_links_of_a_long_search_stay_few() -> None:
    supplied = [("q", "x" * 500), *(("tag", f"{number}" * 100) for number in range(40))]
    query = from_pairs(supplied, {}).query
    counts = [(f"value {number}", 1) for number in range(24)]
    facet_groups = groups(supplied, query, {"tag": counts, "skillId": counts, "chain": counts})
    assert sum(len(choice.url) for group in facet_groups for choice in (*group.choices, *group.more)) < 60_000


def test_chips_tell_each_filter_and_lead_to_the_search_without_it() -> None:
    supplied = [("q", "x"), ("interval", "P1M"), ("owner", "1abc"), ("type", "all"), ("maxPrice", " "), ("foo", "y")]
    assert [(chip.label, chip.value) for chip in chips(supplied)] == [("Paid", "per month"), ("Owner", "1abc")]
    assert dict(pairs_of(chips(supplied)[1].url)).keys() == {"q", "interval", "type", "foo"}
    assert pairs_of(cleared(supplied)) == [("q", "x")]


# -- marks


def test_places_are_marked_and_texts_stay_texts() -> None:
    assert marked("a <b> c\u202e", [(0, 1), (2, 5)]) == "<mark>a</mark> <mark>&lt;b&gt;</mark> c\\u202e"
    assert marked("cut here…", [(0, 3), (8, 20), (30, 40)]) == "<mark>cut</mark> here<mark>…</mark>"


@given(st.text(), st.lists(st.tuples(st.integers(0, 30), st.integers(1, 5))))
def test_marks_change_nothing_but_marks(text: str, lengths: list[tuple[int, int]]) -> None:
    positions, position = [], 0
    for gap, length in lengths:
        positions.append((position + gap, position + gap + length))
        position += gap + length
    plain = marked(text, positions).replace("<mark>", "").replace("</mark>", "")
    assert plain == escape(text) or visible(text) != text


async def test_facets_are_counted_once_for_a_search_until_the_index_changes() -> None:
    requests: list[tuple[str, ...]] = []

    async def search(query: Query) -> Hits:
        requests.append(query.facets)
        return Hits((), 7, facets={"tag": (("a", 1),)} if query.facets else None)

    counted = FacetCache()
    for index, query in (
        (("e", 1), Query(text="x")), (("e", 1), Query(text="x", offset=20, sort="name")), (("e", 2), Query(text="x")),
        (("e", 2), Query(text="y")), (("e", 2), Query(text="x")),
    ):  # fmt: skip
        hits = await counted.ask(query, index, ("tag",), search)  # type: ignore[arg-type]
        assert (hits.total, hits.facets) == (7, {"tag": (("a", 1),)})
    assert requests == [("tag",), (), ("tag",), ("tag",), ()]
    for number in range(MAX_CACHED + 5):
        await counted.ask(Query(text=str(number)), None, ("tag",), search)
    await counted.ask(Query(text="0"), None, ("tag",), search)
    assert requests[-1] == ("tag",)


async def test_what_takes_too_long_to_count_is_found_without_facets_and_not_counted_again_for_a_while() -> None:
    requests: list[tuple[str, ...]] = []
    now, status = [100.0], [503]

    async def search(query: Query) -> Hits:
        requests.append(query.facets)
        if query.facets and status[0]:
            raise ProblemError(status[0], "this search could not be answered within 5 s")
        return Hits((), 7, facets={"tag": ()} if query.facets else None)

    counted = FacetCache(lambda: now[0])
    for index in range(3):  # also while the index changes
        hits = await counted.ask(Query(text="x"), IndexPosition("e", index), ("tag",), search)
        assert (hits.total, hits.facets) == (7, {})
    assert requests == [("tag",), (), (), ()]
    now[0] += REST
    status[0] = 0
    assert (await counted.ask(Query(text="x"), IndexPosition("e", 3), ("tag",), search)).facets == {"tag": ()}
    status[0] = 429
    with pytest.raises(ProblemError):
        await counted.ask(Query(text="y"), IndexPosition("e", 3), ("tag",), search)


# -- amounts


@pytest.mark.parametrize(
    ("amount", "shown"),
    [("0", "0"), ("4.8213", "4.82"), ("1.3", "1.30"), ("48.21", "48.2"), ("482.1", "482"), ("999.6", "1000"),
     ("12345.6", "12,346"), ("0.000964123", "0.000964"), ("1e-13", "1.00e-13"), ("1e20", "1.00e+20")],
)  # fmt: skip
def test_amounts_are_short(amount: str, shown: str) -> None:
    assert short(Decimal(amount)) == shown


@given(st.decimals("0", "1e300", allow_nan=False))
def test_every_amount_is_short_and_close(amount: Decimal) -> None:
    shown = short(amount)
    assert len(shown) <= 24
    back = Decimal(shown.replace(",", ""))
    assert abs(back - amount) <= amount * Decimal("0.006")


def test_amounts_are_converted_where_there_is_a_rate() -> None:
    rates = RateTable("BSV", {"BSV": Decimal(1), "USD": Decimal(50)}, "a feed", 0, 10)

    class Fixed(ExchangeRates):
        def usable(self) -> tuple[RateTable, ...]:
            return (rates,)

    assert about("0.01", "BSV", "USD", Fixed()) == ("0.50", "USD")
    assert about("1", "USD", "USD", Fixed()) is None
    assert about("1", "XYZ", "USD", Fixed()) is None
    assert about("1", "BSV", "USD", ExchangeRates()) is None
    assert (percent("0.2"), percent("1"), percent("0.125")) == ("20 %", "100 %", "12.5 %")


# -- measures


def test_a_page_is_made_smaller_until_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    scales: list[float] = []

    def render(_: str, *, m: Measure, size: int) -> bytes:
        scales.append(m.scale)
        return b"x" * int(size * m.scale)

    monkeypatch.setattr(rendering, "render", render)
    assert len(render_within("a page", PAGE_BYTES, size=1_000_000)) <= PAGE_BYTES
    assert scales == sorted(scales, reverse=True)
    assert len(render_within("a page", 300, size=1_000)) == 200
    assert render_within("a page", PAGE_BYTES, size=5) == b"xxxxx"


def test_a_measure_says_how_much_it_leaves_out() -> None:
    half = Measure(0.5)
    assert half.text("x" * 100, 40) == "x" * 19 + "…"
    assert half.text("short", 40) == "short"
    assert list(half.some(range(50), 20)) == list(range(10))  # type: ignore[arg-type]
    assert half.left(range(50), 20) == 40  # type: ignore[arg-type]


# -- badges and settings

ITEM: dict[str, Any] = {"status": "live", "domain": None, "integrity": "inscribed", "warnings": [], "type": "tool",
                        "command": "npx", "args": [], "env": {}, "url": "", "serverName": "clock"}  # fmt: skip


def test_every_badge_has_a_meaning_that_is_shown_once() -> None:
    hosted = {**ITEM, "domain": {"host": "a.example", "verified": True}, "integrity": "drifted", "pending": {}}
    shown = badges(hosted)
    assert [badge.word for badge in shown] == ["update waiting", "a.example", "drifted"]
    assert [kind for kind, _ in explained([*shown, *shown])] == ["drifted", "domain", "update"]
    for status in ("pending", "burned", "undecided"):
        assert badges({**ITEM, "status": status})[0].kind == status
    warned = {**ITEM, "warnings": [{"code": "price-changed"}, {"code": "address-changed"}, {"code": "missing"}]}
    assert [badge.kind for badge in badges(warned)] == ["price-changed", "address-changed"]
    assert all(meaning.text.endswith(".") and len(meaning.text) > 60 for meaning in MEANINGS.values())


def test_a_copied_name_url_or_address_is_a_red_badge() -> None:
    codes = ["same-name", "same-url", "same-address"]
    shown = badges({**ITEM, "warnings": [{"code": code} for code in codes]})
    assert [(badge.kind, badge.tone) for badge in shown[:3]] == [(code, "bad") for code in codes]


def test_a_price_filter_tells_its_currency() -> None:
    requests = [("maxPrice", "5"), ("priceCurrency", "usd"), ("interval", "P1M"), ("interval", "none")]
    assert [chip.value for chip in chips(requests)] == ["5 USD", "per month", "per call"]
    assert filter_text(requests, "maxPrice") == "At most “5 USD”"
    assert filter_text(requests, "interval") == "Paid “per month” or “per call”"
    assert filter_text([("minPrice", "5")], "minPrice") == "At least “5”"
    assert filter_text([], "tag") == "Tag", "as when it stands among the words"
