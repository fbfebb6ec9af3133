"""Services for providers and signed messages of MRP on this server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from aiohttp import web

from indexer.fetcher.on_demand import OnDemandFetcher
from indexer.store.nonces import Nonces
from overlay.api.systems import Parts, Services
from overlay.systems.mrp.issuer_keys import IssuerKeys
from overlay.systems.mrp.store import MrpProviders


@dataclass(frozen=True, slots=True, kw_only=True)
class MrpRegistry:
    """The services of the MRP routes: stored challenges and providers, requests to hosts, the keys of issuers, and the
    nonces that were used (opened by the first call, which may write)."""

    providers: MrpProviders
    visits: OnDemandFetcher
    issuer_keys: IssuerKeys
    nonces: Callable[[], Nonces]


MRP: web.AppKey[MrpRegistry] = web.AppKey("MRP registry", MrpRegistry)


def bring(parts: Parts) -> Services:
    """The registry, where requests are sent to hosts."""
    if parts.visits is None:
        return {}
    registry = MrpRegistry(
        providers=MrpProviders(parts.store.primary), visits=parts.visits, issuer_keys=IssuerKeys(parts.visits),
        nonces=cache(partial(Nonces, parts.store.primary)),
    )  # fmt: skip
    return {MRP: registry}
