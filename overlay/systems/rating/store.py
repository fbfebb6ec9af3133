"""Receipts: signed documents, the work that they prove, which key works for which listing, and the ratings
that follow. Times are milliseconds since 1970, keys lower-case hex, amounts satoshis.

Documents, receipts and binds come from clients and from no chain: they are kept, while ratings can be computed from
them again. Serving processes write receipts, the indexer ratings. Several threads and processes may use it at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Connection,
    FromClause,
    Index,
    Integer,
    LargeBinary,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    tuple_,
    union,
    update,
)

from indexer.store import outbox
from indexer.store.database import writing
from indexer.store.locks import advisory_lock
from indexer.store.queries import Queries, batches, insert_new, row_of, rows_in, upsert
from indexer.store.schema import (
    BYTEWISE,
    columns_of,
    fills,
    keys,
    optional,
    original_table,
    partial_index,
    rebuilt_table,
    required,
)
from indexer.store.writer import Writer
from overlay.systems.rating.store_complaint_rows import complaints
from overlay.systems.rating.store_edges import NEW_EDGE, touch_edges, trust_edges
from parsers.claims.canonical_json import DocumentError
from parsers.claims.motebit.trust_graph import ANYBODY, EdgePair
from parsers.claims.rating_windows import MAX_READ, paid_window, signed_window

RECEIPTS_LOCK = advisory_lock("e")
"""While receipts are compared with the stored ones, and added."""

MAX_FORMS = 8
"""Records of one receipt that are as strong as another, by keys that work for no listing: keys cost nothing."""

DAY_MS = 86_400_000

MAX_UNPAID_BYTES = 16 << 20
"""Bytes of documents with receipts of one listing, without proved payments, that are stored in a day: receipts cost
nothing to sign. A usual one has 2 kB."""

POSITION = "ratings"
"""The name of the outbox position up to which changed listings were marked to be rated again."""

ratings = rebuilt_table(
    "ratings",
    *keys(listing=BYTEWISE),
    *required(submitted=BigInteger, rated=BigInteger),
    *optional(score=Integer, base_score=Integer),
    *required(rung=Integer, completed=Integer, failed=Integer, paid_tasks=Integer, customers=Integer),
    *required(complaints=Integer, disputed=Integer, as_of=BigInteger),
    *optional(basis_sha256=LargeBinary),
)
"""Ratings in thousandths, null without a receipt that counts; `base_score` is without E3. A listing is due for rating
while `submitted` is above `rated`."""

_IS_NEW, _HAS_SCORE = ratings.c.submitted > ratings.c.rated, ratings.c.score.is_not(None)
partial_index("ratings_new", _IS_NEW, ratings.c.as_of, ratings.c.listing)
partial_index("ratings_scored", _HAS_SCORE, ratings.c.as_of, ratings.c.listing)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReceipt:
    """A row: a receipt and its document (SHA-256), the payment of its task (txid in hex, "" for none) and its proof
    (SHA-256 of a BEEF), the txid that funded the payer, and the block of the payment by height and merkle root on a
    configured chain."""

    digest: bytes
    counter_signer: str
    document: bytes
    listing: str
    worker: str
    task: str
    outcome: str
    completed_at: int
    received_at: int
    payer: str = ""
    payment: str = ""
    proof: bytes | None = None
    funding: str = ""
    paid: int = 0
    price: int = 0
    chain: str = ""
    pay_height: int | None = None
    pay_root: bytes | None = None
    is_proved: bool = False


class SubmittedDocument(NamedTuple):
    """A document as submitted, by the SHA-256 of its bytes."""

    sha256: bytes
    kind: str
    body: bytes
    received_at: int


class KeyBind(NamedTuple):
    """The listing that a key works for, and the token (SHA-256) by which it consents, None for consent through its
    host."""

    key: str
    listing: str
    document: bytes | None
    received_at: int


class StoredRating(NamedTuple):
    """A rating in thousandths, None where nothing counts; `base_score` is without E3. `complaints` are those that
    count, `disputed` those of them with a receipt for the same payment."""

    score: int | None
    base_score: int | None
    rung: int
    completed: int
    failed: int
    paid_tasks: int
    customers: int
    complaints: int
    disputed: int
    as_of: int
    basis_sha256: bytes | None


class BlockPayment(NamedTuple):
    """A block that a receipt names as that of a payment, and whether it is taken to be in the chain."""

    height: int
    root: bytes
    is_proved: bool


signed_documents = original_table("signed_documents", *columns_of(SubmittedDocument, {"sha256"}))

receipts = original_table(
    "receipts",
    *columns_of(StoredReceipt, {"digest", "counter_signer"}, listing=BYTEWISE),
    Index("receipts_by_listing", "listing", "digest", "counter_signer"),
    Index("receipts_by_time", "listing", "received_at", "digest"),
    Index("receipts_by_worker", "worker"),
    Index("receipts_by_counter_signer", "counter_signer"),
    Index("receipts_by_payment", "chain", "pay_height"),
)
"""One row for each receipt and each other key that signed it, "" for none."""

Index(
    "receipts_by_paid",
    *(receipts.c.listing, receipts.c.is_proved, receipts.c.paid.desc(), receipts.c.received_at, receipts.c.digest),
)

key_binds = original_table(
    "key_binds",
    *columns_of(KeyBind, {"key"}, listing=BYTEWISE),
    Index("key_binds_by_listing", "listing"),
)
"""The key's consent to work for a listing: a signed token, or without a document the identity that its host serves."""

