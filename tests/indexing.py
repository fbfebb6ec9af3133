"""An indexer for tests: a database and the followers of its chains, which can be thrown away and started again."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from indexer.chains import Chain
from indexer.model import UNCONFIRMED, RegistrationState
from indexer.state_hash import digest, state_hash
from indexer.store import Change, Store, Writer, connect
from indexer.store.source_store import SourceStore
from indexer.sync.follower import Follower
from parsers.bitcoin.tx import Outpoint
from tests import chain_records
from tests.chain_records import Record
from tests.databases import prepare_sqlite
from tests.oracles.anchors import Anchor


class Indexing:
    """An indexer that follows these chains into the database at `url`. Use it in a `with`; a restart keeps only the
    database."""

    def __init__(self, url: str, *chains: Chain) -> None:
        self.url, self.chains = prepare_sqlite(url), chains
        self._start()

    def _start(self) -> None:
        self.store = Store(connect(self.url))
        self.writer = Writer(self.store.engine)
        self.followers: list[Follower] = []

    def __enter__(self) -> Indexing:
        return self

    @property
    def source_store(self) -> SourceStore:
        """The store that sources use."""
        return SourceStore(self.writer)

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.writer.close()
        self.store.engine.dispose()

    def restart(self) -> None:
        """As if the process had ended and begun again."""
        self.__exit__()
        self._start()

    async def catch_up(self) -> Indexing:
        """Bring every chain to its tip, as the loop does with each news."""
        for follower in await self.open():
            await follower.catch_up()
        return self

    async def refresh(self) -> Indexing:
        """Bring every chain to its tip, and what is unconfirmed to its mempool."""
        for follower in await self.open():
            await follower.catch_up()
            await follower.refresh_mempool()
        return self

    async def open(self) -> list[Follower]:
        """The followers, connected."""
        if not self.followers:
            followers = [Follower(chain, self.store, self.writer) for chain in self.chains]
            for follower in followers:
                await follower.open()
            self.followers = followers
        return self.followers

    def records(self, chain: str = "demo") -> dict[str, list[Record]]:
        """Registrations, pointers and rejections in the sample chain's words."""
        return chain_records.everything(self.store, chain)

    def registration(self, id_: object, chain: str = "demo") -> Record:
        """One registration in the sample chain's words."""
        return next(item for item in chain_records.registrations(self.store, chain) if item["id"] == str(id_))

    def kinds(self, id_: object, chain: str = "demo") -> list[str]:
        """The kinds of a registration's revisions."""
        return [revision["kind"] for revision in self.registration(id_, chain)["revisions"]]

    def rejections(self, chain: str = "demo") -> list[tuple[str | None, str]]:
        """Each near miss and why."""
        return [(item["outpoint"], item["reason"]) for item in chain_records.rejected(self.store, chain)]

    def live(self, chain: str = "demo") -> set[str]:
        """The ids of live registrations."""
        return {item["id"] for item in chain_records.registrations(self.store, chain) if item["status"] == "live"}

    def hashes(self, heights: Iterable[int], chain: str = "demo") -> dict[int, str | None]:
        """The state hash at each of these heights."""
        return {height: state_hash(self.store, chain, height) for height in heights}

    def anchors(self, chain: str = "demo") -> list[Anchor]:
        """The anchors of the topic, in the oracle's words."""
        return [
            Anchor(item.height, item.block_hash[::-1].hex(), item.root[::-1].hex(), item.admitted, item.tac[::-1].hex())
            for item in self.store.topic_anchors.between(chain, 0, UNCONFIRMED)
        ]

    def changes(self) -> list[Change]:
        """The whole outbox."""
        return list(self.store.outbox.after(0, 1_000_000))

    def facts(self, chain: str = "demo") -> dict[str, Any]:
        """All that the store holds of a chain, row by row, but the outbox, which remembers what was reverted."""
        tip = self.store.blocks.newest(chain)
        heights = range(tip.height + 1) if tip else ()
        return {
            "blocks": [self.store.blocks.get(chain, height) for height in heights],
            "events": self.store.history.select(),
            "outpoints": sorted(live_outpoints(self.store, chain)),
            "hashes": self.hashes(heights, chain),
            "anchors": self.anchors(chain),
        }


def live_outpoints(store: Store, chain: str = "demo") -> list[Outpoint]:
    """Where the live registrations of a chain are."""
    newest = store.blocks.newest(chain)
    states = store.registrations.states(chain, newest.height) if newest else ()
    return [state.outpoint for state in states if state.outpoint]


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database of SQLite: copying it takes a tenth of the time of making its tables."""
    path = tmp_path_factory.mktemp("empty") / "a2b.db"
    with Indexing(f"sqlite:///{path}"):
        pass
    return path


@contextmanager
def fresh(empty: Path, *chains: Chain) -> Iterator[Indexing]:
    """An indexer that follows these chains into a database of its own, which is gone at the end."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(empty, f"{folder}/a2b.db")
        with Indexing(f"sqlite:///{folder}/a2b.db", *chains) as indexing:
            yield indexing


class Reader:
    """A reader of the outbox that keeps its own copy of the registrations, as the search index does."""

    def __init__(self, store: Store, chain: str = "demo") -> None:
        self.store, self.chain = store, chain
        self.seq = 0
        self.copy: dict[str, RegistrationState] = {}

    def read(self, limit: int = 1_000) -> None:
        """Take all news in, in batches: look up again what each names."""
        while news := self.store.outbox.after(self.seq, limit):
            assert [change.seq for change in news] == list(range(self.seq + 1, self.seq + 1 + len(news))), "a gap"
            self.seq = news[-1].seq
            for change in news:
                self._look(change)

    def _look(self, change: Change) -> None:
        history = [past for past in self.store.history.of(change.id) if past.chain == self.chain]
        if history:
            state = history[-1].event.state
            assert state is not None
            self.copy[change.id] = state
        else:
            self.copy.pop(change.id, None)

    def state_hash(self) -> str:
        """The state hash of the copy."""
        return digest(self.copy[id_] for id_ in sorted(self.copy))


def unconfirmed_ids(store: Store) -> list[str]:
    """The registrations that have unconfirmed events, sorted."""
    unconfirmed = (event for chain in store.chains() for event in store.pending.events(chain))
    return sorted({event.state.id for event in unconfirmed if event.state})
