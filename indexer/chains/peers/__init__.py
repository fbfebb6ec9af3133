"""`peers:` the peer-to-peer network of BSV, BTC, LTC, BCH or DOGE: blocks without a node.

`peers:?chain=bsv&network=mainnet&connect=host:port,host:port&from=HEIGHT&finality=N`.
"""

from __future__ import annotations

from indexer.chains import HeaderStore, options
from indexer.chains.peers.chain import PeersChain
from indexer.chains.peers.fixed_addresses import FixedAddresses
from indexer.chains.peers.wire_networks import wire_network
from indexer.errors import SourceError
from indexer.headers.networks import COINS, network

_OPTIONS = ("chain", "network", "connect", "from", "finality")


def create(name: str, url: str, headers: HeaderStore | None = None) -> PeersChain:
    """The chain of a `peers:` URL, not connected yet. Raises SourceError for a wrong URL."""
    path, _, query = url.removeprefix("peers:").partition("?")
    if path:
        raise SourceError(f"{name}: {path[:60]!a} cannot follow peers: ; write peers:?connect=host:port")
    parsed = options.read(name, query, "peers", _OPTIONS)
    coin = parsed.get("chain") or (name if name in COINS else "")
    if not coin:
        raise SourceError(f"{name}: which chain do the peers follow? add ?chain={'|'.join(COINS)}")
    selected = network(coin, parsed.get("network", "mainnet"))
    hosts = [host for host in parsed.get("connect", "").split(",") if host]
    if not hosts:
        raise SourceError(f"{name}: which peers are connected to? add ?connect=host:port,host:port")
    addresses = FixedAddresses(name, hosts, wire_network(selected).port)
    return PeersChain(name, selected, parsed, addresses, len(hosts), headers)
