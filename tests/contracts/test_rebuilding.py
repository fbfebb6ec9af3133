"""An index is made anew beside the one that answers, and takes its place at one stroke in all processes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from indexer.model import BlockFacts, Event
from indexer.store import Store, Writer, block_writer, connect
from overlay.duplicates.duplicate_index import DuplicateIndex
from overlay.engines import BusyError, EngineError, IndexPosition, Progress
from overlay.projection import projector
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from tests.conftest import ROOT
from tests.contracts.listed import EPOCH, count, ids, listing, matching_ids, put
from tests.contracts.listed import ask as search_hits
from tests.facts import born, burned, moved, says
from tests.opensearch_server import indexes
from tests.waiting import PATIENCE


@pytest.fixture
def index(engine: SearchIndex) -> SearchIndex:
    """An engine that holds two listings."""
    put(engine, listing("1", "alpha"), listing("2", "alpha"))
    return engine


@pytest.fixture
def other(index: SearchIndex, engine_url: str) -> Iterator[SearchIndex]:
    """The index as another process sees it."""
    with closing(SearchIndex(engine_url)) as opened:
        yield opened


def generations(url: str) -> int:
    """How many indexes there are, those that do not answer among them."""
    scheme, _, location = url.partition(":")
    if scheme == "opensearch":
        return indexes(url)
    return sum(path.is_dir() for path in Path(location).glob(f"{scheme}-*"))


def test_the_old_index_answers_until_the_new_one_does(index: SearchIndex, other: SearchIndex, engine_url: str) -> None:
    with index.rebuilding() as fresh:
        put(fresh, listing("3", "alpha"), listing("4", "omega"))
        for item in (index, other):
            assert (matching_ids(item, "alpha"), item.position()) == ({"1", "2"}, IndexPosition(EPOCH, 1))
        put(index, listing("5", "alpha"), seq=2)
        assert matching_ids(other, "alpha") == {"1", "2", "5"}, "the old one is fed meanwhile"
        assert not index.promote(fresh), "the new one has read less"
        assert matching_ids(other, "alpha") == {"1", "2", "5"}
        put(fresh, listing("5", "alpha"), seq=2)
        assert index.promote(fresh)
        for item in (index, other):
            assert (matching_ids(item, "alpha"), count(item)) == ({"3", "5"}, 3)
            assert matching_ids(item, "omega") == {"4"}
            assert item.position() == IndexPosition(EPOCH, 2)
            assert item.get("1") is None
    put(index, listing("6", "alpha"), seq=3)
    assert matching_ids(other, "alpha") == {"3", "5", "6"}
    assert generations(engine_url) == 1
    with closing(SearchIndex(engine_url)) as later:
        assert matching_ids(later, "alpha") == {"3", "5", "6"}


def test_what_is_not_shown_is_removed_and_the_old_index_stays(index: SearchIndex, engine_url: str) -> None:
    with index.rebuilding() as fresh:
        put(fresh, listing("3", "alpha"))
        assert generations(engine_url) == 2
    assert generations(engine_url) == 1
    renewing = index.rebuilding()
    put(renewing.__enter__(), listing("3", "alpha"))
    renewing.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert matching_ids(index, "alpha") == {"1", "2"}
    with index.rebuilding():
        index.report_progress(1, 2)
    with index.rebuilding():
        assert generations(engine_url) == 2, "what was left is removed with the next one"
        assert index.progress() is None, "nor does it say what another one said"
    assert generations(engine_url) == 1


def test_one_process_at_a_time_rebuilds_it(index: SearchIndex, other: SearchIndex, engine_url: str) -> None:
    with index.rebuilding():
        with pytest.raises(BusyError, match=r"another process \w+ the index"):
            other.rebuilding().__enter__()
        other.cleanup()
        assert generations(engine_url) == 2, "what another one is making is left alone"
    with other.rebuilding() as fresh:
        put(fresh, listing("3", "alpha"))
        assert other.promote(fresh)
    assert matching_ids(index, "alpha") == {"3"}


def test_only_what_was_made_beside_an_index_takes_its_place(index: SearchIndex, other: SearchIndex) -> None:
    with pytest.raises(EngineError, match="only a version that is being rebuilt"):
        index.promote(other)
    assert matching_ids(index, "alpha") == {"1", "2"}


def test_the_writer_of_the_old_index_continues_the_new_one_from_its_position(
    index: SearchIndex, other: SearchIndex
) -> None:
    """A writer that did not notice gets an error and must read again, so that no position goes back."""
    with other.rebuilding() as fresh:
        put(fresh, listing("3", "alpha"), seq=7)
        assert other.promote(fresh)
    until_it_is_not_busy(
        lambda: put(index, listing("4", "alpha"), seq=(index.position() or IndexPosition(EPOCH, 0)).seq + 1)
    )
    assert (matching_ids(other, "alpha"), other.position()) == ({"3", "4"}, IndexPosition(EPOCH, 8))


def until_it_is_not_busy(work: Callable[[], object]) -> None:
    """As those do who feed an index."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            work()
        except BusyError:
            assert time.monotonic() < until
            time.sleep(0.01)
        else:
            return


