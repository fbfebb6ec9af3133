"""The OpenAPI 3.1 document, made from the tables that route requests and read parameters."""

from __future__ import annotations

import json
import re
from collections import ChainMap
from collections.abc import Callable, Iterable
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlay.answers.schema_parts import ref
from overlay.answers.schemas import SCHEMAS
from overlay.api.client_tokens import HEADER as CLIENT_HEADER
from overlay.api.parameters import Parameter
from overlay.api.problems import TYPE as PROBLEM_TYPE
from overlay.api.request_bodies import BODIES, body_schemas
from overlay.api.routes import HTML, Route

if TYPE_CHECKING:
    from overlay.api.systems import SystemApi

_PATH_PARAMETERS = {
    "id": "A listing's id, percent-encoded as one path segment (`#` as %23, `/` as %2F, `%` as %25).",
    "agent": "The `motebit_id` of an agent.",
    "txid": "The txid of a transaction, as 64 hex digits.",
    "withdrawal": "The id of a withdrawal.",
    "task": "The id of a relay task.",
    "name": "The name of a file.",
    "number": "The number of a file of the sitemap, from 1.",
    "subscription": "The id of a subscription.",
    "server": "The name of an MCP server, percent-encoded as one path segment.",
    "version": "A version of a server, or `latest`.",
    "page": "The name of a page of the guide.",
    "tag": "The name of a group of routes.",
    "digest": "The SHA-256 of a small picture, as 64 hex digits.",
    "kind": "The kind of document, such as `receipt`, `delegation-chain` or `identity`.",
    "sha256": "The SHA-256 of a document, as 64 hex digits.",
    "what": "A txid (64 hex digits) or an outpoint (`<txid>_<output number>`).",
}
_PATH_SCHEMAS = {
    "what": {"type": "string", "pattern": "^[0-9a-fA-F]{64}([_.:i][0-9]{1,10})?$"},
    "txid": {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"},
}
_DESCRIPTION = (
    "Search and look up AI agents and MCP tools registered on chain. Every GET also answers HEAD. Errors are RFC 9457 "
    "problem details. Routes that list 403 check a capability token of DelegateOS where one is presented "
    "(`Authorization: Bearer`); none needs one, nor the token of a client with limits of its own. Names, descriptions, "
    "commands and cards are strangers' texts: show them escaped, run nothing."
)


_FREE_BODIES: dict[str, Any] = {
    "CardOrPrices": {"description": "An agent card, an MCP config or a price list; other values get errors."},
    "Claim": {
        "type": "object",
        "properties": {
            "document": {
                "description": "A signed document: a JSON value, or a text (a token, an identity file, JSON as it is)."
            },
            "keys": {"type": ["object", "array", "null"], "description": "The keys that you trust, by identity."},
            "now": {
                "type": ["integer", "number", "string", "null"],
                "description": "Milliseconds since 1970, or RFC 3339; default: the server's time.",
            },
            "context": {"type": ["object", "null"], "description": "What a kind takes besides."},
        },
        "required": ["document"],
        "additionalProperties": False,
    },
    "PublishForm": {
        "type": "object",
        "properties": {
            "what": {"type": "string", "description": "A txid, a raw transaction or a card."},
            "fetch": {"type": "string", "description": "Not empty: a txid is requested as by `POST /v1/ingest`."},
        },
        "required": ["what"],
    },
    "RegisterForm": {
        "type": "object",
        "properties": {
            "action": {"type": "string", "description": "`register` (the default), `update`, `transfer` or `delist`."},
            "id": {"type": "string", "description": "The listing that is updated, transferred or delisted."},
            "what": {"type": "string", "description": "The card to register, or to update with."},
            "app": {"type": "string", "description": "The name of the program; in an update, as before by default."},
            "owner": {"type": "string", "description": "The address that will own the listing."},
            "coins": {
                "type": "string",
                "description": "Lines of `<txid>_<output> <satoshis>`; none: a wallet chooses.",
            },
            "rate": {"type": "string", "description": "Satoshis for 1,000 bytes."},
            "currency": {"type": "string", "description": "What the cost is shown in."},
            "from": {"type": "string", "description": "The URL of a served card, for `fetched`."},
            "as": {
                "type": "string",
                "description": "`file`: the answer is the file for a wallet; `found`: also how the card is found. "
                "Where the card begins: `fetched` (at `from`), `present` (that of the listing), `example`, or `fields` "
                "(of `card_name`, `card_url` and the others of the form).",
            },
        },
    },
}
"""Bodies that are read by other rules than JSON objects of the API: files as they are published, forms, and signed
documents, because their faults are verdicts."""

COMPONENTS: dict[str, Any] = SCHEMAS | body_schemas(BODIES) | _FREE_BODIES
"""The schemas of the answers and bodies of the API."""

_EXAMPLES: dict[str, Any] = json.loads(Path(__file__).with_name("route_examples.json").read_text("utf-8"))
"""A request and its answer on the packaged sample chain for each JSON route: `tests/route_examples.py` makes them."""


def _header(name: str, description: str) -> dict[str, Any]:
    return {name: {"description": description, "schema": {"type": "string"}}}


_SECURITY = {
    "clientBearer": {
        "type": "http", "scheme": "bearer",
        "description": "The token of a client with limits of its own: `a2b_` and 43 letters, from the operator.",
    },
    "clientHeader": {
        "type": "apiKey", "in": "header", "name": CLIENT_HEADER,
        "description": "The same token, where `Authorization` holds another one.",
    },
}  # fmt: skip

_LIMIT_HEADERS = {
    **_header(
        "RateLimit-Policy",
        'The limit of one client: `"read";q=12000;w=60` is 12,000 requests in 60 seconds. One that takes more '
        "processor time than others counts as several.",
    ),
    **_header("RateLimit", 'What is left of it: `"read";r=11999;t=1`, and the seconds until all of it is there again.'),
}
"""Headers of every route under a limit, unless that is switched off."""


def document(routes: Iterable[Route], version: str, systems: Iterable[SystemApi] = ()) -> dict[str, Any]:
    """OpenAPI 3.1 of these routes and of the routes of systems, for program version `version`."""
    systems, paths = tuple(systems), dict[str, dict[str, Any]]()
    describe = [system.describe for system in systems if system.describe is not None]
    for route in (*routes, *chain.from_iterable(system.routes for system in systems)):
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, describe)
    return {
        "openapi": "3.1.0",
        "info": {"title": "A2B registry overlay", "version": version, "description": _DESCRIPTION},
        "servers": [{"url": "/"}],
        "security": [{}, *({name: []} for name in _SECURITY)],
        "paths": paths,
        "components": {
            "schemas": dict(ChainMap(dict(COMPONENTS), *(dict(system.schemas) for system in systems))),
            "securitySchemes": _SECURITY,
        },
    }


