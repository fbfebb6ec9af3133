"""What providers and signed messages of MRP need on this server."""

from __future__ import annotations

from functools import cache, partial

from aiohttp import web

from overlay.api.systems import Parts, Services
from overlay.systems.mrp.mrp_manifests import MrpRegistry

MRP: web.AppKey[MrpRegistry] = web.AppKey("MRP registry", MrpRegistry)


def bring(parts: Parts) -> Services:
    """The registry, where requests are sent to hosts."""
    from indexer.store.nonces import Nonces
    from overlay.systems.mrp.issuer_keys import IssuerKeys
    from overlay.systems.mrp.store import MrpProviders

    if parts.visits is None:
        return {}
    registry = MrpRegistry(
        providers=MrpProviders(parts.store.primary), visits=parts.visits, issuer_keys=IssuerKeys(parts.visits),
        nonces=cache(partial(Nonces, parts.store.primary)),
    )  # fmt: skip
    return {MRP: registry}
