"""Templates and HTML responses: escaped, under a policy that forbids loading anything from elsewhere, and below 100 kB
with all assets, for any card."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from overlay.api.answers import REVALIDATE, SERVICES, Answer, not_modified, unchanged, weak_etag
from overlay.api.problems import ProblemError
from overlay.api.site_links import SITE
from overlay.publish.trace import tone
from overlay.text.interval_words import in_words, per
from overlay.text.rating_words import rating_words
from overlay.text.safe_text import visible
from overlay.text.severity_words import severity_words
from overlay.web.amounts import percent, short
from overlay.web.assets import asset_url, assets
from overlay.web.badges import warning_text

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


_URL = re.compile(r"https?://([^/\s:]+)\S*")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("overlay.web", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
        auto_reload=False,
    )
    filters = (segment, per, rating_words, moment, percent, sentence, severity_words, warning_text, tone, in_words)
    environment.filters |= {function.__name__: function for function in filters}
    environment.filters |= {"web": web_link, "asset": asset_url, "feed": feed_name, "hosts": hosts_only}
    environment.filters["short"] = lambda amount: short(Decimal(amount))
    return environment


def _shown(value: object) -> object:
    """The value of a template expression as it is inserted: None is empty, invisible characters are made visible."""
    return "" if value is None else visible(value) if type(value) is str else value


def web_link(url: str) -> str:
    """A stranger's URL as a link target: empty unless it is http or https."""
    return url if url.lower().startswith(("https://", "http://")) and visible(url) == url else ""


def segment(text: str) -> str:
    """An id as one percent-encoded path segment."""
    return quote(text, safe="")


def moment(iso: str) -> str:
    """A time for people: `2025-04-20T12:00:00Z` is `2025-04-20 12:00 UTC`."""
    return f"{iso[:10]} {iso[11:16]} UTC"


def feed_name(source: str) -> str:
    """The name of a rate feed: the host of its URL."""
    return (urlsplit(source).hostname or source)[:100]


def hosts_only(text: str) -> str:
    """A message with URLs replaced by their hosts."""
    return _URL.sub(lambda match: match[1], text)


