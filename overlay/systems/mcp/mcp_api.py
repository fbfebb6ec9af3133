"""The Model Context Protocol at `/mcp`: streamable HTTP without sessions and streams, in every version that the
official package has. Requests of any origin are answered: answers are public, and a call of a tool changes nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from aiohttp import web

from overlay.answers.observed_tools import ListedTools
from overlay.api import protocol_requests
from overlay.api.answers import SERVICES, body, json_answer
from overlay.api.executors import LOOKUPS, run_in
from overlay.api.parameters import parameter
from overlay.api.problems import ProblemError
from overlay.api.publisher_api import diagnosis
from overlay.api.quote_api import quote_for
from overlay.api.routes import JSON, Route
from overlay.api.search_api import count_opened
from overlay.api.services import AppServices
from overlay.api.shared_services import IDENTITY_FILE, VERIFIER
from overlay.api.systems import SystemApi
from overlay.listings.tool_list import tool_list
from overlay.text.compact_json import encode
from parsers.cards import strict_json
from parsers.errors import ParseError

if TYPE_CHECKING:
    from overlay.systems.mcp.asgi_bridge import AsgiApp
    from overlay.systems.mcp.tool_calls import Pairs
    from overlay.systems.mcp.tools import RegistryTool

MAX_BODY = (4 << 20) + (64 << 10)
"""Bytes of a message: a raw transaction as long as `POST /v1/diagnose` takes it."""

_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600
_NOTIFIED = "delegateos/"
"""Messages that may come without an id: completions and revocations are notifications (DelegateOS §9.4, §9.5)."""

_ASGI_APP: web.AppKey[asyncio.Future[AsgiApp]] = web.AppKey("MCP application", asyncio.Future)
"""The package's application, once it runs."""
_FIRST_MESSAGE: web.AppKey[asyncio.Event] = web.AppKey("first message of MCP", asyncio.Event)

LOAD_SECONDS = 15.0
"""After this the package is loaded, which takes a second of a processor, unless a message comes before."""


class HttpSource:
    """The registry, as one HTTP request queries it."""

    def __init__(self, request: web.Request) -> None:
        self._request = request

    async def search(self, pairs: Pairs) -> Mapping[str, Any]:
        """A page of a search."""
        page = await protocol_requests.find(self._request, pairs)
        relation = "gte" if page.at_least else "eq"
        return {
            "items": page.items, "total": page.total, "matched": page.hits.matched, "totalRelation": relation,
            "nextCursor": page.next_cursor, **page.comparison, **page.note_members,
            **await protocol_requests.alternatives(self._request, page),
            "facets": {name: [{"value": value, "count": count} for value, count in pairs_of_facet]
                       for name, pairs_of_facet in (page.hits.facets or {}).items()},
        }  # fmt: skip

    async def get(self, id_: str) -> Mapping[str, Any]:
        """A listing."""
        item = await protocol_requests.get(self._request, id_)
        count_opened(self._request)
        return item

    async def observed_tools(self, id_: str) -> ListedTools:
        """The tools that its URL lists."""
        return await run_in(self._request, LOOKUPS, tool_list, self._request.app[SERVICES].store, id_)

    async def history(self, id_: str) -> Mapping[str, Any]:
        """The revisions of a listing."""
        return await protocol_requests.history(self._request, id_)

    async def diagnose(self, transaction: str) -> Mapping[str, Any]:
        """The steps of a transaction."""
        return await diagnosis(self._request, transaction)

    async def verify(self, id_: str) -> Mapping[str, Any]:
        """This server's check of its own proof."""
        return await run_in(self._request, LOOKUPS, _verified, self._request.app[SERVICES], id_)

    async def quote(self, pairs: Pairs) -> Mapping[str, Any]:
        """The amount to pay now."""
        return await quote_for(self._request, pairs)


def _verified(services: AppServices, id_: str) -> dict[str, Any]:
    from overlay.listings.local_source import LocalSource
    from overlay.verify import verify

    source = LocalSource(services.store)
    return verify(source, id_, expected=source.listing(id_).get("caip2")).as_json()


async def post(request: web.Request) -> web.Response:
    """A message of the Model Context Protocol (streamable HTTP): tools to search, get, verify, diagnose and quote."""
    document = await _document(request)
    try:
        message = strict_json.request(document)
    except ParseError as error:
        refusal = {"code": _PARSE_ERROR, "message": f"the body cannot be read: {error}"}
        return json_answer({"jsonrpc": "2.0", "id": None, "error": refusal}, status=400)
    if isinstance(message, dict) and "method" in message and message.get("id", 0) is None:
        refusal = {"code": _INVALID_REQUEST, "message": "the id of a request is null: it must be a text or a number"}
        return json_answer({"jsonrpc": "2.0", "id": None, "error": refusal}, status=400)
    return await _respond(request, message, document, {"accept": JSON})  # of what clients accept, some say events only


async def post_message(request: web.Request) -> web.Response:
    """A message as the HTTP client of DelegateOS sends it, `{id, method, params, dct?}`, to the same tools."""
    document = await _document(request)
    try:
        message = strict_json.request(document)
    except ParseError as error:
        raise ProblemError(400, f"the body cannot be read: {error}") from None
    method = message.get("method") if isinstance(message, dict) else None
    is_notification = isinstance(method, str) and method.startswith(_NOTIFIED) and "id" not in message
    if not isinstance(method, str) or not (is_notification or isinstance(message.get("id"), str | int)):
        raise ProblemError(400, "the body is not a JSON object with a method, a text, and an id, a text or an integer")
    if (token := message.pop("dct", None)) is not None:
        message["params"] = _with_token(message.get("params") or {}, token)
    return await _respond(request, {**message, "jsonrpc": "2.0"}, document, {"accept": JSON, "content-type": JSON})


