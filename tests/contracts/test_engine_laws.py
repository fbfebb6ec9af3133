"""Whatever is listed and whatever is asked, all engines answer alike, and as the oracle says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.answers.items import HEALTH
from overlay.engines import ENGINES, IndexPosition
from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from overlay.search.query import FACETS, SORTS, Hit, Hits, Operators, Query
from overlay.search.stop_words import GENERIC, stop_words
from parsers.cards import Skill
from parsers.cards.intervals import interval_key
from parsers.cards.offers import Offer
from parsers.cards.usage import ACCESS, AUTH, LAUNCHERS, PROTOCOLS, TRANSPORTS, UNSTATED, Usage
from tests.contracts.listed import EPOCH, listing, price
from tests.opensearch_server import index_url
from tests.oracles.search import (
    Oracle,
    Words,
    cheapest,
    has_word,
    meets_filters,
    ordered,
    plain_words,
    price_of,
)

pytestmark = pytest.mark.timeout(1_200)  # three engines answer hundreds of queries; others may use the machine

PLAIN = ["orchid", "walnut", "quartz", "comet", "Lantern", "zephyr", "HARBOR", "velvet"]
"""Words that mean themselves and nothing else: none is a form, a part, a beginning or a misspelling of another, or of a
word in `ODD_WORDS`."""
ODD_WORDS = [
    "payment", "payments", "paymant", "pay", "gateway", "translation", "translations", "transaltion", "getDexChart",
    "dex", "chart", "web_search", "web-searches", "search", "node.js", "USDCX", "b08538c9", "支付网关", "网关",
    "翻訳サービス", "번역", "платежи", "платеж", "ترجمة", "ＦＵＬＬ", "café", "cafe", "Straße", "deadbeef", "a", "of",
    "x1", "'s", "Q&A", "C++", "OR", "server",
]  # fmt: skip
TYPOS = ["paymnet", "gatewya", "tarnslatoin", "trasnlation", "serach", "chrat", "getDexChrat", "websearch", "плаетжи",
         "pa"]  # fmt: skip
SKILLS = ["a", "b", "getDexChart", "s:1"]
CURRENCIES = ["USD", "BSV", "ODD1", "ODD"]
INTERVALS = [None, "month", "P1M", "P1D", "P7D", "PT1H", "P0D", "every|2nd"]
TAGS = ["pay", "Deep", "支付", "ß"]
AMOUNTS = ["0", "1e-400", "0.5", "1", "1.00", "2", "1" * 90, "1" * 89 + "2", "9.99e400"]
BOUNDS = [*AMOUNTS, "1e450", "0.1", "10"]
CHAINS = [("bsv", "bsv:mainnet"), ("ltc", "bip122:12a7")]

offers = st.builds(
    lambda amount, currency, interval, others, named, address: price(
        amount,
        currency,
        interval,
        *(other for other in dict.fromkeys(others) if other != currency),
        skills=named,
        address=address,
    ),
    st.sampled_from(AMOUNTS),
    st.sampled_from(CURRENCIES),
    st.sampled_from(INTERVALS),
    st.lists(st.sampled_from(CURRENCIES), max_size=2),
    st.none() | st.lists(st.sampled_from([*SKILLS, "other"]), max_size=2, unique=True),
    st.sampled_from(["", "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"]),
)
heights = st.none() | st.integers(1, 4)
usages = st.just(UNSTATED) | st.builds(
    Usage,
    *(
        st.lists(st.sampled_from(values), max_size=2, unique=True).map(tuple)
        for values in (ACCESS, TRANSPORTS[:3], AUTH[:3], PROTOCOLS, LAUNCHERS[:2])
    ),
    st.sampled_from([None, True, False]),
    st.sampled_from([None, True, False]),
)


def texts(words: Sequence[str], most: int = 6) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(words), max_size=most).map(" ".join)


def skills(words: Sequence[str]) -> st.SearchStrategy[Skill]:
    return st.builds(
        lambda id_, name, tags, text: Skill(id_, name, text, tuple(tags), (text,)),
        st.sampled_from(SKILLS),
        st.sampled_from(["", *words]),
        st.lists(st.sampled_from(TAGS), max_size=2),
        texts(words),
    )


@st.composite
def registrations(draw: st.DrawFn, id_: str, words: Sequence[str]) -> list[Document]:
    """The documents of a registration: one or two listings, now and before."""
    chain, caip2 = draw(st.sampled_from(CHAINS))
    documents = []
    for key in draw(st.sampled_from([("",), ("",), ("",), ("#a", "#b")])):
        times: list[int | None] = [1, *draw(st.lists(st.integers(2, 4), max_size=2, unique=True).map(sorted))]
        for since, until in pairwise([*times, None]):
            documents.append(draw(_documents(id_ + key, words, since, until, chain, caip2)))
        if draw(st.integers(0, 5)) == 0:
            documents[-1] = draw(_documents(id_ + key, words, None, None, chain, caip2))
    return documents


@st.composite
def _documents(
    draw: st.DrawFn, id_: str, words: Sequence[str], since: int | None, until: int | None, chain: str, caip2: str
) -> Document:
    priced = draw(st.lists(offers, max_size=4))
    return listing(
        id_,
        draw(texts(words)),
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
        more_facts=draw(
            st.sampled_from(
                [
                    (),
                    ("flagged",),
                    ("run:quartz",),
                    ("deprecated",),
                    ("runnable", "for_sale", "customers:3", "reachable"),
                    ("customers:256",),
                ]
            )
        ),
        health=draw(st.sampled_from(["", "", *HEALTH[:3]])),
        notice_time=draw(st.sampled_from([None, None, None, 3, 5])),
        usage=draw(usages),
        rating=draw(st.sampled_from([None, None, 0, 400, 1_000])),
        description=draw(texts(words)),
        tags=tuple(draw(st.lists(st.sampled_from(TAGS), max_size=2, unique=True))),
        words=tuple(draw(st.lists(st.sampled_from(words), max_size=1))),
        skills=draw(st.lists(skills(words), max_size=3, unique_by=lambda skill: skill.id)),
        offers=[replace(offer, number=number, id=f"o{number}") for number, offer in enumerate(priced)],
    )


Change = tuple[str, list[Document]]


def histories(words: Sequence[str]) -> st.SearchStrategy[list[Change]]:
    """Changes of up to eight registrations whose texts are of these words."""
    changes = st.sampled_from("abcdefgh").flatmap(
        lambda id_: st.tuples(st.just(id_), st.just([]) | registrations(id_, words) | registrations(id_, words))
    )
    return st.lists(changes, max_size=10)


def some(values: Sequence[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.just(()) | st.just(()) | st.lists(st.sampled_from(values), max_size=2, unique=True).map(tuple)


sometimes_price = st.none() | st.none() | st.sampled_from(BOUNDS).map(Decimal)
sometimes_height = st.none() | st.none() | st.integers(0, 5)
RATES = [Decimal(text) for text in ("0.02", "50", "1", "1.00000000001", "0.333333333333", "1e-60", "1e60")]
filters = st.builds(
    Query()._replace,
    kind=st.sampled_from([None, None, "agent", "tool"]),
    skills=some(SKILLS),
    currencies=some(CURRENCIES),
    intervals=some([interval_key(interval) for interval in INTERVALS]),
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
    flagged=st.sampled_from([None, None, None, True, False]),
    deprecated=st.sampled_from([None, None, None, True, False]),
    access=some(ACCESS),
    transports=some(TRANSPORTS[:3]),
    auth=some(AUTH[:3]),
    protocols=some(PROTOCOLS),
    launchers=some(LAUNCHERS[:2]),
    streaming=st.sampled_from([None, None, None, True, False]),
    has_price=st.sampled_from([None, None, None, True, False]),
    free=st.sampled_from([None, None, None, True, False]),
    payable=st.sampled_from([None, None, None, True, False]),
    min_customers=st.sampled_from([None, None, None, 1, 3, 4, 256]),
    for_sale=st.sampled_from([None, None, None, True, False]),
    reachable=st.sampled_from([None, None, None, True, False]),
    health=some(HEALTH[:3]),
    runnable=st.sampled_from([None, None, None, True, False]),
    height_chain=st.sampled_from(["bsv", "bsv:mainnet", "ltc"]),
    from_height=sometimes_height,
    to_height=sometimes_height,
    as_of=sometimes_height,
    updated_since=sometimes_height,
    sort=st.sampled_from(SORTS),
    calls=st.sampled_from([Decimal("36524.25"), Decimal(1), Decimal("0.1")]),
    descending=st.sampled_from([None, True, False]),
    limit=st.just(1000),
    facets=st.just(FACETS),
)


@st.composite
def _with_rates(draw: st.DrawFn) -> Query:
    """Queries whose prices are in a currency that some of the others are quoted in."""
    query = draw(filters)
    into = draw(st.sampled_from(CURRENCIES)) if query.price_currency is None else query.price_currency
    others = [currency for currency in (*CURRENCIES, "EUR") if currency != into]
    return query._replace(
        price_currency=into, rates=draw(st.dictionaries(st.sampled_from(others), st.sampled_from(RATES)))
    )


def queries(question: st.SearchStrategy[str], phrases: Sequence[str]) -> st.SearchStrategy[Query]:
    """Queries with these texts and phrases; every other one has words alone, as most in practice."""
    operators = st.builds(
        Operators,
        phrases=some(phrases),
        excluded=some(phrases),
        not_tags=some([tag.casefold() for tag in TAGS]),
        not_owners=some(["alice", "eve"]),
        not_skills=some(SKILLS),
    )
    filtered = st.builds(
        lambda query, text, more: query._replace(text=text, operators=more),
        filters | _with_rates(),
        question,
        st.none() | st.none() | operators,
    )
    facets = st.sampled_from([(), FACETS])
    return filtered | st.builds(lambda text, facets: Query(text=text, limit=1000, facets=facets), question, facets)


with_or = st.lists(st.sampled_from(PLAIN), min_size=2, max_size=4, unique_by=str.lower).map(
    lambda words: " ".join([" OR ".join(words[:2]), *words[2:]])
)
plain_queries = queries(texts(PLAIN, 3) | with_or, ["orchid walnut", "walnut orchid", "quartz", "lantern"])
odd_queries = queries(
    texts(ODD_WORDS + TYPOS, 5) | st.text(max_size=12),
    ["payment gateway", "web search", "search", "dex chart", "支", "网 关", "b08538c9", "websearch", "cafe"],
)


@contextmanager
def opened(paths: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[list[SearchIndex]]:
    """A new index of every kind."""
    with ExitStack() as stack:
        indexes = [SearchIndex(index_url(request, name, paths.mktemp(name))) for name in ENGINES]
        for index in indexes:
            stack.callback(index.close)
        yield indexes


@pytest.fixture(scope="module")
def engines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SearchIndex]]:
    """All engines; the default is the first."""
    with opened(tmp_path_factory, request) as indexes:
        assert indexes[0].name == "native"
        yield indexes


def index_all(engines: list[SearchIndex], history: list[Change]) -> Oracle:
    """Let all engines, and the oracle, live through the same changes, in several commits."""
    oracle = Oracle()
    for engine in engines:
        engine.clear()
    commits = [dict(history[start : start + 3]) for start in range(0, len(history), 3)]
    for seq, commit in enumerate(commits, 1):
        documents = [document for newest in commit.values() for document in newest]
        oracle.replace(commit, documents)
        for engine in engines:
            engine.replace(list(commit), documents, IndexPosition(EPOCH, seq))
    return oracle


@settings(max_examples=30, deadline=None)
@given(histories(PLAIN), st.lists(plain_queries, min_size=4, max_size=10))
def test_engines_answer_as_the_oracle(
    engines: list[SearchIndex], history: list[Change], questions: list[Query]
) -> None:
    oracle = index_all(engines, history)
    for query in questions:
        words = plain_words(query.text)
        expected = expect(query, oracle, words)
        for engine in engines:
            check(engine.search(query), query, oracle, words, expected)


@settings(max_examples=20, deadline=None)
@given(histories(ODD_WORDS), st.lists(odd_queries, min_size=4, max_size=10))
def test_engines_answer_alike_whatever_the_words(
    engines: list[SearchIndex], history: list[Change], questions: list[Query]
) -> None:
    oracle = index_all(engines, history)
    for query in questions:
        first, *others = [engine.search(query) for engine in engines]
        check_admitted(first, query, oracle)
        for hits in others:
            assert comparable(hits, query) == comparable(first, query)
            assert hits.plan == first.plan


def comparable(hits: Hits, query: Query) -> object:
    """The part of an answer that is the same for all engines: everything but the order by relevance, which is each
    engine's own."""
    rows = [(hit.id, hit.item, hit.cheapest) for hit in hits.hits]
    is_ranked = query.sort == "relevance" and bool(query.text.strip())
    return sorted(rows) if is_ranked else rows, hits.total, hits.matched, hits.at_least, hits.facets


