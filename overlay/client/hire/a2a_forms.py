"""Calls of A2A agents by JSON-RPC, in the forms of versions 0.1, 0.3 (and 0.2) and 1.0, and how their results are
read."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from overlay.client.hire.replies import Answered, AnswerPart, Reply, WorkFailed, Working
from parsers.claims.gate_receipts import A2A_METADATA, answer_bytes, receipt_of
from parsers.json_records import object_or_empty

MAX_PARTS = 1_000

METHODS = {"0.1": "tasks/send", "0.3": "message/send", "1.0": "SendMessage"}
POLLS = {"0.1": "tasks/get", "0.3": "tasks/get", "1.0": "GetTask"}

_AT_WORK = frozenset(("submitted", "working", "unknown"))
_COMPLETED = frozenset(("completed", ""))


class TaskInput(NamedTuple):
    """The input of a task: its bytes, whether they are a text, and its file name."""

    content: bytes
    is_text: bool
    name: str = ""


def version_of(protocol: str) -> str:
    """The form of calls for the A2A version of a card."""
    return protocol if protocol in ("0.1", "1.0") else "0.3"


def message_call(
    version: str,
    task: str,
    task_input: TaskInput,
    claim: Mapping[str, Any] | None,
    skill: str = "",
    agent_task: str = "",
) -> dict[str, Any]:
    """The JSON-RPC request that sends an input with a payment claim. `task` repeats the call, `agent_task` continues
    the agent's own."""
    parts = [*input_parts(version, task_input), *([_data_part(version, {"x-payment": dict(claim)})] if claim else [])]
    metadata = {"x-payment-task": task} | ({"skillId": skill} if skill else {})
    message: dict[str, Any] = {"role": "ROLE_USER" if version == "1.0" else "user", "parts": parts}
    params: dict[str, Any] = {"message": message, "metadata": metadata}
    if version == "0.1":
        params["id"] = task
    else:
        message |= {"messageId": f"{task}-{'2' if agent_task else '1'}"}
        message |= {"taskId": agent_task} if agent_task else {}
        message |= {"kind": "message"} if version == "0.3" else {}
    return {"jsonrpc": "2.0", "id": 1, "method": METHODS[version], "params": params}


def input_parts(version: str, task_input: TaskInput) -> list[dict[str, Any]]:
    """The parts of a message with an input, without those of its claim."""
    return [_input_part(version, task_input)]


def poll_call(version: str, agent_task: str) -> dict[str, Any]:
    """The JSON-RPC request for the state of a task."""
    return {"jsonrpc": "2.0", "id": 1, "method": POLLS[version], "params": {"id": agent_task}}


def read_result(result: Any) -> Reply:
    """The reply in the result of such a request."""
    whole = object_or_empty(result)
    form = next((object_or_empty(whole[name]) for name in ("task", "message") if name in whole), whole)
    status = object_or_empty(form.get("status"))
    state = str(status.get("state", "")).lower().removeprefix("task_state_").replace("_", "-")
    agent_task = str(form.get("id") or form.get("taskId") or "")[:200] if "status" in form else ""
    status_parts = list(_parts(object_or_empty(status.get("message")).get("parts")))
    body, receipt = answer_bytes(whole, A2A_METADATA), receipt_of(whole, A2A_METADATA)
    if state in _AT_WORK:
        return Working(agent_task, body, receipt)
    if state not in _COMPLETED:
        return WorkFailed(f"the task is {state[:40]}: {_words(status_parts)}")
    artifacts = [
        part
        for artifact in _list(form.get("artifacts"))[:MAX_PARTS]
        for part in _parts(object_or_empty(artifact).get("parts"))
    ]
    parts = artifacts or status_parts or list(_parts(form.get("parts")))
    return Answered(parts[:MAX_PARTS], body, receipt, agent_task)


def _input_part(version: str, task_input: TaskInput) -> dict[str, Any]:
    if task_input.is_text:
        text = task_input.content.decode("utf-8", "replace")
        return {"text": text} if version == "1.0" else {_KIND[version]: "text", "text": text}
    encoded, named = b64encode(task_input.content).decode(), {"name": task_input.name} if task_input.name else {}
    if version == "1.0":
        return {"raw": encoded, "mediaType": "application/octet-stream"} | (
            {"filename": task_input.name} if named else {}
        )
    return {_KIND[version]: "file", "file": {"bytes": encoded, "mimeType": "application/octet-stream", **named}}


def _data_part(version: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"data": data} if version == "1.0" else {_KIND[version]: "data", "data": data}


_KIND = {"0.1": "type", "0.3": "kind"}


def _parts(value: Any) -> Iterator[AnswerPart]:
    for part in map(object_or_empty, _list(value)[:MAX_PARTS]):
        file = object_or_empty(part.get("file"))
        name = str(part.get("filename") or file.get("name") or "")[:400]
        media = str(part.get("mediaType") or file.get("mimeType") or "application/octet-stream")[:200]
        if isinstance(part.get("text"), str):
            yield AnswerPart("text/plain", part["text"].encode("utf-8", "surrogatepass"), name)
        elif isinstance(encoded := part.get("raw") or file.get("bytes"), str):
            yield AnswerPart(media, _decoded(encoded), name)
        elif isinstance(url := part.get("url") or file.get("uri"), str):
            yield AnswerPart("text/uri-list", url.encode("utf-8", "surrogatepass"), f"{name or 'link'}.txt")
        elif "data" in part:
            yield AnswerPart("application/json", json.dumps(part["data"], ensure_ascii=False).encode(), name)


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text)
    except ValueError:
        return text.encode("utf-8", "surrogatepass")


def _words(parts: list[AnswerPart]) -> str:
    return " ".join(part.content.decode("utf-8", "replace") for part in parts if part.media == "text/plain")[:2_000]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
