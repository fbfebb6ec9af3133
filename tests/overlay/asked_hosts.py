"""Hosts that answer as a test says, for the check of a listing's domain."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

from indexer.fetcher.card_fetcher import Attempt, CardFetch, CardRequest, CardState
from indexer.fetcher.host_names import HostNames
from indexer.fetcher.reasons import Refusal


@dataclass
class AskedHosts:
    """`answer` is what every host says, `bodies` what locators serve; others do not answer. `asked` lists both."""

    answer: HostNames = field(default_factory=HostNames)
    bodies: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def fetch_names(self, host: str) -> HostNames:
        self.requests.append(host)
        return self.answer

    def fetch(self, locator: str, digest: bytes) -> CardFetch:
        self.requests.append(locator)
        body = self.bodies.get(locator)
        if body is None:
            attempt = Attempt(locator, 0.0, refusal=Refusal("fetch-connect", "no"))
        elif sha256(body).digest() == digest:
            attempt = Attempt(locator, 0.0, digest=digest, state=CardState.MET, by="sha256", body=body)
        else:
            attempt = Attempt(locator, 0.0, digest=digest, refusal=Refusal("fetch-mismatch", "00"))
        return CardFetch(locator, (attempt,), CardRequest((digest,)))
