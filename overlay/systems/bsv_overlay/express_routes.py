"""Routes as overlay-express has them: errors of the shape `{"status": "error", "message": …}`, and the header
X-BSV-Topic, by which other overlays name a topic."""

from __future__ import annotations

from functools import partial

from aiohttp import web

from overlay.api.answers import json_answer
from overlay.api.parameters import Parameter, parameter
from overlay.api.problems import ProblemError, bad_request
from overlay.api.routes import Route
from overlay.api.values import shown
from overlay.systems.bsv_overlay.service_names import TOPICS, by_name, names


def read_topic(request: web.Request) -> str:
    """The topic that the client names, as it names it. Raises BadRequestError."""
    name = request.headers.get("X-BSV-Topic", "").strip()
    if by_name(TOPICS, name) is None:
        topics = ", ".join(topic.name for topic in TOPICS)
        code, problem = ("unknown-topic", f"is {shown(name)}") if name else ("missing-topic", "is missing")
        raise bad_request(code, f"the header X-BSV-Topic {problem}: one of {topics}")
    return name


def topic_header(*, required: bool) -> Parameter:
    """The header that names the topic of a request."""
    return parameter("X-BSV-Topic", "The topic.", required=required, enum=names(TOPICS))


def error_response(_request: web.Request, problem: ProblemError, request_id: str) -> web.Response:
    """A problem as the overlay protocol has it, with the codes of its faults where there are any."""
    members = {"status": "error", "message": problem.detail, "requestId": request_id}
    codes = {"code": problem.faults[0].code} if problem.faults else {}
    return json_answer(members | codes, status=problem.status)


express_route = partial(Route, tag="bsv overlay", error_response=error_response)
