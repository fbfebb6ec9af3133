"""Snapshots hold what was pointed at, and not what was fetched: whoever takes one over fetches for themselves."""

from __future__ import annotations

import io
from pathlib import Path

from indexer.snapshot import exporter
from indexer.snapshot.importer import import_snapshot
from indexer.store import Store, Writer, connect, visits
from parsers.cards import Kind
from tests.chain_records import due_locators
from tests.chainkit import ChainKit
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.pointer_facts import card, digest, serves

ALPHA = card("Alpha")


async def test_pointers_are_imported_and_fetched_again(tmp_path: Path) -> None:
    kit = ChainKit()
    kit.mine(kit.point("a.example", digest(ALPHA)), kit.point("not a domain", digest(ALPHA)))
    tool = kit.map_only(kit.pay(), {"app": "x", "type": "a2b-mcp", "uri": "https://b.example/tool.json"})
    kit.mine(tool)
    with Indexing(f"sqlite:///{tmp_path}/copy.db", MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
        visits.record_fetch(indexing.writer, "a.example", serves(10**15, ALPHA))
        file = io.BytesIO()
        exporter.export(indexing.store, file)
        ids = ["a.example", "https://b.example/tool.json"]
        expected = indexing.store.pointers.anchors(ids)
    taken = Store(connect(f"sqlite:///{tmp_path}/taken.db", importing=True))
    writer = Writer(taken.engine, lambda: 5.0)
    import_snapshot(file.getvalue().splitlines(keepends=True), taken, writer)
    writer.close()
    anchors = taken.pointers.anchors(ids)
    assert {anchor.kind for item in anchors.values() for anchor in item.anchors} == {Kind.AGENT, Kind.TOOL}
    assert {anchor.seen_at for item in anchors.values() for anchor in item.anchors} == {5_000}
    for id_ in ids:
        of = [(anchor.chain, anchor.position, anchor.digest, anchor.locator) for anchor in expected[id_].anchors]
        assert [(anchor.chain, anchor.position, anchor.digest, anchor.locator) for anchor in anchors[id_].anchors] == of
    assert [job.locator for job in due_locators(taken, 5_000, 10)] == ids
    assert taken.pointers.facts(ids) == {}
    assert taken.content.cards([digest(ALPHA)]) == {}
    taken.engine.dispose()
