"""Duplicates: listings with the same or nearly the same text are one result that counts the others.

`text_keys` holds the text keys of a listing and their history, `minhash` and `skeleton` the keys of texts and names,
`duplicate_index` stores the text keys of all listings beside the search index, `text_key_groups` groups them, with the
look-ups of `text_key_table`, and `duplicate_status` is the result for an item.
"""
