"""Pointers to cards that are kept elsewhere: domains, URIs, CIDs, and entries of ERC-8004 registries."""
