"""The routes of the API: path, parameters, handler and what may come back, from which the OpenAPI document is made."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial

from aiohttp import web

from overlay.api import (
    changes_api,
    listing_api,
    publisher_api,
    quote_api,
    search_api,
    status_api,
    verification_api,
)
from overlay.api.parameters import (
    CHANGES,
    CHECK,
    COMPARE,
    HEADERS,
    NONE,
    PROOF,
    QUOTE,
    SEARCH,
    SUGGEST,
    Parameter,
    Table,
)
from overlay.api.parameters import STREAM as STREAM_PARAMETERS
from overlay.api.problems import ProblemError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ErrorResponse = Callable[[web.Request, ProblemError, str], web.Response]
"""The response for a problem of a request with this request id."""

JSON, HTML, TEXT, CSS, STREAM = "application/json", "text/html", "text/plain", "text/css", "text/event-stream"
BINARY, FORM = "application/octet-stream", "application/x-www-form-urlencoded"
SCRIPT, SVG, WEBP, PNG, XML = "text/javascript", "image/svg+xml", "image/webp", "image/png", "application/xml"


_TOOLS = {"enhanced": "search", "listings": "get"}


@dataclass(frozen=True, slots=True)
class Route:
    """A path and method, its handler (with the summary as its docstring) and its documentation.

    `headers` are those that the handler reads; `answer` is the name of a schema, None where the response is not JSON;
    `media` the content types; `body` the schema of the request's body, and `body_media` its type; `status` the status
    of a successful response, `empty` others without a body, `errors` those of problems that not every route has;
    `limit` the name of the rate limit; `action` what a capability token must grant in the namespace `registry`, where
    one is presented (None: the route takes none). `error_response` makes the error shape of a foreign protocol, of
    content type `error_media`. `slash`: the path with a slash at its end is the same one, for
    clients that append it.
    """

    path: str
    handler: Handler
    answer: str | None
    _: KW_ONLY
    tag: str
    method: str = "GET"
    parameters: Table = NONE
    headers: tuple[Parameter, ...] = ()
    media: tuple[str, ...] = (JSON,)
    body: str | None = None
    body_media: str = JSON
    errors: tuple[int, ...] = ()
    conditional: bool = False
    status: int = 200
    empty: tuple[int, ...] = ()
    limit: str | None = "read"
    action: str | None = None
    error_response: ErrorResponse | None = None
    error_media: str = JSON
    slash: bool = False

    @property
    def pattern(self) -> str:
        """The path for aiohttp's router. An id may contain slashes, and line feeds for its handler to refuse."""
        return re.sub(r"{(id|what|server)}", r"{\1:(?s:.+)}", self.path) + ("{slash:/?}" if self.slash else "")

    @property
    def resource(self) -> str:
        """The resource that a capability token must grant: `tool:` and the name of the MCP tool that does the same,
        else the last word of the path."""
        word = [part for part in self.path.split("/") if part and "{" not in part][-1]
        return f"tool:{_TOOLS.get(word, word)}"

    @property
    def listing_in(self) -> str:
        """Where a request names the listing that the route acts on: `path`, `query`, or nowhere ("")."""
        named = self.parameters.names.get("id")
        return "path" if "{id}" in self.path else "query" if named and not named.many else ""

    @property
    def refuses_parameters(self) -> bool:
        """Whether any query parameter is an error. Not for pages, as sites add parameters to links, nor for health
        probes."""
        return not self.parameters.parameters and self.path.startswith("/v1/")

    @property
    def summary(self) -> str:
        """The first sentence of the handler's docstring."""
        return (self.handler.__doc__ or "").partition("\n\n")[0].replace("\n    ", " ").strip()


_search = partial(Route, tag="search", conditional=True, action="search")
_listing = partial(Route, tag="listings", errors=(404, 451), conditional=True, action="search")
_documents = partial(Route, tag="claims")
_publishing = partial(Route, tag="publishers", method="POST", limit="costly")
_operation = partial(Route, tag="operation")

ROUTES = (
    _search("/v1/search", search_api.search, "Page", parameters=SEARCH),
    _search("/v1/search/enhanced", search_api.search, "Page", parameters=SEARCH),
    _search("/v1/suggest", search_api.suggest, "Suggestions", parameters=SUGGEST),
    _listing("/v1/listings/{id}/history", listing_api.history, "History"),
    _listing("/v1/listings/{id}/card", listing_api.card, "Card"),
    _listing("/v1/listings/{id}/proof", listing_api.proof, "Proof", parameters=PROOF),
    _listing("/v1/listings/{id}/snippets", listing_api.snippets, "Snippets"),
    _listing("/v1/compare", listing_api.compare, "Comparison", parameters=COMPARE),
    _listing(
        "/v1/listings/{id}/findability", listing_api.findability, "Findability", limit="costly", conditional=False,
    ),
    _listing("/v1/listings/{id}/tools", listing_api.tools, "Tools"),
    _listing("/v1/headers", listing_api.headers, "Headers", parameters=HEADERS, errors=()),
    _publishing(
        "/v1/listings/{id}/recheck", publisher_api.recheck, "Recheck", errors=(404, 409, 451), status=202,
        limit="ingest", action="submit",
    ),
    _listing("/v1/listings/{id}", listing_api.listing, "ListingOrIds", empty=(303,)),
    _listing("/v1/quote", quote_api.quote, "Quote", parameters=QUOTE, conditional=False),
    _documents(
        "/v1/verify/{kind}", verification_api.verify, "Verdict", method="POST", body="Claim", limit="costly",
        errors=(400, 404, 408, 413, 415, 503),
    ),
    _publishing(
        "/v1/diagnose/{what}", publisher_api.diagnose, "Diagnosis", method="GET", errors=(451,), action="search",
    ),
    _publishing("/v1/diagnose", publisher_api.diagnose_raw, "Diagnosis", body="RawTransaction", action="search"),
    _publishing("/v1/check", publisher_api.check, "Check", parameters=CHECK, body="CardOrPrices"),
    _publishing(
        "/v1/ingest", publisher_api.ingest, "Ingest", body="WantedTransaction", status=202, limit="ingest",
        action="submit",
    ),
    _operation("/v1/changes", changes_api.changes, "Changes", parameters=CHANGES, conditional=True, action="search"),
    _operation(
        "/v1/stream", changes_api.stream, None, parameters=STREAM_PARAMETERS, media=(STREAM,), limit="stream",
        action="search",
    ),
    _operation("/v1/status", status_api.status, "Status", conditional=True),
    _operation(
        "/v1/hidden", status_api.hidden, "Hidden", errors=(404,), conditional=True, limit="costly", action="search",
    ),
    _operation("/healthz", status_api.healthz, "Health", limit=None),
    _operation("/readyz", status_api.readyz, "Health", limit=None),
    Route("/robots.txt", status_api.robots, None, tag="pages", media=(TEXT,), limit=None),
    Route(status_api.SECURITY_PATH, status_api.security_txt, None, tag="pages", media=(TEXT,), errors=(404,)),
)  # fmt: skip
