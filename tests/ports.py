"""Ports of servers that are started with a number."""

from __future__ import annotations

import secrets
import socket

FIRST, COUNT = 12_000, 20_000
"""Below those that the kernel gives to clients and to servers on port 0: nobody takes one before its server starts."""


def free_port() -> int:
    """A port that nobody listens on."""
    while True:
        port = FIRST + secrets.randbelow(COUNT)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
