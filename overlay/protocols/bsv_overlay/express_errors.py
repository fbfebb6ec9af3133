"""Errors in the shape of overlay-express: `{"status": "error", "message": …}`."""

from __future__ import annotations

from aiohttp import web

from overlay.api.answers import json_answer
from overlay.api.problems import ProblemError


def error_response(_request: web.Request, problem: ProblemError, request_id: str) -> web.Response:
    """A problem as the overlay protocol has it, with the codes of its faults where there are any."""
    members = {"status": "error", "message": problem.detail, "requestId": request_id}
    codes = {"code": problem.faults[0].code} if problem.faults else {}
    return json_answer(members | codes, status=problem.status)
