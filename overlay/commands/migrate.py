"""`a2b migrate`: bring a database of version 0.2.0 to the tables of this one."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from indexer.masking import masked
from overlay.commands.options import add_no_copy, command, settings_of
from overlay.text.terminal import say

if TYPE_CHECKING:
    from indexer.store import MigrationPlan
    from overlay.commands.options import Commands


def add(commands: Commands) -> None:
    """Add `a2b migrate`."""
    parser = command(
        commands, "migrate", migrate, "Migrate a database of version 0.2.0, which other commands refuse.",
        "data", "database",
        more="`a2b up` and `a2b index` do so when they start. Stop the processes of that version first. A SQLite file "
        "is copied first, beside it; the copy is what that version goes back to. A database of PostgreSQL is not "
        "copied: make a dump before. All or nothing.",
    )  # fmt: skip
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be done, and change nothing; exit code 1: it cannot be"
    )
    add_no_copy(parser)


def migrate(args: Namespace) -> int:
    """Migrate, or print the changes that this would make."""
    from indexer.model import SCHEMA
    from indexer.store import Migration, plan_migration
    from overlay.app.storage import existing_file, open_database

    settings = settings_of(args)
    existing_file(settings)
    plan = plan_migration(settings.database)
    name = masked(settings.database)
    if plan.version == SCHEMA and not plan.missing:
        say(f"{name} has schema {SCHEMA}, of this version: there is nothing to migrate")
        return 0
    if args.dry_run:
        say(f"{name} has schema {plan.version}: it would be migrated to {SCHEMA}")
        return _show(plan, is_copied=not args.no_copy)
    open_database(settings, migration=Migration.WITHOUT_COPY if args.no_copy else Migration.WITH_COPY).dispose()
    say(f"{name} has schema {SCHEMA} now; it had {plan.version}")
    return 0


def _show(plan: MigrationPlan, *, is_copied: bool) -> int:
    """Print the changes of a migration; returns 1 where it cannot be done."""
    if plan.missing:
        say(f"  new tables: {', '.join(plan.missing)}")
    if plan.copy is None or not is_copied:
        say("  no copy: make one before (PostgreSQL: pg_dump)")
        return 0
    say(f"  copied first, beside it: {plan.copy.size:,} bytes, of {plan.copy.room:,} that are free")
    if plan.copy.room >= plan.copy.size:
        return 0
    say("  there is no room for that: make room, or migrate without a copy (--no-copy)")
    return 1
