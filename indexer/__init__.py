"""Follows chains and remembers what they say. Owns the database."""
