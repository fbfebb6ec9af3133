"""The documentation: the OpenAPI document, and the same as a page to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web
from markupsafe import Markup, escape

from overlay.api.answers import OPENAPI, REVALIDATE, json_bytes, not_modified, unchanged, weak_etag
from overlay.compact import encode
from overlay.pages.rendering import html_answer, page_etag, render, wants_json

_MANY = 5
"""Parameters that are not told twice."""


async def openapi(request: web.Request) -> web.Response:
    """The OpenAPI 3.1 document."""
    body = encode(request.app[OPENAPI])
    headers = {"ETag": weak_etag(body), "Cache-Control": REVALIDATE}
    return not_modified(headers) if unchanged(request, headers["ETag"]) else json_bytes(body, headers=headers)


async def docs(request: web.Request) -> web.Response:
    """The documentation to read, made from the OpenAPI document, or that when Accept prefers JSON."""
    if wants_json(request):
        return await openapi(request)
    document = request.app[OPENAPI]
    etag = page_etag(request)
    if unchanged(request, etag):
        return not_modified({"ETag": etag, "Cache-Control": REVALIDATE})
    values = {
        "api": document,
        "tags": _by_tag(document),
        "type_of": type_of,
        "first_with": _first_with(document),
        "coded": coded,
    }
    return html_answer(render("docs.html", here="/docs", **values), etag=etag)


def _by_tag(document: dict[str, Any]) -> dict[str, list[tuple[str, str, dict[str, Any]]]]:
    """Operations as (method, path, operation), by tag, in the order of the table."""
    tags: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tags.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    return tags


def _first_with(document: dict[str, Any]) -> Callable[[dict[str, Any]], str]:
    """What tells the first operation that has all the parameters of another, where those are many, else itself."""
    first: dict[str, str] = {}
    for methods in document["paths"].values():
        for operation in methods.values():
            first.setdefault(repr(operation["parameters"]), operation["operationId"])

    def found(operation: dict[str, Any]) -> str:
        many = len(operation["parameters"]) > _MANY
        own: str = operation["operationId"]
        return first[repr(operation["parameters"])] if many else own

    return found


def type_of(schema: dict[str, Any]) -> str:
    """A schema in a few words: `string`, `Item`, `list of Offer`, `live or burned`, `string or null`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " or ".join(schema["enum"])
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(map(type_of, schema.get("anyOf", schema.get("oneOf", ()))))
    if schema.get("type") == "array":
        return f"list of {type_of(schema['items'])}"
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def coded(text: str) -> Markup:
    """A description with what stands between backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one of them has no second one
        return escape(text)
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if number % 2 else escape(part) for number, part in enumerate(parts))