_PAYMENT = (
    *("payer", "payment", "proof", "funding", "paid", "price", "chain", "pay_height", "pay_root", "is_proved"),
    "completed_at",
)
_COLUMNS = [receipts.c[name] for name in StoredReceipt.__dataclass_fields__]


def _check_unpaid(connection: Connection, rows: Sequence[StoredReceipt]) -> None:
    """Raise DocumentError when a listing of these records has too many bytes of the last day."""
    for listing, now in {row.listing: row.received_at for row in rows}.items():
        recent = (receipts.c.listing == listing, receipts.c.received_at > now - DAY_MS, receipts.c.payment == "")
        of_listing = select(receipts.c.document).where(*recent)
        size = select(func.coalesce(func.sum(func.length(signed_documents.c.body)), 0))
        stored = connection.execute(size.where(signed_documents.c.sha256.in_(of_listing))).scalar_one()
        if stored > MAX_UNPAID_BYTES:
            detail = f"{MAX_UNPAID_BYTES:,} bytes of documents without a payment are stored for {listing} in a day"
            raise DocumentError("too-many", detail)


class ReceiptQueries(Queries):
    """Reads of receipts and ratings, and the writes of submitted receipts, which raise StoreError when the database
    refuses."""

    # -- handing in

    def submit(self, documents: Sequence[SubmittedDocument], rows: Sequence[StoredReceipt]) -> int:
        """Store documents and receipts. Returns the number of records that are new or have a new payment. Other stored
        records are not changed. Raises DocumentError when a listing has too many without a payment, and stores
        nothing then."""
        with writing(self._engine, RECEIPTS_LOCK) as connection:
            changed = [row for row in rows if _add(connection, row)]
            if changed or not rows:
                insert_new(connection, signed_documents, [document._asdict() for document in documents])
            _check_unpaid(connection, [row for row in changed if not row.payment])
            touch(connection, {row.listing for row in changed})
            touch_edges(connection, edge_pairs(changed))
        return len(changed)

    def bind(self, bind: KeyBind, document: SubmittedDocument | None) -> KeyBind:
        """Bind a key to a listing, unless it is bound already; the bind that holds. A token replaces an older bind of
        the same listing, and is as old as when it was first received: anybody can repeat one that is published."""
        with writing(self._engine, RECEIPTS_LOCK) as connection:
            stored = _bound(connection, [bind.key]).get(bind.key)
            if stored is not None and (stored.listing != bind.listing or bind.document is None):
                return stored
            if document is not None:
                insert_new(connection, signed_documents, [document._asdict()])
                received = select(signed_documents.c.received_at).where(signed_documents.c.sha256 == document.sha256)
                bind = bind._replace(received_at=connection.execute(received).scalar_one())
            if stored is not None and bind.received_at < stored.received_at:
                return stored
            statement = upsert(connection, key_binds).values(**bind._asdict())
            connection.execute(statement.on_conflict_do_update(index_elements=["key"], set_=bind._asdict()))
            signed_for = select(receipts.c.listing).where(receipts.c.counter_signer == bind.key).distinct()
            touch(connection, {bind.listing, *connection.execute(signed_for).scalars()})
        return bind

    # -- reads

    def bound(self, keys: Collection[str]) -> dict[str, KeyBind]:
        """The binds of these keys."""
        with self._engine.connect() as connection:
            return _bound(connection, keys)

    def keys_of(self, listing: str) -> list[KeyBind]:
        """The keys that are bound to a listing, sorted."""
        statement = select(key_binds).where(key_binds.c.listing == listing).order_by(key_binds.c.key)
        return [KeyBind(**row) for row in self._rows(statement.limit(MAX_KEYS))]

    def document(self, sha256: bytes) -> SubmittedDocument | None:
        """A document."""
        row = self._first(select(signed_documents).where(signed_documents.c.sha256 == sha256))
        return SubmittedDocument(**row) if row else None

    def counted(self, listing: str) -> list[StoredReceipt]:
        """The records of the receipts of a listing that can count by `rating_windows`, by digest."""
        with self._engine.connect() as connection:
            paid = paid_window(row[:3] for row in _streamed(connection, paid_receipts(listing)))
            signed = signed_window(row[:2] for row in _streamed(connection, signed_receipts(listing)))
        of_listing = select(*_COLUMNS).where(receipts.c.listing == listing)
        matches = self._rows_in(of_listing, receipts.c.digest, [*paid, *signed])
        records = (StoredReceipt(**row) for row in matches)
        return sorted(records, key=lambda record: (record.digest, record.counter_signer))

    def listings_of(self, document: bytes) -> list[str]:
        """The listings with records from a document."""
        named = or_(receipts.c.document == document, receipts.c.proof == document)
        return self._scalars(select(receipts.c.listing).where(named).distinct())

    def page(self, listing: str, after: tuple[bytes, str] | None, limit: int) -> list[StoredReceipt]:
        """At most `limit` records of a listing by digest and counter-signer, after a pair of these."""
        key = (receipts.c.digest, receipts.c.counter_signer)
        statement = select(*_COLUMNS).where(receipts.c.listing == listing).order_by(*key).limit(limit)
        if after is not None:
            statement = statement.where(tuple_(*key) > after)
        return self._records(statement)

    def has(self, listing: str, position: tuple[bytes, str]) -> bool:
        """Whether a listing has the record with this digest and counter-signer."""
        key = (receipts.c.digest == position[0], receipts.c.counter_signer == position[1])
        return self._first(select(receipts.c.digest).where(receipts.c.listing == listing, *key)) is not None

    def ratings(self, listings: Iterable[str]) -> dict[str, StoredRating]:
        """The ratings of these listings; those never rated are left out."""
        matches = (row for batch in batches(set(listings)) for row in self._rows(_ratings_of(), listings=batch))
        return {row["listing"]: StoredRating(*(row[name] for name in StoredRating._fields)) for row in matches}

    def due(self, older_than: int, limit: int) -> list[tuple[str, int]]:
        """At most `limit` listings to rate, as (listing, number of submissions until now): listings with new receipts,
        and listings rated before a time, the oldest rating first."""
        columns, order = (ratings.c.listing, ratings.c.submitted, ratings.c.as_of), (ratings.c.as_of, ratings.c.listing)
        first = (
            select(*columns).where(is_due).order_by(*order).limit(limit).subquery()
            for is_due in (_IS_NEW, _HAS_SCORE & (ratings.c.as_of < older_than))
        )
        due = union(*map(select, first)).subquery()
        statement = select(due.c.listing, due.c.submitted).order_by(due.c.as_of, due.c.listing).limit(limit)
        with self._engine.connect() as connection:
            return [(listing, submitted) for listing, submitted in connection.execute(statement)]

    def payment_blocks(self, chain: str, above: int) -> list[BlockPayment]:
        """The blocks of a chain above a height that receipts or complaints name, lowest first."""
        named = (
            select(table.c.pay_height, table.c.pay_root, table.c.is_proved)
            .where(table.c.chain == chain, table.c.pay_height > above)
            .distinct()
            for table in (receipts, complaints)
        )
        with self._engine.connect() as connection:
            return sorted(BlockPayment(*row) for row in connection.execute(union(*named)))

    def _records(self, statement: Select[Any]) -> list[StoredReceipt]:
        return [StoredReceipt(**row) for row in self._rows(statement)]


