"""Whatever is listed and whatever is asked, all engines answer alike, and as the oracle says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.document import Document
from overlay.engines import ENGINES, Cursor
from overlay.index import SearchIndex, open_index
from overlay.query import FACETS, SORTS, Hit, Hits, Operators, Query
from parsers.cards import Skill
from parsers.offers import interval_key
from tests.contracts.listed import EPOCH, listing, price
from tests.opensearch_server import index_url
from tests.oracles.search import Oracle, cheapest, ordered, price_of

WORDS = [
    "payment", "payments", "paymant", "pay", "gateway", "translation", "translations", "transaltion", "getDexChart",
    "dex", "chart", "web_search", "web-searches", "search", "node.js", "USDCX", "b08538c9", "支付网关", "网关",
    "翻訳サービス", "번역", "платежи", "платеж", "ترجمة", "ＦＵＬＬ", "café", "cafe", "Straße", "deadbeef", "a", "of",
    "x1", "'s", "Q&A", "C++",
]  # fmt: skip
TYPOS = ["paymnet", "gatewya", "tarnslatoin", "trasnlation", "serach", "chrat", "getDexChrat", "websearch", "плаетжи",
         "pa"]  # fmt: skip
SKILLS = ["a", "b", "getDexChart", "s:1"]
CURRENCIES = ["USD", "BSV", "ODD|1", "ODD"]
INTERVALS = [None, "month", "P1M", "P1D", "every|2nd"]
TAGS = ["pay", "Deep", "支付", "ß"]
AMOUNTS = ["0", "1e-400", "0.5", "1", "1.00", "2", "1" * 90, "1" * 89 + "2", "9.99e400"]
BOUNDS = [*AMOUNTS, "1e450", "0.1", "10"]

texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
skills = st.builds(
    lambda id_, name, tags, text: Skill(id_, name, text, tuple(tags), (text,)),
    st.sampled_from(SKILLS), st.sampled_from(["", *WORDS]), st.lists(st.sampled_from(TAGS), max_size=2), texts,
)  # fmt: skip
offers = st.builds(
    lambda amount, currency, interval, others, named: price(
        amount, currency, interval, *(each for each in dict.fromkeys(others) if each != currency), skills=named
    ),
    st.sampled_from(AMOUNTS),
    st.sampled_from(CURRENCIES),
    st.sampled_from(INTERVALS),
    st.lists(st.sampled_from(CURRENCIES), max_size=2),
    st.none() | st.lists(st.sampled_from([*SKILLS, "other"]), max_size=2, unique=True),
)
heights = st.none() | st.integers(1, 4)
CHAINS = [("bsv", "bsv:mainnet"), ("ltc", "bip122:12a7")]


@st.composite
def registrations(draw: st.DrawFn, id_: str) -> list[Document]:
    """The documents of a registration: one or two listings, now and before."""
    chain, caip2 = draw(st.sampled_from(CHAINS))
    found = []
    for key in draw(st.sampled_from([("",), ("",), ("",), ("#a", "#b")])):
        times: list[int | None] = [1, *draw(st.lists(st.integers(2, 4), max_size=2, unique=True).map(sorted))]
        for since, until in pairwise([*times, None]):
            found.append(draw(_documents(id_ + key, since, until, chain, caip2)))
        if draw(st.integers(0, 5)) == 0:
            found[-1] = draw(_documents(id_ + key, None, None, chain, caip2))
    return found


@st.composite
def _documents(draw: st.DrawFn, id_: str, since: int | None, until: int | None, chain: str, caip2: str) -> Document:
    priced = draw(st.lists(offers, max_size=4))
    return listing(
        id_,
        draw(texts),
        height=since,
        until_height=until,
        created_height=draw(heights),
        time=None if since is None else draw(st.integers(1, 3)),
        kind=draw(st.sampled_from(["agent", "tool"])),
        status=draw(st.sampled_from(["live", "live", "live", "pending", "burned"])),
        chain=chain,
        caip2=caip2,
        owner=draw(st.sampled_from(["alice", "bob"])),
        domain=draw(st.sampled_from(["", "a.example"])),
        verified=draw(st.booleans()),
        description=draw(texts),
        tags=tuple(draw(st.lists(st.sampled_from(TAGS), max_size=2, unique=True))),
        words=tuple(draw(st.lists(st.sampled_from(WORDS), max_size=1))),
        skills=draw(st.lists(skills, max_size=3, unique_by=lambda each: each.id)),
        offers=[replace(each, number=number, id=f"o{number}") for number, each in enumerate(priced)],
    )


Change = tuple[str, list[Document]]
changes = st.sampled_from("abcdefgh").flatmap(
    lambda id_: st.tuples(st.just(id_), st.just([]) | registrations(id_) | registrations(id_))
)


def some(values: Sequence[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.just(()) | st.just(()) | st.lists(st.sampled_from(values), max_size=2, unique=True).map(tuple)


asked = st.lists(st.sampled_from(WORDS + TYPOS), max_size=5).map(" ".join)
sometimes_price = st.none() | st.none() | st.sampled_from(BOUNDS).map(Decimal)
sometimes_height = st.none() | st.none() | st.integers(0, 5)
RATES = [Decimal(text) for text in ("0.02", "50", "1", "1.00000000001", "0.333333333333", "1e-60", "1e60")]
without_rates = st.builds(
    Query()._replace,
    text=asked | st.just("") | st.text(max_size=12),
    kind=st.sampled_from([None, None, "agent", "tool"]),
    skills=some(SKILLS),
    currencies=some(CURRENCIES),
    intervals=some([interval_key(each) for each in INTERVALS]),
    min_price=sometimes_price,
    max_price=sometimes_price,
    price_currency=st.none() | st.sampled_from(CURRENCIES),
    tags=some([tag.casefold() for tag in TAGS]),
    chains=some(["bsv", "bip122:12a7"]),
    domains=some(["a.example"]),
    owners=some(["alice", "eve"]),
    statuses=st.sampled_from(
        [("live", "pending"), ("live", "pending"), ("burned",), ("pending", "live", "burned"), ()]
    ),
    verified=st.sampled_from([None, None, None, True, False]),
    height_chain=st.sampled_from(["bsv", "bsv:mainnet", "ltc"]),
    from_height=sometimes_height,
    to_height=sometimes_height,
    as_of=sometimes_height,
    updated_since=sometimes_height,
    sort=st.sampled_from(SORTS),
    descending=st.sampled_from([None, True, False]),
    limit=st.just(1000),
    facets=st.just(FACETS),
)


@st.composite
def _with_rates(draw: st.DrawFn) -> Query:
    """Questions whose prices are in a currency that some of the others are quoted in."""
    query = draw(without_rates)
    into = draw(st.sampled_from(CURRENCIES)) if query.price_currency is None else query.price_currency
    others = [each for each in (*CURRENCIES, "EUR") if each != into]
    return query._replace(
        price_currency=into, rates=draw(st.dictionaries(st.sampled_from(others), st.sampled_from(RATES)))
    )


PHRASES = ["payment gateway", "web search", "search", "dex chart", "支", "网 关", "b08538c9"]
operators = st.builds(
    Operators,
    phrases=some(PHRASES),
    excluded=some([*PHRASES, "websearch", "cafe"]),
    not_tags=some([tag.casefold() for tag in TAGS]),
    not_owners=some(["alice", "eve"]),
    not_skills=some(SKILLS),
)
queries = st.builds(
    lambda query, more: query._replace(operators=more), without_rates | _with_rates(), st.none() | st.none() | operators
)
in_words = st.builds(
    lambda text, facets: Query(text=" ".join(text), limit=1000, facets=facets),
    st.lists(st.sampled_from(WORDS + TYPOS), min_size=1, max_size=2), st.sampled_from([(), FACETS]),
)  # fmt: skip
"""What is asked most: a word or two."""


@contextmanager
def opened(paths: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[list[SearchIndex]]:
    """A new index of every kind."""
    with ExitStack() as stack:
        made = [open_index(index_url(request, name, paths.mktemp(name))) for name in ENGINES]
        for each in made:
            stack.callback(each.close)
        yield made


@pytest.fixture(scope="module")
def engines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SearchIndex]]:
    """All engines; Tantivy is the first."""
    with opened(tmp_path_factory, request) as made:
        assert made[0].name == "tantivy"
        yield made


def hold(engines: list[SearchIndex], history: list[Change]) -> Oracle:
    """Let all engines, and the oracle, live through the same changes, in several commits."""
    oracle = Oracle()
    for engine in engines:
        engine.clear()
    for seq, together in enumerate((history[at : at + 3] for at in range(0, len(history), 3)), 1):
        newest = dict(together)
        documents = [document for each in newest.values() for document in each]
        oracle.replace(newest, documents)
        for engine in engines:
            engine.replace(list(newest), documents, Cursor(EPOCH, seq))
    return oracle


@settings(max_examples=80, deadline=None)
@given(st.lists(changes, max_size=10), st.lists(queries | in_words, min_size=4, max_size=10))
def test_engines_agree_with_each_other_and_with_the_oracle(
    engines: list[SearchIndex], history: list[Change], questions: list[Query]
) -> None:
    oracle = hold(engines, history)
    for query in questions:
        for engine in engines:
            check(engine.search(query), query, oracle)
        assert len({engine.plan(query.text) for engine in engines}) == 1


def check(hits: Hits, query: Query, oracle: Oracle) -> None:
    """Hold an answer against the oracle's."""
    expected = {document.id: document for document in oracle.found(query, hits.plan)}
    assert {hit.id for hit in hits.hits} == set(expected)
    assert (hits.total, hits.at_least, len(hits.hits)) == (len(expected), False, len(expected))
    assert hits.matched == oracle.matched(query, hits.plan)
    assert hits.facets == oracle.facets(query, hits.plan)
    for hit in hits.hits:
        assert hit.item == expected[hit.id].item
        check_cheapest(hit, expected[hit.id], query)
    if query.sort == "relevance" and query.text.strip():
        scores = [hit.score for hit in hits.hits]
        assert scores == sorted(scores, reverse=query.descending is not False)
        assert all(score > 0 for score in scores)
    else:
        assert [hit.id for hit in hits.hits] == ordered(list(expected.values()), query, hits.plan)