def check_admitted(hits: Hits, query: Query, oracle: Oracle) -> None:
    """Every hit meets all filters, and every listing that does, and has a word exactly as it was typed, is a hit; of
    other words, stop words make none, and generic words only where there is nothing else."""
    admitted = {document.id: document for document in oracle.documents if meets_filters_but_phrases(document, query)}
    ids = {hit.id for hit in hits.hits}
    assert ids <= set(admitted)
    assert all(hit.item == admitted[hit.id].item for hit in hits.hits)
    if not (query.operators and (query.operators.phrases or query.operators.excluded)):
        words = plain_words(query.text)
        stop = stop_words(words) - names_in_capitals(query.text)
        content = [word for word in words if word not in stop]
        content = [word for word in content if word not in GENERIC] or content or words
        assert {id_ for id_, document in admitted.items() if content and has_word(document, content)} <= ids


def names_in_capitals(text: str) -> set[str]:
    """The words in capitals of a text that is not all in capitals: names, even where they are function words, as an
    `OR` with nothing beside it."""
    if text.isupper():
        return set()
    return {word.lower() for word in text.replace(" OR ", " ").split() if len(word) > 1 and word.isupper()}


def meets_filters_but_phrases(document: Document, query: Query) -> bool:
    """Phrases of such words are for the engines to compare."""
    operators = query.operators and replace(query.operators, phrases=(), excluded=())
    return meets_filters(document, query._replace(operators=operators))


