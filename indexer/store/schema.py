"""The tables. Facts depend on blocks: deleting a block deletes its events, and the current state is the newest
remaining event.

Hashes are 32 raw bytes in internal byte order. `place` orders the events of a chain: height and position in one
integer, so the newest event of a registration has the greatest `place`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    literal_column,
)
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from indexer.store.queries import texts_of

IMPORTING = "importing"
"""Key in `meta` while a snapshot is imported: the database is incomplete and refused."""

POSITION_BITS = 26
"""A block holds at most 2**26 events: a 4 GB block has room for fewer than 2**25 registrations of the smallest size."""

metadata = MetaData()
"""Every table of the program, from any module: SQLAlchemy refuses a second one of a name."""

_Type = TypeEngine[Any] | type[TypeEngine[Any]]

_Fill = Callable[[Connection], None]
_Judge = Callable[[Connection], list[str]]
_Function = TypeVar("_Function", bound=Callable[..., Any])

_TEXT = Text().with_variant(Text(collation="C"), "postgresql")
"""Text compared byte by byte, as SQLite does by default: ids are sorted as bytes (law 18)."""

BYTEWISE = _TEXT

CHAIN, PROGRAM, PARTIAL, UNPROVED, READ_BY, READ_TWICE = (
    "chain:", "program:", "partial:", "unproved:", "rules:", "read-twice:",
)  # fmt: skip
"""Prefixes of the name of a chain, keys in `meta`: its CAIP-2 id; the program that owns its accounts; only selected
transactions of its blocks were read; some headers were accepted without their proof of work; the number of the rules by
which its first block was read; the height up to which its blocks were read a second time."""


def keys(**types: _Type) -> list[Column[Any]]:
    """Columns of the primary key, by their types."""
    return [Column(name, kind, primary_key=True, autoincrement=False) for name, kind in types.items()]


def required(**types: _Type) -> list[Column[Any]]:
    """Columns that are never null."""
    return [Column(name, kind, nullable=False) for name, kind in types.items()]


def optional(**types: _Type) -> list[Column[Any]]:
    """Columns that may be null."""
    return [Column(name, kind) for name, kind in types.items()]


_COLUMN_TYPES: dict[type, _Type] = {str: Text, int: BigInteger, bool: Boolean, bytes: LargeBinary}


def columns_of(record: type, key: Collection[str], **types: _Type) -> list[Column[Any]]:
    """A column for each member of a record (a dataclass or NamedTuple): its members by name are a row. A column is
    nullable where the member may be None, and has the type of its annotation unless `types` names another."""
    columns = []
    for name, hint in get_type_hints(record).items():
        (member,) = {*(get_args(hint) or (hint,))} - {NoneType}
        kind = types.get(name) or (texts_of(member) if issubclass(member, StrEnum) else _COLUMN_TYPES[member])
        is_key, is_optional = name in key, NoneType in get_args(hint)
        columns.append(Column(name, kind, primary_key=is_key, autoincrement=False, nullable=is_optional))
    return columns


def rebuilt_table(name: str, *parts: SchemaItem, **options: Any) -> Table:
    """A table that can be rebuilt: from chains, hosts or other tables."""
    return Table(name, metadata, *parts, info={"rebuilt": True}, **options)


def original_table(name: str, *parts: SchemaItem, restored: Mapping[str, Any] | None = None, **options: Any) -> Table:
    """A table with rows from clients or the operator, or with times of first sight: only a backup restores them, so no
    migration or import may lose any. `restored` are the values of columns after a restore into another database: those
    that refer to rebuilt tables."""
    return Table(name, metadata, *parts, info={"rebuilt": False, "restored": dict(restored or {})}, **options)


def fills(table: Table) -> Callable[[_Fill], _Fill]:
    """Decorates the function that fills a rebuilt table from original ones, where a restore or an import left it
    empty."""
    return _stored_with(table, "fill")


def judges(table: Table) -> Callable[[_Judge], _Judge]:
    """Decorates the function that names what is wrong with the restored rows of a table, and of others that belong to
    it."""
    return _stored_with(table, "judge")


def _stored_with(table: Table, name: str) -> Callable[[_Function], _Function]:
    def add(function: _Function) -> _Function:
        table.info[name] = function
        return function

    return add


def restored_faults(connection: Connection) -> list[str]:
    """The faults of restored rows, a sentence for each table with some."""
    judged = [table for table in metadata.sorted_tables if "judge" in table.info]
    faults = {table.name: table.info["judge"](connection) for table in judged}
    return [f"{name}: {', '.join(texts[:3])}" for name, texts in faults.items() if texts]


def fill_rebuilt(connection: Connection) -> None:
    """Fill the tables that are rebuilt from original ones, and are empty."""
    for table in metadata.sorted_tables:
        if "fill" in table.info:
            table.info["fill"](connection)


meta = original_table("meta", *keys(key=String), *required(value=Text))

HASH_KEY = "hash-key"
"""Key in `meta` of the key of hashes that strangers must not be able to compute: 32 random bytes in hexadecimal."""

LAST_BACKUP = "last-backup"
"""Key in `meta` of the time and size of the last backup."""


def new_hash_key() -> dict[str, str]:
    """The row of `meta` with a new one."""
    return {"key": HASH_KEY, "value": secrets.token_hex(32)}


blocks = rebuilt_table(
    "blocks",
    *keys(chain=_TEXT, height=Integer),
    *required(hash=LargeBinary, prev=LargeBinary, time=BigInteger, header=LargeBinary, source=Integer),
    Index("blocks_by_hash", "hash"),
)


def _event_columns() -> list[Column[Any]]:
    return [
        *keys(chain=_TEXT, place=BigInteger),
        *required(height=Integer, kind=String, tx_index=Integer, txid=LargeBinary),
        *optional(vout=BigInteger, spent_txid=LargeBinary, spent_vout=BigInteger, card=LargeBinary),
        *required(valid=Boolean),
        *optional(reasons=Text, owner=_TEXT, signer=Text, pointer=Text, anchor=_TEXT, anchor_digest=LargeBinary),
        # the registration's state after the event; all null where the event is about none
        *optional(registration=_TEXT, type=String, status=String, at_txid=LargeBinary, at_vout=BigInteger),
        *optional(at_offset=BigInteger, at_satoshis=BigInteger, holder=_TEXT, map=Text, map_base=BigInteger),
        *optional(winner_card=LargeBinary, winner_txid=LargeBinary, winner_vout=BigInteger),
        *optional(updated_height=Integer, created_height=Integer),
    ]


events = rebuilt_table(
    "events",
    *_event_columns(),
    ForeignKeyConstraint(["chain", "height"], ["blocks.chain", "blocks.height"], ondelete="CASCADE"),
    Index("events_by_block", "chain", "height"),
    Index("events_by_registration", "registration", "chain", "place"),
    Index("events_by_output", "txid", "vout", "place"),
)

block_logs = rebuilt_table(
    "block_logs",
    *keys(chain=_TEXT, height=Integer),
    *required(total=Integer, digest=LargeBinary),
    ForeignKeyConstraint(["chain", "height"], ["blocks.chain", "blocks.height"], ondelete="CASCADE"),
)
"""The logs that were read of stored blocks of a chain of logs (`BlockLogs`), until these blocks were read twice."""


_partial_indexes: list[tuple[Index, ColumnElement[bool]]] = []


def prepare_for_postgresql() -> None:
    """Give partial indexes their conditions on PostgreSQL, whose dialect takes a sixth of the start of a command on
    SQLite to load."""
    for index, where in _partial_indexes:
        index.dialect_kwargs["postgresql_where"] = where


def partial_index(name: str, where: ColumnElement[bool], *columns: Column[Any]) -> None:
    """An index of the rows for which a condition holds."""
    _partial_indexes.append((Index(name, *columns, sqlite_where=where), where))


partial_index("events_at_outpoint", events.c.at_txid.is_not(None), events.c.at_txid, events.c.at_vout)
partial_index(
    "events_by_anchor",
    events.c.anchor.is_not(None),
    events.c.anchor,
    events.c.anchor_digest,
    events.c.chain,
    events.c.place,
)
partial_index("events_by_card", events.c.card.is_not(None), events.c.card)
partial_index("events_loose", events.c.registration.is_(None), events.c.chain, events.c.kind, events.c.place)
partial_index("events_undecided", events.c.kind == "undecided", events.c.chain, events.c.place)

IS_NOT_LIVE = events.c.status != literal_column("'live'")
"""The condition that a registration is burned or undecided after an event. A literal: with a bound value the index
below may be unused."""
partial_index("events_not_live", IS_NOT_LIVE, events.c.chain, events.c.place)

cards = original_table("cards", *keys(sha256=LargeBinary), *required(body=LargeBinary))
"""Card bytes by their SHA-256; content-addressed, so never rolled back."""

outputs = rebuilt_table("outputs", *keys(txid=LargeBinary, vout=BigInteger), *required(satoshis=BigInteger))
"""Values of outputs that had to be looked up to follow a satoshi; named by a hash, so never rolled back."""

parents = rebuilt_table("parents", *keys(txid=LargeBinary), *required(raw=LargeBinary))
"""Raw transactions with these outputs, by which others can check their values; named by a hash, so never rolled back.
Empty where a source gives values only."""

changes = rebuilt_table(
    "changes",
    *keys(seq=BigInteger),
    *required(chain=_TEXT, op=String, id=_TEXT),
    *optional(height=Integer),
    *required(reason=String),
    Index("changes_by_chain", "chain", "seq"),
)
"""The outbox: the ids that readers must look at again. Append-only, never rolled back."""

outbox_runs = rebuilt_table("outbox_runs", *keys(first_seq=BigInteger), *required(mark=String))
"""The runs of the writer: a random mark, and the first sequence number that is its. Numbers before the first run belong
to the epoch in `meta`. A copy of the database that was put back lacks the marks of later runs."""

outbox_positions = rebuilt_table("outbox_positions", *keys(name=String), *required(epoch=String, seq=BigInteger))

pending = rebuilt_table(
    "pending",
    *_event_columns(),
    Index("pending_by_registration", "registration"),
    Index("pending_by_tx", "txid"),
)
"""The unconfirmed events of each chain, in the order of `place`; `height` and the height in `place` are 2^31 - 1."""

pending_cards = rebuilt_table("pending_cards", *keys(chain=_TEXT, sha256=LargeBinary), *required(body=LargeBinary))
"""Card bytes that only unconfirmed events name, in a separate table to be deleted with these."""

state_hashes = rebuilt_table(
    "state_hashes",
    *keys(chain=_TEXT, height=Integer),
    *required(hash=LargeBinary, pointers=BigInteger, pointers_hash=LargeBinary),
    ForeignKeyConstraint(["chain", "height"], ["blocks.chain", "blocks.height"], ondelete="CASCADE"),
)
"""State hashes (law 18) after some blocks, that were a tip for a while, with the number of valid pointers up to there
and the hash over them."""

state_lines = rebuilt_table(
    "state_lines",
    *keys(chain=_TEXT, id=_TEXT),
    *required(line=Text),
    sqlite_with_rowid=False,
)
"""The line of each registration in the newest state hash of its chain; a projection of the outbox, with the outbox
position `state:CHAIN`."""

topic_anchors = rebuilt_table(
    "topic_anchors",
    *keys(chain=_TEXT, height=Integer),
    *required(root=LargeBinary, admitted=Integer, tac=LargeBinary),
    ForeignKeyConstraint(["chain", "height"], ["blocks.chain", "blocks.height"], ondelete="CASCADE"),
    sqlite_with_rowid=False,
)
"""Anchors of the topic (BRC-136): of blocks with admitted transactions, and of one height in `topic_anchors.EVERY`;
those between follow from these and the hashes of the blocks."""

proofs = rebuilt_table(
    "proofs",
    *keys(chain=_TEXT, height=Integer, txid=LargeBinary),
    *required(raw=LargeBinary, bump=LargeBinary),
    ForeignKeyConstraint(["chain", "height"], ["blocks.chain", "blocks.height"], ondelete="CASCADE"),
    Index("proofs_by_tx", "txid"),
)
"""Raw transactions with events, and their merkle paths (BRC-74) in the block they hang from."""

coinbases = rebuilt_table(
    "coinbases",
    *keys(chain=_TEXT, height=Integer),
    *required(raw=LargeBinary, reserved=LargeBinary, bump=LargeBinary),
    ForeignKeyConstraint(["chain", "height"], ["blocks.chain", "blocks.height"], ondelete="CASCADE"),
)
"""Coinbases, without their witness, of blocks with envelopes in witnesses: they commit to these (BIP 141)."""

witness_paths = rebuilt_table(
    "witness_paths",
    *keys(chain=_TEXT, height=Integer, txid=LargeBinary),
    *required(bump=LargeBinary),
    ForeignKeyConstraint(
        ["chain", "height", "txid"], ["proofs.chain", "proofs.height", "proofs.txid"], ondelete="CASCADE"
    ),
)
"""Merkle paths (BRC-74) of the wtxids of proved transactions, up to the root that the block's coinbase commits to."""

