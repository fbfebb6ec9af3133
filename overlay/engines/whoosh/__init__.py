"""The Whoosh engine: the same answers from pure Python, where no compiled engine can be installed."""
