"""The tools that MCP endpoints list (`tools/list`), as visits observed them, and the listings that name each endpoint.
Times are milliseconds since 1970.

The first manifest of an endpoint is pinned (`PinnedManifest`); another one is stored with its differences. They are
facts about the endpoint, never about a card. The functions that write work inside a transaction.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Connection,
    Index,
    Integer,
    LargeBinary,
    Select,
    String,
    Text,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from indexer.store import outbox
from indexer.store.pinned_manifest import PinnedManifest
from indexer.store.queries import Queries, Row, batches, is_storable, rows_in
from indexer.store.schema import BYTEWISE, keys, original_table, rebuilt_table, required
from parsers.cards.fields import Fields
from parsers.cards.findings import note_texts
from parsers.claims.canonical_json import DocumentError
from parsers.claims.tool_manifest import ManifestChanges, tool_manifest
from parsers.reasons import Reason

MAX_TOOLS, MAX_BYTES = 256, 256 << 10
"""Tools of an endpoint that are stored, in the order of its list, and the bytes of their JSON."""

MAX_NAMES, MAX_DESCRIPTIONS = 8 << 10, 2 << 10
"""Characters of the names and of the descriptions that are searched."""

MAX_FINDINGS = 8
"""Warnings about the texts of the tools of one endpoint."""

MAX_ENDPOINT = 2_048
"""Bytes of the URL of an endpoint: PostgreSQL indexes no text of more than 2.7 kB."""

MAX_KEY = 2_500
"""Bytes of a registration and an endpoint that it names: longer ones are left out, as PostgreSQL cannot index them."""

MAX_IDS = 1_000
"""Listings of an endpoint that are announced when its tools change: any number of strangers may name it."""

TOOLS = "tools"
"""The reason of these changes in the outbox."""

observed_tools = original_table(
    "observed_tools",
    *keys(endpoint=BYTEWISE),
    *required(sha256=String, count=Integer, observed_at=BigInteger, seen_at=BigInteger, tools=LargeBinary),
    *required(words=Text, findings=Text, changes=Text),
    *required(pinned_sha256=String, pinned_tools=Text, pinned_at=BigInteger),
)
"""MCP endpoints and the manifest that each was seen with last: since the visit at `observed_at`, until that at
`seen_at`. `tools` is JSON of its tools, `words` of the texts that are searched, `findings` of warnings about them. The
pinned manifest, with the digests of its tools as JSON, was served last at `pinned_at`; `changes` are the differences to
it, of a manifest that is not pinned yet."""

named_endpoints = rebuilt_table(
    "named_endpoints",
    *keys(registration=BYTEWISE, endpoint=BYTEWISE),
    Index("named_endpoints_by_endpoint", "endpoint"),
)
"""The endpoints that the cards of live registrations and of pointers name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedTools:
    """The SHA-256 (hex) and the number of the tools that an endpoint lists, and the first visit with them; the texts of
    them that are searched, warnings about these, and the differences to the pinned manifest."""

    endpoint: str
    sha256: str
    count: int
    observed_at: int
    words: tuple[str, ...]
    findings: tuple[Reason, ...]
    changes: ManifestChanges


class ToolQueries(Queries):
    """Reads of observed tools."""

    def of_registrations(self, ids: Iterable[str]) -> dict[str, dict[str, ObservedTools]]:
        """The observed tools by registration and endpoint; those without any are left out."""
        by_registration: dict[str, dict[str, ObservedTools]] = {}
        for row in (row for batch in batches(ids) for row in self._rows(_tools_of(), ids=batch)):
            by_registration.setdefault(row["registration"], {})[row["endpoint"]] = _observed(row)
        return by_registration

    def tools(self, endpoint: str, sha256: str) -> list[dict[str, Any]]:
        """The tools that an endpoint lists, as far as they are stored; none where it lists others by now."""
        same = (observed_tools.c.endpoint == endpoint, observed_tools.c.sha256 == sha256)
        body = self._scalar(select(observed_tools.c.tools).where(*same))
        return list(json.loads(body)) if body is not None else []


@cache
def _tools_of() -> Select[Any]:
    """The observed tools of registrations with the bound `ids`. Cached: composing the statement takes as long as the
    answer."""
    columns = [column for column in observed_tools.columns if column is not observed_tools.c.tools]
    same = observed_tools.c.endpoint == named_endpoints.c.endpoint
    ids: BindParameter[Any] = bindparam("ids", expanding=True)
    named = select(named_endpoints.c.registration, *columns).join(observed_tools, same)
    return named.where(named_endpoints.c.registration.in_(ids))


def _observed(row: Row) -> ObservedTools:
    return ObservedTools(
        endpoint=row["endpoint"], sha256=row["sha256"], count=row["count"], observed_at=row["observed_at"],
        words=tuple(json.loads(row["words"])),
        findings=tuple(Reason(*reason) for reason in json.loads(row["findings"])),
        changes=ManifestChanges(*map(tuple, json.loads(row["changes"]))),
    )  # fmt: skip


def is_endpoint(url: str) -> bool:
    """Whether the tools of a URL can be stored."""
    return url.startswith(("https://", "http://")) and is_storable(url) and len(url.encode()) <= MAX_ENDPOINT


