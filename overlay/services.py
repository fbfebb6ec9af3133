"""Everything a command needs, built from the settings in one place: chains, store and index."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from indexer.settings import Settings, SettingsError, masked
from overlay.read_only import is_writable, readable_copy, say_read_only

if TYPE_CHECKING:
    from indexer.asking import Known
    from indexer.chains import Chain
    from indexer.diagnosis import Network
    from indexer.fetch import FetchLoop
    from indexer.follow import Follower
    from indexer.requests import Source
    from indexer.store import Store, Writer
    from overlay.duplicates.index import DuplicateIndex
    from overlay.index import SearchIndex


class MissingError(Exception):
    """What a command wants to ask does not exist here: the message says what would make it."""


def version() -> str:
    """The version of the installed package."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("a2b-registry")
    except PackageNotFoundError:
        return "0+uninstalled"


def make_data(settings: Settings) -> None:
    """Make the data folder, and let compiled loops be cached in it. Raises OSError when it cannot be made."""
    settings.data.mkdir(parents=True, exist_ok=True)
    cache_loops(settings)


def cache_loops(settings: Settings) -> None:
    """Say where compiled loops are kept, before anything imports Numba; nowhere when that cannot be written."""
    folder = settings.data.absolute() / "numba"
    if "NUMBA_CACHE_DIR" not in os.environ and os.access(settings.data, os.W_OK):
        os.environ["NUMBA_CACHE_DIR"] = str(folder)


class Loops(NamedTuple):
    """Loops that are compiled together: the modules that hold them, and what compiles them."""

    sources: tuple[Path, ...]
    prepare: str


_ROOT = Path(__file__).parents[1]
BLOCKS = Loops((_ROOT / "parsers" / "block_loop.py",), "from parsers import block; block.prepare()")


def compiled_before(loops: Loops = BLOCKS) -> bool:
    """Whether an earlier process left compiled loops where this one will look for them: those of these very files, and
    not of earlier versions of them. The folder alone says nothing: importing the loops makes it."""
    return all(map(_was_compiled, loops.sources))


def _was_compiled(source: Path) -> bool:
    # Numba names the folder so: https://github.com/numba/numba/blob/main/numba/core/caching.py
    place = f"{source.parent.name}_{sha1(str(source.parent).encode(), usedforsecurity=False).hexdigest()}"
    kept = Path(os.environ.get("NUMBA_CACHE_DIR", os.devnull), place).glob(f"{source.stem}.*.nbi")
    return any(each.stat().st_mtime >= source.stat().st_mtime for each in kept)


def open_store(settings: Settings, *, make: bool, read: bool = False) -> Store:
    """The store; with `make`, a new one where there is none; to `read` only, its replica where there is one. Raises
    StoreError, MissingError, OSError."""
    from indexer.store import Store, connect, unchecked
    from indexer.store.database import connect_read_only

    if read and settings.database_read:
        if not (settings.database.startswith("postgres") and settings.database_read.startswith("postgres")):
            raise SettingsError("database_read is a replica of database, and both must be postgresql+psycopg://…")
        make_data(settings)
        return Store(connect(settings.database_read, replica=True), unchecked(settings.database))

    if make:
        make_data(settings)
    elif (file := _sqlite_file(settings)) is not None and not file.exists():
        raise MissingError(
            f"there is no database {file}: `a2b up` makes one, and --url asks a running overlay somewhere else"
        )
    elif file is not None and not (is_writable(file) and is_writable(file.parent)):
        say_read_only(file.parent)
        return Store(connect_read_only(file))
    return Store(connect(settings.database))


def heights(settings: Settings) -> dict[str, int]:
    """The height that each chain is stored up to, by name. Raises StoreError, MissingError, OSError."""
    file = _sqlite_file(settings)
    if file is not None and file.exists():
        from indexer.heights import heights as of_file

        return of_file(file)
    store = open_store(settings, make=False)
    try:
        newest = {name: store.newest(name) for name in store.chains()}
        return {name: ref.height for name, ref in newest.items() if ref is not None}
    finally:
        store.engine.dispose()


