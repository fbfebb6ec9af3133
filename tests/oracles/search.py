"""A search that is slow and obvious: every listing is looked at, every word compared with every other."""
