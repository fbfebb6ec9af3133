"""Domain badges (law 11): which registrations the host of a card's url confirms; and the endpoints that cards name.

One visit to a host decides for all registrations with its url: 10,000 of them cause one visit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import NamedTuple

from indexer.failures import LeftOut, is_of_machine
from indexer.fetcher.connections import Admit
from indexer.fetcher.dns import TxtRecords
from indexer.fetcher.http_fetcher import HttpFetcher, open_admit
from indexer.fetcher.key_sets import signed_card
from indexer.fetcher.reasons import TROUBLE, FetchError, Refusal
from indexer.fetcher.schedule import Priority
from indexer.resolution.pointer_service import is_outpoint, pointer_listings
from indexer.store import Store, Writer, visits
from indexer.store.badges import BADGE_CHECK, BadgeCandidate, HostVerdict
from indexer.store.card_signatures import SignedCard
from indexer.store.observed_tools import NamedEndpoint
from parsers import cards
from parsers.bitcoin.tx import Outpoint
from parsers.cards import AgentCard, Kind, ToolConfig, is_entry, strict_json
from parsers.errors import CardError
from parsers.pointers.locator import WELL_KNOWN, url_host

MEMBER = "x-a2b-id"
MAX_NAMED = 1_000
MAX_ID = 4_096
BATCH = 200
"""Changes of the outbox processed in one step: reading so many cards takes 20 ms."""

_UNKNOWN = TROUBLE | {"fetch-protocol", "fetch-framing", "fetch-fault"}
"""Codes after which the names that a host gives are unknown: a badge is not lost at once."""


@dataclass(frozen=True, slots=True)
class HostNames:
    """The ids and cards that a host names. `served` are the SHA-256 of the cards that it serves, `named` the ids in
    these cards, `in_dns` the ids in its TXT records; the refusals say why cards or records could not be fetched."""

    served: frozenset[bytes] = frozenset()
    named: frozenset[str] = frozenset()
    in_dns: frozenset[str] = frozenset()
    refusal: Refusal | None = None
    dns_refusal: Refusal | None = None

    def verdict(self, host: str) -> HostVerdict:
        """The consequences for the registrations with a url on the host."""
        # naming beats hash: where a host names ids, only these get its badge
        by_hash = frozenset() if self.named or self.in_dns else self.served
        unknown = {"dns"} if self.dns_refusal else set()
        if self.refusal is not None and self.refusal.code in _UNKNOWN:
            unknown |= {"name"} if self.in_dns else {"name", "hash"}
        reason = self.refusal or self.dns_refusal
        return HostVerdict(host, self.named, self.in_dns, by_hash, frozenset(unknown), reason.code if reason else "")


class DomainVerifier:
    """Fetches the registrations that hosts name."""

    def __init__(self, fetcher: HttpFetcher, txt: TxtRecords) -> None:
        self._fetcher, self._txt = fetcher, txt

    async def fetch_names(self, host: str, admit: Admit = open_admit) -> HostNames:
        """The names in both cards of a host and in its TXT records. Raises FetchError only for `fetch-budget`, when
        nothing was requested."""
        served: dict[bytes, bytes] = {}
        refusal: Refusal | None = None
        async with self._fetcher.visit(admit) as visit:
            for path in WELL_KNOWN:
                try:
                    body = (await visit.get(f"https://{host}{path}", same_host=True)).body or b""
                except FetchError as error:
                    if error.refusal.code == "fetch-budget":
                        raise
                    refusal = refusal or error.refusal
                    if error.refusal.code in _UNKNOWN:
                        break
                else:
                    served[sha256(body).digest()] = body
        named = frozenset[str]().union(*map(named_in, served.values()))
        served_refusal = refusal if not served or (refusal and refusal.code in _UNKNOWN) else None
        try:
            return HostNames(frozenset(served), named, _normalised(await self._txt.ids(host)), served_refusal)
        except FetchError as error:
            return HostNames(frozenset(served), named, frozenset(), served_refusal, error.refusal)


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


def named_in(body: bytes) -> frozenset[str]:
    """The ids that a card names in its member `x-a2b-id`, a string or a list of strings; empty for any other bytes."""
    try:
        card, _ = strict_json.loads(body)
    except CardError:
        return frozenset()
    member = card.get(MEMBER) if isinstance(card, dict) else None
    listed = member if isinstance(member, list) else [member]
    return _normalised(text for text in listed[:MAX_NAMED] if isinstance(text, str) and len(text) <= MAX_ID)


def _normalised(texts: Iterable[str]) -> frozenset[str]:
    """Ids in the form of law 3, with any separator of txid and output number."""
    ids = set()
    for text in texts:
        try:
            outpoint, mark, number = text.strip().partition("#")
            ids.add(f"{Outpoint.parse(outpoint)}{mark}{number}")
        except ValueError:  # the id of an account or a log
            ids.add(text.strip())
    return frozenset(ids - {""})


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