def _sqlite_file(settings: Settings) -> Path | None:
    scheme, separator, path = settings.database.partition(":///")
    return Path(path.partition("?")[0]) if separator and scheme.startswith("sqlite") else None


def open_index(settings: Settings, *, make: bool) -> SearchIndex:
    """The search index; with `make`, a new one where there is none. Raises EngineError, MissingError, OSError."""
    from overlay import index
    from overlay.engines import IN_FILES

    scheme, _, path = settings.search.partition(":")
    if scheme not in IN_FILES:
        return index.open_index(settings.search)
    if not make and path and not Path(path).exists():
        raise MissingError(
            f"there is no index {path}: `a2b up` makes one, and --url asks a running overlay somewhere else"
        )
    if make:
        make_data(settings)
    elif path and not is_writable(Path(path)):
        say_read_only(Path(path).parent)
        return index.open_index(f"{scheme}:{readable_copy(Path(path))}")
    return index.open_index(settings.search)


def open_duplicates(settings: Settings) -> DuplicateIndex:
    """What the listings of the index claim, beside the index: in its folder, or the data folder where it has none.
    Raises EngineError."""
    from overlay.duplicates.index import DuplicateIndex
    from overlay.engines import IN_FILES

    scheme, _, path = settings.search.partition(":")
    return DuplicateIndex(path if scheme in IN_FILES else str(settings.data))


@dataclass(slots=True, kw_only=True)
class House:
    """What a long-running command works with. `writer` and `chains` are missing where nothing is followed, `engine` and
    `duplicates` where nothing is served."""

    settings: Settings
    store: Store
    writer: Writer | None = None
    chains: tuple[Chain, ...] = ()
    engine: SearchIndex | None = None
    duplicates: DuplicateIndex | None = None

    def follower(self, chain: Chain, changed: Callable[[], None]) -> Follower:
        """What keeps the store in step with one of the chains; `changed` is called after every write."""
        from indexer.follow import Follower

        if self.writer is None:
            raise ValueError("this house was built to serve only")
        return Follower(chain, self.store, self.writer, changed)

    def source(self, follower: Follower) -> Source:
        """Where publishers' requests are looked for on a chain that is followed: not before it is open, nor once it
        is stopped."""
        from indexer.requests import Source

        progress = follower.progress
        return Source(
            follower.chain,
            lambda: bool(progress.caip2) and progress.state not in ("starting", "stopped"),
            follower.offer,
        )

    def fetching(self, changed: Callable[[], None]) -> FetchLoop:
        """What fetches the cards that pointers name, and asks hosts for badges; `changed` is called when something came
        of it. Takes its time: it reads certificates."""
        from indexer.badges import Badger
        from indexer.fetch import FetchLoop
        from indexer.fetching.cards import CardFetcher
        from indexer.fetching.fetcher import Fetcher
        from indexer.fetching.gateway import Gateway
        from indexer.fetching.network import tls_context
        from indexer.fetching.resolving import SystemResolver, table
        from indexer.fetching.txt import TxtRecords
        from indexer.logos import LogoDesk
        from indexer.store.logos import Logos

        if self.writer is None:
            raise ValueError("this house was built to serve only")
        told = self.settings
        fetcher = Fetcher(SystemResolver(), tls_context(told.fetch_ca_file or None), table(told.fetch_resolve))
        gateway = Gateway(told.ipfs_gateway) if told.ipfs_gateway else None
        badger = Badger(fetcher, TxtRecords())
        logos = LogoDesk(fetcher, Logos(self.store.engine))
        cards = CardFetcher(fetcher, gateway)
        return FetchLoop(self.store, self.writer, cards, badger, logos=logos, changed=changed)

    def begin(self) -> None:
        """Let an index answer whose database is empty. Raises EngineError, StoreUnavailableError."""
        from overlay.feed import Feed

        if self.engine is not None:
            with writing_index(self.settings):
                Feed(self.store, self.engine, self.duplicates).begin()

    def close(self) -> None:
        """Give up files and locks."""
        if self.engine is not None:
            self.engine.close()
        if self.duplicates is not None:
            self.duplicates.close()
        if self.writer is not None:
            self.writer.close()
        self.store.close()


