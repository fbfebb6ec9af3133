"""The stored traces of DelegateOS capability tokens: units that were spent, revocations, and delegations.

The tables are their own, in the registry's database or any other. Several threads and processes may use them at once.
Times are seconds since 1970.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Index,
    String,
    Text,
    case,
    func,
    insert,
    select,
    update,
)

from indexer.store.database import writing
from indexer.store.locks import advisory_lock
from indexer.store.nonces import CLOCK_SECONDS, DatabaseClock, database_time, use_nonce
from indexer.store.queries import Queries, count, insert_new, row_of, trim_expired, upsert
from indexer.store.schema import columns_of, keys, original_table, required

DELEGATIONS_LOCK = advisory_lock("t")
"""While revocations or delegations are counted and one is added."""

MAX_STRANGERS, MAX_PROVEN = 10_000, 100_000
"""Limits of stored revocations: by signers without proof that they signed the revoked block, and by others. Those of
trusted issuers are always stored. The limits exist because the holder of a token can sign and revoke any number of
blocks below it."""

MAX_DELEGATIONS = 20_000
"""Delegations stored. They are deleted a week after their token has expired."""

DELEGATION_SECONDS = 7 * 86_400

token_spend = original_table(
    "token_spend",
    *keys(revocation_id=String),
    *required(spent=BigInteger, expires_at=BigInteger),
    Index("token_spend_by_expiry", "expires_at"),
)

dct_revocations = original_table(
    "dct_revocations",
    *keys(revocation_id=String, signer=String, scope=String),
    Column("seq", BigInteger, nullable=False, unique=True),
    *required(is_proven=Boolean, entry=Text),
)


class BlockBudget(NamedTuple):
    """The units that a block of a token allows in all, by the block's revocation id, until it expires."""

    revocation_id: str
    limit: int
    expires_at: int


class NonceUse(NamedTuple):
    """A nonce that a request uses up."""

    scope: str
    nonce: str
    expires_at: int


class SpentBudgetError(Exception):
    """A block's units are spent."""

    def __init__(self, budget: BlockBudget) -> None:
        super().__init__(f"{budget.limit:,} units of the block {budget.revocation_id} are spent")
        self.budget = budget


class UsedNonceError(Exception):
    """The nonce was used before."""


