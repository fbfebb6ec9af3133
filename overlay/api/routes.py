"""The routes of the API: path, parameters, handler and what may come back, from which the OpenAPI document is made."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web

from overlay.api import (
    changes_api,
    claims_api,
    evidence_api,
    listing_api,
    payment_api,
    publisher_api,
    search_api,
    status_api,
)
from overlay.api.parameters import CHANGES, CHECK, EVIDENCE, HEADERS, PROOF, QUOTE, SEARCH, SUGGEST, Parameter
from overlay.api.parameters import STREAM as STREAM_PARAMETERS
from overlay.api.problems import ProblemError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ErrorResponse = Callable[[web.Request, ProblemError, str], web.Response]
"""The response for a problem of a request with this request id."""

JSON, HTML, TEXT, CSS, STREAM = "application/json", "text/html", "text/plain", "text/css", "text/event-stream"
BINARY, FORM = "application/octet-stream", "application/x-www-form-urlencoded"
SCRIPT, SVG, WEBP = "text/javascript", "image/svg+xml", "image/webp"


_TOOLS = {"enhanced": "search", "listings": "get"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A path and method, its handler (whose docstring is the summary) and its documentation.

    `headers` are those that the handler reads; `answer` is the name of a schema, None where the response is not JSON;
    `media` the content types; `body` the schema of the request's body, and `body_media` its type; `status` the status
    of a successful response, `empty` others without a body, `errors` those of problems that not every route has;
    `limit` the name of the rate limit; `action` what a capability token has to grant in the namespace `registry`, where
    one is presented (None: the route takes none). `error_response` makes the error shape of a foreign protocol, of
    content type `error_media`.
    """

    path: str
    handler: Handler
    tag: str
    answer: str | None
    method: str = "GET"
    parameters: tuple[Parameter, ...] = ()
    headers: tuple[Parameter, ...] = ()
    media: tuple[str, ...] = (JSON,)
    body: str | None = None
    body_media: str = JSON
    errors: tuple[int, ...] = ()
    conditional: bool = field(default=False)
    status: int = 200
    empty: tuple[int, ...] = ()
    limit: str | None = "read"
    action: str | None = None
    error_response: ErrorResponse | None = None
    error_media: str = JSON

    @property
    def pattern(self) -> str:
        """The path for aiohttp's router. An id may contain slashes, and line feeds for its handler to refuse."""
        return re.sub(r"{(id|what|server)}", r"{\1:(?s:.+)}", self.path)

    @property
    def resource(self) -> str:
        """The resource that a capability token has to grant: `tool:` and the name of the MCP tool that does the same,
        else the last word of the path."""
        word = [part for part in self.path.split("/") if part and "{" not in part][-1]
        return f"tool:{_TOOLS.get(word, word)}"

    @property
    def refuses_parameters(self) -> bool:
        """Whether any query parameter is an error. Not for pages, whose links get decorated, nor for health probes."""
        return not self.parameters and self.path.startswith("/v1/")

    @property
    def summary(self) -> str:
        """The first sentence of the handler's docstring."""
        return (self.handler.__doc__ or "").partition("\n\n")[0].replace("\n    ", " ").strip()


