"""`overlay:` another overlay of the registry as a source of a BSV chain: what its topic admitted, block by block, each
transaction proved.

`overlay:https://host?network=mainnet&from=HEIGHT&finality=N`.
"""

from __future__ import annotations

from indexer.chains import ChainStore
from indexer.chains.options import read, web_address
from indexer.chains.overlay.chain import OverlayChain
from indexer.errors import SourceError
from indexer.headers.networks import network
from indexer.masking import masked

_OPTIONS = ("chain", "network", "from", "finality")


def create(name: str, url: str, store: ChainStore | None = None) -> OverlayChain:
    """The chain of an `overlay:` URL, not connected yet. Raises SourceError for a wrong URL."""
    base, _, query = url.removeprefix("overlay:").partition("?")
    base = base.rstrip("/").removesuffix("/v1").rstrip("/")
    parts = web_address(base)
    if parts is None or "#" in base or parts.username:
        raise SourceError(f"{name}: {masked(base)[:200]!a} is not an overlay; write overlay:https://host")
    options = read(name, query, "overlay", _OPTIONS, ("bsv",))
    return OverlayChain(name, base, network("bsv", options.get("network", "mainnet")), options, store)
