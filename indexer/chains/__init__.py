"""Sources of blocks: one module or folder per kind of source, selected by its URL in `A2B_CHAINS` and imported only
then."""

from __future__ import annotations

from importlib import import_module
from typing import cast
from urllib.parse import parse_qsl

from indexer.chains.source import (
    AncestorVisitor,
    BlockData,
    BlockedBranch,
    BlockEvents,
    Chain,
    ChainStore,
    DeferredEvents,
    LogsAgain,
    NewestEvents,
    PartialBlock,
    PeerCounts,
    PeerStore,
    ProvenTransaction,
)
from indexer.errors import SourceError, SourceUnavailableError
from indexer.headers import HeaderStore

__all__ = [
    "AncestorVisitor", "BlockData", "BlockEvents", "BlockedBranch", "Chain", "ChainStore", "DeferredEvents",
    "HeaderStore", "LogsAgain", "NewestEvents", "PartialBlock", "PeerCounts", "PeerStore",
    "ProvenTransaction", "SourceError", "SourceUnavailableError", "create", "kind", "module",
]  # fmt: skip

SCHEMES = {
    "files": "indexer.chains.files",
    "http": "indexer.chains.node",
    "https": "indexer.chains.node",
    "junglebus": "indexer.chains.junglebus",
    "overlay": "indexer.chains.overlay",
    "peers": "indexer.chains.peers",
}
"""The module of each URL scheme; its `create(name, url, store)` makes the chain. Several kinds of source share HTTP:
`HTTP_CHAINS` and `HTTP_OPTIONS` distinguish them."""

EVM_CHAINS = (
    "evm", "ethereum", "eth", "polygon", "bsc", "avalanche", "arbitrum", "base", "celo", "gnosis", "linea", "optimism",
    "scroll",
)  # fmt: skip

SOLANA = "indexer.chains.solana"
"""The module that joins several endpoints of one cluster itself, by `join(name, urls, store)`."""

HTTP_CHAINS: dict[str, str] = {
    **dict.fromkeys(EVM_CHAINS, "indexer.chains.evm"),
    "erc8004": "indexer.chains.evm.erc8004",
    "sol": SOLANA,
    "solana": SOLANA,
}
"""The module of an HTTP source that is not a Bitcoin node, by `?chain=` or the configured name."""

HTTP_OPTIONS: dict[str, str] = {"contract": "indexer.chains.evm", "program": SOLANA}
"""The module of an HTTP source, by an option that no other kind of source has."""


def create(name: str, url: str, store: HeaderStore | None = None) -> Chain:
    """The chain that `name=url` in `A2B_CHAINS` describes, not opened yet; its module is imported only now.

    `store` keeps headers between starts, None keeps nothing. Raises SourceError for an unknown kind of source.
    """
    return cast("Chain", import_module(module(name, url)).create(name, url, store))


def kind(name: str, url: str) -> str:
    """The kind of source that a URL names; strangers see only this: `node`, `files`, `junglebus`,
    `overlay`, `peers`, `evm`, `erc8004` or `solana`. Raises SourceError as `module`."""
    return module(name, url).rpartition(".")[2]


def module(name: str, url: str) -> str:
    """The module of a URL: by its scheme; for HTTP by `?chain=`, else the name, else a distinctive option.

    Raises SourceError naming the schemes there are.
    """
    scheme, _, rest = url.partition(":")
    if scheme not in SCHEMES:
        raise SourceError(f"{name}: {scheme!a} is not a known kind of source; there are {', '.join(SCHEMES)}")
    if scheme not in ("http", "https"):
        return SCHEMES[scheme]
    options = dict(parse_qsl(rest.partition("?")[2], keep_blank_values=True))
    if "chain" in options or name in HTTP_CHAINS:
        return HTTP_CHAINS.get(options.get("chain", name), SCHEMES[scheme])
    return next((HTTP_OPTIONS[option] for option in options if option in HTTP_OPTIONS), SCHEMES[scheme])
