"""The graph of the topic's transactions, as other overlays ask for it (GASP): the outputs that the registry admits, and
each transaction that proves them, one by one."""

from __future__ import annotations

from typing import NamedTuple

from indexer.admission.admission import MAX_ITEMS, PREFIX
from indexer.store import Store
from indexer.store.topic_outputs import TopicOutput
from parsers.bitcoin import beef, bump


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
        """A transaction in the graph of the transaction `root`; None where it is not stored."""
        chain = self._chain()
        if chain is None:
            return None
        proved = self._store.proofs.get(chain, txid)
        if proved is not None:
            return GraphNode(proved.proof.raw, proved.proof.bump)
        for start in dict.fromkeys((root, txid)):
            data = self._store.submissions.beef(chain, start)
            package = beef.read(data, MAX_ITEMS) if data is not None else None
            member = package.member(txid) if package else None
            if package is None or member is None or member.raw is None:
                continue
            path = None if member.path is None else bump.extract(package.paths[member.path], [txid]).to_bytes()
            return GraphNode(member.raw, path)
        return None

    def _chain(self) -> str | None:
        return next((name for name, caip2 in self._store.chains().items() if caip2.startswith(PREFIX)), None)
