"""The protocol of block sources, and the records they deliver."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from indexer.errors import RefusedTransactionError, SourceError
from indexer.headers import HeaderStore
from indexer.headers.networks import CoinRules, Network
from indexer.model import BlockLogs, BlockRef, Event, PeerRecord
from parsers.bitcoin import tx
from parsers.bitcoin.tx import Outpoint
from parsers.errors import ParseError

if TYPE_CHECKING:
    from indexer.chains.http_client import HttpClient


class ProvenTransaction(NamedTuple):
    """A transaction with a proof: its index in the block (0: the coinbase), its raw bytes, and the merkle path (BUMP,
    BRC-74) that was verified against the block's header."""

    tx_index: int
    raw: bytes
    bump: bytes


@dataclass(frozen=True, slots=True)
class PartialBlock:
    """Some transactions of a block, in block order, from a source that does not deliver whole blocks. `witnessed`:
    their raw bytes include the witnesses. Its length is the sum of their sizes in bytes. The sequence may read them
    from a disk on each access."""

    transactions: Sequence[ProvenTransaction] = ()
    witnessed: bool = False

    def __len__(self) -> int:
        return sum(len(transaction.raw) for transaction in self.transactions)


@dataclass(frozen=True, slots=True)
class BlockEvents:
    """The events of a block on a chain without Bitcoin transactions, in order, as the source itself parsed them;
    `cards` are the card bodies by SHA-256. `size` is the number of bytes parsed, `logs` the logs from which they were
    parsed, on a chain of logs."""

    events: tuple[Event, ...] = ()
    cards: Mapping[bytes, bytes] = field(default_factory=dict)
    size: int = 0
    logs: BlockLogs | None = None

    def __len__(self) -> int:
        return self.size


NewestEvents = Mapping[str, Event]
"""The newest event of each id, about a registration or an anchor; ids without any event are left out."""


@dataclass(frozen=True, slots=True)
class DeferredEvents:
    """Records of one block that depend on the state of `ids` before the block: `Chain.resolve` turns them
    into events. `height` is the block's, `records` are the source's own; `size` is the number of bytes parsed, `logs`
    as of `BlockEvents`."""

    ids: frozenset[str]
    height: int
    records: tuple[Any, ...]
    size: int = 0
    logs: BlockLogs | None = None

    def __len__(self) -> int:
        return self.size


class LogsAgain(NamedTuple):
    """The logs of a range of blocks up to the height `last`, read a second time: for each block that has any, its hash
    and the number and hash of its logs. `records` are the source's own, by height."""

    last: int
    blocks: Mapping[int, tuple[bytes, BlockLogs]]
    records: Mapping[int, tuple[Any, ...]]


class BlockedBranch(NamedTuple):
    """Why the best chain ends before the source's newest block, which is at `height`."""

    height: int
    reason: str


BlockData = memoryview | PartialBlock | BlockEvents | DeferredEvents
"""A block's raw bytes (header first), or what the source delivers instead."""

AncestorVisitor = Callable[[Mapping[bytes, bytes]], set[bytes]]
"""Walks from transactions back to their ancestors: takes raw transactions by txid (internal byte order) and returns the
txids to fetch next. Called with an empty mapping, it returns the txids to start from."""


class PeerCounts(NamedTuple):
    """How many peers are connected that sent their headers, and in how many networks of addresses they are."""

    connected: int
    networks: int


class PeerStore(HeaderStore, Protocol):
    """Where a source that reads from peers keeps headers and the addresses of peers."""

    def load_peers(self, chain: str) -> list[PeerRecord]:
        """The addresses that were stored last."""
        ...

    def save_peers(self, chain: str, records: Sequence[PeerRecord]) -> None:
        """Replace the stored addresses by these."""
        ...


class ChainStore(PeerStore, Protocol):
    """The data that sources store in the database besides headers."""

    def load_extra_transactions(self, chain: str) -> Iterator[tuple[int, bytes, bytes]]:
        """Height, raw transaction and merkle path (BUMP, BRC-74) of each transaction kept by
        `store_extra_transaction`."""
        ...

    def store_extra_transaction(self, chain: str, height: int, raw: bytes, bump: bytes) -> None:
        """Insert or replace a transaction."""
        ...

    def delete_extra_transaction(self, chain: str, txid: bytes) -> None:
        """Delete a transaction by its txid (internal byte order)."""
        ...

    def load_unproved(self, chain: str) -> list[bytes]:
        """Txids (internal byte order) that were delivered without a valid proof, kept by `update_unproved`."""
        ...

    def update_unproved(self, chain: str, added: Collection[bytes], removed: Collection[bytes]) -> None:
        """Add and remove these txids."""
        ...

    def newest_block(self, chain: str) -> BlockRef | None:
        """The newest block stored of a chain."""
        ...

    def newest_events(self, chain: str) -> Iterator[Event]:
        """The newest event about each account (`Event.txid`) of a chain."""
        ...


