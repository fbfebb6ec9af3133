"""`a2b export` and `a2b import`: all facts in a file that anyone can verify."""

from __future__ import annotations

from argparse import Namespace
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from overlay.commands.options import UsageError, command, settings_of
from overlay.text.terminal import progress_of, say

if TYPE_CHECKING:
    from indexer.snapshot.importer import ChainReport
    from overlay.commands.options import Commands


def add(commands: Commands) -> None:
    """Add the commands that write and read snapshots."""
    exporting = command(
        commands, "export", export, "Write a snapshot of the database. The same facts give the same bytes.",
        "data", "database",
        more="It holds blocks, events, cards, and the transactions and merkle paths that prove them; not what was "
        "fetched for pointers, nor what is unconfirmed.",
    )  # fmt: skip
    importing = command(
        commands, "import", import_, "Fill an empty database from a snapshot, verifying it. Exit code 1 when anything "
        "in it is not true; the database is then as it was.",
        "data", "database",
        more="Headers are checked by the rules of a live source from genesis or to a packaged checkpoint, and every "
        "event is recomputed from its transaction. A chain is imported up to the first block that the file does not "
        "prove; EVM chains and Solana are left out, as nothing proves their blocks. What the file omits cannot be "
        "seen: "
        "compare the state hash with another source. Cards of pointers are fetched again before they count.",
    )  # fmt: skip
    importing.add_argument(
        "--trust", action="store_true",
        help="trust the file: verify nothing but the state hashes, and import chains without proofs too",
    )  # fmt: skip
    for parser in (exporting, importing):
        parser.add_argument("file", metavar="FILE", type=Path, help="JSON lines; compressed when it ends in .gz")


def export(args: Namespace) -> int:
    """Write all facts into a file."""
    from indexer.snapshot.exporter import export as write
    from indexer.snapshot.exporter import new_file
    from overlay.app.storage import open_store

    if args.file.exists() and not args.file.is_file():
        raise UsageError(f"{args.file} is not a regular file")
    with (
        closing(open_store(settings_of(args), create=False)) as store,
        progress_of("exporting", "blocks") as progress,
        new_file(args.file) as opened,
    ):
        counts = write(store, opened, progress)
    say(
        f"wrote {counts.blocks:,} blocks, {counts.events:,} events, {counts.cards:,} cards and "
        f"{counts.proofs:,} proofs to {args.file}"
    )
    return 0


def import_(args: Namespace) -> int:
    """Read all facts from a file into an empty database."""
    from indexer.snapshot.exporter import read_lines
    from indexer.snapshot.importer import import_snapshot
    from indexer.store import Store, Writer
    from overlay.app.storage import open_database

    if not args.file.is_file():
        raise UsageError(f"{args.file} is not there, or not a regular file")
    with (
        closing(Store(open_database(settings_of(args, writes=True), importing=True))) as store,
        closing(Writer(store.engine)) as writer,
        progress_of("importing", "blocks") as progress,
    ):
        report = import_snapshot(read_lines(args.file), store, writer, progress, trust=args.trust)
    say(f"imported {report.blocks:,} blocks, {report.events:,} events and {report.proofs:,} proofs")
    for chain in report.chains:
        _show(chain, trusted=args.trust)
    return 0


def _show(chain: ChainReport, *, trusted: bool) -> None:
    if chain.height is None:
        say(f"{chain.name} ({chain.caip2}): not imported; follow it, or import with --trust")
        return
    how = "NOT VERIFIED" if trusted else f"verified: every event from its transaction; headers: {chain.checked}"
    rest = f" of {chain.newest:,}; follow the chain for the rest" if chain.gap else ""
    state_hash = chain.state_hash or "not defined"
    say(f"{chain.name} ({chain.caip2}): to block {chain.height:,}{rest}; state hash {state_hash}; {how}")
