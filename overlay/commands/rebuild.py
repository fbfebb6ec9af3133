"""`a2b rebuild`: the index anew from the store."""

from __future__ import annotations

from argparse import Namespace
from contextlib import closing
from typing import TYPE_CHECKING

from overlay.commands.options import command, settings
from overlay.terminal import counting, say

if TYPE_CHECKING:
    from overlay.commands.options import Commands


def add(commands: Commands) -> None:
    """The command for an index that is lost, or of another kind."""
    command(
        commands, "rebuild", rebuild, "Make the search index anew from the database.", "data", "database", "search",
        more="The one before answers until then, also where it is being served.",
    )  # fmt: skip


def rebuild(asked: Namespace) -> int:
    """All registrations, in batches."""
    from overlay.feed import Feed
    from overlay.services import open_duplicates, open_index, open_store, writing_index

    told = settings(asked)
    store = open_store(told, make=False)
    try:
        with (
            writing_index(told),
            closing(open_index(told, make=True)) as engine,
            closing(open_duplicates(told)) as duplicates,
            counting("rebuilding the index", "registrations") as tell,
        ):
            total = Feed(store, engine, duplicates).rebuild(tell)
    finally:
        store.engine.dispose()
    say(f"indexed {total:,} registrations into {told.shown()['search']}")
    return 0
