"""Copy-cats: what listings have in common with others, which of them said so first, and which of equals is shown.

A registry that anybody may write to is full of copies. Cards that are the same, byte for byte, are one result of a
search: the one whose domain speaks for it, else the one that is verified, else the oldest. A name, URL or pay-to
address that another listing had before is a warning on the later one, however verified it is, unless its domain names
it (law 11). Both are decided when an index is fed, so that searching costs nothing more: what is not shown stands in
the index beside what is burned.

`claims` says what a listing claims and since when, `book` keeps the claims of all, and `marks` is what follows.
"""
