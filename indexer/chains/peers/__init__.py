"""`peers:` the peer-to-peer network of BSV, BTC, LTC, BCH or DOGE: blocks without a node.

`peers:?chain=bsv&network=mainnet&from=HEIGHT&finality=N&peers=8&dns=on&mempool=500000&connect=host:port,host:port`.
All options are optional; with `connect` no other peers are used.
"""

from __future__ import annotations

from collections.abc import Mapping

from indexer.chains import PeerStore, options
from indexer.chains.peers.address_book import AddressBook
from indexer.chains.peers.chain import PeersChain
from indexer.chains.peers.fixed_addresses import FixedAddresses
from indexer.chains.peers.peer_mempool import BUDGET
from indexer.chains.peers.wire_networks import wire_network
from indexer.errors import SourceError
from indexer.headers.networks import COINS, network

_OPTIONS = ("chain", "network", "from", "finality", "connect", "peers", "dns", "mempool")

DEFAULT_PEERS, MOST_PEERS = 8, 64
MIN_BUDGET, MAX_BUDGET = 10_000, 1_000_000_000


def create(name: str, url: str, store: PeerStore | None = None) -> PeersChain:
    """The chain of a `peers:` URL, not connected yet. Raises SourceError for a wrong URL."""
    path, _, query = url.removeprefix("peers:").partition("?")
    if path:
        raise SourceError(f"{name}: {path[:60]!a} cannot follow peers: ; write peers:?connect=host:port")
    parsed = options.read(name, query, "peers", _OPTIONS)
    coin = parsed.get("chain") or (name if name in COINS else "")
    if not coin:
        raise SourceError(f"{name}: which chain do the peers follow? add ?chain={'|'.join(COINS)}")
    selected = network(coin, parsed.get("network", "mainnet"))
    wire, count, seeds = wire_network(selected), _count(name, parsed), _has_seeds(name, parsed)
    budget = _budget(name, parsed)
    hosts = [host for host in parsed.get("connect", "").split(",") if host]
    if hosts:
        return PeersChain(name, selected, parsed, FixedAddresses(name, hosts, wire.port), len(hosts), budget, store)
    if selected.kind == "regtest":
        raise SourceError(f"{name}: a regtest has no public peers; add &connect=host:port")
    addresses = AddressBook(name, wire.port, wire.seeds if seeds else (), store)
    return PeersChain(name, selected, parsed, addresses, count, budget, store)


def _count(name: str, parsed: Mapping[str, str]) -> int:
    text = parsed.get("peers", str(DEFAULT_PEERS))
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST_PEERS):
        raise SourceError(f"{name}: peers={text[:20]!a} is not a number from 1 to {MOST_PEERS}")
    return int(text)


def _budget(name: str, parsed: Mapping[str, str]) -> int:
    """Bytes of unconfirmed transactions a second; 0 for none."""
    text = parsed.get("mempool", str(BUDGET))
    if text == "off":
        return 0
    if not (text.isascii() and text.isdigit() and MIN_BUDGET <= int(text[:12]) <= MAX_BUDGET):
        raise SourceError(
            f"{name}: mempool={text[:20]!a} is neither off nor a number of bytes per second from {MIN_BUDGET:,} to "
            f"{MAX_BUDGET:,}"
        )
    return int(text)


def _has_seeds(name: str, parsed: Mapping[str, str]) -> bool:
    text = parsed.get("dns", "on")
    if text not in ("on", "off"):
        raise SourceError(f"{name}: dns={text[:20]!a} is neither on nor off")
    return text == "on"
