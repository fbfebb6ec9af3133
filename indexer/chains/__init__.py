"""Where chains plug in: one file a kind of source, each with the methods of `indexer.chains.Chain`."""
