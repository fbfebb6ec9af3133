"""Explains to a publisher, step by step, what became of a transaction."""
