"""The header X-BSV-Topic, by which other overlays name a topic."""

from __future__ import annotations

from aiohttp import web

from overlay.api.parameters import Parameter, parameter
from overlay.api.problems import BadRequestError, Fault
from overlay.api.values import shown
from overlay.protocols.bsv_overlay.service_names import TOPICS, by_name, names


def read_topic(request: web.Request) -> str:
    """The topic that the client names, as it names it. Raises BadRequestError."""
    name = request.headers.get("X-BSV-Topic", "").strip()
    if by_name(TOPICS, name) is None:
        topics = ", ".join(topic.name for topic in TOPICS)
        code, problem = ("unknown-topic", f"is {shown(name)}") if name else ("missing-topic", "is missing")
        raise BadRequestError((Fault(code, f"the header X-BSV-Topic {problem}: one of {topics}"),))
    return name


def topic_header(*, required: bool) -> Parameter:
    """The header that names the topic of a request."""
    return parameter("X-BSV-Topic", "The topic.", required=required, enum=names(TOPICS))
