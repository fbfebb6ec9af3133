"""The loops of `a2b up`, in this process: readiness, status, sources that fail and come back, who feeds the index."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from indexer.errors import SourceError
from indexer.model import BlockRef
from indexer.retries import Backoff
from indexer.store import Store, StoreError, StoreUnavailableError, Writer, chain_marks, connect
from indexer.sync.progress import SyncProgress
from overlay.api.counters import Counters
from overlay.app import status_service, supervision
from overlay.app.compilation import CompiledLoops
from overlay.app.runner import Runner
from overlay.app.status_service import StatusService
from overlay.app.storage import MissingError, in_configured_order, index_write_errors, open_index, open_store
from overlay.app.supervision import DATABASE_FAULTS, Supervisor
from overlay.app.workers import WorkerError, Workers, check_address_free
from overlay.engines import BusyError, EngineError, IndexPosition
from overlay.projection.projector import IndexProjector
from tests.chainkit import ChainKit, agent
from tests.contracts.listed import count
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.serving import new_app, running, settings
from tests.waiting import PATIENCE, until


def mined(count: int = 1) -> ChainKit:
    kit = ChainKit()
    for number in range(count):
        kit.mine(kit.inscribe(agent(f"Router {number}")))
    return kit


async def test_a_source_that_does_not_answer_at_first_gets_the_request_again(tmp_path: Path) -> None:
    chain = MemoryChain(*mined().blocks, name="live")

    async def refuse() -> None:
        chain.opened += 1
        if chain.down:
            await chain.tip()

    chain.opened, chain.open = 0, refuse  # type: ignore[attr-defined, method-assign]
    chain.down = "no route to the node"
    async with running(new_app(tmp_path, chain)) as (runner, _):
        progress = runner.status.progress
        await until(lambda: progress["live"].state == "unreachable")
        public = "the source does not answer; the log of this server says why"
        await until(lambda: runner.status.ready() == f"live is unreachable: {public}")
        assert runner.status.status()["chains"][0]["error"] == public
        assert progress["live"].error == "no route to the node"
        chain.down = ""
        await until(lambda: runner.status.ready() is None)
        assert progress["live"].height == 2
        assert "error" not in runner.status.status()["chains"][0]


class Unusable(MemoryChain):
    """A source that cannot be used as configured."""

    async def open(self) -> None:
        raise SourceError(f"{self.name}: the login is wrong")


async def test_a_chain_that_cannot_be_used_at_the_start_does_not_keep_others_from_being_followed(
    tmp_path: Path,
) -> None:
    chain = MemoryChain(*mined().blocks, name="live")
    async with running(new_app(tmp_path, Unusable(name="bad"), chain)) as (runner, task):
        progress = runner.status.progress
        await until(lambda: progress["live"].height == 2 and progress["bad"].state == "stopped")
        assert progress["bad"].error == "bad: the login is wrong"
        assert not task.done()
        public = "the source cannot be used; the log of this server says why"
        await until(lambda: runner.status.ready() == f"bad is stopped: {public}")


async def test_when_no_chain_can_be_used_at_the_start_the_process_ends_and_says_why(tmp_path: Path) -> None:
    async with running(new_app(tmp_path, Unusable(name="bad"), Unusable(name="worse"))) as (runner, task):
        with pytest.raises(SourceError, match="the login is wrong"):
            await asyncio.wait_for(asyncio.shield(task), PATIENCE)
        assert [item.state for item in runner.status.progress.values()] == ["stopped", "stopped"]


class SparseChain(MemoryChain):
    """A chain that gives only blocks with registrations."""

    sparse = True


async def test_a_thread_that_works_keeps_answers_waiting_for_less_than_usual(tmp_path: Path) -> None:
    usual = 0.005  # seconds: Python's own
    sys.setswitchinterval(usual)
    async with running(new_app(tmp_path, MemoryChain(*mined().blocks, name="live"))) as (runner, _):
        await until(lambda: runner.status.ready() is None)
        assert sys.getswitchinterval() < usual / 5


@pytest.mark.parametrize(("kind", "compiles"), [(MemoryChain, 1), (SparseChain, 0)])
async def test_loops_that_walk_blocks_are_compiled_where_there_are_blocks_to_walk(
    kind: type[MemoryChain], compiles: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []

    async def compile_in_subprocess(loops: CompiledLoops) -> None:
        compiled.append(loops.name)

    monkeypatch.setattr("overlay.app.chain_loops.compile_in_subprocess", compile_in_subprocess)
    async with running(new_app(tmp_path, kind(*mined().blocks, name="live"))) as (runner, _):
        await until(lambda: runner.status.ready() is None)
    assert compiled == ["blocks"] * compiles


async def test_a_network_without_a_name_is_called_by_its_reference(tmp_path: Path) -> None:
    chain = SparseChain(*mined().blocks, name="live")
    async with running(new_app(tmp_path, chain)) as (runner, _):
        for caip2, network in (("", None), ("bsv:mainnet", "mainnet"), ("eip155:8453", "8453")):
            runner.status.progress["live"].caip2 = caip2
            assert runner.status.status()["chains"][0]["network"] == network


async def test_a_source_that_fails_later_leaves_the_answers_standing(tmp_path: Path) -> None:
    chain = MemoryChain(*mined().blocks, name="live")
    async with running(new_app(tmp_path, chain)) as (runner, _):
        await until(lambda: runner.status.ready() is None)
        chain.down = "gone"
        chain.arrive()
        await until(lambda: runner.status.progress["live"].state == "unreachable")
        assert runner.status.ready() is None
        assert runner.status.heights() == {"live": 2}


async def deep_reorg(chain: MemoryChain, kit: ChainKit) -> None:
    block = kit["1"]
    for _ in range(5):
        block = kit.mine(parent=block)
    chain.arrive(*kit.blocks)


async def test_a_chain_that_must_be_looked_at_stops_while_the_answers_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.sync.agreement.STOP_SECONDS", 0.0)
    kit = mined(3)
    chain = MemoryChain(*kit.blocks, name="live", finality=1)
    async with running(new_app(tmp_path, chain)) as (runner, task):
        await until(lambda: runner.status.ready() is None)
        await deep_reorg(chain, kit)
        await until(lambda: runner.status.progress["live"].state == "stopped")
        assert not task.done()
        assert "?finality=" in runner.status.progress["live"].error


async def test_without_anything_to_serve_a_chain_that_stops_ends_the_process(tmp_path: Path) -> None:
    kit = mined(3)
    chain = MemoryChain(*kit.blocks, name="live")
    async with running(new_app(tmp_path, chain, serve=False)) as (runner, task):
        await until(lambda: runner.status.progress["live"].state == "following")

        async def refuse() -> BlockRef | None:
            raise SourceError("live: the password is wrong")

        chain.tip = refuse  # type: ignore[method-assign]
        chain.arrive()
        with pytest.raises(SourceError, match="the password is wrong"):
            await task


async def test_after_a_restart_it_is_ready_only_when_it_has_caught_up_again(tmp_path: Path) -> None:
    kit = mined()
    chain = MemoryChain(*kit.blocks, name="live")
    async with running(new_app(tmp_path, chain)) as (runner, _):
        await until(lambda: runner.status.ready() is None)
    kit.mine(kit.inscribe(agent("Newer")))
    waiting, opened = asyncio.Event(), chain.open

    async def slow() -> None:
        await waiting.wait()
        await opened()

    chain.open = slow  # type: ignore[method-assign]
    chain.arrive(*kit.blocks)
    async with running(new_app(tmp_path, chain)) as (runner, _):
        await until(lambda: runner.status.ready() == "live is starting: block 2 is indexed")
        assert runner.status.chains() == {"live": "bsv:regtest"}
        await until(lambda: runner.status.heights() == {"live": 2})
        waiting.set()
        await until(lambda: runner.status.ready() is None)
        assert runner.status.heights() == {"live": 3}


async def test_state_hashes_follow_each_tip(tmp_path: Path) -> None:
    kit = mined()
    chain = MemoryChain(*kit.blocks, name="live")
    async with running(new_app(tmp_path, chain)) as (runner, _):
        first = await until(lambda: runner.status.status()["stateHash"])
        assert first["live"]["height"] == 2
        kit.mine(kit.inscribe(agent("Newer")))
        chain.arrive(*kit.blocks)
        second = await until(lambda: (state_hash := runner.status.status()["stateHash"]) != first and state_hash)
        assert second["live"]["height"] == 3
        assert second["live"]["hash"] not in (None, first["live"]["hash"])


async def test_an_undecided_update_leaves_the_hash_unknown(tmp_path: Path) -> None:
    kit = ChainKit()
    listed = kit.inscribe(agent("Router"))
    kit.mine(listed)
    unknown = (kit.fund(), 1_000_000)
    chain = MemoryChain(*kit.blocks, name="live")
    stranger = kit.spend([unknown[0], listed], [(1_000_000, b"\x51"), (1, b"\x51")])
    chain.hidden.add(unknown[0])
    kit.mine(stranger)
    chain.arrive(*kit.blocks)
    async with running(new_app(tmp_path, chain)) as (runner, _):
        # the hash of a block can be stored before its follower has noted the block, whose counts come with that
        status = await until(lambda: (now := runner.status.status())["listings"]["undecided"] and now)
        assert status["listings"]["undecided"] == 1
        assert await until(lambda: runner.status.status()["stateHash"]) == {
            "live": {"height": 3, "hash": None, "pointers": None}
        }


async def test_only_one_of_two_processes_feeds_an_index_and_the_other_takes_over(tmp_path: Path) -> None:
    options = settings(tmp_path)
    chain = MemoryChain(*mined().blocks, name="live")
    (tmp_path / "data").mkdir()
    with Indexing(options.database, chain) as source:
        await source.catch_up()
        busy = open_index(options, create=True)
        IndexProjector(source.store, busy).run()
        busy.replace([], [], IndexPosition(source.store.outbox.epoch, source.store.outbox.newest_seq()))
        async with running(new_app(tmp_path, follow=False)) as (runner, task):
            await until(lambda: runner.status.ready() is None)
            with closing(open_index(options, create=False)) as third:
                with pytest.raises(BusyError):
                    third.replace([], [], IndexPosition(source.store.outbox.epoch, 1))
                assert IndexProjector(source.store, third).rebuild() == 1, "it is made beside the one that is fed"
            assert not task.done()


async def test_status_shows_the_progress_of_a_rebuild_by_another_process(tmp_path: Path) -> None:
    seen: list[dict[str, int] | None] = []

    def tell(*_: int) -> None:
        seen.append(runner.status.status()["index"].get("rebuilding"))

    async with running(new_app(tmp_path, MemoryChain(*mined(3).blocks, name="live"))) as (runner, _):
        await until(lambda: runner.status.ready() is None)
        with closing(open_index(settings(tmp_path), create=False)) as elsewhere:
            assert await asyncio.to_thread(IndexProjector(runner.context.store, elsewhere).rebuild, tell) == 3
        assert {"done": 3, "of": 3} in seen
        assert "rebuilding" not in runner.status.status()["index"]


def delete_segment(folder: Path) -> str:
    """Delete the only segment of an index; its name."""
    (segment,) = folder.rglob("*.segment")
    segment.unlink()
    return segment.name


async def test_status_names_a_damaged_segment_until_the_index_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, damages = MemoryChain(*mined(3).blocks, name="live"), list[str]()
    async with running(new_app(tmp_path, chain)) as (runner, _):
        await until(lambda: runner.status.ready() is None)
    name = delete_segment(tmp_path)
    real = IndexProjector.rebuild

    def rebuild(projector: IndexProjector, *progress: Any) -> int:
        damages.append(runner.status.status()["index"]["damage"])
        return real(projector, *progress)

    monkeypatch.setattr(IndexProjector, "rebuild", rebuild)
    async with running(new_app(tmp_path, chain)) as (runner, _):
        await until(lambda: damages and runner.status.ready() is None)
        assert damages == [f"{name} cannot be read (No such file or directory)"]
        assert "damage" not in runner.status.status()["index"]
        assert runner.context.engine is not None
        assert count(runner.context.engine) == 3


class Failing:
    """Loops that raise an error a few times, and then end."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.times, self.tried = error, times, Counter[str]()

    def loop(self, name: str) -> Callable[[], Coroutine[Any, Any, None]]:
        async def work() -> None:
            self.tried[name] += 1
            if self.tried[name] <= self.times:
                raise self.error

        return work


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "BACKOFF", Backoff(0.001, 0.004))


