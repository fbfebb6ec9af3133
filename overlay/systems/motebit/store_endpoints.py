"""MCP endpoints of agents with a Motebit identity, and the outcome of the handshake with each. Times are milliseconds
since 1970.

The manifest of the first handshake is pinned (`PinnedManifest`), and every failure is refused. The functions that write
work inside a transaction.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Connection, String, Text, select, update

from indexer.check_verdict import CheckedState, CheckVerdict
from indexer.store import checks
from indexer.store.checks import check_kind
from indexer.store.pinned_manifest import PinnedManifest
from indexer.store.queries import Queries, count, insert_new
from indexer.store.schema import BYTEWISE, cards, keys, original_table, required
from overlay.systems.motebit.store_hosts import ids_of, motebit_hosts
from parsers.cards import AgentCard, Kind, examine
from parsers.claims.tool_manifest import ManifestChanges, ToolManifest
from parsers.pointers.locator import url_host

ENDPOINT_CHECK = check_kind("mcp")
"""The check of an MCP endpoint and the key that it must name."""

PER_HOST = 64
"""The number of endpoints of a host that the cards of its agents name; its identity file may name as many more."""

motebit_endpoints = original_table(
    "motebit_endpoints",
    *keys(host=BYTEWISE, endpoint=BYTEWISE, public_key=String),
    *required(manifest_sha256=String, tools=Text, state=String, reason=String, changes=Text),
    *required(verified_at=BigInteger, checked_at=BigInteger),
)
"""MCP endpoints of agents at a host, the key that each has to name, and the manifest of tools that is pinned ("" for
none; `tools` is JSON, digests by name): `state` is unchecked, verified or refused, `reason` a code of why, `changes` is
the difference to the pinned manifest as JSON. Times are milliseconds since 1970."""


class EndpointKey(NamedTuple):
    """The host of a listing, the URL of its MCP endpoint, and the public key (hex) that it must name."""

    host: str
    endpoint: str
    public_key: str

    def __str__(self) -> str:
        return f"{self.endpoint}#{self.public_key}@{self.host}"

    @classmethod
    def parse(cls, name: str) -> EndpointKey:
        """The inverse of `str`."""
        endpoint, _, rest = name.rpartition("#")
        key, _, host = rest.partition("@")
        return cls(host, endpoint, key)


class HandshakeOutcome(NamedTuple):
    """The manifest of an endpoint that named its key, or the code of why there is none. `is_unreached`: it is on
    another port than 443, on which no server was reached; `is_postponed`: it was not even tried. `tools` are those that
    it lists, None where it did not answer."""

    manifest: ToolManifest | None
    reason: str = ""
    is_unreached: bool = False
    is_postponed: bool = False
    tools: Sequence[Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointCheck:
    """The outcome of the newest handshake; `changes` is the difference to the pinned manifest where that was
    refused."""

    host: str
    endpoint: str
    public_key: str
    manifest_sha256: str
    verdict: CheckVerdict
    changes: ManifestChanges


class EndpointChecks(Queries):
    """Reads of handshakes."""

    def of_hosts(self, hosts: Iterable[str]) -> dict[str, tuple[EndpointCheck, ...]]:
        """The handshakes with endpoints of agents at these hosts, by host."""
        checks: dict[str, tuple[EndpointCheck, ...]] = defaultdict(tuple)
        table = motebit_endpoints
        columns = [column for column in table.columns if column is not table.c.tools]
        checked = select(*columns).where(table.c.checked_at > 0).order_by(table.c.endpoint)
        for row in self._rows_in(checked, table.c.host, sorted(set(hosts))):
            check = EndpointCheck(
                host=row["host"], endpoint=row["endpoint"], public_key=row["public_key"],
                manifest_sha256=row["manifest_sha256"],
                verdict=CheckVerdict(CheckedState(row["state"]), row["reason"], row["checked_at"]),
                changes=ManifestChanges(*map(tuple, json.loads(row["changes"]))),
            )  # fmt: skip
            checks[row["host"]] += (check,)
        return checks


def enlist_published(connection: Connection, host: str, now: int) -> bool:
    """Enlist the endpoint named by the verified identity of a host. Returns whether there is one."""
    columns = (motebit_hosts.c.endpoint, motebit_hosts.c.public_key)
    verified = select(*columns).where(motebit_hosts.c.host == host, motebit_hosts.c.valid)
    row = connection.execute(verified).first()
    if row is not None and row.endpoint:
        _enlist(connection, EndpointKey(host, row.endpoint, row.public_key), now, 2 * PER_HOST)
    return row is not None and bool(row.endpoint)


def enlist_stated(connection: Connection, host: str, digest: bytes, now: int) -> None:
    """Enlist the url of an agent card (its SHA-256) at a host, for the key that the host publishes or, where it
    publishes none, that the card states."""
    body = connection.execute(select(cards.c.body).where(cards.c.sha256 == digest)).scalar()
    card = examine(body or b"", Kind.AGENT).card
    if not isinstance(card, AgentCard) or url_host(card.url) != host:
        return
    verified = select(motebit_hosts.c.public_key).where(motebit_hosts.c.host == host, motebit_hosts.c.valid)
    key = connection.execute(verified).scalar() or (card.motebit.public_key if card.motebit else "")
    if key:
        _enlist(connection, EndpointKey(host, card.url, key), now, PER_HOST)


def _enlist(connection: Connection, key: EndpointKey, now: int, most: int) -> None:
    """Enlist an endpoint for checks, unless it is enlisted, or the host has `most`: strangers' cards name any
    number."""
    number = count(connection, motebit_endpoints, motebit_endpoints.c.host == key.host)
    if number >= most or "#" in key.endpoint or not key.endpoint.startswith("https://"):
        return
    empty = {"manifest_sha256": "", "tools": "{}", "reason": "", "changes": "[[],[],[]]"}
    state = {"state": CheckedState.UNCHECKED.value, "verified_at": 0, "checked_at": 0}
    insert_new(connection, motebit_endpoints, [{**key._asdict(), **empty, **state}])
    checks.enlist(connection, ENDPOINT_CHECK, {str(key): str(key)}, now)


def names_at(connection: Connection, host: str) -> list[str]:
    """The names of the checks of endpoints of a host."""
    columns = [motebit_endpoints.c[name] for name in EndpointKey._fields]
    endpoints = connection.execute(select(*columns).where(motebit_endpoints.c.host == host))
    return [str(EndpointKey(*row)) for row in endpoints]


def record(connection: Connection, key: EndpointKey, outcome: HandshakeOutcome, now: int) -> list[str]:
    """Store the outcome of a handshake. Returns the listings that may have changed, sorted."""
    table = motebit_endpoints
    same = (table.c.host == key.host, table.c.endpoint == key.endpoint, table.c.public_key == key.public_key)
    row = connection.execute(select(table).where(*same)).mappings().first()
    if row is None:
        return []
    values = _judged(dict(row), outcome, now)
    ids = sorted(set(ids_of(connection, key.host)))
    if values:
        connection.execute(update(table).where(*same).values(**values, checked_at=now))
    if values.get("state") == CheckedState.VERIFIED:
        checks.record(connection, ENDPOINT_CHECK, [str(key)], now)
    else:
        checks.fail(connection, ENDPOINT_CHECK, [str(key)], values.get("reason", outcome.reason), now)
    if not ids:
        checks.pause(connection, ENDPOINT_CHECK, [str(key)])
    compared = ("state", "reason", "manifest_sha256", "changes")
    return ids if any(values.get(name, row[name]) != row[name] for name in compared) else []


def _judged(row: dict[str, Any], outcome: HandshakeOutcome, now: int) -> dict[str, Any]:
    """The new values of a row, by the rule of pinning; none where the outcome of an earlier handshake stays."""
    manifest, none = outcome.manifest, "[[],[],[]]"
    if outcome.is_unreached and _stays(row, outcome):
        return {}
    if manifest is None:
        state = CheckedState.UNCHECKED if outcome.is_unreached else CheckedState.REFUSED
        return {"state": state.value, "reason": outcome.reason, "changes": none}
    pinned = PinnedManifest(row["manifest_sha256"], json.loads(row["tools"]), row["verified_at"])
    if (changes := pinned.refused_changes(manifest, now)) is not None:
        return {"state": CheckedState.REFUSED.value, "reason": "manifest-changed", "changes": json.dumps(changes)}
    return {
        "state": CheckedState.VERIFIED.value, "reason": "", "changes": none, "manifest_sha256": manifest.sha256,
        "tools": json.dumps(dict(manifest.tools)), "verified_at": now,
    }  # fmt: skip


def _stays(row: dict[str, Any], outcome: HandshakeOutcome) -> bool:
    """Whether a row stays as it is where no server was reached: this does not undo a refused answer, and an endpoint
    that was not tried today is as it was."""
    is_answered_wrongly = row["state"] == CheckedState.REFUSED and not row["reason"].startswith("fetch-")
    return is_answered_wrongly or (outcome.is_postponed and row["checked_at"] > 0)