class Chain(ABC):
    """A source of one chain's blocks. Heights count from genesis at 0; hashes and txids are in internal byte order.

    A source implements `open`, `tip`, `ref` and `blocks`; everything else has a neutral default. All attributes but
    `name` are known once it is open.

    `network` is mainnet, testnet or regtest; `finality` the depth in blocks below which nothing changes, None where any
    depth may; `first` the height at which reading starts. `complete`: every block is read in full, so that a state hash
    can be computed. `sparse`: only blocks with events are delivered, and the last one of each range that was searched;
    they do not link, so the follower sets `prev` itself and checks with `ref` that the source still has the stored one.
    `filtered`: only matching transactions are delivered, some of them late (see `recheck` and `is_spent`). `has_work`:
    the best chain is the one with the most proof of work; without it, the source is trusted for that.
    `is_read_twice`: nothing shows what an answer leaves out, so each block is read a second time (`logs_again`).
    `has_history`: what was read before can be read again. `names_network`: the network is what the source answers.
    `lacks_transactions`: it has no confirmed transaction by its id, and takes others that have (`add_lookup`).
    `contract` is what is read of a network of which not all is, known before it is open: `contract 0x…`, `program …`
    (base58), else empty.
    """

    name: str
    caip2: str
    network: str
    rules: CoinRules
    finality: int | None
    first: int
    complete: bool = True
    sparse: bool = False
    filtered: bool = False
    has_work: bool = True
    is_read_twice: bool = False
    has_history: bool = True
    names_network: bool = False
    contract: str = ""
    lacks_transactions: bool = False

    @property
    def checked(self) -> str:
        """Which header rules the source checks, in words."""
        return ""

    @property
    def headers_unproved(self) -> bool:
        """Whether merge-mined headers are accepted without their proof of work (`?auxpow=unchecked`)."""
        return False

    @property
    def warning(self) -> str:
        """A description of what works less well than it could with another configuration; empty if nothing does."""
        return ""

    @property
    def blocked(self) -> BlockedBranch | None:
        """Why blocks with more work than the best chain cannot be read; None where there are none."""
        return None

    @property
    def is_development(self) -> bool:
        """Whether the network's coins have no value, so that its source is trusted at once."""
        return self.network == "regtest"

    @property
    def clients(self) -> Sequence[HttpClient]:
        """The clients that send its requests; empty for a source without HTTP."""
        return ()

    @property
    def silence(self) -> float:
        """The seconds that the source is waited for without an answer, or beyond the time that what came of one takes
        at the least pace (`indexer.chains.silence`); 0 while nothing is waited for."""
        return max((client.answers.silence for client in self.clients), default=0.0)

    @property
    def peers(self) -> PeerCounts | None:
        """The peers of a source that reads from peers, None for others."""
        return None

    @property
    def violation_count(self) -> int:
        """How many responses of the source, or ranges of its files, were refused because they cannot be true."""
        return 0

    @property
    def sources(self) -> list[dict[str, Any]]:
        """A row for each of several sources of this chain: {source, state, height, hash, error?}; empty for one."""
        return []

    @property
    def warnings(self) -> list[str]:
        """Notes for the operator about several sources of this chain."""
        return []

    @property
    def disagreement(self) -> str:
        """How several sources of this chain disagree about its blocks, empty where they do not."""
        return ""

    @property
    def source_number(self) -> int:
        """The number of the source that is read, in configured order from 1."""
        return 1

    def served_by(self, height: int) -> int:  # noqa: ARG002
        """The number of the source of the block at `height`, as the last call of `blocks` delivered it."""
        return 1

    def take_network(self, network: Network, options: Mapping[str, str]) -> None:
        """Set the attributes of a network with Bitcoin blocks; the options `from` and `finality` replace its own."""
        self.caip2, self.network, self.rules = network.caip2, network.kind, network.rules
        self.first = int(options.get("from", network.first))
        self.finality = int(options["finality"]) if "finality" in options else network.finality

    @abstractmethod
    async def open(self) -> None:
        """Connect, or read the folder. Raises SourceError when it cannot be used as configured."""

    async def identify(self) -> str:
        """The CAIP-2 id of the network that the source names now, for one that `names_network`. Raises SourceError."""
        return self.caip2

    async def close(self) -> None:
        """Release what `open` acquired."""
        return

    @abstractmethod
    async def tip(self) -> BlockRef | None:
        """The newest block of the best chain by work, None before the first one. Raises SourceError."""

    @abstractmethod
    async def ref(self, height: int) -> BlockRef | None:
        """The best chain's block at `height`, None above the tip. Raises SourceError."""

    @abstractmethod
    def blocks(self, first: int, last: int) -> AsyncGenerator[tuple[BlockRef, BlockData], None]:
        """The best chain's blocks from height `first` to `last`, in order. Raises SourceError.

        A view is valid until the next block is requested. Ends early when the best chain changes meanwhile.
        """

    async def values(self, outpoints: Iterable[Outpoint], before: BlockRef) -> dict[Outpoint, int]:  # noqa: ARG002
        """Satoshis of outputs created in block `before` or earlier, as far as the source has them. By default from
        `transactions`: a txid commits to the same outputs at any height. Raises SourceError."""
        requested, outputs = list(outpoints), {}
        for txid, raw in (await self.transactions(outpoint.txid for outpoint in requested)).items():
            with suppress(ParseError):  # bytes of that hash that are not a transaction have no outputs
                outputs[txid] = tx.read_exactly(raw, segwit=self.rules.segwit).outputs
        return tx.values_of(requested, outputs)

    async def ancestors(self, before: BlockRef, visit: AncestorVisitor) -> None:  # noqa: ARG002
        """Pass to `visit` the transactions that it requests, all in block `before` or earlier, until it requests no
        more or the source lacks them. `visit` is called in a thread, one call at a time. By default from
        `transactions`. Raises SourceError."""
        await fetch_ancestors(self.transactions, visit)

    async def heights(self, txids: Iterable[bytes], before: BlockRef) -> dict[bytes, int]:  # noqa: ARG002
        """Heights of the blocks (`before` or earlier) that hold these transactions, as far as the source has them.
        Raises SourceError."""
        return {}

    async def mempool(self) -> frozenset[bytes] | None:
        """Txids of the unconfirmed transactions, None for a source without a mempool. Raises SourceError."""
        return None

    async def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:  # noqa: ARG002
        """Raw transactions by txid, confirmed or not, as far as the source has them. Raises SourceError."""
        return {}

    def add_lookup(self, chain: Chain) -> None:
        """Request confirmed transactions of this source, which is not open: of a kind that can answer without."""
        raise NotImplementedError(f"{self.name}: transactions are requested of no other source ({chain.name})")

    async def unspent(self, outpoints: Collection[Outpoint]) -> set[Outpoint] | None:  # noqa: ARG002
        """The outputs, of those passed in, that are in a block and that no block has spent; None where the source
        cannot tell. A mempool has no effect. Raises SourceError."""
        return None

    async def send(self, raw: bytes) -> None:  # noqa: ARG002
        """Have the source relay a transaction; sending it again is not an error. Raises RefusedTransactionError, also
        where the source relays none, and SourceError."""
        raise RefusedTransactionError(f"{self.name}: this kind of source relays no transactions")

    async def refuse(self, ref: BlockRef, reason: str) -> None:
        """Leave out a block with invalid bytes and all blocks on top of it. Raises SourceError where the source
        delivers nothing that could be refused."""
        raise SourceError(f"{self.name}: block {ref.height:,} cannot be refused: {reason}")

    async def wait(self, seconds: float) -> None:
        """Return when there may be something new, at the latest after `seconds`. Raises SourceError."""
        await asyncio.sleep(seconds)

    def resolve(self, deferred: DeferredEvents, newest: NewestEvents) -> BlockEvents:
        """The events of a block that this source delivered as `DeferredEvents`, given the newest event of each of its
        ids before the block."""
        raise NotImplementedError(f"{self.name}: nothing is deferred ({len(deferred.ids)} ids, {len(newest)} events)")

    async def logs_again(self, first: int, last: int, attempt: int) -> LogsAgain | None:  # noqa: ARG002
        """Read the blocks from height `first` on a second time, up to `last` or as many as one request allows; None
        where the source has no block `first`. Where there are several sources, another one than the current one reads
        them, and with each `attempt` the next. Raises SourceError, after which fewer blocks may succeed."""
        return None

    def add_logs(self, again: LogsAgain) -> None:
        """Use the logs of a second reading, instead of the fewer ones of the first, when their blocks are read the next
        time."""
        raise NotImplementedError(f"{self.name}: no blocks are read twice ({again.last})")

    async def recheck(self, newest: BlockRef) -> int | None:  # noqa: ARG002
        """Search blocks up to `newest`, the newest one stored, for transactions that were missing when they were read:
        the lowest height to read again, None when none was missing. Raises SourceUnavailableError."""
        return None

    async def is_spent(self, outpoint: Outpoint) -> bool | None:  # noqa: ARG002
        """Whether an output is spent, None where the source has no proof. The spending transaction is part of its block
        from then on. Raises SourceError."""
        return None


async def fetch_ancestors(
    transactions: Callable[[set[bytes]], Awaitable[dict[bytes, bytes]]], visit: AncestorVisitor
) -> None:
    """Fetch by txid what `visit` requests, round by round, until it requests no txid that was not fetched before."""
    requested: set[bytes] = set()
    missing = await asyncio.to_thread(visit, {})
    while missing := missing - requested:
        requested |= missing
        missing = await asyncio.to_thread(visit, await transactions(missing))
