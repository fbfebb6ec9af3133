"""Domain badges (law 11): what the host of a card's url says of the registrations that name it. Decided here, kept in
the store: one visit to a host answers for all of them, so that 10,000 registrations with a victim's url are one visit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from indexer.fetching.fetcher import Fetcher, open_admit
from indexer.fetching.network import Admit
from indexer.fetching.reasons import TROUBLE, FetchError, Refusal
from indexer.fetching.txt import TxtRecords
from indexer.store import Store, Writer
from indexer.store.badges import Enlisted, Verdict
from parsers import cards, strict_json
from parsers.cards import AgentCard, Kind
from parsers.errors import CardError
from parsers.hosts import url_host
from parsers.locator import WELL_KNOWN
from parsers.tx import Outpoint

MEMBER = "x-a2b-id"
MAX_NAMED = 1_000
MAX_ID = 4_096
BATCH = 200
"""Changes of the outbox looked at in one step: reading so many cards takes 20 ms."""

_UNHEARD = TROUBLE | {"fetch-protocol", "fetch-framing", "fetch-fault"}
"""Codes after which nobody knows what the host would have said: a badge is not lost by them at once."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a host says. `served` are the SHA-256 of the cards it serves, `named` the ids that these name, `in_dns`
    those that its TXT records name; the refusals say why cards and records could not be heard."""

    served: frozenset[bytes] = frozenset()
    named: frozenset[str] = frozenset()
    in_dns: frozenset[str] = frozenset()
    refusal: Refusal | None = None
    dns_refusal: Refusal | None = None

    def verdict(self, host: str) -> Verdict:
        """What follows for the registrations that name the host."""
        # naming beats hash: a host that names anybody has said whom it means
        by_hash = frozenset() if self.named or self.in_dns else self.served
        unheard = {"dns"} if self.dns_refusal else set()
        if self.refusal is not None and self.refusal.code in _UNHEARD:
            unheard |= {"name"} if self.in_dns else {"name", "hash"}
        reason = self.refusal or self.dns_refusal
        return Verdict(host, self.named, self.in_dns, by_hash, frozenset(unheard), reason.code if reason else "")


class Badger:
    """Asks hosts what they say of registrations."""

    def __init__(self, fetcher: Fetcher, txt: TxtRecords) -> None:
        self._fetcher, self._txt = fetcher, txt

    @staticmethod
    def silence(fault: str) -> Said:
        """What is left of a question that failed here, for reasons of our own."""
        return Said(refusal=Refusal("fetch-fault", fault), dns_refusal=Refusal("fetch-fault", fault))

    async def ask(self, host: str, admit: Admit = open_admit) -> Said:
        """What a host says in its cards, both of them, and in its TXT records. Raises FetchError for `fetch-budget`
        alone: then it was not asked."""
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
                    if error.refusal.code in _UNHEARD:
                        break
                else:
                    served[sha256(body).digest()] = body
        named = frozenset[str]().union(*map(named_in, served.values()))
        heard = refusal if not served or (refusal and refusal.code in _UNHEARD) else None
        try:
            return Said(frozenset(served), named, _spelt(await self._txt.ids(host)), heard)
        except FetchError as error:
            return Said(frozenset(served), named, frozenset(), heard, error.refusal)


def named_in(body: bytes) -> frozenset[str]:
    """The ids that a card names in its member `x-a2b-id`, a string or a list of strings; none for any other bytes."""
    try:
        card, _ = strict_json.loads(body)
    except CardError:
        return frozenset()
    told = card.get(MEMBER) if isinstance(card, dict) else None
    listed = told if isinstance(told, list) else [told]
    return _spelt(text for text in listed[:MAX_NAMED] if isinstance(text, str) and len(text) <= MAX_ID)


def _spelt(texts: Iterable[str]) -> frozenset[str]:
    """Ids in the spelling of law 3, whatever separates txid and output number."""
    found = set()
    for text in texts:
        try:
            found.add(str(Outpoint.parse(text.strip())))
        except ValueError:  # the id of an account or a log
            found.add(text.strip())
    return frozenset(found - {""})


class Enlisting:
    """Keeps the list of registrations whose host is to be asked in step with the store, by its outbox."""

    def __init__(self, store: Store, writer: Writer) -> None:
        self._store, self._writer = store, writer
        self._walk: tuple[int, tuple[str, str] | None] | None = None

    def step(self, now: int) -> int:
        """Look at the next changes; how many were looked at. `now` in milliseconds since 1970: new ones are due then.
        Raises StoreError."""
        cursor = self._store.badge_cursor()
        if cursor is None:
            return self._walk_on(now)
        changes = self._store.changes(cursor, BATCH)
        if changes:
            ids = list(dict.fromkeys(change.id for change in changes))
            self._writer.enlist(self._look(ids), ids, changes[-1].seq, now)
        return len(changes)

    def _walk_on(self, now: int) -> int:
        """Begin anew from what is stored, one batch after the other: the outbox was never read, or is another one."""
        newest, after = self._walk or (self._store.newest_seq(), None)
        found = self._store.ids(after, BATCH)
        ids = list(dict.fromkeys(id_ for _, id_ in found))
        self._writer.enlist(self._look(ids), ids, None if found else newest, now)
        self._walk = (newest, found[-1]) if found else None
        return max(len(found), 1)

    def _look(self, ids: list[str]) -> list[Enlisted]:
        """Those of these registrations that are live agents with the url of a host."""
        found: list[Enlisted] = []
        live = {}
        for id_, story in self._store.stories(ids).items():
            newest = story.confirmed[-1].event.state if story.confirmed else None
            if newest is not None and newest.kind is Kind.AGENT and newest.outpoint is not None:
                live[id_] = newest.card
        bodies = self._store.cards(set(live.values()))
        for id_, digest in live.items():
            host = _host(bodies[digest]) if digest in bodies else ""
            if host:
                found.append(Enlisted(id_, host, digest))
        return found


def _host(body: bytes) -> str:
    """The host of an agent card's url, "" for none."""
    card = cards.examine(body, Kind.AGENT).card
    return url_host(card.url) if isinstance(card, AgentCard) else ""
