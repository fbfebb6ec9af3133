"""The outputs that the registry admits, in the order of admission: overlays synchronise these (GASP)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import Engine, select

from indexer.model import Status
from indexer.store.hidden import HiddenQueries
from indexer.store.pending import PROVED
from indexer.store.queries import Queries, batches
from indexer.store.registrations import newest_events
from indexer.store.schema import changes, events, pending, proofs, submissions
from parsers.bitcoin.tx import Outpoint

CHANGES_AT_ONCE = 1_000


class TopicOutput(NamedTuple):
    """An output where a registration is now. `score` is the number of its newest change in the outbox: no other output
    has the same, and later ones have greater ones."""

    outpoint: Outpoint
    score: int


class TopicOutputs(Queries):
    """The outputs where registrations are now, as far as their transactions can be proved, without what is hidden."""

    def __init__(self, engine: Engine, hidden: HiddenQueries) -> None:
        super().__init__(engine)
        self._hidden = hidden

    def after(self, chain: str, score: int, limit: int) -> list[TopicOutput]:
        """The first `limit` outputs with a greater score, in order; fewer only at the end of the outbox.

        An output is where the registration is after submitted transactions, unless they are unproved, else after those
        in blocks.
        """
        outputs: dict[Outpoint, int] = {}
        while len(outputs) < limit:
            later = (changes.c.chain == chain, changes.c.seq > score)
            statement = select(changes.c.id, changes.c.seq).where(*later).order_by(changes.c.seq)
            newest_change = self._counts(statement.limit(CHANGES_AT_ONCE))
            if not newest_change:
                break
            outpoints = self._outpoints(chain, newest_change.keys() - self._hidden.of(newest_change).keys())
            for id_, seq in sorted(newest_change.items(), key=lambda item: item[1]):
                score = seq
                if id_ in outpoints:
                    outputs.pop(outpoints[id_], None)  # of two registrations of one output the later counts
                    outputs[outpoints[id_]] = seq
                if len(outputs) == limit:
                    break
        return [TopicOutput(outpoint, seq) for outpoint, seq in outputs.items()]

    def _outpoints(self, chain: str, ids: Iterable[str]) -> dict[str, Outpoint]:
        """The outpoints of live registrations, without those of transactions that cannot be proved."""
        outpoints: dict[str, Outpoint] = {}
        for batch in batches(ids):
            confirmed = newest_events(chain, events.c.registration.in_(batch))
            unconfirmed = select(pending).where(pending.c.chain == chain, pending.c.registration.in_(batch), PROVED)
            for table, statement in ((proofs, confirmed), (submissions, unconfirmed.order_by(pending.c.place))):
                rows = self._rows(statement)
                of_chain = select(table.c.txid).where(table.c.chain == chain)
                txids = {row["at_txid"] for row in rows} - {None}
                provable = {row["txid"] for row in self._rows_in(of_chain, table.c.txid, txids)}
                for row in rows:
                    if row["status"] != Status.LIVE.value:
                        outpoints.pop(row["registration"], None)
                    elif row["at_txid"] in provable:
                        outpoints[row["registration"]] = Outpoint(row["at_txid"], row["at_vout"])
        return outpoints