# -- carried from a store

COUNT = 23
"""Registrations: several batches of them."""


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projector, "BATCH", 5)


MEANWHILE = 7
"""Registrations that come while an index is made anew, the last ones while the others wait for them."""


class Asking:
    """Counts the listings of an index all the time, in a thread, until it is stopped."""

    def __init__(self, engine: SearchIndex) -> None:
        self._engine, self._stop = engine, threading.Event()
        self.totals: set[int] = set()
        self.looks = 0

    def run(self) -> None:
        """Ask, in each of the ways that there are."""
        while not self._stop.is_set():
            hits = search_hits(self._engine, limit=100, facets="type")
            assert len(ids(hits)) == hits.total
            counted = sum(count for _, count in (hits.facets or {}).get("type", ()))
            assert counted == hits.total
            self.totals |= {hits.total, count(self._engine)}
            self.looks += 1

    def stop(self) -> None:
        """Ask no more."""
        self._stop.set()


@contextmanager
def asking(*engines: SearchIndex) -> Iterator[list[Asking]]:
    """Ask all of these meanwhile."""
    askers = [Asking(engine) for engine in engines]
    with ThreadPoolExecutor(len(askers)) as pool:
        futures = [pool.submit(item.run) for item in askers]
        try:
            yield askers
        finally:
            for asker in askers:
                asker.stop()
        for future in futures:
            future.result()


def inscribed(name: str, position: int = 0, height: int = 1) -> tuple[Event, dict[bytes, bytes]]:
    """A registration with a card of its own."""
    messages = {"name": f"alpha {name}", "url": f"https://{name}.example", "skills": [{"id": name, "name": name}]}
    body = json.dumps(messages).encode()
    digest = sha256(body).digest()
    event = born(name, position, height)
    assert event.state is not None
    return replace(event, card=digest, state=replace(event.state, card=digest)), {digest: body}


def block(height: int, *names: str) -> BlockFacts:
    """A block of registrations."""
    created = [inscribed(name, position, height) for position, name in enumerate(names)]
    bodies = {digest: body for _, stored in created for digest, body in stored.items()}
    return says(f"{height}", *(event for event, _ in created), cards=bodies)


def filled(folder: Path, count: int) -> tuple[Store, Writer]:
    """A database of so many registrations."""
    engine = connect(f"sqlite:///{folder}")
    writer = Writer(engine)
    block_writer.append(writer, "demo", [says("0"), block(1, *(f"r{number:03}" for number in range(count)))])
    return Store(engine), writer


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[tuple[Store, Writer]]:
    store, writer = filled(tmp_path / "a2b.db", COUNT)
    yield store, writer
    writer.close()
    store.close()


@pytest.fixture
def duplicates(tmp_path: Path) -> Iterator[DuplicateIndex]:
    with closing(DuplicateIndex(str(tmp_path / "claims"))) as opened:
        yield opened


