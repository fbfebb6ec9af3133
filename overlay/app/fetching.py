"""Build what sends requests to strangers' hosts: for cards of pointers, declarations of domains, key sets, logos, and
to the targets of webhooks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from indexer.setting_values import HTTPS_ALONE
from indexer.settings import Settings

if TYPE_CHECKING:
    from indexer.failures import LeftOut
    from indexer.fetcher.fetch_loop import DueChecks, FetchLoop
    from indexer.fetcher.http_fetcher import HttpFetcher
    from indexer.fetcher.limits import Limits
    from indexer.fetcher.on_demand import OnDemandFetcher
    from indexer.store import Store, Writer


def build_fetch_loop(
    settings: Settings,
    store: Store,
    writer: Writer,
    changed: Callable[[], None],
    ended: Callable[[], None],
    left_out: LeftOut | None = None,
) -> FetchLoop:
    """The loop that fetches; `changed` is called after it has stored something, `ended` after each fetch; failures are
    noted in `left_out`. Slow: it reads certificates."""
    from indexer.fetcher.card_fetcher import CardFetcher
    from indexer.fetcher.dns import TxtRecords
    from indexer.fetcher.fetch_loop import FetchLoop
    from indexer.fetcher.gateway import Gateway
    from indexer.fetcher.host_names import DomainVerifier
    from indexer.fetcher.key_sets import KeySetVerifier
    from indexer.fetcher.logo_fetcher import LogoFetcher
    from indexer.store.logos import Logos
    from overlay.api.systems import chosen, host_checks

    fetcher = build_fetcher(settings)
    cards = CardFetcher(fetcher, Gateway(settings.ipfs_gateway) if settings.ipfs_gateway else None)
    txt = TxtRecords()
    checks: tuple[DueChecks, ...] = (
        LogoFetcher(fetcher, Logos(store.engine)),
        KeySetVerifier(fetcher, store, writer),
        *(check for member in chosen(settings) for check in host_checks(member, fetcher, txt, store, writer, settings)),
    )
    return FetchLoop(
        store, writer, cards, DomainVerifier(fetcher, txt), checks=checks, changed=changed, ended=ended,
        left_out=left_out,
    )  # fmt: skip


def build_fetcher(settings: Settings, limits: Limits | None = None) -> HttpFetcher:
    """The fetcher for strangers' hosts. Slow: it reads certificates."""
    from indexer.fetcher.connections import tls_context
    from indexer.fetcher.dns import SystemResolver, table
    from indexer.fetcher.http_fetcher import HttpFetcher

    tls = tls_context(settings.fetch_ca_file or None)
    reaches_more = settings.fetch_ports != HTTPS_ALONE
    return HttpFetcher(SystemResolver(), tls, table(settings.fetch_resolve), limits, endpoint_ports=reaches_more)


def sends_requests(settings: Settings) -> bool:
    """Whether requests are sent to strangers' hosts: the demonstration sends none, unless it is configured where to."""
    return bool(settings.fetch_resolve) or not settings.sample


def build_on_demand(settings: Settings) -> OnDemandFetcher | None:
    """The sender of requests that clients cause; None for the demonstration."""
    from indexer.fetcher.on_demand import OnDemandFetcher

    return OnDemandFetcher(partial(build_fetcher, settings)) if sends_requests(settings) else None


def build_card_fetcher(settings: Settings) -> OnDemandFetcher | None:
    """The sender of requests for cards that publishers name; None for the demonstration."""
    from indexer.fetcher.on_demand import OF_CARDS, OnDemandFetcher

    return OnDemandFetcher(partial(build_fetcher, settings), limits=OF_CARDS) if sends_requests(settings) else None
