"""Domain badges (law 11): which registrations the host of a card's url confirms; and the endpoints that cards name.

One visit to a host decides for all registrations with its url: 10,000 of them cause one visit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from hashlib import sha256
from itertools import chain
from typing import NamedTuple

from indexer.failures import LeftOut, is_of_machine
from indexer.fetcher.connections import Admit
from indexer.fetcher.host_names import DomainVerifier, HostNames
from indexer.fetcher.http_fetcher import open_admit
from indexer.fetcher.key_sets import signed_card
from indexer.fetcher.reasons import FetchError, Refusal
from indexer.fetcher.schedule import Priority
from indexer.resolution.pointer_service import is_outpoint, pointer_listings
from indexer.store import Store, Writer, visits
from indexer.store.badges import BADGE_CHECK, BadgeCandidate
from indexer.store.card_signatures import SignedCard
from indexer.store.observed_tools import NamedEndpoint
from parsers import cards
from parsers.cards import AgentCard, Kind, ToolConfig, is_entry
from parsers.pointers.locator import url_host

BATCH = 200
"""Changes of the outbox processed in one step: reading so many cards takes 20 ms."""


class BadgeChecks:
    """Fetches the names that hosts give, and stores the badges of the registrations that name the host."""

    kind, priority = BADGE_CHECK, Priority.BADGE

    def __init__(self, verifier: DomainVerifier, writer: Writer) -> None:
        self._verifier, self._writer = verifier, writer

    async def check(self, host: str, now: int, admit: Admit = open_admit) -> tuple[int, FetchError | None]:
        """Fetch and store the names that a host gives, as far as they are available. Raises FetchError, StoreError."""
        names = await self._verifier.fetch_names(host, admit)
        return await self._record(host, names, now), FetchError(*names.refusal) if names.refusal else None

    async def fail(self, host: str, reason: str, now: int) -> int:
        """Store that the fetch failed. Raises StoreError."""
        return await self._record(host, HostNames(refusal=Refusal(reason), dns_refusal=Refusal(reason)), now)

    async def _record(self, host: str, names: HostNames, now: int) -> int:
        return await asyncio.to_thread(visits.record_host, self._writer, names.verdict(host), now)


_WORK = "host"
"""The kind of work in `LeftOut`: reading which host a card names."""


class _Named(NamedTuple):
    """The live agents among some registrations with the host of their card's url, their signed cards, and the endpoints
    that the cards of agents and servers name."""

    hosts: list[BadgeCandidate]
    signed: list[SignedCard]
    endpoints: list[NamedEndpoint]


class BadgeQueue:
    """Keeps the lists of registrations with hosts to check and of named endpoints in sync with the store, by its
    outbox."""

    def __init__(self, store: Store, writer: Writer, left_out: LeftOut | None = None) -> None:
        self._store, self._writer = store, writer
        self._left_out = left_out if left_out is not None else LeftOut()
        self._walk: tuple[int, tuple[str, str] | str | None] | None = None

    def step(self, now: int) -> int:
        """Process the next changes; their number. `now` in milliseconds since 1970: new registrations are due then.
        Raises StoreError."""
        position = self._store.badges.position()
        if position is None:
            return self._scan(now)
        changes, failed = self._store.outbox.after(position, BATCH), self._left_out.due(_WORK, BATCH)
        for id_ in failed:
            self._left_out.remove(_WORK, id_)
        if ids := list(dict.fromkeys([*(change.id for change in changes), *failed])):
            self._update(ids, changes[-1].seq if changes else position, now)
        return len(changes)

    def _scan(self, now: int) -> int:
        """Rebuild the lists from all stored registrations, then pointers, in batches: the outbox was never read, or is
        a new one."""
        newest, after = self._walk or (self._store.outbox.newest_seq(), None)
        if isinstance(after, str) or not (batch := self._store.registrations.ids(after, BATCH)):
            ids = list(self._store.pointers.ids(after if isinstance(after, str) else None, BATCH))
            self._walk = (newest, ids[-1]) if ids else None
        else:
            ids, self._walk = list(dict.fromkeys(id_ for _, id_ in batch)), (newest, batch[-1])
        self._update(ids, None if ids else newest, now)
        return max(len(ids), 1)

    def _update(self, ids: list[str], seq: int | None, now: int) -> None:
        named = _Named([], [], [])
        for kind, live in self._store.registrations.live_cards(ids).items():
            ids_of: dict[bytes, list[str]] = {}
            for id_, digest in live.items():
                ids_of.setdefault(digest, []).append(id_)
            for digest, body in chain.from_iterable(map(dict.items, self._store.content.card_portions(ids_of))):
                self._look(named, ids_of[digest], body, kind)
        for pointers in pointer_listings(self._store, (id_ for id_ in ids if not is_outpoint(id_))):
            if pointers.body is not None:
                self._look(named, [pointers.id], pointers.body)
        visits.update_candidates(self._writer, named.hosts, ids, seq, now, named.signed, named.endpoints)

    def _look(self, named: _Named, ids: list[str], body: bytes, kind: Kind | None = None) -> None:
        """Add the names of a card of registrations of a kind, or of a pointer."""
        try:
            urls = list(dict.fromkeys(urls_of_card(body, kind, ids[0] if kind is None and is_entry(ids[0]) else "")))
            digest, host = sha256(body).digest(), url_host(urls[0]) if urls and kind is Kind.AGENT else ""
            signature = signed_card(digest, body, host) if host else None
        except Exception as error:  # whatever a stranger's card provokes, the others are read
            if is_of_machine(error):
                raise
            for id_ in ids:
                self._left_out.add(_WORK, id_, error)
            return
        named.endpoints.extend(NamedEndpoint(id_, url) for id_ in ids for url in urls)
        if host:
            named.hosts.extend(BadgeCandidate(id_, host, digest) for id_ in ids)
        if signature is not None:
            named.signed.append(signature)


def urls_of_card(body: bytes, kind: Kind | None, entry: str = "") -> Iterator[str]:
    """The URL of an agent, or those of the servers of a config; none of an invalid card."""
    card = cards.examine(body, kind, entry=entry).card
    if isinstance(card, ToolConfig):
        yield from (server.url for server in card.servers if server.url)
    elif isinstance(card, AgentCard) and card.url:
        yield card.url


def host_of_card(body: bytes) -> str:
    """The host of an agent card's url, "" for none."""
    return url_host(next(urls_of_card(body, Kind.AGENT), ""))
