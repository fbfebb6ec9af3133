"""Clients with limits of their own: the tokens by which requests name them.

A token is in the header `A2B-Client`, or is a bearer token in `Authorization`; other bearer tokens belong to
capability tokens, Motebit, webhooks and proxies.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import hdrs, web

from indexer.setting_values import Quota, stated_limits
from overlay.api.problems import ProblemError

if TYPE_CHECKING:
    from indexer.store.clients import StoredClient

HEADER = "A2B-Client"
PREFIX = "a2b_"


class NamedClient(NamedTuple):
    """A client, and its limits by kind of route, None where it has none; it has those of all clients for other kinds.
    `key` is what its requests are counted by: no address has such a form."""

    name: str
    quotas: Mapping[str, Quota | None]

    @property
    def key(self) -> str:
        return f"client:{self.name}"


class ClientTokens:
    """The clients of this server by their tokens, in memory: every request looks here."""

    def __init__(self, stored: Iterable[StoredClient] = ()) -> None:
        self._clients: dict[bytes, NamedClient] = {}
        self.renew(stored)

    def renew(self, stored: Iterable[StoredClient]) -> None:
        """Know these clients alone, from the next request on."""
        self._clients = {
            client.sha256: NamedClient(client.name, stated_limits(client.name, client.limits)) for client in stored
        }

    def names(self) -> Iterable[str]:
        """The names of all clients."""
        return (client.name for client in self._clients.values())

    def client(self, request: web.Request) -> NamedClient | None:
        """The client that a request names; None where it has no token, or an unknown one."""
        return next(filter(None, map(self._of_token, _presented(request))), None)

    def check(self, request: web.Request) -> None:
        """Raises ProblemError (401) for a token of no client."""
        if all(self._of_token(token) is not None for token in _presented(request)):
            return
        detail = "no client of this server has this token: its operator gives another (a2b clients add); or send none"
        headers = {"WWW-Authenticate": 'Bearer error="invalid_token"', "Cache-Control": "no-store"}
        raise ProblemError(401, detail, headers=headers)

    def _of_token(self, token: str) -> NamedClient | None:
        return self._clients.get(digest(token))


def new_token() -> str:
    """A new token: 32 random bytes as base64url, after the prefix."""
    return PREFIX + secrets.token_urlsafe(32)


def digest(token: str) -> bytes:
    """The SHA-256 by which a token is stored."""
    return sha256(token.encode("utf-8", "surrogateescape")).digest()


def _presented(request: web.Request) -> Iterator[str]:
    yield from request.headers.getall(HEADER, ())
    for header in request.headers.getall(hdrs.AUTHORIZATION, ()):
        scheme, _, token = header.partition(" ")
        if scheme.lower() == "bearer" and token.strip().startswith(PREFIX):
            yield token.strip()