headers = rebuilt_table("headers", *keys(chain=_TEXT, first=Integer), *required(raw=LargeBinary))
"""Headers of 80 bytes of the best chain of each source, joined, from height `first` on."""

submissions = original_table(
    "submissions",
    *keys(chain=_TEXT, txid=LargeBinary),
    *required(raw=LargeBinary, height=Integer),
    *optional(steak=Text, beef=LargeBinary),
    *required(sent=Boolean),
    Index("submissions_by_height", "chain", "height"),
)
"""Transactions that clients submitted with a verified BEEF, and their ancestors that were in no indexed block; `height`
is that of the newest block at the time. `steak` is the answer (JSON) and `beef` the proof, both null for an ancestor.
`sent`: the chain's source accepted it. They count as unconfirmed until a block has them."""

submission_inputs = original_table(
    "submission_inputs",
    *keys(chain=_TEXT, spent_txid=LargeBinary, spent_vout=BigInteger),
    *required(txid=LargeBinary),
    ForeignKeyConstraint(["chain", "txid"], ["submissions.chain", "submissions.txid"], ondelete="CASCADE"),
    Index("submission_inputs_by_tx", "chain", "txid"),
)
"""The outpoints that submitted transactions spend, each by one transaction."""

submission_shares = original_table(
    "submission_shares",
    *keys(chain=_TEXT, txid=LargeBinary),
    *required(owner=LargeBinary, client=_TEXT, number=BigInteger, listings=Integer, size=BigInteger, settled=Boolean),
    ForeignKeyConstraint(["chain", "txid"], ["submissions.chain", "submissions.txid"], ondelete="CASCADE"),
    Index("submission_shares_by_owner", "chain", "owner"),
    Index("submission_shares_by_client", "chain", "client"),
)
"""The accounts to which submitted transactions are charged: the SHA-256 of the script of the first proved coin that
their submission spends, and the submitter. `number` is their order of arrival, `listings` how many listings a
transaction makes or changes, `size` its bytes with those of its proof; `settled`: a source has it, or had it.
Transactions that were settled in version 0.2 have no row."""