def paid_receipts(listing: str) -> Select[Any]:
    """The receipts (digest, payment, outcome) of a listing that are paid for, the largest payment first, of equal ones
    the first accepted: by their index, however many records they have."""
    columns = (receipts.c.digest, receipts.c.payment, receipts.c.outcome)
    order = (receipts.c.paid.desc(), receipts.c.received_at, receipts.c.digest)
    paid = select(*columns).where(receipts.c.listing == listing, *_is_paid(receipts))
    return paid.order_by(*order).limit(MAX_READ * MAX_FORMS)


def signed_receipts(listing: str) -> Select[Any]:
    """The unpaid receipts (digest, first counter-signer) of a listing that another key signed, the newest first: by
    their index."""
    rival = receipts.alias()
    earlier = tuple_(rival.c.received_at, rival.c.counter_signer) < tuple_(
        receipts.c.received_at, receipts.c.counter_signer
    )
    stronger = or_(and_(*_is_paid(rival)), and_(*_is_signed(rival), earlier))
    better = select(rival.c.digest).where(rival.c.digest == receipts.c.digest, stronger)
    order = (receipts.c.received_at.desc(), receipts.c.digest.desc())
    signed = select(receipts.c.digest, receipts.c.counter_signer).where(receipts.c.listing == listing)
    return signed.where(*_is_signed(receipts), ~better.exists()).order_by(*order).limit(MAX_READ)