def sentence(text: str) -> str:
    """A message of the program as a sentence: capital letter and full stop."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def render(template: str, **values: Any) -> bytes:
    """A rendered template as UTF-8. `here` is the path of the page in the navigation, `site` has its
    title and links."""
    return (
        _environment()
        .get_template(template)
        .render({"here": "", "site": SITE.get(), **values})
        .encode("utf-8", "replace")
    )


def fragment(template: str, **values: Any) -> Markup:
    """A rendered part of a page, for use in another template."""
    return Markup(_environment().get_template(template).render(values))  # noqa: S704 - the template escapes


def html_answer(
    body: bytes, *, status: int = 200, etag: str | None = None, connects: Sequence[str] = ()
) -> web.Response:
    """A page; with an entity tag where it may be cached. `connects` are the origins that its scripts may call besides
    this server."""
    caching = {"ETag": etag, "Cache-Control": REVALIDATE} if etag else {"Cache-Control": "no-store"}
    answer = Answer(body=body, status=status, headers={**_HEADERS, **caching})
    if connects:
        wider = " ".join(["connect-src 'self'", *connects])
        answer.headers["Content-Security-Policy"] = _POLICY.replace("connect-src 'self'", wider)
    return answer


def wants_json(request: web.Request) -> bool:
    """Whether Accept prefers JSON to HTML (RFC 9110 §12.5.1); HTML in doubt."""
    accept = request.headers.get("Accept")
    return accept is not None and _preference(accept, "application/json") > _preference(accept, "text/html")


def names_html(request: web.Request) -> bool:
    """Whether Accept names HTML, as browsers do, and does not prefer JSON."""
    accept = request.headers.get("Accept", "")
    return _preference(accept, "text/html")[1] == _NAMED and not wants_json(request)


_NAMED = 2


def _preference(accept: str, media: str) -> tuple[float, int]:
    """The (quality, specificity) of the most specific media range that matches; quality 0 is a refusal."""
    best = (0.0, -1)
    for part in accept.lower().split(",")[:32]:
        name, *parameters = (piece.strip() for piece in part.split(";"))
        specificity = _specificity(name, media)
        if specificity > best[1]:
            best = (_quality(parameters), specificity)
    return best if best[0] > 0 else (0.0, -1)


def _specificity(name: str, media: str) -> int:
    """2 for the media type itself, 1 for its family, 0 for `*/*`, -1 for what does not match."""
    ranges = ("*/*", f"{media.partition('/')[0]}/*", media)
    return ranges.index(name) if name in ranges else -1


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            digits = parameter[2:]
            return float(digits) if digits.replace(".", "", 1).isdecimal() and digits.isascii() else 0.0
    return 1.0


def page_etag(request: web.Request, *parts: object) -> str:
    """A weak entity tag of a page: of the program's version, of the static files and the site's links, and of
    `parts`."""
    looks = tuple(asset.version for asset in assets().values())
    return weak_etag("html", request.app[SERVICES].process.version, looks, SITE.get(), *parts)


def revalidated_page(request: web.Request, template: str, **values: object) -> web.Response:
    """A page of the documentation, or 304 where the client has it."""
    etag = page_etag(request)
    if unchanged(request, etag):
        return not_modified({"ETag": etag, "Cache-Control": REVALIDATE})
    return html_answer(render(template, here="/docs", **values), etag=etag)


_API = "/v1/"


def for_people(request: web.Request, problem: ProblemError, request_id: str) -> web.Response | None:
    """A problem as a page for browsers outside the API, else None."""
    return problem_page(problem, request_id) if not request.path.startswith(_API) and names_html(request) else None


def problem_page(problem: ProblemError, request_id: str = "") -> web.Response:
    """A problem as a page; a 500 with its request id, under which the log has the reason."""
    details = [fault.detail for fault in problem.faults] or [problem.detail]
    answer = html_answer(
        render(
            "problem.html",
            title=HTTPStatus(problem.status).phrase.capitalize(),
            details=details[:20],
            request_id=request_id if problem.status == HTTPStatus.INTERNAL_SERVER_ERROR else "",
        ),
        status=problem.status,
    )
    answer.headers.update(problem.headers)
    return answer


PAGE_BYTES = 65_000
"""Bytes of a page: style sheet, scripts, a logo and later updates fit beside it into 100 kB."""

REGISTER_BYTES = 63_500
"""Bytes of the page Register with the script that calls a wallet, within the same limit."""

LISTING_BYTES = 57_600
"""Bytes of a listing's page with the script that verifies the proof, within the same limit."""

WITH_LOGOS = 64_400
"""Bytes of a page of results with the logos on it, each taken for one of LOGO_BYTES (1,300): style sheet, scripts and
completions fit beside them into 100 kB. So 20 logos, 26 kB, go with a page of 39 kB, where 20 usual cards make one of
20 to 40."""

_SCALES = (1.0, 0.5, 0.2, 0.06)

T = TypeVar("T")


def cut(text: str, most: int) -> str:
    """A text of at most `most` characters, ending in an ellipsis where it was longer."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


@dataclass(frozen=True, slots=True)
class Measure:
    """How much of texts and lists is shown: the usual amount times `scale`."""

    scale: float = 1.0

    def text(self, value: str, most: int) -> str:
        """At most so many characters of a text."""
        return cut(value, max(8, int(most * self.scale)))

    def some(self, values: Sequence[T], most: int) -> Sequence[T]:
        """At most so many entries of a list."""
        return values[: max(2, int(most * self.scale))]

    def left(self, values: Sequence[T], most: int) -> int:
        """How many entries `some` leaves out."""
        return len(values) - len(self.some(values, most))


def render_within(template: str, room: int, **values: Any) -> bytes:
    """A template rendered at the largest scale with which it fits, with the Measure `m`; usual pages are rendered
    once."""
    body = b""
    for scale in _SCALES:
        body = render(template, m=Measure(scale), **values)
        if len(body) <= room:
            break
    return body