@pytest.mark.usefixtures("hasty")
async def test_all_that_wait_for_a_database_say_so_once_and_go_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing, counters = Failing(StoreUnavailableError("gone"), 4), Counters()
    supervisor = Supervisor(counters)
    await asyncio.gather(*(supervisor.keep_running(failing.loop(name)) for name in "abc"))
    assert failing.tried == Counter("abc" * 5)
    assert caplog.text.count("waiting for the database: gone") == 1
    assert counters.gauge(DATABASE_FAULTS) == 12
    monkeypatch.setattr(supervision, "WARNING_SECONDS", 0.0)
    await supervisor.keep_running(failing.loop("d"))
    assert caplog.text.count("waiting for the database: gone") == 5, "and again after a while"


READ_ERROR = OperationalError("SELECT", {}, Exception("no such column: subscriptions.config"))


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("error", [StoreError("cannot write: the disk is full"), READ_ERROR])
async def test_any_error_of_the_database_is_logged_and_counted_and_the_loop_started_again(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    failing, counters = Failing(error, 3), Counters()
    await Supervisor(counters).keep_running(partial(failing.loop("a")))
    assert (failing.tried["a"], counters.gauge(DATABASE_FAULTS)) == (4, 3)
    lines = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert [line.split(" in ")[1].split(" s,")[0] for line in lines] == ["0.001", "0.002", "0.004"]
    assert all("Failing.loop.<locals>.work is started again" in line for line in lines)
    assert all(str(error) in line for line in lines)


async def test_what_is_no_error_of_the_database_ends_a_loop() -> None:
    with pytest.raises(KeyError):
        await Supervisor(Counters()).keep_running(Failing(KeyError("a defect"), 1).loop("a"))


@pytest.mark.usefixtures("hasty")
async def test_a_process_in_which_every_loop_meets_a_broken_table_starts_and_goes_on(tmp_path: Path) -> None:
    """The tables that webhooks, ratings, rates, requests, payments and fetching use have lost a column."""
    broken = ("subscriptions", "deliveries", "ratings", "quotes", "requests", "locators", "badges", "logos")
    served = new_app(tmp_path, MemoryChain(*mined(2).blocks, name="live"))
    with served.store.engine.begin() as connection:
        for table in broken:
            connection.exec_driver_sql(f"ALTER TABLE {table} RENAME TO {table}_lost")
    async with running(served) as (runner, task):
        await until(lambda: served.counters.gauge(DATABASE_FAULTS) > 30)
        await until(lambda: runner.status.progress["live"].height == 3)
        assert not task.done()
        with served.store.engine.begin() as connection:
            for table in broken:
                connection.exec_driver_sql(f"ALTER TABLE {table}_lost RENAME TO {table}")
        await until(lambda: runner.status.ready() is None)
        assert not task.done()


async def test_another_chain_under_a_stored_name_is_waited_for_alone(tmp_path: Path) -> None:
    chain = MemoryChain(*mined().blocks, name="live")
    served = new_app(tmp_path, chain, MemoryChain(name="other"))
    assert served.writer is not None
    chain_marks.name_chain(served.writer, "other", "ltc:regtest")
    async with running(served) as (runner, task):
        await until(lambda: runner.status.progress["other"].state == "unreachable")
        await until(lambda: runner.status.progress["live"].height == 2)
        assert "holds ltc:regtest under the name 'other'" in runner.status.progress["other"].error
        assert not task.done()


async def test_an_empty_registry_is_answered_for_from_the_first_request_on(tmp_path: Path) -> None:
    served = new_app(tmp_path, follow=False)
    assert served.engine is not None
    seen: list[IndexPosition | None] = []

    def serving(_: str) -> None:
        seen.append(served.engine.position() if served.engine else None)

    runner = Runner(served, serving)
    task = asyncio.create_task(runner.run())
    await until(lambda: seen)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert seen == [IndexPosition(served.store.outbox.epoch, 0)]
    served.close()


async def test_a_ready_server_is_not_ready_while_the_index_is_lost(tmp_path: Path) -> None:
    async with running(new_app(tmp_path, MemoryChain(*mined(3).blocks, name="live"))) as (runner, _):
        await until(lambda: runner.status.ready() is None)
        engine = runner.context.engine
        assert engine is not None
        await asyncio.to_thread(engine.clear)
        assert runner.status.ready() == "the index was lost, and is being rebuilt"
        runner.context.notifier.notify()
        await until(lambda: runner.status.ready() is None)
        assert count(engine) == 3


async def test_a_ready_server_is_not_ready_while_the_index_stays_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load balancer must not send to a server whose index does not go on."""
    async with running(new_app(tmp_path, MemoryChain(*mined(3).blocks, name="live"))) as (runner, _):
        await until(lambda: runner.status.ready() is None)
        counted: list[int] = []
        monkeypatch.setattr(runner.status, "unread_changes", lambda: counted.append(3) or 3)
        assert runner.status.ready() is None
        assert (counted, runner.status.unread_count) == ([3], 3)
        monkeypatch.setattr(status_service, "MOST_SECONDS", 0)
        assert runner.status.ready() == "the index has not seen 3 changes, the first of them for 0 minutes"
        engine = runner.context.engine
        assert engine is not None
        with engine.rebuilding():
            engine.report_progress(1, 3)
            assert runner.status.ready() is None
        assert runner.status.ready() is not None
        monkeypatch.undo()
        assert runner.status.ready() is None
        assert runner.status.unread_changes() == 0


async def test_clients_and_chains_wait_as_the_index_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class GrowthRate:
        """An index that reads 40 changes in a second."""

        def add(self, _: int) -> None:
            pass

        def a_second(self) -> float:
            return 40.0

    monkeypatch.setattr(status_service, "GrowthRate", GrowthRate)
    served = new_app(tmp_path, MemoryChain(name="live"))
    status, engine = served.status, served.engine
    assert engine is not None
    for unread, seconds, overtaken in ((0, 5, False), (1_000, 25, False), (1_300, 32, True), (10**6, 3_600, True)):
        status.unread_count = unread
        assert (status.seconds_until_searchable(), status.is_index_overtaken()) == (seconds, overtaken)
    with engine.rebuilding():
        engine.report_progress(100, 900)
        status.look()
        assert (status.seconds_until_searchable(), status.is_index_overtaken()) == (20, False)
    status.look()
    status.unread_count, status.index_error = 10**6, "the disk is full"
    assert not status.is_index_overtaken(), "then it is followed all the same"
    served.close()


def test_heights_are_shown_only_once_the_index_has_them(tmp_path: Path) -> None:
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    service = StatusService(settings(tmp_path), Store(engine), None, "1")
    progress = SyncProgress("live", "bsv:regtest", "following", height=7, tip=9)
    service.follow(progress)
    assert service.heights() == {}
    service.publish({"live": 5})
    assert service.heights() == {"live": 5}
    assert service.status()["chains"][0]["lag"] == 2
    engine.dispose()


async def test_state_hashes_pause_however_often_changes_ask_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("overlay.app.status_service.HASH_PAUSE", 1e9)
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    service, hashed = StatusService(settings(tmp_path), Store(engine), None, "1"), list[str]()
    monkeypatch.setattr(service, "update_state_hash", hashed.append)
    for name in ("one", "two"):
        service.follow(SyncProgress(name, "bsv:regtest", "following", height=7, tip=7))
    first, second = await service.hash_tips(), await service.hash_tips()
    assert hashed == ["one"]
    assert first is not None
    assert second is not None
    assert 0 < second <= first
    engine.dispose()


async def test_a_state_hash_is_computed_again_in_another_run_of_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that took over lacks the last ones, and its follower is soon at the same tip."""
    monkeypatch.setattr("overlay.app.status_service.HASH_PAUSE", 0)
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    writer, hashed = Writer(engine), list[str]()
    service = StatusService(settings(tmp_path), Store(engine), None, "1", writer)
    monkeypatch.setattr(service, "update_state_hash", hashed.append)
    service.follow(SyncProgress("one", "bsv:regtest", "following", height=7, tip=7))
    assert [await service.hash_tips(), await service.hash_tips()][1] is None
    first = writer.run
    writer.connection.close()  # as where the server is gone
    with writer.transaction():
        assert writer.run != first
    await service.hash_tips()
    assert hashed == ["one", "one"]
    writer.close()
    engine.dispose()


def test_status_says_which_rules_of_headers_were_checked(tmp_path: Path) -> None:
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    service = StatusService(settings(tmp_path), Store(engine), None, "1")
    progress = SyncProgress("live", "bsv:regtest", "starting")
    service.follow(progress)
    assert "checked" not in service.status()["chains"][0], "not known before the source is open"
    progress.checked = "linkage, proof of work"
    assert service.status()["chains"][0]["checked"] == "linkage, proof of work"
    engine.dispose()


def test_chains_stand_in_configured_order_and_then_by_name(tmp_path: Path) -> None:
    options = settings(tmp_path, chains="z=files:/z b=files:/b")
    assert list(in_configured_order(options, {"a": "1", "b": "2", "c": "3", "z": "4"})) == ["z", "b", "a", "c"]


def test_what_a_disk_refuses_names_the_index_and_mistakes_stay_mistakes(tmp_path: Path) -> None:
    def failing(error: Exception) -> None:
        with index_write_errors(settings(tmp_path)):
            raise error

    with pytest.raises(EngineError, match=r"cannot write the index native:.*: No space left on device"):
        failing(OSError(28, "No space left on device"))
    with pytest.raises(ValueError, match="our mistake"):
        failing(ValueError("our mistake"))


def test_asking_makes_nothing(tmp_path: Path) -> None:
    for ask in (open_store, open_index):
        with pytest.raises(MissingError):
            ask(settings(tmp_path), create=False)
    assert not list(tmp_path.iterdir())


async def test_a_group_of_one_has_nobody_to_watch() -> None:
    group = Workers(1)
    assert (group.is_first, group.is_shared, group.children) == (True, False, [])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(group.watch(), 0.8)
    group.stop()


@pytest.fixture
def deaf() -> Iterator[Workers]:
    """A group with a child that does not hear SIGTERM."""
    child = subprocess.Popen(
        ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    with child.stdout as stdout:
        assert stdout.readline() == b"deaf\n"
    group = Workers(1)
    group.children = [child.pid]
    yield group
    child.returncode = 0  # the group has waited for it, or the test fails
    assert not Path(f"/proc/{child.pid}").exists()


def test_a_worker_that_does_not_end_is_killed(deaf: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overlay.app.workers.STOP_SECONDS", 0.5)
    deaf.stop()
    assert deaf.children == []


def test_a_process_that_leaves_its_threads_behind_leaves_no_worker_behind(deaf: Workers) -> None:
    deaf.terminate()
    leaving = threading.Thread(target=deaf.kill)
    leaving.start()
    leaving.join(PATIENCE)
    assert deaf.children == []
    deaf.stop()


class Timer:
    """A timer that would leave this process, had it not ended by then."""

    daemon = False

    def __init__(self, _seconds: float, leave: Callable[[], None]) -> None:
        self.leave = leave

    def start(self) -> None:
        """Time stands still in this test."""


async def test_other_processes_get_a_signal_at_once_and_all_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[str] = []
    timers: list[Timer] = []

    def timer(seconds: float, leave: Callable[[], None]) -> Timer:
        timers.append(Timer(seconds, leave))
        return timers[-1]

    monkeypatch.setattr("overlay.app.runner.threading.Timer", timer)
    here = new_app(tmp_path, MemoryChain(*mined().blocks, name="live"))
    runner = Runner(here, on_signal=lambda: answers.append("ending"), on_exit=lambda: answers.append("leaving"))
    task = asyncio.create_task(runner.run())
    try:
        await until(lambda: runner.status.ready() is None)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(task, PATIENCE)
    finally:
        here.close()
    assert answers == ["ending"]
    monkeypatch.setattr("overlay.app.runner.os._exit", lambda code: answers.append(f"exit {code}"))
    timers[0].leave()
    assert answers == ["ending", "leaving", "exit 0"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_workers_do_not_join_those_of_somebody_else(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind((host, 0))
        port = taken.getsockname()[1]
        taken.listen()
        with pytest.raises(WorkerError, match=f"cannot serve on {host} port {port}: Address already in use"):
            check_address_free(host, port)
    check_address_free(host, port)


async def test_a_worker_that_dies_ends_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Workers(1)
    group.children = [4242]
    monkeypatch.setattr("overlay.app.workers.os.waitpid", lambda pid, _: (pid, 9))
    with pytest.raises(WorkerError, match="a worker was ended by SIGKILL, so all of them end"):
        await group.watch()
    assert group.children == []


async def test_a_serving_process_shows_heights_once_its_index_has_them_and_of_empty_blocks_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit, held = mined(3), threading.Event()
    step = IndexProjector.step

    def waits(feed: IndexProjector, progress: Callable[[int], None] = lambda _: None) -> int:
        assert held.wait(PATIENCE)
        return step(feed, progress)

    monkeypatch.setattr(IndexProjector, "step", waits)
    chain = MemoryChain(*kit.blocks, name="live")
    (tmp_path / "data").mkdir()
    with Indexing(settings(tmp_path).database, chain) as source:
        await source.catch_up()
        async with running(new_app(tmp_path, follow=False)) as (runner, _):
            await until(lambda: runner.status.chains() == {"live": "bsv:regtest"})
            assert runner.status.heights() == {}, "the index is empty yet"
            assert runner.status.ready() == "the index has not seen 3 changes"
            held.set()
            await until(lambda: runner.status.heights() == {"live": 4})
            kit.mine()
            chain.arrive(*kit.blocks)
            await source.catch_up()
            await until(lambda: runner.status.heights() == {"live": 5})
