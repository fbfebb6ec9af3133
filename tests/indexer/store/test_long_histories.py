"""Of a registration with very many revisions those are read that its listing needs, on every database."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest

from indexer.model import Event, EventKind
from indexer.store import Revision, Store, Writer, block_writer, contents, history
from tests.facts import born, moved, name, outpoint_of, says, state

MOST = 3
WITH_CARD = (EventKind.INSCRIBED, EventKind.REINSCRIBED)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_REVISIONS", MOST)


def needed(revisions: list[Revision]) -> list[Revision]:
    """The oracle: the newest revisions, the first, that which created it, and the last before the newest with a
    card."""
    if len(revisions) <= MOST:
        return revisions
    older, newest = revisions[:-MOST], revisions[-MOST:]
    created = next(past for past in revisions if past.height >= revisions[-1].event.state.created_height)
    with_card = [past for past in older if past.event.kind in WITH_CARD][-1:]
    return sorted(
        {id(past): past for past in (older[0], created, *with_card, *newest)}.values(),
        key=lambda past: (past.height, past.event.position),
    )


def revision(number: int, kind: EventKind, created: int) -> Event:
    """The revision `number` of the registration `a`, of a block of its own."""
    moved_there = moved("a", f"a{number - 1}" if number > 1 else "a", f"a{number}")
    return replace(moved_there, kind=kind, state=state("a", f"a{number}", created, created_height=created))


@pytest.mark.parametrize("chains", [("demo",), ("demo", "fork")])
def test_the_first_created_and_winning_revisions_are_read_besides_the_newest(
    store: Store, writer: Writer, chains: tuple[str, ...]
) -> None:
    kinds = [EventKind.REINSCRIBED, *[EventKind.MOVED] * 5]
    for chain in chains:
        block_writer.append(writer, chain, [says("0", chain=chain), says("1", born("a", height=1), chain=chain)])
        for number, kind in enumerate(kinds, 2):
            facts = says(str(number), revision(number, kind, 1), chain=chain)
            block_writer.append(writer, chain, [facts])
    id_ = str(outpoint_of("a"))
    read = store.history.with_pending([id_, str(outpoint_of("z"))])
    stored = store.history.of(id_)
    assert list(read) == [id_]
    assert read[id_].confirmed == [
        past for chain in chains for past in needed([past for past in stored if past.chain == chain])
    ]
    assert [past.height for past in read[id_].confirmed] == [1, 2, 5, 6, 7] * len(chains)


@pytest.mark.parametrize("start", [0, 900_000])
def test_a_reopened_account_has_the_revision_that_created_it(store: Store, writer: Writer, start: int) -> None:
    block_writer.append(writer, "demo", [says(str(start)), says(str(start + 1), born("a", height=start + 1))])
    for number in range(2, 9):
        event = revision(number, EventKind.MOVED, start + (1 if number < 4 else 4))
        block_writer.append(writer, "demo", [says(str(start + number), event)])
    read = store.history.with_pending([str(outpoint_of("a"))])[str(outpoint_of("a"))].confirmed
    assert read == needed(store.history.of(str(outpoint_of("a"))))
    assert [past.height - start for past in read] == [1, 4, 6, 7, 8]


def test_the_size_of_a_card_is_that_of_its_body(store: Store, writer: Writer) -> None:
    bodies = [b"", b"x" * 5_000, "é".encode()]
    contents.store_cards(writer, bodies)
    digests = [sha256(body).digest() for body in bodies]
    assert store.content.card_sizes([*digests, name("unknown")]) == dict(zip(digests, (0, 5_000, 2), strict=True))
