"""Cards of any size and number are read for the index in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from overlay.listings import registrations
from overlay.listings.repository import ListingRepository
from overlay.projection import documents
from overlay.projection.documents import DocumentReader
from overlay.search.document import Document
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.indexing import Indexing

BIG = "x" * 2_000


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
    read: list[int] = []
    bodies_of = type(indexing.store.content).cards

    def counted(content: object, digests: set[bytes]) -> dict[bytes, bytes]:
        bodies = bodies_of(content, digests)  # type: ignore[arg-type]
        read.append(sum(map(len, bodies.values())))
        return bodies

    monkeypatch.setattr(type(indexing.store.content), "cards", counted)
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