def _operation(route: Route, describe: Iterable[Callable[[Route, dict[str, Any]], None]]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _operation_id(route),
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": [
            *map(_in_path, re.findall(r"{(\w+)}", route.path)),
            *_in_query(route.parameters.parameters),
            *(parameter_json(header, "header") for header in route.headers),
        ],
        "responses": _responses(route),
    }
    if route.body:
        operation["requestBody"] = {"required": True, "content": {route.body_media: {"schema": ref(route.body)}}}
    for describe_operation in describe:
        describe_operation(route, operation)
    _add_example(operation, _EXAMPLES.get(f"{route.method} {route.path}"))
    operation["responses"] = dict(sorted(operation["responses"].items(), key=_by_refusal))
    return operation


def _add_example(operation: dict[str, Any], example: dict[str, Any] | None) -> None:
    """Add a request to the body of the operation, and its answer to the response; shortened texts end with an
    ellipsis."""
    if example is None:
        return
    if example["body"] is not None and "requestBody" in operation:
        for content in operation["requestBody"]["content"].values():
            content["examples"] = {"sample": {"value": example["body"]}}
    for media, content in operation["responses"][str(example["status"])]["content"].items():
        if "json" in media:
            content["examples"] = {"sample": {"summary": example["request"], "value": example["answer"]}}


def _by_refusal(response: tuple[str, Any]) -> int:
    """Refusals come last, by their status."""
    return max(399, int(response[0]))


def _operation_id(route: Route) -> str:
    words = re.findall(r"[A-Za-z0-9]+", route.path) or ["page"]
    return "_".join([route.method.lower(), *words])


def _in_path(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": _PATH_PARAMETERS[name],
        "schema": _PATH_SCHEMAS.get(name, {"type": "string"}),
    }


def _in_query(parameters: Iterable[Parameter]) -> Iterable[dict[str, Any]]:
    for parameter in parameters:
        yield _parameter(parameter.name, parameter, parameter.description)
        for alias in parameter.aliases:
            yield _parameter(alias, parameter, f"The same as `{parameter.name}`.")


def parameter_json(parameter: Parameter, where: str) -> dict[str, Any]:
    """A parameter as the document has it, in the `query` or in a `header`."""
    return _parameter(parameter.name, parameter, parameter.description, where)


def _parameter(name: str, parameter: Parameter, description: str, where: str = "query") -> dict[str, Any]:
    schema = parameter.schema
    if parameter.may_be_empty and schema != {"type": "string"}:
        schema = {"anyOf": [schema, {"const": ""}]}
    elif schema.get("type") == "string" and "enum" not in schema and not parameter.may_be_empty:
        schema = {"minLength": 1, **schema}
    if parameter.many:
        bounds = {"minItems": parameter.least, "uniqueItems": True} if parameter.least > 1 else {}
        schema = {"type": "array", "items": schema, "maxItems": parameter.most, **bounds}
    shape = {"style": "form", "explode": True} if parameter.many else {}
    required = {"required": True} if parameter.required and name == parameter.name else {}
    return {"name": name, "in": where, "description": description, **required, "schema": schema, **shape}


def _responses(route: Route) -> dict[str, Any]:
    schema = ref(route.answer) if route.answer else {}
    content = {media: {"schema": schema} if "json" in media else {} for media in route.media}
    answers: dict[str, Any] = {str(route.status): {"description": "The answer.", "content": content}}
    refused = {400, 401, 503} | ({429} if route.limit else set()) | ({408, 413, 415} if route.body else set())
    if route.conditional:
        answers["304"] = {"description": "Unchanged since the entity tag in If-None-Match."}
    for status in route.empty:
        answers[str(status)] = {"description": HTTPStatus(status).phrase}
    for status in sorted({*route.errors, *refused, 500}):
        answers[str(status)] = refusal(route, status)
    if route.limit:
        answers[str(route.status)]["headers"] = _LIMIT_HEADERS
        answers["429"]["headers"] = _LIMIT_HEADERS | _header("Retry-After", "Seconds until another try makes sense.")
    return answers


def refusal(route: Route, status: int) -> dict[str, Any]:
    """The response of a route with the status of a problem."""
    problem: dict[str, Any] = {PROBLEM_TYPE: {"schema": ref("Problem")}}
    if route.error_response:
        problem = {route.error_media: {}}
    elif not route.path.startswith("/v1/"):
        problem[HTML] = {}
    return {"description": HTTPStatus(status).phrase, "content": problem}
