"""`a2b forget`: remove a chain from the database and the index, as if it had never been followed."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import closing
from typing import TYPE_CHECKING

from overlay.commands.options import UsageError, command, settings_of
from overlay.text.safe_text import on_one_line
from overlay.text.terminal import say

if TYPE_CHECKING:
    from indexer.settings import Settings
    from indexer.store import Store
    from overlay.commands.options import Commands


def add(commands: Commands) -> None:
    """Add `a2b forget`."""
    parser = command(
        commands, "forget", forget, "Remove a chain from the database and the search index, for good, with all that "
        "hangs on it. Exit code 1 when the answer is no.",
        "data", "database", "search", "systems",
        more="Its listings, cards, proofs and receipts go, and what was fetched for them alone; payments and accounts "
        "stay. Readers of the change feed see each removal. While an indexer runs on this database it is refused. A "
        "chain that is followed again is read from its start.",
    )  # fmt: skip
    parser.add_argument("name", metavar="NAME", help="the name of the chain, as `a2b status` shows it")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def forget(args: Namespace) -> int:
    """Ask, and remove a chain."""
    from indexer.store import Writer
    from indexer.store.forgetting import forget_chain
    from overlay.app.storage import open_store
    from overlay.installation import installed

    settings = settings_of(args)
    with closing(open_store(settings, create=False)) as store:
        chains = store.chains()
        if args.name not in chains:
            stored = ", ".join(map(on_one_line, sorted(chains))) or "none"
            raise UsageError(f"{args.name[:60]!a} is not a chain of this database; its chains: {stored}")
        with closing(Writer(store.engine)) as writer:
            if not (args.yes or _is_confirmed(store, args.name, chains[args.name])):
                say("nothing is removed")
                return 1
            more = [member.module(member.forgetting).forget_chain for member in installed() if member.forgetting]
            gone = forget_chain(writer, args.name, more)
        say(f"removed {gone.blocks:,} blocks, {gone.ids:,} registrations and pointers, and {gone.cards:,} cards")
        _project(settings, store)
    return 0


def _is_confirmed(store: Store, name: str, caip2: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask at: --yes removes the chain without a question")
    counts = store.registrations.counts(name)
    say(f"{on_one_line(name)} ({caip2}), {counts['live']:,} live registrations: all of it is removed for good.")
    return input("remove it? [y/N] ").strip().lower() in ("y", "yes")


def _project(settings: Settings, store: Store) -> None:
    """Remove the listings from the index, where there is one and no other process writes it."""
    from overlay.api.systems import chosen
    from overlay.app.compilation import wait_until_compiled
    from overlay.app.storage import MissingError, index_write_errors, open_duplicates, open_index
    from overlay.engines import BusyError
    from overlay.projection.projector import IndexProjector

    try:
        index = open_index(settings, create=False)
    except MissingError:
        return
    with closing(index), closing(open_duplicates(settings)) as duplicates, index_write_errors(settings):
        wait_until_compiled()
        try:
            IndexProjector(store, index, duplicates, tuple(member.name for member in chosen(settings))).run()
        except BusyError:
            say("the process that serves removes the listings from the search index")
