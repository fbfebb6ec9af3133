"""Parameters of a search: what is understood, what is refused, and that nothing else ever happens."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.api import cursors, values
from overlay.api.parameters import CHANGES, FILTERS, SEARCH, SUGGEST, pairs, read
from overlay.api.problems import BadRequestError, Fault
from overlay.api.search_request import SearchRequest, from_pairs
from overlay.listings.listing import Listing
from overlay.search import facts
from overlay.search.query import FACETS, MARK_BYTES, Query

CHAINS = {"bsv": "bsv:mainnet", "ltc": "bip122:12a765e31ffd4059bada1e25190f6e98", "demo": "bsv:mainnet"}


def ask(query_string: str) -> SearchRequest:
    return from_pairs(pairs(query_string), CHAINS)


def test_parameters_name_members_of_a_query_and_facts_are_required_by_filters() -> None:
    members = {parameter.name: parameter.member for parameter in SEARCH.parameters if parameter.member}
    assert len(set(members.values())) == len(members)
    assert set(members.values()) <= set(Query._fields)
    assert FILTERS.keys() <= members.keys()
    assert {*facts.FILTERS.values(), *facts.FLAGS} <= {parameter.member for parameter in FILTERS.values()}
    assert all(isinstance(getattr(Listing, f"is_{flag}"), property) for flag in facts.FLAGS)


@pytest.mark.parametrize("flag", facts.FLAGS)
def test_a_flag_is_required_or_excluded(flag: str) -> None:
    required, excluded = Query(**{flag: True}), Query(**{flag: False})
    assert (flag,) in facts.required(required)
    assert (flag,) not in facts.required(excluded)
    assert flag in facts.unwanted(excluded)
    assert flag not in {*facts.unwanted(required), *facts.unwanted(Query())}


def query(query_string: str) -> Query:
    return ask(query_string).query


def faults(query_string: str) -> list[tuple[str | None, str]]:
    """The faults of a query, as (parameter, code)."""
    with pytest.raises(BadRequestError) as refused:
        ask(query_string)
    assert all(fault.detail for fault in refused.value.faults)
    return [(fault.parameter, fault.code) for fault in refused.value.faults]


def test_no_parameters_give_the_default_query() -> None:
    assert ask("") == SearchRequest(
        query=Query(), kind="all", sort="relevance", position=0, beyond=False, explain=False
    )


def test_every_parameter_reaches_the_query() -> None:
    parsed = ask(
        "q=watch+tower&type=agent&skillId=a&skillId=B&acceptedCurrency=bsv&acceptedCurrency=Usd&interval=month"
        "&maxPrice=5&minPrice=0.10&priceCurrency=usd&tag=Security&chain=ltc&domain=B%C3%BCcher.example&owner=1abc"
        "&verified=true&status=burned&fromBlock=5&toBlock=9&updatedSince=2025-01-31&asOfHeight=8&sort=-price&limit=7"
        "&offset=14&facets=type,tag&facetLimit=9&facetPrefix=Sec&explain=1"
    )
    assert parsed.query == Query(
        text="watch tower",
        kind="agent",
        skills=("a", "b"),
        currencies=("BSV", "USD"),
        intervals=("P1M",),
        min_price=Decimal("0.1"),
        max_price=Decimal(5),
        price_currency="USD",
        tags=("security",),
        chains=("ltc",),
        domains=("xn--bcher-kva.example",),
        owners=("1abc",),
        statuses=("burned",),
        verified=True,
        height_chain="ltc",
        from_height=5,
        to_height=9,
        as_of=8,
        updated_since=1738281600,
        sort="price",
        descending=True,
        limit=7,
        offset=14,
        facets=("type", "tag"),
        facet_limit=9,
        facet_prefix="sec",
    )
    assert parsed.explain
    assert parsed.kind == "agent"


def test_query_is_the_old_name_of_q() -> None:
    assert query("query=tower").text == query("q=tower").text == "tower"
    assert faults("q=a&query=b") == [("q", "repeated")]


def test_other_names_of_filters_and_of_kinds_are_understood() -> None:
    assert query("skill=Audit&currency=bsv") == query("skillId=audit&acceptedCurrency=BSV")
    assert query("skill=a&skillId=B").skills == ("a", "b")
    assert [query(f"type={word}").kind for word in ("a2b-agent", "a2b", "a2b-mcp", "mcp", "server")] == [
        *["agent"] * 2,
        *["tool"] * 3,
    ]
    assert query("type=mcp,server").kind == "tool"
    assert query("type=mcp,agent").kind is None
    assert query("maxPrice=5&currency=eur").price_currency == "EUR"
    assert faults("type=bot") == [("type", "unknown-value")]


def test_a_list_with_commas_is_several_values() -> None:
    assert query("acceptedCurrency=usd,EUR,+bsv").currencies == ("USD", "EUR", "BSV")
    assert query("chain=ltc,bsv&status=live,burned&owner=1a,1b&domain=a.example,b.example") == query(
        "chain=ltc&chain=bsv&status=live&status=burned&owner=1a&owner=1b&domain=a.example&domain=b.example"
    )
    assert query("interval=monthly,per+call,P0,5D").intervals == ("P1M", "none", "P0.5D")
    assert query("interval=monthly,per+call").intervals == ("P1M", "none")
    assert query("interval=P0,5D").intervals == ("P0.5D",)
    assert query("interval=fortnightly,+at+noon").intervals == ("fortnightly, at noon",)
    assert query("tag=a,b&skillId=c,d") == query("tag=a%2Cb&skillId=c%2Cd"), "the index decides"
    assert faults("acceptedCurrency=USD,EUR&maxPrice=5") == [("priceCurrency", "price-currency-needed")]
    for name in ("tag", "acceptedCurrency", "interval"):
        assert faults(f"{name}={','.join(['a'] * 65)}") == [(name, "repeated")]
    assert faults("chain=bsv,nowhere") == [("chain", "unknown-chain")]


@pytest.mark.parametrize(
    ("written", "key"),
    [("monthly", "P1M"), ("Yearly", "P1Y"), ("daily", "P1D"), ("weekly", "P1W"), ("per month", "P1M"),
     ("per call", "none"), ("null", "none"), ("1 month", "P1M")],
)  # fmt: skip
def test_an_interval_may_be_written_in_words(written: str, key: str) -> None:
    assert query(f"interval={written.replace(' ', '+')}").intervals == (key,)


def test_what_the_existing_client_sends_is_understood() -> None:
    parsed = ask("type=tool&q=dex+chart&limit=10&offset=0&fromBlock=800000&toBlock=900000")
    assert (parsed.query.kind, parsed.query.limit, parsed.query.offset) == ("tool", 10, 0)
    assert (parsed.query.from_height, parsed.query.to_height, parsed.query.height_chain) == (800000, 900000, "bsv")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("10", 10), ("10.0", 10), ("10.9", 10), ("-1", 1), ("-0", 1), ("0", 1), ("1e9", 100), ("1e+9", 100),
        ("1e 9", 100), ("1e400", 100), ("-1e400", 1), ("1e-400", 1), ("Infinity", 100), ("-Infinity", 1), (" 20 ", 20),
        (".5", 1), ("7.", 7), ("1" * 400, 100), ("99999999999999999999", 100),
    ],
)  # fmt: skip
def test_a_limit_is_any_number_cut_to_its_range(written: str, meant: int) -> None:
    assert query(urlencode({"limit": written})).limit == meant


@pytest.mark.parametrize(
    "written", ["abc", "1,5", "0x10", "NaN", "1_000", "١٢", "ten", "1 2", "--1", "1e", "e5", "1" * 999]
)
def test_what_is_no_number_is_refused_where_numbers_are_clamped(written: str) -> None:
    for name in ("limit", "offset", "fromBlock", "toBlock"):
        assert faults(urlencode({name: written})) == [(name, "not-a-number")]


@given(st.fractions(min_value=-(10**20), max_value=10**20).map(lambda number: Fraction(round(number, 3))))
def test_clamping_agrees_with_exact_arithmetic(number: Fraction) -> None:
    written = f"{Decimal(number.numerator) / Decimal(number.denominator):f}"
    exact = Fraction(written)
    assert values.clamped(written, 0, 1000) == max(0, min(1000, int(exact) if exact >= 0 else 0))


def test_heights_out_of_range_are_clamped_too() -> None:
    parsed = query("fromBlock=-5&toBlock=1e99")
    assert (parsed.from_height, parsed.to_height) == (0, 2**53 - 1)


def test_an_offset_beyond_the_last_is_clamped_and_has_no_items() -> None:
    last, beyond = ask("offset=10000"), ask("offset=1e9")
    assert (last.query.offset, last.position, last.beyond) == (10_000, 10_000, False)
    assert (beyond.query.offset, beyond.position, beyond.beyond) == (10_000, 10_000, True)
    assert ask("offset=-3").query.offset == 0


def test_an_empty_value_is_refused_by_name() -> None:
    may_be_empty = {"q", "query", "cursor", "facetPrefix"}
    for name in SEARCH.names.keys() - may_be_empty:
        for empty in ("", "+", "%09%20", "%C2%A0"):
            assert faults(f"{name}={empty}") == [(SEARCH.names[name].name, "empty")]
    assert faults("skillId=&tag=x&type=") == [("skillId", "empty"), ("type", "empty")]
    assert ask("q=&query=+&cursor=") == ask("")


def test_the_registry_of_a_height_above_the_tip_is_refused() -> None:
    heights = {"bsv": 125, "ltc": 7}
    assert from_pairs([("asOfHeight", "125")], CHAINS, heights=heights).query.as_of == 125
    for given_pairs in ([("asOfHeight", "126")], [("asOfHeight", "8"), ("chain", "ltc")]):
        with pytest.raises(BadRequestError) as refused:
            from_pairs(given_pairs, CHAINS, heights=heights)
        assert [(fault.parameter, fault.code) for fault in refused.value.faults] == [("asOfHeight", "above-the-tip")]
    assert from_pairs([("asOfHeight", "9"), ("chain", "demo")], CHAINS, heights=heights).query.as_of == 9


def test_unknown_parameters_are_named_with_a_hint() -> None:
    assert faults("foo=1&limt=2") == [("foo", "unknown-parameter"), ("limt", "unknown-parameter")]
    with pytest.raises(BadRequestError, match="did you mean limit"):
        ask("limt=2")


def test_all_faults_are_named_at_once() -> None:
    assert faults("type=thing&maxPrice=cheap&verified=maybe&asOfHeight=1.5&updatedSince=yesterday&sort=best") == [
        ("type", "unknown-value"),
        ("maxPrice", "not-an-amount"),
        ("verified", "not-a-truth-value"),
        ("asOfHeight", "not-a-whole-number"),
        ("updatedSince", "not-a-time"),
        ("sort", "unknown-value"),
    ]


def test_a_repeated_key_means_any_of() -> None:
    assert query("type=agent&type=tool").kind is None
    assert query("type=agent&type=agent").kind == "agent"
    assert query("type=agent&type=all").kind is None
    assert query("status=live&status=burned").statuses == ("live", "burned")
    assert set(query("status=all").statuses) == {"live", "pending", "burned", "undecided"}


def test_single_parameters_may_be_repeated_only_with_the_same_value() -> None:
    assert query("maxPrice=5&maxPrice=5").max_price == 5
    assert faults("maxPrice=5&maxPrice=6") == [("maxPrice", "repeated")]


def test_intervals_are_equal_by_meaning() -> None:
    assert query("interval=P7D&interval=week&interval=P1W").intervals == ("P1W",)
    assert query("interval=none").intervals == ("none",)
    assert query("interval=PT24H").intervals != query("interval=P1D").intervals


@pytest.mark.parametrize(
    ("written", "meant"), [("5", "5"), ("0", "0"), (".5", "0.5"), ("1e-3", "0.001"), ("12.50", "12.5")]
)
def test_prices_are_decimals(written: str, meant: str) -> None:
    assert query(f"maxPrice={written}").max_price == Decimal(meant)


@pytest.mark.parametrize("written", ["-1", "NaN", "Infinity", "1e999", "1,5", "5USD", "1" * 41, "٣"])
def test_what_is_no_price_is_refused(written: str) -> None:
    assert faults(urlencode({"minPrice": written})) == [("minPrice", "not-an-amount")]


def test_law_15_one_accepted_currency_is_the_price_currency() -> None:
    assert query("maxPrice=5&acceptedCurrency=bsv").price_currency == "BSV"
    assert query("sort=price&acceptedCurrency=bsv").price_currency == "BSV"
    assert query("acceptedCurrency=bsv").price_currency is None
    assert query("maxPrice=5").price_currency is None
    assert query("maxPrice=5&acceptedCurrency=bsv&priceCurrency=usd").price_currency == "USD"


def test_law_15_several_accepted_currencies_and_a_price_need_a_price_currency() -> None:
    assert faults("maxPrice=5&acceptedCurrency=BSV&acceptedCurrency=USD") == [
        ("priceCurrency", "price-currency-needed")
    ]
    assert query("maxPrice=5&acceptedCurrency=BSV&acceptedCurrency=USD&priceCurrency=usd").price_currency == "USD"
    assert query("sort=price&acceptedCurrency=BSV&acceptedCurrency=USD").price_currency is None
    assert query("acceptedCurrency=BSV&acceptedCurrency=bsv&maxPrice=1").price_currency == "BSV"


def test_without_rates_the_answer_names_the_price_currency() -> None:
    assert ask("maxPrice=5&priceCurrency=usd").unapplied == []
    assert ask("maxPrice=5").unapplied == []
    assert ask("priceCurrency=usd").unapplied == []


def test_a_chain_is_selected_by_name_or_by_caip_2() -> None:
    assert query("chain=ltc").chains == ("ltc",)
    assert query("chain=bsv:mainnet").chains == ("bsv", "demo")
    assert query("chain=bsv:mainnet&chain=bsv").chains == ("bsv", "demo")
    with pytest.raises(BadRequestError, match=r"known: bsv \(bsv:mainnet\), ltc"):
        ask("chain=doge")


def test_heights_are_of_the_chain_requested_else_of_the_first() -> None:
    assert query("fromBlock=1").height_chain == "bsv"
    assert query("fromBlock=1&chain=ltc").height_chain == "ltc"
    assert query("chain=ltc").height_chain is None


def test_without_a_chain_height_filters_are_named_as_not_applied() -> None:
    parsed = from_pairs(pairs("fromBlock=1&asOfHeight=3"), {})
    assert parsed.unapplied == ["fromBlock", "asOfHeight"]
    assert (parsed.query.from_height, parsed.query.as_of) == (None, None)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2025-01-31", 1738281600),
        ("2025-01-31T00:00:00Z", 1738281600),
        ("2025-01-31T02:00:00+02:00", 1738281600),
        ("2025-01-31t00:00:00.5z", 1738281600),
        ("1969-12-31", 0),
        ("0001-01-01T00:00:00+14:00", 0),
    ],
)
def test_times_are_rfc_3339_or_dates(written: str, meant: int) -> None:
    assert query(urlencode({"updatedSince": written})).updated_since == meant


@pytest.mark.parametrize(
    "written", ["2025", "31.1.2025", "2025-02-30", "2025-01-31T25:00:00Z", "2025-01-31T00:00:00", "0"]
)
def test_what_is_no_time_is_refused(written: str) -> None:
    assert faults(urlencode({"updatedSince": written})) == [("updatedSince", "not-a-time")]


def test_minus_reverses_an_order() -> None:
    assert [query(f"sort={word}").descending for word in ("updated", "-updated", "price", "-price", "-name")] == [
        None, False, None, True, True,
    ]  # fmt: skip


def test_facets_are_a_list_or_all() -> None:
    assert query("facets=type,tag&facets=tag,chain").facets == ("type", "tag", "chain")
    assert query("facets=all").facets == query("facets=1").facets == FACETS
    assert faults("facets=colour") == [("facets", "unknown-value")]


def test_words_after_the_96th_are_left_out_and_named() -> None:
    words = [f"w{number}" for number in range(1, 101)]
    one = ask("q=" + "+".join(words[:96]))
    assert one.query.text.split() == words[:96]
    assert not one.notes
    many = ask("q=" + "+".join(words) + "%20")
    assert many.query.text.split() == words[:96]
    assert many.text.split() == words
    (note,) = many.notes
    assert note.code == "words-left-out"
    assert note.detail.endswith(": " + " ".join(words[96:]))
    assert many.unapplied == []


def test_a_sentence_with_quotation_marks_says_that_they_are_no_operators() -> None:
    sentence = ask("q=" + quote('I am looking for something that turns "meetings" into minutes'))
    assert [note.code for note in sentence.notes] == ["operators-as-words"]
    assert sentence.query.operators is None
    assert not ask("q=" + quote('turns "meetings" into minutes')).notes


def test_text_is_limited_in_bytes() -> None:
    assert query("q=" + quote("é" * 1_024)).text == "é" * 1_024
    assert len(query("q=" + quote("é" * 2_048)).text) == 1_024  # of 4 kB, 2 are read
    assert faults("q=" + quote("é" * 2_049)) == [("q", "too-long")]
    assert faults("q=" + "a" * 1_000_000) == [("q", "too-long")]


def test_a_query_string_that_is_not_utf_8_is_refused() -> None:
    assert faults("q=%ff") == [("query string", "not-utf-8")]
    assert faults("q=\udcff") == [("q", "not-utf-8")]
    assert query("q=%zz%").text == "%zz%"


def test_a_flood_of_parameters_is_refused() -> None:
    assert faults("&".join(["tag=x"] * 201)) == [("query string", "too-many")]
    assert faults("&".join(f"tag={number}" for number in range(65))) == [("tag", "repeated")]
    assert len(query("&".join(f"tag={number}" for number in range(64))).tags) == 64
    assert faults("tag=" + "x" * 2_049) == [("tag", "too-long")]


def test_a_cursor_goes_on_where_a_page_ended() -> None:
    key = (0, 0, "USD", "50001", "id")
    text = cursors.encode(cursors.PagePosition("-price", key, "epoch", 9, 40))
    parsed = ask(f"cursor={text}&sort=-price&offset=0")
    assert (parsed.query.after, parsed.query.offset, parsed.position) == (key, 40, 40)
    assert faults(f"cursor={text}&sort=price") == [("cursor", "bad-cursor")]
    assert faults(f"cursor={text}&sort=-price&offset=5") == [("cursor", "conflict")]


@pytest.mark.parametrize(
    "text",
    [
        "x", "AAAA", "e30", "====", "é", "W10", "bnVsbA", "A" * 5_000,
        cursors.encode(cursors.PagePosition("price", (1,), "e", 1, 1))[:-3],
    ],
)  # fmt: skip
def test_a_cursor_that_was_not_given_out_is_refused(text: str) -> None:
    assert faults(urlencode({"cursor": text})) == [("cursor", "bad-cursor")]


@pytest.mark.parametrize("key", [(), (1,), ("a",), (1, 2), (1.5, "id"), (True, 0, "id"), (None,), (0, 0, "id", 1)])
def test_a_cursor_with_another_key_than_its_order_has_is_refused(key: tuple[object, ...]) -> None:
    text = cursors.encode(cursors.PagePosition("relevance", key, "epoch", 9, 40))
    assert faults(f"cursor={text}") == [("cursor", "bad-cursor")]


def test_a_cursor_holds_no_more_than_json_scalars() -> None:
    with pytest.raises((TypeError, ValueError)):
        cursors.encode(cursors.PagePosition("price", (Decimal(1),), "e", 1, 1))
    text = cursors.encode(cursors.PagePosition("price", (float("nan"), "id"), "e", 1, 1))
    assert cursors.decode(text).key == (None, "id")
    assert faults(f"cursor={text}&sort=price") == [("cursor", "bad-cursor")]


scalars = (
    st.none() | st.text(max_size=20) | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False)
)


@given(st.lists(scalars, min_size=1, max_size=8), st.integers(0, 2**50), st.integers(0, 2**50))
def test_cursors_come_back_as_they_were(key: list[object], seq: int, position: int) -> None:
    page_position = cursors.PagePosition("name", tuple(key), "epoch", seq, position)
    assert cursors.decode(cursors.encode(page_position)) == page_position


def test_a_cursor_that_remembers_all_it_can_fits_into_a_url() -> None:
    shown = bytes(range(250)) * (cursors.MOST_SHOWN * MARK_BYTES // 250)
    text = cursors.encode(cursors.PagePosition("relevance", (0, -1.5, "a" * 70), "epoch", 9, 500, "", shown))
    assert cursors.decode(text).shown == shown
    assert len(text) < 5_000
    for wrong in (shown + b"12345", shown[:-1]):
        with pytest.raises(ValueError, match="given out"):
            cursors.decode(
                cursors.encode(cursors.PagePosition("relevance", (0, -1.5, "a"), "epoch", 9, 500, "", wrong))
            )


@given(st.text(max_size=200) | st.binary(max_size=120).map(lambda raw: urlsafe_b64encode(raw).decode()))
def test_any_text_is_a_cursor_or_a_value_error(text: str) -> None:
    try:
        page_position = cursors.decode(text)
    except ValueError:
        return
    assert cursors.decode(cursors.encode(page_position)) == page_position


names = st.sampled_from([*SEARCH.names, "foo", "LIMIT", ""])
texts = st.text(max_size=40) | st.sampled_from(
    ["1", "-1", "1e9", "all", "agent", "P1M", "none", "2025-01-31", "true", "price", "\0", "\u202e", "\ud800", "(.*)+"]
)  # fmt: skip


asked_pairs = st.tuples(names, texts) | st.tuples(st.sampled_from(["limit", "offset"]), st.integers().map(str))


@given(st.lists(asked_pairs, max_size=12))
def test_any_parameters_give_a_query_or_a_problem(given_pairs: list[tuple[str, str]]) -> None:
    asked_or_refused(lambda: from_pairs(given_pairs, CHAINS))


def quoted(pair: tuple[str, str]) -> str:
    return "=".join(quote(part, errors="surrogatepass") for part in pair)


@given(st.text(max_size=120) | st.lists(asked_pairs.map(quoted), max_size=6).map("&".join))
def test_any_query_string_gives_a_query_or_a_problem(text: str) -> None:
    asked_or_refused(lambda: ask(text))


def asked_or_refused(question: Callable[[], SearchRequest]) -> None:
    """A question is within all limits, or it is refused with at least one fault; other exceptions pass through."""
    try:
        requested = question()
    except BadRequestError as error:
        refusal = error
    else:
        assert 1 <= requested.query.limit <= 100
        assert 0 <= requested.query.offset <= 10_000
        assert requested.query.sort in ("relevance", "price", "updated", "created", "name")
        assert set(requested.query.facets) <= set(FACETS)
        assert set(requested.query.chains) <= set(CHAINS)
        assert len(requested.query.text.encode()) <= 2_048
        return
    assert refusal.faults
    assert all(isinstance(fault, Fault) for fault in refusal.faults)


@given(st.lists(st.tuples(names, texts), max_size=5))
def test_the_other_tables_read_the_same_way(given_pairs: list[tuple[str, str]]) -> None:
    for table in (SUGGEST, CHANGES):
        result, wrong = read(given_pairs, table)
        assert result.keys() <= table.names.keys()
        assert all(fault.code for fault in wrong)
