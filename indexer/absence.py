"""How soon it is noticed that a server of PostgreSQL is gone: libpq's parameters for every connection of ours.

A server that ends says so. One whose machine or network fails says nothing: without these, TCP goes on asking for
a quarter of an hour, and an idle connection is thought alive for two hours.
"""

from __future__ import annotations

from collections.abc import Container

_KEPT = {
    "connect_timeout": 5,  # seconds, of each host that a URL names
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,  # milliseconds
}


def parameters(told: Container[str]) -> dict[str, int]:
    """Those that the operator's URL has not `told`."""
    return {name: value for name, value in _KEPT.items() if name not in told}
