"""Postings in memory answer as the index does, hit by hit, whatever happened to it."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.api.asked import Asked
from overlay.api.page import page
from overlay.engines import Cursor
from overlay.engines.tantivy import TantivyEngine
from overlay.query import Hits, Query, Written
from overlay.search import listed, postings
from overlay.search.listed import Gathering, pack, unpack
from tests.contracts.listed import EPOCH, ask, found, ids, listing, price, put
from tests.contracts.test_engine_laws import Change, changes, check, hold, queries

plain = queries.map(
    lambda query: Query(
        **{name: getattr(query, name) for name in import_module("overlay.engines.tantivy.held")._TOLD}
        | {"statuses": ("live", "pending")}
    )
)


@pytest.fixture(autouse=True)
def look_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process' commit is to be seen at once."""
    monkeypatch.setattr("overlay.engines.tantivy._ONE_LOOK", 0.0)


def opened(path: Path, *, held: bool) -> TantivyEngine:
    engine = TantivyEngine(str(path))
    if held:
        engine.hold()
    return engine


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[TantivyEngine]]:
    """One that answers from its files alone, and one from memory."""
    made = [opened(tmp_path_factory.mktemp("index"), held=held) for held in (False, True)]
    yield made
    for each in made:
        each.close()


@pytest.fixture
def only_postings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing else answer."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("this question was put to the files")

    monkeypatch.setattr(import_module("overlay.engines.tantivy.search"), "_runs", refuse)


def told(query: Query, hits: Hits) -> bytes:
    """The page as it is sent, empty where none is asked for."""
    if not query.limit:
        return b""
    asked = Asked(query=query, kind="all", sort="relevance", position=query.offset, beyond=False, explain=False)
    return page(asked, hits, None, {}, None)


pages = st.tuples(st.integers(0, 4), st.integers(0, 5))


@settings(max_examples=100, deadline=None)
@given(st.lists(changes, max_size=12), st.lists(st.tuples(plain, pages), min_size=6, max_size=12))
def test_postings_answer_as_the_index_and_the_oracle_do_whole_and_by_the_page(
    pair: list[TantivyEngine], history: list[Change], questions: list[tuple[Query, tuple[int, int]]]
) -> None:
    oracle = hold(list(pair), history)
    files, memory = pair
    for query, (limit, offset) in questions:
        hits = memory.search(query)
        assert hits == files.search(query)
        assert told(query, hits) == told(query, files.search(query))
        check(replace(hits, facets=None), query, oracle)
        part = memory.search(one := query._replace(limit=limit, offset=offset))
        assert told(one, part) == told(one, files.search(one))
        assert (part.hits, part.total) == (hits.hits[offset : offset + limit], hits.total)


QUESTIONS: list[dict[str, Any]] = [
    {},
    {"text": "alpha"},
    {"text": "alhpa beta"},
    {"text": "beta alpha gamma one", "kind": "agent"},
    {"text": "alp", "tags": ("t1", "t2"), "offset": 5},
    {"currencies": ("USD",), "max_price": Decimal(1)},
    {"text": "beta", "currencies": ("USD", "BSV"), "intervals": ("P1M",)},
    {"price_currency": "USD", "rates": {"BSV": Decimal(50)}, "min_price": Decimal("0.5")},
    {"min_price": Decimal(1), "max_price": Decimal(2), "tags": ("t1",), "verified": True},
    {"skills": ("search",)},
    {"text": "nothing of the kind"},
    {"text": "!!"},
    {"text": "alpha", "limit": 0},
]


def crowd(count: int, start: int = 0) -> list[Any]:
    """Listings that tie in long rows."""
    return [
        listing(
            f"{number:05}", ("alpha", "alpha beta", "beta", "gamma one")[number % 4], time=number % 3, height=7,
            tags=(f"t{number % 4}",), skills=("search",) if number % 5 == 0 else (),
            offers=[price(str(number % 7), ("USD", "BSV")[number % 2], (None, "P1M")[number % 3 > 0])],
        )
        for number in range(start, start + count)
    ]  # fmt: skip


def agree(memory: TantivyEngine, files: TantivyEngine) -> None:
    for asked in QUESTIONS:
        query = Query(**asked)
        assert memory.search(query) == files.search(query), asked
        assert told(query, memory.search(query)) == told(query, files.search(query)), asked


@pytest.mark.usefixtures("only_postings")
@pytest.mark.parametrize("asked", QUESTIONS, ids=str)
def test_what_people_ask_for_needs_no_files(tmp_path: Path, asked: dict[str, Any]) -> None:
    engine = opened(tmp_path, held=True)
    put(engine, *crowd(40))
    assert engine.search(Query(**asked)).total == len(ids(engine.search(Query(**asked | {"limit": 100, "offset": 0}))))


