"""Reads of the store: registrations, histories, cards and proofs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from indexer import store
from indexer.model import Drift
from indexer.resolution.pointer_service import PointerListing, drifts, is_outpoint, pointer_listing
from indexer.store.hidden import HideDecision, HideReason, Subject
from indexer.store.listed_ids import IdRun
from overlay.installation import NAMES
from overlay.listings.assembler import Assembler, Revisions
from overlay.listings.records import FeedChange, FeedPage, HistoryEntry, Registration
from overlay.listings.registrations import ChainHistory, by_chain
from overlay.listings.stored_proofs import StoredProof, proof
from overlay.listings.topic_records import TopicRecords
from parsers.bitcoin.tx import Outpoint

MOST_OF_ONE = 1_000
"""The limit of ids found for one transaction."""


class ListingRepository:
    """Queries for registrations, histories, cards and proofs. Synchronous and thread-safe."""

    def __init__(self, source: store.Store, systems: tuple[str, ...] = NAMES) -> None:
        self.store, self._assembler = source, Assembler(source, systems)

    @property
    def topic(self) -> TopicRecords:
        """The records of the registry's topic, for other overlays and for comparing with them."""
        return TopicRecords(self.store)

    @property
    def is_here(self) -> bool:
        """Whether the database is a file."""
        return self.store.engine.dialect.name == "sqlite"

    def listing(self, id: str, /) -> Registration | None:  # noqa: A002
        """The newest state of a registration or pointer, None for an unknown id."""
        return self.listings([id]).get(id)

    def ids_of(self, txid: bytes, outpoint: Outpoint | None, /) -> list[str]:
        """The ids of the registrations and pointers with events of a transaction (internal byte order), or only of
        those that moved to one outpoint of it, whether or not they are still there; at most `MOST_OF_ONE`."""
        return self.store.history.ids_of_transaction(txid, outpoint.vout if outpoint else None, MOST_OF_ONE)

    def revisions(self, ids: Iterable[str], /) -> Revisions:
        """The revisions of registrations by id, for `listings` and `histories`; those of unknown ids are left out."""
        return self.store.history.with_pending(ids)

    def listings(self, ids: Iterable[str], revisions: Revisions | None = None, /) -> dict[str, Registration]:
        """The newest states of registrations and pointers by id, in a few statements; unknown ids are left out.
        `revisions` are those of these ids, where they were read before."""
        requested = list(dict.fromkeys(ids))
        records = self.revisions(requested) if revisions is None else revisions
        pointed = {shown.state.id: shown for shown in self._assembler.pointed(requested, records)}
        on_chain: dict[str, ChainHistory] = {}
        for id_ in requested:
            if id_ not in pointed and (record := records.get(id_)) is not None:
                # chains that share their past may hold the same transaction: the first by name counts
                first = (record.confirmed or record.pending)[0].chain
                on_chain[id_] = next(history for history in by_chain(record) if history.chain == first)
        return pointed | self._assembler.newest(on_chain)

    def hidden(self, ids: Iterable[str], /) -> dict[str, HideDecision]:
        """The decisions of the operator that hide registrations and pointers here, by their ids."""
        return self.store.hidden.of(ids)

    def id_runs(self, size: int, /) -> list[IdRun]:
        """The runs of `size` ids that make up all listings. It goes through all ids."""
        return self.store.listed_ids.runs(size)

    def listed_ids(self, run: IdRun, size: int, /) -> list[str]:
        """The ids of a run, without those that are hidden."""
        ids = self.store.listed_ids.page(run, size)
        hidden = self.store.hidden.of(ids)
        return [id_ for id_ in ids if id_ not in hidden]

    def hidden_transactions(self, txids: Iterable[bytes], /) -> set[bytes]:
        """The transactions, of those passed in (internal byte order), of what is hidden."""
        return self.store.hidden.transactions(txids)

    def hidden_cards(self, withheld: Collection[HideReason], /) -> Iterator[tuple[HideDecision, bytes]]:
        """The decisions for other reasons than those that are withheld, the newest first, each with the SHA-256 of a
        card that it hides."""
        for decision in reversed(self.store.hidden.decisions()):
            if decision.reason in withheld:
                continue
            if decision.subject is Subject.SHA256:
                yield decision, bytes.fromhex(decision.value)
            else:
                for record in self.listings(self.store.hidden.affected(decision)).values():
                    yield decision, record.state.card

    def pointers(self, id: str, /) -> PointerListing | None:  # noqa: A002
        """The pointers to an id, None without any."""
        return None if is_outpoint(id) else pointer_listing(self.store, id)

    def history(self, registration_id: str, /) -> list[HistoryEntry]:
        """Every revision of a registration or pointer, newest first; unconfirmed ones first."""
        return self.histories([registration_id])[registration_id]

    def histories(self, ids: Iterable[str], revisions: Revisions | None = None, /) -> dict[str, list[HistoryEntry]]:
        """The histories of several ids: a list for each. `revisions` as for `listings`."""
        requested = list(ids)
        records = self.revisions(requested) if revisions is None else revisions
        return {id_: self._history(id_, records.get(id_, store.RegistrationHistory())) for id_ in requested}

    def _history(self, id_: str, record: store.RegistrationHistory) -> list[HistoryEntry]:
        if not is_outpoint(id_):
            confirmed = {(past.chain, past.height, past.event.position) for past in record.confirmed}
            more = self.store.pointers.revisions(id_)
            new = [past for past in more if (past.chain, past.height, past.event.position) not in confirmed]
            both = sorted([*record.confirmed, *new], key=lambda past: (past.time, past.height, past.event.position))
            record = replace(record, confirmed=both)
        return [
            *(HistoryEntry(revision.event, None, None, None) for revision in reversed(record.pending)),
            *(HistoryEntry(past.event, past.height, past.hash, past.time) for past in reversed(record.confirmed)),
        ]

    def drifts(self, id: str, /) -> list[Drift]:  # noqa: A002
        """Other cards served at the locator of a pointer, newest first (law 10)."""
        return [] if is_outpoint(id) else drifts(self.store, id)

    def card(self, sha256: bytes, /) -> bytes | None:
        """Card bytes by their SHA-256, None when they are not stored."""
        return self.cards([sha256]).get(sha256)

    def cards(self, digests: Iterable[bytes], /) -> dict[bytes, bytes]:
        """Cards by their SHA-256; those that are not stored are left out."""
        return self.store.content.cards(digests)

    def proof(self, registration_id: str, /) -> StoredProof:
        """The proof of a registration. Raises NoProofError."""
        return proof(self.store, registration_id)

    def proved(self, txids: Iterable[str], /) -> set[str]:
        """The txids (hex, display order), of those passed in, with a stored proof."""
        stored = self.store.proofs.stored([bytes.fromhex(txid)[::-1] for txid in txids])
        return {txid[::-1].hex() for txid in stored}

    def headers(self, chain: str, first: int, count: int, /) -> list[bytes]:
        """At most `count` consecutive headers of a chain from height `first` on."""
        return self.store.headers.run(chain, first, count)

    def newest(self) -> tuple[int, dict[str, int]]:
        """The newest sequence number of the primary database, and the height of each chain there, by name. Raises
        StoreUnavailableError."""
        primary = self.store.on_primary()
        blocks = {name: primary.blocks.newest(name) for name in primary.chains()}
        return primary.outbox.newest_seq(), {name: block.height for name, block in blocks.items() if block is not None}

    def changes(self, since: int, limit: int, epoch: str | None = None, /) -> FeedPage:
        """At most `limit` rows of the outbox after sequence number `since` of an epoch."""
        return _changes(self.store, since, limit, epoch)

    def surely_changes(self, since: int, limit: int, epoch: str | None = None, /) -> FeedPage:
        """A page of changes from the primary database. Raises StoreUnavailableError when only a replica answers."""
        page = _changes(self.store.on_primary(), since, limit, epoch)
        if page.may_be_behind:
            raise store.StoreUnavailableError("only a replica answers, which may lag behind an earlier answer")
        return page


def _changes(source: store.Store, since: int, limit: int, epoch: str | None) -> FeedPage:
    outbox, changes, continues = source.outbox.page(since, limit, epoch)
    rows = tuple(FeedChange(row.seq, row.op, row.id, row.height, row.reason, mark) for row, mark in changes)
    return FeedPage(outbox.epoch, rows, outbox.newest_seq, continues, outbox.is_replica)
