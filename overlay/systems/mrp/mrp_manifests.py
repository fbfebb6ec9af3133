"""The manifests of MRP providers: fetched when a provider proves control of its host, and once a day afterwards."""

from __future__ import annotations

import asyncio
from hmac import compare_digest

from indexer.fetcher.connections import Admit
from indexer.fetcher.dns import TxtRecords
from indexer.fetcher.fetch_loop import DueChecks
from indexer.fetcher.http_fetcher import HttpFetcher
from indexer.fetcher.on_demand import OnDemandFetcher
from indexer.fetcher.reasons import FetchError
from indexer.fetcher.schedule import Priority
from indexer.settings import Settings
from indexer.store import Store, Writer
from overlay.systems.mrp.store import PROVIDER_CHECK, MrpChallenge, MrpProviders
from parsers.claims.canonical_json import DocumentError
from parsers.claims.mrp.provider_manifest import ProviderManifest, read_manifest

CHALLENGE_PATH = "/.well-known/mrp-registry-challenge/"


class ChallengeFailedError(Exception):
    """A host serves no challenge, or no manifest; the message gives the fault."""


async def challenge_url(visits: OnDemandFetcher, challenge: MrpChallenge) -> str:
    """Where the host of a manifest must serve the challenge."""
    target = await visits.target(challenge.manifest_url)
    return target._replace(path=f"{CHALLENGE_PATH}{challenge.token}").url


async def meet(visits: OnDemandFetcher, challenge: MrpChallenge) -> tuple[str, ProviderManifest]:
    """The host and the manifest of a provider that serves exactly the expected text. Raises ChallengeFailedError, and
    FetchError (`fetch-budget`) after too many recent requests to the host."""
    url, host = await challenge_url(visits, challenge), (await visits.target(challenge.manifest_url)).host
    what = "challenge"
    async with visits.visit(host) as admit, (await visits.ready()).visit(admit) as visit:
        try:
            served = (await visit.get(url, same_host=True)).body or b""
            if not compare_digest(served, challenge.expected.encode()):
                raise ChallengeFailedError(f"{url} serves {len(served):,} bytes that are not the expected text")
            what = "manifest"
            body = (await visit.get(challenge.manifest_url, same_host=True)).body or b""
            return host, read_manifest(body, challenge.manifest_url)
        except FetchError as error:
            if error.refusal.code == "fetch-budget":
                raise
            raise ChallengeFailedError(f"the {what} is not served: {error}") from None
        except DocumentError as error:
            raise ChallengeFailedError(f"the manifest is refused: {error}") from None


class MrpManifestChecks:
    """Fetches the manifests of listed providers again."""

    kind, priority = PROVIDER_CHECK, Priority.WATCH

    def __init__(self, fetcher: HttpFetcher, providers: MrpProviders) -> None:
        self._fetcher, self._providers = fetcher, providers

    async def check(self, url: str, now: int, admit: Admit) -> tuple[int, FetchError | None]:
        """Fetch a manifest, and store it or why it is refused; listings of chains do not change. Raises
        FetchError, StoreError."""
        body = (await self._fetcher.get(url, same_host=True, admit=admit)).body or b""
        try:
            manifest = await asyncio.to_thread(read_manifest, body, url)
        except DocumentError as refused:
            return await self.fail(url, refused.code, now), None
        await asyncio.to_thread(self._providers.confirm, url, manifest, now)
        return 0, None

    async def fail(self, url: str, reason: str, now: int) -> int:
        """Store why a manifest is not served. Raises StoreError."""
        await asyncio.to_thread(self._providers.fail, url, reason, now)
        return 0


def host_checks(
    fetcher: HttpFetcher, _txt: TxtRecords, store: Store, _writer: Writer, _settings: Settings
) -> list[DueChecks]:
    """The daily checks of the manifests of providers."""
    return [MrpManifestChecks(fetcher, MrpProviders(store.engine))]
