"""Reads of the store: registrations, histories, cards and proofs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from indexer import store
from indexer.admission.topic_graph import TopicGraph
from indexer.headers.networks import topic_genesis
from indexer.model import Drift, Proof
from indexer.resolution.pointer_service import PointerListing, drifts, is_outpoint, pointer_listing
from indexer.state_hash import is_whole
from indexer.store.rows import place
from indexer.store.topic_anchors import TopicAnchorQueries
from overlay.installation import NAMES
from overlay.listings.assembler import Assembler, Revisions
from overlay.listings.records import FeedChange, FeedPage, HistoryEntry, Registration
from overlay.listings.registrations import ChainHistory, by_chain
from overlay.listings.stored_proofs import Evidence, evidence
from parsers.bitcoin import basm
from parsers.bitcoin.basm_answers import AnchorTip
from parsers.bitcoin.tx import Outpoint
from parsers.cards import Kind

MOST_ALIKE = 16
"""Ids that one prefix may name, at most."""

MOST_OF_ONE = 1_000
"""Ids that one transaction leads to, at most."""

BACKWARDS = 4 * 3_600
"""Seconds by which a block's time may be before that of an earlier block, at most: twice what nodes accept."""


class ListingRepository:
    """Queries for registrations, histories, cards and proofs. Synchronous and thread-safe."""

    def __init__(self, source: store.Store, systems: tuple[str, ...] = NAMES) -> None:
        self._store, self._assembler = source, Assembler(source, systems)

    @property
    def is_here(self) -> bool:
        """Whether the database is a file."""
        return self._store.engine.dialect.name == "sqlite"

    @property
    def topic_graph(self) -> TopicGraph:
        """What other overlays synchronise."""
        return TopicGraph(self._store)

    def listing(self, id: str, /) -> Registration | None:  # noqa: A002
        """The newest state of a registration or pointer, None for an unknown id."""
        return self.listings([id]).get(id)

    def ids_of(self, txid: bytes, outpoint: Outpoint | None, /) -> list[str]:
        """The ids of the registrations and pointers that a transaction (internal byte order) is about, or only those
        of them that came to an outpoint of it, whether or not they still are there; at most `MOST_OF_ONE`."""
        past = (revision.event for revision in self._store.history.of_transaction(txid))
        events = [*past, *(waiting.event for waiting in self._store.pending.of_transaction(txid))]
        ids = (
            event.state.id if event.state else event.pointer.id if event.pointer else None
            for event in events
            if outpoint is None or outpoint in (event.outpoint, event.state.outpoint if event.state else None)
        )
        return list(dict.fromkeys(filter(None, ids)))[:MOST_OF_ONE]

    def revisions(self, ids: Iterable[str], /) -> Revisions:
        """The revisions of registrations by id, for `listings` and `histories`; those of unknown ids are left out."""
        return self._store.history.with_pending(ids)

    def listings(self, ids: Iterable[str], revisions: Revisions | None = None, /) -> dict[str, Registration]:
        """The newest states of registrations and pointers by id, in a few statements; unknown ids are left out.
        `revisions` are those of these ids, where they were read before."""
        wanted = list(dict.fromkeys(ids))
        records = self.revisions(wanted) if revisions is None else revisions
        pointed = {shown.state.id: shown for shown in self._assembler.pointed(wanted, records)}
        on_chain: dict[str, ChainHistory] = {}
        for id_ in wanted:
            if id_ not in pointed and (record := records.get(id_)) is not None:
                # chains that share their past may hold the same transaction: the first by name counts
                first = (record.confirmed or record.pending)[0].chain
                on_chain[id_] = next(history for history in by_chain(record) if history.chain == first)
        return pointed | self._assembler.newest(on_chain)

    def pointers(self, id: str, /) -> PointerListing | None:  # noqa: A002
        """The pointers to an id, None without any."""
        return None if is_outpoint(id) else pointer_listing(self._store, id)

    def history(self, registration_id: str, /) -> list[HistoryEntry]:
        """Every revision of a registration or pointer, newest first; unconfirmed ones first."""
        return self.histories([registration_id])[registration_id]

    def histories(self, ids: Iterable[str], revisions: Revisions | None = None, /) -> dict[str, list[HistoryEntry]]:
        """The same of several ids: a list for each. `revisions` as for `listings`."""
        wanted = list(ids)
        records = self.revisions(wanted) if revisions is None else revisions
        return {id_: self._history(id_, records.get(id_, store.RegistrationHistory())) for id_ in wanted}

    def _history(self, id_: str, record: store.RegistrationHistory) -> list[HistoryEntry]:
        if not is_outpoint(id_):
            confirmed = {(past.chain, past.height, past.event.position) for past in record.confirmed}
            more = self._store.pointers.revisions(id_)
            new = [past for past in more if (past.chain, past.height, past.event.position) not in confirmed]
            both = sorted([*record.confirmed, *new], key=lambda past: (past.time, past.height, past.event.position))
            record = replace(record, confirmed=both)
        return [
            *(HistoryEntry(revision.event, None, None, None) for revision in reversed(record.pending)),
            *(HistoryEntry(past.event, past.height, past.hash, past.time) for past in reversed(record.confirmed)),
        ]

    def tools_with_prefixes(self, prefixes: Iterable[str], /) -> dict[str, list[str]]:
        """The tools in a block whose ids begin with these hex digits, by prefix, the oldest first; a few at most."""
        return self._store.history.with_prefixes(prefixes, Kind.TOOL, MOST_ALIKE)

    def burned_tools(self, since: int, after: tuple[str, int], limit: int, /) -> list[tuple[str, tuple[str, int]]]:
        """The tools that were burned at or after a time (seconds since 1970) and the positions of these events, which
        are a chain and a place; in this order, from the first position after `after` on."""
        first_places = {
            chain: place(self._store.blocks.height_at(chain, 1000 * (since - BACKWARDS)) or 0)
            for chain in self._store.chains()
            if chain >= after[0]
        }
        if after[0] in first_places:
            first_places[after[0]] = max(first_places[after[0]], after[1] + 1)
        return [
            (past.event.state.id, (past.chain, place(past.height, past.event.position)))
            for past in self._store.history.burned(Kind.TOOL, since, first_places, limit)
            if past.event.state is not None
        ]

    def drifts(self, id: str, /) -> list[Drift]:  # noqa: A002
        """Other cards served at the locator of a pointer, newest first (law 10)."""
        return [] if is_outpoint(id) else drifts(self._store, id)

    def card(self, sha256: bytes, /) -> bytes | None:
        """Card bytes by their SHA-256, None when they are not stored."""
        return self.cards([sha256]).get(sha256)

    def cards(self, digests: Iterable[bytes], /) -> dict[bytes, bytes]:
        """Cards by their SHA-256; those that are not stored are left out."""
        return self._store.content.cards(digests)

    def evidence(self, registration_id: str, /) -> Evidence:
        """The proof of a registration. Raises NoProofError."""
        return evidence(self._store, registration_id)

    def mined(self, chain: str, txids: Iterable[bytes], room: int, /) -> dict[bytes, Proof]:
        """The stored transactions of these (txids in internal byte order), each with its merkle path: in this order as
        many as have `room` bytes in all, without those that are too large."""
        wanted = list(dict.fromkeys(txids))
        sizes = self._store.proofs.sizes(chain, wanted)
        chosen: list[bytes] = []
        for txid in wanted:
            if txid in sizes and sizes[txid] <= room:
                room -= sizes[txid]
                chosen.append(txid)
        return {txid: proved.proof for txid, proved in self._store.proofs.get_many(chain, chosen).items()}

    @property
    def topic_anchors(self) -> TopicAnchorQueries:
        """Anchors of the registry's topic (BRC-136)."""
        return self._store.topic_anchors

    def anchored_chain(self) -> tuple[str, str] | None:
        """The name and CAIP-2 id of the first chain with anchors, None without any."""
        return next((pair for pair in self._store.chains().items() if topic_genesis(pair[1]) is not None), None)

    def anchor_tip(self, chain: str, caip2: str, /) -> AnchorTip:
        """The newest anchor of a chain, and what its anchors cover."""
        anchors = self._store.topic_anchors
        newest = anchors.newest(chain)
        complete = is_whole(self._store, chain)
        if newest is None:
            return AnchorTip(-1, basm.NO_HASH, None, caip2, complete, None)
        undecided = anchors.undecided_from(chain)
        return AnchorTip(newest.height, newest.tac, anchors.genesis(chain), caip2, complete, undecided)

    def parent(self, txid: bytes, /) -> bytes | None:
        """A raw transaction whose output values were needed to follow a satoshi, None where it is not stored."""
        return self._store.content.parents([txid]).get(txid)

    def merkle_paths(self, chain: str, height: int, txids: Iterable[bytes], /) -> dict[bytes, bytes]:
        """The stored merkle paths (BRC-74) of those of these transactions that are in the block at a height."""
        return self._store.proofs.paths(chain, height, txids)

    def ids_at(self, outpoint: Outpoint, /) -> list[str]:
        """The ids of registrations whose satoshi is or was at an outpoint, and of pointers in it, sorted; also by
        unconfirmed events."""
        events = [past.event for past in self._store.history.of_transaction(outpoint.txid)]
        events += [revision.event for revision in self._store.pending.of_transaction(outpoint.txid)]
        there = [event for event in events if event.outpoint == outpoint]
        named = [event.state.id if event.state else event.pointer and event.pointer.id for event in there]
        return sorted({id_ for id_ in named if id_})

    def proved(self, txids: Iterable[str], /) -> set[str]:
        """Those of these txids (hex, display order) with a stored proof."""
        stored = self._store.proofs.stored([bytes.fromhex(txid)[::-1] for txid in txids])
        return {txid[::-1].hex() for txid in stored}

    def headers(self, chain: str, first: int, count: int, /) -> list[bytes]:
        """At most `count` consecutive headers of a chain from height `first` on."""
        return self._store.headers.run(chain, first, count)

    def changes(self, since: int, limit: int, /) -> FeedPage:
        """At most `limit` rows of the outbox after sequence number `since`."""
        return _changes(self._store, since, limit)

    def surely_changes(self, since: int, limit: int, /) -> FeedPage:
        """The same from the primary database. Raises StoreUnavailableError when only a replica answers."""
        page = _changes(self._store.on_primary(), since, limit)
        if page.may_be_behind:
            raise store.StoreUnavailableError("only a replica answers, which may lag behind an earlier answer")
        return page


def _changes(source: store.Store, since: int, limit: int) -> FeedPage:
    outbox, changes = source.outbox.page(since, limit)
    rows = tuple(FeedChange(row.seq, row.op, row.id, row.height, row.reason) for row in changes)
    return FeedPage(outbox.epoch, rows, outbox.newest_seq, outbox.is_replica)
