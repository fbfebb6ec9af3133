"""Whether work that was paid for failed, by its answer: an HTTP status, an error of JSON-RPC, a result of an MCP tool
that is an error, or a task of A2A that failed; also as an event of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from overlay.payments.carriers import PaidCall
from overlay.payments.gate_answers import GateAnswer

_FAILED_STATES = frozenset(("failed", "rejected", "canceled"))


def is_failed(answer: GateAnswer, call: PaidCall) -> bool:
    """Whether an answer to a call is that of failed work; of a streamed one the last part is looked at."""
    return answer.status >= 400 or bool(call.rpc and any(map(_is_error, _messages(answer.body))))


def _messages(body: bytes) -> Iterator[Any]:
    """The JSON in a body, or in the events of its stream."""
    if body.lstrip()[:1] == b"{":
        yield from _json(body)
        return
    for event in body.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = event.split(b"\n")
        data = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
        yield from _json(b"\n".join(data))


def _json(text: bytes) -> Iterator[Any]:
    try:
        yield json.loads(text)
    except (ValueError, RecursionError):
        return


def _is_error(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    result = message.get("result")
    if message.get("error") is not None or not isinstance(result, dict):
        return message.get("error") is not None
    if result.get("isError") is True:
        return True
    forms = (result, result.get("task"), result.get("statusUpdate"))
    statuses = (form.get("status") for form in forms if isinstance(form, dict))
    states = (status.get("state") for status in statuses if isinstance(status, dict))
    return any(str(state).lower().removeprefix("task_state_") in _FAILED_STATES for state in states)
