"""Where chains plug in: one file a kind of source, chosen by the URL in `A2B_CHAINS`, imported only then."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Literal, NamedTuple, Protocol, cast, runtime_checkable
from urllib.parse import parse_qsl

from indexer.facts import BlockRef, Event
from parsers.tx import Outpoint


class SourceError(Exception):
    """A source that cannot be used as configured: the message says what is wrong and what to do about it."""


class SourceUnavailableError(SourceError):
    """A source that does not answer now; worth another try."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the laws say differently from chain to chain.

    `coin` is bsv, btc, ltc, bch or doge. `segwit`: transactions may carry witnesses. `envelope`: where inscriptions
    stand: `output` (BSV, law 1), `witness` (BTC and LTC, law 3a) or None (pointers only).
    """

    coin: str
    segwit: bool
    envelope: str | None


class Told(NamedTuple):
    """A transaction that a source told: its number in the block (the coinbase's is 0), its bytes, and the merkle path
    (BRC-74) that proved it against the block's header."""

    tx_index: int
    raw: bytes
    bump: bytes


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What some sources tell of a block instead of all its bytes: some of its transactions, in block order, each proved
    against the header before, and where `witnessed`, their witnesses too. Its length is that of their bytes."""

    transactions: tuple[Told, ...] = ()
    witnessed: bool = False

    def __len__(self) -> int:
        return sum(len(told.raw) for told in self.transactions)


@dataclass(frozen=True, slots=True)
class Sayings:
    """What a block of a chain without transactions of Bitcoin's form said, read by the source itself: events in their
    order, and the card bodies they name by SHA-256. `size` is how many bytes that took to tell."""

    events: tuple[Event, ...] = ()
    cards: Mapping[bytes, bytes] = field(default_factory=dict)
    size: int = 0

    def __len__(self) -> int:
        return self.size


Newest = Mapping[str, Event]
"""The newest event about each id, of its registration or of an anchor; ids that nothing was said of are left out."""


@dataclass(frozen=True, slots=True)
class Sequel:
    """What a block said of these `ids` that only what was said of them before makes clear: `say` makes events of it,
    given the newest one of each. `size` is how many bytes it took to tell."""

    ids: frozenset[str]
    say: Callable[[Newest], Sayings]
    size: int = 0

    def __len__(self) -> int:
        return self.size


Data = memoryview | Excerpt | Sayings | Sequel
"""A block's raw bytes (header first), or what a source tells of it instead."""


Follow = Callable[[Mapping[bytes, bytes]], set[bytes]]
"""What walks from transactions back to their ancestors: takes raw transactions by txid (internal byte order), and
returns the txids that it wants next. Called without any, it returns those that it wants now."""


class HeaderRows(Protocol):
    """Where headers are kept between starts. A chain's headers are those of its best chain, in order of height."""

    def load_headers(self, chain: str) -> Iterator[tuple[int, bytes]]:
        """Pieces of the best chain, lowest first: the height of the first header, and headers of 80 bytes, joined."""
        ...

    def save_headers(self, chain: str, first: int, headers: bytes) -> None:
        """Replace what is kept from height `first` on by these headers of 80 bytes, joined; all or nothing."""
        ...


@runtime_checkable
class FoundRows(HeaderRows, Protocol):
    """Where a source of excerpts keeps what it found besides, between starts: transactions and their proofs."""

    def load_found(self, chain: str) -> Iterator[tuple[int, bytes, bytes]]:
        """Height, raw transaction and merkle path (BRC-74) of each."""
        ...

    def keep_found(self, chain: str, height: int, raw: bytes, bump: bytes) -> None:
        """Keep a transaction, in place of what was kept of it before."""
        ...

    def drop_found(self, chain: str, txid: bytes) -> None:
        """Keep a transaction (internal byte order) no longer."""
        ...


@runtime_checkable
class AccountRows(HeaderRows, Protocol):
    """Where a source of snapshots finds what it told before: the store itself, so that nothing is ever told of accounts
    that is not stored with it."""

    def newest_block(self, chain: str) -> BlockRef | None:
        """The newest block stored of a chain."""
        ...

    def newest_events(self, chain: str) -> Iterator[Event]:
        """The newest event about each account (`Event.txid`) of a chain."""
        ...

    def name_program(self, chain: str, program: str) -> None:
        """Remember of which program the accounts of `chain` are; raises StoreError when it was another one before,
        whose accounts would all seem to be closed."""
        ...


class Chain(Protocol):
    """A source of one chain's blocks. Heights count from genesis at 0.

    `network` is mainnet, testnet or regtest; `finality` the depth (blocks) below which nothing changes, None where any
    depth may; `first` the height at which reading starts. `complete` says whether every block is read, so that the
    state hash can be known; `checked` says in words which rules of headers were checked. All but `name` are known once
    it is open.
    """

    name: str
    caip2: str
    network: str
    rules: Rules
    finality: int | None
    first: int
    complete: bool
    checked: str

    async def open(self) -> None:
        """Connect, or read the folder. Raises SourceError when it cannot be used as configured."""
        ...

    async def tip(self) -> BlockRef | None:
        """The newest block of the best chain by work, None when there is none yet."""
        ...

    async def ref(self, height: int) -> BlockRef | None:
        """The best chain's block at `height`, None above the tip."""
        ...

    def blocks(self, first: int, last: int) -> AsyncIterator[tuple[BlockRef, Data]]:
        """The best chain's blocks from height `first` to `last`, in order, each as raw bytes (header first), or as an
        excerpt where `complete` is False. A `Sparse` source tells only some of them, as what they said.

        A view is valid until the next one is asked for. Ends early when the best chain changes underneath.
        """
        ...

    async def values(self, outpoints: Iterable[Outpoint], before: BlockRef) -> dict[Outpoint, int]:
        """Satoshis of outputs made in `before` or an earlier block, as far as this source can tell."""
        ...

    async def ancestors(self, before: BlockRef, follow: Follow) -> None:
        """Hand `follow` the transactions that it wants, all of which are in `before` or an earlier block, until it
        wants nothing more or this source does not have them. `follow` is called from a thread, once at a time.

        Raises SourceError.
        """
        ...

    async def heights(self, txids: Iterable[bytes], before: BlockRef) -> dict[bytes, int]:
        """The heights of the blocks that hold these transactions (`before` or earlier ones), by txid (internal byte
        order), as far as this source can tell. Raises SourceError."""
        ...

    async def mempool(self) -> frozenset[bytes] | None:
        """Txids (internal byte order) of what is unconfirmed at the source now; None where it cannot tell."""
        ...

    async def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Raw transactions by txid (internal byte order), unconfirmed ones too, as far as this source can tell."""
        ...

    async def refuse(self, ref: BlockRef, why: str) -> None:
        """Leave out a block whose bytes turned out to be bad, and all on top of it; the reason is kept for status."""
        ...

    async def wait(self, seconds: float) -> None:
        """Return when there may be something new, at the latest after `seconds`."""
        ...

    async def close(self) -> None:
        """Release what `open` took."""
        ...


@runtime_checkable
class Sparse(Protocol):
    """A source of a chain of so many blocks that only those that said something are stored, and the last of each
    stretch that was looked through. The follower makes `prev` of each `BlockRef` the hash of the one stored before it,
    and asks with `ref` whether the source still has that one: nothing else links them."""

    sparse: Literal[True]


@runtime_checkable
class Cautious(Protocol):
    """A source that says in `warning` what works less well than it could with another configuration, empty if nothing
    does."""

    @property
    def warning(self) -> str: ...


@runtime_checkable
class AuxPowOptional(Protocol):
    """A source that may be told to take merge-mined headers without their proof of work (`?auxpow=unchecked`)."""

    @property
    def headers_unproved(self) -> bool: ...


@runtime_checkable
class Selective(Protocol):
    """What a source of excerpts is asked besides, since it delivers only what matches, and not always at once.

    `note` says for status what such a source cannot know; `caught` counts its answers that cannot be true.
    """

    @property
    def note(self) -> str: ...

    @property
    def caught(self) -> int: ...

    async def look(self, at: BlockRef) -> int | None:
        """Look for transactions of blocks up to `at`, the newest one stored, that were not told when those were read;
        the lowest height from which blocks must be read again, None when nothing was missed."""
        ...

    async def spent(self, outpoint: Outpoint) -> bool | None:
        """Whether an output is spent, None where the source cannot tell or prove it. The spending transaction is part
        of its block from then on."""
        ...


CHAINS = {
    "files": "indexer.chains.files",
    "http": "indexer.chains.node",
    "https": "indexer.chains.node",
    "junglebus": "indexer.chains.junglebus",
}
"""What stands before the colon of a chain's URL, and the module whose `create(name, url, headers)` makes the chain.
Over HTTP many kinds of chain answer: `SPOKEN` and `MARKED` say which one a URL means."""

EVM_CHAINS = (
    "evm", "ethereum", "eth", "polygon", "bsc", "avalanche", "arbitrum", "base", "celo", "gnosis", "linea", "optimism",
    "scroll",
)  # fmt: skip

SNAPSHOTS = "indexer.chains.solana"
"""The module whose `join(name, urls, rows)` makes one chain of several endpoints: a name repeated is that."""

SPOKEN: dict[str, str] = {
    **dict.fromkeys(EVM_CHAINS, "indexer.chains.evm"),
    "erc8004": "indexer.chains.evm.erc8004",
    "sol": SNAPSHOTS,
    "solana": SNAPSHOTS,
}
"""What `?chain=` may say, or the configured name be, of a source over HTTP that is no node of a Bitcoin; its module."""

MARKED: dict[str, str] = {"contract": "indexer.chains.evm", "program": SNAPSHOTS}
"""An option that only sources of one kind take, by which a URL over HTTP may be known; its module."""


def create(name: str, url: str, headers: HeaderRows | None = None) -> Chain:
    """The chain that `name=url` in `A2B_CHAINS` describes, not opened yet; its module is imported only now.

    `headers` is where the chain keeps its headers between starts, None where nothing is kept. Raises SourceError naming
    the kinds there are.
    """
    return cast("Chain", import_module(module(name, url)).create(name, url, headers))


def module(name: str, url: str) -> str:
    """The module of a URL: that of its scheme; over HTTP `?chain=` decides, else the name, else an option it has."""
    scheme, _, rest = url.partition(":")
    if scheme not in CHAINS:
        raise SourceError(f"{name}: {scheme!a} is not a kind of source that is known; there are {', '.join(CHAINS)}")
    if scheme not in ("http", "https"):
        return CHAINS[scheme]
    options = dict(parse_qsl(rest.partition("?")[2], keep_blank_values=True))
    if "chain" in options or name in SPOKEN:
        return SPOKEN.get(options.get("chain", name), CHAINS[scheme])
    return next((MARKED[option] for option in options if option in MARKED), CHAINS[scheme])
