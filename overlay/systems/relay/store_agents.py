"""The agents that registered with this relay: their keys, addresses and prices. Times are seconds since 1970."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Index,
    LargeBinary,
    String,
    Text,
    delete,
    select,
    update,
)

from indexer.store.queries import (
    Queries,
    Row,
    batches,
    count,
    full_network,
    insert_new,
    is_storable,
    row_of,
    upsert,
)
from indexer.store.schema import keys, original_table, required
from overlay.systems.relay.store_ledger import agent_account, booking, ledger_balances
from parsers.claims.motebit.settlement import RelayAgent

MAX_AGENTS, MAX_OF_CLIENT = 100_000, 1_000
"""Agents in all, and those without an account that one client (`client_networks`) registered: else one could take all
places."""

relay_agents = original_table(
    "relay_agents",
    *keys(motebit_id=String),
    *required(public_key=LargeBinary, endpoint=Text, capabilities=Text, prices=Text, name=Text, description=Text),
    *required(last_seen=BigInteger, expires_at=BigInteger),
    Index("relay_agents_by_expiry", "expires_at"),
)


relay_places = original_table("relay_places", *keys(motebit_id=String), *required(client=String),
                     Index("relay_places_by_client", "client"))  # fmt: skip
"""Which client (address) registered an agent first."""


class TooManyAgentsError(Exception):
    """The limit of registered agents is reached."""


class KeyConflictError(Exception):
    """The agent has another key than the one that this registration replaces."""


class RelayAgents(Queries):
    """The agents in a database. Every method raises StoreError when the database refuses."""

    def agent(self, motebit_id: str) -> RelayAgent | None:
        """An agent, also one with an expired registration."""
        if not is_storable(motebit_id):
            return None
        row = self._first(select(relay_agents).where(relay_agents.c.motebit_id == motebit_id))
        return _agent(row) if row else None

    def keys(self, motebit_ids: Collection[str]) -> dict[str, bytes]:
        """The public keys (32 bytes) of the registered agents, of those passed in."""
        columns = select(relay_agents.c.motebit_id, relay_agents.c.public_key)
        rows = self._rows_in(columns, relay_agents.c.motebit_id, set(filter(is_storable, motebit_ids)))
        return {row["motebit_id"]: row["public_key"] for row in rows}

    def live(self, now: int, limit: int, capability: str | None = None) -> list[RelayAgent]:
        """Agents with a current registration, optionally with a capability: first those with an account, as an account
        costs something, then those with the latest request."""
        rows = select(relay_agents).where(relay_agents.c.expires_at > now)
        if capability is not None:
            rows = rows.where(relay_agents.c.capabilities.contains(json.dumps(capability), autoescape=True))
        order = (_has_no_account(relay_agents.c.motebit_id), relay_agents.c.last_seen.desc())
        agents = map(_agent, self._rows(rows.order_by(*order).limit(limit)))
        return [agent for agent in agents if capability is None or capability in agent.capabilities]

    def put(self, agent: RelayAgent, replaced_key: bytes | None, client: str = "") -> None:
        """Store an agent, new (`replaced_key` None) and registered by a client, or in place of the one with that key.
        Raises KeyConflictError, TooManyAgentsError."""
        row = _row(agent)
        with booking(self._engine) as connection:
            same = relay_agents.c.motebit_id == agent.motebit_id
            stored = connection.execute(select(relay_agents.c.public_key).where(same)).scalar()
            if stored != replaced_key:
                raise KeyConflictError("the agent was registered with another key at the same time")
            if stored is None:
                _take_place(connection, agent, client)
            added = upsert(connection, relay_agents).values(**row)
            connection.execute(added.on_conflict_do_update(index_elements=["motebit_id"], set_=row))

    def beat(self, motebit_id: str, now: int, expires_at: int) -> None:
        """Store the time of an agent's last request."""
        with booking(self._engine) as connection:
            same = update(relay_agents).where(relay_agents.c.motebit_id == motebit_id)
            connection.execute(same.values(last_seen=now, expires_at=expires_at))

    def trim(self, before: int) -> None:
        """Delete agents without an account that expired before a time."""
        with booking(self._engine) as connection:
            _trim(connection, before)


def _take_place(connection: Connection, agent: RelayAgent, client: str) -> None:
    """Check that there is room for an agent; where all places are taken, expired agents lose theirs. Raises
    TooManyAgentsError."""
    without_account = _has_no_account(relay_places.c.motebit_id)
    full = client and full_network(connection, relay_places.c.client, client, MAX_OF_CLIENT, without_account)
    if full:
        number = MAX_OF_CLIENT * full.factor
        raise TooManyAgentsError(f"{full.title} has registered {number:,} agents that have no account")
    if count(connection, relay_agents) >= MAX_AGENTS:
        _trim(connection, agent.last_seen)
        if count(connection, relay_agents) >= MAX_AGENTS:
            raise TooManyAgentsError(f"{MAX_AGENTS:,} agents are registered: try again later")
    insert_new(connection, relay_places, [{"motebit_id": agent.motebit_id, "client": client}])


def _trim(connection: Connection, before: int) -> None:
    is_over = (relay_agents.c.expires_at < before, _has_no_account(relay_agents.c.motebit_id))
    gone = connection.execute(delete(relay_agents).where(*is_over).returning(relay_agents.c.motebit_id)).scalars().all()
    for batch in batches(gone):
        connection.execute(delete(relay_places).where(relay_places.c.motebit_id.in_(batch)))


def _has_no_account(motebit_id: Column[Any]) -> ColumnElement[bool]:
    return (agent_account("") + motebit_id).not_in(select(ledger_balances.c.account))


def _agent(row: Row) -> RelayAgent:
    parsed = {"capabilities": tuple(json.loads(row["capabilities"])), "prices": json.loads(row["prices"])}
    return RelayAgent(**dict(row) | parsed)


def _row(agent: RelayAgent) -> dict[str, Any]:
    return row_of(agent) | {"capabilities": json.dumps(agent.capabilities), "prices": json.dumps(dict(agent.prices))}
