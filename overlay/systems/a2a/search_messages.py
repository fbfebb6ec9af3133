"""Messages that search: the parts of one, in the form of A2A 1.0 (`text`, `data`), 0.3 (with `kind`) or 0.1 (with
`type`), as parameters, and the message or task that answers it, a text part for people and models, a data part with
the listings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import uuid4

from aiohttp import web

from overlay.api.base_url import base_url, listing_url
from overlay.api.parameters import ONLY_OVER_HTTP
from overlay.api.problems import BadRequestError, Fault
from overlay.api.protocol_requests import FoundPage, find
from overlay.api.values import json_texts
from overlay.systems.a2a import a2a_errors as errors
from overlay.systems.a2a.a2a_errors import A2aError
from overlay.text.rating_words import rating_words
from overlay.text.safe_text import on_one_line, visible

TEXT, DATA = "text/plain", "application/json"
MAX_PARTS = 16
_MAX_ID = 256
_PAYMENT = "x-payment"
"""The member with a payment claim."""

_FILES = ("file", "raw", "url")
_PUSH = ("pushNotificationConfig", "taskPushNotificationConfig", "pushNotification")
_MODES = {TEXT: (TEXT, "text/*", "*/*", "text"), DATA: (DATA, "application/*", "*/*", "data")}
"""The names by which clients accept a media type; `text` and `data` are types of parts, which clients of 0.1 to 0.3
send."""


class SearchMessage(NamedTuple):
    """The parameters of `GET /v1/search` that a message contains, the question among them; the media types of parts
    that the client accepts; the client's context id (A2A 0.1: `sessionId`), if any; and the id of its task (0.1)."""

    pairs: tuple[tuple[str, str], ...]
    modes: tuple[str, ...]
    context_id: str | None
    task_id: str = ""


def read_message(params: dict[str, Any]) -> SearchMessage:
    """Read the parameters of `SendMessage` or `message/send`. Raises A2aError, BadRequestError."""
    message, configuration = _object(params, "message"), _object({"configuration": {}} | params, "configuration")
    if any(configuration.get(name) for name in _PUSH):
        raise A2aError(errors.NO_PUSH, errors.NO_PUSH.sentence)
    if task := message.get("taskId"):
        detail = f"there is no task {str(task)[:100]!a}: {errors.TASK_NOT_FOUND.sentence}"
        raise A2aError(errors.TASK_NOT_FOUND, detail)
    return SearchMessage(tuple(_pairs(message)), _modes(configuration), _id(message, "contextId"))


def read_task(params: dict[str, Any]) -> SearchMessage:
    """Read the parameters of `tasks/send` (A2A 0.1), which has no configuration. Raises A2aError, BadRequestError."""
    task_id = _id(params, "id")
    if task_id is None:
        raise A2aError(errors.INVALID_PARAMS, "id is missing: the id of the task that the client makes")
    read = read_message({"message": params.get("message"), "configuration": params})
    return read._replace(context_id=_id(params, "sessionId") or str(uuid4()), task_id=task_id)


def _id(holder: dict[str, Any], name: str) -> str | None:
    id_ = holder.get(name) or None
    if id_ is not None and (not isinstance(id_, str) or len(id_) > _MAX_ID):
        raise A2aError(errors.INVALID_PARAMS, f"{name} is not a string of at most {_MAX_ID} characters")
    return id_


def _modes(configuration: dict[str, Any]) -> tuple[str, ...]:
    """The media types, of the available ones, that the client accepts."""
    accepted = configuration.get("acceptedOutputModes") or ["*/*"]
    if not isinstance(accepted, list):
        raise A2aError(errors.INVALID_PARAMS, "acceptedOutputModes is not a list")
    named = {mode.partition(";")[0].strip().lower() for mode in accepted if isinstance(mode, str)}
    modes = tuple(mode for mode, names in _MODES.items() if not named.isdisjoint(names))
    if not modes:
        raise A2aError(
            errors.CONTENT_TYPE, f"acceptedOutputModes has neither {TEXT} nor {DATA}, which is what there is"
        )
    return modes


