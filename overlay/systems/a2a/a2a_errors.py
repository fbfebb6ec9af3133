"""Errors of JSON-RPC and A2A, with details as google.rpc.ErrorInfo (A2A 1.0 §9.5)."""

from __future__ import annotations

from typing import Any, NamedTuple

from aiohttp import web

from overlay.api.answers import json_answer
from overlay.api.problems import BadRequestError, ProblemError

RPC_ID: web.RequestKey[str | int | None] = web.RequestKey("JSON-RPC id")
"""The id of a request's JSON-RPC call."""

_TYPE = "type.googleapis.com/google.rpc."


class Error(NamedTuple):
    """A code of JSON-RPC or A2A, its reason in ErrorInfo, and why this server answers with it."""

    code: int
    reason: str
    sentence: str = ""


PARSE = Error(-32700, "JSON_PARSE_ERROR")
INVALID_REQUEST = Error(-32600, "INVALID_REQUEST")
METHOD_NOT_FOUND = Error(-32601, "METHOD_NOT_FOUND")
INVALID_PARAMS = Error(-32602, "INVALID_PARAMS")
INTERNAL = Error(-32603, "INTERNAL_ERROR")
TOO_MANY = Error(-32000, "RATE_LIMIT_EXCEEDED")
TASK_NOT_FOUND = Error(-32001, "TASK_NOT_FOUND", "a search is answered with a message and becomes no task")
NO_PUSH = Error(-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", "there are no push notifications, as there are no tasks")
UNSUPPORTED = Error(-32004, "UNSUPPORTED_OPERATION", "not offered here: see the card's capabilities")
CONTENT_TYPE = Error(-32005, "CONTENT_TYPE_NOT_SUPPORTED")
NO_EXTENDED_CARD = Error(-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED", "there is no other card than the public one")
VERSION = Error(-32009, "VERSION_NOT_SUPPORTED")


class A2aError(ProblemError):
    """A request that is answered with an error of JSON-RPC or A2A."""

    def __init__(self, error: Error, detail: str) -> None:
        super().__init__(400, detail)
        self.error = error


def error_response(request: web.Request, problem: ProblemError, request_id: str) -> web.Response:
    """The JSON-RPC response for a problem. Its HTTP status is 200 where JSON-RPC or A2A has an error for it, else that
    of the problem."""
    error, details = _error(problem), []
    if problem.faults:
        violations = [
            {"field": fault.parameter or fault.pointer or "", "description": fault.detail} for fault in problem.faults
        ]
        details = [{"@type": f"{_TYPE}BadRequest", "fieldViolations": violations}]
    metadata = {"requestId": request_id}
    info: dict[str, Any] = {"reason": error.reason, "domain": "a2a-protocol.org", "metadata": metadata}
    members = {
        "code": error.code,
        "message": problem.detail,
        "data": [{"@type": f"{_TYPE}ErrorInfo", **info}, *details, *filter(None, [problem.members])],
    }
    status = 200 if isinstance(problem, A2aError | BadRequestError) else problem.status
    return json_answer({"jsonrpc": "2.0", "id": request.get(RPC_ID), "error": members}, status=status)


def _error(problem: ProblemError) -> Error:
    if isinstance(problem, A2aError):
        return problem.error
    if isinstance(problem, BadRequestError):
        return INVALID_PARAMS
    if problem.status == 429:
        return TOO_MANY
    return INVALID_REQUEST if problem.status < 500 else INTERNAL
