"""Answers. Owns no truth: everything here can be rebuilt from the store."""
