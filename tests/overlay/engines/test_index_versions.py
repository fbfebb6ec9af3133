"""Indexes in files, one beside another: whatever is done to them and whenever it breaks off, one whole one answers."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.duplicates.duplicate_index import FILE, DuplicateIndex
from overlay.engines import BusyError, IndexPosition
from overlay.engines.change_counter import ChangeCounter
from overlay.engines.index_versions import IndexVersions
from overlay.engines.native import NativeEngine
from overlay.projection.search_index import SearchIndex
from tests.contracts.listed import EPOCH, count, ids, listing, matching_ids, put
from tests.contracts.listed import ask as search_hits

ENGINES = ("native", "whoosh")


def folders(root: Path) -> list[str]:
    """The indexes in a folder."""
    return sorted(path.name for path in root.iterdir() if path.is_dir())


# -- whatever is done

steps = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 1), st.sets(st.sampled_from("abcd"), min_size=1)),
    st.tuples(st.sampled_from(["shown", "broken", "killed"]), st.integers(0, 1), st.sets(st.sampled_from("abcd"))),
    st.tuples(st.sampled_from(["open", "tidy", "look"]), st.integers(0, 1), st.just(frozenset[str]())),
)


@pytest.mark.parametrize("name", ENGINES)
@settings(max_examples=15, deadline=None)
@given(st.lists(steps, min_size=3, max_size=8))
def test_whatever_two_processes_do_both_see_what_was_last_shown(
    tmp_path_factory: pytest.TempPathFactory, name: str, history: list[tuple[str, int, frozenset[str]]]
) -> None:
    url = f"{name}:{tmp_path_factory.mktemp('index')}"
    held: dict[str, int] = {}
    with ExitStack() as ending:
        engines = [opened(ending, url), opened(ending, url)]
        for seq, (what, who, which) in enumerate(history, 1):
            engine = engines[who]
            if what == "put":
                written(engines, engine, which, seq)
                held |= dict.fromkeys(which, seq)
            elif what in ("shown", "broken", "killed"):
                renewed = renew(engine, which, seq, what)
                held = dict.fromkeys(which, seq) if renewed else held
            elif what == "open":
                engine.close()
                engines[who] = opened(ending, url)
            elif what == "tidy":
                engine.cleanup()
            for item in engines:
                assert {id_: version_of(item, id_) for id_ in ids(search_hits(item, limit=99))} == held, (what, seq)
                assert count(item) == len(held)


def opened(ending: ExitStack, url: str) -> SearchIndex:
    engine = SearchIndex(url)
    ending.callback(closed, engine)
    return engine


def closed(engine: SearchIndex) -> None:
    with suppress(OSError):  # it was closed before
        engine.close()


def written(engines: list[SearchIndex], engine: SearchIndex, which: frozenset[str], seq: int) -> None:
    """One writes; whoever wrote before it gives way, as a process does that ends."""
    for other in engines:
        if other is not engine and isinstance(other._engine, NativeEngine):
            other._engine.unlock()
    put(engine, *(listing(id_, f"alpha v{seq}", said=str(seq)) for id_ in sorted(which)), seq=seq)


def version_of(engine: SearchIndex, id_: str) -> int:
    item = engine.get(id_)
    assert item is not None
    return int(item.rpartition(b'"said": "')[2].partition(b'"')[0])


def renew(engine: SearchIndex, which: frozenset[str], seq: int, how: str) -> bool:
    """Make an index of these beside the one that answers; whether it was shown. Killed: as if the process were gone
    once it was filled."""
    renewing = engine.rebuilding()
    fresh = renewing.__enter__()
    try:
        put(fresh, *(listing(id_, f"alpha v{seq}", said=str(seq)) for id_ in sorted(which)), seq=seq)
        if how == "shown":
            assert engine.promote(fresh)
    finally:
        if how == "killed":
            leave(renewing)
        else:
            renewing.__exit__(None, None, None)
    return how == "shown"


def leave(renewing: Any) -> None:
    """Let go of the locks, as the system does for a process that is killed, and remove nothing."""
    sweep = IndexVersions._sweep
    IndexVersions._sweep = _nothing  # type: ignore[method-assign]
    try:
        renewing.__exit__(None, None, None)
    finally:
        IndexVersions._sweep = sweep  # type: ignore[method-assign]


def _nothing(_self: IndexVersions) -> None:
    """Remove nothing."""


# -- one at a time


@pytest.fixture(params=ENGINES)
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SearchIndex]:
    with closing(SearchIndex(f"{request.param}:{tmp_path}")) as engine:
        put(engine, listing("1", "alpha"))
        yield engine


def test_the_first_index_is_at_its_former_path(index: SearchIndex, tmp_path: Path) -> None:
    """So one made by an earlier release is found, though nothing names it."""
    [folder] = folders(tmp_path)
    assert "." not in folder
    assert not list(tmp_path.glob("*.live"))
    assert matching_ids(index) == {"1"}


def test_nobody_writes_while_indexes_are_exchanged_nor_to_one_that_was(index: SearchIndex, tmp_path: Path) -> None:
    [folder] = folders(tmp_path)
    generations = IndexVersions(tmp_path, folder)
    with generations.promoting(), pytest.raises(BusyError, match="is being replaced"):
        put(index, listing("2", "alpha"), seq=2)
    with generations.writing(tmp_path / folder), generations.writing(tmp_path / folder):
        """Two writers do not keep each other off: engines see to that."""
    with pytest.raises(BusyError, match="was replaced meanwhile"), generations.writing(tmp_path / "other"):
        raise AssertionError
    assert matching_ids(index) == {"1"}


@pytest.mark.parametrize("held", ["", "\n", "../../etc", "other-1", "native-7.0123", "\0" * 9, "whoosh-3/..", "é"])
def test_a_pointer_that_names_no_index_leads_to_the_first(tmp_path: Path, held: str) -> None:
    (tmp_path / "native-7.live").write_text(held)
    assert IndexVersions(tmp_path, "native-7").live() == tmp_path / "native-7"


def test_an_index_that_was_replaced_by_a_process_that_died_there_is_kept_by_the_next_writer(
    index: SearchIndex, tmp_path: Path
) -> None:
    url = f"{index.name}:{tmp_path}"
    with closing(SearchIndex(url)) as reader, closing(SearchIndex(url)) as maker:
        [folder] = folders(tmp_path)
        renewing = maker.rebuilding()
        fresh: Any = renewing.__enter__()
        put(fresh, listing("2", "alpha"), seq=2)
        fresh.close()
        version = fresh._version
        IndexVersions(tmp_path, folder).promote(version)
        leave(renewing)
        assert folders(tmp_path) == sorted([folder, version.name])
        with pytest.raises(BusyError):
            put(index, listing("3", "alpha"), seq=2)
        put(index, listing("3", "alpha"), seq=3)
        index.cleanup()
        assert folders(tmp_path) == [version.name]
        for item in (index, reader):
            assert matching_ids(item) == {"2", "3"}


def test_an_index_of_another_version_is_left_and_reported(
    index: SearchIndex, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    old = tmp_path / f"{index.name}-0"
    old.mkdir()
    (old / "meta.json").write_text("{}")
    index.cleanup()
    assert old.exists()
    assert f"{old} is an index of another release" in caplog.text


# -- claims


def test_claims_that_were_made_beside_replace_the_others_at_one_stroke(tmp_path: Path) -> None:
    with closing(DuplicateIndex(str(tmp_path))) as duplicates, closing(DuplicateIndex(str(tmp_path))) as elsewhere:
        duplicates.update([], [], IndexPosition(EPOCH, 1))
        with closing(DuplicateIndex()) as fresh:
            assert fresh.position() is None
            fresh.update([], [], IndexPosition(EPOCH, 7))
            assert (duplicates.position(), elsewhere.position()) == (IndexPosition(EPOCH, 1), IndexPosition(EPOCH, 1))
            assert [path.name for path in tmp_path.iterdir()] == [FILE], "what is made beside has no name to be left"
            duplicates.copy_from(fresh)
        assert (duplicates.position(), elsewhere.position()) == (IndexPosition(EPOCH, 7), IndexPosition(EPOCH, 7))
        elsewhere.update([], [], IndexPosition(EPOCH, 8))
        assert duplicates.position() == IndexPosition(EPOCH, 8)


def test_files_of_claims_in_older_layouts_are_removed(tmp_path: Path) -> None:
    for old in ("duplicates-1.db", "duplicates-3.db", "duplicates-4.db", "duplicates-4.db-journal"):
        (tmp_path / old).touch()
    (tmp_path / "duplicates.txt").touch()
    with closing(DuplicateIndex(str(tmp_path))) as duplicates:
        assert duplicates.position() is None
    assert {path.name for path in tmp_path.iterdir()} == {FILE, "duplicates.txt"}


# -- how readers see that another version is live


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Each look at a pointer; the clock stands still."""
    seen: list[Path] = []
    real = Path.stat

    def stat(path: Path, **options: Any) -> os.stat_result:
        if path.suffix == ".live":
            seen.append(path)
        return real(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr("overlay.engines.index_versions.monotonic", lambda: 1_000.0)
    return seen


def promoted(root: Path, number: int) -> Path:
    """Another version, made live by another process."""
    writer = IndexVersions(root, "native-1")
    version = root / f"native-1.{number:08x}"
    version.mkdir()
    with writer.promoting():
        writer.promote(version)
    return version


def test_a_reader_sees_a_promotion_at_once_and_looks_at_no_file_as_long_as_there_is_none(
    tmp_path: Path, looks: list[Path]
) -> None:
    promoted(tmp_path, 1)
    reader = IndexVersions(tmp_path, "native-1")
    for number in range(2, 5):
        version = promoted(tmp_path, number)
        assert reader.live() == version
        looks.clear()
        assert {reader.live() for _ in range(50)} == {version}
        assert looks == []


def test_without_a_stamp_or_with_a_damaged_one_the_pointer_is_looked_at_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = tmp_path / "native-1.stamp"
    stamp.mkdir()  # nobody can map or increase it
    reader = IndexVersions(tmp_path, "native-1")
    for number in range(1, 4):
        assert reader.live() != (version := promoted(tmp_path, number))
        assert reader.live() == version
    stamp.rmdir()
    stamp.write_bytes(b"short")
    assert IndexVersions(tmp_path, "native-1").live() == version
    monkeypatch.setattr("overlay.engines.index_versions.monotonic", lambda: 1e9)
    assert promoted(tmp_path, 9) == reader.live() == IndexVersions(tmp_path, "native-1").live()
    assert stamp.stat().st_size == 8


def test_a_promotion_that_increased_no_stamp_is_seen_a_second_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: list[Path]
) -> None:
    """Such as one by an earlier release, by another user, or after which the process was killed."""
    first = promoted(tmp_path, 1)
    reader = IndexVersions(tmp_path, "native-1")
    assert reader.live() == first
    reader.live()  # maps the stamp
    monkeypatch.setattr(ChangeCounter, "increase", _nothing)
    version = promoted(tmp_path, 2)
    assert reader.live() == first
    monkeypatch.setattr("overlay.engines.index_versions.monotonic", lambda: 1_001.0)
    assert reader.live() == version
    assert looks


def test_writers_and_removers_read_the_pointer_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a version would be removed that was promoted without its stamp."""
    first = promoted(tmp_path, 1)
    other = IndexVersions(tmp_path, "native-1")
    assert other.live() == first
    monkeypatch.setattr("overlay.engines.index_versions.monotonic", lambda: 1_000.0)
    monkeypatch.setattr(ChangeCounter, "increase", _nothing)
    version = promoted(tmp_path, 2)
    with pytest.raises(BusyError, match="was replaced meanwhile"), other.writing(first):
        raise AssertionError
    other.cleanup()
    assert folders(tmp_path) == [version.name]
