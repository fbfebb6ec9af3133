"""Which registrations a host names: in its cards, and in its TXT records (law 11)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from indexer.check_verdict import HostVerdict
from indexer.fetcher.connections import Admit
from indexer.fetcher.dns import TxtRecords
from indexer.fetcher.http_fetcher import HttpFetcher, open_admit
from indexer.fetcher.reasons import TROUBLE, FetchError, Refusal
from parsers.bitcoin.tx import Outpoint
from parsers.cards import strict_json
from parsers.errors import CardError
from parsers.pointers.locator import WELL_KNOWN

MEMBER = "x-a2b-id"
MAX_NAMED = 1_000
MAX_ID = 4_096

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