ROUTES = (
    Route(
        path="/v1/search", handler=search_api.search, tag="search", answer="Page",
        parameters=SEARCH.parameters, conditional=True, action="search",
    ),
    Route(
        path="/v1/search/enhanced", handler=search_api.search, tag="search", answer="Page",
        parameters=SEARCH.parameters, conditional=True, action="search",
    ),
    Route(
        path="/v1/suggest", handler=search_api.suggest, tag="search", answer="Suggestions",
        parameters=SUGGEST.parameters, conditional=True, action="search",
    ),
    Route(
        path="/v1/listings/{id}/history", handler=listing_api.history, tag="listings", answer="History",
        errors=(404,), conditional=True, action="search",
    ),
    Route(
        path="/v1/listings/{id}/card", handler=listing_api.card, tag="listings", answer="Card",
        errors=(404,), conditional=True, action="search",
    ),
    Route(
        path="/v1/listings/{id}/proof", handler=listing_api.proof, tag="listings", answer="Proof",
        parameters=PROOF.parameters, errors=(404,), conditional=True, action="search",
    ),
    Route(
        path="/v1/headers", handler=listing_api.headers, tag="listings", answer="Headers",
        parameters=HEADERS.parameters, conditional=True, action="search",
    ),
    Route(
        path="/v1/listings/{id}/recheck", method="POST", handler=publisher_api.recheck, tag="publishers",
        answer="Recheck", errors=(404, 409), status=202, limit="ingest", action="submit",
    ),
    Route(
        path="/v1/listings/{id}/evidence", handler=evidence_api.evidence, tag="listings", answer="Evidence",
        parameters=EVIDENCE.parameters, errors=(404,), conditional=True, action="search",
    ),
    Route(
        path="/v1/listings/{id}", handler=listing_api.listing, tag="listings", answer="Listing",
        errors=(404,), conditional=True, action="search",
    ),
    Route(
        path="/v1/quote", handler=payment_api.quote, tag="listings", answer="Quote", parameters=QUOTE.parameters,
        errors=(404,), action="search",
    ),
    Route(
        path="/v1/pay/check", method="POST", handler=payment_api.check_payment, tag="listings", answer="PaymentCheck",
        body="PaymentClaim", errors=(404,), limit="costly", action="search",
    ),
    Route(
        path="/v1/verify/{kind}", method="POST", handler=claims_api.verify, tag="claims", answer="Verdict",
        body="Claim", errors=(400, 404, 408, 413, 415, 503), limit="costly",
    ),
    Route(
        path="/v1/delegations/revocations", handler=claims_api.revocations, tag="claims", answer="Revocations",
        parameters=claims_api.REVOCATIONS.parameters,
    ),
    Route(
        path="/v1/delegations/revocations", method="POST", handler=claims_api.revoke, tag="claims",
        answer="Revoked", body="Revocation", errors=(401,), limit="ingest",
    ),
    Route(
        path="/v1/evidence", method="POST", handler=evidence_api.submit, tag="claims", answer="AcceptedEvidence",
        body="EvidenceOfWork", errors=(400, 404, 408, 413, 415, 503), limit="costly", action="rate",
    ),
    Route(
        path="/v1/evidence/{sha256}", handler=evidence_api.document, tag="claims", answer="ClaimDocument",
        errors=(404,), action="search",
    ),
    Route(
        path="/v1/diagnose/{what}", handler=publisher_api.diagnose, tag="publishers", answer="Diagnosis",
        limit="costly", action="search",
    ),
    Route(
        path="/v1/diagnose", method="POST", handler=publisher_api.diagnose_raw, tag="publishers", answer="Diagnosis",
        body="RawTransaction", limit="costly", action="search",
    ),
    Route(
        path="/v1/check", method="POST", handler=publisher_api.check, tag="publishers", answer="Check",
        parameters=CHECK.parameters, body="CardOrPrices", limit="costly",
    ),
    Route(
        path="/v1/ingest", method="POST", handler=publisher_api.ingest, tag="publishers", answer="Ingest",
        body="WantedTransaction", status=202, limit="ingest", action="submit",
    ),
    Route(
        path="/v1/changes", handler=changes_api.changes, tag="operation", answer="Changes",
        parameters=CHANGES.parameters, conditional=True, action="search",
    ),
    Route(
        path="/v1/stream", handler=changes_api.stream, tag="operation", answer=None,
        parameters=STREAM_PARAMETERS.parameters, media=(STREAM,), limit="stream", action="search",
    ),
    Route(
        path="/v1/status", handler=status_api.status, tag="operation", answer="Status", conditional=True,
    ),
    Route(path="/healthz", handler=status_api.healthz, tag="operation", answer="Health", limit=None),
    Route(path="/readyz", handler=status_api.readyz, tag="operation", answer="Health", limit=None),
    Route(path="/robots.txt", handler=status_api.robots, tag="pages", answer=None, media=(TEXT,), limit=None),
)  # fmt: skip
