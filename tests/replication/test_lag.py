"""Reads from a replica that lags: late, never wrong, and never older than an earlier answer."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from indexer.store import Store, StoreError, StoreUnavailableError, connect, unchecked
from overlay.api.changes_api import feed
from overlay.engines import IndexPosition
from overlay.listings.repository import ListingRepository
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from overlay.projection.unread_changes import pending_changes
from tests.contracts.listed import listing, put
from tests.indexing import Indexing
from tests.replication.conftest import Pair
from tests.replication.living import GrowingChain, Reader, shown
from tests.replication.servers import Server, caught_up, wait


@contextmanager
def reading(pair: Pair) -> Iterator[Store]:
    """A store that reads from the standby."""
    primary, standby = pair
    store = Store(connect(standby.url("registry"), replica=True), unchecked(primary.url("registry")))
    yield store
    store.close()


@contextmanager
def opened(url: str) -> Iterator[SearchIndex]:
    engine = SearchIndex(url)
    yield engine
    engine.close()


def hold(standby: Server) -> None:
    standby.ask("SELECT pg_wal_replay_pause()")
    wait(lambda: standby.ask("SELECT pg_get_wal_replay_pause_state()") == "paused", "replay pauses")


def resume(primary: Server, standby: Server) -> None:
    standby.ask("SELECT pg_wal_replay_resume()")
    caught_up(primary, standby)


async def test_a_lagging_replica_does_not_reset_its_readers(pair: Pair, tmp_path: Path) -> None:
    (primary, standby), growing = pair, GrowingChain()
    growing.mine(2)
    with Indexing(primary.url("registry"), growing.chain) as indexing:
        await indexing.catch_up()
        caught_up(primary, standby)
        with reading(pair) as replica, opened(f"native:{tmp_path}/own") as index:
            assert (replica.lag().seconds, replica.lag().changes) == (0, 0)
            IndexProjector(replica, index).run()
            assert shown(index) == growing.names
            hold(standby)
            before = growing.names
            growing.mine(3)
            await indexing.catch_up()
            # who has read all of the primary comes to a process that reads from the replica
            reader = Reader()
            reader.read(indexing.store)
            assert (reader.since, replica.outbox.newest_seq()) == (5, 2)
            reader.read(replica)
            assert (reader.since, reader.resets) == (5, 0)
            assert [row["seq"] for row in feed(ListingRepository(replica), 0, 9, reader.epoch)["changes"]] == [1, 2]
            assert replica.lag().changes == 3
            # an index that knows more than the replica waits for it, and one that does not goes no further
            with opened(f"native:{tmp_path}/ahead") as ahead:
                IndexProjector(indexing.store, ahead).run()
                assert IndexProjector(replica, ahead).step() == pending_changes(replica, ahead) == 0
                assert shown(ahead) == growing.names
            assert IndexProjector(replica, index).step() == 0
            assert shown(index) == before
            resume(primary, standby)
            IndexProjector(replica, index).run()
            assert shown(index) == growing.names
            assert replica.lag().changes == 0


async def test_what_a_lone_replica_cannot_know_it_does_not_say(pair: Pair, tmp_path: Path) -> None:
    (primary, standby), growing = pair, GrowingChain()
    growing.mine(2)
    with Indexing(primary.url("registry"), growing.chain) as indexing:
        await indexing.catch_up()
        caught_up(primary, standby)
    with reading(pair) as replica:
        primary.stop(signal.SIGINT)
        epoch = replica.outbox.epoch
        assert len(feed(ListingRepository(replica), 0, 9, epoch)["changes"]) == 2
        for since, of in ((3, epoch), (1, "another")):
            with pytest.raises(StoreUnavailableError):
                feed(ListingRepository(replica), since, 9, of)
        assert replica.lag().changes is None
        with opened(f"native:{tmp_path}/index") as engine:
            put(engine, listing("1", "alpha"))
            assert IndexProjector(replica, engine).step() == 0, (
                "the index may be of an epoch that the replica will hear of"
            )
            engine.replace([], [], IndexPosition(epoch, 9))
            assert IndexProjector(replica, engine).step() == 0
            standby.promote()
            assert IndexProjector(replica, engine).run() == 2, "what was promoted knows all there is"
            assert shown(engine) == growing.names
        with pytest.raises(StoreUnavailableError, match="cannot use the database"):
            connect(primary.url("registry"))


async def test_an_empty_replica_is_waited_for(pair: Pair) -> None:
    with pytest.raises(StoreError, match="the replica holds no registry yet"):
        connect(pair[1].url("registry"), replica=True)