extra_transactions = rebuilt_table(
    "extra_transactions",
    *keys(chain=_TEXT, txid=LargeBinary),
    *required(height=Integer, raw=LargeBinary, bump=LargeBinary),
)
"""Transactions that a source of selected transactions did not deliver, found by checks of live outpoints. They belong
to no block, so a block that is read again has them."""

unproved_transactions = rebuilt_table("unproved_transactions", *keys(chain=_TEXT, txid=LargeBinary))
"""Txids that a source of selected transactions delivered and could not prove yet. They hang from no block."""

spend_checks = rebuilt_table(
    "spend_checks",
    *keys(chain=_TEXT, txid=LargeBinary, vout=BigInteger),
    *required(tried_at=BigInteger),
    *optional(checked_at=BigInteger, announced_at=BigInteger),
)
"""When an outpoint was last checked at a source of selected transactions, when it was last unspent there, and which of
these times the outbox has announced; all in seconds since 1970."""

checks = original_table(
    "checks",
    *keys(kind=String, name=_TEXT),
    *required(target=_TEXT, tries=Integer, checked_at=BigInteger, reason=String),
    *optional(next_at=BigInteger),
    Index("checks_due", "next_at", "kind", "target"),
    Index("checks_by_target", "kind", "target", "next_at"),
)
"""The periodic checks at `target`, a host or a URL: see `indexer.store.checks`. Times are milliseconds since 1970;
`next_at` is null where nothing is due."""

