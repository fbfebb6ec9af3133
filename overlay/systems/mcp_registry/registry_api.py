"""The MCP Registry API, v0.1 and v0, read-only: every tool is a server, every revision of it a version. At the root and
under `/registry`."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Any

from aiohttp import web

from overlay.api import openapi, values
from overlay.api.answers import SERVICES, conditional, json_answer
from overlay.api.base_url import base_url
from overlay.api.executors import RECORDS, run_in
from overlay.api.parameters import MOMENT, page_size, parameter, read_query, table
from overlay.api.problems import TYPE as PROBLEM_TYPE
from overlay.api.problems import NotFoundError, ProblemError, bad_request
from overlay.api.routes import Route
from overlay.api.systems import SystemApi
from overlay.listings.repository import ListingRepository
from overlay.systems.mcp_registry.server_json import response
from overlay.systems.mcp_registry.server_names import listings_named
from overlay.systems.mcp_registry.server_pages import ServerQuery, page
from overlay.systems.mcp_registry.server_versions import ServerVersion, versions
from overlay.text.compact_json import encode

YAML = "application/yaml"
_UPSTREAM = "https://github.com/modelcontextprotocol/registry"
_READ_ONLY = "this registry is read from chains: inscribe the server's config as `a2b-mcp` to publish it, see /docs"


_DELETED = parameter("include_deleted", "Also servers whose registration is burned.", values.truth, type="boolean")
_LIST = table(
    parameter("cursor", "The `nextCursor` of the page before."),
    page_size("limit", "Versions a page: 30, at most 100."),
    parameter("search", "Words to find, as in `/v1/search`; or a server's name.", values.words),
    parameter(
        "updated_since",
        "Published, replaced, deprecated (or not any more) or deleted at or after this time (RFC 3339).",
        values.moment,
        **MOMENT,
    ),
    parameter("version", "`latest`: the newest version of each server; else exactly this one."),
    _DELETED,
)
_SERVER_PARAMETERS = table(_DELETED)


async def servers(request: web.Request) -> web.Response:
    """Servers in all versions, page by page."""
    read = read_query(request, _LIST)
    since, deleted = read.get("updated_since"), read.get("include_deleted")
    if since is not None and deleted is False:
        detail = "updated_since includes deleted servers: leave include_deleted out"
        raise bad_request("conflict", detail, "include_deleted")
    query = ServerQuery(
        read.get("search", ""), read.get("version", ""), since, bool(deleted) or since is not None,
        read.get("limit", 30), read.get("cursor", ""),
    )  # fmt: skip
    rows, following = await page(request, query)
    return _list(request, rows, str(following) if following else "")


async def server_versions(request: web.Request) -> web.Response:
    """All versions of a server, the newest first."""
    return _list(request, await _versions(request), "")


async def server_version(request: web.Request) -> web.Response:
    """One version of a server, or its latest."""
    version_text = request.match_info.get("version", "latest")
    for version in await _versions(request):
        if version.version == version_text or (version_text == "latest" and version.latest):
            return conditional(encode(response(base_url(request), version)))
    raise NotFoundError(f"the server has no version {version_text[:100]!a}")


async def refuse(_: web.Request) -> web.Response:
    """Not implemented, as the registry's own document has it: servers are published by inscribing them."""
    raise ProblemError(501, _READ_ONLY)


async def health(_: web.Request) -> web.Response:
    """Whether the server answers."""
    return json_answer({"status": "ok"})


async def ping(_: web.Request) -> web.Response:
    """Whether the server answers."""
    return json_answer({"pong": True})


async def program_version(request: web.Request) -> web.Response:
    """The version of the program."""
    return json_answer({"version": request.app[SERVICES].process.version})


async def openapi_yaml(request: web.Request) -> web.Response:
    """The OpenAPI document of this API, as JSON, which is YAML (1.2)."""
    document = openapi.document(_routes(""), "1.0.0")
    mount = request.path.removesuffix("/openapi.yaml")
    document["info"] = {
        "title": "MCP Registry API of an A2B overlay",
        "version": "1.0.0",
        "description": f"Read-only subregistry. The API is that of the MCP Registry, {_UPSTREAM}.",
    }
    document |= {"servers": [{"url": base_url(request) + mount}], "components": {"schemas": SCHEMAS}}
    answer = conditional(encode(document))
    answer.content_type = YAML
    return answer


