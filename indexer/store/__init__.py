"""Where storage plugs in: every table and every SQL statement. SQLAlchemy Core; the URL chooses the database."""

from indexer.store.database import StoreError, StoreUnavailableError, connect, unchecked
from indexer.store.fetched import Due, FetchState, Known, Outcome, Served
from indexer.store.outbox import Change
from indexer.store.reads import Store
from indexer.store.stories import Revision, Story, Unconfirmed
from indexer.store.writes import Writer

__all__ = [
    "Change",
    "Due",
    "FetchState",
    "Known",
    "Outcome",
    "Revision",
    "Served",
    "Store",
    "StoreError",
    "StoreUnavailableError",
    "Story",
    "Unconfirmed",
    "Writer",
    "connect",
    "unchecked",
]
