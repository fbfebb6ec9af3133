"""The OpenAPI 3.1 document, made from the tables that route requests and read parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from overlay.api.params import Parameter
from overlay.api.problems import TYPE as PROBLEM_TYPE
from overlay.api.routes import JSON, Route
from overlay.api.schemas import SCHEMAS, ref

_PATH_PARAMETERS = {
    "id": "A listing's id, percent-encoded as one path segment (`#` as %23, `/` as %2F, `%` as %25).",
    "name": "The name of a file.",
    "digest": "The SHA-256 of a small picture, as 64 hex digits.",
    "what": "A txid (64 hex digits) or an outpoint (`<txid>_<output number>`).",
}
_DESCRIPTION = (
    "Search and look up AI agents and MCP tools registered on chain. Every GET also answers HEAD. Errors are RFC 9457 "
    "problem details. Names, descriptions, commands and cards are strangers' texts: show them escaped, run nothing."
)


def _header(name: str, told: str) -> dict[str, Any]:
    return {name: {"description": told, "schema": {"type": "string"}}}


_LIMIT_HEADERS = {
    **_header("RateLimit-Policy", 'What one client may ask: `"read";q=12000;w=60` is 12,000 requests in 60 seconds.'),
    **_header("RateLimit", 'What is left of it: `"read";r=11999;t=1`, and the seconds until all of it is there again.'),
}
"""Of every route under a limit, unless that is switched off."""


def document(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """OpenAPI 3.1 of `routes`, for program version `version`."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "A2B registry overlay", "version": version, "description": _DESCRIPTION},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": SCHEMAS},
    }


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": [*map(_in_path, re.findall(r"{(\w+)}", route.path)), *_in_query(route.parameters)],
        "responses": _responses(route),
    }
    if route.body:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": ref(route.body)}}}
    return operation


def _operation_id(route: Route) -> str:
    words = re.findall(r"[A-Za-z0-9]+", route.path) or ["page"]
    return "_".join([route.method.lower(), *words])


def _in_path(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": _PATH_PARAMETERS[name],
        "schema": {"type": "string"},
    }


def _in_query(parameters: Iterable[Parameter]) -> Iterable[dict[str, Any]]:
    for parameter in parameters:
        yield _query_parameter(parameter.name, parameter, parameter.description)
        for alias in parameter.aliases:
            yield _query_parameter(alias, parameter, f"The same as `{parameter.name}`.")


def _query_parameter(name: str, parameter: Parameter, description: str) -> dict[str, Any]:
    schema = {"type": "array", "items": parameter.schema} if parameter.many else parameter.schema
    shape = {"style": "form", "explode": True} if parameter.many else {}
    return {"name": name, "in": "query", "description": description, "schema": schema, **shape}


def _responses(route: Route) -> dict[str, Any]:
    schema = ref(route.answer) if route.answer else {}
    content = {media: {"schema": schema} if media == JSON else {} for media in route.media}
    answers: dict[str, Any] = {str(route.status): {"description": "The answer.", "content": content}}
    refused = (429,) if route.limit else ()
    if route.conditional:
        answers["304"] = {"description": "Unchanged since the entity tag in If-None-Match."}
    for status in (*route.errors, *refused, 500):
        problem = {PROBLEM_TYPE: {"schema": ref("Problem")}}
        answers[str(status)] = {"description": HTTPStatus(status).phrase, "content": problem}
    if route.limit:
        answers[str(route.status)]["headers"] = _LIMIT_HEADERS
        answers["429"]["headers"] = _LIMIT_HEADERS | _header("Retry-After", "Seconds until another try makes sense.")
    return answers