def test_searches_during_a_rebuild_find_everything(
    registry: tuple[Store, Writer], duplicates: DuplicateIndex, engine: SearchIndex, engine_url: str
) -> None:
    store, writer = registry
    answers: list[tuple[int, int]] = []
    with closing(SearchIndex(engine_url)) as other:
        feed = IndexProjector(store, engine, duplicates)
        feed.run()
        with asking(engine, other) as askers:

            def tell(done: int, of: int) -> None:
                answers.append((done, of))
                looks = [asker.looks for asker in askers]
                until_asked(askers, looks)
                assert engine.progress() == other.progress() == Progress(done, of), "all processes know it"

            assert feed.rebuild(tell) == COUNT
            until_asked(askers, [asker.looks for asker in askers])
        assert [asker.totals for asker in askers] == [{COUNT}, {COUNT}]
        assert answers[0] == (5, COUNT), "five make a batch"
        assert (COUNT, COUNT) in answers
        assert engine.progress() is other.progress() is None
        assert (
            engine.position()
            == other.position()
            == duplicates.position()
            == IndexPosition(store.outbox.epoch, store.outbox.newest_seq())
        )
        assert feed.step() == 0
        block_writer.append(writer, "demo", [block(2, "later")])
        until_it_is_not_busy(feed.run)
        assert count(other) == COUNT + 1
    assert generations(engine_url) == 1


def until_asked(askers: list[Asking], looks: list[int]) -> None:
    """Wait until each has asked once more, from the beginning to the end."""
    until = time.monotonic() + PATIENCE
    while any(asker.looks < before + 2 for asker, before in zip(askers, looks, strict=True)):
        assert time.monotonic() < until
        time.sleep(0.001)


def test_what_happens_meanwhile_is_seen_and_never_unseen(
    registry: tuple[Store, Writer], duplicates: DuplicateIndex, engine: SearchIndex, engine_url: str
) -> None:
    store, writer = registry
    with closing(SearchIndex(engine_url)) as elsewhere:
        feed = IndexProjector(store, engine, duplicates)
        feed.run()
        totals: list[int] = []
        came = 0

        def tell(*_: int) -> None:
            nonlocal came
            if came == MEANWHILE:
                return
            came += 1
            block_writer.append(writer, "demo", [block(came + 1, f"new{came}")])
            until_it_is_not_busy(feed_of(engine).run)
            totals.extend((count(engine), count(elsewhere)))

        def feed_of(fed: SearchIndex) -> IndexProjector:
            """Whoever feeds the one that answers, while another process makes it anew."""
            return IndexProjector(store, fed, duplicates)

        with closing(SearchIndex(engine_url)) as maker:
            IndexProjector(store, maker, duplicates).rebuild(tell)
        until_it_is_not_busy(feed.run)
        totals.extend((count(engine), count(elsewhere)))
    assert came == MEANWHILE
    assert totals == sorted(totals)
    assert totals[-1] == COUNT + came


def test_an_index_of_another_database_answers_until_there_is_one_of_this(
    registry: tuple[Store, Writer], tmp_path: Path, engine: SearchIndex, engine_url: str
) -> None:
    store, _ = registry
    other_store, other_writer = filled(tmp_path / "other.db", 2 * COUNT)
    with closing(SearchIndex(engine_url)) as other, closing(other_writer), closing(other_store):
        IndexProjector(store, engine).run()
        with asking(engine, other) as askers:
            until_asked(askers, [0, 0])
            assert IndexProjector(other_store, engine).step() == 2 * COUNT
            until_asked(askers, [asker.looks for asker in askers])
        assert [asker.totals for asker in askers] == [{COUNT, 2 * COUNT}] * 2
        assert engine.position() == IndexPosition(other_store.outbox.epoch, other_store.outbox.newest_seq())


def test_a_database_that_lost_changes_takes_its_index_back_with_it(
    registry: tuple[Store, Writer], duplicates: DuplicateIndex, engine: SearchIndex, engine_url: str
) -> None:
    """One restored from a backup has the same epoch, and fewer rows than the index has read."""
    store, _ = registry
    put(engine, *(listing(f"{number}", "alpha") for number in range(9)))
    engine.replace([], [], IndexPosition(store.outbox.epoch, 10 * COUNT))
    with closing(SearchIndex(engine_url)) as other, asking(engine, other) as askers:
        until_asked(askers, [0, 0])
        assert IndexProjector(store, engine, duplicates).run() == COUNT
        until_asked(askers, [asker.looks for asker in askers])
    assert [asker.totals for asker in askers] == [{9, COUNT}] * 2
    assert engine.position() == IndexPosition(store.outbox.epoch, store.outbox.newest_seq())


