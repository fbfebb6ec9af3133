"""`erc8004=https:` an endpoint of an EVM chain, of which an ERC-8004 identity registry is read.

`https://host/path?contract=0x…&from=HEIGHT&network=8453&finality=N`. The contract is by default the one that stands on
Ethereum and most other mainnets; `network` a network's number (EIP-155), which need not be told. Several networks are
several names, each with `chain=erc8004`.
"""

from __future__ import annotations

from indexer.chains import HeaderRows
from indexer.chains.evm import EvmChain, read_logs
from indexer.chains.evm.erc8004.reader import REGISTRY, Entries


def create(name: str, url: str, _headers: HeaderRows | None = None) -> EvmChain:
    """The chain of the endpoint at a URL, not asked anything yet. Raises SourceError saying what is wrong with it."""
    return read_logs(name, url, Entries(), ("erc8004",), REGISTRY)
