"""Duplicates: listings with the same or nearly the same text are one result that counts the others.

`claims` holds the claims of a listing and their history, `minhash` and `skeleton` the keys of texts and names,
`duplicate_index` stores the claims of all listings beside the search index and clusters them (`grouping`), and
`duplicate_status` is the result for an item.

The claims are a SQLite file beside the index with a cursor of its own: seniority needs ordered look-ups that no search
engine offers, and a remote engine needs no extra columns for it.
"""
