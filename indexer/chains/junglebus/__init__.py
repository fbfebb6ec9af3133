"""`junglebus:` a stream of a JungleBus server, for users without a node: matching transactions, each proved.

`junglebus:SUBSCRIPTION_ID?url=https://…&from=HEIGHT&finality=N&network=mainnet`. The access token is the setting
`A2B_JUNGLEBUS_TOKEN`, which settings add to the URL as `token`; it is masked wherever the URL is shown.
"""

from __future__ import annotations

import re

from indexer.chains import ChainStore
from indexer.chains.junglebus.chain import JungleBusChain
from indexer.chains.options import read, web_address
from indexer.errors import SourceError
from indexer.headers.networks import network
from indexer.masking import masked

SERVER = "https://junglebus.gorillapool.io/v1"

_OPTIONS = ("chain", "network", "from", "finality", "url", "token")
_SUBSCRIPTION = re.compile(r"[A-Za-z0-9_-]{1,128}")


def create(name: str, url: str, store: ChainStore | None = None) -> JungleBusChain:
    """The chain of a `junglebus:` URL, not connected yet. Raises SourceError for a wrong URL."""
    subscription, _, query = url.removeprefix("junglebus:").partition("?")
    if not _SUBSCRIPTION.fullmatch(subscription):
        raise SourceError(
            f"{name}: {subscription[:100]!a} is not a subscription id; write junglebus:SUBSCRIPTION_ID with the id "
            "that the server's dashboard gives to a subscription"
        )
    options = read(name, query, "junglebus", _OPTIONS, ("bsv",))
    token = options.get("token", "")
    if not (token.isascii() and token.isprintable()):  # it is sent as a header
        raise SourceError(f"{name}: the token holds characters that no token has; copy it again to A2B_JUNGLEBUS_TOKEN")
    bsv = network("bsv", options.get("network", "mainnet"))
    return JungleBusChain(name, subscription, _server(name, options), bsv, options, store)


def _server(name: str, options: dict[str, str]) -> str:
    """The base URL of the server's routes, without a slash at its end."""
    server = options.get("url", SERVER).rstrip("/")
    parts = web_address(server)
    if parts is None or parts.query or parts.fragment:
        raise SourceError(f"{name}: url={masked(server)[:200]!a} is not a server; write url=https://host/v1")
    if parts.username or parts.password:
        raise SourceError(f"{name}: url= holds a password; JungleBus takes a token, in A2B_JUNGLEBUS_TOKEN")
    return server
