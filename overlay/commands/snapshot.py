"""`a2b export` and `a2b import`: all facts in a file that others can verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from overlay.commands import options
from overlay.terminal import counting, say


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines; compressed when the name ends in .gz.")],
    config: options.Config = None,
    data: options.Data = None,
    database: options.Database = None,
) -> None:
    """Write a snapshot of the database. The same facts give the same bytes."""
    from indexer.snapshot import export as write
    from indexer.snapshot import written
    from overlay.services import open_store

    store = open_store(options.settings(config, data=data, database=database), make=False)
    try:
        with counting("exporting", "blocks") as tell, written(file) as opened:
            counts = write(store, opened, tell)
    finally:
        store.engine.dispose()
    say(f"wrote {counts.blocks:,} blocks, {counts.events:,} events and {counts.cards:,} cards to {file}")


def take_over(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A snapshot that `a2b export` wrote.")],
    config: options.Config = None,
    data: options.Data = None,
    database: options.Database = None,
) -> None:
    """Fill an empty database from a snapshot, checking every hash in it. Exit code 1 when something differs."""
    from indexer import snapshot
    from indexer.store import Store, Writer, connect
    from overlay.services import make_data

    settings = options.settings(config, data=data, database=database)
    make_data(settings)
    engine = connect(settings.database, importing=True)
    try:
        writer = Writer(engine)
        try:
            with counting("importing", "blocks") as tell:
                counts = snapshot.take_over(snapshot.lines(file), Store(engine), writer, tell)
        finally:
            writer.close()
    finally:
        engine.dispose()
    say(f"took over {counts.blocks:,} blocks, {counts.events:,} events and {counts.cards:,} cards; every hash agrees")
