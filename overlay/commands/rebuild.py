"""`a2b rebuild`: the index anew from the store."""

from __future__ import annotations

from overlay.commands import options
from overlay.terminal import counting, say


def rebuild(
    config: options.Config = None,
    data: options.Data = None,
    database: options.Database = None,
    search: options.Search = None,
) -> None:
    """Make the search index anew from the database. Nothing else may be writing it."""
    from overlay.feed import Feed
    from overlay.services import open_index, open_store

    settings = options.settings(config, data=data, database=database, search=search)
    store = open_store(settings, make=False)
    try:
        engine = open_index(settings, make=True)
        try:
            with counting("rebuilding the index", "registrations") as tell:
                total = Feed(store, engine).rebuild(lambda done: tell(done, 0))
            say(f"indexed {total:,} registrations into {settings.shown()['search']}")
        finally:
            engine.close()
    finally:
        store.engine.dispose()