def test_an_index_that_was_lost_answers_nothing_or_all(
    registry: tuple[Store, Writer], duplicates: DuplicateIndex, engine: SearchIndex, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    store, _ = registry
    with asking(engine) as askers:
        assert IndexProjector(store, engine, duplicates).step(lambda _: until_asked(askers, [askers[0].looks])) == COUNT
        until_asked(askers, [askers[0].looks])
    assert askers[0].totals == {0, COUNT}
    assert "index: rebuilding, because it is empty or cannot be read" in caplog.text
    assert f"index: rebuilt from the store, {COUNT} registrations" in caplog.text


def test_broken_off_it_stays_as_it_was(
    registry: tuple[Store, Writer], duplicates: DuplicateIndex, engine: SearchIndex, engine_url: str
) -> None:
    store, _ = registry
    feed = IndexProjector(store, engine, duplicates)
    feed.run()
    before = engine.position(), duplicates.position()

    def stop(done: int, _: int) -> None:
        if done >= 15:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        feed.rebuild(stop)
    assert (engine.position(), duplicates.position()) == before
    assert (count(engine), generations(engine_url), engine.progress()) == (COUNT, 1, None)


def test_a_database_that_is_replaced_meanwhile_is_read_again(
    registry: tuple[Store, Writer], tmp_path: Path, engine: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = registry
    other_store, other_writer = filled(tmp_path / "other.db", 9)
    with closing(other_writer), closing(other_store):
        feed = IndexProjector(store, engine)
        feed.run()
        ours = store.engine

        def fail_over(done: int, _: int) -> None:
            if done == COUNT and store.engine is ours:
                for name, value in vars(other_store).items():
                    monkeypatch.setattr(store, name, value)

        assert feed.rebuild(fail_over) == 9
        assert engine.position() == IndexPosition(other_store.outbox.epoch, other_store.outbox.newest_seq())
        assert count(engine) == 9


def test_claims_that_were_not_exchanged_with_their_index_catch_up(
    registry: tuple[Store, Writer], duplicates: DuplicateIndex, engine: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a process leaves them that was killed between the one and the other."""
    store, writer = registry
    feed = IndexProjector(store, engine, duplicates)
    feed.run()
    before = duplicates.position()
    (event, bodies) = inscribed("r001")
    same = replace(born("copy", 0, height=2), card=event.card)
    assert same.state is not None
    same = replace(same, state=replace(same.state, card=event.card))
    block_writer.append(writer, "demo", [says("2", same, cards=bodies)])

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(duplicates, "copy_from", killed)
        with pytest.raises(KeyboardInterrupt):
            feed.rebuild()
    assert (duplicates.position(), engine.position()) == (
        before,
        IndexPosition(store.outbox.epoch, store.outbox.newest_seq()),
    )
    assert search_hits(engine, limit=100).total == COUNT, "of identical ones the first alone is found"
    feed.run()
    assert duplicates.position() == engine.position()
    block_writer.append(writer, "demo", [says("3", moved("r001", "r001", "gone", height=3))])
    block_writer.append(writer, "demo", [says("4", burned("r001", "gone", "ashes", height=4))])
    feed.run()
    assert str(same.outpoint) in ids(search_hits(engine, limit=100)), "the copy stands alone now"


# -- killed

MAKER = """
import sys
from contextlib import closing
from overlay.projection import projector
from overlay.duplicates.duplicate_index import DuplicateIndex
from overlay.projection.search_index import SearchIndex
from overlay.projection.projector import IndexProjector
from indexer.store import Store, connect
projector.BATCH = 5
with closing(SearchIndex(sys.argv[1])) as engine, closing(DuplicateIndex(sys.argv[3])) as duplicates:
    feed = IndexProjector(Store(connect(f"sqlite:///{sys.argv[2]}")), engine, duplicates)
    print("ready", flush=True)
    while True:
        print(feed.rebuild(), flush=True)
"""


@pytest.mark.parametrize("engine_url", ["native", "whoosh"], indirect=True)
def test_killed_at_any_instant_the_one_or_the_other_answers(
    registry: tuple[Store, Writer], duplicates: DuplicateIndex, engine: SearchIndex, engine_url: str, tmp_path: Path
) -> None:
    store, _ = registry
    IndexProjector(store, engine, duplicates).run()
    chance = random.Random(engine_url.partition(":")[0])
    for _ in range(4):
        command = [sys.executable, "-c", MAKER, engine_url, f"{tmp_path}/a2b.db", f"{tmp_path}/claims"]
        maker = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        assert maker.stdout is not None
        with asking(engine) as askers:
            assert maker.stdout.readline() == b"ready\n"
            time.sleep(chance.uniform(0, 0.4))
            os.kill(maker.pid, signal.SIGKILL)
            maker.stdout.close()
            maker.wait()
            until_asked(askers, [askers[0].looks])
        assert askers[0].totals == {COUNT}
        with closing(SearchIndex(engine_url)) as later:
            assert (count(later), len(matching_ids(later))) == (COUNT, COUNT)
            assert later.position() == IndexPosition(store.outbox.epoch, store.outbox.newest_seq())
            feed = IndexProjector(store, later, duplicates)
            until_it_is_not_busy(feed.run)
            until_tidy(later, engine_url)
            assert count(later) == COUNT
    with closing(SearchIndex(engine_url)) as later:
        assert IndexProjector(store, later, duplicates).rebuild() == COUNT


def until_tidy(engine: SearchIndex, url: str) -> None:
    """PostgreSQL notices after a while that a process was killed which held a right."""
    until = time.monotonic() + PATIENCE
    while True:
        engine.cleanup()
        if generations(url) == 1:
            return
        assert time.monotonic() < until
        time.sleep(0.05)


DYING = """
import os, signal, sys
from overlay.engines import index_versions
from tests.contracts import test_rebuilding as stories
def die(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
promote = index_versions.IndexVersions.promote
work = {
    "before": (index_versions.IndexVersions, "promote", die),
    "amid": (os, "replace", die),
    "shown": (index_versions.IndexVersions, "promote", lambda *given: die(promote(*given))),
    "after": (index_versions.IndexVersions, "_sweep", die),
}
engine = stories.SearchIndex(sys.argv[1])
with engine.rebuilding() as fresh:
    stories.put(fresh, stories.listing("3", "alpha"), seq=2)
    setattr(*work[sys.argv[2]])
    engine.promote(fresh)
"""


@pytest.mark.parametrize("engine_url", ["native", "whoosh"], indirect=True)
@pytest.mark.parametrize(
    ("when", "meant"), [("before", {"1", "2"}), ("amid", {"1", "2"}), ("shown", {"3"}), ("after", {"3"})]
)
def test_killed_at_each_step_of_the_exchange_one_whole_index_is_left(
    index: SearchIndex, other: SearchIndex, engine_url: str, when: str, meant: set[str]
) -> None:
    killed = subprocess.run([sys.executable, "-c", DYING, engine_url, when], cwd=ROOT, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert generations(engine_url) == 2
    with closing(SearchIndex(engine_url)) as later:
        assert matching_ids(later, "alpha") == meant
    for item in (index, other):
        assert matching_ids(item, "alpha") in (meant, {"1", "2"}), "those who have it open may not know of it"
    index.cleanup()
    assert matching_ids(index, "alpha") == meant
    assert generations(engine_url) == 1
    assert matching_ids(other, "alpha") == meant


# -- other processes

WATCHER = """
import sys
from overlay.projection.search_index import SearchIndex
from tests.contracts.listed import ask
engine = SearchIndex(sys.argv[1])
seen = None
while True:
    hits = ask(engine, "alpha", limit=50)
    assert hits.total == len(hits.hits)
    if hits.total != seen:
        seen = hits.total
        print(seen, flush=True)
"""


def test_another_process_goes_over_to_the_new_one_by_itself(index: SearchIndex, engine_url: str) -> None:
    watcher = subprocess.Popen([sys.executable, "-c", WATCHER, engine_url], cwd=ROOT, stdout=subprocess.PIPE)
    assert watcher.stdout is not None
    with ExitStack() as ending:
        ending.callback(watcher.wait)
        ending.callback(watcher.kill)
        ending.enter_context(watcher.stdout)
        assert watcher.stdout.readline() == b"2\n"
        for count in (7, 3, 11):
            with index.rebuilding() as fresh:
                for number in range(count):
                    put(fresh, listing(f"{number}", "alpha"), seq=number)
                put(fresh, seq=100 * count)
                while not index.promote(fresh):
                    put(fresh, seq=100 * count + 2_000)
            assert int(watcher.stdout.readline()) == count
    assert generations(engine_url) == 1
