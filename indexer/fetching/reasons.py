"""Why something was not fetched, or was fetched and not accepted: one table of codes and sentences."""

from __future__ import annotations

from typing import NamedTuple

SENTENCES: dict[str, str] = {
    # what is asked for is never asked for
    "fetch-url": "no URL that can be fetched: {}",
    "fetch-scheme": "only https is fetched, not {}",
    "fetch-credentials": "a URL with a user name or password is not fetched",
    "fetch-port": "only port 443 is asked, not {}",
    "fetch-name": "the host is not a domain name: {}",
    "fetch-address": "the name leads to an address that is never asked: {}",
    "fetch-no-gateway": "no IPFS gateway is set; set A2B_IPFS_GATEWAY",
    # the host does not want it, or should not be asked now
    "fetch-opt-out": "the host's robots.txt tells a2b-registry to stay away from {}",
    "fetch-budget": "the host was asked often lately, and will be asked again in {}",
    "fetch-busy": "the host says that it is busy: status {}",
    # the host cannot be reached
    "fetch-resolve": "the name does not resolve: {}",
    "fetch-resolve-slow": "the name did not resolve within {}",
    "fetch-dns": "the name servers did not tell of TXT records: {}",
    "fetch-connect": "no connection: {}",
    "fetch-connect-slow": "no connection within {}",
    "fetch-tls": "TLS failed: {}",
    "fetch-gateway": "the IPFS gateway did not help: {}",
    "fetch-fault": "fetching failed here: {}",
    # the host answers badly
    "fetch-first-byte": "no complete headers within {}",
    "fetch-slow": "not done within {}",
    "fetch-protocol": "the answer is not proper HTTP: {}",
    "fetch-headers": "the headers of the answer are too large: {}",
    "fetch-size": "the answer is larger than {}",
    "fetch-framing": "the answer is cut into tiny pieces, or wrapped in far more than it holds",
    "fetch-coding": "the answer is encoded in a way that was not asked for: {}",
    "fetch-ratio": "the answer expands more than {} times",
    "fetch-server": "the host fails: status {}",
    "fetch-status": "the host answers with status {}",
    "fetch-missing": "nothing is there: status {}",
    "fetch-redirect": "a redirect leads nowhere: {}",
    "fetch-redirects": "more than {} redirects",
    "fetch-redirect-host": "a redirect to another host is not followed here: {}",
    # what the host serves is not what was pointed at
    "fetch-mismatch": "what is served has another SHA-256: {}",
    "fetch-html": "a web page is served, not the card; its SHA-256 is {}",
    "fetch-not-json": "what is served is no JSON object",
    "fetch-picture": "what is served is no PNG, JPEG, GIF or WebP picture",
    "fetch-picture-broken": "the picture cannot be decoded: {}",
    "fetch-cid": "what the gateway serves is not what the CID names: {}",
}
"""Sentences are lower-case, without a full stop; `{}` is filled with the detail."""

FINAL = frozenset(("fetch-url", "fetch-scheme", "fetch-credentials", "fetch-port", "fetch-name"))
"""Codes that no retry can change: they follow from the text of the pointer alone, where no redirect was met."""

TROUBLE = frozenset(
    (
        "fetch-busy",
        "fetch-resolve",
        "fetch-resolve-slow",
        "fetch-connect",
        "fetch-connect-slow",
        "fetch-tls",
        "fetch-first-byte",
        "fetch-slow",
        "fetch-server",
    )
)
"""Codes that say that the host has trouble, and should be left alone for longer. A missing or wrong card is none:
strangers may point at any URL of a host, and must not slow down what is fetched for its owner."""

UNREACHED = frozenset(("fetch-connect", "fetch-connect-slow"))
"""Codes that also speak of the host's address block."""


class Refusal(NamedTuple):
    """A reason code and what it is about."""

    code: str
    detail: str = ""

    @property
    def sentence(self) -> str:
        """The sentence for people."""
        return SENTENCES[self.code].replace("{}", self.detail)

    @property
    def final(self) -> bool:
        """Whether asking again can never help."""
        return self.code in FINAL


class FetchError(Exception):
    """Something was not fetched: `refusal` says why, `retry_after` how long to wait at least (seconds), if told."""

    def __init__(self, code: str, detail: str = "", retry_after: float | None = None) -> None:
        self.refusal = Refusal(code, detail)
        super().__init__(self.refusal.sentence)
        self.retry_after = retry_after


def shown(text: str, most: int = 200) -> str:
    """A stranger's text for a detail: ASCII, escaped, at most `most` characters of it."""
    return text[:most].encode("unicode_escape").decode("ascii")
