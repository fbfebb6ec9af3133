"""Where storage plugs in: every table and every SQL statement. SQLAlchemy Core; the URL chooses the database."""

from indexer.store.database import StoreError, connect
from indexer.store.reads import Change, Revision, Store
from indexer.store.writes import Writer

__all__ = ["Change", "Revision", "Store", "StoreError", "Writer", "connect"]
