"""Indexes in files, one beside another: whatever is done to them and whenever it breaks off, one whole one answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.copies.book import FILE, Copies
from overlay.engines import BusyError, Cursor, Engine, open_engine, tantivy
from overlay.engines.tantivy import TantivyEngine
from overlay.generations import Generations
from overlay.search import preparing
from tests.contracts.listed import EPOCH, found, ids, listing, put
from tests.contracts.listed import ask as asked
from tests.waiting import PATIENCE

ENGINES = ("tantivy", "whoosh")


@pytest.fixture(autouse=True)
def look_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process' commit is to be seen at once."""
    monkeypatch.setattr("overlay.engines.tantivy._ONE_LOOK", 0.0)


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
                engine.tidy()
            for each in engines:
                assert {id_: said(each, id_) for id_ in ids(asked(each, limit=99))} == held, (what, seq)
                assert each.count() == len(held)


def opened(ending: ExitStack, url: str) -> Engine:
    engine = open_engine(url)
    ending.callback(closed, engine)
    return engine


def closed(engine: Engine) -> None:
    with suppress(OSError):  # it was closed before
        engine.close()


def written(engines: list[Engine], engine: Engine, which: frozenset[str], seq: int) -> None:
    """One writes; whoever wrote before it gives way, as a process does that ends."""
    for other in engines:
        if other is not engine and isinstance(other, TantivyEngine):
            other._writer = None
    put(engine, *(listing(id_, f"alpha v{seq}", said=str(seq)) for id_ in sorted(which)), seq=seq)


def said(engine: Engine, id_: str) -> int:
    item = engine.get(id_)
    assert item is not None
    return int(item.rpartition(b'"said": "')[2].partition(b'"')[0])


def renew(engine: Engine, which: frozenset[str], seq: int, how: str) -> bool:
    """Make an index of these beside the one that answers; whether it was shown. Killed: as if the process were gone
    once it was filled."""
    renewing = engine.renewing()
    fresh = renewing.__enter__()
    try:
        put(fresh, *(listing(id_, f"alpha v{seq}", said=str(seq)) for id_ in sorted(which)), seq=seq)
        if how == "shown":
            assert engine.show(fresh)
    finally:
        if how == "killed":
            leave(renewing)
        else:
            renewing.__exit__(None, None, None)
    return how == "shown"


def leave(renewing: Any) -> None:
    """Let go of the locks, as the system does for a process that is killed, and remove nothing."""
    sweep = Generations._sweep
    Generations._sweep = _nothing  # type: ignore[method-assign]
    try:
        renewing.__exit__(None, None, None)
    finally:
        Generations._sweep = sweep  # type: ignore[method-assign]


def _nothing(_self: Generations) -> None:
    """Remove nothing."""


# -- one at a time


@pytest.fixture(params=ENGINES)
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with closing(open_engine(f"{request.param}:{tmp_path}")) as engine:
        put(engine, listing("1", "alpha"))
        yield engine


def test_the_first_index_of_all_lies_where_it_always_did(index: Engine, tmp_path: Path) -> None:
    """So one made by an earlier release is found, though nothing names it."""
    [folder] = folders(tmp_path)
    assert "." not in folder
    assert not list(tmp_path.glob("*.live"))
    assert found(index) == {"1"}


def test_nobody_writes_while_indexes_are_exchanged_nor_to_one_that_was(index: Engine, tmp_path: Path) -> None:
    [folder] = folders(tmp_path)
    generations = Generations(tmp_path, folder)
    with generations.exchanging(), pytest.raises(BusyError, match="is being exchanged"):
        put(index, listing("2", "alpha"), seq=2)
    with generations.writing(tmp_path / folder), generations.writing(tmp_path / folder):
        """Those who write do not keep each other off: engines see to that."""
    with pytest.raises(BusyError, match="was exchanged meanwhile"), generations.writing(tmp_path / "other"):
        raise AssertionError
    assert found(index) == {"1"}


@pytest.mark.parametrize("held", ["", "\n", "../../etc", "other-1", "tantivy-7.0123", "\0" * 9, "whoosh-3/..", "é"])
def test_a_pointer_that_names_no_index_leads_to_the_first(tmp_path: Path, held: str) -> None:
    (tmp_path / "tantivy-7.live").write_text(held)
    assert Generations(tmp_path, "tantivy-7").live() == tmp_path / "tantivy-7"


