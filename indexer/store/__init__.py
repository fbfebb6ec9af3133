"""The database: every table and every SQL statement. SQLAlchemy Core; the URL chooses SQLite or PostgreSQL.

`Store` reads, by topic; `Writer` writes facts, one process at a time; `Requests`, `Rechecks`, `Logos` and `Quotes` are
also written by serving processes.
"""

from indexer.store.database import (
    DATABASE_ERRORS,
    DamagedDatabaseError,
    StoreError,
    StoreUnavailableError,
    unchecked,
)
from indexer.store.fetches import DueLocator, FetchOutcome, FetchState, LocatorStatus, ServedBody
from indexer.store.history import RegistrationHistory, Revision, Unconfirmed
from indexer.store.layout import connect
from indexer.store.outbox import Change
from indexer.store.store import Store
from indexer.store.writer import Writer

__all__ = [
    "DATABASE_ERRORS",
    "Change",
    "DamagedDatabaseError",
    "DueLocator",
    "FetchOutcome",
    "FetchState",
    "LocatorStatus",
    "RegistrationHistory",
    "Revision",
    "ServedBody",
    "Store",
    "StoreError",
    "StoreUnavailableError",
    "Unconfirmed",
    "Writer",
    "connect",
    "unchecked",
]
