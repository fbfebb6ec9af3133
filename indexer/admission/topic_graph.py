"""The graph of the topic's transactions, as other overlays request it (GASP): the outputs that the registry admits, and
each transaction that proves them, one by one."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from indexer.admission.admission import PREFIX
from indexer.store import Store
from indexer.store.topic_outputs import TopicOutput
from parsers.bitcoin import beef, bump
from parsers.bitcoin.beef import Beef
from parsers.bitcoin.tx import read


class GraphNode(NamedTuple):
    """A raw transaction and its merkle path (BRC-74), None while it is in no block: its parents are nodes, too."""

    raw: bytes
    path: bytes | None


class TopicGraph:
    """Reads of the first BSV chain of a database; several threads may share it. Txids are in internal byte order."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def outputs(self, score: int, limit: int) -> list[TopicOutput]:
        """The first `limit` outputs with a greater score, in order."""
        chain = self._chain()
        return [] if chain is None else self._store.topic_outputs.after(chain, score, limit)

    def node(self, root: bytes, txid: bytes) -> GraphNode | None:
        """A transaction in the graph of the transaction `root`; None where it is not stored, or hidden."""
        chain = self._chain()
        if chain is None or self._store.hidden.transactions([txid]):
            return None
        proved = self._store.proofs.get(chain, txid)
        if proved is not None:
            return GraphNode(proved.proof.raw, proved.proof.bump)
        for start in dict.fromkeys((root, txid)):
            data = self._store.submissions.beef(chain, start)
            package = _parsed(data) if data is not None else None
            member = package.member(txid) if package else None
            if package is None or member is None or member.raw is None:
                continue
            path = None if member.path is None else bump.extract(package.paths[member.path], [txid]).to_bytes()
            return GraphNode(member.raw, path)
        return None

    def package(self, chain: str, txid: bytes, room: int) -> tuple[GraphNode, ...]:
        """A submitted transaction that is in no block, after its ancestors up to those with a merkle path, parents
        first; nothing where it is not stored, with more than `room` bytes, or where one is of a hidden listing."""
        data = self._store.submissions.beef(chain, txid)
        nodes = _ancestry(_parsed(data), txid) if data is not None and len(data) <= room else ()
        return () if self._store.hidden.transactions(read(node.raw).txid for node in nodes) else nodes

    def _chain(self) -> str | None:
        return next((name for name, caip2 in self._store.chains().items() if caip2.startswith(PREFIX)), None)


@lru_cache(2)
def _parsed(data: bytes) -> Beef:
    """A stored BEEF, parsed once; its items were bounded when it was admitted. Peers request its transactions one by
    one, and parsing it for each would take quadratic time."""
    return beef.read(data)


def _ancestry(package: Beef, txid: bytes) -> tuple[GraphNode, ...]:
    """A transaction of a BEEF after its ancestors in it, parents first."""
    ordered: dict[bytes, GraphNode] = {}
    todo = [txid]
    while todo:
        member = package.member(todo[-1])
        if member is None or member.raw is None or member.tx is None or member.txid in ordered:
            todo.pop()
            continue
        parents = [] if member.path is not None else [spent.prevout.txid for spent in member.tx.inputs]
        if unread := [parent for parent in parents if parent not in ordered and package.member(parent)]:
            todo += unread
            continue
        path = None if member.path is None else bump.extract(package.paths[member.path], [member.txid]).to_bytes()
        ordered[todo.pop()] = GraphNode(member.raw, path)
    return tuple(ordered.values()) if txid in ordered else ()
