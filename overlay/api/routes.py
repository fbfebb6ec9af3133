"""Every route in one table: what it is called with, who answers, and what may come back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web

from overlay import pages
from overlay.api import (
    changes_api,
    ingest_api,
    listing_api,
    metrics_api,
    proof_api,
    publisher_api,
    quote_api,
    recheck_api,
    search_api,
    status_api,
    stream_api,
)
from overlay.api.params import CHANGES, CHECK, PROOF, QUOTE, SEARCH, SUGGEST, Parameter
from overlay.api.params import STREAM as STREAM_PARAMETERS

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

JSON, HTML, TEXT, CSS, STREAM = "application/json", "text/html", "text/plain", "text/css", "text/event-stream"
SCRIPT, SVG, WEBP = "text/javascript", "image/svg+xml", "image/webp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A path and method, its handler (whose docstring is the summary) and its documentation.

    `answer` is the name of a schema, or None for what is no JSON; `media` the content types; `body` the schema of the
    request's body. `errors` are the statuses of problems it may answer beside 500. `status` is that of a good answer,
    `limit` the rate limit it falls under.
    """

    path: str
    handler: Handler
    tag: str
    answer: str | None
    method: str = "GET"
    parameters: tuple[Parameter, ...] = ()
    media: tuple[str, ...] = (JSON,)
    body: str | None = None
    errors: tuple[int, ...] = ()
    conditional: bool = field(default=False)
    status: int = 200
    limit: str | None = "read"

    @property
    def pattern(self) -> str:
        """The path for aiohttp's router. An id may hold slashes: those of a percent-encoded one are no separators; and
        line feeds, so that its handler says what is wrong with it."""
        return self.path.replace("{id}", "{id:(?s:.+)}").replace("{what}", "{what:(?s:.+)}")

    @property
    def takes_none(self) -> bool:
        """Whether a parameter in its URL is a mistake, which nothing else would tell: not of pages, whose links others
        decorate, nor of what probes ask for."""
        return not self.parameters and self.path.startswith("/v1/")

    @property
    def summary(self) -> str:
        """The first sentence of the handler's docstring."""
        return (self.handler.__doc__ or "").partition("\n\n")[0].replace("\n    ", " ").strip()


ROUTES = (
    Route(
        path="/v1/search", handler=search_api.search, tag="search", answer="Page",
        parameters=SEARCH.parameters, errors=(400, 503), conditional=True,
    ),
    Route(
        path="/v1/search/enhanced", handler=search_api.search, tag="search", answer="Page",
        parameters=SEARCH.parameters, errors=(400, 503), conditional=True,
    ),
    Route(
        path="/v1/suggest", handler=search_api.suggest, tag="search", answer="Suggestions",
        parameters=SUGGEST.parameters, errors=(400,),
    ),
    Route(
        path="/v1/listings/{id}/history", handler=listing_api.history, tag="listings", answer="History",
        errors=(400, 404, 503), conditional=True,
    ),
    Route(
        path="/v1/listings/{id}/card", handler=listing_api.card, tag="listings", answer="Card",
        errors=(400, 404), conditional=True,
    ),
    Route(
        path="/v1/listings/{id}/proof", handler=proof_api.proof, tag="listings", answer="Proof",
        parameters=PROOF.parameters, errors=(400, 404, 503),
    ),
    Route(
        path="/v1/listings/{id}/recheck", method="POST", handler=recheck_api.recheck, tag="publishers",
        answer="Recheck", errors=(400, 404, 409), status=202, limit="ingest",
    ),
    Route(
        path="/v1/listings/{id}", handler=listing_api.listing, tag="listings", answer="Listing",
        errors=(400, 404), conditional=True,
    ),
    Route(
        path="/v1/quote", handler=quote_api.quote, tag="listings", answer="Quote", parameters=QUOTE.parameters,
        errors=(400, 404),
    ),
    Route(
        path="/v1/diagnose/{what}", handler=publisher_api.diagnose, tag="publishers", answer="Diagnosis",
        errors=(400, 503), limit="costly",
    ),
    Route(
        path="/v1/diagnose", method="POST", handler=publisher_api.diagnose_raw, tag="publishers", answer="Diagnosis",
        body="RawTransaction", errors=(400, 408, 413, 415, 503), limit="costly",
    ),
    Route(
        path="/v1/check", method="POST", handler=publisher_api.check, tag="publishers", answer="Check",
        parameters=CHECK.parameters, body="CardOrPrices", errors=(400, 408, 413, 415, 503), limit="costly",
    ),
    Route(
        path="/v1/ingest", method="POST", handler=ingest_api.ingest, tag="publishers", answer="Ingest",
        body="WantedTransaction", errors=(400, 408, 413, 415), status=202, limit="ingest",
    ),
    Route(
        path="/v1/changes", handler=changes_api.changes, tag="operation", answer="Changes",
        parameters=CHANGES.parameters, errors=(400,),
    ),
    Route(
        path="/v1/stream", handler=stream_api.stream, tag="operation", answer=None,
        parameters=STREAM_PARAMETERS.parameters, media=(STREAM,), errors=(400, 503), limit="stream",
    ),
    Route(path="/v1/status", handler=status_api.status, tag="operation", answer="Status", errors=(400,)),
    Route(path="/healthz", handler=status_api.healthz, tag="operation", answer="Health", limit=None),
    Route(path="/readyz", handler=status_api.readyz, tag="operation", answer="Health", errors=(503,), limit=None),
    Route(path="/metrics", handler=metrics_api.metrics, tag="operation", answer=None, media=(TEXT,)),
    Route(
        path="/openapi.json", handler=pages.openapi, tag="documentation", answer="OpenApi", conditional=True,
        limit=None,
    ),
    Route(
        path="/docs", handler=pages.docs, tag="documentation", answer="OpenApi", media=(HTML, JSON), conditional=True,
        limit=None,
    ),
    Route(
        path="/", handler=pages.search, tag="pages", answer="Page", parameters=SEARCH.parameters,
        media=(HTML, JSON), errors=(400, 503), conditional=True,
    ),
    Route(
        path="/listings/{id}", handler=pages.listing, tag="pages", answer="Listing", media=(HTML, JSON),
        errors=(404,), conditional=True,
    ),
    Route(
        path="/publish", handler=pages.publish, tag="pages", answer="Diagnosis", media=(HTML, JSON),
        errors=(400, 503), limit="costly",
    ),
    Route(
        path="/publish", method="POST", handler=pages.publish_pasted, tag="pages", answer="Diagnosis",
        media=(HTML, JSON), errors=(400, 408, 413, 415, 429, 503), limit="costly",
    ),
    Route(
        path="/logos/{digest}", handler=pages.logo, tag="pages", answer=None, media=(WEBP,), errors=(404,),
        conditional=True, limit="read",
    ),
    Route(path="/status", handler=pages.status, tag="pages", answer="Status", media=(HTML, JSON)),
    Route(
        path="/static/{name}", handler=pages.static, tag="pages", answer=None, media=(CSS, SCRIPT, SVG), errors=(404,),
        conditional=True, limit=None,
    ),
    Route(path="/robots.txt", handler=status_api.robots, tag="pages", answer=None, media=(TEXT,), limit=None),
)  # fmt: skip
