"""Stored counts of a chain are those of now, or none."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.store import Store, Writer, block_writer, connect
from indexer.store.chain_counts import store_counts
from tests.facts import born, burned, near_miss, says


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    opened = Writer(connect(f"sqlite:///{tmp_path}/a2b.db"))
    yield opened
    opened.close()
    opened.engine.dispose()


@pytest.mark.parametrize("seed", range(3))
def test_stored_counts_are_those_of_now_or_none(writer: Writer, seed: int) -> None:
    store, dice, height, used = Store(writer.engine), random.Random(seed), 0, 0
    for _ in range(40):
        counted, mark = store.registrations.counts("demo"), store.chain_counts.mark("demo")
        assert store.chain_counts.get("demo") in (None, counted)
        used += store.chain_counts.get("demo") is not None
        chosen = dice.choice(("append", "append", "forget", "store", "store"))
        if chosen == "store":
            store_counts(writer, "demo", mark, counted)
            assert store.chain_counts.get("demo") == counted
        elif chosen == "forget" and height:
            height -= 1
            block_writer.forget(writer, "demo", height)
        else:
            height += 1
            named = f"r{height}"
            event = dice.choice((born(named, height=height), near_miss(f"n{height}"), burned(named, named, "x")))
            prev = f"{height - 1}" if height > 1 else ""
            block_writer.append(writer, "demo", [says(f"{height}", event, prev=prev)])
    assert used > 3
    assert store.chain_counts.get("other") is None
