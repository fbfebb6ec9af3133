"""Which client a connection belongs to, and how many connections there may be: in all, and of one client."""

from __future__ import annotations

import re
import resource
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_network

from aiohttp import web

from indexer.client_networks import ClientCounter, address_of, client_of
from overlay.api.client_tokens import ClientTokens

_MOST_FORWARDED = 16
"""Addresses of X-Forwarded-For that are looked at, from the end."""

_WITH_PORT = re.compile(r"\[([^\]]*)\](?::[0-9]{1,5})?|([0-9.]+):[0-9]{1,5}")


class ClientAddresses:
    """Clients of requests: those of `tokens`, else their addresses. X-Forwarded-For is used only from proxies in
    `trusted` (networks)."""

    def __init__(self, trusted: Sequence[str] = (), tokens: ClientTokens | None = None) -> None:
        self._trusted = tuple(ip_network(network) for network in trusted)
        self._tokens = tokens or ClientTokens()

    def of(self, request: web.Request) -> str:
        """The client of a request."""
        if (named := self._tokens.client(request)) is not None:
            return named.key
        return client_of(self.address(request))

    def address(self, request: web.Request) -> str:
        """The address that a request comes from."""
        peer = request.remote or ""
        return self._forwarded(request, peer) if self.trusts(peer) else peer

    def trusts(self, peer: str) -> bool:
        """Whether a connection from this address is a trusted proxy's."""
        return bool(self._trusted) and self._trusts(address_of(peer))

    def _trusts(self, address: IPv4Address | IPv6Address | None) -> bool:
        return address is not None and any(address in network for network in self._trusted)

    def _forwarded(self, request: web.Request, peer: str) -> str:
        """The last address of X-Forwarded-For that is not a trusted proxy; earlier ones can be forged."""
        forwarded = ",".join(request.headers.getall("X-Forwarded-For", ())).split(",")
        for text in forwarded[: -_MOST_FORWARDED - 1 : -1]:
            hop = _without_port(text.strip())
            address = address_of(hop)
            if address is None:
                break
            peer = hop
            if not self._trusts(address):
                break
        return peer


def _without_port(text: str) -> str:
    """An address of X-Forwarded-For without its brackets and port."""
    match = _WITH_PORT.fullmatch(text)
    return match[1] or match[2] or "" if match else text


MOST = 20_000
"""Connections to one process; an idle one costs it about 10 kB."""

MOST_OF_ONE = 256
"""Connections of one client (`client_networks`) to one process. Trusted proxies and this machine have no limit: a proxy
serves many, and a local client is not a stranger."""

_FILES = 65_536  # open files requested, as far as the hard limit allows
_OTHER_FILES = 384  # of the database, the index and sources, and what is accepted before it can be refused


def room() -> int:
    """How many connections may be open, after raising this process' soft limit of open files towards the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
        soft = files
    return MOST if soft == resource.RLIM_INFINITY else max(16, min(MOST, soft - _OTHER_FILES))


class ConnectionLimits:
    """Counts open connections by client."""

    def __init__(self, clients: ClientAddresses, most: int, most_of_one: int = MOST_OF_ONE) -> None:
        self._clients, self._most, self._most_of_one = clients, most, most_of_one
        self._open = ClientCounter()

    def take(self, peer: str) -> str | None:
        """Count a connection from this address: the client's name for `give_back`, None where a limit is reached."""
        name = client_of(peer)
        is_full = self._open.full_network(name, self._most_of_one) is not None
        if self._open.total >= self._most or (is_full and not self._is_familiar(peer)):
            return None
        self._open.add(name)
        return name

    def give_back(self, name: str) -> None:
        """Count the end of a connection."""
        self._open.remove(name)

    def _is_familiar(self, peer: str) -> bool:
        address = address_of(peer)
        return address is None or address.is_loopback or self._clients.trusts(peer)
