"""Who is asking: a client is an IPv4 address or an IPv6 network of 64 bits, the least that one household is given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from aiohttp import web

NOWHERE = "unknown"
"""The client of a connection without an address, such as one over a local socket."""

_MOST_FORWARDED = 16
"""Addresses of X-Forwarded-For that are looked at, from the end."""

_WITH_PORT = re.compile(r"\[([^\]]*)\](?::[0-9]{1,5})?|([0-9.]+):[0-9]{1,5}")
_Address = IPv4Address | IPv6Address


class Clients:
    """Tells clients apart. Only proxies in `trusted` (networks) are believed what they say of others."""

    def __init__(self, trusted: Sequence[str] = ()) -> None:
        self._trusted = tuple(ip_network(each) for each in trusted)

    def of(self, request: web.Request) -> str:
        """The client of a request."""
        peer = request.remote or ""
        if self.trusts(peer):
            return self._forwarded(request, peer)
        return client(peer)

    def trusts(self, peer: str) -> bool:
        """Whether a connection from this address is a trusted proxy's."""
        return bool(self._trusted) and self._trusts(address_of(peer))

    def _trusts(self, address: _Address | None) -> bool:
        return address is not None and any(address in network for network in self._trusted)

    def _forwarded(self, request: web.Request, peer: str) -> str:
        """The last address of X-Forwarded-For that is no trusted proxy: what stands before it may be made up."""
        said = ",".join(request.headers.getall("X-Forwarded-For", ())).split(",")
        for text in said[: -_MOST_FORWARDED - 1 : -1]:
            said_so = _without_port(text.strip())
            address = address_of(said_so)
            if address is None:
                break
            peer = said_so
            if not self._trusts(address):
                break
        return client(peer)


def _without_port(text: str) -> str:
    """An address that a proxy told, which may stand in brackets, and have a port."""
    found = _WITH_PORT.fullmatch(text)
    return found[1] or found[2] if found else text


def address_of(text: str) -> _Address | None:
    """The address that a text says, IPv4 also where it is mapped into IPv6; None for what is none."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


@lru_cache(maxsize=10_000)
def client(text: str) -> str:
    """The client that an address belongs to: the address itself (IPv4), or its /64 (IPv6)."""
    address = address_of(text)
    if address is None:
        return NOWHERE
    if isinstance(address, IPv4Address):
        return str(address)
    return str(IPv6Network((int(address) >> 64 << 64, 64)))
