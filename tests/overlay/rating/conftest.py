"""Every database, one after the other."""

from tests.databases import store, writer

__all__ = ["store", "writer"]
