"""Large merges beside the commits: nothing that is committed meanwhile is lost, whatever happens to the merge."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from errno import ENOSPC
from pathlib import Path
from random import Random

import pytest

from overlay.engines import IndexPosition
from overlay.engines.change_counter import ChangeCounter
from overlay.engines.native import NativeEngine, manifest
from overlay.engines.native.manifest import SegmentEntry
from overlay.engines.native.segment import Segment
from overlay.engines.native.writing import joined
from overlay.search.query import Query
from tests.contracts.listed import listing
from tests.overlay.engines.native import damaging
from tests.waiting import PATIENCE

WORDS = ("alpha", "beta", "gamma")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of more than four documents are merged in the background."""
    monkeypatch.setattr("overlay.engines.native.writing.AT_ONCE", 4)
    monkeypatch.setattr("overlay.engines.native.writing.SMALL", 2)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[NativeEngine]:
    opened = NativeEngine(tmp_path, make=True)
    yield opened
    opened.close()


class Held:
    """A merge that has read its sources, and does not go on until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.released = threading.Event(), threading.Event()
        monkeypatch.setattr("overlay.engines.native.joined", self)

    def __call__(self, folder: Path, name: str, sources: Sequence[Segment]) -> SegmentEntry:
        entry = joined(folder, name, sources)
        self.begun.set()
        assert self.released.wait(PATIENCE)
        return entry


def put(engine: NativeEngine, seq: int, word: str, *ids: str) -> None:
    engine.write(ids, [listing(id_, word) for id_ in ids], IndexPosition("e", seq))


def ids_with(engine: NativeEngine, word: str) -> set[str]:
    return {hit.record.id for hit in damaging.searched(engine, Query(text=word)).rows}


def segments(engine: NativeEngine) -> list[tuple[int, int]]:
    published = manifest.read(engine.folder)
    assert published is not None
    return [(entry.documents, entry.deleted) for entry in published.segments]


def test_commits_during_a_merge_hold_afterwards(engine: NativeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    merge = Held(monkeypatch)
    put(engine, 1, "alpha", *"abcd")
    put(engine, 2, "alpha", *"efgh")
    assert merge.begun.wait(PATIENCE)
    assert segments(engine) == [(4, 0), (4, 0)]
    put(engine, 3, "beta", "a")
    engine.write(["f"], [], IndexPosition("e", 4))
    assert ids_with(engine, "alpha") == set("bcdegh")
    merge.released.set()
    engine.jobs.wait()
    assert (ids_with(engine, "alpha"), ids_with(engine, "beta")) == (set("bcdegh"), {"a"})
    assert segments(engine) == [(8, 2), (1, 0)]
    assert engine.position() == IndexPosition("e", 4)
    assert engine.terms().frequency("alpha") == 6
    reader = NativeEngine(engine.folder, make=False)
    assert ids_with(reader, "alpha") == set("bcdegh")
    reader.close()


def test_a_merge_begins_after_the_commit_that_is_under_way(
    engine: NativeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit removes files that it does not name, such as the new one of a merge."""
    merge, sweep = Held(monkeypatch), manifest.sweep
    merge.released.set()

    def at_the_end_of_a_commit(folder: Path, published: manifest.Manifest, unpublished: Sequence[str] = ()) -> None:
        if not merge.begun.is_set():
            engine.jobs.start()
            assert not merge.begun.wait(0.2)
        sweep(folder, published, unpublished)

    put(engine, 1, "alpha", *"abcd")
    engine.jobs.wait()
    monkeypatch.setattr(manifest, "sweep", at_the_end_of_a_commit)
    put(engine, 2, "alpha", *"efgh")
    engine.jobs.wait()
    assert segments(engine) == [(8, 0)]
    assert ids_with(engine, "alpha") == set("abcdefgh")