def _list(request: web.Request, rows: list[ServerVersion], following: str) -> web.Response:
    metadata: dict[str, Any] = {"count": len(rows)} | ({"nextCursor": following} if following else {})
    base = base_url(request)
    return conditional(encode({"servers": [response(base, row) for row in rows], "metadata": metadata}))


async def _versions(request: web.Request) -> list[ServerVersion]:
    """The versions of the server that the path names. Raises ListingNotFoundError, NotFoundError."""
    read = read_query(request, _SERVER_PARAMETERS)
    name = request.match_info["server"]
    rows = await run_in(request, RECORDS, _all_versions, request.app[SERVICES].store, name)
    if not rows:
        raise NotFoundError(f"the server {name[:200]!a} is not confirmed yet")
    if rows[0].deleted and not read.get("include_deleted"):
        raise NotFoundError(f"the server {name[:200]!a} is deleted: its registration is burned")
    return rows


def _all_versions(repository: ListingRepository, name: str) -> list[ServerVersion]:
    return versions(repository, listings_named(repository, name if "/" in name else f"{name}/")[:1])[0]


def error_response(_request: web.Request, problem: ProblemError, _request_id: str) -> web.Response:
    """The error of a registry: problem details with `message` and `location` in `errors`, and the member `error` of its
    OpenAPI document."""
    errors = [
        {"message": fault.detail, "location": f"query.{fault.parameter}" if fault.parameter else "path"}
        for fault in problem.faults
    ]
    title = HTTPStatus(problem.status).phrase
    members = {"title": title, "status": problem.status, "detail": problem.detail, "errors": errors}
    members["error"] = problem.detail
    headers = {"Content-Type": PROBLEM_TYPE, "Cache-Control": "no-store"}
    return web.Response(body=encode(members), status=problem.status, headers=headers)


_OBJECT = {"type": "object"}
SCHEMAS: dict[str, Any] = {
    "ServerResponse": {
        **_OBJECT,
        "description": "A server.json (schema 2025-12-11) and what this registry says of it.",
        "required": ["server", "_meta"],
        "properties": {"server": {**_OBJECT, "required": ["name", "description", "version"]}, "_meta": _OBJECT},
    },
    "ServerList": {
        **_OBJECT,
        "required": ["servers", "metadata"],
        "properties": {
            "servers": {"type": "array", "items": {"$ref": "#/components/schemas/ServerResponse"}},
            "metadata": {
                **_OBJECT,
                "required": ["count"],
                "properties": {"count": {"type": "integer"}, "nextCursor": {"type": "string"}},
            },
        },
    },
    "RegistryState": _OBJECT,
}


_route = partial(Route, tag="MCP Registry", error_response=error_response, error_media=PROBLEM_TYPE)


_one_route = partial(_route, parameters=_SERVER_PARAMETERS, errors=(404, 451), conditional=True)
_refused = partial(_route, handler=refuse, answer=None, errors=(501,))
_state_route = partial(_route, answer="RegistryState", limit=None)


def _routes(mount: str) -> list[Route]:
    """The routes of the API below a path."""
    routes = []
    for root in (f"{mount}/v0.1", f"{mount}/v0"):
        version_path = f"{root}/servers/{{server}}/versions/{{version}}"
        routes += [
            _route(f"{root}/servers", servers, "ServerList", parameters=_LIST, conditional=True),
            _refused(f"{version_path}/status", method="PATCH"),
            _one_route(version_path, server_version, "ServerResponse"),
            *(_refused(version_path, method=method) for method in ("PUT", "DELETE")),
            _one_route(f"{root}/servers/{{server}}/versions", server_versions, "ServerList"),
            _one_route(f"{root}/servers/{{server}}", server_version, "ServerResponse"),
            _refused(f"{root}/publish", method="POST"),
            _state_route(f"{root}/health", health),
            _state_route(f"{root}/ping", ping),
            _state_route(f"{root}/version", program_version),
        ]
    return [*routes, _route(f"{mount}/openapi.yaml", openapi_yaml, None, media=(YAML,), conditional=True)]


API = SystemApi(routes=(*_routes(""), *_routes("/registry")), schemas=SCHEMAS)