def _with_token(params: Any, token: Any) -> dict[str, Any]:
    """The parameters with a token that came beside them. Raises ProblemError."""
    if not isinstance(params, dict):
        raise ProblemError(400, "params is not an object: a message with dct cannot be read otherwise")
    meta = params.get("_delegateos") or {}
    if not isinstance(meta, dict) or meta.get("dct", token) != token:
        raise ProblemError(400, "dct is another token than that of params._delegateos")
    return {**params, "_delegateos": {**meta, "dct": token}}


async def _document(request: web.Request) -> bytes:
    if request.content_type != JSON:
        raise ProblemError(415, f"the body is {request.content_type[:60]!a}: send {JSON}")
    document = await body(request, MAX_BODY)
    if document.lstrip()[:1] == b"[":
        raise ProblemError(400, "the body is a list: send one JSON-RPC message, as batches are not taken")
    return document


async def _respond(request: web.Request, message: Any, document: bytes, headers: Mapping[str, str]) -> web.Response:
    from overlay.systems.mcp.asgi_bridge import respond

    verifier = request.app.get(VERIFIER)
    taken: bytes | web.Response = encode(message)
    if verifier is not None:
        from overlay.systems.mcp.tools import ON_LISTING

        taken = await verifier.take_token(request, message, document, ON_LISTING)
    if isinstance(taken, web.Response):
        return taken
    request.app[_FIRST_MESSAGE].set()
    return await respond(await asyncio.shield(request.app[_ASGI_APP]), request, taken, headers)


async def _run(app: web.Application) -> AsyncIterator[None]:
    """Serve in a separate task, as the package must leave its contexts in the task in which it entered them."""
    app[_ASGI_APP] = ready = asyncio.get_running_loop().create_future()
    app[_FIRST_MESSAGE] = first_message = asyncio.Event()
    ended = asyncio.Event()
    version, identity = app[SERVICES].process.version, app.get(IDENTITY_FILE)
    serving = asyncio.create_task(_serve(version, identity, ready, first_message, ended))
    serving.add_done_callback(lambda task: _fail(task, ready))
    yield
    ended.set()
    first_message.set()
    await serving
    ready.cancel()


def _is_visible(request: web.Request, tool: RegistryTool) -> bool:
    verifier = request.app.get(VERIFIER)
    return verifier is None or verifier.is_visible(request, tool.name, tool.is_on_listing)


def _fail(serving: asyncio.Task[None], ready: asyncio.Future[AsgiApp]) -> None:
    """Let requests fail with what ended the server before it was ready."""
    if not serving.cancelled() and (error := serving.exception()) is not None and not ready.done():
        ready.set_exception(error)


async def _serve(
    version: str,
    identity: str | None,
    ready: asyncio.Future[AsgiApp],
    first_message: asyncio.Event,
    ended: asyncio.Event,
) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(first_message.wait(), LOAD_SECONDS)
    if ended.is_set():
        return
    await asyncio.to_thread(import_module, "overlay.systems.mcp.mcp_server")  # a second, in which pages are served
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from overlay.systems.mcp.asgi_bridge import REQUEST
    from overlay.systems.mcp.mcp_server import IDENTITY_TOOL, server, text_tool

    logging.getLogger("mcp").setLevel(logging.WARNING)
    served = server(
        version,
        lambda context: HttpSource(context.request.scope[REQUEST]),
        lambda context, tool: _is_visible(context.request.scope[REQUEST], tool),
        [] if identity is None else [(IDENTITY_TOOL, text_tool(identity))],
    )
    manager = StreamableHTTPSessionManager(served, json_response=True, stateless=True, max_request_body_size=MAX_BODY)
    async with manager.run():
        ready.set_result(manager.asgi_app)
        await ended.wait()


def error_response(_request: web.Request, problem: ProblemError, request_id: str) -> web.Response:
    """A JSON-RPC error without the id of a request, as none was read."""
    code = -32000 if problem.status == 429 else -32600 if problem.status < 500 else -32603
    error = {"code": code, "message": problem.detail, "data": {"requestId": request_id} | problem.members}
    return json_answer({"jsonrpc": "2.0", "id": None, "error": error}, status=problem.status)


_HEADERS = (parameter("MCP-Protocol-Version", "The client's version of the protocol."),)
API = SystemApi(
    routes=(
        Route(
            "/mcp", post, "McpMessage", tag="MCP", method="POST", body="McpMessage",
            headers=_HEADERS, empty=(202,), errors=(404,), error_response=error_response, slash=True,
        ),
        Route(
            "/mcp/message", post_message, "McpMessage", tag="MCP", method="POST",
            body="DelegateOsMessage", errors=(404,), error_response=error_response,
        ),
    ),
    schemas={
        "McpMessage": {
            "type": "object",
            "description": "A JSON-RPC 2.0 message of the Model Context Protocol.",
            "required": ["jsonrpc"],
            "properties": {"jsonrpc": {"const": "2.0"}, "method": {"type": "string"}},
        },
        "DelegateOsMessage": {
            "type": "object",
            "description": "A message of the HTTP client of DelegateOS.",
            "required": ["method"],
            "properties": {
                "id": {"type": ["string", "integer"]}, "method": {"type": "string"},
                "params": {"type": "object"}, "dct": {"type": "string"},
            },
        },
    },
    run=_run,
)  # fmt: skip