@pytest.mark.parametrize(
    "asked",
    [{"sort": "name"}, {"facets": ("tag",)}, {"after": (-1, "x")}, {"as_of": 3, "height_chain": "bsv"},
     {"statuses": ("live",)}, {"from_height": 1, "height_chain": "bsv"}, {"updated_since": 1}, {"offset": 5_000},
     {"descending": False}, {"skills": ("search",), "currencies": ("USD",)},
     {"max_price": Decimal("1.0000000000001")}],
    ids=str,
)  # fmt: skip
def test_what_postings_do_not_tell_is_left_to_the_files(
    tmp_path: Path, asked: dict[str, Any], only_postings: None
) -> None:
    engine = opened(tmp_path, held=True)
    put(engine, *crowd(8))
    with pytest.raises(AssertionError, match="put to the files"):
        engine.search(Query(**asked))


def test_an_index_that_is_opened_again_holds_what_was_listed(tmp_path: Path) -> None:
    engine = opened(tmp_path, held=False)
    for seq, at in enumerate(range(0, 400, 50), 1):
        put(engine, *crowd(50, at), seq=seq)
    engine.replace([f"{number:05}" for number in range(0, 400, 3)], crowd(30, 120), Cursor(EPOCH, 99))
    files = opened(tmp_path, held=False)
    memory = opened(tmp_path, held=True)
    agree(memory, files)
    assert memory.search(Query(limit=0)).total == engine.count()


def test_another_process_commits_are_followed(tmp_path: Path) -> None:
    writing, reading = opened(tmp_path, held=False), opened(tmp_path, held=True)
    put(writing, *crowd(20))
    agree(reading, writing)
    put(writing, listing("00003", "delta"), seq=2)
    assert found(reading, "delta") == {"00003"}
    agree(reading, writing)
    writing.clear()
    assert found(reading) == set()
    put(writing, listing("1", "epsilon"), seq=1)
    assert found(reading, "epsilon") == {"1"}


def test_what_a_crash_left_in_the_log_is_written_over(tmp_path: Path) -> None:
    engine = opened(tmp_path, held=False)
    put(engine, *crowd(10))
    engine.close()
    with next(tmp_path.rglob("listed-*")).open("ab") as log:
        log.write(os.urandom(999))
    engine = opened(tmp_path, held=True)
    put(engine, listing("x", "delta"), seq=2)
    assert found(engine, "delta") == {"x"}
    agree(opened(tmp_path, held=True), opened(tmp_path, held=False))


@pytest.mark.parametrize("hurt", ["cut", "overwritten", "gone"])
def test_an_index_with_a_damaged_log_wants_a_rebuild(tmp_path: Path, hurt: str) -> None:
    engine = opened(tmp_path, held=False)
    put(engine, *crowd(10))
    engine.close()
    log = next(tmp_path.rglob("listed-*"))
    if hurt == "cut":
        os.truncate(log, log.stat().st_size - 9)
    elif hurt == "overwritten":
        log.write_bytes(bytes(log.stat().st_size))
    else:
        log.unlink()
    assert opened(tmp_path, held=False).cursor() == Cursor(EPOCH, 1)
    assert opened(tmp_path, held=True).cursor() is None


def test_more_postings_than_memory_is_for_leave_all_to_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(postings, "MOST", 50)
    engine = opened(tmp_path, held=True)
    put(engine, listing("1", "alpha"))
    put(engine, *crowd(30), seq=2)
    assert len(found(engine, "beta")) == 15
    assert "more than 50 postings are listed" in caplog.text


def test_many_small_commits_make_few_segments(tmp_path: Path) -> None:
    engine, files = opened(tmp_path, held=True), opened(tmp_path, held=False)
    chance, many = random.Random(5), crowd(60)
    for seq in range(120):
        put(engine, *chance.sample(many, 2), listing(f"z{seq}", "alpha"), seq=seq)
    held = engine._view.postings
    assert held is not None
    sizes = [segment.size for segment in held.segments]
    assert len(sizes) <= 8
    assert all(one > 3 * other for one, other in pairwise(sizes))
    assert held.listings == engine.count()
    agree(engine, files)


@pytest.mark.parametrize("text", ["", "alpha"])
def test_pages_begin_and_end_amid_ties_of_several_segments(tmp_path: Path, text: str) -> None:
    memory, files = opened(tmp_path, held=True), opened(tmp_path, held=False)
    put(memory, *(listing(f"{number:05}", "alpha", time=1, height=7) for number in range(0, 60, 2)))
    put(memory, *(listing(f"{number:05}", "alpha", time=1, height=7) for number in (51, 7, 23)), seq=2)
    assert memory._view.postings is not None
    assert len(memory._view.postings.segments) == 2
    for offset in range(33):
        for limit in (1, 5, 33 - offset):
            asked = Query(text=text, offset=offset, limit=limit)
            assert memory.search(asked) == files.search(asked)


