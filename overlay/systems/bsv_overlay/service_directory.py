"""Routes that list the topic and the lookup services, and return their documentation."""

from __future__ import annotations

from functools import partial
from typing import Any

from aiohttp import web

from overlay.answers.schema_parts import record
from overlay.api.answers import MARKDOWN, SERVICES, conditional, markdown
from overlay.api.parameters import parameter, table
from overlay.api.problems import bad_request
from overlay.api.routes import Handler, Route
from overlay.api.values import shown
from overlay.systems.bsv_overlay.express_routes import express_route
from overlay.systems.bsv_overlay.host_tokens import unnamed_reason
from overlay.systems.bsv_overlay.service_names import LOOKUPS, SHIP, SLAP, TOPICS, OverlayService, by_name, names
from overlay.text.compact_json import encode

_TEXT = {"type": "string"}


async def topic_managers(request: web.Request) -> web.Response:
    """The topics of this overlay by name (overlay-express)."""
    return _listed(request, TOPICS)


async def lookup_services(request: web.Request) -> web.Response:
    """The lookup services of this overlay by name (overlay-express)."""
    return _listed(request, LOOKUPS)


async def topic_documentation(request: web.Request) -> web.Response:
    """The documentation of a topic as Markdown (overlay-express)."""
    return _documentation(request, TOPICS, "manager")


async def lookup_documentation(request: web.Request) -> web.Response:
    """The documentation of a lookup service as Markdown (overlay-express)."""
    return _documentation(request, LOOKUPS, "lookupService")


def _listed(request: web.Request, services: tuple[OverlayService, ...]) -> web.Response:
    version = request.app[SERVICES].process.version
    listed = {service.name: service.as_json(version) | _note(request, service) for service in services}
    return conditional(encode(listed))


def _note(request: web.Request, service: OverlayService) -> dict[str, str]:
    """Why a lookup service of hosts returns nothing, where it does."""
    reason = unnamed_reason(request.app[SERVICES]) if service.name in (SHIP, SLAP) else None
    return {"note": f"returns no output: {reason}"} if reason else {}


def _documentation(request: web.Request, services: tuple[OverlayService, ...], named: str) -> web.Response:
    name = request.query.get(named, "")
    service = by_name(services, name)
    if service is None:
        every = ", ".join(service.name for service in services)
        detail = f"{named} is {shown(name)}: one of {every}" if name else f"{named} is missing: one of {every}"
        raise bad_request("unknown-service" if name else "missing", detail, named)
    note = "".join(f"\nThis server {text}.\n" for text in _note(request, service).values())
    return markdown(service.documentation + note)


_list = partial(express_route, answer="OverlayServices", conditional=True)


def _documentation_route(path: str, handler: Handler, name: str, services: tuple[OverlayService, ...]) -> Route:
    named = table(parameter(name, "The service's name.", required=True, enum=names(services)))
    return express_route(path, handler, None, media=(MARKDOWN,), parameters=named, conditional=True)


ROUTES = (
    _list("/listTopicManagers", topic_managers),
    _list("/listLookupServiceProviders", lookup_services),
    _documentation_route("/getDocumentationForTopicManager", topic_documentation, "manager", TOPICS),
    _documentation_route("/getDocumentationForLookupServiceProvider", lookup_documentation, "lookupService", LOOKUPS),
)

_SERVICE = record(
    {"name": _TEXT, "shortDescription": _TEXT, "version": _TEXT},
    {"aliases": {"type": "array", "items": _TEXT}, "note": _TEXT},
)
SCHEMAS: dict[str, Any] = {"OverlayServices": {"type": "object", "additionalProperties": _SERVICE}}
