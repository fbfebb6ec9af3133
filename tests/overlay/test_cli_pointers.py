"""The `a2b` command and proofs about listings of pointers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.settings import Settings
from indexer.store import FetchState, Store, Writer, block_writer, chain_marks, connect, visits
from overlay.listings.repository import ListingRepository
from overlay.listings.stored_proofs import NoProofError
from tests.chain_records import due_locators
from tests.chainkit import ChainKit
from tests.facts import says
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.overlay.test_cli import Run, alone, run
from tests.pointer_facts import Clock, card, digest, points, serves

__all__ = ["alone", "run"]

ALPHA = card("Alpha")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """The database of the settings, with a card pointed at by forty strangers, that has changed since."""
    folder = tmp_path / "a2b-data"
    folder.mkdir()
    engine = connect(Settings.load({"data": str(folder)}).database)
    clock = Clock(1_700_000_000_000)
    writer = Writer(engine, clock)
    chain_marks.name_chain(writer, "demo", "demo:regtest")
    strangers = [points("a.example", b"%d" % n, f"stranger {n}", n) for n in range(1, 41)]
    block_writer.append(
        writer, "demo", [says("1", points("a.example", ALPHA), *strangers), says("2", points("b.example"))]
    )
    visits.record_fetch(writer, "a.example", serves(clock.tick(), ALPHA))
    visits.record_fetch(
        writer, "a.example", serves(clock.tick(), b"{}", state=FetchState.MISMATCH, reason="fetch-mismatch")
    )
    yield Store(engine)
    writer.close()
    engine.dispose()


def test_show_tells_what_a_pointed_at_card_was_held_to(store: Store, run: Run, tmp_path: Path) -> None:
    shown = run("show", "a.example", "--data", tmp_path / "a2b-data")
    assert shown.code == 0
    lines = [line.strip() for line in shown.out.splitlines()]
    assert "integrity drifted" in lines
    assert "domain    a.example (not verified, checked at 2023-11-14T22:13:22Z)" in lines
    assert f"drifted   serves {digest(b'{}').hex()} since 2023-11-14T22:13:22Z" in lines
    assert "fetched   https://a.example/.well-known/agent.json" in lines
    anchors = [line for line in lines if line.startswith("anchor")]
    assert len([line for line in anchors if line.endswith(", met")]) == 1
    assert (len(anchors), anchors[-1]) == (33, "anchor    and 9 more")


def test_history_of_a_pointer_names_every_hash(store: Store, run: Run, tmp_path: Path) -> None:
    lines = run("history", "a.example", "--data", tmp_path / "a2b-data").out.splitlines()
    assert lines[0] == f"2023-11-14T22:13:22Z  drifted  served {digest(b'{}').hex()} instead of the card"
    revisions = run("history", "a.example", "--data", tmp_path / "a2b-data", "--json").json["revisions"]
    assert {item["kind"] for item in revisions} == {"pointed"}
    assert revisions[-1]["cardSha256"] == digest(ALPHA).hex()
    assert len(revisions) == 41


def test_what_is_not_listed_yet_says_why(store: Store, run: Run, tmp_path: Path) -> None:
    shown = run("show", "b.example", "--data", tmp_path / "a2b-data")
    assert shown.code == 1
    assert "1 pointer to it, and its card has not been fetched yet" in shown.err
    assert run("history", "b.example", "--data", tmp_path / "a2b-data").code == 0


def test_status_shows_the_state_of_fetching(store: Store, run: Run, tmp_path: Path) -> None:
    shown = run("status", "--data", tmp_path / "a2b-data")
    assert "pointed at: 1 new, 1 mismatch" in shown.out.splitlines()
    assert run("status", "--data", tmp_path / "a2b-data", "--json").json["pointers"]["mismatch"] == 1


async def test_the_pointer_that_lists_a_card_is_proved(tmp_path: Path) -> None:
    kit = ChainKit()
    created = kit.point("a.example", digest(ALPHA))
    kit.mine(created)
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
        catalogue = ListingRepository(indexing.store)
        with pytest.raises(NoProofError, match="no block holds it yet"):
            catalogue.proof("a.example")
        (job,) = due_locators(indexing.store, 10**15, 1)
        visits.record_fetch(indexing.writer, "a.example", serves(job.next_at + 1, ALPHA))
        result = catalogue.proof("a.example")
        assert result.winner.outpoint == created
        assert result.winner.proved.proof.raw == kit.raw(created)
        assert result.winner.proved.ref.height == len(kit.blocks) - 1
        assert json.loads(catalogue.listing("a.example").card_body or b"")["name"] == "Alpha"
