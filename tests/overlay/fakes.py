"""An engine and a store in a few lines, holding the sample chain's registrations, for tests of the HTTP side."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from indexer.admission.topic_graph import GraphNode
from indexer.model import BlockRef, Drift, Event, EventKind, Proof, RegistrationState, Status
from indexer.resolution.pointer_service import PointerListing
from indexer.store.hidden import HideDecision
from indexer.store.listed_ids import IdRun
from indexer.store.proofs import Proved
from indexer.store.requests import TransactionRequest
from overlay.api.services import AppServices, ProcessInfo, PublisherServices, SiteSettings
from overlay.api.shared_services import PAYMENTS, VERIFIER, Payments
from overlay.engines import IndexPosition
from overlay.listings.listing import listings_of
from overlay.listings.records import FeedChange, FeedPage, HistoryEntry, Registration
from overlay.listings.stored_proofs import Located, NoProofError, StoredProof
from overlay.projection.documents import document
from overlay.search.document import Document
from overlay.search.forward import Analysed
from overlay.search.planner import plan
from overlay.search.query import Cheapest, Hit, Hits, Query, Suggestion
from overlay.search.term_dictionary import TermCounts, TermDictionary
from parsers import cards
from parsers.bitcoin.beef import write
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, serialise, sha256d
from parsers.cards import Kind
from parsers.errors import ParseError
from parsers.reasons import Reason
from tests.parsers.writers import from_branch

if TYPE_CHECKING:
    from overlay.systems.delegateos.delegated_access import DelegatedAccess
    from overlay.systems.payments.gate import PaymentGate

CHAIN, CAIP2 = "bsv-regtest", "bsv:regtest"

API_SYSTEMS = ("payments", "rating", "delegateos")
"""The systems with routes below /v1 that docs/http-api.md describes."""


class FakeEngine:
    """Finds documents whose name or description holds any word of the query, by id; remembers what it was asked."""

    name, version, slow, is_slow_engine, is_compiling, is_interpreted = "fake", "fake-1", False, False, False, False

    def __init__(self, documents: Iterable[Document]) -> None:
        self.documents = sorted(documents, key=lambda document: document.id)
        self.read_to: IndexPosition | None = IndexPosition("epoch-1", 7)
        self.requests: list[Query] = []

    def position(self) -> IndexPosition | None:
        return self.read_to

    def damage(self) -> str:
        return ""

    def search(self, query: Query) -> Hits:
        self.requests.append(query)
        words = query.text.lower().split()
        results = [
            document
            for document in self.documents
            if query.kind in (None, document.kind)
            and document.status in query.statuses
            and (not words or any(word in f"{document.name} {document.description}".lower() for word in words))
            and (query.after is None or document.id > query.after[-1])
        ]
        start = 0 if query.after else query.offset
        counts: tuple[tuple[str, int], ...] = (("agent", 2), ("tool", 1))
        facets = {name: counts if name == "type" else () for name in query.facets} or None
        hits = tuple(_hit(item, query.sort) for item in results[start : start + query.limit])
        return Hits(hits, len(results), len(results), facets=facets, plan=plan(query.text, self.terms()))

    def with_document(self, _document: Document) -> None:
        return None

    def resolved(self, query: Query) -> Query:
        return query

    def suggest(self, text: str, limit: int) -> list[Suggestion]:
        results = [Suggestion(item.name, "listing", item.id) for item in self.documents if item.name.startswith(text)]
        return [*results, Suggestion("security", "tag")][:limit]

    def terms(self) -> TermDictionary:
        counts = TermCounts()
        for indexed in self.documents:
            counts.add(Analysed.of(indexed).surfaces)
        return TermDictionary([counts])

    def replace(self, registrations: Sequence[str], documents: Iterable[Document], cursor: IndexPosition) -> None:
        raise NotImplementedError

    def clear(self) -> None:
        raise NotImplementedError

    def get(self, id: str) -> bytes | None:  # noqa: A002
        return next((document.item for document in self.documents if document.id == id), None)

    def close(self) -> None:
        pass


_BEFORE_THE_ID = {
    "relevance": (0, 0),
    "updated": (0,),
    "created": (0,),
    "price": (1,),
    "price_per_day": (1,),
    "cost": (1,),
    "name": (),
}


def _hit(document: Document, sort: str) -> Hit:
    first = document.offers[0] if document.offers else None
    cheapest = Cheapest(first.id, "0.1", first.currency, first.interval_key) if first else None
    return Hit(document.id, document.item, 1.25, cheapest, (*_BEFORE_THE_ID[sort], document.id))


class FakeStore:
    """Registrations and their histories in dicts, and a change feed of one row each."""

    is_here = True

    def __init__(self, listings: Iterable[Registration], histories: dict[str, list[HistoryEntry]]) -> None:
        self.listings = {listing.state.id: listing for listing in listings}
        self.histories = histories

    def listing(self, id: str, /) -> Registration | None:  # noqa: A002
        return self.listings.get(id)

    def ids_of(self, _: bytes, __: object, /) -> list[str]:
        return []

    def hidden(self, _: Iterable[str], /) -> dict[str, HideDecision]:
        return {}

    def id_runs(self, _: int, /) -> list[IdRun]:
        return [IdRun(CHAIN, "")]

    def listed_ids(self, _: IdRun, size: int, /) -> list[str]:
        return sorted(self.listings)[:size]

    def hidden_transactions(self, _: Iterable[bytes], /) -> set[bytes]:
        return set()

    def pointers(self, _: str, /) -> PointerListing | None:
        return None

    def history(self, registration_id: str, /) -> list[HistoryEntry]:
        return self.histories.get(registration_id, [])

    def drifts(self, _: str, /) -> list[Drift]:
        return []

    def card(self, sha: bytes, /) -> bytes | None:
        return next((item.card_body for item in self.listings.values() if item.state.card == sha), None)

    def cards(self, digests: Iterable[bytes], /) -> dict[bytes, bytes]:
        return {digest: body for digest in digests if (body := self.card(digest)) is not None}

    def proof(self, registration_id: str, /) -> StoredProof:
        """A made-up transaction alone in a made-up block; burned listings have none."""
        state = self.listings[registration_id].state
        if state.status is Status.BURNED:
            raise NoProofError("none was kept")
        raw = serialise((TxInput(state.winner, b"", 0),), (TxOutput(1, b"made up for " + registration_id.encode()),))
        txid = sha256d(raw)
        path = from_branch(100, 0, txid, [])
        header = bytes(36) + txid + bytes(12)
        ref = BlockRef(CHAIN, 100, sha256d(header), bytes(32), 0, header)
        created = Proved(txid, ref, Proof(raw, path.to_bytes()))
        winner = Located(Outpoint(txid, 0), created, write([(raw, path)]))
        return StoredProof(chain=CHAIN, caip2=CAIP2, winner=winner, current=winner, before=(created,), after=(created,))

    def proved(self, txids: Iterable[str], /) -> set[str]:
        """The txids, each as with a stored proof."""
        return set(txids)

    def mined(self, _chain: str, _txids: Iterable[bytes], _room: int, /) -> dict[bytes, Proof]:
        """None: what `evidence` makes up is at other outpoints."""
        return {}

    @property
    def topic(self) -> FakeStore:
        """The records of the topic: this store, without submitted transactions."""
        return self

    @property
    def graph(self) -> FakeStore:
        """Where nothing was submitted."""
        return self

    def package(self, _chain: str, _txid: bytes, _room: int, /) -> tuple[GraphNode, ...]:
        return ()

    def ids_at(self, outpoint: Outpoint, /) -> list[str]:
        """The registrations that are at an outpoint now."""
        return [id_ for id_, listing in self.listings.items() if listing.state.outpoint == outpoint]

    def headers(self, _chain: str, first: int, count: int, /) -> list[bytes]:
        """Thirty thousand headers that say their height."""
        return [height.to_bytes(80, "little") for height in range(first, min(first + count, 30_000))]

    def newest(self) -> tuple[int, dict[str, int]]:
        """The newest change, and the heights that are stored."""
        return len(self.listings), {CHAIN: 125}

    def changes(self, since: int, limit: int, epoch: str | None = None, /) -> FeedPage:
        usual = (100, "inscribed", "epoch-1")
        rows = [FeedChange(seq, "upsert", id_, *usual) for seq, id_ in enumerate(self.listings, 1)]
        rows = [row._replace(height=100 + row.seq) for row in rows]
        continues = since <= len(rows) and epoch in (None, "epoch-1")
        return FeedPage("epoch-1", tuple(row for row in rows if row.seq > since)[:limit], len(rows), continues)


class FakeRequests:
    """Remembers what was asked for; nobody looks for it."""

    def __init__(self) -> None:
        self.requests: dict[bytes, TransactionRequest] = {}

    def add(self, txid: bytes, client: str, now: int, /) -> TransactionRequest:
        return self.requests.setdefault(
            txid, TransactionRequest(txid=txid, client=client, requested_at=now, next_at=now)
        )

    def counts(self) -> dict[str, int]:
        return {"waiting": len(self.requests), "found": 0, "indexed": 0, "given-up": 0}


@cache
def sample_listings(sample: Path) -> list[Registration]:
    """Every registration of the sample chain as the oracle says it stands."""
    oracle = json.loads((sample / "expected.json").read_text())
    return [_listing(entry) for entry in oracle["registrations"]]


def _listing(entry: dict[str, Any]) -> Registration:
    body = json.dumps(entry["card"], ensure_ascii=False).encode()
    state = RegistrationState(
        id=entry["id"],
        kind=Kind(entry["type"]),
        status=Status(entry["status"]),
        outpoint=Outpoint.parse(entry["outpoint"]) if entry["outpoint"] else None,
        offset=0,
        satoshis=1,
        owner=entry["owner"],
        map=entry["map"],
        card=sha256(body).digest(),
        winner=Outpoint.parse(entry["winner"]),
        updated_height=entry["updatedHeight"],
        created_height=entry["revisions"][0]["height"],
    )
    return Registration(
        state=state, chain=CHAIN, caip2=CAIP2, card_body=body, updated_time=1_700_000_000, created_time=1_600_000_000
    )


@cache
def sample_histories(sample: Path) -> dict[str, list[HistoryEntry]]:
    """Every history of the sample chain, newest first."""
    oracle = json.loads((sample / "expected.json").read_text())
    return {
        entry["id"]: [_revision(number, revision) for number, revision in enumerate(entry["revisions"])][::-1]
        for entry in oracle["registrations"]
    }


def _revision(number: int, entry: dict[str, Any]) -> HistoryEntry:
    event = Event(
        kind=EventKind(entry["kind"]),
        position=number,
        tx_index=entry["txIndex"],
        txid=bytes.fromhex(entry["txid"])[::-1],
        outpoint=Outpoint.parse(entry["outpoint"]) if entry["outpoint"] else None,
        card=bytes.fromhex(entry["cardSha256"]) if entry["cardSha256"] else None,
        valid=entry["valid"],
        reasons=(Reason("burned-fee"),) if entry["kind"] == "burned" else (),
        owner=entry["owner"],
        signer=entry["signer"],
    )
    return HistoryEntry(event, entry["height"], bytes(31) + bytes([number]), 1_700_000_000 + number)


def diagnose(what: str | bytes) -> dict[str, Any]:
    """A diagnosis of something nobody has seen."""
    if isinstance(what, bytes) and not what.startswith(b"\1"):
        raise ParseError("the version runs past the end", 0)
    txid = what[:64] if isinstance(what, str) else "00" * 32
    steps = [{"step": "seen", "ok": False, "detail": "nobody has seen it"}]
    where = "raw" if isinstance(what, bytes) else "nowhere"
    return {"txid": txid, "found": False, "where": where, "source": None, "steps": steps, "records": [], "listed": []}


def status() -> dict[str, Any]:
    chain = {"name": CHAIN, "chain": CAIP2, "state": "following", "height": 125, "hash": "00" * 32}
    counts = {"live": 35, "burned": 3, "pending": 0, "rejected": 13, "undecided": 0}
    return {
        "version": "0.1.0",
        "chains": [chain],
        "listings": counts,
        "index": {"engine": "fake", "seq": 7, "behind": 0, "meaning": False},
    }


@cache
def _sample_documents(sample: Path) -> list[Document]:
    return [
        document(subject)
        for listing in sample_listings(sample)
        if listing.card_body
        for subject in listings_of(listing, cards.read(listing.card_body, listing.state.kind))
    ]


def sample_services(sample: Path) -> AppServices:
    """Services over the sample chain; `changed` changes what a test wants otherwise."""
    histories = {id_: list(entries) for id_, entries in sample_histories(sample).items()}
    return AppServices(
        process=ProcessInfo(status=status, ready=lambda: None, version="0.1.0", requests=FakeRequests()),
        engine=FakeEngine(_sample_documents(sample)),
        store=FakeStore(sample_listings(sample), histories),
        chains=lambda: {CHAIN: CAIP2},
        heights=lambda: {CHAIN: 125},
        publishing=PublisherServices(diagnose=diagnose),
        site=SiteSettings(systems=API_SYSTEMS),
    )


def changed(services: AppServices, **members: Any) -> AppServices:
    """The services with other members, of the process, of publishing and of the site, too."""
    for name in ("process", "publishing", "site"):
        part = getattr(services, name)
        changes = {member: members.pop(member) for member in list(members) if hasattr(part, member)}
        services = replace(services, **{name: replace(part, **changes)})
    return replace(services, **members)


def selling(gate: PaymentGate, *prices: Any) -> dict[web.AppKey[Any], Any]:
    """The services of an overlay with prices of its own."""
    from overlay.systems.payments.own_payments import GATE

    return {GATE: gate, PAYMENTS: Payments(prices=prices, offers=gate.offers)}


def granting(access: DelegatedAccess) -> dict[web.AppKey[Any], Any]:
    """The services of an overlay that checks capability tokens."""
    from overlay.systems.delegateos import delegated_calls
    from overlay.systems.delegateos.delegated_access import ACCESS

    return {ACCESS: access, VERIFIER: delegated_calls}


def with_listing(services: AppServices, listing: Registration) -> AppServices:
    """Services whose store holds one more listing and whose engine holds only this."""
    store = services.store
    assert isinstance(store, FakeStore)
    assert listing.card_body is not None
    subjects = listings_of(listing, cards.read(listing.card_body, listing.state.kind))
    more = FakeStore([*store.listings.values(), listing], store.histories)
    return changed(services, store=more, engine=FakeEngine(map(document, subjects)))


PAID_TO = "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"


def priced(services: AppServices, caip2: str = "bsv:mainnet", **price: Any) -> AppServices:
    """The services with one more listing, "priced", on a chain that is the only one there."""
    full = {"id": "p", "currency": "BSV", "amount": 0.0005, "address": PAID_TO} | price
    card = {"name": "A", "url": "https://a.example", "skills": [{"id": "s"}], "x-payment-config": [full]}
    assert isinstance(services.store, FakeStore)
    listing = next(iter(services.store.listings.values()))
    state, body = replace(listing.state, id="priced"), json.dumps(card).encode()
    return changed(
        with_listing(services, replace(listing, state=state, caip2=caip2, card_body=body)),
        chains=lambda: {CHAIN: caip2},
    )
