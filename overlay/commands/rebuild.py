"""`a2b rebuild`: rebuild the search index from the database."""

from __future__ import annotations

from argparse import Namespace
from contextlib import closing
from typing import TYPE_CHECKING

from indexer.masking import masked
from overlay.commands.options import command, settings_of
from overlay.text.terminal import progress_of, say

if TYPE_CHECKING:
    from overlay.commands.options import Commands


def add(commands: Commands) -> None:
    """Add `a2b rebuild`."""
    parser = command(
        commands, "rebuild", rebuild, "Rebuild the search index from the database.",
        "data", "database", "search", "systems",
        more="The old index answers until then, also in processes that serve it.",
    )  # fmt: skip
    parser.add_argument(
        "--anchors", action="store_true",
        help="instead: compute the anchors of all blocks (BRC-136) again, while no indexer runs",
    )  # fmt: skip


def rebuild(args: Namespace) -> int:
    """Rebuild beside the index that is in use, and then replace it."""
    if args.anchors:
        return _rebuild_anchors(args)
    from overlay.api.systems import chosen
    from overlay.app.compilation import wait_until_compiled
    from overlay.app.memory import FreedMemory, limit_arenas, tune_garbage_collection
    from overlay.app.storage import index_write_errors, open_duplicates, open_index, open_store
    from overlay.projection.projector import IndexProjector

    settings = settings_of(args)
    systems = tuple(member.name for member in chosen(settings))
    limit_arenas()
    tune_garbage_collection()
    freed = FreedMemory()
    with (
        closing(open_store(settings, create=False)) as store,
        index_write_errors(settings),
        closing(open_index(settings, create=True)) as engine,
        closing(open_duplicates(settings)) as duplicates,
    ):
        wait_until_compiled()
        with progress_of("rebuilding the index", "registrations") as progress:

            def after_batch(done: int, of: int) -> None:
                progress(done, of)
                freed.give_back()

            total = IndexProjector(store, engine, duplicates, systems).rebuild(after_batch)
    say(f"indexed {total:,} registrations into {masked(settings.search)}")
    return 0


def _rebuild_anchors(args: Namespace) -> int:
    from indexer.store import Writer, topic_anchors
    from overlay.app.storage import open_store
    from overlay.text.safe_text import on_one_line

    with closing(open_store(settings_of(args), create=False)) as store, closing(Writer(store.engine)) as writer:
        for chain in sorted(store.chains()):
            topic_anchors.rebuild(writer, chain)
            newest = store.topic_anchors.newest(chain)
            if newest is not None:
                say(f"{on_one_line(chain)}: block {newest.height:,}, anchor {newest.tac[::-1].hex()}")
    return 0
