"""Every benchmark, one after the other: `python -m tests.bench`. A quarter of an hour; leave the machine alone."""

from __future__ import annotations

import subprocess
import sys

BENCHES = (
    ("bench_scan", "--large"),
    ("bench_append",),
    ("bench_ours",),
    ("bench_follow", "--large"),
    ("bench_node",),
    ("bench_cards",),
    ("bench_search",),
    ("bench_engines",),
    ("bench_opensearch",),
    ("bench_typing",),
    ("relevance", "native"),
    ("relevance", "whoosh", "--rows", "150"),
    ("bench_http", "native"),
    ("bench_serve",),
    ("bench_systems",),
    ("bench_costly",),
    ("bench_headers",),
    ("bench_excerpts",),
    ("bench_proofs",),
    ("bench_visible",),
    ("bench_duplicates",),
    ("bench_up",),
    ("bench_catch_up", "--listings", "50000", "--late", "15"),
    ("bench_million", "--listings", "100000"),
    ("bench_growth", "--listings", "20000"),
    ("bench_mempool",),
    ("bench_fetch",),
    ("bench_probes",),
    ("bench_logs",),
    ("bench_subscriptions",),
    ("bench_claims",),
    ("bench_rating",),
    ("bench_hostile",),
)


def main() -> int:
    """Run them in processes of their own; the number that failed."""
    failed = 0
    for name, *options in BENCHES:
        print(f"\n== {name}", flush=True)
        failed += subprocess.run([sys.executable, "-m", f"tests.bench.{name}", *options]).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
