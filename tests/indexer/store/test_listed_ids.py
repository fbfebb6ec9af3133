"""Ids in runs, as the sitemap lists them: each live one once, whatever the size of a run."""

from __future__ import annotations

import pytest

from indexer.store import Store, Writer, block_writer, chain_marks
from tests.facts import born, burned, moved, outpoint_of, says


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_the_runs_have_each_live_registration_once(store: Store, writer: Writer, size: int) -> None:
    for chain in ("demo", "other"):
        chain_marks.name_chain(writer, chain, f"{chain}:regtest")
    newcomers = [born(letter, position, 1) for position, letter in enumerate("abcde")]
    later = says("2", moved("a", "a", "x"), burned("b", "b", "y", 1))
    block_writer.append(writer, "demo", [says("0"), says("1", *newcomers), later])
    block_writer.append(writer, "other", [says("0", chain="other"), says("1", born("z", 0, 1), chain="other")])
    runs = store.listed_ids.runs(size)
    pages = [store.listed_ids.page(run, size) for run in runs]
    assert all(0 < len(page) <= size for page in pages)
    listed = [id_ for page in pages for id_ in page]
    assert sorted(listed) == sorted(str(outpoint_of(letter)) for letter in "acdez")


def test_there_are_no_runs_of_nothing(store: Store) -> None:
    assert store.listed_ids.runs(10) == []
