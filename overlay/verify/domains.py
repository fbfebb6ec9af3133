"""Checks of a listing against its host: of inscribed cards (law 11) and of pointers (law 9)."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from indexer.fetcher.card_fetcher import CardFetch, CardFetcher, CardRequest, CardState
from indexer.fetcher.dns import TxtRecords
from indexer.fetcher.host_names import DomainVerifier, HostNames
from overlay.listings.from_pointer import host as pointing_host
from overlay.verify.item_members import Finding, same
from overlay.verify.server_answer import NotCheckedError, NotProvedError, ServerAnswer
from parsers.cards import Kind

if TYPE_CHECKING:
    from indexer.settings import Settings


class Hosts(Protocol):
    """Access to hosts."""

    def fetch_names(self, host: str) -> HostNames:
        """The listings that a host names in its cards and its TXT records."""
        ...

    def fetch(self, locator: str, digest: bytes) -> CardFetch:
        """The result of fetching a pointer's locator for a card with this SHA-256."""
        ...


class Internet:
    """Access to hosts over the network, with the indexer's own clients."""

    def __init__(self, settings: Settings) -> None:
        from indexer.fetcher.connections import tls_context
        from indexer.fetcher.dns import SystemResolver, table
        from indexer.fetcher.gateway import Gateway
        from indexer.fetcher.http_fetcher import HttpFetcher

        tls = tls_context(settings.fetch_ca_file or None)
        self._fetcher = HttpFetcher(SystemResolver(), tls, table(settings.fetch_resolve))
        self._gateway = Gateway(settings.ipfs_gateway) if settings.ipfs_gateway else None
        self._txt = TxtRecords()

    def fetch_names(self, host: str) -> HostNames:
        """The listings that a host names in its cards and its TXT records."""
        return asyncio.run(DomainVerifier(self._fetcher, self._txt).fetch_names(host))

    def fetch(self, locator: str, digest: bytes) -> CardFetch:
        """The result of fetching a pointer's locator for a card with this SHA-256."""
        return asyncio.run(CardFetcher(self._fetcher, self._gateway).fetch_card(locator, CardRequest((digest,))))


def inscribed(answer: ServerAnswer, hosts: Hosts, host: str) -> Finding:
    """Check that the host of an inscribed card's url confirms it as in the answer. Raises NotProvedError when it
    does not, NotCheckedError when the host does not answer, or confirms more than the answer."""
    answers = hosts.fetch_names(host)
    verdict = answers.verdict(host)
    by = _by(answer, answers)
    if not by and verdict.failed:
        refusal = answers.refusal or answers.dns_refusal
        raise NotCheckedError(f"{host} could not be checked: {refusal.sentence if refusal else ''}")
    shown = {"host": host, "verified": bool(by)} | ({"by": by} if by else {})
    answered = _answered(answer)
    if isinstance(answered, dict) and answered.get("verified") is True and not by:
        raise NotProvedError(f"by the answer {host} confirms the listing, but it does not")
    if not same(shown, answered):
        raise NotCheckedError(f"{host} {_WORDS[by]}, and the answer differs")
    return Finding(f"{host} {_WORDS[by]}, as the answer says", {"domain": answer.item["domain"]})


def _answered(answer: ServerAnswer) -> object:
    """The item's domain without the times and failures of checks, which are not verifiable."""
    answered = answer.item.get("domain")
    if not isinstance(answered, dict):
        return answered
    return {name: value for name, value in answered.items() if name not in ("checkedAt", "lastFailure")}


_WORDS = {
    "name": "names the listing in its card",
    "dns": "names the listing in DNS",
    "hash": "serves the very bytes of the card",
    "": "does not name the listing",
}


def _by(answer: ServerAnswer, answers: HostNames) -> str:
    """How a host confirms a listing (law 11): by name, dns or hash, "" without a confirmation."""
    if answer.kind is not Kind.AGENT:
        return ""
    if answer.registration in answers.named:
        return "name"
    if answer.registration in answers.in_dns:
        return "dns"
    names_another = answers.named or answers.in_dns
    return "hash" if sha256(answer.card).digest() in answers.served and not names_another else ""


def pointed(answer: ServerAnswer, hosts: Hosts, host: str) -> Finding:
    """Check that the locator of a pointer serves the card (law 9). Raises NotProvedError when it serves something else
    and the answer differs, NotCheckedError when it serves nothing."""
    fetched = hosts.fetch(answer.registration, sha256(answer.card).digest())
    integrity = answer.item.get("integrity")
    if fetched.state is CardState.MET:
        if integrity != "hash-verified":
            raise NotCheckedError(
                f"{answer.registration} serves the card, but integrity in the answer is {str(integrity)[:60]!a}"
            )
        is_named = bool(pointing_host(answer.registration))
        is_true = same({"host": host, "verified": is_named} if host else None, _answered(answer))
        shown = {"integrity": integrity} | ({"domain": answer.item["domain"]} if is_true else {})
        return Finding(f"{answer.registration} serves the card that the pointer names", shown)
    if fetched.state is CardState.MISMATCH and integrity == "hash-verified":
        raise NotProvedError(f"{answer.registration} serves something else than the card that the pointer names")
    why = next((attempt.refusal.sentence for attempt in fetched.attempts if attempt.refusal), "")
    raise NotCheckedError(f"{answer.registration} does not serve the card: {why}")
