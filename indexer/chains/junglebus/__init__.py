"""`junglebus:` a subscription to a JungleBus server, for people without a node: matching transactions, each proved.

`junglebus:SUBSCRIPTION_ID?url=https://…&from=HEIGHT&finality=N&network=mainnet`. The access token is the
setting `A2B_JUNGLEBUS_TOKEN`, which settings add to the URL as `token`, where it is masked when shown.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from indexer.chains import FoundRows, HeaderRows, SourceError
from indexer.chains.junglebus.chain import JungleBusChain
from indexer.chains.options import read
from indexer.networks import network
from indexer.settings import masked

SERVER = "https://junglebus.gorillapool.io/v1"

_OPTIONS = ("chain", "network", "from", "finality", "url", "token")
_SUBSCRIPTION = re.compile(r"[A-Za-z0-9_-]{1,128}")


def create(name: str, url: str, rows: HeaderRows | None = None) -> JungleBusChain:
    """The chain that a `junglebus:` URL describes, not connected yet. Raises SourceError saying what is wrong."""
    subscription, _, query = url.removeprefix("junglebus:").partition("?")
    if not _SUBSCRIPTION.fullmatch(subscription):
        raise SourceError(
            f"{name}: {subscription[:100]!a} is no subscription id; write junglebus:SUBSCRIPTION_ID with the id "
            "that the server's dashboard gives to a subscription"
        )
    options = read(name, query, "junglebus", _OPTIONS)
    if options.get("chain", "bsv") != "bsv":
        raise SourceError(f"{name}: chain={options['chain']!r} is not told by JungleBus, only bsv is")
    known = network("bsv", options.get("network", "mainnet"))
    given = options.get("finality")
    found = rows if isinstance(rows, FoundRows) else None
    chain = JungleBusChain(name, subscription, _server(name, options), known, rows, found)
    chain.token = _token(name, options)
    chain.first = int(options.get("from", known.first))
    chain.finality = known.finality if given is None else int(given)
    return chain


def _server(name: str, options: dict[str, str]) -> str:
    """The base of the server's routes, without a slash at its end."""
    server = options.get("url", SERVER).rstrip("/")
    try:
        parts = urlsplit(server)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment:
        raise SourceError(f"{name}: url={masked(server)[:200]!a} is no server; write url=https://host/v1")
    if parts.username or parts.password:
        raise SourceError(f"{name}: url= holds a password; JungleBus takes a token, in A2B_JUNGLEBUS_TOKEN")
    return server


def _token(name: str, options: dict[str, str]) -> str:
    """What is sent as a header, which takes printable ASCII only."""
    token = options.get("token", "")
    if not (token.isascii() and token.isprintable()):
        raise SourceError(f"{name}: the token holds letters that no token has; copy it anew into A2B_JUNGLEBUS_TOKEN")
    return token