sightings = original_table(
    "sightings",
    *keys(chain=_TEXT, txid=LargeBinary, vout=BigInteger),
    *required(locator=_TEXT, digest=LargeBinary, seen_at=BigInteger),
    Index("sightings_by_locator", "locator", "seen_at"),
    Index("sightings_by_digest", "locator", "digest"),
)
"""When each valid pointer was first seen, in milliseconds since 1970: written with its event, and never rolled back.
`locator` is the one that is fetched for it: its id (law 10), or its URI's where the id is not an address; `digest` the
SHA-256 that it names, empty for none. A place that later holds another pointer, as an account may, gets a new time."""

fetches = original_table(
    "fetches",
    *keys(locator=_TEXT, sha256=LargeBinary),
    *required(url=Text, by_cid=Boolean, first_at=BigInteger, last_at=BigInteger),
    Index("fetches_by_sha256", "sha256"),
)
"""Facts (law 9): a locator served bytes with this SHA-256, in fetches that began between `first_at` and `last_at`
(milliseconds since 1970), the last of them at `url`. `by_cid`: the CID of an `ipfs://` locator names these bytes. The
bytes themselves are in `cards`: all that anchors name, else the latest. At most 16 facts a locator are stored: those
that an anchor names, then the latest."""

locators = original_table(
    "locators",
    *keys(locator=_TEXT),
    *required(state=String, reason=String, detail=Text, tries=Integer, added_at=BigInteger),
    *optional(last_at=BigInteger, next_at=BigInteger, serving=LargeBinary, serving_since=BigInteger),
    *required(validators=Text),
    Index("locators_due", "next_at"),
)
"""The outcome of fetching a locator; times in milliseconds since 1970. `state` is new, met, unhashed, mismatch, failed
or given-up; `reason` a reason code of fetching, "" for none. `next_at` is null where no fetch is due; `serving` is the
SHA-256 of the bytes served last, unchanged since `serving_since`; `validators` is JSON by URL."""

