"""How a listing is used, by its card alone: where it runs, over which transports, with which credentials. What a card
does not state is absent, and never guessed."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from parsers.cards.card import AgentCard, McpServer
from parsers.cards.command_packages import LAUNCHERS, program
from parsers.cards.fields import Json
from parsers.cards.offers import LEFT_OUT, UNREADABLE
from parsers.cards.secrets import is_secret_name
from parsers.local_hosts import is_public_url
from parsers.reasons import Reason

ACCESS = ("remote", "local")
TRANSPORTS = ("stdio", "streamable-http", "sse", "jsonrpc", "rest", "grpc")
AUTH = ("none", "key", "oauth", "payment")
PROTOCOLS = ("0.2", "0.3", "1.0")
__all__ = ["ACCESS", "AUTH", "LAUNCHERS", "PROTOCOLS", "TRANSPORTS", "Usage", "is_runnable", "read_auth", "usage_of"]

_BINDINGS = {
    "jsonrpc": "jsonrpc", "httpjson": "rest", "rest": "rest", "grpc": "grpc", "stdio": "stdio", "sse": "sse",
    "streamablehttp": "streamable-http",
}  # fmt: skip
"""The names of transports by those of interfaces, in lower case, letters only."""

_SCHEMES = {
    "apikey": "key", "http": "key", "bearer": "key", "basic": "key", "oauth2": "oauth", "oauth": "oauth",
    "openidconnect": "oauth", "oidc": "oauth", "x402": "payment", "none": "none", "public": "none",
    "apikeysecurityscheme": "key", "httpauthsecurityscheme": "key", "oauth2securityscheme": "oauth",
    "openidconnectsecurityscheme": "oauth",
}  # fmt: skip
"""The need of a client by the `type` of a security scheme (0.2, 0.3), its member (1.0) or its name (0.1): lower-case
letters and digits only."""

_MOST = 64
"""Schemes, and requirements, of a card that are read."""

_FOREIGN_PRICES = ("/pricing", "/x402", "/price")
"""Members with prices in other forms, which are not read."""


class Usage(NamedTuple):
    """How a listing is used; an empty tuple or None where its card does not say.

    `access`: `remote` by a URL that every reader reaches, `local` by a command. `protocols` are the A2A versions that
    an agent speaks, `launchers` the programs that start a tool. `has_price` is None where a price cannot be
    read.
    """

    access: tuple[str, ...] = ()
    transports: tuple[str, ...] = ()
    auth: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    launchers: tuple[str, ...] = ()
    streaming: bool | None = None
    has_price: bool | None = None


UNSTATED = Usage()


def usage_of(card: AgentCard | McpServer, warnings: tuple[Reason, ...] = ()) -> Usage:
    """How a listing with this card is used; `warnings` are those of the config around a server."""
    has_price = True if card.offers else None if any(map(_is_of_price, (*card.warnings, *warnings))) else False
    if isinstance(card, McpServer):
        return _of_server(card)._replace(has_price=has_price)
    transports, versions = set[str](), set[str]()
    for interface in card.interfaces:
        name = _plain(interface.get("protocolBinding", ""))
        binding = _BINDINGS.get(name, "")
        transports.add(binding)
        if name == "a2a" or binding in ("jsonrpc", "rest", "grpc"):  # registration files name the service by the first
            versions.add(interface.get("protocolVersion", "")[:3])
        # a card of these versions whose `url` is without a binding means JSON-RPC
        if card.protocol in ("0.2", "0.3") and interface["url"] == card.url and "protocolBinding" not in interface:
            transports.add("jsonrpc")
    streaming = card.capabilities.get("streaming")
    return Usage(
        access=("remote",) if is_public_url(card.url) else (),
        transports=_ordered(TRANSPORTS, transports),
        auth=card.auth,
        protocols=_ordered(PROTOCOLS, versions) or _ordered(PROTOCOLS, {card.protocol}),
        streaming=streaming if isinstance(streaming, bool) else None,
        has_price=has_price,
    )


def is_runnable(command: str, url: str) -> bool:
    """Whether there is a command, or a URL of a host that is not on the reader's own machine or network. Nothing is
    looked up: the host may be gone."""
    return bool(command) or is_public_url(url)


def _is_of_price(warning: Reason) -> bool:
    """Whether a warning is about a price that cannot be read."""
    if warning.code == "ignored":
        return warning.pointer in _FOREIGN_PRICES
    return warning.code in LEFT_OUT or (warning.code in UNREADABLE and "/x-payment" in warning.pointer)


def _of_server(server: McpServer) -> Usage:
    is_stdio = server.command and (server.url or not server.transport)
    launched = program(server.command, server.args)
    names = (*server.headers, *server.env)
    return Usage(
        access=("remote",) * is_public_url(server.url) + ("local",) * bool(server.command),
        transports=_ordered(TRANSPORTS, {server.transport, "stdio" if is_stdio else ""}),
        auth=("key",) if any(map(is_secret_name, names)) else (),
        launchers=(launched,) if launched in LAUNCHERS else (),
    )


def read_auth(card: Json) -> tuple[str, ...]:
    """The needs of an agent's clients: a key, OAuth, a payment (x402), or nothing where the card says so. Stated by
    `securitySchemes`, `security`, `securityRequirements`, `authentication`, and the extension a2a-x402."""
    names = set[str]()
    schemes = card.get("securitySchemes")
    for scheme in list(schemes.values() if isinstance(schemes, dict) else _listed(schemes))[:_MOST]:
        if isinstance(scheme, dict):
            stated = scheme.get("type")
            names.add(_plain(stated if isinstance(stated, str) else next(iter(scheme), "")))
    for member in ("security", "securityRequirements"):
        required = card.get(member)
        if required == [] or any(entry in ({}, {"schemes": {}}) for entry in _listed(required)):
            names.add("none")
    authentication = card.get("authentication")
    if isinstance(authentication, dict):
        names.update(_plain(name) for name in _listed(authentication.get("schemes")) if isinstance(name, str))
    capabilities = card.get("capabilities")
    for extension in _listed(capabilities.get("extensions") if isinstance(capabilities, dict) else None):
        uri = extension.get("uri") if isinstance(extension, dict) else None
        if isinstance(uri, str) and "/a2a-x402/" in uri:
            names.add("x402")
    return _ordered(AUTH, {_SCHEMES.get(name, "") for name in names})


def _listed(value: Any) -> list[Any]:
    return value[:_MOST] if isinstance(value, list) else []


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name[:40].lower())


def _ordered(names: tuple[str, ...], stated: set[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in stated)
