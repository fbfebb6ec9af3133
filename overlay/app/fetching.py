"""Build what sends requests to strangers' hosts: for cards of pointers, declarations of domains, key sets, logos, and
to the targets of webhooks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from indexer.settings import Settings

if TYPE_CHECKING:
    from indexer.fetcher.fetch_loop import FetchLoop
    from indexer.fetcher.http_fetcher import HttpFetcher
    from indexer.fetcher.limits import Limits
    from indexer.fetcher.mrp_manifests import MrpRegistry
    from indexer.fetcher.on_demand import OnDemandFetcher
    from indexer.store import Store, Writer
    from overlay.api.identity_key import IdentityKey
    from overlay.app.status_service import StatusService
    from overlay.duplicates.duplicate_index import DuplicateIndex
    from overlay.projection.search_index import SearchIndex
    from overlay.search.query import Query
    from overlay.systems.webhooks import Webhooks
    from overlay.systems.webhooks.delivery_loop import DeliveryLoop


def build_fetch_loop(
    settings: Settings, store: Store, writer: Writer, changed: Callable[[], None], ended: Callable[[], None]
) -> FetchLoop:
    """What fetches; `changed` is called after it has stored something, `ended` after each fetch. Slow: it reads
    certificates."""
    from indexer.fetcher.card_fetcher import CardFetcher
    from indexer.fetcher.dns import TxtRecords
    from indexer.fetcher.domain_badges import DomainVerifier
    from indexer.fetcher.fetch_loop import FetchLoop
    from indexer.fetcher.gateway import Gateway
    from indexer.fetcher.key_sets import KeySetVerifier
    from indexer.fetcher.logo_fetcher import LogoFetcher
    from indexer.fetcher.mcp_handshake import McpHandshakes
    from indexer.fetcher.motebit_identity import MotebitVerifier
    from indexer.fetcher.mrp_manifests import MrpManifestChecks
    from indexer.store.logos import Logos
    from indexer.store.mrp_providers import MrpProviders

    fetcher = build_fetcher(settings)
    cards = CardFetcher(fetcher, Gateway(settings.ipfs_gateway) if settings.ipfs_gateway else None)
    txt = TxtRecords()
    checks = (
        LogoFetcher(fetcher, Logos(store.engine)),
        KeySetVerifier(fetcher, store, writer),
        MotebitVerifier(fetcher, txt, store.motebit_hosts, writer),
        McpHandshakes(fetcher, store.motebit_endpoints, writer),
        MrpManifestChecks(fetcher, MrpProviders(store.engine)),
    )
    return FetchLoop(
        store, writer, cards, DomainVerifier(fetcher, txt), checks=checks, changed=changed, ended=ended,
    )  # fmt: skip


def build_fetcher(settings: Settings, limits: Limits | None = None) -> HttpFetcher:
    """What fetches from strangers' hosts. Slow: it reads certificates."""
    from indexer.fetcher.connections import tls_context
    from indexer.fetcher.dns import SystemResolver, table
    from indexer.fetcher.http_fetcher import HttpFetcher

    tls = tls_context(settings.fetch_ca_file or None)
    return HttpFetcher(SystemResolver(), tls, table(settings.fetch_resolve), limits)


def sends_requests(settings: Settings) -> bool:
    """Whether requests are sent to strangers' hosts: the demonstration sends none, unless it is configured where to."""
    return bool(settings.fetch_resolve) or not settings.sample


def build_on_demand(settings: Settings) -> OnDemandFetcher | None:
    """What sends the requests that clients cause; None for the demonstration."""
    from indexer.fetcher.on_demand import OnDemandFetcher

    return OnDemandFetcher(partial(build_fetcher, settings)) if sends_requests(settings) else None


def build_mrp(settings: Settings, store: Store, visits: OnDemandFetcher | None) -> MrpRegistry | None:
    """What MRP needs; None where its door is closed, and where no requests are sent."""
    from indexer.fetcher.issuer_keys import IssuerKeys
    from indexer.fetcher.mrp_manifests import MrpRegistry
    from indexer.store.mrp_providers import MrpProviders
    from indexer.store.nonces import Nonces
    from overlay.api.systems import chosen

    if visits is None or "mrp" not in chosen(settings.doors):
        return None
    return MrpRegistry(
        providers=MrpProviders(store.primary), visits=visits, issuer_keys=IssuerKeys(visits),
        nonces=cache(partial(Nonces, store.primary)),
    )  # fmt: skip


def build_webhooks(
    settings: Settings,
    store: Store,
    identity: IdentityKey,
    index: SearchIndex,
    duplicates: DuplicateIndex | None,
    status: StatusService,
    visits: OnDemandFetcher,
) -> tuple[Webhooks, DeliveryLoop] | tuple[None, None]:
    """Subscriptions, and the loop that delivers; None where the door is closed."""
    from indexer.store.subscriptions import Subscriptions
    from overlay.api.systems import chosen
    from overlay.systems.webhooks import Webhooks
    from overlay.systems.webhooks.delivery_loop import DeliveryLoop
    from overlay.systems.webhooks.matcher import SubscriptionMatcher
    from overlay.systems.webhooks.targets import Targets, public_key_text

    if "webhooks" not in chosen(settings.doors):
        return None, None
    subscriptions = Subscriptions(store.primary)
    targets = Targets(visits, identity.sign_ed25519)
    parse = partial(_saved_query, status)
    matcher = SubscriptionMatcher(store, subscriptions, index, duplicates, parse, status.exchange.stamp)
    webhooks = Webhooks(
        subscriptions=subscriptions, targets=targets, public_key=public_key_text(identity.ed25519_public)
    )
    return webhooks, DeliveryLoop(subscriptions, matcher, targets)


def _saved_query(status: StatusService, search: str) -> Query | None:
    """The query of a saved search; None where it has become invalid, such as by a chain that is not followed now."""
    from overlay.api.parameters import pairs
    from overlay.api.problems import BadRequestError
    from overlay.api.search_request import from_pairs

    try:
        return from_pairs(pairs(search), status.chains(), status.exchange).query
    except BadRequestError:
        return None
