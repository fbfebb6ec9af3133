"""MRP providers outside the chains: challenges to the hosts of manifests, and the manifests of those that met one.
Times are milliseconds since 1970."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Connection, Index, String, Text, delete, insert, select, update

from indexer.store import checks
from indexer.store.checks import GRACE, HOUR, check_kind
from indexer.store.database import writing
from indexer.store.locks import advisory_lock
from indexer.store.queries import Queries, Row, count, full_network, upsert
from indexer.store.schema import BYTEWISE, keys, original_table, required
from parsers.claims.mrp.provider_manifest import ProviderManifest

PROVIDERS_LOCK = advisory_lock("m")
"""While challenges or providers are counted and one is added."""

PROVIDER_CHECK = check_kind("mrp")
"""The check of the manifest of a provider, by its URL."""

CHALLENGE_DURATION = 24 * HOUR
OPEN_PER_CLIENT, OPEN_IN_ALL = 20, 10_000
"""Challenges that may be open at once: of one client (`client_networks`), and in all."""

PER_DOMAIN, IN_ALL = 64, 10_000
"""Providers that are listed at once: of a registrable domain, as hosts below it cost its owner nothing, and in all."""

mrp_challenges = original_table(
    "mrp_challenges",
    *keys(token=String),
    *required(client=String, manifest_url=BYTEWISE, expected=String, expires_at=BigInteger),
    Index("mrp_challenges_by_client", "client", "manifest_url"),
)
"""The challenges that hosts must serve before their MRP manifest is listed. Times are milliseconds since 1970."""

mrp_providers = original_table(
    "mrp_providers",
    *keys(manifest_url=BYTEWISE),
    *required(host=BYTEWISE, capability=BYTEWISE, policies=Text, manifest=Text, verified_at=BigInteger),
    Index("mrp_providers_by_host", "host"),
    Index("mrp_providers_by_capability", "capability", "manifest_url"),
)
"""MRP providers that proved control of the host of their manifest: `manifest` and `policies` are JSON, `verified_at` is
when the manifest was served last. Times are milliseconds since 1970."""


class TooManyProvidersError(Exception):
    """The limit of challenges or providers is reached; the message names the limit."""


class MrpChallenge(NamedTuple):
    """The text that the host of a manifest must serve, and by when."""

    token: str
    client: str
    manifest_url: str
    expected: str
    expires_at: int


class MrpProvider(NamedTuple):
    """A provider that is listed: its manifest, and when that was served last."""

    manifest_url: str
    host: str
    manifest: ProviderManifest
    verified_at: int


class MrpProviders(Queries):
    """The challenges and providers in one database; several threads and processes may use it at once. Methods that
    write raise StoreError when the database refuses."""

    def open_challenge(self, challenge: MrpChallenge, now: int) -> None:
        """Store a challenge. It voids the earlier challenge of the same client for the same manifest, but no challenge
        of another client: strangers could void the owner's. Raises TooManyProvidersError."""
        table = mrp_challenges
        of_client = (table.c.client == challenge.client, table.c.manifest_url == challenge.manifest_url)
        with writing(self._engine, PROVIDERS_LOCK) as connection:
            connection.execute(delete(table).where(table.c.expires_at <= now))
            connection.execute(delete(table).where(*of_client))
            if full := full_network(connection, table.c.client, challenge.client, OPEN_PER_CLIENT):
                raise TooManyProvidersError(f"{OPEN_PER_CLIENT * full.factor} challenges of {full.title} are open")
            if count(connection, table) >= OPEN_IN_ALL:
                raise TooManyProvidersError(f"{OPEN_IN_ALL:,} challenges are open")
            connection.execute(insert(table), [challenge._asdict()])

    def challenge(self, token: str, now: int) -> MrpChallenge | None:
        """The challenge with a token, None where it is void or has expired."""
        current = (mrp_challenges.c.token == token, mrp_challenges.c.expires_at > now)
        row = self._first(select(mrp_challenges).where(*current))
        return MrpChallenge(**row) if row else None

    def add(self, provider: MrpProvider, domain: str, token: str) -> None:
        """List a provider, below a registrable domain, that met the challenge with this token, which is void then.
        Raises TooManyProvidersError."""
        table = mrp_providers
        row, url = _row(provider), provider.manifest_url
        with writing(self._engine, PROVIDERS_LOCK) as connection:
            connection.execute(delete(mrp_challenges).where(mrp_challenges.c.token == token))
            _drop(connection, table.c.verified_at <= provider.verified_at - GRACE)
            others = table.c.manifest_url != url
            same = (table.c.host == domain) | table.c.host.endswith(f".{domain}", autoescape=True)
            if count(connection, table, others & same) >= PER_DOMAIN:
                raise TooManyProvidersError(f"{PER_DOMAIN} manifests of {domain} are listed")
            if count(connection, table, others) >= IN_ALL:
                raise TooManyProvidersError(f"{IN_ALL:,} providers are listed")
            statement = upsert(connection, table).values(row)
            connection.execute(statement.on_conflict_do_update(index_elements=["manifest_url"], set_=row))
            checks.enlist(connection, PROVIDER_CHECK, {url: url}, provider.verified_at)
            checks.record(connection, PROVIDER_CHECK, [url], provider.verified_at)

    def page(
        self, now: int, limit: int, after: str = "", *, capability: str | None = None, policy: str | None = None
    ) -> list[MrpProvider]:
        """At most `limit` providers with a recently served manifest, sorted by URL, after one."""
        table = mrp_providers
        fresh = [table.c.verified_at > now - GRACE, table.c.manifest_url > after]
        if capability is not None:
            fresh.append(table.c.capability == capability)
        if policy is not None:
            fresh.append(table.c.policies.contains(json.dumps(policy), autoescape=True))
        rows = self._rows(select(table).where(*fresh).order_by(table.c.manifest_url).limit(limit))
        return [_provider(row) for row in rows]

    def confirm(self, url: str, manifest: ProviderManifest, now: int) -> None:
        """Store the manifest that is served now."""
        same = mrp_providers.c.manifest_url == url
        row = _row(MrpProvider(url, "", manifest, now))
        del row["host"]
        with writing(self._engine) as connection:
            connection.execute(update(mrp_providers).where(same).values(row))
            checks.record(connection, PROVIDER_CHECK, [url], now)

    def fail(self, url: str, reason: str, now: int) -> None:
        """Store why a manifest is not served. After `GRACE` without it the provider is removed from the list."""
        table = mrp_providers
        same = table.c.manifest_url == url
        with writing(self._engine) as connection:
            checks.fail(connection, PROVIDER_CHECK, [url], reason, now)
            _drop(connection, same, table.c.verified_at <= now - GRACE)
            for verified_at in connection.execute(select(table.c.verified_at).where(same)).scalars().all():
                checks.hold(connection, PROVIDER_CHECK, {url: verified_at})


def _drop(connection: Connection, *where: Any) -> None:
    """Remove providers from the list."""
    gone = connection.execute(delete(mrp_providers).where(*where).returning(mrp_providers.c.manifest_url))
    checks.forget(connection, PROVIDER_CHECK, gone.scalars().all())


def _row(provider: MrpProvider) -> dict[str, Any]:
    manifest = provider.manifest
    return {
        "manifest_url": provider.manifest_url, "host": provider.host, "capability": manifest.capability,
        "policies": json.dumps(manifest.policies), "manifest": json.dumps(asdict(manifest)),
        "verified_at": provider.verified_at,
    }  # fmt: skip


def _provider(row: Row) -> MrpProvider:
    members: dict[str, Any] = json.loads(row["manifest"])
    fields: dict[str, Any] = {name: tuple(item) if isinstance(item, list) else item for name, item in members.items()}
    return MrpProvider(row["manifest_url"], row["host"], ProviderManifest(**fields), row["verified_at"])