def is_reordered(documents: Iterable[Document]) -> bool:
    """Whether so many results are of one source that some may come after others with lower scores."""
    counts = Counter(document.source for document in documents if document.source)
    return any(count > 3 for count in counts.values())


class Expected(NamedTuple):
    """The oracle's answer to a query: it takes longer than those of all engines, and is worked out once."""

    documents: dict[str, Document]
    matched: int
    facets: dict[str, tuple[tuple[str, int], ...]] | None
    cheapest: dict[str, Offer | None]
    order: list[str]


def expect(query: Query, oracle: Oracle, words: Words) -> Expected:
    """The oracle's answer, for the words that the text means."""
    documents = {document.id: document for document in oracle.results(query, words)}
    return Expected(
        documents,
        oracle.matched(query, words),
        oracle.facets(query, words),
        {id_: cheapest(document, query) for id_, document in documents.items()},
        ordered(list(documents.values()), query, words),
    )


def check(hits: Hits, query: Query, oracle: Oracle, words: Words, expected: Expected) -> None:
    """Hold an answer against the oracle's."""
    if hits.phrases_dropped:
        assert not expected.documents  # or the phrases would count
        query = query._replace(operators=query.operators and replace(query.operators, phrases=()))
        expected = expect(query, oracle, words)
    documents = expected.documents
    assert {hit.id for hit in hits.hits} == set(documents)
    assert (hits.total, hits.at_least, len(hits.hits)) == (len(documents), False, len(documents))
    assert hits.matched == expected.matched
    assert hits.facets == expected.facets
    for hit in hits.hits:
        assert hit.item == documents[hit.id].item
        check_cheapest(hit, expected.cheapest[hit.id], query)
    if query.sort == "relevance" and words:
        scores = [hit.score for hit in hits.hits]
        if not is_reordered(documents.values()):
            assert scores == sorted(scores, reverse=query.descending is not False)
        assert all(score > 0 for score in scores)
    else:
        assert [hit.id for hit in hits.hits] == expected.order


