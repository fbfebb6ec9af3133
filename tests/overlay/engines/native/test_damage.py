"""Damaged files: each is found, named and left out, and no search reads outside of what is mapped."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.engines import EngineError, IndexPosition
from overlay.engines.native import NativeEngine, manifest, segment_file
from overlay.engines.native.array_checks import check_all
from overlay.engines.native.builder import SegmentBuilder
from overlay.engines.native.derived import derived
from overlay.engines.native.schema import BREAK, DERIVED, MEMBERS, TABLES
from overlay.engines.native.searching import search
from overlay.engines.native.segment import Segment
from overlay.engines.native.segment_file import SegmentError, SegmentFile
from overlay.engines.native.writing import damaged
from overlay.search import clusters
from overlay.search.query import Matches, Query
from tests.conftest import ROOT
from tests.contracts.listed import listing
from tests.overlay.engines.native import damaging

DOCUMENTS = damaging.documents()


@pytest.fixture(scope="module")
def arrays() -> dict[str, Any]:
    """The arrays of a segment, with clusters as in large ones."""
    builder = SegmentBuilder()
    for document in DOCUMENTS:
        builder.add(document)
    primary = builder.arrays()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "LEAST", 1)
        return primary | derived(primary)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return damaging.index(tmp_path / "index")


def test_every_array_of_a_segment_is_declared(arrays: dict[str, Any]) -> None:
    assert [one.name for one in DERIVED if arrays[one.name].dtype != f"<{one.dtype}"] == []
    primary = {f"{table}_{part}" for table in TABLES for part in ("bytes", "offsets")} | {"offers_offsets"}
    primary |= {member.name for member in MEMBERS}
    primary |= {f"{member.name}_offsets" for member in MEMBERS if member.is_rows}
    assert set(arrays) == primary | {one.name for one in DERIVED}
    check_all(arrays, len(DOCUMENTS))


def test_an_empty_segment_fits_together() -> None:
    primary = SegmentBuilder().arrays()
    check_all(primary | derived(primary), 0)


@pytest.mark.parametrize("name", [one.name for one in DERIVED])
def test_a_derived_array_that_is_missing_or_shorter_or_of_another_type_is_refused(
    arrays: dict[str, Any], name: str
) -> None:
    array = arrays[name]
    assert len(array)
    changes: list[Any] = [None, array[:-1], np.append(array, array[-1:])]
    changes.append(array.view(np.uint8 if array.dtype == np.int8 else np.int8))
    for changed in changes:
        others = {key: value for key, value in arrays.items() if key != name}
        with pytest.raises(SegmentError, match="array "):
            check_all(others if changed is None else others | {name: changed}, len(DOCUMENTS))


@pytest.mark.parametrize(
    "name", [*(member.name for member in MEMBERS if member.table), *(one.name for one in DERIVED if one.below)]
)
def test_a_number_outside_is_refused(arrays: dict[str, Any], name: str) -> None:
    if name == "document_labels" and not len(arrays[name]):
        return
    for index, number in ((0, BREAK - 1), (-1, 1 << 20)):
        changed = arrays[name].copy()
        changed[index] = number
        with pytest.raises(SegmentError, match="array "):
            check_all(arrays | {name: changed}, len(DOCUMENTS))


def test_a_break_is_a_number_of_the_forward_index_alone(arrays: dict[str, Any]) -> None:
    assert (arrays["forward"] == BREAK).any()
    changed = arrays["document_facts"].copy()
    changed[0] = BREAK
    with pytest.raises(SegmentError, match="document_facts has numbers outside"):
        check_all(arrays | {"document_facts": changed}, len(DOCUMENTS))


def test_postings_that_list_a_document_twice_are_refused(arrays: dict[str, Any]) -> None:
    offsets = arrays["term_offsets"]
    term = int(np.flatnonzero(np.diff(offsets) > 1)[0])
    changed = arrays["term_documents"].copy()
    changed[offsets[term] + 1] = changed[offsets[term]]
    with pytest.raises(SegmentError, match="array term_documents decreases"):
        check_all(arrays | {"term_documents": changed}, len(DOCUMENTS))


def test_a_document_in_two_clusters_is_refused(arrays: dict[str, Any]) -> None:
    changed = arrays["cluster_documents"].copy()
    changed[0] = changed[1]
    with pytest.raises(SegmentError, match="cluster_documents does not have each document once"):
        check_all(arrays | {"cluster_documents": changed}, len(DOCUMENTS))


@pytest.mark.parametrize("impact", [0.0, -0.5, 1.5, np.nan, np.inf])
def test_an_impact_that_no_term_has_is_refused(arrays: dict[str, Any], impact: float) -> None:
    changed = arrays["term_impacts"].copy()
    changed[3] = impact
    with pytest.raises(SegmentError, match="array term_impacts has values outside"):
        check_all(arrays | {"term_impacts": changed}, len(DOCUMENTS))


def test_sections_that_lead_outside_of_their_text_are_refused(arrays: dict[str, Any]) -> None:
    for index, number in ((5, 60_000), (0, 60_000), (-1, 60_000)):
        changed = arrays["section_ends"].copy()
        changed[index] = number
        with pytest.raises(SegmentError, match="array section_ends leads outside"):
            check_all(arrays | {"section_ends": changed}, len(DOCUMENTS))
    offsets = arrays["section_ends_offsets"].copy()
    offsets[1] += 1
    with pytest.raises(SegmentError, match="array section_ends_offsets is not that of rows of 6"):
        check_all(arrays | {"section_ends_offsets": offsets}, len(DOCUMENTS))


def test_a_damaged_segment_is_named_and_left_out_and_the_others_are_searched(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry = damaging.largest(folder)
    path = manifest.segment_path(folder, entry.name)
    stored = dict(SegmentFile.open(path).arrays)
    changed = stored["term_documents"].copy()
    changed[0] = len(DOCUMENTS)
    segment_file.write(path, stored | {"term_documents": changed})
    state = NativeEngine(folder, make=False, for_search=False)  # reads no contents
    assert (state.position(), state.damage()) == (manifest.read(folder).position, "")  # type: ignore[union-attr]
    engine = NativeEngine(folder, make=True)
    assert engine.position() is None
    assert (
        engine.damage()
        == f"{entry.name}.segment is damaged: array term_documents has numbers outside of {entry.documents}"
    )
    assert f"the index in {folder} is damaged, and must be rebuilt: {entry.name}.segment" in caplog.text
    others = sum(other.documents for other in manifest.read(folder).segments if other != entry)  # type: ignore[union-attr]
    assert others
    assert damaging.searched(engine, Query(statuses=(), as_of=109, height_chain="bsv")).total == others
    with pytest.raises(EngineError, match=f"the index in {folder} must be rebuilt: {entry.name}"):
        engine.write(["1"], [], IndexPosition("e", 9))
    engine.write(None, (), None)
    engine.write(["1"], [listing("1", "again")], IndexPosition("e", 1))
    assert (engine.damage(), engine.position()) == ("", IndexPosition("e", 1))
    engine.close()


def test_a_segment_that_is_not_searched_is_not_read_whatever_it_holds(folder: Path) -> None:
    for entry in manifest.read(folder).segments:  # type: ignore[union-attr]
        path = manifest.segment_path(folder, entry.name)
        stored = dict(SegmentFile.open(path).arrays)
        segment_file.write(path, stored | {"flags": stored["flags"][:-1], "surface_listed": stored["flags"][:0]})
    state = NativeEngine(folder, make=False, for_search=False)
    assert (state.position(), state.damage()) == (manifest.read(folder).position, "")  # type: ignore[union-attr]
    state.close()


def test_a_missing_segment_is_damage_and_one_replaced_meanwhile_is_not(folder: Path) -> None:
    reader = NativeEngine(folder, make=False)
    entry = damaging.largest(folder)
    manifest.segment_path(folder, entry.name).unlink()
    damage = f"{entry.name}.segment cannot be read (No such file or directory)"
    for for_search in (True, False):
        opened = NativeEngine(folder, make=False, for_search=for_search)
        assert (opened.position(), opened.damage()) == (None, damage)
    assert reader.damage() == ""
    assert damaging.searched(reader, Query(text="alpha")).total  # it still maps what it opened
    writer = NativeEngine(folder, make=True)
    writer.write(None, DOCUMENTS, IndexPosition("e", 5))
    assert (reader.position(), reader.damage()) == (IndexPosition("e", 5), "")
    for engine in (reader, opened, writer):
        engine.close()


def test_files_are_checked_after_a_writer_that_was_interrupted(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    entry = damaging.largest(folder)
    damaging.flip(manifest.segment_path(folder, entry.name), "item")
    assert "item" in damaged(folder, entry)
    for is_interrupted in (False, True):
        (folder / "lock").write_bytes(b"w" if is_interrupted else b"-")
        engine = NativeEngine(folder, make=True)
        engine.write([], [], IndexPosition("e", 7))
        engine.jobs.wait()
        assert bool(engine.damage()) == is_interrupted
        engine.close()
    assert f"{entry.name}.segment is damaged: the CRC-32C of item differs" in caplog.text
    assert (folder / "lock").read_bytes() == b"w", "the next writer finds it, too"


def test_files_are_checked_again_after_a_day(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = NativeEngine(folder, make=True)
    engine.write([], [], IndexPosition("e", 6))
    damaging.flip(manifest.segment_path(folder, damaging.largest(folder).name), "item")
    engine.write([], [], IndexPosition("e", 7))
    engine.jobs.wait()
    assert engine.damage() == ""
    engine.check_at -= 86_400
    engine.write([], [], IndexPosition("e", 8))
    engine.jobs.wait()
    assert "the CRC-32C of item differs" in engine.damage()
    assert engine.position() is None
    engine.close()


def test_a_search_that_fails_on_damage_finds_it_and_returns_the_rest(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = NativeEngine(folder, make=True)
    everything = Query(statuses=(), as_of=109, height_chain="bsv")
    before, entry = damaging.searched(engine, everything).total, damaging.largest(folder)

    def failing(segments: Sequence[Segment], *rest: Any) -> Matches:
        if any(segment.entry == entry for segment in segments):
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
        return search(segments, *rest)

    monkeypatch.setattr("overlay.engines.native.search", failing)
    with pytest.raises(UnicodeDecodeError):
        damaging.searched(engine, everything)
    assert engine.damage() == ""
    damaging.flip(manifest.segment_path(folder, entry.name), "values_bytes")
    with pytest.raises(UnicodeDecodeError):
        damaging.searched(engine, everything)  # files were just read
    engine.suspected -= 60
    assert damaging.searched(engine, everything).total == before - (entry.documents - entry.deleted)
    assert f"{entry.name}.segment is damaged: the CRC-32C of values_bytes differs" in engine.damage()
    engine.close()


@pytest.fixture(scope="module")
def trying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Callable[..., dict[str, Any]]]]:
    """The folder of an index, and what a program finds in it once bytes of a file are changed."""
    folder = tmp_path_factory.mktemp("damage") / "index"
    command = [sys.executable, "-m", "tests.overlay.engines.native.damaging", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        out = program.stdout
        out.readline()

        def tried(*damage: Any) -> dict[str, Any]:
            print(json.dumps(damage), file=program.stdin, flush=True)
            answer: dict[str, Any] = json.loads(out.readline() or '"the program has ended"')
            return answer

        yield folder, tried
        program.stdin.close()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_flipped_or_missing_byte_lets_a_search_read_outside(
    trying: tuple[Path, Callable[..., dict[str, Any]]], data: st.DataObject
) -> None:
    folder, tried = trying
    path = manifest.segment_path(folder, damaging.largest(folder).name)
    array = data.draw(st.sampled_from(sorted(SegmentFile.open(path).arrays)))
    offset, length = damaging.place_of(path, array)
    start = offset + data.draw(st.integers(0, max(0, length - 1)))
    stop = start + data.draw(st.sampled_from((0, 0, 0, 1, 8)))
    answer = tried(path.name, start, stop, data.draw(st.integers(0, 7)))
    assert answer["outside"] == []
    if stop > start:
        assert f"{path.name} is damaged" in answer["refused"]
    if length:
        assert f"{path.name} is damaged" in answer["checked"]


@pytest.mark.parametrize("bit", [0, 7])
def test_a_flip_at_both_ends_of_every_array_is_found(
    trying: tuple[Path, Callable[..., dict[str, Any]]], bit: int
) -> None:
    folder, tried = trying
    path = manifest.segment_path(folder, damaging.largest(folder).name)
    for array in SegmentFile.open(path).arrays:
        offset, length = damaging.place_of(path, array)
        for start in (offset, offset + length - 1) if length else ():
            answer = tried(path.name, start, start, bit)
            assert answer["outside"] == [], array
            assert array in answer["checked"]
