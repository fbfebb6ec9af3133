"""The API page and the OpenAPI document that it is made from."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from aiohttp import web
from markupsafe import Markup, escape

from overlay.api.answers import OPENAPI, REVALIDATE, json_bytes, not_modified, unchanged, weak_etag
from overlay.api.problems import NotFoundError
from overlay.text.compact_json import encode
from overlay.web.rendering import revalidated_page, wants_json

_REFERENCE = re.compile(r"'#/components/schemas/(\w+)'")
_MANY = 5
"""Operations with more parameters than these refer to the first one with the same."""


async def openapi(request: web.Request) -> web.Response:
    """The OpenAPI 3.1 document."""
    body = encode(request.app[OPENAPI])
    headers = {"ETag": weak_etag(body), "Cache-Control": REVALIDATE}
    return not_modified(headers) if unchanged(request, headers["ETag"]) else json_bytes(body, headers=headers)


async def api_page(request: web.Request) -> web.Response:
    """The routes of the HTTP API, made from the OpenAPI document, or that document when Accept prefers JSON."""
    if wants_json(request):
        return await openapi(request)
    document = request.app[OPENAPI]
    return revalidated_page(request, "api.html", api=document, tags=_by_tag(document), coded=coded)


async def api_group(request: web.Request) -> web.Response:
    """One group of routes with their parameters, answers and shapes."""
    document, tag = request.app[OPENAPI], request.match_info["tag"]
    operations = _by_tag(document).get(tag)
    if operations is None:
        raise NotFoundError(f"the API has no group {tag[:100]!a}; /docs/api lists its groups")
    schemas = _schemas_of([operation for _, _, operation in operations], document["components"]["schemas"])
    first = _first_with([operation for _, _, operation in operations])
    values = {"tag": tag, "operations": operations, "schemas": schemas, "type_of": type_of, "first_with": first}
    return revalidated_page(request, "api_group.html", coded=coded, **values)


def _by_tag(document: dict[str, Any]) -> dict[str, list[tuple[str, str, dict[str, Any]]]]:
    """Operations as (method, path, operation), by tag, in the order of the table."""
    tags: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tags.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    return tags


def _schemas_of(operations: list[dict[str, Any]], schemas: dict[str, Any]) -> dict[str, Any]:
    """The schemas that operations refer to, directly or through others, with errors' own, by name in order."""
    names, pending = {"Problem"}, [repr(operations), repr(schemas["Problem"])]
    while pending:
        for name in _REFERENCE.findall(pending.pop()):
            if name not in names:
                names.add(name)
                pending.append(repr(schemas[name]))
    return {name: schema for name, schema in schemas.items() if name in names}


def _first_with(operations: list[dict[str, Any]]) -> Callable[[dict[str, Any]], str]:
    """A function from an operation to the id of the first one with the same parameters; to its own id where they are
    few."""
    first: dict[str, str] = {}
    for operation in operations:
        first.setdefault(repr(operation["parameters"]), operation["operationId"])

    def first_operation(operation: dict[str, Any]) -> str:
        many = len(operation["parameters"]) > _MANY
        own: str = operation["operationId"]
        return first[repr(operation["parameters"])] if many else own

    return first_operation


def type_of(schema: dict[str, Any]) -> str:
    """A schema in a few words: `string`, `Item`, `list of Offer`, `live or burned`, `string or null`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " or ".join(schema["enum"])
    if schema.get("const") == "":
        return "empty"
    if "type" not in schema and ("anyOf" in schema or "oneOf" in schema):
        return " or ".join(map(type_of, schema.get("anyOf", schema.get("oneOf", ()))))
    if schema.get("type") == "array":
        return f"list of {type_of(schema['items'])}"
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def coded(text: str) -> Markup:
    """A description as HTML, with text in backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one of them has no second one
        return escape(text)
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if number % 2 else escape(part) for number, part in enumerate(parts))
