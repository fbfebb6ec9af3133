"""The store as the overlay sees it: revisions become listings, and listings become the documents of an index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby

from indexer import store
from indexer.facts import EventKind, Status
from indexer.store.proofs import run
from overlay import items
from overlay.document import Document
from overlay.ports import Change, Changes, Listing, Revision
from overlay.proofs import Evidence, evidence
from parsers import cards
from parsers.cards import Card, Kind

MOST_STRETCHES = 256
"""Superseded states of a registration that an index keeps; older ones are answered from the store's history only."""

_WINS = (EventKind.INSCRIBED, EventKind.REINSCRIBED)


class Catalogue:
    """Reads of the store in the overlay's words. Synchronous; safe from several threads."""

    def __init__(self, source: store.Store) -> None:
        self._store = source

    def listing(self, id: str, /) -> Listing | None:  # noqa: A002
        """The newest word about a registration, None when nobody knows the id."""
        history = self._store.history(id)
        if not history:
            return None
        # the same transaction may stand on two chains that share their past: the first by name is shown
        first = [revision for revision in history if revision.chain == history[0].chain]
        state = first[-1].event.state
        body = self._store.cards([state.card]).get(state.card) if state else None
        return listing(first, self._store.chains(), body)

    def history(self, registration_id: str, /) -> list[Revision]:
        """Every revision of a registration, newest first."""
        return [
            Revision(event=past.event, height=past.height, hash=past.hash, time=past.time)
            for past in reversed(self._store.history(registration_id))
        ]

    def card(self, sha256: bytes, /) -> bytes | None:
        """Card bytes by their SHA-256, None when they were never kept."""
        return self._store.cards([sha256]).get(sha256)

    def evidence(self, registration_id: str, /) -> Evidence:
        """What proves a registration's winning revision. Raises NoProofError."""
        return evidence(self._store, registration_id)

    def headers(self, chain: str, first: int, count: int, /) -> list[bytes]:
        """At most `count` consecutive headers of a chain from height `first` on."""
        return run(self._store.engine, chain, first, count)

    def changes(self, since: int, limit: int, /) -> Changes:
        """At most `limit` rows of the outbox after sequence number `since`."""
        rows = tuple(
            Change(row.seq, row.op, row.id, row.height, row.reason) for row in self._store.changes(since, limit)
        )
        return Changes(self._store.epoch, rows, self._store.newest_seq())

    def documents(self, registrations: Iterable[str]) -> Iterator[Document]:
        """What an index holds of these registrations: a document for each listing and stretch of heights."""
        chains = self._store.chains()
        histories = self._store.histories(registrations)
        wanted = {past.event.state.card for history in histories.values() for past in history if past.event.state}
        bodies = self._store.cards(wanted)
        for history in histories.values():
            for _, revisions in groupby(history, key=lambda past: past.chain):
                yield from _stretches(list(revisions), chains, bodies)


def _stretches(
    history: Sequence[store.Revision], chains: dict[str, str], bodies: dict[bytes, bytes]
) -> Iterator[Document]:
    """One registration of one chain: its state after each block that spoke of it, until the next one that did."""
    ends = [number for number in range(1, len(history)) if history[number].height != history[number - 1].height]
    ends.append(len(history))
    heights = [history[end - 1].height for end in ends]
    untils: list[int | None] = [*heights[1:], None]
    for end, height, until in list(zip(ends, heights, untils, strict=True))[-MOST_STRETCHES:]:
        state = history[end - 1].event.state
        if state is None or state.card not in bodies:
            continue
        stood = listing(history[:end], chains, bodies[state.card])
        for subject in items.subjects(stood, _read(bodies[state.card], state.kind)):
            yield replace(items.document(subject), from_height=height, until_height=until)


@lru_cache(maxsize=256)
def _read(body: bytes, kind: Kind) -> Card:
    return cards.read(body, kind)


def listing(history: Sequence[store.Revision], chains: dict[str, str], body: bytes | None) -> Listing:
    """A registration as its revisions so far (oldest first, not empty) say it stands."""
    newest = history[-1]
    state = newest.event.state
    if state is None:
        raise ValueError("these revisions are not of a registration")
    winner = next(past for past in reversed(history) if past.event.kind in _WINS)
    return Listing(
        state=state,
        chain=newest.chain,
        caip2=chains.get(newest.chain, newest.chain),
        card_body=body,
        updated_time=winner.time,
        created_time=history[0].time,
        signer=winner.event.signer,
        undecided=state.status is Status.UNDECIDED,
    )
