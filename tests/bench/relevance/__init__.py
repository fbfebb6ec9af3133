"""How well search finds what is described: `python -m tests.bench.relevance [native whoosh] [--rows N]`."""