def build(settings: Settings, *, follow: bool, serve: bool) -> House:
    """Everything for `up` (both), `index` (follow) or `serve`. Raises SettingsError, StoreError, EngineError,
    OSError."""
    house = House(settings=settings, store=open_store(settings, make=True, read=not follow))
    try:
        if follow:
            from indexer.store import Writer

            house.writer = Writer(house.store.engine)
            house.writer.clear_pending()
            house.chains = _chains(settings, house.writer)
        if serve:
            house.engine = open_index(settings, make=True)
            house.duplicates = open_duplicates(settings)
    except BaseException:
        house.close()
        raise
    return house


def _chains(settings: Settings, writer: Writer) -> tuple[Chain, ...]:
    """The configured chains, not connected yet. Raises SettingsError for a URL that is wrong whatever answers there."""
    from indexer.chains import SourceError
    from indexer.chains.several import join

    try:
        return tuple(join(name, urls, writer) for name, urls in settings.sources().items())
    except SourceError as error:
        raise SettingsError(str(error)) from None


def diagnose(
    settings: Settings, store: Store, what: str | bytes, ask: Callable[[bytes], Known | None] = lambda _: None
) -> dict[str, Any]:
    """CONTRACT's Diagnosis of a txid or outpoint, or of raw transaction bytes, which are read as one of the first
    chain; `ask` says what sources know of a txid (internal byte order) that is not stored. Raises ValueError for text
    that is neither, ParseError for bytes that are no transaction, ProblemError (503) for bytes while no chain is
    known."""
    from indexer.diagnosis import Diagnoser, requested
    from indexer.store.requests import Requests
    from overlay.api.problems import ProblemError

    known = networks(settings, store)
    if isinstance(what, bytes) and not known:
        raise ProblemError(503, "no chain is indexed yet, so there is none to read the transaction for")
    diagnoser = Diagnoser(store, lambda: known, ask)
    found = diagnoser.by_name(what) if isinstance(what, str) else diagnoser.by_raw(what)
    asked = Requests(store.engine).get(bytes.fromhex(found["txid"])[::-1])
    return found if asked is None else {**found, "steps": [requested(asked), *found["steps"]]}


def networks(settings: Settings, store: Store) -> dict[str, Network]:
    """What reading a raw transaction needs to know of each chain that the store holds, in configured order."""
    from indexer.diagnosis import Network
    from indexer.networks import by_caip2

    found = {name: by_caip2(caip2) for name, caip2 in in_configured_order(settings, store.chains()).items()}
    return {name: Network(known.rules, known.kind) for name, known in found.items() if known is not None}


def in_configured_order(settings: Settings, chains: Mapping[str, str]) -> dict[str, str]:
    """CAIP-2 ids by name: the configured chains first, in their order, and then what else is there."""
    names = [chain.name for chain in settings.chains if chain.name in chains]
    return {name: chains[name] for name in dict.fromkeys([*names, *sorted(chains)])}


@contextmanager
def writing_index(settings: Settings) -> Iterator[None]:
    """Turn what a full or failing disk makes an engine raise into an EngineError that names the index."""
    from overlay.engines import EngineError

    try:
        yield
    except OSError as error:
        raise EngineError(f"cannot write the index {masked(settings.search)}: {error.strerror or error}") from error
    except ValueError as error:
        # Tantivy's own words for trouble with a file; other ValueErrors are mistakes of this program
        if "os error" not in str(error):
            raise
        raise EngineError(f"cannot write the index {masked(settings.search)}: {error}") from error
