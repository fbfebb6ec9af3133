"""Duplicates: listings with the same or nearly the same text are one result that counts the others.

`claims` says what a listing claims and since when, `minhash` and `skeleton` how texts and names compare, `index` stores
the claims of all listings beside the search index and groups them, `status` is what follows for an item.

The groups are a file of their own beside the index, with the index' cursor: the order of seniority needs ordered
look-ups that no search engine offers, and an engine on other machines needs no further columns for it.
"""
