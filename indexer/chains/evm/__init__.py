"""`https:` an endpoint of an EVM chain (JSON-RPC): Ethereum, Polygon, BSC, Avalanche, any other.

`https://host/path?contract=0x…&from=HEIGHT&chain=polygon&network=mainnet&finality=N`. The contract emits
`A2BPointer(string uri, bytes32 hash)`. `chain` is by default the configured name, and for other names any EVM chain;
`network` is a network's name or number (EIP-155). Without `finality`, the endpoint's tag `finalized` decides. On a
development network with a chain id of its own, `clock=free` allows any times and blocks that do not link.
"""

from __future__ import annotations

import re

from indexer.chains import EVM_CHAINS, ChainStore, options
from indexer.chains.evm.chain import EvmChain, LogReader
from indexer.chains.evm.chain_ids import allowed_networks
from indexer.chains.evm.endpoint import EvmEndpoint
from indexer.chains.evm.pointers import Pointers
from indexer.chains.jsonrpc import JsonRpc
from indexer.errors import SourceError

__all__ = ["EvmChain", "LogReader", "create", "read_logs"]

_OPTIONS = ("contract", "chain", "network", "from", "finality", "clock")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


def create(name: str, url: str, store: ChainStore | None = None) -> EvmChain:
    """The chain of the endpoint at a URL, not connected yet. Raises SourceError for a wrong URL."""
    return read_logs(name, url, Pointers(), EVM_CHAINS, store=store)


def read_logs(
    name: str,
    url: str,
    reader: LogReader,
    chains: tuple[str, ...],
    contract: str | None = None,
    store: ChainStore | None = None,
) -> EvmChain:
    """The chain of a contract's logs as parsed by `reader`; `contract` is the default address, `chains` are the allowed
    values of `?chain=`. Raises SourceError."""
    base, _, query = url.partition("?")
    parsed_options = options.read(name, query, base.partition(":")[0], _OPTIONS, chains)
    address = parsed_options.get("contract", contract)
    if address is None or not _ADDRESS.fullmatch(address):
        raise SourceError(
            f"{name}: contract={(address or '')[:60]!a} is not a contract; write ?contract=0x and its 40 hex digits"
        )
    if parsed_options.get("clock", "free") != "free":
        raise SourceError(
            f"{name}: clock={parsed_options['clock'][:60]!a} is invalid: leave it out, or write clock=free"
        )
    endpoint = EvmEndpoint(JsonRpc(name, base), bytes.fromhex(address[2:]), reader.topics)
    return EvmChain(name, endpoint, reader, allowed_networks(name, parsed_options), parsed_options, store)
