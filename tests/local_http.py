"""An HTTP client of servers on this machine: `httpx.get` and its like would load the system's certificates for each
request, 28 ms of processor time. Connections are not kept, so that a server can end between two requests."""

from __future__ import annotations

import ssl

import httpx

local_http = httpx.Client(
    verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
)
