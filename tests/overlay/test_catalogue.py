"""The listings of the store: when they were made."""

from __future__ import annotations

import json
from pathlib import Path

from indexer.model import Status
from indexer.store import Store, Writer, block_writer, chain_marks, connect
from overlay.listings.repository import ListingRepository
from overlay.projection.documents import DocumentReader
from tests.facts import CARD, born, burned, outpoint_of, says
from tests.pointer_facts import card


def test_an_account_that_is_opened_again_was_made_then(tmp_path: Path) -> None:
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    store, writer = Store(engine), Writer(engine)
    chain_marks.name_chain(writer, "demo", "solana:x")
    bodies = {CARD: card("Alpha")}
    block_writer.append(
        writer, "demo", [says("1", born("a", height=1), cards=bodies), says("2", burned("a", "a", "gone"))]
    )
    catalogue = ListingRepository(store)
    first = catalogue.listing(str(outpoint_of("a")))
    assert first is not None
    assert first.state.status is Status.BURNED
    block_writer.append(writer, "demo", [says("3"), says("4", born("a", height=4))])
    again = catalogue.listing(str(outpoint_of("a")))
    assert again is not None
    assert (again.state.created_height, again.created_time) == (4, 1_700_000_004)
    [document] = [
        item for item in DocumentReader(store).documents([str(outpoint_of("a"))]) if item.until_height is None
    ]
    assert (document.created_height, document.created_time) == (4, 1_700_000_004)
    assert json.loads(document.item)["createdHeight"] == 4
    writer.close()
    engine.dispose()
