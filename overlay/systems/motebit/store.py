"""The identities that hosts publish and the handshakes with their MCP endpoints, stored together with the next visits.
Times are milliseconds since 1970."""

from __future__ import annotations

from sqlalchemy import Connection, delete

from indexer.store import checks, observed_tools, outbox
from indexer.store.host_topics import HostTopic, Recheck, hastened, topics
from indexer.store.writer import Writer
from overlay.systems.motebit import store_endpoints, store_hosts
from overlay.systems.motebit.store_endpoints import ENDPOINT_CHECK, EndpointKey, HandshakeOutcome, motebit_endpoints
from overlay.systems.motebit.store_hosts import IDENTITY_CHECK, IdentityOutcome, motebit_hosts


def record_identity(writer: Writer, host: str, outcome: IdentityOutcome, now_ms: int) -> int:
    """Store the Motebit identity that a host publishes; return how many listings may have changed for it."""
    with writer.transaction() as connection:
        changed = store_hosts.record(connection, host, outcome, now_ms)
        store_endpoints.enlist_published(connection, host, now_ms)
        return outbox.announce(connection, changed, "motebit-checked")


def record_handshake(writer: Writer, key: EndpointKey, outcome: HandshakeOutcome, now_ms: int) -> int:
    """Store the outcome of a handshake with an MCP endpoint, and its tools; return how many listings may have changed
    for the outcome."""
    with writer.transaction() as connection:
        if outcome.tools is not None:
            observed_tools.record_tools(connection, key.endpoint, outcome.tools, now_ms)
        changed = store_endpoints.record(connection, key, outcome, now_ms)
        return outbox.announce(connection, changed, "motebit-checked")


def _recheck(connection: Connection, host: str, card: bytes, next_at: int) -> list[Recheck]:
    """Have the identity of a host, the MCP endpoints of agents there and that of a card checked."""
    if not store_endpoints.enlist_published(connection, host, next_at):
        store_endpoints.enlist_stated(connection, host, card, next_at)
    names = store_endpoints.names_at(connection, host)
    return [
        *hastened(connection, "identity", IDENTITY_CHECK, [host], next_at),
        *hastened(
            connection, "endpoint", ENDPOINT_CHECK, names, next_at, lambda name: EndpointKey.parse(name).endpoint
        ),
    ]


def _forget(connection: Connection, host: str) -> None:
    checks.forget(connection, ENDPOINT_CHECK, store_endpoints.names_at(connection, host))
    checks.forget(connection, IDENTITY_CHECK, [host])
    for table in (motebit_endpoints, motebit_hosts):
        connection.execute(delete(table).where(table.c.host == host))


topics.append(HostTopic(enlist=store_hosts.enlist, recheck=_recheck, forget=_forget))
