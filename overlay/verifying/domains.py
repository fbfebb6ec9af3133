"""What the hosts of inscribed cards (law 11) and of pointers (law 9) say of a listing, asked from here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

from indexer.badges import Badger, Said
from indexer.fetching.cards import CardFetcher, Fetched, State, Wanted
from indexer.fetching.txt import TxtRecords
from overlay.pointed import host as pointing_host
from overlay.verifying.claim import Claim, NotCheckedError, NotProvedError
from overlay.verifying.members import same
from parsers.cards import Kind

if TYPE_CHECKING:
    from indexer.settings import Settings

Shown = tuple[str, Mapping[str, Any]]
"""A sentence, and the members of the item that follow."""


class Hosts(Protocol):
    """Who asks hosts."""

    def ask(self, host: str) -> Said:
        """What a host says in its cards and its TXT records."""
        ...

    def fetch(self, locator: str, digest: bytes) -> Fetched:
        """What a pointer's locator serves, where a card with this SHA-256 is wanted."""
        ...


class Internet:
    """Asks them over the network, as the indexer does."""

    def __init__(self, settings: Settings) -> None:
        from indexer.fetching.fetcher import Fetcher
        from indexer.fetching.gateway import Gateway
        from indexer.fetching.network import tls_context
        from indexer.fetching.resolving import SystemResolver, table

        tls = tls_context(settings.fetch_ca_file or None)
        self._fetcher = Fetcher(SystemResolver(), tls, table(settings.fetch_resolve))
        self._gateway = Gateway(settings.ipfs_gateway) if settings.ipfs_gateway else None
        self._txt = TxtRecords()

    def ask(self, host: str) -> Said:
        """What a host says in its cards and its TXT records."""
        return asyncio.run(Badger(self._fetcher, self._txt).ask(host))

    def fetch(self, locator: str, digest: bytes) -> Fetched:
        """What a pointer's locator serves, where a card with this SHA-256 is wanted."""
        return asyncio.run(CardFetcher(self._fetcher, self._gateway).fetch_card(locator, Wanted((digest,))))


def inscribed(claim: Claim, hosts: Hosts, host: str) -> Shown:
    """Whether the host of an inscribed card's url speaks for it as the answer says. Raises NotProvedError when it does
    not, NotCheckedError when that cannot be told, or the answer claims less than the host says."""
    claims = hosts.ask(host)
    verdict = claims.verdict(host)
    by = _by(claim, claims)
    if not by and verdict.unheard:
        refusal = claims.refusal or claims.dns_refusal
        raise NotCheckedError(f"{host} could not be asked: {refusal.sentence if refusal else ''}")
    shown = {"host": host, "verified": bool(by)} | ({"by": by} if by else {})
    claimed = _claimed(claim)
    if isinstance(claimed, dict) and claimed.get("verified") is True and not by:
        raise NotProvedError(f"the answer says that {host} speaks for the listing, and {host} does not")
    if not same(shown, claimed):
        raise NotCheckedError(f"{host} {_WORDS[by]}, and the answer says otherwise")
    return f"{host} {_WORDS[by]}, as the answer says", {"domain": claim.item["domain"]}


def _claimed(claim: Claim) -> object:
    """The item's domain without when it was last asked, which only the server says."""
    claimed = claim.item.get("domain")
    if not isinstance(claimed, dict):
        return claimed
    return {name: value for name, value in claimed.items() if name != "checkedAt"}


_WORDS = {
    "name": "names the listing in its card",
    "dns": "names the listing in DNS",
    "hash": "serves the very bytes of the card",
    "": "says nothing of the listing",
}


def _by(claim: Claim, claims: Said) -> str:
    """How a host speaks for a listing (law 11): by name, dns or hash, "" for not at all."""
    if claim.kind is not Kind.AGENT:
        return ""
    if claim.registration in claims.named:
        return "name"
    if claim.registration in claims.in_dns:
        return "dns"
    names_another = claims.named or claims.in_dns
    return "hash" if sha256(claim.card).digest() in claims.served and not names_another else ""


def pointed(claim: Claim, hosts: Hosts, host: str) -> Shown:
    """Whether what a pointer names serves the card (law 9). Raises NotProvedError when it serves something else and the
    answer does not say so, NotCheckedError when that cannot be told."""
    fetched = hosts.fetch(claim.registration, sha256(claim.card).digest())
    integrity = claim.item.get("integrity")
    if fetched.state is State.MET:
        if integrity != "hash-verified":
            raise NotCheckedError(f"{claim.registration} serves the card, and the answer says {str(integrity)[:60]!a}")
        is_named = bool(pointing_host(claim.registration))
        is_true = same({"host": host, "verified": is_named} if host else None, _claimed(claim))
        shown = {"integrity": integrity} | ({"domain": claim.item["domain"]} if is_true else {})
        return f"{claim.registration} serves the card that the pointer names", shown
    if fetched.state is State.MISMATCH and integrity == "hash-verified":
        raise NotProvedError(f"{claim.registration} serves something else than the card that the pointer names")
    why = next((attempt.refusal.sentence for attempt in fetched.attempts if attempt.refusal), "")
    raise NotCheckedError(f"{claim.registration} does not serve the card: {why}")
