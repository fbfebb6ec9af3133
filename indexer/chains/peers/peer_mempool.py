"""The unconfirmed transactions that peers announce, requested within a budget of bytes.

A peer's list of unconfirmed transactions cannot be asked for: transactions are known from their announcements, and
leave when a block has them, when another one spends the same output, or after a day. Their bytes stay for as long as
there is room, so that they can be read again when an output that they spend becomes relevant.

Nothing proves that an unconfirmed transaction is valid. Nodes announce valid ones alone, so those count that peers of
several networks of addresses announce.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from indexer.chains.peers.address_book import AddressGroup, group_of
from indexer.chains.peers.peer import Peer, PeerError
from indexer.chains.peers.wire_networks import WireNetwork
from parsers.bitcoin import tx
from parsers.bitcoin.tx import Outpoint, sha256d
from parsers.errors import ParseError

BUDGET = 500_000
"""Bytes per second of unconfirmed transactions, by default."""

BURST_SECONDS = 10.0
"""The budget of so many seconds may be used at once."""

MAX_LISTED, LISTED_SECONDS = 200_000, 86_400.0
"""Unconfirmed transactions that are listed, and the seconds after which one is not listed any more."""

CACHE_BYTES = 64 << 20
"""Bytes of transactions in memory."""

MAX_WAITING = 50_000
"""Announced transactions that wait for the budget; of more, those that have waited longest are not read."""

ANSWER_SECONDS, TICK_SECONDS = 10.0, 0.05
"""Seconds within which a peer sends a transaction before another peer is asked, and between two looks."""

MAX_PEERS = 3
"""Peers that a transaction is requested of, one after the other."""

MAX_REQUESTED = 1_000
"""Transactions in one request."""

MINED_BLOCKS = 100
"""Blocks whose transactions are listed again if the block leaves the best chain."""

USUAL_BYTES = 400
"""Bytes for which a transaction counts until it has arrived."""


@dataclass(slots=True)
class _Announcement:
    """A transaction that peers of `groups` announced: `peers` have not been asked for it yet, `current` was, at
    `since`."""

    peers: list[Peer] = field(default_factory=list)
    groups: set[AddressGroup] = field(default_factory=set)
    current: Peer | None = None
    since: float = 0.0


class PeerMempool:
    """The unconfirmed transactions of one network, at most `budget` bytes of them a second. `arrived` is called when
    there are new ones. Listed are those that peers of `announcers` networks of addresses announce. Nothing is requested
    until the list is asked for the first time."""

    def __init__(self, wire: WireNetwork, budget: int, announcers: int, arrived: Callable[[], None]) -> None:
        self._segwit, self._budget, self._announcers, self._arrived = wire.segwit, budget, announcers, arrived
        self.is_active = False
        self.unread = 0
        self._tokens, self._refilled = budget * BURST_SECONDS, time.monotonic()
        self._waiting: OrderedDict[bytes, _Announcement] = OrderedDict()
        self._requested: dict[bytes, _Announcement] = {}
        self._lone: OrderedDict[bytes, set[AddressGroup]] = OrderedDict()
        self._listed: OrderedDict[bytes, float] = OrderedDict()
        self._cached: OrderedDict[bytes, bytes] = OrderedDict()
        self._cached_bytes = 0
        self._spends: dict[Outpoint, bytes] = {}
        self._inputs: dict[bytes, tuple[Outpoint, ...]] = {}
        self._mined: OrderedDict[bytes, frozenset[bytes]] = OrderedDict()

    # -- what is listed

    def listed(self, is_best: Callable[[bytes], bool]) -> frozenset[bytes]:
        """The txids of transactions that have arrived and are in no block of the best chain."""
        self.is_active = True
        oldest = time.monotonic() - LISTED_SECONDS
        while self._listed and next(iter(self._listed.values())) < oldest:
            self._drop(next(iter(self._listed)))
        mined = [txids for digest, txids in self._mined.items() if is_best(digest)]
        return frozenset(self._listed).difference(*mined)

    def get(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """The bytes of the transactions that are in memory."""
        return {txid: raw for txid in txids if (raw := self._cached.get(txid)) is not None}

    def __contains__(self, txid: bytes) -> bool:
        """Whether a transaction has arrived, also where its bytes are not in memory any more."""
        return txid in self._listed or txid in self._lone

    def confirm(self, digest: bytes, txids: Iterable[bytes]) -> None:
        """A block has these transactions."""
        self._mined.pop(digest, None)
        self._mined[digest] = frozenset(txid for txid in txids if txid in self._listed)
        if len(self._mined) > MINED_BLOCKS:
            for txid in self._mined.popitem(last=False)[1]:
                self._drop(txid)

    def _drop(self, txid: bytes) -> None:
        self._listed.pop(txid, None)
        self._lone.pop(txid, None)
        self._cached_bytes -= len(self._cached.pop(txid, b""))
        for outpoint in self._inputs.pop(txid, ()):
            if self._spends.get(outpoint) == txid:
                del self._spends[outpoint]

    # -- what peers announce and send

    def announce(self, peer: Peer, txids: Sequence[bytes]) -> None:
        """A peer announces transactions."""
        if not self.is_active:
            return
        group = group_of(peer.address)
        for txid in txids:
            if txid in self._listed:
                continue
            if (groups := self._lone.get(txid)) is not None:
                groups.add(group)
                self._list(txid, groups)
                continue
            announcement = self._requested.get(txid) or self._waiting.get(txid)
            if announcement is None:
                announcement = self._waiting[txid] = _Announcement()
            if len(announcement.peers) < MAX_PEERS and peer not in announcement.peers:
                announcement.peers.append(peer)
                announcement.groups.add(group)
        while len(self._waiting) > MAX_WAITING:
            self._waiting.popitem(last=False)
            self.unread += 1
        self._request()

    def take(self, raw: bytes) -> bool:
        """A transaction arrived; False for one that was not requested."""
        try:
            inputs, txid = self._parse(raw)
        except ParseError:
            return False
        announcement = self._requested.pop(txid, None)
        if announcement is None:
            return False
        self._tokens += USUAL_BYTES - len(raw)
        for rival in {self._spends[outpoint] for outpoint in inputs if outpoint in self._spends}:
            self._drop(rival)
        self._cached[txid] = raw
        self._cached_bytes += len(raw)
        self._inputs[txid] = inputs
        self._spends.update(dict.fromkeys(inputs, txid))
        while self._cached_bytes > CACHE_BYTES:
            self._cached_bytes -= len(self._cached.popitem(last=False)[1])
        self._lone[txid] = announcement.groups
        if len(self._lone) > MAX_LISTED:
            self._drop(next(iter(self._lone)))
        self._list(txid, announcement.groups)
        return True

    def _list(self, txid: bytes, groups: Collection[AddressGroup]) -> None:
        """List a transaction that has arrived, once peers of enough networks announce it."""
        if len(groups) < self._announcers:
            return
        del self._lone[txid]
        self._listed[txid] = time.monotonic()
        if len(self._listed) > MAX_LISTED:
            self._drop(next(iter(self._listed)))
            self.unread += 1
        self._arrived()

    def _parse(self, raw: bytes) -> tuple[tuple[Outpoint, ...], bytes]:
        """The outpoints that a transaction spends, on chains where another may replace it, and its txid."""
        if not self._segwit:
            return (), sha256d(raw)
        transaction = tx.read_exactly(raw, segwit=True)
        return tuple(spent.prevout for spent in transaction.inputs), transaction.txid

    def missing(self, peer: Peer, txids: Iterable[bytes]) -> None:
        """A peer does not have transactions any more: the next one that announced them is asked."""
        for txid in txids:
            announcement = self._requested.get(txid)
            if announcement is not None and announcement.current is peer:
                self._wait_again(txid)

    def leave(self, peer: Peer) -> None:
        """The connection to a peer ended."""
        self.missing(peer, [txid for txid, item in self._requested.items() if item.current is peer])

    def _wait_again(self, txid: bytes) -> None:
        announcement = self._requested.pop(txid)
        self._tokens += USUAL_BYTES
        if announcement.peers:
            self._waiting[txid] = announcement
        else:
            self.unread += 1

    # -- requests

    async def run(self) -> None:
        """Request what is due until cancelled."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            late = time.monotonic() - ANSWER_SECONDS
            for txid in [txid for txid, item in self._requested.items() if item.since < late]:
                self._wait_again(txid)
            self._request()

    def _request(self) -> None:
        """Request the transactions that have waited longest, as many as the budget allows."""
        now = time.monotonic()
        self._tokens = min(self._tokens + (now - self._refilled) * self._budget, self._budget * BURST_SECONDS)
        self._refilled = now
        by_peer: dict[Peer, list[bytes]] = {}
        count = min(len(self._waiting), int(max(self._tokens, 0) / USUAL_BYTES), MAX_REQUESTED)
        for txid in list(islice(self._waiting, count)):
            announcement = self._waiting.pop(txid)
            announcement.current, announcement.since = announcement.peers.pop(0), now
            self._requested[txid] = announcement
            by_peer.setdefault(announcement.current, []).append(txid)
        self._tokens -= count * USUAL_BYTES
        for peer, txids in by_peer.items():
            self._request_of(peer, txids)

    def _request_of(self, peer: Peer, txids: Collection[bytes]) -> None:
        try:
            peer.request_transactions(txids)
        except PeerError:
            self.missing(peer, txids)
