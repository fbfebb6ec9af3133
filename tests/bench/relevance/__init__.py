"""How well search finds what is described: `python -m tests.bench.relevance [tantivy whoosh] [--rows N]`."""
