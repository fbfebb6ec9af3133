"""The lines about requests: which are logged, and what they tell of their clients."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import NamedTuple

from aiohttp import hdrs, web

from indexer.client_networks import NOWHERE, address_of, network_of

BARE = {"bare": True}
"""Members of a record whose message is a whole line of text."""

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_LONGEST_HEADER = 500


class AccessLog(NamedTuple):
    """Whether every request is logged, whether in the combined format of Apache, and with whole addresses instead of
    their /24 and /48."""

    every: bool = False
    is_combined: bool = False
    has_addresses: bool = False

    @classmethod
    def of(cls, words: Collection[str]) -> AccessLog:
        """The one that the words of the setting `log` say."""
        is_combined = "combined" in words
        return cls(is_combined or "requests" in words, is_combined, "addresses" in words)

    def shown(self, address: str) -> str:
        """An address as it is logged."""
        return str((address_of(address) if self.has_addresses else network_of(address)) or NOWHERE)

    def combined(self, request: web.Request, response: web.StreamResponse, target: str, user: str, address: str) -> str:
        """A line of the combined format. A network is its first address."""
        now = datetime.now(UTC)
        host, _, _ = self.shown(address).partition("/")
        version = f"HTTP/{request.version.major}.{request.version.minor}"
        line = _quoted(f"{ascii(request.method[:20])[1:-1]} {target} {version}")
        names = (hdrs.REFERER, hdrs.USER_AGENT)
        sent = (request.headers.get(name, "-")[:_LONGEST_HEADER] for name in names)
        headers = " ".join(f'"{_quoted(ascii(text)[1:-1])}"' for text in sent)
        time = f"{now:%d}/{_MONTHS[now.month - 1]}/{now:%Y:%H:%M:%S} +0000"
        return f'{host} - {user} [{time}] "{line}" {response.status} {response.content_length or "-"} {headers}'


def _quoted(text: str) -> str:
    """A text that is within quotation marks."""
    return text.replace('"', '\\"')
