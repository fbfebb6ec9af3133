"""Snapshots for tests: a chain on which everything happens, its lines, and a database that takes them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from indexer.snapshot.codec import SnapshotError
from indexer.snapshot.exporter import export
from indexer.snapshot.importer import Report, import_snapshot
from indexer.store import Store, Writer, connect
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.indexing import Indexing

Line = dict[str, Any]


def exported(store: Store) -> bytes:
    file = io.BytesIO()
    export(store, file)
    return file.getvalue()


def parsed(text: bytes) -> list[Line]:
    return [json.loads(line) for line in text.splitlines()]


def dump(line: Line) -> bytes:
    """A line as the program writes it, but for the order of members, which a test leaves as it was."""
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def rewritten(answers: list[Line]) -> list[bytes]:
    return [dump(line) for line in answers]


class Empty:
    """A new database, ready to take over a snapshot."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = connect(url, importing=True)
        self.writer = Writer(self.engine)

    @property
    def store(self) -> Store:
        return Store(self.engine)

    def take(self, source: list[bytes] | Iterator[bytes], *, trust: bool = False) -> Report:
        return import_snapshot(source, self.store, self.writer, trust=trust)

    def refuses(self, source: list[bytes], *, trust: bool = False) -> str:
        with pytest.raises(SnapshotError) as caught:
            self.take(source, trust=trust)
        assert self.is_empty(), "something was left behind"
        return str(caught.value)

    def is_empty(self) -> bool:
        store = self.store
        return not store.chains() and not list(store.registrations.ids(None, 10)) and not store.outbox.newest_seq()

    def close(self) -> None:
        self.writer.close()
        self.engine.dispose()


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Empty]:
    result = Empty(f"sqlite:///{tmp_path}/copy.db")
    yield result
    result.close()


def story() -> ChainKit:
    """A chain on which everything happens at least once."""
    kit = ChainKit()
    first, second, third = kit.inscribe(agent("One")), kit.inscribe(agent("Two")), kit.inscribe(agent("Three"))
    kit.mine(first, second, third, kit.inscribe(agent("Two sats"), satoshis=2), kit.inscribe(b"{broken"))
    better = kit.update(first, agent("One, better"))
    moved = kit.move(second)
    kit.mine(better, moved, kit.point("agents.example"))
    broken = kit.update(better, b"{}")
    mapped = kit.map_only(moved, {"note": "new"})
    kit.mine(broken, mapped)
    kit.mine(kit.burn(third), kit.burn(mapped, to="fee"))
    kit.mine_empty(2)
    return kit


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def snapshot(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The story's snapshot."""
    with Indexing(f"sqlite:///{tmp_path_factory.mktemp('story')}/a2b.db", MemoryChain(*story().blocks)) as indexing:
        return exported((await indexing.catch_up()).store)


def change(answers: list[Line], key: str, number: int, edit: Callable[[Line], object]) -> list[bytes]:
    """The lines, with one of a kind edited."""
    result = [line for line in answers if key in line][number]
    edit(result[key])
    return rewritten(answers)


def events_of(answers: list[Line], kind: str) -> list[Line]:
    """The events of a kind, to be edited."""
    return [line["event"] for line in answers if "event" in line and line["event"]["kind"] == kind]


def proofs_of(answers: list[Line]) -> list[Line]:
    """The proofs, to be edited."""
    return [line["proof"] for line in answers if "proof" in line]
