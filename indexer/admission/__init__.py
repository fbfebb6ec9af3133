"""Admits transactions that are submitted with their proof (BRC-22, BRC-62)."""
