"""`http:` and `https:` a node of BSV, BTC, LTC, BCH or DOGE, by JSON-RPC, REST and ZeroMQ.

`http://user:password@host:port?chain=bsv&network=mainnet&zmq=tcp://host:port&cookie=PATH&from=HEIGHT&finality=N`. All
options are optional: by default the chain is the configured name, the network is the node's, and the node is polled. On
Dogecoin, `auxpow=unchecked` accepts merge-mined headers without their proof of work, for nodes that do not serve it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from indexer.chains import HeaderStore, options
from indexer.chains.node import address

if TYPE_CHECKING:
    from indexer.chains.node.chain import NodeChain

_OPTIONS = ("chain", "network", "zmq", "cookie", "from", "finality", "auxpow")


def create(name: str, url: str, headers: HeaderStore | None = None) -> NodeChain:
    """The chain of the node at a URL, not connected yet. Raises SourceError for a wrong URL."""
    from indexer.chains.node.chain import NodeChain  # of the server: others use the client alone

    node_address, parsed_options = parse(name, url)
    return NodeChain(name, node_address, parsed_options, headers)


def parse(name: str, url: str) -> tuple[address.Address, dict[str, str]]:
    """The address of the node at a URL, and its options. Raises SourceError for a wrong URL."""
    base, _, query = url.partition("?")
    parsed_options = options.read(name, query, base.partition(":")[0], _OPTIONS)
    for publisher in parsed_options.get("zmq", "").split(","):
        options.check_port(name, publisher, "zmq=")
    return address.read(name, base, parsed_options.get("cookie")), parsed_options
