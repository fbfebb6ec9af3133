"""Candidates for a hire: listings that may do what is needed, those that answer first, each verified here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from overlay.client.hire.a2a_forms import version_of
from overlay.client.hire.agent_call import HTTP, MCP
from overlay.client.hire.call_price import CallPrice
from overlay.text.rating_words import rating_words
from overlay.verify import VerificationReport
from parsers.cards import AgentCard, McpServer
from parsers.local_hosts import is_public_url
from parsers.reasons import HIGH, INFO

SHOWN, TRIED = 3, 10
"""Candidates that are shown, and results of a search that are looked at."""

CONCERNS = ("address-changed", "same-address")
"""Codes of warnings that need a person."""

_ANSWERS = ("answers", "needs-payment", "needs-auth")
_RPC = ("", "JSONRPC")


@dataclass(frozen=True, slots=True, kw_only=True)
class HireCandidate:
    """A listing that is proved here: its item and report, the Ed25519 key (hex) that its card states ("" for none), how
    it is called, the price of a call (None for nothing to pay), whether another source confirmed its revision as the
    newest, else why not, how its overlay is out of date ("" where it is not), and the reasons for and against it."""

    item: Mapping[str, Any]
    report: VerificationReport
    agent_key: str
    protocol: str
    endpoint: str
    price: CallPrice | None
    is_newest: bool
    why_not_newest: str = ""
    outdated: str = ""
    reasons: tuple[str, ...] = ()

    @property
    def is_named(self) -> bool:
        """Whether the host that is called names the listing."""
        domain = self.item.get("domain") or {}
        return bool(domain.get("verified")) and domain.get("host") == host_of(self.endpoint)

    @property
    def concerns(self) -> list[str]:
        """Codes of its warnings that need a person."""
        return [code for code in _codes(self.item) if code in CONCERNS]


def key_of(entry: AgentCard | McpServer) -> str:
    """The Ed25519 key (hex) that a card states, "" for none."""
    return entry.motebit.public_key if isinstance(entry, AgentCard) and entry.motebit else ""


def host_of(url: str) -> str:
    """The host of a URL, "" for none."""
    return (urlsplit(url).hostname or "").lower()


def in_order(items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Items of a search in the order in which they are tried: those that answer, then those that nobody looked at, then
    those that fail; among these the hosts that name their listing first, and the order of the search."""
    return sorted(items, key=lambda item: (_health_rank(item), not (item.get("domain") or {}).get("verified")))


def objection(item: Mapping[str, Any], *, allow_local: bool) -> str:
    """Why a listing is never hired; "" where it may be."""
    if item.get("status") != "live":
        return f"it is {item.get('status')}"
    if item.get("deprecated"):
        return "it is deprecated"
    high = [str(warning.get("code")) for warning in item.get("warnings") or () if warning.get("severity") == HIGH]
    if high:
        return f"it has the warning {high[0]}"
    url = str(item.get("url") or "")
    if not url:
        return "it has no URL to call"
    return "" if allow_local or is_public_url(url) else "its URL is not a public one"


def outdated(status: Mapping[str, Any], caip2: str) -> str:
    """How an overlay is out of date with a chain, by its own status: its follower, the blocks it lags behind, or its
    index; "" where it is not."""
    chain: Mapping[str, Any] = next((chain for chain in status["chains"] if chain["chain"] == caip2), {})
    if chain.get("state") != "following":
        return f"the overlay does not follow {caip2}: {str(chain.get('state', 'no such chain'))[:40]}"
    if (chain.get("lag") or 0) > MOST_LAG:
        return f"the overlay lags {chain['lag']:,} blocks behind {caip2}"
    return "the overlay's index is behind" if "index-behind" in status.get("degraded", ()) else ""


MOST_LAG = 3
"""Blocks that an overlay may lag behind a chain."""


def endpoint_of(entry: AgentCard | McpServer, *, over_http: bool) -> tuple[str, str] | None:
    """The protocol and the URL by which an agent or tool is called; None where it cannot be."""
    if isinstance(entry, McpServer):
        return (MCP, entry.url) if entry.url and not entry.command else None
    if over_http:
        return (HTTP, entry.url) if entry.url else None
    bindings = [
        (str(interface.get("protocolBinding", "")).upper(), str(interface["url"])) for interface in entry.interfaces
    ]
    primary = next((binding for binding, url in bindings if url == entry.url), "")
    urls = [entry.url] if entry.url and primary in _RPC else [url for binding, url in bindings if binding == "JSONRPC"]
    return (version_of(entry.protocol), urls[0]) if urls else None


def reasons(item: Mapping[str, Any], price: CallPrice | None, is_newest: bool, outdated: str = "") -> Iterator[str]:
    """The reasons for and against a candidate, in words."""
    health = item.get("health") or {}
    state, since = health.get("state"), health.get("since")
    if state in _ANSWERS:
        yield f"answers ({state}) since {since}" if since else f"answers ({state})"
    elif state == "fails":
        yield f"did not answer: {health.get('reason')}"
    else:
        yield "nobody looked whether it answers"
    yield "proved here, and the newest revision" if is_newest else "proved here; whether it is the newest is not shown"
    if outdated:
        yield outdated
    domain = item.get("domain") or {}
    host = domain.get("host") or "its host"
    yield f"{host} names it" if domain.get("verified") else f"{host} does not name it"
    yield rating_words(item["rating"]) if item.get("rating") else "not rated"
    if price is None:
        yield "it states no price"
    elif price.offer.interval:
        yield f"its price is for an interval: {price.offer.interval[:40]}"
    serious = [warning.get("code") for warning in item.get("warnings") or () if warning.get("severity") != INFO]
    yield from (f"warning {code}" for code in [*dict.fromkeys(serious)][:5])


def _codes(item: Mapping[str, Any]) -> list[str]:
    return [str(warning.get("code")) for warning in item.get("warnings") or ()]


def _health_rank(item: Mapping[str, Any]) -> int:
    state = (item.get("health") or {}).get("state")
    return 0 if state in _ANSWERS else 2 if state == "fails" else 1
