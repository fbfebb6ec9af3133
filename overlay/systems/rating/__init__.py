"""Ratings: evidence is taken in and verified, listings are rated, and both are published for anyone to recompute."""
