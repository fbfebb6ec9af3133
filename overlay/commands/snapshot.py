"""`a2b export` and `a2b import`: all facts in a file that others can verify."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from overlay.commands.options import command, settings
from overlay.terminal import counting, say

if TYPE_CHECKING:
    from indexer.snapshot import Counts
    from overlay.commands.options import Commands


def add(commands: Commands) -> None:
    """The commands that write and read snapshots."""
    for name, run, purpose in (
        ("export", export, "Write a snapshot of the database. The same facts give the same bytes."),
        (
            "import",
            take_over,
            "Fill an empty database from a snapshot. Exit code 1 when anything in it does not agree.",
        ),
    ):
        parser = command(commands, name, run, purpose, "data", "database")
        parser.add_argument("file", metavar="FILE", type=Path, help="JSON lines; compressed when it ends in .gz")


def export(asked: Namespace) -> int:
    """All facts, into a file."""
    from indexer.snapshot import export as write
    from indexer.snapshot import written
    from overlay.services import open_store

    store = open_store(settings(asked), make=False)
    try:
        with counting("exporting", "blocks") as tell, written(asked.file) as opened:
            counts = write(store, opened, tell)
    finally:
        store.engine.dispose()
    say(f"wrote {_told(counts)} to {asked.file}")
    return 0


def take_over(asked: Namespace) -> int:
    """All facts, out of a file."""
    from indexer import snapshot
    from indexer.store import Store, Writer, connect
    from overlay.services import make_data

    told = settings(asked)
    make_data(told)
    engine = connect(told.database, importing=True)
    try:
        writer = Writer(engine)
        try:
            with counting("importing", "blocks") as tell:
                counts = snapshot.take_over(snapshot.lines(asked.file), Store(engine), writer, tell)
        finally:
            writer.close()
    finally:
        engine.dispose()
    say(f"took over {_told(counts)}; every hash agrees")
    return 0


def _told(counts: Counts) -> str:
    return f"{counts.blocks:,} blocks, {counts.events:,} events, {counts.cards:,} cards and {counts.proofs:,} proofs"
