"""A2A, the Agent2Agent protocol: the overlay's own card, and JSON-RPC at `/a2a` with one skill, search. All versions
are served at the same URL. The name of a method determines its version, and `A2A-Version` must agree (A2A 1.0 §3.6,
§9)."""

from __future__ import annotations

from typing import Any, NamedTuple

from aiohttp import web

from overlay.api.answers import SERVICES, body, conditional, json_answer
from overlay.api.base_url import base_url
from overlay.api.parameters import parameter
from overlay.api.routes import Route
from overlay.api.shared_services import PAYMENTS, Payments
from overlay.api.systems import SystemApi
from overlay.systems.a2a import a2a_errors as errors
from overlay.systems.a2a.a2a_errors import RPC_ID, A2aError, error_response
from overlay.systems.a2a.own_card import KEYS_PATH, own_card, public_jwk, signed
from overlay.systems.a2a.search_messages import read_message, read_task, reply
from overlay.text.compact_json import encode
from parsers.cards import strict_json
from parsers.errors import ParseError

MAX_BODY = 64 << 10
CARD_CACHE = "public, max-age=300"
_TASKS_A_PAGE = 50


class Method(NamedTuple):
    """The version of the protocol that defines a method, and the error that answers it (None for methods that are
    served)."""

    version: str
    error: errors.Error | None = None


_PUSH_METHODS = (
    " ".join(f"{name}TaskPushNotificationConfig" for name in ("Create", "Get", "Delete"))
    + " ListTaskPushNotificationConfigs",
    " ".join(f"tasks/pushNotificationConfig/{name}" for name in ("set", "get", "list", "delete")),
    "tasks/pushNotification/set tasks/pushNotification/get",
)
_NOT_SERVED = {
    errors.TASK_NOT_FOUND: ("GetTask CancelTask", "tasks/get tasks/cancel"),
    errors.UNSUPPORTED: (
        "SendStreamingMessage SubscribeToTask GetExtendedAgentCard",
        "message/stream tasks/resubscribe",
        "tasks/sendSubscribe",
    ),
    errors.NO_PUSH: _PUSH_METHODS,
    errors.NO_EXTENDED_CARD: ("", "agent/getAuthenticatedExtendedCard"),
}
"""The methods of 1.0, of 0.3 and of 0.1 alone that an error answers. Searches end at once and are not stored: there is
no task."""

VERSIONS = ("1.0", "0.3", "0.1")
METHODS = {
    "SendMessage": Method("1.0"),
    "ListTasks": Method("1.0"),
    "message/send": Method("0.3"),
    "tasks/send": Method("0.1"),
} | {
    name: Method(version, error)
    for error, names in _NOT_SERVED.items()
    for version, words in zip(VERSIONS, names, strict=False)
    for name in words.split()
}


async def agent_card(request: web.Request) -> web.Response:
    """The A2A agent card of this overlay, readable by clients of A2A 1.0 and 0.3."""
    services = request.app[SERVICES]
    base = base_url(request)
    prices = request.app.get(PAYMENTS, Payments()).prices
    card = own_card(base, services.process.version, is_configured=bool(services.site.public_url), prices=prices)
    return conditional(encode(card if services.identity is None else signed(card, base, services.identity)), CARD_CACHE)


async def own_keys(request: web.Request) -> web.Response:
    """The public key that signs this overlay's agent card, as a JWK Set."""
    identity = request.app[SERVICES].identity
    return conditional(encode({"keys": [] if identity is None else [public_jwk(identity)]}), CARD_CACHE)


async def json_rpc(request: web.Request) -> web.Response:
    """A2A by JSON-RPC 2.0: `SendMessage` (A2A 1.0), `message/send` (0.3) and `tasks/send` (0.1) with a question or
    parameters of a search.

    Errors of JSON-RPC and A2A are answered with HTTP status 200, as clients read no others.
    """
    document = await body(request, MAX_BODY)
    try:
        call = strict_json.request(document)
    except ParseError as error:
        raise A2aError(errors.PARSE, str(error)) from None
    name, params = _call(request, call)
    method = _method(request, name)
    if method.error is not None:
        raise A2aError(method.error, _why(name, method.error, params))
    if name == "ListTasks":
        result: dict[str, Any] = {"tasks": [], "nextPageToken": "", "pageSize": _TASKS_A_PAGE, "totalSize": 0}
    else:
        read = read_task if method.version == "0.1" else read_message
        result = await reply(request, read(params), method.version)
    return json_answer({"jsonrpc": "2.0", "id": request.get(RPC_ID), "result": result})