def _is_paid(table: FromClause) -> tuple[Any, ...]:
    """`ReceiptRecord.is_paid`."""
    return table.c.is_proved, table.c.payer != "", table.c.paid >= table.c.price, table.c.paid > 0


def _is_signed(table: FromClause) -> tuple[Any, ...]:
    """`ReceiptRecord.is_counter_signed`."""
    return table.c.counter_signer != "", table.c.counter_signer != table.c.worker


def _streamed(connection: Connection, statement: Select[Any]) -> Iterator[tuple[Any, ...]]:
    """Rows as they are needed: a window may need few."""
    return (tuple(row) for row in connection.execution_options(yield_per=1_000).execute(statement))


@cache
def _ratings_of() -> Select[Any]:
    """The ratings of the bound `listings`. Cached: composing the statement takes as long as the answer."""
    columns = [ratings.c[name] for name in StoredRating._fields]
    listings: BindParameter[Any] = bindparam("listings", expanding=True)
    return select(ratings.c.listing, *columns).where(ratings.c.as_of > 0, ratings.c.listing.in_(listings))


MAX_KEYS = 64
"""Keys of a listing that count."""


def record_rating(writer: Writer, listing: str, submitted: int, rating: StoredRating, rated_at: int) -> bool:
    """Store the rating of a listing up to the number `submitted`. Where its score reaches, or falls below, the score
    `rated_at`, mark the listings that it paid to be rated again. Returns whether the visible rating changed."""
    with writer.transaction() as connection:
        was_rated, is_changed = _record_rating(connection, listing, submitted, rating, rated_at)
        if was_rated != (rating.base_score is not None and rating.base_score >= rated_at):
            touch_counterparties(connection, listing)
        return bool(outbox.announce(connection, [listing] if is_changed else [], "rated"))


def rate_again(writer: Writer, listings: Iterable[str], seq: int) -> None:
    """Mark these listings, as far as they have receipts, to be rated again; the outbox was read up to `seq`."""
    with writer.transaction() as connection:
        touch_rated(connection, listings)
        outbox.move_position(connection, seq, POSITION)


