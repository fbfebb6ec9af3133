"""`a2b backup` and `a2b restore`: what cannot be read from chains again, in a file."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from indexer.settings import Settings, SettingsError
from overlay.commands.options import UsageError, command, settings_of
from overlay.text.terminal import complain, progress_of, say

if TYPE_CHECKING:
    from overlay.commands.options import Commands


def add(commands: Commands) -> None:
    """Add the commands that write and read backups."""
    backing_up = command(
        commands, "backup", backup, "Write what no chain brings back into a file: payments, accounts, webhooks, "
        "fetched cards, receipts, and this server's keys.",
        "data", "database", "identity_key",
        more="It holds one instant, and other processes continue meanwhile. The file has mode 0600, as it holds keys. "
        "The database has the time and size of the last one, for `a2b doctor`.",
    )  # fmt: skip
    restoring = command(
        commands, "restore", restore, "Fill a new database from a backup. All or nothing; exit code 1 when the file is "
        "damaged.",
        "data", "database", "identity_key",
        more="SQLite and PostgreSQL read each other's backups. Then `a2b index` or `a2b up` reads the chains again.",
    )  # fmt: skip
    for parser in (backing_up, restoring):
        parser.add_argument("file", metavar="FILE", type=Path, help="JSON lines; compressed when it ends in .gz")


def backup(args: Namespace) -> int:
    """Write a backup."""
    from indexer.snapshot.exporter import new_file
    from indexer.store.backup import BackupHead, BackupRecord, record_backup, write_backup
    from indexer.store.database import StoreError
    from overlay.app import version
    from overlay.app.storage import open_store

    if args.file.exists() and not args.file.is_file():
        raise UsageError(f"{args.file} is not a regular file")
    settings = settings_of(args)
    keys = _stored_keys(settings)
    began = int(time.time())
    with closing(open_store(settings, create=False)) as store:
        with progress_of("backing up", "rows") as progress, new_file(args.file, 0o600) as opened:
            count = write_backup(store.engine, opened, BackupHead(version(), keys), progress)
        try:
            record_backup(store.primary, BackupRecord(began, args.file.stat().st_size))
        except StoreError as error:
            complain(f"the backup is complete, and a2b doctor will not know of it: {error}")
    say(f"wrote {count:,} rows and {'the' if keys else 'no'} keys of this server to {args.file}")
    return 0


def restore(args: Namespace) -> int:
    """Fill a new database."""
    from indexer.snapshot.exporter import read_lines
    from indexer.store import backup as file_of
    from overlay.app.storage import open_database

    if not args.file.is_file():
        raise UsageError(f"{args.file} is not there, or not a regular file")
    settings = settings_of(args, writes=True)
    lines = read_lines(args.file, file_of.MAX_ROW)
    first = next(lines, b"")
    head = file_of.read_head(first)
    engine = open_database(settings)
    try:
        put_keys = restored_keys(settings, head.keys)
        with progress_of("restoring", "rows") as progress:
            count = file_of.restore(engine, chain([first], lines), progress, put_keys)
    finally:
        engine.dispose()
    say(f"restored {count:,} rows and {'the' if head.keys else 'no'} keys of the server")
    say("a2b index or a2b up reads the chains again")
    return 0


def _key_file(settings: Settings) -> Path:
    return Path(settings.identity_key) if settings.identity_key else settings.data / "identity.json"


def _stored_keys(settings: Settings) -> dict[str, str] | None:
    from overlay.api.identity_key import IdentityKeyError, read

    file = _key_file(settings)
    if not settings.identity_key and not file.exists():
        return None
    try:
        return read(file).as_json()
    except IdentityKeyError as error:
        raise SettingsError(str(error)) from None


def restored_keys(settings: Settings, keys: Mapping[str, str] | None) -> Callable[[], None]:
    """A function that makes the file of the keys of a backup. It is the last step before the commit, so that rows are
    never there without their keys: a server that finds none makes new ones. Keys without rows are harmless: a second
    restoration compares them. Raises SettingsError for a file with other keys, also here; BackupError."""
    from indexer.store.backup import BackupError
    from overlay.api import identity_key

    if keys is None:
        return lambda: None
    file = _key_file(settings)
    try:
        expected = identity_key.parse(keys)
    except (ValueError, KeyError, TypeError):
        raise BackupError("the backup is damaged: its keys cannot be read") from None

    def put() -> None:
        try:
            stored = identity_key.restore(file, expected)
        except identity_key.IdentityKeyError as error:
            raise SettingsError(str(error)) from None
        if stored != expected:
            raise SettingsError(
                f"{file} holds other keys than the backup: move it away, or name another A2B_IDENTITY_KEY"
            )

    if file.exists():
        put()  # which only compares
    return put