def check_cheapest(hit: Hit, document: Document, query: Query) -> None:
    offer = cheapest(document, query)
    if offer is None:
        assert hit.cheapest is None
        return
    assert hit.cheapest is not None
    told = (hit.cheapest.offer_id, Decimal(hit.cheapest.amount), hit.cheapest.currency, hit.cheapest.interval)
    assert told == (offer.id, offer.amount, offer.currency, offer.interval_key)
    assert "e" not in hit.cheapest.amount.lower()
    if query.price_currency in (None, offer.currency):
        assert hit.cheapest.converted is None
        return
    assert hit.cheapest.converted is not None
    amount, currency = hit.cheapest.converted
    assert (Fraction(amount), currency) == (price_of(offer, query), query.price_currency)
    assert query.max_price is None or Decimal(amount) <= query.max_price
    assert query.min_price is None or Decimal(amount) >= query.min_price


@settings(max_examples=40, deadline=None)
@given(
    st.lists(changes, min_size=3, max_size=8),
    st.lists(st.tuples(queries | in_words, st.integers(1, 4), st.integers(0, 5)), min_size=2, max_size=6),
)
def test_a_page_is_a_part_of_the_whole_on_every_engine(
    engines: list[SearchIndex], history: list[Change], questions: list[tuple[Query, int, int]]
) -> None:
    hold(engines, history)
    for query, limit, offset in questions:
        check_page(engines, query, limit, offset)


