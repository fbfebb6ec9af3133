"""Snapshots: all facts of a database in a file that anyone can check."""