def test_an_index_that_was_exchanged_by_a_process_that_died_there_is_left_by_who_writes_next(
    index: Engine, tmp_path: Path
) -> None:
    url = f"{index.name}:{tmp_path}"
    with closing(open_engine(url)) as reader, closing(open_engine(url)) as maker:
        [folder] = folders(tmp_path)
        renewing = maker.renewing()
        fresh: Any = renewing.__enter__()
        put(fresh, listing("2", "alpha"), seq=2)
        made = fresh.finish()
        Generations(tmp_path, folder).show(made)
        leave(renewing)
        assert folders(tmp_path) == sorted([folder, made.name])
        with pytest.raises(BusyError):
            put(index, listing("3", "alpha"), seq=2)
        put(index, listing("3", "alpha"), seq=3)
        index.tidy()
        assert folders(tmp_path) == [made.name]
        for each in (index, reader):
            assert found(each) == {"2", "3"}


def test_an_index_of_another_version_is_left_and_said(
    index: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    old = tmp_path / f"{index.name}-1"
    old.mkdir()
    (old / "meta.json").write_text("{}")
    index.tidy()
    assert old.exists()
    assert f"{old} is an index that this version cannot read" in caplog.text


# -- what the default engine holds


def test_postings_in_memory_are_made_of_the_new_index_and_the_old_files_let_go(tmp_path: Path) -> None:
    with closing(TantivyEngine(str(tmp_path))) as index, closing(TantivyEngine(str(tmp_path))) as other:
        put(index, *(listing(f"{at}", "alpha") for at in range(50)))
        for each in (index, other):
            each.hold()
        for number in (3, 4, 5):
            with index.renewing() as fresh:
                put(fresh, *(listing(f"{at}", "alpha") for at in range(number)), seq=number)
                assert index.show(fresh)
            for each in (index, other):
                until_found(each, number)
                postings = each._view.postings
                assert postings is not None
                assert postings.listings == number
                assert asked(each, "alhpa").total == number
        assert len(folders(tmp_path)) == 1
        # files that have no name any more take up the disk until the last search of the old index has ended
        until = time.monotonic() + PATIENCE
        while left := list(still_open(tmp_path)):
            assert time.monotonic() < until, left
            time.sleep(0.005)


def until_found(engine: Engine, total: int) -> None:
    """What holds much in memory goes over to a new index in a thread, and answers from the old one meanwhile."""
    until = time.monotonic() + PATIENCE
    while (hits := asked(engine, "alpha", limit=99)).total != total:
        assert hits.total == len(hits.hits)
        assert time.monotonic() < until
        time.sleep(0.005)


def still_open(root: Path) -> Iterator[str]:
    """Files below a folder that this process holds open or mapped though they were removed."""
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            path = str(each.readlink())
            if path.startswith(str(root)) and path.endswith("(deleted)"):
                yield path
    for line in Path("/proc/self/maps").read_text().splitlines():
        if str(root) in line and line.endswith("(deleted)"):
            yield line


# -- claims


def test_claims_that_were_made_beside_replace_the_others_at_one_stroke(tmp_path: Path) -> None:
    with closing(Copies(str(tmp_path))) as copies, closing(Copies(str(tmp_path))) as elsewhere:
        copies.take([], [], Cursor(EPOCH, 1))
        with copies.anew() as fresh:
            assert fresh.cursor() is None
            fresh.take([], [], Cursor(EPOCH, 7))
            assert (copies.cursor(), elsewhere.cursor()) == (Cursor(EPOCH, 1), Cursor(EPOCH, 1))
            assert [path.name for path in tmp_path.iterdir()] == [FILE], "what is made beside has no name to be left"
            copies.become(fresh)
        assert (copies.cursor(), elsewhere.cursor()) == (Cursor(EPOCH, 7), Cursor(EPOCH, 7))
        elsewhere.take([], [], Cursor(EPOCH, 8))
        assert copies.cursor() == Cursor(EPOCH, 8)


def test_what_another_process_commits_is_seen_while_loops_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading them takes a second: a worker that answered from an empty view so long would refuse what others find."""
    with closing(TantivyEngine(str(tmp_path))) as index, closing(TantivyEngine(str(tmp_path))) as other:
        cursors = []

        def prepare() -> None:
            cursors.append(other.cursor())
            put(index, listing("0", "alpha"))
            cursors.append(other.cursor())

        monkeypatch.setattr(preparing, "prepare", prepare)
        other.hold()
        assert cursors == [None, index.cursor()]
        assert asked(other, "alpha").total == 1


def test_the_first_index_is_seen_at_once_by_who_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tantivy, "_PATIENCE", PATIENCE)
    with closing(TantivyEngine(str(tmp_path))) as index, closing(TantivyEngine(str(tmp_path))) as other:
        other.hold()
        assert other.cursor() is None
        with index.renewing() as fresh:
            put(fresh, listing("0", "alpha"))
            assert index.show(fresh)
        assert other.cursor() == index.cursor() is not None
        assert asked(other, "alpha").total == 1
