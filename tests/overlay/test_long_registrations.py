"""Cards of any size and number are read for the index in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from indexer import spill
from indexer.fetcher.domain_badges import BadgeQueue
from indexer.store import history
from overlay.duplicates.duplicate_index import DuplicateIndex
from overlay.engines import IndexPosition
from overlay.listings import registrations
from overlay.listings.card_texts import CACHED_CARD, read_card
from overlay.listings.repository import ListingRepository
from overlay.projection import documents
from overlay.projection.documents import DocumentReader
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from overlay.search.query import Query
from parsers.cards import Kind
from tests.chainkit import ChainKit, agent
from tests.chainkit_scripts import body_of
from tests.fakes import MemoryChain
from tests.indexing import Indexing

BIG = "x" * 2_000
NOW = 1_700_000_000_000


@pytest.fixture
def kit() -> ChainKit:
    return ChainKit(funds=100)


@pytest.fixture
def indexing(tmp_path: Path, kit: ChainKit) -> Iterator[Indexing]:
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", MemoryChain(*kit.blocks)) as created:
        yield created


def limit(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Let so many bytes of cards be in memory."""
    for module in (registrations, documents):
        monkeypatch.setattr(module, "CARD_BYTES", size)


def noted_reads(indexing: Indexing, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of cards of each later reading."""
    read: list[int] = []
    bodies_of = type(indexing.store.content).cards

    def counted(content: object, digests: set[bytes]) -> dict[bytes, bytes]:
        bodies = bodies_of(content, digests)  # type: ignore[arg-type]
        read.append(sum(map(len, bodies.values())))
        return bodies

    monkeypatch.setattr(type(indexing.store.content), "cards", counted)
    return read


def described(shown: Document) -> tuple[int | None, str]:
    return shown.from_height, json.loads(shown.item)["description"][:2]


async def test_registrations_that_are_read_in_portions_have_the_documents_of_all(
    indexing: Indexing, kit: ChainKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = [kit.inscribe(agent(f"Number {number}", description=BIG)) for number in range(7)]
    for one in created:
        indexing.chains[0].arrive(kit.mine(one))
    await indexing.catch_up()
    ids = [str(one) for one in created]
    expected = list(DocumentReader(indexing.store).documents(ids))
    read = noted_reads(indexing, monkeypatch)
    limit(monkeypatch, 5_000)
    assert list(DocumentReader(indexing.store).documents(ids)) == expected
    assert len(expected) == 7
    assert max(read) < 5_000 + 2_500
    assert len(read) == 3


async def test_states_whose_cards_do_not_fit_are_only_in_the_history(
    indexing: Indexing, kit: ChainKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    revisions = [kit.inscribe(agent(description=f"0 {BIG}"))]
    for number in range(1, 6):
        revisions.append(kit.update(revisions[-1], agent(description=f"{number} {BIG}")))
    heights = []
    for one in revisions:
        block = kit.mine(one)
        indexing.chains[0].arrive(block)
        heights.append(block.height)
    await indexing.catch_up()
    id_ = str(revisions[0])
    limit(monkeypatch, 7_500)  # three cards: the newest, the first, and the one before the newest
    shown = [described(one) for one in DocumentReader(indexing.store).documents([id_])]
    assert shown == [(heights[0], "0 "), (heights[4], "4 "), (heights[5], "5 ")]
    listed = ListingRepository(indexing.store).listings([id_])[id_]
    assert listed.card_body is not None
    assert json.loads(listed.card_body)["description"].startswith("5 ")
    assert len(indexing.store.history.of(id_)) == 6


async def test_histories_are_read_in_portions_of_few_revisions(
    indexing: Indexing, kit: ChainKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = []
    for number in range(6):
        outpoints = [kit.inscribe(agent(f"Number {number}"))]
        for _ in range(number):
            outpoints.append(kit.move(outpoints[-1]))
        indexing.chains[0].arrive(kit.mine(*outpoints))
        ids.append(str(outpoints[0]))
    await indexing.catch_up()
    store = indexing.store
    expected, documents_of_all = store.history.with_pending(ids), list(DocumentReader(store).documents(ids))
    monkeypatch.setattr(history, "REVISIONS_AT_ONCE", 6)
    portions = list(store.history.portions([*ids, "unknown"]))
    assert [some for some, _ in portions] == [ids[:3], ids[3:5], ids[5:], ["unknown"]]
    assert [sum(len(record.confirmed) for record in records.values()) for _, records in portions] == [6, 9, 6, 0]
    assert store.history.with_pending(ids) == expected
    assert list(DocumentReader(store).documents(ids)) == documents_of_all


class Commits(SearchIndex):
    """An index that notes the number of documents and the position of each commit."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.noted: list[tuple[int, int]] = []

    def replace(self, registrations: Sequence[str], documents: Iterable[Document], cursor: IndexPosition) -> None:
        number = count()
        super().replace(registrations, (one for one, _ in zip(documents, number, strict=False)), cursor)
        self.noted.append((next(number), cursor.seq))


@pytest.mark.parametrize("is_rebuilt", [False, True])
async def test_a_commit_has_few_large_cards_and_the_last_one_moves_the_position(
    indexing: Indexing, kit: ChainKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_rebuilt: bool
) -> None:
    limit(monkeypatch, 5_000)
    index = Commits(f"native:{tmp_path}/index")
    projecting = IndexProjector(indexing.store, index, DuplicateIndex(str(tmp_path)))
    if not is_rebuilt:
        projecting.run()
    created = [kit.inscribe(agent(f"Number {number}", description=f"{number} {BIG}")) for number in range(7)]
    indexing.chains[0].arrive(kit.mine(*created))
    await indexing.catch_up()
    index.noted.clear()
    if is_rebuilt:
        assert projecting.fill(lambda _: None) == 7
    else:
        projecting.run()
    with_documents = [(count, seq) for count, seq in index.noted if count]
    assert [count for count, _ in with_documents] == [3, 3, 1]
    newest = indexing.store.outbox.newest_seq()
    assert [seq < newest for _, seq in with_documents] == [True, True, is_rebuilt]
    assert index.position() == (indexing.store.outbox.epoch, newest)
    assert index.search(Query()).total == 7
    index.close()


async def test_a_large_card_that_moves_often_is_in_the_index_a_few_times(
    indexing: Indexing, kit: ChainKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    outpoints = [kit.inscribe(agent(description=f"0 {BIG}"))]
    for _ in range(9):
        outpoints.append(kit.move(outpoints[-1]))
    for one in outpoints:
        indexing.chains[0].arrive(kit.mine(one))
    await indexing.catch_up()
    id_ = str(outpoints[0])
    complete = list(DocumentReader(indexing.store).documents([id_]))
    limit(monkeypatch, 5_000)
    few = list(DocumentReader(indexing.store).documents([id_]))
    assert len(complete) == 10
    assert few == complete[-2:], "with the same seniority"


def test_only_small_cards_stay_in_memory_when_they_were_read() -> None:
    small, large = (body_of(agent(description="x" * size)) for size in (100, CACHED_CARD))
    assert read_card("", small, Kind.AGENT) is read_card("", small, Kind.AGENT)
    assert read_card("", large, Kind.AGENT) is not read_card("", large, Kind.AGENT)


async def test_few_large_cards_are_read_together_for_their_hosts(
    indexing: Indexing, kit: ChainKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = [kit.inscribe(agent(f"Number {number}", description=BIG)) for number in range(7)]
    indexing.chains[0].arrive(kit.mine(*created))
    await indexing.catch_up()
    monkeypatch.setattr(spill, "BYTES_AT_ONCE", 5_000)
    read = noted_reads(indexing, monkeypatch)
    queue = BadgeQueue(indexing.store, indexing.writer)
    while queue.step(NOW):
        pass
    assert max(read) < 5_000 + 2_500
    assert sum(read) > 7 * len(BIG)
    assert [due.target for due in indexing.store.checks.due(NOW, 10)] == ["echo.example"]
    assert indexing.store.badges.get(map(str, created)).keys() == set(map(str, created))