def _pairs(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The parameters of all parts: texts are joined to one question. Raises A2aError, BadRequestError."""
    parts = message.get("parts")
    if not isinstance(parts, list) or not 0 < len(parts) <= MAX_PARTS:
        raise A2aError(errors.INVALID_PARAMS, f"parts is not a list of 1 to {MAX_PARTS} parts")
    texts: list[str] = []
    members: list[tuple[str, Any]] = []
    for number, part in enumerate(parts):
        match part:
            case {"text": str(text)} if "data" not in part:
                texts.append(text)
            case {"data": dict(data)} if "text" not in part:
                members += ((name, value) for name, value in data.items() if name != _PAYMENT)  # a payment claim
            case dict() if any(name in part for name in _FILES):
                detail = f"part {number} is a file: send the question as text, or parameters as data"
                raise A2aError(errors.CONTENT_TYPE, detail)
            case _:
                detail = f"part {number} has neither a text (a string) nor data (an object)"
                raise A2aError(errors.INVALID_PARAMS, detail)
    faults = list(_faults(members, has_text=bool(texts)))
    if faults:
        raise BadRequestError(faults)
    yield from ((name, text) for name, value in members for text in json_texts(value))
    if question := " ".join(texts).strip():
        yield "q", question


def _faults(members: Iterable[tuple[str, Any]], *, has_text: bool) -> Iterator[Fault]:
    """The faults of the members of data parts. Names and values are checked by the search itself."""
    for name, value in members:
        if name in ONLY_OVER_HTTP:
            yield Fault("not-served", f"{name} is not answered here, only by GET /v1/search", name)
        elif has_text and name in ("q", "query"):
            yield Fault("conflict", f"{name}: the question is in the text part, leave it out of the data", name)
        elif isinstance(value, dict) or (isinstance(value, list) and any(isinstance(v, dict | list) for v in value)):
            yield Fault("wrong-type", f"{name[:100]!a} is not a string, number, boolean, or list of these", name[:100])


def _object(params: dict[str, Any], name: str) -> dict[str, Any]:
    if not isinstance(value := params.get(name), dict):
        raise A2aError(errors.INVALID_PARAMS, f"{name} is missing, or no object")
    return value


ITEM_MEMBERS = (
    "id", "type", "status", "name", "summary", "url", "version", "provider", "domain", "tags", "skills", "cheapest",
    "offers", "rating", "integrity", "signer", "signed", "chain", "caip2", "outpoint", "origin", "owner", "txid",
    "cardSha256", "updatedHeight", "timestamp", "command", "args", "duplicates", "lacks", "byMeaning",
    "score",
)  # fmt: skip
"""The members of items that the data part shows; `listingUrl` links to the others."""

_NAMED, _LONGEST_NAME, _LONGEST_ID = 10, 80, 200


async def reply(request: web.Request, message: SearchMessage, version: str) -> dict[str, Any]:
    """The result of `SendMessage` (version 1.0), `message/send` (0.3) or `tasks/send` (0.1). Raises ProblemError as a
    search does."""
    page = await find(request, message.pairs)
    parts: dict[str, dict[str, Any]] = {TEXT: {"text": _text(page)}, DATA: {"data": _data(page, base_url(request))}}
    shown = [_part(mode, parts[mode], version) for mode in message.modes]
    if version == "0.1":
        status = {"state": "completed", "timestamp": datetime.now(UTC).isoformat(timespec="seconds")}
        artifacts = [{"name": "search", "parts": shown, "index": 0}]
        return {"id": message.task_id, "sessionId": message.context_id, "status": status, "artifacts": artifacts}
    answer: dict[str, Any] = {"messageId": str(uuid4())}
    if message.context_id is not None:
        answer["contextId"] = message.context_id
    if version == "0.3":
        return {"kind": "message", "role": "agent", **answer, "parts": shown}
    return {"message": {"role": "ROLE_AGENT", **answer, "parts": shown}}


def _part(mode: str, part: dict[str, Any], version: str) -> dict[str, Any]:
    if version == "1.0":
        return part | ({"mediaType": DATA} if mode == DATA else {})
    return {"kind" if version == "0.3" else "type": "text" if mode == TEXT else "data", **part}


def _text(page: FoundPage) -> str:
    """How many listings there are, and the names of the first."""
    words = f" for {on_one_line(visible(page.search.text), _LONGEST_NAME)}" if page.search.text else ""
    if not page.total and not page.items:
        return f"No listings{words}."
    count = f"{page.total:,} listing{'' if page.total == 1 else 's'}{', or more,' if page.at_least else ''}{words}"
    if not page.total:
        count = f"No listings{words} by words; by meaning"
    elif not page.hits.matched:
        count += ", none of them with all of these words"
    lines = [
        f"{number}. {listing_line(item)}" for number, item in enumerate(page.items[:_NAMED], page.search.position + 1)
    ]
    return "\n".join((f"{count}:" if lines else f"{count}, none of them on this page.", *lines))


def listing_line(item: dict[str, Any]) -> str:
    """A listing in a line of text for people and models."""
    summary = f" - {on_one_line(visible(item['summary']))}" if item.get("summary") else ""
    kind = f"{item['type']}, near in meaning" if "byMeaning" in item else item["type"]
    kind += f", {rating_words(item['rating'])}" if item.get("rating") else ""
    return f"{on_one_line(visible(item['name']), _LONGEST_NAME)} ({kind}){summary} [{item['id'][:_LONGEST_ID]}]"


def _data(page: FoundPage, base: str) -> dict[str, Any]:
    return {
        "items": [_shown(item, base) for item in page.items],
        "total": page.total,
        "matched": page.hits.matched,
        "totalRelation": "gte" if page.at_least else "eq",
        "limit": page.search.query.limit,
        "offset": page.search.position,
        "nextCursor": page.next_cursor,
        "query": page.search.text,
        **page.comparison,
        **page.note_members,
    }


def _shown(item: dict[str, Any], base: str) -> dict[str, Any]:
    shown = {name: item[name] for name in ITEM_MEMBERS if name in item}
    return shown | {"listingUrl": listing_url(base, item["id"])}