servings = original_table("servings", *keys(locator=_TEXT, since=BigInteger), *required(sha256=LargeBinary))
"""The bytes that a locator served in turn: bytes with this SHA-256 in fetches begun from `since` (milliseconds since
1970) until the next row. The newest 64 of a locator are stored: drifts are read from them (law 10)."""

badges = rebuilt_table(
    "badges",
    *keys(registration=_TEXT),
    *required(host=_TEXT, card=LargeBinary, by=String, verified_at=BigInteger),
    Index("badges_by_host", "host", "card"),
)
"""Domain badges of inscribed agents (law 11): the answer of the host of the card with this SHA-256. `by` is name, dns,
hash or "" for no badge, `verified_at` when it was confirmed last (milliseconds since 1970; 0 for never)."""

card_signatures = rebuilt_table(
    "card_signatures",
    *keys(card=LargeBinary),
    *required(url=_TEXT, by=_TEXT, kid=Text, form=String, covers_pricing=Boolean, reason=String),
    *required(verified_at=BigInteger),
    Index("card_signatures_by_url", "url"),
)
"""Cards with signatures, by their SHA-256: the key set at `url` that is fetched to check them, and the host `by` that
published the key `kid` which verified one ("" without one), over the canonical `form`, at `verified_at` (milliseconds
since 1970, 0 for never). `reason` is a code of checking or of fetching where none verified."""

logos = rebuilt_table(
    "logos",
    *keys(url_sha256=LargeBinary),
    *required(url=Text, state=String, wanted_at=BigInteger, noted_at=BigInteger),
    *optional(sha256=LargeBinary, body=LargeBinary),
    Index("logos_by_sha256", "sha256"),
    Index("logos_by_state", "state", "noted_at"),
    Index("logos_by_want", "wanted_at"),
)
"""Logos that clients requested: the thumbnail of each (WebP, with its SHA-256), if there is one. `state` is wanted,
here or failed; times in milliseconds since 1970, `noted_at` when the thumbnail was stored."""

quotes = original_table(
    "quotes",
    *keys(feed=_TEXT, since=BigInteger),
    *required(quoted_at=BigInteger, until=BigInteger, rank=Integer, base=_TEXT, source=Text, rates=Text),
)
"""Exchange rates that were accepted: the quotes of a feed, unchanged from `since` until `quoted_at`, and used until
`until` at most (seconds since 1970). `rates` is JSON: units of each currency for one `base`, as decimal strings. `rank`
is the feed's position in the operator's order, 0 for the preferred one; `source` the part of its URL that may be
shown."""

rate_feeds = original_table(
    "rate_feeds", *keys(feed=_TEXT), *required(answered_at=BigInteger, voting=Text, refused=Text)
)
"""The state of each feed of rates: when it last answered (seconds since 1970), the currencies in which it has a vote (a
JSON list), and a reason code for each currency whose last rate was refused (a JSON object)."""