def check_cheapest(hit: Hit, offer: Offer | None, query: Query) -> None:
    if offer is None:
        assert hit.cheapest is None
        return
    assert hit.cheapest is not None
    answered = (hit.cheapest.offer_id, Decimal(hit.cheapest.amount), hit.cheapest.currency, hit.cheapest.interval)
    assert answered == (offer.id, offer.amount, offer.currency, offer.interval_key)
    assert "e" not in hit.cheapest.amount.lower()
    if query.price_currency in (None, offer.currency):
        assert hit.cheapest.converted is None
        return
    assert hit.cheapest.converted is not None
    amount, currency = hit.cheapest.converted
    assert (Fraction(amount), currency) == (price_of(offer, query), query.price_currency)
    assert query.max_price is None or Decimal(amount) <= query.max_price
    assert query.min_price is None or Decimal(amount) >= query.min_price


@settings(max_examples=30, deadline=None)
@given(
    histories(ODD_WORDS),
    st.lists(st.tuples(odd_queries, st.integers(1, 4), st.integers(0, 5)), min_size=2, max_size=6),
)
def test_a_page_is_a_part_of_the_whole_on_every_engine(
    engines: list[SearchIndex], history: list[Change], questions: list[tuple[Query, int, int]]
) -> None:
    index_all(engines, history)
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
            if query.sort != "relevance" or not query.text.strip():
                assert engine.search(after._replace(offset=0)).hits == whole[offset + 1 :][:limit]


