"""The answers of every search engine: the same listings in the same order, whatever holds the index."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest

from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from parsers.cards import Skill
from tests.contracts.conftest import Filled
from tests.contracts.listed import ask, count, ids, listing, matching_ids, price, put, ranked

TEXTS = {
    "camel": {"skills": ("getDexChart",)},
    "snake": {"skills": ("web_search",)},
    "payments": {"name": "Payment gateway"},
    "weather": {"description": "The weather of tomorrow"},
    "chinese": {"name": "支付网关与发票翻译服务"},
    "japanese": {"name": "実時間の翻訳エージェント"},
    "korean": {"name": "실시간 번역 에이전트"},
    "russian": {"name": "Перевод документов"},
    "arabic": {"name": "ترجمة الوثائق"},
    "wide": {"name": "ＦＵＬＬｗｉｄｔｈ ｂｏｏｋ"},
    "accents": {"name": "Übersetzung für Café Straße"},
    "ticker": {"name": "USDCX swaps", "description": "for BSVUSD"},
    "id": {"description": "see b08538c9a1 for more"},
    "tagged": {"tags": ("Astronomy",)},
    "exemplified": {"skills": (Skill("x", "X", "", (), ("Ask about volcanoes",)),)},
    "said": {"words": ("acme.example",)},
    "cpp": {"description": "finds bugs in C++"},
    "csharp": {"description": "scripts in C#, C#, C#"},
    "dotnet": {"name": ".NET Core"},
    "pipelines": {"description": "CI/CD with K8S; Q&A"},
    "gpt": {"name": "GPT 4 relay"},
    "llama": {"name": "Llama3 vault"},
    "printing": {"name": "3D printing"},
    "million": {"description": "has 1,000,000 rows"},
    "fire": {"name": "🔥 Bargains ❤️", "description": "of 🇯🇵"},
    "marked": {"name": "WIDGET™ maker"},
    "thai": {"name": "พยากรณ์อากาศ", "description": "บอกสภาพอากาศทั่วประเทศไทย"},
    "lao": {"name": "ພາສາລາວ"},
    "khmer": {"name": "រៀនភាសាខ្មែរ"},
    "burmese": {"name": "မြန်မာဘာသာ"},
    "traditional": {"name": "圖書館"},
    "rare": {"name": "Zed Quill paddock"},
}


def fill(engine: SearchIndex) -> None:
    put(engine, *(listing(id_, **{"name": "One", **more}) for id_, more in TEXTS.items()))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("getDexChart", "camel"),
        ("dex chart", "camel"),
        ("getdexchart", "camel"),
        ("web_search", "snake"),
        ("web search", "snake"),
        ("websearch", "snake"),
        ("web-search", "snake"),
        ("PAYMENTS", "payments"),
        ("paymet", "payments"),  # a letter left out
        ("paymnet", "payments"),  # two swapped count as one
        ("paymentt", "payments"),
        ("gatewax", "payments"),
        ("astronmoy", "tagged"),
        ("asrtonmoy", "tagged"),  # two errors in nine letters
        ("weat", "weather"),  # the beginning of the last word
        ("tomorrow weat", "weather"),
        ("支付", "chinese"),
        ("发票翻译", "chinese"),
        ("翻訳", "japanese"),
        ("번역", "korean"),
        ("перевод", "russian"),
        ("ДОКУМЕНТОВ", "russian"),
        ("документв", "russian"),
        ("ترجمه", "arabic"),
        ("تَرْجَمَة", "arabic"),
        ("fullwidth", "wide"),
        ("ＢＯＯＫ", "wide"),
        ("cafe", "accents"),
        ("ubersetzung", "accents"),
        ("STRASSE", "accents"),
        ("usdcx", "ticker"),
        ("b08538c9a1", "id"),
        ("volcanoes", "exemplified"),
        ("volcano", "exemplified"),
        ("acme.example", "said"),
        ("c++", "cpp"),
        ("Ｃ＋＋", "cpp"),
        ("c#", "csharp"),
        ("C♯", "csharp"),
        (".net", "dotnet"),
        ("dotnet", "dotnet"),
        ("net", "dotnet"),
        ("cicd", "pipelines"),
        ("ci cd", "pipelines"),
        ("kubernetes", "pipelines"),
        ("q&a", "pipelines"),
        ("gpt4", "gpt"),
        ("GPT-4", "gpt"),
        ("llama 3", "llama"),
        ("llama-3", "llama"),
        ("3 d", "printing"),
        ("1000000", "million"),
        ("1 000 000", "million"),
        ("1_000_000", "million"),
        ("1.000.000", "million"),
        ("١٬٠٠٠٬٠٠٠", "million"),
        ("🔥", "fire"),
        ("❤", "fire"),  # without the sign that asks for a picture of it
        ("🇯🇵", "fire"),
        ("widget", "marked"),
        ("อากาศ", "thai"),
        ("ไทย", "thai"),
        ("ລາວ", "lao"),
        ("ភាសា", "khmer"),
        ("ဘာသာ", "burmese"),
        ("图书馆", "traditional"),
        ("圖書", "traditional"),
        ("支付網關", "chinese"),
        ("وثائق", "arabic"),
        ("بالوثائق", "arabic"),
        ("الترجمة", "arabic"),
        ("zedquill", "rare"),
    ],
)
def test_a_listing_is_found_by_what_it_says(filled: Filled, text: str, meant: str) -> None:
    assert matching_ids(filled(fill), text) == {meant}


@pytest.mark.parametrize(
    "text",
    [
        "chekc",  # too far from anything
        "pamet",  # two errors, five letters
        "asrtonmio",  # three errors
        "b08538c9a2",  # an id is not a word that could be mistyped
        "USDCY",  # nor is a ticker
        "支汇",
        "f#",
        "🌊",
        "🇪🇯",  # its letters are in other flags
        "ทะเล",
        "1000001",
        "20312030",
        "xyzzyx",
        "!!!",
        "\x01\x02",
        "…",
    ],
)
def test_nothing_is_found_by_what_no_listing_says(filled: Filled, text: str) -> None:
    assert matching_ids(filled(fill), text) == set()


def animals(engine: SearchIndex) -> None:
    put(engine, *(listing(word, word) for word in ("lion", "tiger", "elephant", "crocodile", "deadbeef", "крокодил")))


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("lino", set()),  # under five letters nothing is forgiven
        ("tige", set()),
        ("tigre", {"tiger"}),
        ("tigers", {"tiger"}),
        ("itgre", set()),  # up to eight letters one error
        ("elephnat", {"elephant"}),
        ("elpehnat", set()),
        ("crocodiel", {"crocodile"}),  # from nine letters two
        ("corcodiel", {"crocodile"}),
        ("corcoidel", set()),
        ("CROCODIEL", {"crocodile"}),
        ("TIGRE", set()),  # up to six capitals are a ticker
        ("crocodi1e", set()),  # and a digit makes an id
        ("deadbeaf", set()),  # as do eight letters that all are hexadecimal
        ("крокодли", {"крокодил"}),
    ],
)
def test_longer_words_are_forgiven_more_errors(filled: Filled, typed: str, meant: set[str]) -> None:
    assert matching_ids(filled(animals), f"{typed} well") == meant


def test_a_word_that_left_with_its_last_listing_is_meant_no_more(engine: SearchIndex) -> None:
    put(engine, listing("1", "Paymant"), listing("2", "Payment"))
    assert matching_ids(engine, "paymant well") == {"1"}, "what a listing says is meant, however rare"
    put(engine, listing("1", "Gone"), seq=2)
    assert matching_ids(engine, "paymant well") == {"2"}


def test_a_beginning_means_the_six_commonest_words_that_begin_so(engine: SearchIndex) -> None:
    put(engine, *(listing(f"{index}{copy}", f"inv{index}x") for index in range(10) for copy in "xy"[: 1 + (index > 1)]))
    assert {id_[0] for id_ in matching_ids(engine, "inv")} == set("234567")
    assert matching_ids(engine, "inv well") == set()
    put(engine, listing("i", "in"), seq=2)
    assert matching_ids(engine, "in") == {"i"}  # a short word that is said means itself
    assert {id_[0] for id_ in matching_ids(engine, "i")} == set("234567")


def test_a_mistyped_word_means_the_eight_nearest_of_them_the_commonest(engine: SearchIndex) -> None:
    put(engine, *(listing(str(index), f"transpor{chr(98 + index)}") for index in range(10)), listing("y", "transpork"))
    assert matching_ids(engine, "transporz well") == {*"0123456", "9", "y"}
    put(engine, *(listing(f"far{index}", "transporttz") for index in range(5)), seq=2)
    assert matching_ids(engine, "transporz well") == {*"0123456", "9", "y"}
    assert matching_ids(engine, "transportzt well") == {f"far{index}" for index in range(5)}


def test_filters_hold_on_the_same_offer(engine: SearchIndex) -> None:
    offers = (price("5", "USD", "month", skills=["a"], id="x"), price("1", "BSV", None, skills=["b"], id="y"))
    put(engine, listing("both", skills=("a", "b", "c"), offers=offers), listing("none", skills=("a", "c")))
    assert matching_ids(engine, skills="a") == {"both", "none"}
    assert matching_ids(engine, skills="a", intervals="P1M") == {"both"}
    assert matching_ids(engine, skills="a", currencies="BSV") == set()
    assert matching_ids(engine, skills="b", intervals="P1M") == set()
    assert matching_ids(engine, currencies="BSV", intervals="P1M") == set()
    assert matching_ids(engine, currencies="USD", max_price="2", price_currency="USD") == set()
    assert matching_ids(engine, intervals="P1M", max_price="2") == set()
    assert matching_ids(engine, max_price="2") == {"both"}
    assert matching_ids(engine, min_price="2", skills="b") == set()
    assert matching_ids(engine, skills="c") == {"both", "none"}
    assert matching_ids(engine, skills="c", max_price="9") == set()
    assert matching_ids(engine, price_currency="EUR") == {"both", "none"}
    assert matching_ids(engine, skills=("b", "zzz"), currencies=("BSV", "EUR"), intervals=("none", "P1D")) == {"both"}


def test_a_price_is_compared_in_the_anchor_and_accepted_in_others(engine: SearchIndex) -> None:
    put(engine, listing("1", offers=[price("5", "USD", None, "BSV"), price("9", "EUR", "P1M", "USD", "JPY")]))
    assert matching_ids(engine, currencies="BSV", max_price="5", price_currency="USD") == {"1"}
    assert matching_ids(engine, currencies="BSV", max_price="5", price_currency="BSV") == set()
    assert matching_ids(engine, currencies="JPY", max_price="5", price_currency="USD") == set()
    assert matching_ids(engine, currencies="JPY", intervals="P1M", min_price="9", price_currency="EUR") == {"1"}
    assert matching_ids(engine, currencies="JPY", intervals="none") == set()


def test_the_cheapest_is_of_the_offers_that_meet_the_filters(engine: SearchIndex) -> None:
    offers = [price("20", interval="P1M", id="a"), price("0.5", "BSV", id="b"), price("2.50", id="c", skills=["s"]),
              price("2.5", id="d", interval="PT1H")]  # fmt: skip
    put(engine, listing("1", skills=("s", "t"), offers=offers))

    def cheapest(**query: object) -> tuple[str, str, str, str] | None:
        (hit,) = ask(engine, **query).hits
        item = hit.cheapest
        return item and (item.offer_id, item.amount, item.currency, item.interval)

    assert cheapest() == ("c", "2.5", "USD", "none")
    assert cheapest(skills="t") == ("a", "20", "USD", "P1M"), "less a day than 2.5 an hour"
    assert cheapest(price_currency="BSV") == ("b", "0.5", "BSV", "none")
    assert cheapest(currencies="USD", intervals="P1M") == ("a", "20", "USD", "P1M")
    assert cheapest(min_price="3") == ("a", "20", "USD", "P1M")
    assert cheapest(max_price="1") == ("b", "0.5", "BSV", "none")
    assert cheapest(price_currency="EUR") is None
    assert cheapest(sort="price", skills="t") == ("d", "2.5", "USD", "PT1H"), "as amounts"


def test_orders_other_than_relevance_go_by_how_many_words_a_listing_has(engine: SearchIndex) -> None:
    texts = {
        "all": "translate german contracts",
        "two": "translate german",
        "other": "german contracts",
        "one": "contracts",
    }
    put(
        engine,
        *(listing(id_, description=text, offers=[price(str(9 - n))]) for n, (id_, text) in enumerate(texts.items())),
    )
    sentence = "translate german contracts"
    assert ids(ask(engine, text=sentence, sort="price")) == ["all", "other", "two", "one"]
    assert ids(ask(engine, text=sentence, sort="price", descending=True)) == ["all", "two", "other", "one"]
    assert ids(ask(engine, text=sentence, sort="name")) == ["all", "other", "two", "one"]
    tiers = {hit.id: hit.sort_key[0] for hit in ask(engine, text=sentence, sort="price").hits}
    assert tiers == {"all": 0, "other": 1, "two": 1, "one": 2}
    whole = ask(engine, text=sentence, sort="price", all_words=True)
    assert (ids(whole), whole.total, whole.matched) == (["all"], 1, 1)
    assert ids(ask(engine, text=sentence, all_words=True)) == ["all"]
    after = ask(engine, text=sentence, sort="price", limit=2).hits[-1].sort_key
    assert ids(ask(engine, text=sentence, sort="price", after=after)) == ["two", "one"]


def test_prices_are_compared_in_the_currency_of_most_offers(engine: SearchIndex) -> None:
    mixed = [
        price("11.32", "BSV", id="a"),
        price("0.05", id="b"),
        price("0.03984", id="c"),
        price("9", "ETH", "P1D", id="d"),
    ]
    put(engine, listing("1", offers=mixed), listing("2", offers=[price("7", "BSV"), price("4", "USD", "P1M")]))
    hits = {hit.id: hit.cheapest for hit in ask(engine, sort="updated").hits}
    assert hits["1"]
    assert (hits["1"].offer_id, hits["1"].others) == ("c", ("BSV", "ETH"))
    assert ids(ask(engine, sort="price")) == ["2", "1"], "7 BSV, then 0.03984 USD"
    assert ids(ask(engine, sort="price", descending=True)) == ["1", "2"]
    (first, _) = ask(engine, sort="price", price_currency="ETH", rates={"USD": Decimal(2)}).hits
    assert first.cheapest
    assert (first.cheapest.offer_id, first.cheapest.others) == ("c", ("BSV",))


def test_amounts_that_differ_in_the_ninetieth_digit_are_distinguished(engine: SearchIndex) -> None:
    less, more = "0." + "1" * 89 + "1", "0." + "1" * 89 + "2"
    put(engine, listing("1", offers=[price(less, id="x")]), listing("2", offers=[price(more, id="x")]))
    assert matching_ids(engine, max_price=less) == {"1"}
    assert matching_ids(engine, min_price=more) == {"2"}
    assert matching_ids(engine, min_price=less, max_price=more, price_currency="USD") == {"1", "2"}
    assert ids(ask(engine, sort="price")) == ["1", "2"]
    assert ids(ask(engine, sort="price", descending=True)) == ["2", "1"]


def test_amounts_from_the_smallest_to_the_largest_are_ordered_and_bounded(engine: SearchIndex) -> None:
    amounts = ["0", "1e-400", "1.5e-400", "1e-8", "1", "1.00000000000000001", "2", "9e399", "9.9e400"]
    put(engine, *(listing(str(number), offers=[price(item, id="x")]) for number, item in enumerate(amounts)))
    assert ids(ask(engine, sort="price")) == [str(number) for number in range(len(amounts))]
    for index, amount in enumerate(amounts):
        assert matching_ids(engine, max_price=amount) == {str(below) for below in range(index + 1)}
        assert matching_ids(engine, min_price=amount, currencies="USD") == {
            str(above) for above in range(index, len(amounts))
        }
    assert matching_ids(engine, max_price="1e499") == {str(number) for number in range(len(amounts))}


def test_each_filter_leaves_what_meets_it(engine: SearchIndex) -> None:
    put(
        engine,
        listing("1", kind="tool", owner="bob", domain="a.example", verified=True, tags=("Straße",), height=10),
        listing("2", chain="ltc", caip2="bip122:12a7", height=20),
        listing("3", skills=(Skill("s", "S", "", ("Deep",)),), height=30),
        listing("4", height=None, status="pending"),
        listing("5", status="burned", height=40),
    )
    assert matching_ids(engine) == {"1", "2", "3", "4"}
    assert matching_ids(engine, kind="tool") == {"1"}
    assert matching_ids(engine, kind="agent") == {"2", "3", "4"}
    assert matching_ids(engine, owners=("bob", "eve")) == {"1"}
    assert matching_ids(engine, domains="a.example") == matching_ids(engine, verified=True) == {"1"}
    assert matching_ids(engine, verified=False) == {"2", "3", "4"}
    assert matching_ids(engine, tags="strasse") == {"1"}
    assert matching_ids(engine, tags=("deep", "x")) == {"3"}
    assert matching_ids(engine, chains="ltc") == matching_ids(engine, chains="bip122:12a7") == {"2"}
    assert matching_ids(engine, statuses="burned") == {"5"}
    assert matching_ids(engine, statuses=("live", "burned")) == {"1", "2", "3", "5"}
    assert matching_ids(engine, statuses=()) == {"1", "2", "3", "4", "5"}
    assert matching_ids(engine, height_chain="bsv", from_height=10, to_height=30) == {"1", "3"}
    assert matching_ids(engine, height_chain="bsv:mainnet", from_height=11) == {"3"}
    assert matching_ids(engine, height_chain="ltc", to_height=20) == {"2"}
    assert matching_ids(engine, updated_since=1_700_000_000 + 600 * 20) == {"2", "3"}


def put_versions(engine: SearchIndex) -> None:
    put(engine, *versions())


def versions() -> Iterator[Document]:
    yield listing("1", "First alpha", height=10, until_height=20, said="old")
    yield listing("1", "Second alpha", height=20, said="new", created_height=10)
    yield listing("2", "Burned alpha", height=15, until_height=25, said="lived")
    yield listing("2", "Burned alpha", height=25, status="burned", said="burned")
    yield listing("3", "Pending alpha", height=None, status="pending")
    yield listing("4", "Elsewhere alpha", height=12, chain="ltc", caip2="bip122:12a7")


@pytest.mark.parametrize(
    ("height", "message"),
    [(9, {}), (10, {"1": "old"}), (15, {"1": "old", "2": "lived"}), (19, {"1": "old", "2": "lived"}),
     (20, {"1": "new", "2": "lived"}), (24, {"1": "new", "2": "lived"}), (25, {"1": "new"}), (10**6, {"1": "new"})],
)  # fmt: skip
@pytest.mark.parametrize("text", ["", "alpha", "alhpa"])
def test_the_registry_is_shown_as_it_stood(filled: Filled, height: int, message: dict[str, str], text: str) -> None:
    hits = ask(filled(put_versions), text, as_of=height, height_chain="bsv").hits
    assert {hit.id: bytes(hit.item).decode().split('"said": "')[1][:-2] for hit in hits} == message


def test_what_was_superseded_is_found_at_its_height_only(engine: SearchIndex) -> None:
    put(engine, *versions())
    assert matching_ids(engine, "first") == set()
    assert matching_ids(engine, "second") == {"1"}
    assert matching_ids(engine, "first", as_of=10, height_chain="bsv") == {"1"}
    assert matching_ids(engine, as_of=30, height_chain="bsv", statuses="burned") == {"2"}
    assert count(engine) == 3
    assert b'"said": "new"' in (engine.get("1") or b"")
    assert b'"said": "burned"' in (engine.get("2") or b"")


def test_the_oldest_text_ranks_first_of_equals_and_without_words_the_latest_update(engine: SearchIndex) -> None:
    same = [listing(id_, "Twins", height=5) for id_ in ("b", "a", "c")]
    put(
        engine,
        *same,
        listing("z", "Twins", height=9),
        listing("y", "Twins", height=None),
        listing("0", "Twins", height=4),
    )
    order = ["y", "z", "a", "b", "c", "0"]
    senior = ["0", "a", "b", "c", "z", "y"]
    for text in ("twins", "twin", "twnis", "twi"):
        assert ids(ask(engine, text)) == senior
        assert ids(ask(engine, text, descending=False)) == senior[::-1]
    assert ids(ask(engine)) == order
    assert ids(ask(engine, descending=False)) == order[::-1]
    for sort in ("updated", "created"):
        assert ids(ask(engine, sort=sort)) == order
        assert ids(ask(engine, sort=sort, descending=False)) == order[::-1]
    assert ids(ask(engine, sort="name")) == ["0", "a", "b", "c", "y", "z"]
    assert ids(ask(engine, sort="name", descending=True)) == ["z", "y", "c", "b", "a", "0"]


def test_ratings_are_ordered_and_the_unrated_come_last_either_way(engine: SearchIndex) -> None:
    scores = {"1": 0, "2": None, "3": 999, "4": 400, "5": 400, "6": None}
    put(engine, *(listing(id_, "echo", rating=score) for id_, score in scores.items()))
    for text in ("", "echo"):
        assert ids(ask(engine, text, sort="rating")) == ["3", "5", "4", "1", "6", "2"]
        assert ids(ask(engine, text, sort="rating", descending=False)) == ["1", "4", "5", "3", "2", "6"]


def test_names_are_ordered_without_regard_to_case_accents_and_width(engine: SearchIndex) -> None:
    put(engine, *(listing(id_, name) for id_, name in (("1", "émile"), ("2", "Zoe"), ("3", "ＡＤＡ"), ("4", "Emil"))))
    assert ids(ask(engine, sort="name")) == ["3", "4", "1", "2"]


def test_prices_are_ordered_within_their_currency_and_the_unpriced_stand_last_either_way(engine: SearchIndex) -> None:
    put(
        engine,
        listing("1", offers=[price("2")]),
        listing("2", offers=[price("10")]),
        listing("3"),
        listing("4", offers=[price("1"), price("0.1", "BSV")]),
        listing("5", offers=[price("3", "BSV")]),
        listing("6", offers=[price("2.0")]),
        listing("7"),
    )
    assert ids(ask(engine, sort="price")) == ["5", "4", "1", "6", "2", "3", "7"]
    assert ids(ask(engine, sort="price", descending=True)) == ["2", "6", "1", "4", "5", "7", "3"]
    assert ids(ask(engine, sort="price", price_currency="BSV")) == ["4", "5", "1", "2", "3", "6", "7"]
    assert ids(ask(engine, sort="price", currencies="USD", max_price="2", price_currency="USD")) == ["4", "1", "6"]


def test_a_limit_of_nothing_still_counts(engine: SearchIndex) -> None:
    put(engine, listing("1", "alpha"), listing("2", "alpha"))
    hits = ask(engine, "alpha", limit=0, facets="type")
    assert (hits.hits, hits.total, hits.facets) == ((), 2, {"type": (("agent", 2),)})
    assert ids(ask(engine, "alpha", offset=10_000)) == []
    assert ask(engine, "alpha", offset=10_000).total == 2


def test_facets_count_listings_of_the_set_that_was_ranked(engine: SearchIndex) -> None:
    skills = (Skill("s", "S", "", ("deep", "Wide")), Skill("t"))
    offers = [price("1", "USD", "P1M", "BSV", skills=["s"]), price("2", "USD", "month", skills=["u"])]
    put(
        engine,
        listing("1", "alpha beta", kind="tool", skills=skills, tags=("wide", "a"), offers=offers),
        listing("2", "alpha", chain="ltc", caip2="bip122:12a7", status="pending", tags=("WIDE",)),
        listing("3", "beta", tags=("never",)),
    )
    facets = ("type", "skillId", "acceptedCurrency", "interval", "tag", "chain", "status")
    assert ask(engine, "alpha", facets=facets).facets == {
        "type": ranked(("agent", 1), ("tool", 1)),
        "skillId": ranked(("s", 1), ("t", 1), ("u", 1)),
        "acceptedCurrency": ranked(("BSV", 1), ("USD", 1)),
        "interval": (("P1M", 1),),
        "tag": ranked(("wide", 2), ("a", 1), ("deep", 1)),
        "chain": ranked(("bsv", 1), ("ltc", 1)),
        "status": ranked(("live", 1), ("pending", 1)),
    }
    assert ask(engine, "alpha beta", facets="type").facets == {"type": (("agent", 2), ("tool", 1))}
    assert ask(engine, "zzz", facets=("type", "tag")).facets == {"type": (), "tag": ()}
    assert ask(engine, "alpha").facets is None


def test_of_many_values_the_fifty_commonest_are_counted(engine: SearchIndex) -> None:
    put(engine, *(listing(str(index), tags=[f"t{number:02}" for number in range(index, 70)]) for index in range(3)))
    facets = ask(engine, facets="tag").facets
    assert facets is not None
    assert facets["tag"] == ranked(*((f"t{number:02}", 3) for number in range(2, 70)))[:50]


def test_an_earlier_price_of_a_listing_does_not_keep_it_from_a_long_bound(engine: SearchIndex) -> None:
    more, less = (price(f"1.{'1' * 20}{last}") for last in "91")
    earlier = listing("1", "alpha", height=1, until_height=2, offers=[more])
    put(engine, earlier, listing("1", "alpha", height=2, offers=[less]))
    assert matching_ids(engine, "alpha", max_price=f"1.{'1' * 20}5") == {"1"}
    assert matching_ids(engine, max_price=f"1.{'1' * 20}5") == {"1"}
    assert matching_ids(engine, "alpha", max_price=f"1.{'1' * 20}0") == set()


@pytest.mark.parametrize("sort", ["price", "price_per_day"])
def test_what_is_free_comes_first_where_currencies_are_not_compared(engine: SearchIndex, sort: str) -> None:
    put(
        engine,
        *(listing(f"{number}", offers=(price(amount, currency, "P1M"),)) for number, (amount, currency) in enumerate(
            [("3", "USD"), ("0", "USD"), ("1", "BSV"), ("0.00", "BSV"), ("2", "AAA")]
        )),
        listing("unpriced"),
    )  # fmt: skip
    assert ids(ask(engine, sort=sort)) == ["1", "3", "4", "2", "0", "unpriced"]
    assert ids(ask(engine, sort=sort, descending=True)) == ["0", "2", "4", "3", "1", "unpriced"]
    assert ids(ask(engine, sort=sort, price_currency="USD"))[:2] == ["1", "0"]


def test_prices_are_compared_per_day(engine: SearchIndex) -> None:
    put(
        engine,
        listing("year", offers=[price("100", interval="year")]),  # 0.27 a day
        listing("month", offers=[price("10", interval="month"), price("1", interval="day")]),  # 0.33 a day
        listing("week", offers=[price("2", interval="P1W"), price("0.1")]),  # 0.29 a day, or a call
        listing("call", offers=[price("0.01")]),
        listing("endless", offers=[price("0.01", interval="P0D")]),
        listing("free", offers=[price("0", interval="month")]),
        listing("none"),
    )
    per_day, unpriced = ["free", "year", "week", "month"], ["call", "endless", "none"]
    assert ids(ask(engine, sort="price_per_day")) == [*per_day, *unpriced]
    assert ids(ask(engine, sort="price_per_day", descending=True)) == [*per_day[::-1], *unpriced[::-1]]
    assert ids(ask(engine, sort="price")) == ["free", "call", "endless", "week", "month", "year", "none"]
    requests = ("P1M", "P1Y", "P1W")
    assert ids(ask(engine, sort="price", intervals=requests)) == per_day
    assert ids(ask(engine, sort="price", intervals=(*requests, "none"))) == [*per_day, "call"]
    assert ids(ask(engine, sort="price", intervals="none")) == ["call", "week"]
    cheapest = {hit.id: hit.cheapest and hit.cheapest.offer_id for hit in ask(engine, sort="price_per_day").hits}
    assert cheapest["week"] == "2 USD P1W", "the one that is compared"
    assert cheapest["month"] == "10 USD month"
    assert cheapest["call"] == "0.01 USD None"


def test_prices_per_day_are_compared_by_currency_or_converted(engine: SearchIndex) -> None:
    put(
        engine,
        listing("1", offers=[price("30", "USD", "month")]),
        listing("2", offers=[price("1", "BSV", "day")]),
        listing("3", offers=[price("9", "JPY", "day")]),
        listing("4", offers=[price("1", "USD"), price("8", "BSV", "P1W")]),
    )
    assert ids(ask(engine, sort="price_per_day")) == ["2", "4", "3", "1"]
    rates = {"BSV": Decimal(20)}
    assert ids(ask(engine, sort="price_per_day", price_currency="USD", rates=rates)) == ["1", "2", "4", "3"]
    (bound,) = ask(engine, sort="price_per_day", price_currency="USD", max_price="20", rates=rates).hits[:1]
    assert bound.id == "2", "bounds are of amounts"
