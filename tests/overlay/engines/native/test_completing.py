"""Completions from labels equal those from items, and words counted in several segments those counted at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from overlay.engines import IndexPosition
from overlay.engines.native import NativeEngine, label_kernels
from overlay.engines.native.labels import packed, unpacked
from overlay.engines.native.tables import pack
from overlay.search.document import Document
from overlay.search.facts import is_listed
from overlay.search.forward import Analysed
from overlay.search.query import Query, Suggestion
from overlay.search.suggesting import Completed, Typed, completed_by_items, suggest
from overlay.search.term_dictionary import TermCounts, TermDictionary
from parsers.cards import Skill
from tests.contracts.listed import listing

WORDS = ["pay", "Payment", "payments", "paying", "payee", "gateway", "web_search", "支付", "a\nb", "Q&A", "café"]
LATEST = 4

phrases = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)
lines = st.text(" ab", max_size=6)
rows_of_numbers = st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=5)


@given(
    labels=st.lists(st.tuples(lines, lines, st.sampled_from(["", "\nb a", "\n\n ab"])), max_size=4),
    rows=rows_of_numbers,
    documents=st.lists(st.integers(0, 4), max_size=4),
    keys=st.lists(st.text(" ab", min_size=1, max_size=3), min_size=1, max_size=3),
)
@settings(deadline=None)
def test_labels_complete_by_their_first_or_second_line(
    labels: list[tuple[str, str, str]], rows: list[list[int]], documents: list[int], keys: list[str]
) -> None:
    documents = [document for document in documents if document < len(rows)]
    table = pack([f"{first}\n{second}{more}".encode() for first, second, more in labels])
    of_documents, numbers = label_kernels.completing(
        np.array(documents, np.int64), *jagged(rows), *table, *pack([key.encode() for key in keys])
    )
    assert list(zip(of_documents.tolist(), numbers.tolist(), strict=True)) == [
        (index, number)
        for index, document in enumerate(documents)
        for number in rows[document]
        if number < len(labels) and any(all(key in line for key in keys) for line in labels[number][:2])
    ]


@given(label=st.sampled_from([b"", b" a", b" a\n", b"\n", b"\n a", b"\n\n a"]))
def test_a_label_with_fewer_lines_is_read_to_its_end(label: bytes) -> None:
    of_documents, _ = label_kernels.completing(np.zeros(1, np.int64), *jagged([[0]]), *pack([label]), *pack([b" a"]))
    assert len(of_documents) == any(b" a" in line for line in label.split(b"\n")[:2])


@given(
    rows=rows_of_numbers,
    counts=st.lists(st.integers(0, 6), min_size=5, max_size=5),
    documents=st.lists(st.integers(0, 4), max_size=4),
    expected=st.lists(st.integers(-3, 7), max_size=4),
)
@settings(deadline=None)
def test_the_words_of_texts_are_the_first_of_a_document(
    rows: list[list[int]], counts: list[int], documents: list[int], expected: list[int]
) -> None:
    documents = [document for document in documents if document < len(rows)]
    is_contained = np.zeros(len(expected), np.uint8)
    label_kernels.contained(
        np.array(documents, np.int64), jagged(rows)[0], np.array(counts, np.uint32), jagged(rows)[1],
        np.array(expected, np.int64), is_contained,
    )  # fmt: skip
    texts = {number for document in documents for number in rows[document][: counts[document]]}
    assert is_contained.tolist() == [number in texts for number in expected]


def jagged(rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return offsets, np.array([number for row in rows for number in row], np.uint32)


labels = st.one_of(
    st.builds(Suggestion, st.text(), st.sampled_from(["listing", "tag"]), st.none()),
    st.builds(Suggestion, st.text(), st.just("skill"), st.text()),
)


@given(labels)
@example(Suggestion("\ud800\n", "skill", "\n1\n"))
def test_a_label_is_what_it_was(label: Suggestion) -> None:
    assert unpacked(packed(label).encode("utf-8", "surrogatepass")) == label


@st.composite
def documents_of(draw: st.DrawFn) -> Document:
    skills = st.builds(Skill, st.sampled_from(WORDS), st.sampled_from(["", *WORDS]), tags=st.tuples(phrases))
    return listing(
        f"{draw(st.integers(0, 9))}_0",
        draw(phrases),
        description=draw(phrases),
        tags=tuple(draw(st.lists(phrases | st.just("pay" * 40), max_size=3))),
        skills=draw(st.lists(skills, max_size=2)),
        words=(draw(phrases),),
        status=draw(st.sampled_from(["live", "live", "burned"])),
        time=draw(st.sampled_from([None, 1, 2, 3])),
    )


histories = st.lists(st.lists(documents_of(), max_size=6, unique_by=lambda one: one.id), min_size=1, max_size=4)


@contextmanager
def engine_of(history: Sequence[Sequence[Document]]) -> Iterator[NativeEngine]:
    """An engine with a segment for each commit."""
    with TemporaryDirectory() as folder:
        engine = filled(Path(folder), history)
        yield engine
        engine.close()


def filled(folder: Path, history: Sequence[Sequence[Document]]) -> NativeEngine:
    writing = "overlay.engines.native.writing"
    engine = NativeEngine(folder, make=True)
    with patch(f"{writing}.SMALL", 0), patch(f"{writing}.FACTOR", 0):
        for number, commit in enumerate(history):
            engine.write([one.registration for one in commit], commit, IndexPosition("", number + 1))
    return engine


def listed_of(history: Sequence[Sequence[Document]]) -> list[Document]:
    return [one for one in {one.id: one for commit in history for one in commit}.values() if is_listed(one)]


@given(histories, st.sampled_from(["pa", "pay", "gateway p", "we se", "支", "b", "a q", "cafe"]), st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_completions_from_labels_are_those_from_items(history: list[list[Document]], text: str, limit: int) -> None:
    with engine_of(history) as engine, patch("overlay.engines.native.completing.MAX_LISTINGS", LATEST):

        def complete(typed: Typed) -> Completed:
            by_items = completed_by_items(engine.search(Query(), typed.plan, 0, LATEST).rows, typed)
            completed = engine.complete(typed)
            assert completed.names == by_items.names
            assert completed.labels == by_items.labels
            assert completed.words == by_items.words & set(typed.completions)
            return completed

        terms = counted(history)
        assert suggest(text, limit, engine.terms(), complete) == suggest(text, limit, terms, complete)


@given(histories, st.sampled_from(WORDS) | st.sampled_from(["p", "paymnet", "paymentss", "gatewya", ""]))
@settings(max_examples=40, deadline=None)
def test_words_are_counted_in_several_segments_as_at_once(history: list[list[Document]], word: str) -> None:
    with engine_of(history) as engine:
        terms, expected = engine.terms(), counted(history)
        assert terms.listings == expected.listings
        assert terms.frequency(word) == expected.frequency(word)
        assert [terms.completions(word, limit) for limit in (1, 3, 99)] == [
            expected.completions(word, limit) for limit in (1, 3, 99)
        ]
        assert [terms.similar(word, edits) for edits in (1, 2)] == [expected.similar(word, edits) for edits in (1, 2)]


def counted(history: Sequence[Sequence[Document]]) -> TermDictionary:
    counts = TermCounts()
    for document in listed_of(history):
        counts.add(Analysed.of(document).surfaces)
    return TermDictionary([counts])


@pytest.mark.parametrize("commits", [1, 3])
def test_the_segments_of_an_engine_are_as_many_as_its_commits(tmp_path: Path, commits: int) -> None:
    engine = filled(tmp_path, [[listing(f"{number}_0", "pay")] for number in range(commits)])
    assert len(list(tmp_path.glob("*.segment"))) == commits
    assert engine.terms().completions("p", 9) == ["pay"]
    engine.close()
