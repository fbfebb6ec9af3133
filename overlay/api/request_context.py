"""The context of every request for the middleware: its route, its client, rate limits and counters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from aiohttp import web
from aiohttp.web_urldispatcher import AbstractRoute

from indexer.setting_values import LIMITS, Quota
from overlay.api.access_log import AccessLog
from overlay.api.client_tokens import ClientTokens
from overlay.api.connection_limits import ClientAddresses
from overlay.api.counters import ROUTES, Counters
from overlay.api.problems import ProblemError
from overlay.api.rate_limits import LimitResult, RateLimit, limits
from overlay.api.request_cost import RequestCost
from overlay.api.site_links import SiteLinks

REFUSED = {name: number for number, name in enumerate(LIMITS, 1)}
"""The number of the gauge that counts what each limit refused; 0 is that of open streams."""


class Requirements(NamedTuple):
    """The ways to pay for a request beyond its limit: members and headers of its 429."""

    members: Mapping[str, Any]
    headers: Mapping[str, str]


BeyondLimit = Callable[
    ["RequestContext", web.Request, Callable[[], Awaitable[web.StreamResponse]]],
    Awaitable[web.Response | Requirements | None],
]
"""Answers a request beyond its limit, by this handler, or names what pays for it, None where nothing does."""


class RouteInfo(NamedTuple):
    """A route's number in the counters, the name of its rate limit, whether its responses are counted (not those of
    streams), the error shape of its protocol, where it has its own, the actions that a capability token must grant, and
    where a request names its listing (`overlay.api.routes`)."""

    number: int
    limit: str | None
    timed: bool
    error_response: Callable[[web.Request, ProblemError, str], web.Response] | None = None
    action: str | None = None
    resource: str = ""
    listing_in: str = ""


_ELSEWHERE = RouteInfo(ROUTES - 1, None, timed=True)
"""The route of requests that no route answers."""


ProblemPage = Callable[[web.Request, ProblemError, str], web.Response | None]


class RequestContext:
    """The state of an application's requests, created once; `add` every route of its router. `page` renders a problem
    for browsers, None for other clients. `access_log` says which responses are logged. `under_way` holds the requests
    that are being answered; while `draining`, each response is the last of its connection. `guards` run before each
    handler, and `beyond_limit` for requests beyond a limit. `damage` gives the remedy for a damaged database: then
    every request is refused. `links` are those of the pages, and `tokens` those of clients with limits of their
    own."""

    def __init__(
        self,
        quotas: Mapping[str, Quota | None],
        trusted: tuple[str, ...],
        counters: Counters,
        *,
        page: ProblemPage = lambda *_: None,
        access_log: AccessLog | None = None,
        guards: Sequence[Callable[[web.Request], Awaitable[None]]] = (),
        beyond_limit: Sequence[BeyondLimit] = (),
        damage: Callable[[], str] = str,
        links: SiteLinks | None = None,
        tokens: ClientTokens | None = None,
    ) -> None:
        self.links = links or SiteLinks()
        self.page, self.damage, self.guards, self.beyond_limit = page, damage, guards, beyond_limit
        self.tokens = tokens or ClientTokens()
        self.clients = ClientAddresses(trusted, self.tokens)
        self.counters, self.access_log = counters, access_log or AccessLog()
        self.under_way: dict[int, web.Request] = {}
        self.draining = False
        self._limits = limits(quotas, counters.buckets)
        self._kinds = {name: kind for kind, name in enumerate(sorted({*quotas, *LIMITS}))}
        self._routes: dict[AbstractRoute, RouteInfo] = {}

    def add(self, route: AbstractRoute, info: RouteInfo) -> None:
        """Add a route. Raises ValueError for more routes than counters."""
        if info.number >= _ELSEWHERE.number:
            raise ValueError(f"route {info.number} is one too many for the counters")
        self._routes[route] = info

    def add_refusal(self, route: AbstractRoute, others: Iterable[AbstractRoute]) -> None:
        """Give a route that refuses methods the error shape of the other routes of its path."""
        shapes = (self._routes[other].error_response for other in others if other in self._routes)
        self._routes[route] = _ELSEWHERE._replace(error_response=next(shapes, None))

    def routed(self, request: web.Request) -> RouteInfo:
        """The RouteInfo of a request."""
        return self._routes.get(request.match_info.route, _ELSEWHERE)

    def take(self, request: web.Request, routed: RouteInfo) -> LimitResult | None:
        """Count a request against its client's rate limit; None without a limit."""
        limit = self.limit_of(request, routed.limit)
        if limit is None:
            return None
        taken = limit.take(self.clients.of(request))
        if taken.wait:
            self.counters.add(REFUSED[limit.name], 1)
        return taken

    def cost(self, request: web.Request, routed: RouteInfo) -> RequestCost | None:
        """The cost of a request that was counted; None without a limit."""
        limit = self.limit_of(request, routed.limit)
        return None if limit is None else RequestCost(limit, self.clients.of(request))

    def limit_of(self, request: web.Request, name: str | None) -> RateLimit | None:
        """The rate limit of this name for the client of a request, None without one."""
        if name is None:
            return None
        named = self.tokens.client(request)
        if named is None or name not in named.quotas:
            return self._limits.get(name)
        quota = named.quotas[name]
        return None if quota is None else RateLimit(name, quota, self.counters.buckets, self._kinds[name])

    def take_attempt(self, request: web.Request) -> bool:
        """Count an attempt to pay, which costs work, too, against the limit `ingest`; False beyond it."""
        limit = self.limit_of(request, "ingest")
        return limit is None or not limit.take(self.clients.of(request)).wait


CONTEXT: web.AppKey[RequestContext] = web.AppKey("request context", RequestContext)
