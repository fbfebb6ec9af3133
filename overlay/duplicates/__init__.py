"""Duplicates: listings with the same or nearly the same text are one result that counts the others.

`claims` holds the claims of a listing and their history, `minhash` and `skeleton` the keys of texts and names,
`duplicate_index` stores the claims of all listings beside the search index, `claim_groups` groups them, with the
look-ups of `claim_table`, and `duplicate_status` is the result for an item.
"""
