"""`a2b block`: the workers that this registry trusts with nothing."""

from __future__ import annotations

from argparse import Namespace
from contextlib import closing
from typing import TYPE_CHECKING

from overlay.commands.options import UsageError, command, settings_of
from overlay.text.terminal import say

if TYPE_CHECKING:
    from overlay.commands.options import Commands


def add(commands: Commands) -> None:
    """Add `a2b block`."""
    parser = command(
        commands, "block", block, "Block a worker by its key: it gets no tasks. Without a key, list the blocked ones.",
        "data", "database",
    )  # fmt: skip
    parser.add_argument("key", metavar="KEY", nargs="?", help="the Ed25519 key, 64 hex digits")
    parser.add_argument("--undo", action="store_true", help="take the block back")


def block(args: Namespace) -> int:
    """Block or unblock a key, or print those that are blocked."""
    import time

    from overlay.app.storage import open_store
    from overlay.systems.rating.store_trust import TrustGraph
    from parsers.claims.motebit.identifiers import hex_bytes

    if args.key is not None and hex_bytes(args.key, 32) is None:
        raise UsageError("KEY is not 64 lower-case hex digits")
    if args.undo and args.key is None:
        raise UsageError("--undo needs the key that is blocked")
    with closing(open_store(settings_of(args), create=False)) as store:
        graph = TrustGraph(store.engine)
        if args.key is None:
            for key in sorted(graph.blocked()):
                say(key)
        elif args.undo:
            return 0 if graph.unblock(args.key) else 1
        else:
            graph.block(args.key, int(time.time()))
    return 0
