"""The Motebit identity that a host publishes, verified: the file named in DNS, else the file at the well-known path.

DNS TXT `_motebit.<host>` names a file at any host. Without this record the file is `/.well-known/motebit.md` of the
host itself, also where DNS does not answer. Where a record or a file exists and does not verify, no other file is
tried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from indexer.fetcher.connections import Admit
from indexer.fetcher.dns import TxtRecords
from indexer.fetcher.fetch_loop import DueChecks
from indexer.fetcher.http_fetcher import HttpFetcher, open_admit
from indexer.fetcher.reasons import TROUBLE, FetchError
from indexer.fetcher.schedule import Priority
from indexer.settings import Settings
from indexer.store import Store, Writer
from overlay.systems.motebit import store
from overlay.systems.motebit.mcp_handshake import McpHandshakes
from overlay.systems.motebit.store_hosts import (
    AT_RELAY,
    AT_WELL_KNOWN,
    DNS,
    IDENTITY_CHECK,
    IdentityOutcome,
    PublishedIdentity,
)
from parsers.claims.canonical_json import DocumentError, read
from parsers.claims.motebit.identifiers import binding, hex_bytes
from parsers.claims.motebit.identity_file import MAX_BYTES, verify_identity
from parsers.claims.motebit.txt_record import read_txt
from parsers.pointers.locator import is_web_url, url_host

TXT_LABEL = "_motebit"
WELL_KNOWN = "/.well-known/motebit.md"
MAX_CAPABILITIES, MAX_CAPABILITY, MAX_ID, MAX_URL = 256, 256, 256, 2_048

_UNKNOWN = TROUBLE | {"fetch-protocol", "fetch-framing", "fetch-dns", "fetch-fault"}
"""Codes after which it is unknown what the host publishes: an identity is not lost at once."""


class MotebitVerifier:
    """Fetches the identities of hosts, and stores them where there is a `writer`."""

    kind, priority = IDENTITY_CHECK, Priority.BADGE

    def __init__(self, fetcher: HttpFetcher, txt: TxtRecords, writer: Writer | None = None) -> None:
        self._fetcher, self._txt, self._writer = fetcher, txt, writer

    async def check(self, host: str, now: int, admit: Admit = open_admit) -> tuple[int, FetchError | None]:
        """Fetch the identity of a host (`now` in milliseconds since 1970). Raises FetchError, StoreError."""
        return await self._store(host, await self.discover(host, admit), now), None

    async def lookup(self, host: str, relay: str | None = None) -> IdentityOutcome:
        """The identity that a host publishes, else the identity that a relay lists for an agent there. Stores
        nothing."""
        try:
            return await self.discover(host)
        except FetchError as refused:
            if relay is None or refused.refusal.code not in ("fetch-missing", "fetch-dns"):
                return _failed(refused.refusal.code)
        try:
            url = f"{relay.rstrip('/')}/api/v1/agents/discover?limit=100"
            return listed((await self._fetcher.get(url, same_host=True)).body or b"", host, url)
        except FetchError as refused:
            return _failed(refused.refusal.code)

    async def fail(self, host: str, reason: str, now: int) -> int:
        """Store that the fetch failed. Raises StoreError."""
        return await self._store(host, _failed(reason), now)

    async def _store(self, host: str, outcome: IdentityOutcome, now: int) -> int:
        if self._writer is None:
            return 0
        return await asyncio.to_thread(store.record_identity, self._writer, host, outcome, now)

    async def discover(self, host: str, admit: Admit = open_admit) -> IdentityOutcome:
        """The identity that a host publishes. Raises FetchError where it cannot be fetched."""
        try:
            record, unread = read_txt([text] for text in await self._txt.texts(f"{TXT_LABEL}.{host}.")), None
        except FetchError as refused:
            record, unread = None, refused
        method, url = (DNS, record.url) if record else (AT_WELL_KNOWN, f"https://{host}{WELL_KNOWN}")
        try:
            body = (await self._fetcher.get(url, same_host=True, admit=admit)).body or b""
        except FetchError as refused:
            if unread is not None and refused.refusal.code == "fetch-missing":
                raise unread from None
            raise
        return await asyncio.to_thread(published, body, method, url, record.endpoint if record else "")


def _failed(code: str) -> IdentityOutcome:
    reason = "port-not-allowed" if code == "fetch-port" else code
    return IdentityOutcome(None, reason, is_unknown=code in _UNKNOWN)


def listed(body: bytes, host: str, url: str) -> IdentityOutcome:
    """The first agent at a host in the list of a relay. Never raises. A relay signs nothing: a key that the identity is
    not derived from is unverified."""
    try:
        answer = read(body)
    except DocumentError as error:
        return IdentityOutcome(None, error.code)
    rows = answer.get("agents") if isinstance(answer, dict) else None
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict) or url_host(_url(row.get("endpoint_url"))) != host:
            continue
        identity, key = row.get("motebit_id"), hex_bytes(row.get("public_key"), 32)
        if not isinstance(identity, str) or not 0 < len(identity) <= MAX_ID or key is None:
            return IdentityOutcome(
                None, "malformed", detail="the agent has no motebit_id, or no public_key of 32 bytes in hex"
            )
        binding_ = binding(identity, key, {})
        names = row.get("capabilities")
        return IdentityOutcome(
            PublishedIdentity(
                identity, key.hex(), binding_, AT_RELAY, url, row["endpoint_url"],
                _capabilities(names if isinstance(names, list) else []),
            )
        )  # fmt: skip
    return IdentityOutcome(None, "not-listed")


def _capabilities(names: Iterable[Any]) -> tuple[str, ...]:
    usable = (name for name in names if isinstance(name, str) and 0 < len(name) <= MAX_CAPABILITY)
    return tuple(dict.fromkeys(usable))[:MAX_CAPABILITIES]


def published(body: bytes, method: str, url: str, endpoint: str = "") -> IdentityOutcome:
    """The identity of a file. Never raises: a file that does not verify gives the code of why."""
    if len(body) > MAX_BYTES:
        return IdentityOutcome(None, "too-large")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return IdentityOutcome(None, "bad-text")
    verdict = verify_identity(text, {})
    if not verdict.verified:
        return IdentityOutcome(None, verdict.error, detail=verdict.detail)
    content: dict[str, Any] = verdict.members["identity"]
    identity = content["motebit_id"]
    if len(identity) > MAX_ID or not identity.isprintable():
        detail = f"motebit_id is longer than {MAX_ID} characters, or not printable"
        return IdentityOutcome(None, "malformed", detail=detail)
    key = content["identity"]["public_key"]
    return IdentityOutcome(
        PublishedIdentity(
            motebit_id=identity, public_key=key, binding=verdict.binding, method=method, url=url,
            endpoint=_url(endpoint) or _url(content.get("service_url") or ""),
            capabilities=_capabilities(content.get("capabilities") or ()),
            earlier_keys=_signed_over(content.get("succession") or (), key),
        )
    )  # fmt: skip


def _signed_over(records: Any, current: str) -> frozenset[str]:
    """The keys before the current one that signed their successor, back to the first recovery by a guardian. The file
    itself names its guardian, so a recovery proves nothing about an earlier key."""
    keys: set[str] = set()
    for record in reversed(records):
        if record.get("recovery") or record["new_public_key"] != current:
            break
        current = record["old_public_key"]
        keys.add(current)
    return frozenset(keys)


def _url(text: Any) -> str:
    """A URL of the web, "" for any other text."""
    return text if isinstance(text, str) and len(text) <= MAX_URL and is_web_url(text) else ""


def host_checks(
    fetcher: HttpFetcher, txt: TxtRecords, _store: Store, writer: Writer, _settings: Settings
) -> list[DueChecks]:
    """The checks of identities that hosts publish, and of MCP endpoints."""
    return [MotebitVerifier(fetcher, txt, writer), McpHandshakes(fetcher, writer)]
