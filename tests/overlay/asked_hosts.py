"""Hosts that answer as a test says, for the check of a listing's domain."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

from indexer.badges import Said
from indexer.fetching.cards import Attempt, Fetched, State, Wanted
from indexer.fetching.reasons import Refusal


@dataclass
class AskedHosts:
    """`answer` is what every host says, `bodies` what locators serve; others do not answer. `asked` lists both."""

    answer: Said = field(default_factory=Said)
    bodies: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def ask(self, host: str) -> Said:
        self.asked.append(host)
        return self.answer

    def fetch(self, locator: str, digest: bytes) -> Fetched:
        self.asked.append(locator)
        body = self.bodies.get(locator)
        if body is None:
            attempt = Attempt(locator, 0.0, refusal=Refusal("fetch-connect", "no"))
        elif sha256(body).digest() == digest:
            attempt = Attempt(locator, 0.0, digest=digest, state=State.MET, by="sha256", body=body)
        else:
            attempt = Attempt(locator, 0.0, digest=digest, refusal=Refusal("fetch-mismatch", "00"))
        return Fetched(locator, (attempt,), Wanted((digest,)))