def test_an_index_that_was_filled_is_one_segment(engine: NativeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overlay.engines.native.writing.FILLED", 3)
    ids = [f"{number:02}" for number in range(20)]
    for number in range(0, 20, 2):
        put(engine, 0, "alpha", *ids[number : number + 2])
        assert len(segments(engine)) <= 3
    put(engine, 0, "beta", "03")
    assert engine.jobs.thread is None
    engine.write([], [], IndexPosition("e", 7))
    assert segments(engine) == [(20, 0)]
    assert (ids_with(engine, "beta"), engine.terms().frequency("alpha")) == ({"03"}, 19)
    put(engine, 8, "beta", "05")
    assert segments(engine) == [(20, 1), (1, 0)]


def test_a_merge_of_what_was_removed_meanwhile_adds_nothing(
    engine: NativeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge = Held(monkeypatch)
    put(engine, 1, "alpha", *"abcd")
    put(engine, 2, "alpha", *"efgh")
    assert merge.begun.wait(PATIENCE)
    engine.write(None, [listing("z", "beta")], IndexPosition("e", 3))
    merge.released.set()
    engine.jobs.wait()
    assert (ids_with(engine, "alpha"), ids_with(engine, "beta")) == (set(), {"z"})
    assert segments(engine) == [(1, 0)]
    assert len(list(engine.folder.glob("*.segment"))) == 1


def test_closing_abandons_a_merge_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overlay.engines.native.background_jobs.CLOSE_SECONDS", 0.05)
    merge = Held(monkeypatch)
    engine = NativeEngine(tmp_path, make=True)
    put(engine, 1, "alpha", *"abcd")
    put(engine, 2, "alpha", *"efgh")
    assert merge.begun.wait(PATIENCE)
    thread = engine.jobs.thread
    engine.close()
    before = manifest.read(tmp_path)
    merge.released.set()
    assert thread is not None
    thread.join()
    assert manifest.read(tmp_path) == before
    assert len(list(tmp_path.glob("*.segment"))) == 3
    again = NativeEngine(tmp_path, make=True)
    put(again, 3, "beta", "a")
    again.jobs.wait()
    assert ids_with(again, "alpha") == set("bcdefgh")
    assert segments(again) == [(7, 0), (1, 0)]
    assert len(list(tmp_path.glob("*.segment"))) == 2
    again.close()


def test_a_merge_reads_no_damaged_segment(engine: NativeEngine) -> None:
    put(engine, 1, "alpha", *"abcd")
    entry = damaging.largest(engine.folder)
    damaging.flip(manifest.segment_path(engine.folder, entry.name), "item")
    put(engine, 2, "beta", *"efgh")
    engine.jobs.wait()
    assert engine.damage() == f"{entry.name}.segment is damaged: the CRC-32C of item differs"
    assert engine.position() is None
    assert ids_with(engine, "beta") == set("efgh")


def test_a_merge_that_fails_for_a_full_disk_is_made_later(
    engine: NativeEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> SegmentEntry:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr("overlay.engines.native.joined", full)
    put(engine, 1, "alpha", *"abcd")
    put(engine, 2, "alpha", *"efgh")
    engine.jobs.wait()
    assert f"work on the index in {engine.folder} is put off" in caplog.text
    monkeypatch.setattr("overlay.engines.native.joined", joined)
    put(engine, 3, "alpha", "i")
    engine.jobs.wait()
    assert segments(engine) == [(4, 0), (4, 0), (1, 0)]
    engine.retry_at -= 60
    put(engine, 4, "alpha", "j")
    engine.jobs.wait()
    assert segments(engine) == [(8, 0), (2, 0)]
    assert ids_with(engine, "alpha") == set("abcdefghij")


def test_a_writer_that_opens_a_folder_lets_readers_look_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = NativeEngine(tmp_path, make=True)
    put(engine, 1, "alpha", "a")
    reader = NativeEngine(tmp_path, make=False)
    with monkeypatch.context() as patch:
        patch.setattr(ChangeCounter, "increase", lambda _: None)  # as if the writer had been killed before it
        put(engine, 2, "beta", "b")
    engine.close()
    assert ids_with(reader, "beta") == set()
    writer = NativeEngine(tmp_path, make=True)
    writer.write([], [], IndexPosition("e", 2))
    assert ids_with(reader, "beta") == {"b"}
    for opened in (reader, writer):
        opened.close()


@pytest.mark.parametrize("seed", range(4))
def test_any_commits_beside_merges_are_found_as_in_a_dictionary(engine: NativeEngine, seed: int) -> None:
    chance, model = Random(seed), dict[str, str]()
    for seq in range(1, 60):
        word, ids = chance.choice(WORDS), {str(chance.randrange(18)) for _ in range(chance.choice((1, 1, 2, 5)))}
        removed = {str(chance.randrange(18)) for _ in range(chance.randrange(3))} - ids
        engine.write([*ids, *removed], [listing(id_, word) for id_ in ids], IndexPosition("e", seq))
        model = {id_: text for id_, text in model.items() if id_ not in removed} | dict.fromkeys(ids, word)
        for word in WORDS:
            expected = {id_ for id_, text in model.items() if text == word}
            assert ids_with(engine, word) == expected
            assert engine.terms().frequency(word) == len(expected)
    engine.jobs.wait()
    assert sum(documents - deleted for documents, deleted in segments(engine)) == len(model)
