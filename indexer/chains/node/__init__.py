"""`http:` and `https:` a node of BSV, BTC, LTC, BCH or DOGE, asked by JSON-RPC and REST, and heard over ZeroMQ.

`http://user:password@host:port?chain=bsv&network=mainnet&zmq=tcp://host:port&cookie=PATH&from=HEIGHT&finality=N`. All
options may be left out: the chain is then the configured name, the network what the node says, and news are asked for.
On Dogecoin, `auxpow=unchecked` accepts merge-mined headers without the proof of work that some nodes cannot give.
"""

from __future__ import annotations

from indexer.chains import HeaderRows, options
from indexer.chains.node import address
from indexer.chains.node.chain import NodeChain

_OPTIONS = ("chain", "network", "zmq", "cookie", "from", "finality", "auxpow")


def create(name: str, url: str, headers: HeaderRows | None = None) -> NodeChain:
    """The chain of the node at a URL, not asked anything yet. Raises SourceError saying what is wrong with it."""
    base, _, query = url.partition("?")
    given = options.read(name, query, base.partition(":")[0], _OPTIONS)
    for publisher in given.get("zmq", "").split(","):
        options.check_port(name, publisher, "zmq=")
    return NodeChain(name, address.read(name, base, given.get("cookie")), given, headers)
