"""`https:` an endpoint of an EVM chain (JSON-RPC): Ethereum, Polygon, BSC, Avalanche, any other.

`https://host/path?contract=0x…&from=HEIGHT&chain=polygon&network=mainnet&finality=N`. The contract is one that emits
`A2BPointer(string uri, bytes32 hash)`. `chain` is by default the configured name, and for other names any EVM chain;
`network` a network's name or number (EIP-155). Without `finality`, the endpoint's tag `finalized` says it.
"""

from __future__ import annotations

import re

from indexer.chains import EVM_CHAINS, HeaderRows, SourceError, options
from indexer.chains.evm.chain import EvmChain, LogReader
from indexer.chains.evm.endpoint import Endpoint
from indexer.chains.evm.networks import wanted
from indexer.chains.evm.pointers import Pointers
from indexer.chains.jsonrpc import JsonRpc

__all__ = ["EvmChain", "LogReader", "create", "read_logs"]

_OPTIONS = ("contract", "chain", "network", "from", "finality")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


def create(name: str, url: str, _headers: HeaderRows | None = None) -> EvmChain:
    """The chain of the endpoint at a URL, not asked anything yet. Raises SourceError saying what is wrong with it."""
    return read_logs(name, url, Pointers(), EVM_CHAINS)


def read_logs(name: str, url: str, reader: LogReader, chains: tuple[str, ...], contract: str | None = None) -> EvmChain:
    """A chain over what `reader` makes of a contract's logs, by default those of `contract`; `chains` is what `?chain=`
    may say. Raises SourceError."""
    base, _, query = url.partition("?")
    given = options.read(name, query, base.partition(":")[0], _OPTIONS, chains)
    address = given.get("contract", contract)
    if address is None or not _ADDRESS.fullmatch(address):
        raise SourceError(
            f"{name}: contract={(address or '')[:60]!a} is no contract; write ?contract=0x and its 40 hex digits"
        )
    endpoint = Endpoint(JsonRpc(name, base), bytes.fromhex(address[2:]), reader.topics)
    return EvmChain(name, endpoint, reader, wanted(name, given), given)