def prove_payments(writer: Writer, chain: str, blocks: Iterable[BlockPayment]) -> None:
    """Store which blocks with payments are in a chain now; the listings that are paid in them are rated again."""
    listings, workers = set[str](), set[str]()
    with writer.transaction() as connection:
        for block, table in product(blocks, (receipts, complaints)):
            there = (table.c.chain == chain, table.c.pay_height == block.height, table.c.pay_root == block.root)
            listings.update(connection.execute(select(table.c.listing).where(*there).distinct()).scalars())
            if table is receipts:
                workers.update(connection.execute(select(receipts.c.worker).where(*there).distinct()).scalars())
            connection.execute(update(table).where(*there).values(is_proved=block.is_proved))
        # once for all blocks: whoever locks several of these rows does so in one order
        touch(connection, listings)
        touch_edges(connection, [EdgePair(ANYBODY, worker) for worker in workers])


def forget_chain(connection: Connection, chain: str, ids: Collection[str]) -> None:
    """Forget the receipts and complaints of listings that are gone with a chain, and that payments in its blocks are
    proved."""
    rows = [StoredReceipt(**row) for row in rows_in(connection, select(*_COLUMNS), receipts.c.listing, ids)]
    tokens = rows_in(connection, select(key_binds.c.document), key_binds.c.listing, ids)
    complained = [*rows_in(connection, select(complaints.c.document, complaints.c.proof), complaints.c.listing, ids)]
    documents = {row.document for row in rows} | {row.proof for row in rows} | {row["document"] for row in tokens}
    documents |= {digest for row in complained for digest in row.values()}
    for table in (ratings, receipts, key_binds, complaints):
        for batch in batches(ids):
            connection.execute(delete(table).where(table.c.listing.in_(batch)))
    paid_there = update(receipts).where(receipts.c.chain == chain, receipts.c.is_proved).values(is_proved=False)
    unproved = [StoredReceipt(**row) for row in connection.execute(paid_there.returning(*_COLUMNS)).mappings()]
    complained_there = update(complaints).where(complaints.c.chain == chain, complaints.c.is_proved)
    unsettled = connection.execute(complained_there.values(is_proved=False).returning(complaints.c.listing)).scalars()
    touch(connection, {row.listing for row in unproved} | {*unsettled})
    touch_edges(connection, edge_pairs([*rows, *unproved]))
    for workers in batches({row.worker for row in rows}):
        has_receipts = select(receipts.c.worker).where(receipts.c.worker == trust_edges.c.worker).exists()
        connection.execute(delete(trust_edges).where(trust_edges.c.worker.in_(workers), ~has_receipts))
    for some in batches(documents - {None}):
        is_used = (
            select(column).where(column == signed_documents.c.sha256).exists()
            for column in (
                *(receipts.c.document, receipts.c.proof, key_binds.c.document),
                *(complaints.c.document, complaints.c.proof),
            )
        )
        unused = delete(signed_documents).where(signed_documents.c.sha256.in_(some), ~or_(*is_used))
        connection.execute(unused)


def touch(connection: Connection, listings: Iterable[str]) -> None:
    """Have listings rated again."""
    for listing in sorted(listings):
        new = {"listing": listing, "submitted": 1, **_UNRATED}
        statement = upsert(connection, ratings).values(**new)
        more = {"submitted": ratings.c.submitted + 1}
        connection.execute(statement.on_conflict_do_update(index_elements=["listing"], set_=more))


_SHOWN = ("score", "rung", "completed", "failed", "paid_tasks", "customers", "complaints", "disputed")
_UNRATED = dict.fromkeys(("rated", *_SHOWN[1:], "as_of"), 0)


@fills(ratings)
def _enlist_ratings(connection: Connection) -> None:
    """Have all listings with receipts or complaints rated."""
    unrated = {"submitted": 1, **_UNRATED}
    listings = union(*(select(table.c.listing, *map(literal, unrated.values())) for table in (receipts, complaints)))
    connection.execute(insert(ratings).from_select(["listing", *unrated], listings))


