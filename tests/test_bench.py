"""Benchmarks on short chains: they compare what the program reports with what was mined, and resolvers with readers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import bench_resolver
from tests.bench.bench_million import measure
from tests.bench.bench_resolver import MOVED, PART, row
from tests.bench.long_chain import BLOCKS

ROWS = (
    "registrations in 500 blocks", "10/10", "indexer idle after it", "on disk: database", "search with all facets",
    "completions", "listing", "history", "proof", "changes", "reorganisation of 10: searchable", "first answer",
    "a2b status --recompute", "a2b export", "a2b import", "a2b rebuild",
)  # fmt: skip


@pytest.mark.timeout(900)
def test_the_benchmark_of_the_whole_program_runs_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measure(tmp_path, BLOCKS, requests=3)
    table = capsys.readouterr().out
    assert [row for row in ROWS if row not in table] == []


def test_several_readers_and_a_resolver_have_the_events_of_one_reader() -> None:
    registered = PART // 10
    events = bench_resolver.BLOCKS * registered + (bench_resolver.BLOCKS - 1) * int(MOVED * registered)
    assert row(10, readers=1, transactions=PART).split()[:4] == ["1", "in", "10", f"{events:,}"]
