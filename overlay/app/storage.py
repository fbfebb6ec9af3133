"""Open the database, the search index and the duplicate index that the settings name. Data of another user, or on a
read-only file system, is read without a lock and without creating files."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from indexer import sqlite_integrity as integrity
from indexer.masking import masked
from indexer.settings import Settings, SettingsError
from overlay import installation  # declares the tables of systems
from overlay.app.compilation import set_cache_folder
from overlay.text.terminal import complain

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from indexer.store import Migration, Store
    from overlay.api.identity_key import IdentityKey
    from overlay.duplicates.duplicate_index import DuplicateIndex
    from overlay.projection.search_index import SearchIndex


COPIED_BYTES = 1 << 20
"""Files of an index up to this size are copied, larger ones are linked to."""


def is_writable(path: Path) -> bool:
    """Whether this process may write a file, or make files in a folder."""
    return os.access(path, os.W_OK)


@cache
def warn_read_only(folder: Path) -> None:
    """Log once that a folder is only read."""
    complain(f"{folder} cannot be written by this user: it is only read, and what is being written may be missing")


def readable_copy(index: Path) -> Path:
    """A folder of the same files as an index, for an engine that locks and makes files where it reads: small files are
    copied, large ones are symbolic links. It is removed when the process ends. Raises OSError."""
    root = Path(tempfile.mkdtemp(prefix="a2b-index-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    for folder, _, files in os.walk(index):
        copy = root / Path(folder).relative_to(index)
        copy.mkdir(exist_ok=True)
        for name in files:
            _link_or_copy(Path(folder, name), copy / name)
    return root


def _link_or_copy(file: Path, copy: Path) -> None:
    try:
        if file.stat().st_size > COPIED_BYTES:
            copy.symlink_to(file.absolute())
        else:
            shutil.copyfile(file, copy)
    except FileNotFoundError:
        return  # the process that writes the index has removed it meanwhile


class MissingError(Exception):
    """The database or index that a command reads does not exist; the message names what creates it."""


class ServerMissingError(MissingError):
    """Nothing can be opened, as only the client is installed; the message names the command that installs the rest."""


def need_server() -> None:
    """Raises ServerMissingError where only the client is installed."""
    if not installation.has_server():
        raise ServerMissingError(installation.NEEDS_SERVER)


def make_data_folder(settings: Settings) -> None:
    """Create the data folder where it is missing. Raises ServerMissingError, OSError."""
    need_server()
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    set_cache_folder(settings)


def open_database(settings: Settings, *, migration: Migration | None = None, importing: bool = False) -> Engine:
    """A connection pool for the database, created where none exists, with the tables of all systems; one of an earlier
    version is refused, unless `migration` says otherwise. Raises StoreError, OSError."""
    need_server()
    from indexer.store import Migration, connect

    make_data_folder(settings)
    return connect(settings.database, migration=migration or Migration.REFUSED, importing=importing)


def open_store(settings: Settings, *, create: bool, replica: bool = False, migration: Migration | None = None) -> Store:
    """The store. With `create`, a new one where none exists, and one of version 0.2.0 is migrated as `migration`
    says; otherwise nothing is changed. With `replica`, reading from `database_read` where that is set. Raises
    SettingsError, StoreError, MissingError, OSError."""
    need_server()
    from indexer.store import Store, connect, unchecked
    from indexer.store.layout import connect_read_only

    if replica and settings.database_read:
        if not (settings.database.startswith("postgres") and settings.database_read.startswith("postgres")):
            raise SettingsError("database_read is a replica of database, and both must be postgresql+psycopg://…")
        make_data_folder(settings)
        return Store(connect(settings.database_read, replica=True), unchecked(settings.database))
    if create:
        return Store(open_database(settings, migration=migration))
    file = existing_file(settings)
    if file is not None and not (is_writable(file) and is_writable(file.parent)):
        warn_read_only(file.parent)
        return Store(connect_read_only(file))
    return Store(connect(settings.database, create=False))


def existing_file(settings: Settings) -> Path | None:
    """The file of the database; None of one on a server. Raises MissingError where it does not exist."""
    need_server()
    file = _sqlite_file(settings)
    if file is not None and not file.exists():
        raise _missing("database", file)
    return file


def stored_heights(settings: Settings) -> dict[str, int]:
    """The height up to which each chain is stored, by chain name. Raises StoreError, MissingError, OSError."""
    file = _sqlite_file(settings)
    if file is not None and file.exists():
        from indexer.sqlite_heights import heights

        return heights(file)
    with closing(open_store(settings, create=False)) as store:
        newest = {name: store.blocks.newest(name) for name in store.chains()}
        return {name: ref.height for name, ref in newest.items() if ref is not None}


def open_index(settings: Settings, *, create: bool, for_search: bool = True) -> SearchIndex:
    """The search index; with `create`, a new one where none exists. To report its state, it need not be `for_search`.
    Raises EngineError, MissingError, OSError, and StoreError where it is one of a database that was found damaged."""
    need_server()
    from overlay.api.systems import chosen
    from overlay.engines import IN_FILES
    from overlay.projection.index_content import index_content
    from overlay.projection.search_index import SearchIndex

    _refuse_damaged(settings)
    set_cache_folder(settings)
    content = index_content(tuple(member.name for member in chosen(settings)))
    open_at = partial(SearchIndex, meaning=settings.meaning, for_search=for_search, content=content)
    scheme, _, path = settings.search.partition(":")
    if scheme not in IN_FILES:
        return open_at(settings.search)
    if not create and path and not Path(path).exists():
        raise _missing("index", Path(path))
    if create:
        make_data_folder(settings)
        index_folder(settings).mkdir(mode=0o700, parents=True, exist_ok=True)
    elif path and not is_writable(Path(path)):
        warn_read_only(Path(path).parent)
        return open_at(f"{scheme}:{readable_copy(Path(path))}")
    return open_at(settings.search)


def _refuse_damaged(settings: Settings) -> None:
    file = _sqlite_file(settings)
    if damage := integrity.guard_of(str(file)).damage() if file is not None else "":
        from indexer.store import DamagedDatabaseError

        raise DamagedDatabaseError(damage)


def index_folder(settings: Settings) -> Path:
    """The folder of the search index; where that has none, the data folder."""
    from overlay.engines import IN_FILES

    scheme, _, path = settings.search.partition(":")
    return Path(path) if scheme in IN_FILES else settings.data


def open_duplicates(settings: Settings) -> DuplicateIndex:
    """The duplicate index, in the folder of the search index. Raises EngineError."""
    from overlay.duplicates.duplicate_index import DuplicateIndex

    return DuplicateIndex(str(index_folder(settings)))


@contextmanager
def index_write_errors(settings: Settings) -> Iterator[None]:
    """Turn the errors of an engine for a full or failing disk into an EngineError that names the index."""
    from overlay.engines import EngineError

    try:
        yield
    except OSError as error:
        raise EngineError(f"cannot write the index {masked(settings.search)}: {error.strerror or error}") from error


def in_configured_order(settings: Settings, chains: Mapping[str, str]) -> dict[str, str]:
    """CAIP-2 ids by chain name: first the configured chains in their order, then the others by name."""
    names = [chain.name for chain in settings.chains if chain.name in chains]
    return {name: chains[name] for name in dict.fromkeys([*names, *sorted(chains)])}


def _missing(what: str, path: Path) -> MissingError:
    return MissingError(
        f"there is no {what} {path}: `a2b up` creates one, --data names another folder, and --url an overlay to query"
    )


def _sqlite_file(settings: Settings) -> Path | None:
    scheme, separator, path = settings.database.partition(":///")
    return Path(path.partition("?")[0]) if separator and scheme.startswith("sqlite") else None


def open_identity(settings: Settings) -> IdentityKey | None:
    """This server's own keys: from the configured file, else from one in the data folder, created where the database is
    a file on this machine. None where the folder is read-only, or where other machines may share the database and no
    system signs. Raises SettingsError for a file that cannot be used, and for a missing one where machines have to
    share it."""
    from overlay.api.identity_key import IdentityKeyError, read, read_or_create
    from overlay.api.systems import chosen, signing

    try:
        if settings.identity_key:
            return read(Path(settings.identity_key))
        if _sqlite_file(settings) is not None:
            return read_or_create(settings.data / "identity.json") if is_writable(settings.data) else None
    except IdentityKeyError as error:
        raise SettingsError(str(error)) from None
    if names := signing(chosen(settings)):
        raise SettingsError(
            "A2B_IDENTITY_KEY is not set, and other machines may share this database: name a file with keys "
            '(mode 0600, JSON: {"ed25519": 64 hex digits, "secp256k1": 64 hex digits}), '
            f"with which {', '.join(names)} sign, or leave these out of A2B_SYSTEMS"
        )
    return None
