"""The ids of routes: `route:a2b/<listing>/<capability>@<txid>`, the first two percent-encoded. The txid is that of the
revision whose terms the route has. `mrp://route/<route id>` is another spelling, and `mrp://capability/<name>` asks for
routes to a capability."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit

PREFIX = "route:a2b/"
_LONGEST = 2_000


class RouteId(NamedTuple):
    """The id of a listing, the name of its capability, and the txid (hex) of the revision."""

    listing: str
    capability: str
    txid: str

    def __str__(self) -> str:
        return f"{PREFIX}{quote(self.listing, safe='')}/{quote(self.capability, safe='')}@{self.txid}"


class CapabilityAddress(NamedTuple):
    """What `mrp://capability/<capability>?intent=&budget=&format=` asks for."""

    capability: str
    intent: str
    budget: str | None
    format: str | None


def parse_route(text: str) -> RouteId | None:
    """A route id, bare or as `mrp://route/…`, None for other texts."""
    text = text.removeprefix("mrp://route/")
    if not text.startswith(PREFIX) or len(text) > _LONGEST:
        return None
    path, _, txid = text.removeprefix(PREFIX).rpartition("@")
    listing, _, capability = path.partition("/")
    if not (listing and capability and txid) or "/" in capability:
        return None
    return RouteId(unquote(listing), unquote(capability), txid)


def parse_capability(text: str) -> CapabilityAddress | None:
    """A `mrp://capability/…` address, None for other texts."""
    if not text.startswith("mrp://capability/") or len(text) > _LONGEST:
        return None
    parts = urlsplit(text)
    query = dict(parse_qsl(parts.query, max_num_fields=16))
    capability = unquote(parts.path.removeprefix("/"))
    if not capability:
        return None
    return CapabilityAddress(capability, query.get("intent", ""), query.get("budget"), query.get("format"))
