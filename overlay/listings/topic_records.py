"""Reads of the store about the registry's topic: its graph, its anchors (BRC-136), and proved transactions."""

from __future__ import annotations

from collections.abc import Iterable

from indexer.admission.topic_graph import TopicGraph
from indexer.headers.networks import topic_genesis
from indexer.model import Proof
from indexer.state_hash import is_whole
from indexer.store import Store
from indexer.store.topic_anchors import TopicAnchorQueries
from parsers.bitcoin import basm
from parsers.bitcoin.basm_answers import AnchorTip
from parsers.bitcoin.tx import Outpoint


class TopicRecords:
    """Queries for the records that other overlays synchronise and compare. Synchronous and thread-safe."""

    def __init__(self, source: Store) -> None:
        self._store = source

    @property
    def graph(self) -> TopicGraph:
        """The graph of the topic, which other overlays synchronise."""
        return TopicGraph(self._store)

    def mined(self, chain: str, txids: Iterable[bytes], room: int, /) -> dict[bytes, Proof]:
        """The stored transactions of these (txids in internal byte order), each with its merkle path: in this order as
        many as have `room` bytes in all, without those that are too large, and those of hidden listings."""
        requested = list(dict.fromkeys(txids))
        hidden = self._store.hidden.transactions(requested)
        requested = [txid for txid in requested if txid not in hidden]
        sizes = self._store.proofs.sizes(chain, requested)
        chosen: list[bytes] = []
        for txid in requested:
            if txid in sizes and sizes[txid] <= room:
                room -= sizes[txid]
                chosen.append(txid)
        return {txid: proved.proof for txid, proved in self._store.proofs.get_many(chain, chosen).items()}

    @property
    def anchors(self) -> TopicAnchorQueries:
        """Anchors of the registry's topic (BRC-136)."""
        return self._store.topic_anchors

    def anchored_chain(self) -> tuple[str, str] | None:
        """The name and CAIP-2 id of the first chain with anchors, None without any."""
        return next((pair for pair in self._store.chains().items() if topic_genesis(pair[1]) is not None), None)

    def anchor_tip(self, chain: str, caip2: str, /) -> AnchorTip:
        """The newest anchor of a chain, and the blocks that its anchors cover."""
        anchors = self._store.topic_anchors
        newest = anchors.newest(chain)
        complete = is_whole(self._store, chain)
        if newest is None:
            return AnchorTip(-1, basm.NO_HASH, None, caip2, complete, None)
        undecided = anchors.undecided_from(chain)
        return AnchorTip(newest.height, newest.tac, anchors.genesis(chain), caip2, complete, undecided)

    def parent(self, txid: bytes, /) -> bytes | None:
        """A raw transaction with output values that were needed to follow a satoshi, None where it is not stored."""
        return None if self._store.hidden.transactions([txid]) else self._store.content.parents([txid]).get(txid)

    def merkle_paths(self, chain: str, height: int, txids: Iterable[bytes], /) -> dict[bytes, bytes]:
        """The stored merkle paths (BRC-74) of the transactions, of those passed in, that are in the block at a
        height."""
        return self._store.proofs.paths(chain, height, txids)

    def ids_at(self, outpoint: Outpoint, /) -> list[str]:
        """The ids of registrations with a satoshi that is or was at an outpoint, and of pointers in it, sorted; also by
        unconfirmed events."""
        return sorted(self._store.history.ids_of_transaction(outpoint.txid, outpoint.vout))
