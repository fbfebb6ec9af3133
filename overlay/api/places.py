"""How many connections there may be: of all clients, so that files stay for everything else, and of one."""

from __future__ import annotations

import resource
from collections import Counter

from overlay.api.clients import Clients, address_of, client

MOST = 20_000
"""Connections to one process; an idle one costs it about 10 kB."""

MOST_OF_ONE = 256
"""Connections of one client to one process. Trusted proxies speak for many; who is on this machine is no stranger."""

_FILES = 65_536  # open files that are asked for, where the administrator allows so many
_OTHER_FILES = 384  # of the database, the index and sources, and what is accepted before it can be refused


def room() -> int:
    """How many connections may be open, after raising this process' limit of open files as far as it may itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return MOST if soft == resource.RLIM_INFINITY else max(16, min(MOST, soft - _OTHER_FILES))


class Places:
    """Counts connections by client. Only what `take` gave is given back."""

    def __init__(self, clients: Clients, most: int, most_of_one: int = MOST_OF_ONE) -> None:
        self._clients, self._most, self._most_of_one = clients, most, most_of_one
        self._taken: Counter[str] = Counter()
        self._all = 0

    def take(self, peer: str) -> str | None:
        """A place for a connection from this address, to be given back under the name that is told; None when there is
        none left."""
        name = client(peer)
        if self._all >= self._most or (self._taken[name] >= self._most_of_one and not self._is_familiar(peer)):
            return None
        self._taken[name] += 1
        self._all += 1
        return name

    def give_back(self, name: str) -> None:
        """The connection has ended."""
        self._taken[name] -= 1
        self._all -= 1
        if not self._taken[name]:
            del self._taken[name]

    def _is_familiar(self, peer: str) -> bool:
        address = address_of(peer)
        return address is None or address.is_loopback or self._clients.trusts(peer)
