"""Hosts of listed agents, and the Motebit identity that each publishes. Times are milliseconds since 1970.

The first identity of a host is pinned: another key counts only where a succession leads from the pinned one to it, or
when the pinned one was not served for `PIN_DURATION`. The functions that write work inside a transaction of the writer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Boolean, Connection, String, Text, select, update

from indexer.check_verdict import CheckVerdict
from indexer.store import checks, fetches
from indexer.store.checks import GRACE, PIN_DURATION, check_kind
from indexer.store.queries import Queries, Row, insert_new
from indexer.store.schema import BYTEWISE, badges, keys, locators, original_table, required
from parsers.claims.motebit.identifiers import is_same_identity

IDENTITY_CHECK = check_kind("motebit")
"""The check of the Motebit identity of a host."""

MAX_IDS = 1_000
"""Listings of a host that are announced when its identity changes."""

KEY_CHANGED = "key-changed"

motebit_hosts = original_table(
    "motebit_hosts",
    *keys(host=BYTEWISE),
    *required(motebit_id=Text, public_key=String, binding=String, method=String, url=Text, endpoint=Text),
    *required(capabilities=Text, valid=Boolean, reason=String, verified_at=BigInteger),
    *required(served_key=String, changed_at=BigInteger),
)
"""Hosts of listed agents, and the Motebit identity that is pinned for each ("" for none): `valid` while its file was
served and verified at the last fetch, else `reason` is a code of why not. `served_key` is another key (hex) that is
served instead of the pinned one since `changed_at`, "" for none. Times are milliseconds since 1970; `capabilities` is
JSON."""

DNS, AT_WELL_KNOWN, AT_RELAY = "dns", "well-known", "relay"
"""The source of an identity: the URL of a TXT record, the well-known path, or the list of a relay."""


class PublishedIdentity(NamedTuple):
    """A verified identity: its previous keys that signed their successor, the method (`dns` or `well-known`) and the
    URL of its file, and the statements of the file and its host about the agent."""

    motebit_id: str
    public_key: str
    binding: str
    method: str
    url: str
    endpoint: str = ""
    capabilities: tuple[str, ...] = ()
    earlier_keys: frozenset[str] = frozenset()


class IdentityOutcome(NamedTuple):
    """The identity that a host publishes: an identity, or the code of why there is none, and the faults of its file.
    `is_unknown`: the host did not answer."""

    identity: PublishedIdentity | None
    reason: str = ""
    is_unknown: bool = False
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostIdentity:
    """The identity that is pinned for a host ("" for none), whether it is served and verified now, and why not.
    `served_key` is another key that is served since `changed_at` (milliseconds), "" for none."""

    host: str
    motebit_id: str
    public_key: str
    binding: str
    method: str
    url: str
    endpoint: str
    capabilities: tuple[str, ...]
    verdict: CheckVerdict
    served_key: str
    changed_at: int


_PINNED = ("motebit_id", "public_key", "binding", "method", "url", "endpoint")
_NO_CHANGE = {"served_key": "", "changed_at": 0}


class HostIdentities(Queries):
    """Reads of the identities of hosts."""

    def get(self, hosts: Iterable[str]) -> dict[str, HostIdentity]:
        """The identities of these hosts; those without a pinned one are left out."""
        pinned = select(motebit_hosts).where(motebit_hosts.c.public_key != "")
        return {row["host"]: _identity(row) for row in self._rows_in(pinned, motebit_hosts.c.host, sorted(set(hosts)))}


def _identity(row: Row) -> HostIdentity:
    return HostIdentity(
        **{name: row[name] for name in ("host", *_PINNED, *_NO_CHANGE)},
        capabilities=tuple(json.loads(row["capabilities"])),
        verdict=CheckVerdict.of(row["valid"], row["reason"], row["verified_at"]),
    )


def enlist(connection: Connection, host: str, now_ms: int) -> None:
    """Queue a host of a listed agent, unless it is already."""
    new = dict.fromkeys((*_PINNED, "reason"), "")
    row = {**new, **_NO_CHANGE, "host": host, "capabilities": "[]", "valid": False, "verified_at": 0}
    insert_new(connection, motebit_hosts, [row])
    checks.enlist(connection, IDENTITY_CHECK, {host: host}, now_ms)


def record(connection: Connection, host: str, outcome: IdentityOutcome, now_ms: int) -> list[str]:
    """Store the identity that a host publishes. Returns the listings that may have changed, sorted. A host that no
    listing names any more is not fetched again."""
    same = motebit_hosts.c.host == host
    row = connection.execute(select(motebit_hosts).where(same)).mappings().one()
    values = _judged(dict(row), outcome, now_ms)
    ids = sorted(set(ids_of(connection, host)))
    connection.execute(update(motebit_hosts).where(same).values(**values))
    if values["valid"]:
        checks.record(connection, IDENTITY_CHECK, [host], now_ms, outcome.reason)
    else:
        checks.fail(connection, IDENTITY_CHECK, [host], values["reason"], now_ms)
    if not ids:
        checks.pause(connection, IDENTITY_CHECK, [host])
    compared = (*_PINNED, "capabilities", "valid", *_NO_CHANGE)
    return ids if any(values.get(name, row[name]) != row[name] for name in compared) else []


def _judged(row: Mapping[str, Any], outcome: IdentityOutcome, now_ms: int) -> dict[str, Any]:
    """The new values of a row, by the rule of pinning."""
    identity = outcome.identity
    if identity is None:
        is_lost = not outcome.is_unknown or row["verified_at"] <= now_ms - GRACE
        gone = {} if outcome.is_unknown else _NO_CHANGE
        return {"reason": outcome.reason, "valid": row["valid"] and not is_lost, **gone}
    served_keys = (identity.public_key, *identity.earlier_keys)
    is_pinned = is_same_identity(row["motebit_id"], identity.motebit_id) and row["public_key"] in served_keys
    if row["public_key"] and not is_pinned and row["verified_at"] > now_ms - PIN_DURATION:
        since = row["changed_at"] if row["served_key"] == identity.public_key else now_ms
        return {"reason": KEY_CHANGED, "valid": False, "served_key": identity.public_key, "changed_at": since}
    listed = json.dumps(identity.capabilities)
    pinned = {name: getattr(identity, name) for name in _PINNED} | _NO_CHANGE
    return {**pinned, "capabilities": listed, "reason": "", "valid": True, "verified_at": now_ms}


def ids_of(connection: Connection, host: str) -> Iterator[str]:
    """The listings at a host: inscribed agents with a url there, first those that the host confirms, as any number of
    strangers may name it; and pointers with a card fetched there."""
    named = select(badges.c.registration).where(badges.c.host == host).order_by(badges.c.by == "").limit(MAX_IDS)
    yield from connection.execute(named).scalars()
    below = (locators.c.locator > f"https://{host}/") & (locators.c.locator < f"https://{host}0")
    there = select(locators.c.locator).where((locators.c.locator == host) | below).limit(MAX_IDS)
    for locator in connection.execute(there).scalars().all():
        yield from fetches.ids_of(connection, locator)