def check_page(engines: list[SearchIndex], query: Query, limit: int, offset: int) -> None:
    """Hold pages that begin at a number, or after a hit, against the whole answer."""
    for engine in engines:
        whole = engine.search(query).hits
        assert engine.search(query._replace(limit=limit, offset=offset)).hits == whole[offset : offset + limit]
        if offset < len(whole):
            after = query._replace(limit=limit, offset=offset + 1, after=whole[offset].sort_key)
            assert engine.search(after).hits == whole[offset + 1 :][:limit]
            if query.sort != "relevance":
                assert engine.search(after._replace(offset=0)).hits == whole[offset + 1 :][:limit]


Crowd = tuple[list[SearchIndex], Oracle]


@pytest.fixture(scope="module")
def crowd(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    """Many listings that are all but equal, so that pages begin and end amid ties."""
    documents = [
        listing(
            f"{number * 7919 % 1000:03}",
            ("alpha", "alpha beta", "beta alpha", "gamma")[number % 4],
            height=None if number % 11 == 0 else number % 3,
            created_height=number % 2,
            offers=[price(AMOUNTS[number % 9], CURRENCIES[number % 3], id="o")] if number % 5 else (),
            tags=(f"t{number % 60}",),
        )
        for number in range(250)
    ]
    with opened(tmp_path_factory, request) as made:
        for seq, at in enumerate(range(0, len(documents), 100)):
            for engine in made:
                engine.replace([], documents[at : at + 100], Cursor(EPOCH, seq))
        yield made, Oracle(documents)


@pytest.mark.parametrize("descending", [None, True, False])
@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("text", ["", "alhpa", "beta gamma"])
@pytest.mark.parametrize(
    "narrow",
    [
        {},
        {"max_price": Decimal(1)},
        {"currencies": ("BSV",), "price_currency": "BSV"},
        {"price_currency": "USD", "rates": {"BSV": Decimal(2), "EUR": Decimal(1)}, "min_price": Decimal("0.5")},
    ],
)
def test_engines_agree_amid_ties(
    crowd: Crowd, sort: str, descending: bool | None, text: str, narrow: dict[str, Any]
) -> None:
    engines, oracle = crowd
    query = Query(text=text, sort=sort, descending=descending, limit=1000, facets=("tag", "acceptedCurrency"), **narrow)
    for engine in engines:
        whole = engine.search(query)
        check(whole, query, oracle)
        starts: tuple[int, ...] = (0, 5, 60, 128, whole.total - 3)
        for start in starts:
            part = query._replace(limit=9, offset=max(0, start))
            assert engine.search(part).hits == whole.hits[part.offset :][:9]
            last = part.offset % len(whole.hits)
            after = query._replace(limit=9, offset=last + 1, after=whole.hits[last].sort_key)
            assert engine.search(after).hits == whole.hits[last + 1 :][:9]


@settings(max_examples=30, deadline=None)
@given(st.lists(changes, max_size=8), st.sampled_from(WORDS + TYPOS) | st.text(max_size=3), st.integers(0, 5))
def test_an_index_with_a_past_completes_as_one_made_anew(
    engines: list[SearchIndex], history: list[Change], text: str, limit: int
) -> None:
    oracle = hold(engines, history)
    before = [completed(engine, text) for engine in engines]
    for engine in engines:
        engine.clear()
        engine.replace([], oracle.documents, Cursor(EPOCH, 1))
    assert before == [completed(engine, text) for engine in engines]
    first, *others = [engine.suggest(text, limit) for engine in engines]
    assert len(first) <= limit
    assert all(other == first for other in others)


def completed(engine: SearchIndex, text: str) -> set[tuple[str, str, str | None]]:
    """All completions; of two spellings of a tag, whichever is commoner is shown."""
    return {(each.text.casefold(), each.kind, each.id) for each in engine.suggest(text, 1000)}
