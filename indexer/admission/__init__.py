"""Admits transactions that are handed in with their proof (BRC-22, BRC-62)."""