class RecordsFullError(Exception):
    """The limit of rows of this kind is reached; the message names the alternative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDelegation:
    """A row of `dct_delegations`: the revocation id of its block, ids, principals, depth, token and contract (JSON);
    `status` is active, completed or failed, with the `attestation` (JSON) that ended it."""

    block: str
    id: str
    parent_id: str
    delegator: str
    delegatee: str
    depth: int
    dct: str
    contract: str
    expires_at: int
    status: str = "active"
    attestation: str = ""


dct_delegations = original_table(
    "dct_delegations",
    *columns_of(StoredDelegation, {"block"}),
    Index("dct_delegations_by_id", "id", "delegatee"),
    Index("dct_delegations_by_expiry", "expires_at"),
)


class DelegationRecords(Queries):
    """The tables in a database, and the clock that ends budgets and nonces. Every method raises StoreError when the
    database refuses."""

    def __init__(self, engine: Engine, clock: DatabaseClock = database_time) -> None:
        super().__init__(engine)
        self._clock = clock

    # -- budgets

    def charge(self, budgets: Sequence[BlockBudget], nonce: NonceUse | None) -> None:
        """Charge a unit to every block of a token, and use up the nonce: all or nothing. What ended long ago by the
        clock of the database counts as spent, as it may be deleted. Raises SpentBudgetError, UsedNonceError."""
        with writing(self._engine) as connection:
            before = self._clock(connection) - CLOCK_SECONDS
            if nonce is not None and not use_nonce(connection, nonce.scope, nonce.nonce, nonce.expires_at, before):
                raise UsedNonceError
            for budget in budgets:  # from the root, so that two tokens lock what they share in one order
                if budget.expires_at < before or not _charge_block(connection, budget):
                    raise SpentBudgetError(budget)
            trim_expired(connection, token_spend, before)

    def spent(self, revocation_id: str) -> int:
        """The units charged to a block."""
        return int(self._scalar(select(token_spend.c.spent).where(token_spend.c.revocation_id == revocation_id)) or 0)

    # -- revocations

    def revoke(self, entry: Mapping[str, str], *, is_proven: bool, is_trusted: bool = False) -> None:
        """Store a revocation with a verified signature; repeating it changes nothing. `is_proven`: its signer is known
        to have signed the revoked block; `is_trusted`: its signer is a trusted issuer. Raises RecordsFullError."""
        row = {"revocation_id": entry["revocationId"], "signer": entry["revokedBy"], "scope": entry["scope"]}
        same = [dct_revocations.c[name] == value for name, value in row.items()]
        with writing(self._engine, DELEGATIONS_LOCK) as connection:
            stored = connection.execute(select(dct_revocations.c.is_proven).where(*same)).scalar()
            if stored is None:
                if not is_trusted:
                    _check_revocation_room(connection, is_proven=is_proven)
                seq = (connection.execute(select(func.max(dct_revocations.c.seq))).scalar() or 0) + 1
                text = json.dumps(dict(entry), separators=(",", ":"))
                connection.execute(insert(dct_revocations).values(**row, seq=seq, is_proven=is_proven, entry=text))
            elif is_proven and not stored:
                connection.execute(update(dct_revocations).where(*same).values(is_proven=True))

    def revocations_of(self, revocation_ids: Collection[str], signers: Collection[str]) -> list[Any]:
        """The revocations of these blocks by these signers."""
        named = dct_revocations.c.revocation_id.in_(revocation_ids), dct_revocations.c.signer.in_(signers)
        return list(map(json.loads, self._scalars(select(dct_revocations.c.entry).where(*named))))

    def revocations(self, after: int, limit: int) -> list[tuple[int, Any]]:
        """At most `limit` revocations with their numbers, in the order in which they were stored, after a number."""
        columns = select(dct_revocations.c.seq, dct_revocations.c.entry).where(dct_revocations.c.seq > after)
        rows = self._rows(columns.order_by(dct_revocations.c.seq).limit(limit))
        return [(row["seq"], json.loads(row["entry"])) for row in rows]

    # -- delegations

    def add_delegation(self, delegation: StoredDelegation, now: int) -> str:
        """Store a delegation, and return its status. A delegation of the same block is not replaced. Raises
        RecordsFullError."""
        with writing(self._engine, DELEGATIONS_LOCK) as connection:
            trim_expired(connection, dct_delegations, now - DELEGATION_SECONDS)
            number = count(connection, dct_delegations)
            if number >= MAX_DELEGATIONS:
                raise RecordsFullError(f"{number:,} delegations are stored; try again when some of them have expired")
            insert_new(connection, dct_delegations, [row_of(delegation)])
            same = dct_delegations.c.block == delegation.block
            return str(connection.execute(select(dct_delegations.c.status).where(same)).scalar_one())

    def delegations(self, id_: str, delegatee: str) -> list[StoredDelegation]:
        """The delegations with an id to a principal: usually one, as ids are the clients' own."""
        same = dct_delegations.c.id == id_, dct_delegations.c.delegatee == delegatee
        rows = self._rows(select(dct_delegations).where(*same).order_by(dct_delegations.c.block).limit(8))
        return [StoredDelegation(**row) for row in rows]

    def finish(self, block: str, status: str, attestation: str) -> bool:
        """Store how an active delegation ended; False where it is not active any more."""
        active = dct_delegations.c.block == block, dct_delegations.c.status == "active"
        with writing(self._engine) as connection:
            ended = update(dct_delegations).where(*active).values(status=status, attestation=attestation)
            return connection.execute(ended).rowcount == 1


def _charge_block(connection: Connection, budget: BlockBudget) -> bool:
    """Charge a unit to a block in one statement; False where its limit is reached."""
    if budget.limit < 1:
        return False
    new = {"revocation_id": budget.revocation_id, "spent": 1, "expires_at": budget.expires_at}
    stored = token_spend.c.expires_at
    later = case((stored < budget.expires_at, budget.expires_at), else_=stored)
    charged = (
        upsert(connection, token_spend)
        .values(**new)
        .on_conflict_do_update(
            index_elements=["revocation_id"],
            set_={"spent": token_spend.c.spent + 1, "expires_at": later},
            where=token_spend.c.spent < budget.limit,
        )
    )
    return connection.execute(charged.returning(token_spend.c.spent)).first() is not None


def _check_revocation_room(connection: Connection, *, is_proven: bool) -> None:
    number = count(connection, dct_revocations, dct_revocations.c.is_proven.is_(is_proven))
    if number >= (MAX_PROVEN if is_proven else MAX_STRANGERS):
        raise RecordsFullError(f"{number:,} revocations are stored" + ("" if is_proven else ": send the token, too"))