Ties = tuple[list[SearchIndex], Oracle]
CONVERTED = {"price_currency": "USD", "rates": {"BSV": Decimal(2), "EUR": Decimal(1)}, "min_price": Decimal("0.5")}


@pytest.fixture(scope="module")
def ties(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ties]:
    """Many listings that are all but equal, so that pages begin and end amid ties."""
    documents = [
        listing(
            f"{number * 7919 % 1000:03}",
            ("alpha", "alpha beta", "beta alpha", "gamma")[number % 4],
            height=None if number % 11 == 0 else number % 3,
            created_height=number % 2,
            offers=[price(AMOUNTS[number % 9], CURRENCIES[number % 3], INTERVALS[number % 8], id="o")]
            if number % 5
            else (),
            tags=(f"t{number % 60}",),
        )
        for number in range(250)
    ]
    with opened(tmp_path_factory, request) as indexes:
        for seq, start in enumerate(range(0, len(documents), 100)):
            for engine in indexes:
                engine.replace([], documents[start : start + 100], IndexPosition(EPOCH, seq))
        yield indexes, Oracle(documents)


@pytest.mark.parametrize("descending", [None, True, False])
@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize(
    ("text", "words", "narrow"),
    [
        ("", [], {}),
        ("", [], CONVERTED),
        ("alhpa", ["alpha"], {"max_price": Decimal(1)}),
        ("alhpa", ["alpha"], CONVERTED),
        ("beta gamma", ["beta", "gamma"], {}),
        ("beta gamma", ["beta", "gamma"], {"currencies": ("BSV",), "price_currency": "BSV"}),
    ],
)
def test_engines_agree_amid_ties(
    ties: Ties, sort: str, descending: bool | None, text: str, words: Words, narrow: dict[str, Any]
) -> None:
    engines, oracle = ties
    query = Query(text=text, sort=sort, descending=descending, limit=1000, facets=("tag", "acceptedCurrency"), **narrow)
    query = query._replace(calls=Decimal(3_652))
    expected = expect(query, oracle, words)
    for engine in engines:
        whole = engine.search(query)
        check(whole, query, oracle, words, expected)
        starts: tuple[int, ...] = (0, 5, 60, 128, whole.total - 3)
        for start in starts:
            part = query._replace(limit=9, offset=max(0, start))
            assert engine.search(part).hits == whole.hits[part.offset :][:9]
            last = part.offset % len(whole.hits)
            after = query._replace(limit=9, offset=last + 1, after=whole.hits[last].sort_key)
            assert engine.search(after).hits == whole.hits[last + 1 :][:9]


@settings(max_examples=12, deadline=None)
@given(histories(ODD_WORDS), st.sampled_from(ODD_WORDS + TYPOS) | st.text(max_size=3), st.integers(0, 5))
def test_an_index_that_has_changed_completes_as_one_just_built(
    engines: list[SearchIndex], history: list[Change], text: str, limit: int
) -> None:
    oracle = index_all(engines, history)
    before = [completed(engine, text) for engine in engines]
    for engine in engines:
        engine.clear()
        engine.replace([], oracle.documents, IndexPosition(EPOCH, 1))
    assert before == [completed(engine, text) for engine in engines]
    first, *others = [engine.suggest(text, limit) for engine in engines]
    assert len(first) <= limit
    assert all(other == first for other in others)


def completed(engine: SearchIndex, text: str) -> set[tuple[str, str, str | None]]:
    """All completions; of two spellings of a tag, whichever is commoner is shown."""
    return {(completion.text.casefold(), completion.kind, completion.id) for completion in engine.suggest(text, 1000)}