@fills(trust_edges)
def _enlist_edges(connection: Connection) -> None:
    """Have the edges of all receipts computed, for the pairs of `edge_pairs`."""
    signed = select(receipts.c.counter_signer, receipts.c.worker).where(receipts.c.counter_signer != "")
    paid = select(literal(ANYBODY), receipts.c.worker).where(receipts.c.payment != "")
    pairs = union(signed, paid).subquery()
    observer, worker = pairs.c
    columns = select(observer, worker, *map(literal, NEW_EDGE.values())).where(observer != worker)
    connection.execute(insert(trust_edges).from_select(["observer", "worker", *NEW_EDGE], columns))


def touch_rated(connection: Connection, listings: Iterable[str]) -> None:
    """Mark these listings, as far as they have receipts, to be rated again."""
    for batch in batches(listings):
        statement = update(ratings).where(ratings.c.listing.in_(batch))
        connection.execute(statement.values(submitted=ratings.c.submitted + 1))


def _record_rating(
    connection: Connection, listing: str, submitted: int, rating: StoredRating, rated_at: int
) -> tuple[bool, bool]:
    """Store a rating up to the number `submitted`. Returns whether the rating before, without E3, was `rated_at` or
    more, and whether readers see another one."""
    same = ratings.c.listing == listing
    row = connection.execute(select(ratings).where(same)).mappings().one()
    connection.execute(update(ratings).where(same).values(**rating._asdict(), rated=submitted))
    was_rated = row["base_score"] is not None and row["base_score"] >= rated_at
    return was_rated, any(row[name] != getattr(rating, name) for name in _SHOWN)


def touch_counterparties(connection: Connection, listing: str) -> None:
    """Have the listings rated again for which a key of this one counter-signed: it is a rated payer now, or was one
    until now."""
    keys = select(key_binds.c.key).where(key_binds.c.listing == listing)
    others = select(receipts.c.listing).where(receipts.c.counter_signer.in_(keys)).distinct()
    touch(connection, connection.execute(others).scalars().all())


def edge_pairs(rows: Iterable[StoredReceipt]) -> list[EdgePair]:
    """The edges of the trust graph that records support: the counter-signer's, and this registry's own."""
    signed = [EdgePair(row.counter_signer, row.worker) for row in rows if row.counter_signer]
    return signed + [EdgePair(ANYBODY, row.worker) for row in rows if row.payment]


def _add(connection: Connection, row: StoredReceipt) -> bool:
    """Insert a record, or give a stored one its payment; returns whether anything changed. Where records as strong are
    stored for a receipt, only some more are."""
    values = row_of(row)
    statement = upsert(connection, receipts).values(**values)
    if row.payment:
        paid = {name: values[name] for name in _PAYMENT}
        keys = ["digest", "counter_signer"]
        is_open = ~receipts.c.is_proved | (receipts.c.payer == "") if row.payer else ~receipts.c.is_proved
        statement = statement.on_conflict_do_update(index_elements=keys, set_=paid, where=is_open)
    else:
        statement = statement.on_conflict_do_nothing()
    if _is_superfluous(connection, row):
        return False
    return connection.execute(statement.returning(receipts.c.digest)).first() is not None


def _is_superfluous(connection: Connection, row: StoredReceipt) -> bool:
    """Whether a record is new although enough records that are at least as strong are stored for its receipt."""
    same, signer = receipts.c.digest == row.digest, receipts.c.counter_signer == row.counter_signer
    is_paid = row.is_proved and row.payer and row.paid >= max(row.price, 1)
    as_strong = _is_paid(receipts) if is_paid else _is_signed(receipts) if row.counter_signer else ()
    stored = connection.execute(select(func.count()).where(same, ~signer, *as_strong)).scalar_one()
    if stored < MAX_FORMS or _bound(connection, [row.counter_signer]):
        return False
    return connection.execute(select(receipts.c.digest).where(same, signer)).first() is None


def _bound(connection: Connection, keys: Collection[str]) -> dict[str, KeyBind]:
    return {row["key"]: KeyBind(**row) for row in rows_in(connection, select(key_binds), key_binds.c.key, keys)}
