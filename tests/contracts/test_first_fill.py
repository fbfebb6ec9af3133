"""A new index is filled by following the outbox: each batch is found at once, and each registration written once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from indexer.store import Store, Writer, block_writer
from overlay.duplicates.duplicate_index import DuplicateIndex
from overlay.engines import IndexContent, IndexPosition
from overlay.projection import projector
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from tests.contracts.listed import count, matching_ids
from tests.contracts.test_rebuilding import COUNT, block, filled, inscribed
from tests.facts import moved, says


@pytest.fixture(autouse=True)
def small_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projector, "BATCH", 5)
    monkeypatch.setattr(projector, "MOST_BATCHES", 1)
    monkeypatch.setattr(projector, "COUNT_PAUSE", 0)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[tuple[Store, Writer]]:
    store, writer = filled(tmp_path / "a2b.db", COUNT)
    yield store, writer
    writer.close()
    store.close()


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the current document of each registration was written to any index."""
    counted: Counter[str] = Counter()
    write = SearchIndex.replace

    def counting(
        index: SearchIndex, registrations: Sequence[str], documents: Iterable[Document], position: IndexPosition
    ) -> None:
        def documents_counted() -> Iterator[Document]:
            for document in documents:
                counted[document.id] += document.until_height is None
                yield document

        write(index, registrations, documents_counted(), position)

    monkeypatch.setattr(SearchIndex, "replace", counting)
    return counted


def grow(writer: Writer, height: int) -> None:
    """A block of a new registration, and one that moves another."""
    named = f"r{height:03}"
    event, _ = inscribed(named)
    assert event.state is not None
    change = moved(named, named, f"m{height}", height=height + 1)
    assert change.state is not None
    change = replace(change, state=replace(change.state, card=event.state.card))
    block_writer.append(writer, "demo", [block(height, f"new{height}"), says(f"{height + 1}", change)])


def test_each_batch_is_found_at_once_and_nothing_is_written_twice_while_the_store_grows(
    registry: tuple[Store, Writer], tmp_path: Path, engine: SearchIndex, written: Counter[str]
) -> None:
    store, writer = registry
    with closing(DuplicateIndex(str(tmp_path / "keys"))) as duplicates:
        feed = IndexProjector(store, engine, duplicates)
        feed.initialize()
        assert engine.position() == duplicates.position() == IndexPosition(store.outbox.epoch, 0)
        grow(writer, 2)
        assert feed.step() == 5
        assert count(engine) == 5
        grow(writer, 4)
        feed.run()
        assert count(engine) == COUNT + 2
        assert engine.position() == IndexPosition(store.outbox.epoch, store.outbox.newest_seq())
        assert sum(written.values()) == COUNT + 3, "one moved after it had been written, the other before"


def test_what_is_stored_during_a_rebuild_is_not_written_again_after_it(
    registry: tuple[Store, Writer], engine: SearchIndex, written: Counter[str]
) -> None:
    store, writer = registry
    feed, heights = IndexProjector(store, engine), iter((2, 4, 6))

    def tell(done: int, of: int) -> None:
        assert done <= of == store.registrations.count()
        if (height := next(heights, None)) is not None:
            block_writer.append(writer, "demo", [block(height, *(f"new{height}{letter}" for letter in "abcde"))])
            block_writer.append(writer, "demo", [says(f"{height + 1}")])

    feed.rebuild(tell)
    feed.run()
    assert count(engine) == COUNT + 15
    assert set(written.values()) == {1}


@pytest.mark.parametrize("seed", range(3))
def test_any_history_during_a_fill_with_kills_and_forks_gives_the_index_of_a_rebuild(
    seed: int, registry: tuple[Store, Writer], tmp_path: Path, engine: SearchIndex, engine_url: str
) -> None:
    store, writer = registry
    dice, height = random.Random(seed), 2
    with closing(DuplicateIndex(str(tmp_path / "keys"))) as duplicates:
        feed = IndexProjector(store, engine, duplicates)
        feed.initialize()
        for _ in range(12):
            chosen = dice.choice(("step", "step", "grow", "fork", "kill", "restart"))
            if chosen == "step":
                feed.step()
            elif chosen == "grow":
                grow(writer, height)
                height += 2
            elif chosen == "fork" and height > 2:
                height -= 2  # the moved one is where it was, the new one is gone
                block_writer.forget(writer, "demo", height - 1)
            elif chosen == "kill":
                with suppress(KeyboardInterrupt):  # nothing is left to do at times
                    feed.step(stopped)
            else:
                feed = IndexProjector(store, engine, duplicates)
                feed.initialize()
        feed.run()
        listed = matching_ids(engine)
    assert engine.position() == IndexPosition(store.outbox.epoch, store.outbox.newest_seq())
    assert len(listed) == count(engine) == COUNT + (height - 2) // 2
    with closing(SearchIndex(engine_url)) as other:
        IndexProjector(store, other).rebuild()
        assert matching_ids(other) == listed


def stopped(_: int) -> None:
    """End the work, as a signal does."""
    raise KeyboardInterrupt


def test_an_index_of_another_release_is_not_emptied(registry: tuple[Store, Writer], engine_url: str) -> None:
    store, _ = registry
    with closing(SearchIndex(engine_url, content=IndexContent("members", 0, ()))) as earlier:
        IndexProjector(store, earlier).run()
        assert count(earlier) == COUNT
        with closing(SearchIndex(engine_url)) as present:
            IndexProjector(store, present).initialize()
            assert present.is_outdated
        assert count(earlier) == COUNT
