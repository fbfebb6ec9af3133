"""The reasons why something was not fetched, or fetched and not accepted: one table of codes and sentences."""

from __future__ import annotations

import re
from typing import NamedTuple

SENTENCES: dict[str, str] = {
    # the URL itself is refused
    "fetch-url": "no URL that can be fetched: {}",
    "fetch-scheme": "only https is fetched, not {}",
    "fetch-credentials": "a URL with a user name or password is not fetched",
    "fetch-port": "this port is not connected to: {}",
    "fetch-name": "the host is not a domain name: {}",
    "fetch-address": "the name resolves to an address that is never connected to: {}",
    "fetch-no-gateway": "no IPFS gateway is set; set A2B_IPFS_GATEWAY",
    # the host opted out, or must not be requested now
    "fetch-opt-out": "the host's robots.txt disallows a2b-registry to fetch {}",
    "fetch-budget": "the host was visited often lately; the next visit is in {}",
    "fetch-port-limit": "port {} is not visited today: two others of the host were, or eight others of its address",
    "fetch-busy": "the host is busy: status {}",
    # the host cannot be reached
    "fetch-resolve": "the name does not resolve: {}",
    "fetch-resolve-slow": "the name did not resolve within {}",
    "fetch-dns": "the TXT records could not be read: {}",
    "fetch-connect": "no connection: {}",
    "fetch-connect-slow": "no connection within {}",
    "fetch-tls": "TLS failed: {}",
    "fetch-port-silent": "no server with a valid certificate for the host answers on port {}",
    "fetch-gateway": "the IPFS gateway failed: {}",
    "fetch-fault": "fetching failed with an error of this program: {}",
    # the answer is bad
    "fetch-first-byte": "no complete headers within {}",
    "fetch-slow": "not done within {}",
    "fetch-protocol": "the answer is not proper HTTP: {}",
    "fetch-headers": "the headers of the answer are too large: {}",
    "fetch-size": "the answer is larger than {}",
    "fetch-framing": "the answer is split into tiny pieces, or its framing is far larger than its content",
    "fetch-coding": "the answer has a content coding that was not requested: {}",
    "fetch-ratio": "the answer expands more than {} times",
    "fetch-server": "the host failed: status {}",
    "fetch-status": "the host answers with status {}",
    "fetch-missing": "nothing is there: status {}",
    "fetch-redirect": "a redirect leads nowhere: {}",
    "fetch-redirects": "more than {} redirects",
    "fetch-redirect-host": "a redirect to another host is not followed here: {}",
    # the content is not what the pointer names
    "fetch-mismatch": "what is served has another SHA-256: {}",
    "fetch-html": "a web page is served, not the card; its SHA-256 is {}",
    "fetch-not-json": "what is served is not a JSON object",
    "fetch-picture": "what is served is not a PNG, JPEG, GIF or WebP picture",
    "fetch-picture-broken": "the picture cannot be decoded: {}",
    "fetch-cid": "what the gateway serves is not what the CID names: {}",
    # why it is not known whether an endpoint answers, or what it answered instead
    "url-parts": "a URL with a user name, a query or a fragment is not visited, as they may be secrets",
    "opt-out": "the card asks not to be visited (x-a2b-probe: off)",
    "no-get": "it answers GET with 404, as what only takes POST may; nothing is posted, as the host does not name the "
    "listing",
    "stale": "it was not visited for a week",
    "mcp-error": "it does not answer as an MCP server does",
    "a2a-error": "it does not answer as an A2A agent does",
}
"""Sentences are lower-case, without a full stop; `{}` is filled with the detail."""

FINAL = frozenset(("fetch-url", "fetch-scheme", "fetch-credentials", "fetch-port", "fetch-name"))
"""Codes that no retry can change: they follow from the text of the pointer alone."""

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
"""Codes of a failing host, which is fetched from less often. A missing or wrong card is not one of them: anyone may
point at any URL of a host, and must not slow down the fetches for its owner."""

UNREACHED = frozenset(("fetch-connect", "fetch-connect-slow"))
"""Codes that also slow down the host's address block."""

PORT_SILENT, PORT_LIMIT = "fetch-port-silent", "fetch-port-limit"

OFF_PORT = frozenset(("fetch-port", PORT_SILENT, PORT_LIMIT))
"""Codes of a port that strangers named, and that no HTTP server was reached on. They say nothing about the host: it
is neither in trouble nor well."""


_WITHOUT_DETAIL = (
    (re.compile(r"than \{\}(?: times| redirects)?"), "than allowed"),
    (re.compile(r" with status \{\}"), " with another status than 200"),
    (re.compile(r"(?::(?: status)?| to fetch| within|, not| on port|; [a-zA-Z0-9 -]+ i[ns])? \{\}"), ""),
)
"""The parts of sentences that need a detail, and what is there without one."""


class Refusal(NamedTuple):
    """A reason code and its subject."""

    code: str
    detail: str = ""

    @property
    def sentence(self) -> str:
        """The sentence of the code, filled with the detail; without one, a sentence that names none."""
        sentence = SENTENCES[self.code]
        if self.detail:
            return sentence.replace("{}", self.detail)
        for pattern, instead in _WITHOUT_DETAIL:
            sentence = pattern.sub(instead, sentence)
        return sentence

    @property
    def final(self) -> bool:
        """Whether no retry can succeed."""
        return self.code in FINAL


class FetchError(Exception):
    """Something was not fetched: `refusal` is the reason, `retry_after` the minimum wait in seconds, if the host sent
    one."""

    def __init__(self, code: str, detail: str = "", retry_after: float | None = None) -> None:
        self.refusal = Refusal(code, detail)
        super().__init__(self.refusal.sentence)
        self.retry_after = retry_after

    @property
    def wait_seconds(self) -> int:
        """Whole seconds after which another try makes sense."""
        return int(self.retry_after or 0) + 1


def shown(text: str, most: int = 200) -> str:
    """Untrusted text for a detail: ASCII, escaped, at most `most` characters of it."""
    return text[:most].encode("unicode_escape").decode("ascii")