def record_tools(connection: Connection, endpoint: str, tools: Sequence[Any], now: int) -> bool:
    """Store the result of `tools/list` of an endpoint; returns whether its digest or its differences changed, and then
    the listings that name the endpoint are announced. Nothing is stored of tools without a manifest."""
    try:
        manifest = tool_manifest(tools)
    except DocumentError:
        return False
    if not is_endpoint(endpoint):
        return False
    same = observed_tools.c.endpoint == endpoint
    row = connection.execute(select(observed_tools).where(same)).mappings().first()
    pinned = PinnedManifest(row["pinned_sha256"], json.loads(row["pinned_tools"]), row["pinned_at"]) if row else None
    changes = pinned.refused_changes(manifest, now) if pinned else None
    values: dict[str, Any] = {
        "findings": json.dumps(_findings(tools)),
        "changes": json.dumps(changes or ManifestChanges((), (), ())),
    }
    if changes is None:
        digests = json.dumps(dict(manifest.tools))
        values |= {"pinned_sha256": manifest.sha256, "pinned_tools": digests, "pinned_at": now}
    if row is None or row["sha256"] != manifest.sha256:
        values |= {"sha256": manifest.sha256, "count": len(tools), "observed_at": now, **_texts(tools)}
    if row is None:
        connection.execute(insert(observed_tools).values(endpoint=endpoint, seen_at=now, **values))
    else:
        connection.execute(update(observed_tools).where(same).values(seen_at=now, **values))
    is_changed = row is None or any(row[name] != values.get(name, row[name]) for name in _COMPARED)
    if is_changed:
        named = select(named_endpoints.c.registration).where(named_endpoints.c.endpoint == endpoint)
        outbox.announce(connection, connection.execute(named.limit(MAX_IDS)).scalars().all(), TOOLS)
    return is_changed


_COMPARED = ("sha256", "findings", "changes")


def _texts(tools: Sequence[Any]) -> dict[str, Any]:
    """The stored forms of a manifest, in which tools are objects with a name."""
    shown = [_stored_tool(tool) for tool in tools[:MAX_TOOLS]]
    names = _fitting((tool["name"] for tool in shown), MAX_NAMES)
    descriptions = _fitting((tool["description"] for tool in shown if "description" in tool), MAX_DESCRIPTIONS)
    stored = _fitting(map(json.dumps, shown), MAX_BYTES, is_cut=False)
    return {"tools": f"[{','.join(stored)}]".encode(), "words": json.dumps([*names, *descriptions])}


def _stored_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a tool that its digest covers and that have their types."""
    types = {"name": str, "description": str, "inputSchema": dict}
    return {name: tool[name] for name, kind in types.items() if isinstance(tool.get(name), kind)}


def _fitting(texts: Iterable[str], room: int, *, is_cut: bool = True) -> Iterator[str]:
    """The first of these texts that have so many characters at most; the last one is cut, or left out."""
    for text in texts:
        if len(text) > room:
            if is_cut and room:
                yield text[:room]
            return
        room -= len(text)
        yield text


def _findings(tools: Sequence[Any]) -> list[Reason]:
    """Warnings about the texts of tools, each code once."""
    fields = Fields(0)
    note_texts(list(tools), fields)
    first = {reason.code: Reason(reason.code, f"a tool of its endpoint: {reason.detail}") for reason in fields.warnings}
    return list(first.values())[:MAX_FINDINGS]


class NamedEndpoint(NamedTuple):
    """A registration or pointer, and the URL of an endpoint that its card names."""

    registration: str
    endpoint: str


def update_named(connection: Connection, named: Collection[NamedEndpoint], registrations: Sequence[str]) -> list[str]:
    """Make `named` the only endpoints of these registrations. Returns those whose observed tools are others for it,
    sorted."""
    columns = (named_endpoints.c.registration, named_endpoints.c.endpoint)
    before = {
        NamedEndpoint(row["registration"], row["endpoint"])
        for row in rows_in(connection, select(*columns), named_endpoints.c.registration, registrations)
    }
    after = {entry for entry in named if is_endpoint(entry.endpoint) and len("".join(entry).encode()) <= MAX_KEY}
    for registration, endpoint in sorted(before - after):
        connection.execute(delete(named_endpoints).where(columns[0] == registration, columns[1] == endpoint))
    if new := sorted(after - before):
        connection.execute(insert(named_endpoints), [entry._asdict() for entry in new])
    moved = before ^ after
    endpoints = {entry.endpoint for entry in moved}
    observed = {
        row["endpoint"]
        for row in rows_in(connection, select(observed_tools.c.endpoint), observed_tools.c.endpoint, endpoints)
    }
    return sorted({entry.registration for entry in moved if entry.endpoint in observed})


def forget_tools(connection: Connection, registrations: Iterable[str]) -> None:
    """Delete the endpoints of these registrations, and the tools of those that no other one names."""
    endpoints: set[str] = set()
    for batch in batches(registrations):
        of_batch = delete(named_endpoints).where(named_endpoints.c.registration.in_(batch))
        endpoints.update(connection.execute(of_batch.returning(named_endpoints.c.endpoint)).scalars())
    for batch in batches(endpoints):
        is_named = select(named_endpoints.c.endpoint).where(named_endpoints.c.endpoint == observed_tools.c.endpoint)
        unnamed = observed_tools.c.endpoint.in_(batch) & ~is_named.exists()
        connection.execute(delete(observed_tools).where(unnamed))
