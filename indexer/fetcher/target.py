"""Parses the URLs to fetch, or gives the reason for a refusal: one strict parser, so no two parsers disagree."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import NamedTuple
from urllib.parse import urljoin

from indexer import public_addresses
from indexer.fetcher.ports import PortRule, is_https_port
from indexer.fetcher.reasons import FetchError, shown
from parsers.pointers.locator import MAX_URI, a_label

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://([^/?#]*)([^#]*)(?:#.*)?\Z", re.ASCII)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:", re.ASCII)
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+(?:%[^\]]*)?\]|[^:\[\]]*)(?::([0-9]{0,5}))?\Z", re.ASCII)
_GRAPHIC = re.compile(r"[!-~]*\Z")
_PORTS = {"https": 443, "http": 80}


class Target(NamedTuple):
    """A parsed URL: `host` is a lower-case A-label, `path` begins with / and includes the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def url(self) -> str:
        """The URL, written in one way."""
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}{self.path}"

    @property
    def host_and_port(self) -> tuple[str, int]:
        """Host and port, the key of the operator's table."""
        return self.host, self.port


def target(url: str, table: Container[tuple[str, int]] = (), is_permitted: PortRule = is_https_port) -> Target:
    """Parse a URL. `table` holds the (host, port) for which the operator configured an address.

    Raises FetchError: only https and permitted ports unless in the table; a domain name and no address; no credentials.
    """
    match = _URL.match(url)
    if len(url) > MAX_URI or match is None or not _GRAPHIC.match(match[3]) or "\\" in url:
        raise FetchError("fetch-url", shown(url))
    scheme, authority, path = match[1].lower(), match[2], match[3]
    if scheme not in _PORTS:
        raise FetchError("fetch-scheme", shown(scheme, 40))
    if "@" in authority:
        raise FetchError("fetch-credentials")
    parts = _AUTHORITY.match(authority)
    if parts is None:
        raise FetchError("fetch-url", shown(url))
    host = _host(parts[1])
    port = int(parts[2]) if parts[2] else _PORTS[scheme]
    if (host, port) not in table:
        if scheme != "https":
            raise FetchError("fetch-scheme", scheme)
        if not is_permitted(port):
            raise FetchError("fetch-port", str(port))
    return Target(scheme, host, port, path if path.startswith("/") else f"/{path}")


def _host(written: str) -> str:
    """The A-label of a host. Addresses are refused: special ones with their own code, others as no name."""
    address = public_addresses.read(written.strip("[]"))
    if address is not None:
        phrase = public_addresses.refused(address)
        raise FetchError("fetch-address", phrase) if phrase else FetchError("fetch-name", str(address))
    name = a_label(written)
    if name is None:
        raise FetchError("fetch-name", shown(written))
    return name


def follow(visited: Target, location: str, table: Container[tuple[str, int]] = ()) -> Target:
    """The target of a redirect from `visited`: on port 443 only, from any port. Raises FetchError, as `target` does,
    but with `fetch-redirect` for faults that are final in the text of a pointer: the next answer may lead elsewhere."""
    location = location.strip(" \t")
    if not location or len(location) > MAX_URI or not _GRAPHIC.match(location):
        raise FetchError("fetch-redirect", shown(location) or "no location")
    if location.startswith("//"):
        location = f"{visited.scheme}:{location}"
    elif not _SCHEME.match(location):  # urljoin would take a scheme without a host for a path
        location = urljoin(visited.url, location)
    try:
        return target(location, table)
    except FetchError as error:
        if error.refusal.final:
            raise FetchError("fetch-redirect", error.refusal.sentence) from None
        raise