def test_a_log_in_many_blocks_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("overlay.engines.tantivy.listings"), "BATCH", 7)
    monkeypatch.setattr(postings, "_FULL", 60)
    engine = opened(tmp_path, held=False)
    engine.replace([], crowd(100), Cursor(EPOCH, 1))
    put(engine, *crowd(20, 50), seq=2)
    memory = opened(tmp_path, held=True)
    agree(memory, engine)
    assert ids(ask(memory, "alpha")) == ids(ask(engine, "alpha"))


def test_a_block_is_read_back_as_it_was_written() -> None:
    gathered = Gathering()
    gathered.go(1 << 63)
    for number, document in enumerate(crowd(5)):
        gathered.come(number, 2**62 + number, number, document, {"alpha": 3, "\ud800": 5})
    block = gathered.block()
    packed = pack(block)
    again: tuple[Any, ...] = unpack(packed[16 : 16 + int.from_bytes(packed[8:16], "little")])
    for one, other in zip(tuple[Any, ...](block), again, strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    assert len(Gathering().block().keys) == 0


@given(st.binary(max_size=300))
def test_any_bytes_are_a_block_or_refused(data: bytes) -> None:
    try:
        block: tuple[Any, ...] = unpack(data)
    except ValueError:
        return
    assert sum(column.nbytes for column in block) == len(data) - 104


def test_words_and_facts_have_numbers_of_their_own() -> None:
    assert listed.key("kind:agent") != listed.fact_key("kind:agent") == listed.key("=kind:agent")


@pytest.mark.parametrize("asked", [{}, {"sort": "name"}, {"text": "alpha"}], ids=str)
def test_hits_tell_whether_a_warning_among_them_is_for_a_time_only(tmp_path: Path, asked: dict[str, Any]) -> None:
    engine = opened(tmp_path, held=True)
    item = b'{"id":"2","name":"alpha","warnings":[{"code":"price-changed"}]}'
    put(engine, listing("1", "alpha"), replace(listing("2", "alpha", kind="tool"), item=item))
    assert engine.search(Query(**asked)).ages
    assert engine.search(Query(**asked, kind="tool")).ages
    assert not engine.search(Query(**asked, kind="agent")).ages


def test_a_plain_page_is_sent_without_being_read(tmp_path: Path) -> None:
    engine = opened(tmp_path, held=True)
    put(engine, *crowd(40))
    hits = engine.search(Query(text="alpha", limit=5)).hits
    assert isinstance(hits, Written)
    assert len(hits) == 5
    assert [each.id for each in hits[:2]] == [each.id for each in hits][:2]
    assert (hits[-1], hits[4:9]) == (hits[4], (hits[4],))
    with pytest.raises(IndexError):
        hits[5]
    assert hits == tuple(hits)
    assert hits != tuple(hits)[:4]
    assert isinstance(engine.search(Query(currencies=("USD",))).hits, Written)
    asked = Query(price_currency="USD", max_price=Decimal(5), rates={"BSV": Decimal(50)})
    assert not isinstance(engine.search(asked).hits, Written)


def test_a_page_stays_as_it_is_whatever_is_asked_for_next(tmp_path: Path) -> None:
    engine = opened(tmp_path, held=True)
    put(engine, *crowd(40), *(listing(f"beta {number}", "beta", time=number) for number in range(60)))
    hits = engine.search(Query(text="alpha", limit=5)).hits
    assert isinstance(hits, Written)
    keys, page = [hits.sort_key(at) for at in range(5)], bytes(hits.enclosed(b"[", b"]"))
    for text in ("beta", "alpha beta", ""):
        engine.search(Query(text=text, limit=50))
        assert [hits.sort_key(at) for at in range(5)] == [each.sort_key for each in hits] == keys
        assert bytes(hits.enclosed(b"[", b"]")) == page


def test_where_ids_decide_between_segments_the_page_is_read(tmp_path: Path) -> None:
    engine, files = opened(tmp_path / "one", held=True), opened(tmp_path / "two", held=False)
    for number in range(0, 60, 5):
        for each in (engine, files):
            put(each, *(listing(f"{(7 * at) % 60:02}", "alpha", time=1, height=7) for at in range(number, number + 5)))
    assert len(engine._view.postings.segments) > 1  # type: ignore[union-attr]
    for limit in (1, 7, 20, 100):
        query = Query(text="alpha", limit=limit)
        assert ids(engine.search(query)) == [f"{number:02}" for number in range(60)][:limit]
        assert told(query, engine.search(query)) == told(query, files.search(query))
