"""Which ports may be connected to: 443, and for MCP endpoints of Motebit agents most ports from 1024 up."""

from __future__ import annotations

from collections.abc import Callable

HTTPS_PORT = 443

BLOCKED = frozenset(
    (1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080)
)
"""The "bad ports" of the Fetch standard (WHATWG) from 1024 up, to which no browser connects: servers of other protocols
listen there, which could be made to obey a request."""

PortRule = Callable[[int], bool]
"""Whether a port may be connected to."""


def is_https_port(port: int) -> bool:
    """Whether it is the port of https."""
    return port == HTTPS_PORT


def is_endpoint_port(port: int) -> bool:
    """Whether an MCP endpoint may be reached there: 443, and what any user of a host may listen on."""
    return port == HTTPS_PORT or (1_024 <= port <= 65_535 and port not in BLOCKED)
