"""What is known of a request before it is answered, and kept of it after: route, client, limit, count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from aiohttp import web
from aiohttp.web_urldispatcher import AbstractRoute

from indexer.settings import LIMITS, Quota
from overlay.api.clients import Clients
from overlay.api.limits import Limit, Taken, limits
from overlay.api.problems import ProblemError
from overlay.counters import ROUTES, Counters

REFUSED = {name: number for number, name in enumerate(LIMITS, 1)}
"""The number of the gauge that counts what each limit refused; 0 is that of open streams."""


class Routed(NamedTuple):
    """A route's number in the counters, the limit it falls under, and whether its time is worth keeping: that of a
    stream is not."""

    number: int
    limit: Limit | None
    timed: bool


_ELSEWHERE = Routed(ROUTES - 1, None, timed=True)
"""What no route answers."""


ProblemPage = Callable[[web.Request, ProblemError, str], web.Response | None]


def _no_page(_request: web.Request, _problem: ProblemError, _request_id: str) -> None:
    """Where nothing is for people."""


class Edge:
    """Built once for an application; `add` every route of its router. `page` makes a page of a problem, with the
    request's id, for those who are to read it as one. With `log_requests` every answer is worth a line in the log.
    `under_way` holds the requests that are being answered; while `draining`, each answer is a connection's last."""

    def __init__(
        self,
        quotas: Mapping[str, Quota | None],
        trusted: tuple[str, ...],
        counters: Counters,
        *,
        page: ProblemPage = _no_page,
        log_requests: bool = False,
    ) -> None:
        self.page = page
        self.clients, self.counters, self.log_requests = Clients(trusted), counters, log_requests
        self.under_way: dict[int, web.Request] = {}
        self.draining = False
        self._limits = limits(quotas)
        self._routes: dict[AbstractRoute, Routed] = {}

    def add(self, route: AbstractRoute, number: int, kind: str | None, *, timed: bool) -> None:
        """This route counts as `number` and falls under the limits of `kind`."""
        if number >= _ELSEWHERE.number:
            raise ValueError(f"route {number} is one too many for the counters")
        self._routes[route] = Routed(number, self._limits.get(kind) if kind else None, timed)

    def routed(self, request: web.Request) -> Routed:
        """What is known of a request's route."""
        return self._routes.get(request.match_info.route, _ELSEWHERE)

    def take(self, request: web.Request, routed: Routed) -> Taken | None:
        """Count a request against its client's limit, None where there is no limit."""
        if routed.limit is None:
            return None
        taken = routed.limit.take(self.clients.of(request))
        if taken.wait:
            self.counters.add(REFUSED[routed.limit.name], 1)
        return taken
