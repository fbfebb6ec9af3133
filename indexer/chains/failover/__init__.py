"""Several sources of one chain, configured as one name repeated: `bsv=http://a bsv=http://b bsv=files:/path`.

One source is read at a time: the one with the most work, of equals the one configured first; on chains without proof of
work the first configured one that answers and moves. When it fails, another takes over at once, also within a range of
blocks. The tips of the others are monitored, to detect a source that lags or
is on another branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import cast

from indexer.chains import SOLANA, create, kind, module
from indexer.chains.failover.chain import FailoverChain
from indexer.chains.failover.group import Pace, partial_source_error
from indexer.chains.options import check_port
from indexer.chains.source import Chain, ChainStore
from indexer.errors import SourceError
from indexer.model import BlockRef, PeerRecord

__all__ = ["FailoverChain", "Pace", "SharedHeaders", "join"]


def join(name: str, urls: Sequence[str], store: ChainStore | None = None) -> Chain:
    """The chain of these URLs: the source itself for one URL, a `FailoverChain` for more. Nothing is connected. Raises
    SourceError for a wrong URL."""
    for url in urls:
        check_port(name, url)
    if len(urls) == 1:
        return create(name, urls[0], store)
    if {module(name, url) for url in urls} == {SOLANA}:
        # reading all accounts is expensive: other endpoints are used only when the first fails
        return cast("Chain", import_module(SOLANA).join(name, urls, store))
    saver: dict[str, SharedHeaders] = {}
    sources = [
        (f"{kind(name, url)} {number}", create(name, url, SharedHeaders(store, saver) if store is not None else None))
        for number, url in enumerate(urls, 1)
    ]
    # sources that learn it when they open are checked again then
    whole = [(shown, chain) for shown, chain in sources if chain.complete]
    for shown, chain in sources:
        if not chain.complete:
            _use_for_transactions(name, shown, chain, [other for _, other in whole])
    if len({chain.contract for _, chain in sources}) > 1:
        raise SourceError(
            f"{name}: its sources differ in contract; give all of them the same, or a name of its own each"
        )
    return whole[0][1] if len(whole) == 1 else FailoverChain(name, whole)


def _use_for_transactions(name: str, shown: str, partial: Chain, whole: Sequence[Chain]) -> None:
    """Use a source of partial blocks for single transactions alone, where another source has none by their ids. Raises
    SourceError where that is not so, and for another network."""
    lacking = [chain for chain in whole if chain.lacks_transactions]
    if not lacking:
        raise partial_source_error(name, shown)
    for chain in lacking:
        if chain.caip2 != partial.caip2:
            raise SourceError(f"{name}: {shown} is {partial.caip2}, and the peers are of {chain.caip2}")
        chain.add_lookup(partial)


class SharedHeaders:
    """The stored headers of one chain, for one of several sources: all load them, only the first that saves keeps
    saving. `saver`, which the sources share, holds that one by the chain's name.

    Each source saves from where its own last save ended: two that alternate would store headers that do not link. The
    others keep theirs in memory.
    """

    def __init__(self, store: ChainStore, saver: dict[str, SharedHeaders]) -> None:
        self._store, self._saver = store, saver

    def load_headers(self, chain: str) -> Iterator[tuple[int, bytes]]:
        """As `HeaderStore.load_headers`."""
        return self._store.load_headers(chain)

    def newest_block(self, chain: str) -> BlockRef | None:
        """As `ChainStore.newest_block`."""
        return self._store.newest_block(chain)

    def load_peers(self, chain: str) -> list[PeerRecord]:
        """As `PeerStore.load_peers`."""
        return self._store.load_peers(chain)

    def save_peers(self, chain: str, records: Sequence[PeerRecord]) -> None:
        """As `PeerStore.save_peers`."""
        self._store.save_peers(chain, records)

    def save_headers(self, chain: str, first: int, headers: bytes) -> None:
        """As `HeaderStore.save_headers` for the source that saved first; nothing for the others."""
        if self._saver.setdefault(chain, self) is self:  # atomic: sources save in threads
            self._store.save_headers(chain, first, headers)
