"""The database: every table and every SQL statement. SQLAlchemy Core; the URL chooses SQLite or PostgreSQL.

`Store` reads, by topic; `Writer` writes facts, one process at a time; `Requests`, `Rechecks`, `Logos` and `Quotes` are
also written by serving processes.
"""

from indexer.store.database import (
    DATABASE_ERRORS,
    DamagedDatabaseError,
    StoreError,
    StoreUnavailableError,
    WriteRefusedError,
    unchecked,
)
from indexer.store.fetches import DueLocator, FetchOutcome, FetchState, LocatorStatus, ServedBody
from indexer.store.history import RegistrationHistory, Revision, Unconfirmed
from indexer.store.layout import Migration, MigrationPlan, connect, plan_migration
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
    "Migration",
    "MigrationPlan",
    "RegistrationHistory",
    "Revision",
    "ServedBody",
    "Store",
    "StoreError",
    "StoreUnavailableError",
    "Unconfirmed",
    "WriteRefusedError",
    "Writer",
    "connect",
    "plan_migration",
    "unchecked",
]
