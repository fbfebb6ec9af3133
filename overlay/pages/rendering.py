"""Templates to HTML answers: escaped, under a policy that lets a page load nothing but what is served beside it."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import quote

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from overlay.api.answers import REVALIDATE, SERVICES, Answer, weak_etag
from overlay.pages.amounts import percent
from overlay.pages.assets import asset_url, assets
from overlay.pages.warned import told
from overlay.periods import per
from overlay.visible import visible

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


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("overlay.pages", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
        auto_reload=False,
    )
    environment.filters["web"] = web_link
    environment.filters["segment"] = segment
    environment.filters["per"] = per
    environment.filters["asset"] = asset_url
    environment.filters["moment"] = moment
    environment.filters["percent"] = percent
    environment.filters["sentence"] = sentence
    environment.filters["told"] = told
    return environment


def _shown(value: object) -> object:
    """What an expression of a template may put into a page."""
    return "" if value is None else visible(value) if type(value) is str else value


def web_link(url: str) -> str:
    """A stranger's URL as the target of a link: empty unless it is http or https, so that it can run nothing."""
    return url if url.lower().startswith(("https://", "http://")) and visible(url) == url else ""


def segment(text: str) -> str:
    """An id as one percent-encoded path segment."""
    return quote(text, safe="")


def moment(iso: str) -> str:
    """A time as people read it: `2025-04-20T12:00:00Z` is `2025-04-20 12:00 UTC`."""
    return f"{iso[:10]} {iso[11:16]} UTC"


def sentence(text: str) -> str:
    """A message of the program as a sentence of a page."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def render(template: str, **values: Any) -> bytes:
    """A template of this folder as UTF-8. `here` is the path of the page among those of the header."""
    return _environment().get_template(template).render({"here": "", **values}).encode("utf-8", "replace")


def fragment(template: str, **values: Any) -> Markup:
    """A part of a page, to be put into another template as it is."""
    return Markup(_environment().get_template(template).render(values))  # noqa: S704 - the template escapes


def html_answer(body: bytes, *, status: int = 200, etag: str | None = None) -> web.Response:
    """A page; with an entity tag when it may be kept and asked for again."""
    caching = {"ETag": etag, "Cache-Control": REVALIDATE} if etag else {"Cache-Control": "no-store"}
    return Answer(body=body, status=status, headers={**_HEADERS, **caching})


def wants_json(request: web.Request) -> bool:
    """Whether Accept prefers JSON to HTML (RFC 9110 §12.5.1); in doubt a person is looking."""
    accept = request.headers.get("Accept")
    return accept is not None and _preference(accept, "application/json") > _preference(accept, "text/html")


def names_html(request: web.Request) -> bool:
    """Whether Accept names HTML, as browsers do and programs do not, and does not prefer JSON."""
    accept = request.headers.get("Accept", "")
    return _preference(accept, "text/html")[1] == _NAMED and not wants_json(request)


_NAMED = 2


def _preference(accept: str, media: str) -> tuple[float, int]:
    """(quality, specificity) of the most specific range that matches; a quality of 0 is a refusal."""
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
    """A weak entity tag of a page: of the program's version, which changes templates, of what pages load, and of what
    this one shows."""
    looks = tuple(each.version for each in assets().values())
    return weak_etag("html", request.app[SERVICES].version, looks, *parts)
