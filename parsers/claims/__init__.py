"""Verification of signed documents. Keys come from the caller."""
