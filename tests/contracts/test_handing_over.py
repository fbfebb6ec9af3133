"""An index that several processes may feed, each with claims of its own: one does, and another takes over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from indexer.model import Event
from indexer.store import Store, Writer, block_writer, connect
from overlay.duplicates.duplicate_index import DuplicateIndex
from overlay.engines import BusyError
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from tests.contracts.listed import ask
from tests.facts import born, burned, says
from tests.pointer_facts import card, digest

SAME = card("Alpha")


@pytest.fixture
def engine_url(tmp_path: Path) -> str:
    """Of an engine whose right to feed is kept: with Whoosh, everybody feeds in turn."""
    return f"native:{tmp_path}/index"


class Machine:
    """A process with claims of its own, on an index that it shares with others."""

    def __init__(self, store: Store, url: str, folder: Path) -> None:
        self._ending = ExitStack()
        self.engine: SearchIndex = self._ending.enter_context(closing(SearchIndex(url)))
        self.duplicates = self._ending.enter_context(closing(DuplicateIndex(str(folder))))
        self.feed = IndexProjector(store, self.engine, self.duplicates)

    def begin(self) -> None:
        """Feed the index, and go on having the right to."""
        self.feed.run()
        position = self.engine.position()
        assert position is not None
        self.engine.replace([], [], position)

    def shown(self) -> dict[str, int]:
        """How many duplicates each listing that is found has, by the letter of its registration."""
        items = [json.loads(bytes(hit.item)) for hit in ask(self.engine, limit=100).hits]
        names = [bytes.fromhex(item["id"][:64])[::-1].rstrip(b"\0").decode() for item in items]
        return {name: item.get("duplicates", 0) for name, item in zip(names, items, strict=True)}

    def close(self) -> None:
        """The process ends."""
        self._ending.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(connect(f"sqlite:///{tmp_path}/a2b.db"))) as opened:
        yield opened


@pytest.fixture
def writer(store: Store) -> Iterator[Writer]:
    with closing(Writer(store.engine)) as opened:
        block_writer.append(
            opened, "demo", [says("0"), says("1", copy("a", 0), copy("b", 1), cards={digest(SAME): SAME})]
        )
        yield opened


def copy(name: str, position: int = 0, height: int = 1) -> Event:
    """A registration of the card that all have."""
    event = born(name, position, height)
    assert event.state is not None
    return replace(event, card=digest(SAME), state=replace(event.state, card=digest(SAME)))


def test_a_reader_with_a_complete_index_reads_no_text_keys(
    store: Store, writer: Writer, engine_url: str, tmp_path: Path
) -> None:
    with closing(Machine(store, engine_url, tmp_path / "1")) as one:
        one.begin()
        with closing(Machine(store, engine_url, tmp_path / "2")) as two:
            assert two.feed.step() == 0
            assert two.duplicates.position() is None
            block_writer.append(writer, "demo", [says("2", copy("c", height=2))])
            with pytest.raises(BusyError):
                two.feed.step()
            one.feed.run()
            assert [two.feed.step() for _ in range(2)] == [0, 0]
            assert two.shown() == {"a": 2}


def test_a_new_writer_continues_where_the_other_one_was_killed(
    store: Store, writer: Writer, engine_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before it announced what follows for others; its claims are lost with it."""
    with closing(Machine(store, engine_url, tmp_path / "2")) as two:
        with closing(Machine(store, engine_url, tmp_path / "1")) as one:
            one.begin()
            assert two.feed.step() == 0
            block_writer.append(
                writer, "demo", [says("2", copy("c", height=2)), says("3", burned("a", "a", "ashes", height=3))]
            )
            monkeypatch.setattr(one.duplicates, "queued", list)
            one.feed.run()
            assert one.shown() == {}, "the end of the first one is not announced yet"
        assert two.feed.step() == 0, "nothing new"
        block_writer.append(writer, "demo", [says("4", copy("d", height=4))])
        two.feed.run()
        assert two.shown() == {"b": 2}


def test_a_former_writer_continues_from_its_own_text_keys(
    store: Store, writer: Writer, engine_url: str, tmp_path: Path
) -> None:
    with closing(Machine(store, engine_url, tmp_path / "1")) as one:
        one.feed.run()
    with closing(Machine(store, engine_url, tmp_path / "2")) as two:
        block_writer.append(
            writer, "demo", [says("2", copy("c", height=2)), says("3", burned("a", "a", "ashes", height=3))]
        )
        two.feed.run()
        assert two.shown() == {"b": 1}
    with closing(Machine(store, engine_url, tmp_path / "1")) as one:
        block_writer.append(writer, "demo", [says("4", burned("b", "b", "dust", height=4))])
        one.feed.run()
        assert one.shown() == {"c": 0}
        assert one.duplicates.position() == one.engine.position()