def _call(request: web.Request, call: Any) -> tuple[str, dict[str, Any]]:
    """The method and parameters of a JSON-RPC request. Stores the id of the request for its response. Raises
    A2aError."""
    if not isinstance(call, dict):
        what = "a batch" if isinstance(call, list) else "no object"
        raise A2aError(errors.INVALID_REQUEST, f"the body is {what}: send one JSON-RPC request as a JSON object")
    id_ = call.get("id")
    if isinstance(id_, bool) or not isinstance(id_, str | int | None):
        raise A2aError(errors.INVALID_REQUEST, "id is neither a string nor an integer")
    request[RPC_ID] = id_
    if call.get("jsonrpc") != "2.0":
        raise A2aError(errors.INVALID_REQUEST, 'jsonrpc is not "2.0"')
    name, params = call.get("method"), call.get("params", {})
    if not isinstance(name, str):
        raise A2aError(errors.INVALID_REQUEST, "method is not a string")
    if not isinstance(params, dict):
        raise A2aError(errors.INVALID_PARAMS, "params is not an object")
    return name, params


def _method(request: web.Request, name: str) -> Method:
    """The method, where the client's version has it: that of `A2A-Version` (a header or parameter, patch
    numbers do not count), without one that of the method. Raises A2aError."""
    spoken = request.headers.get("A2A-Version") or request.query.get("A2A-Version", "")
    version = ".".join(spoken.strip().split(".")[:2])
    if version not in ("", *VERSIONS):
        raise A2aError(errors.VERSION, f"A2A-Version {spoken[:40]!a} is not served here, only {', '.join(VERSIONS)}")
    method = METHODS.get(name)
    if method is None:
        raise A2aError(errors.METHOD_NOT_FOUND, f"{name[:100]!a} is not a method of A2A {', '.join(VERSIONS)}")
    if version not in ("", method.version):
        raise A2aError(errors.VERSION, f"{name} is a method of A2A {method.version}, and A2A-Version is {version}")
    return method


def _why(name: str, error: errors.Error, params: dict[str, Any]) -> str:
    if error is not errors.TASK_NOT_FOUND:
        return f"{name}: {error.sentence}"
    if not isinstance(id_ := params.get("id"), str) or not id_:
        raise A2aError(errors.INVALID_PARAMS, "id is missing: the id of a task")
    return f"there is no task {id_[:100]!a}: {error.sentence}"


API = SystemApi(
    routes=(
        *(
            Route(path, agent_card, "A2aAgentCard", tag="a2a", conditional=True)
            for path in ("/.well-known/agent-card.json", "/.well-known/agent.json")
        ),
        Route(KEYS_PATH, own_keys, "JwkSet", tag="a2a", conditional=True),
        Route(
            "/a2a", json_rpc, "A2aResponse", tag="a2a", method="POST", body="A2aRequest",
            headers=(parameter("A2A-Version", "The client's version, 1.0, 0.3 or 0.1."),),
            error_response=error_response, slash=True,
        ),
    ),
    schemas={
        "A2aAgentCard": {
            "type": "object",
            "description": "An A2A AgentCard with the members of 1.0 and 0.3.",
            "required": ["name", "url", "protocolVersion", "supportedInterfaces", "skills"],
        },
        "JwkSet": {"type": "object", "description": "A JWK Set (RFC 7517).", "required": ["keys"]},
        "A2aRequest": {
            "type": "object",
            "description": "A JSON-RPC 2.0 request with a method of A2A.",
            "properties": {"method": {"enum": list(METHODS)}, "params": {"type": "object"}},
            "required": ["jsonrpc", "method"],
        },
        "A2aResponse": {
            "type": "object",
            "description": "A JSON-RPC 2.0 response: `result`, or `error` with a code of A2A.",
            "required": ["jsonrpc", "id"],
        },
    },
)  # fmt: skip
