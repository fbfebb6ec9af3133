"""The client to which an IP address belongs, and the networks in which its requests are counted.

A provider gives a customer of IPv6 a /48 or a /56, in which the customer chooses a /64 at will. So a /64 is a client,
and all clients of a /48 together have `SITE_FACTOR` times what one of them has.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple

NOWHERE = "unknown"
"""The client of a connection without an address, for example over a local socket."""

SITE_FACTOR = 16

_CLIENT_SUFFIX = "::/64"


class ClientNetwork(NamedTuple):
    """A network whose requests are counted: one client, named as `client` does, or the /48 that it is in. Its limit is
    `factor` times that of a client. `prefix` begins the names of all clients of a /48, except for that of its `first`
    one, which may be shorter; both are "" for one client."""

    name: str
    factor: int = 1
    prefix: str = ""
    first: str = ""

    @property
    def title(self) -> str:
        """How messages name it."""
        return f"the network {self.name}" if self.prefix else "this client"


def address_of(text: str) -> IPv4Address | IPv6Address | None:
    """The IP address in a text, also an IPv4 address mapped into IPv6; None for any other text."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


@lru_cache(maxsize=10_000)
def client_of(text: str) -> str:
    """The client that an address counts for: the address itself (IPv4), or its /64 network (IPv6)."""
    address = address_of(text)
    if address is None:
        return NOWHERE
    return str(address) if isinstance(address, IPv4Address) else str(_network(address, 64))


def network_of(text: str) -> IPv4Network | IPv6Network | None:
    """The network by which an address is logged and counted where it must not name a person: its /24 (IPv4) or /48
    (IPv6); None for any other text."""
    address = address_of(text)
    if isinstance(address, IPv6Address):
        return _network(address, 48)
    return None if address is None else IPv4Network((int(address) >> 8 << 8, 24))


@lru_cache(maxsize=10_000)
def networks_of(client: str) -> tuple[ClientNetwork, ...]:
    """The networks that the requests of a client count in: itself, and for IPv6 its /48."""
    address = address_of(client.removesuffix("/64")) if client.endswith(_CLIENT_SUFFIX) else None
    if not isinstance(address, IPv6Address):
        return (ClientNetwork(client),)
    site = _network(address, 48)
    prefix = "".join(f"{int(group, 16):x}:" for group in address.exploded.split(":")[:3])
    first = str(_network(site.network_address, 64))
    return ClientNetwork(client), ClientNetwork(str(site), SITE_FACTOR, prefix, first)


class ClientCounter:
    """How many of something clients have open, by network, and all in `total`."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self.total = 0

    def add(self, client: str) -> None:
        """Count one more of a client."""
        self._open.update(network.name for network in networks_of(client))
        self.total += 1

    def remove(self, client: str) -> None:
        """Count one less of a client, which has one."""
        self._open -= Counter(network.name for network in networks_of(client))
        self.total -= 1

    def full_network(self, client: str, most: int) -> ClientNetwork | None:
        """The network of a client with all that it may have open, where one client may have `most`; None where the
        client may have one more."""
        for network in networks_of(client):
            if self._open[network.name] >= most * network.factor:
                return network
        return None


def _network(address: IPv6Address, bits: int) -> IPv6Network:
    return IPv6Network((int(address) >> 128 - bits << 128 - bits, bits))
