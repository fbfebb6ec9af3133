"""Parameters of libpq with which a failed PostgreSQL server is detected within 30 s, on every connection.

A server that stops closes its connections. One whose machine or network fails does not: without these parameters TCP
retransmits for a quarter of an hour, and an idle connection counts as alive for two hours.
"""

from __future__ import annotations

from collections.abc import Container

DEFAULTS = {
    "connect_timeout": 5,  # seconds, of each host that a URL names
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,  # milliseconds
}


def parameters(configured: Container[str]) -> dict[str, int]:
    """The parameters that are not `configured` in the operator's URL: seconds, except where noted."""
    return {name: value for name, value in DEFAULTS.items() if name not in configured}
