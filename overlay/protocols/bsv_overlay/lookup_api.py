"""The route `/lookup` (BRC-24)."""

from __future__ import annotations

from asyncio import to_thread
from typing import Any

from aiohttp import hdrs, web

from overlay.api.answers import SERVICES, Answer, body, json_bytes
from overlay.api.parameters import parameter
from overlay.api.problems import bad_request
from overlay.api.request_bodies import LookupQuestion, read
from overlay.api.routes import BINARY, JSON
from overlay.api.schemas import array_of, record
from overlay.api.values import shown
from overlay.protocols.bsv_overlay.express_routes import express_route
from overlay.protocols.bsv_overlay.host_tokens import host_outputs
from overlay.protocols.bsv_overlay.output_list import JSON_CHARACTERS, MAX_ANSWER_BYTES, aggregated, output_list
from overlay.protocols.bsv_overlay.registry_lookup import RegistryOutputs, find_outputs
from overlay.protocols.bsv_overlay.service_names import LOOKUP, LOOKUPS, by_name, names
from overlay.text.compact_json import encode

MAX_BODY = 64 * 1024


async def lookup(request: web.Request) -> web.Response:
    """The outputs that a lookup service returns for a query, as JSON; with `X-Aggregation: yes` as bytes with one BEEF
    (BRC-24)."""
    question = read(LookupQuestion, await body(request, MAX_BODY))
    service = by_name(LOOKUPS, question.service)
    if service is None:
        services = ", ".join(service.name for service in LOOKUPS)
        detail = f"{shown(question.service)} is not a lookup service here: one of {services}"
        raise bad_request("unknown-service", detail, pointer="/service")
    binary = request.headers.get("X-Aggregation", "").strip().lower() == "yes"
    if service.name == LOOKUP:
        room = MAX_ANSWER_BYTES // (1 if binary else JSON_CHARACTERS)
        result = await find_outputs(request, question.query, room)
    else:
        tokens = host_outputs(request.app[SERVICES], service, question.query)
        result = RegistryOutputs(outputs=tokens, total=len(tokens))
    headers = _headers(result)
    if binary:
        packed = await to_thread(aggregated, result.outputs)
        return Answer(body=packed, headers={hdrs.CONTENT_TYPE: BINARY, **headers})
    return json_bytes(await to_thread(_encoded, result), headers=headers)


def _encoded(result: RegistryOutputs) -> bytes:
    return encode(output_list(result.outputs))


def _headers(result: RegistryOutputs) -> dict[str, str]:
    """What the output list has no member for."""
    headers = {"Cache-Control": "no-store", "X-Total-Count": str(result.total), "X-Left-Out": str(result.left_out)}
    return headers | ({"X-Next-Cursor": result.next_cursor} if result.next_cursor else {})


_AGGREGATION = parameter("X-Aggregation", "`yes`: the answer is binary.")
ROUTES = (
    express_route(
        "/lookup", lookup, "OverlayLookupAnswer", method="POST", media=(JSON, BINARY), body="OverlayLookupQuestion",
        headers=(_AGGREGATION,),
    ),
)  # fmt: skip

_BYTES = array_of({"type": "integer", "minimum": 0, "maximum": 255})
_OUTPUT = record({"beef": _BYTES, "outputIndex": {"type": "integer", "minimum": 0}}, {"context": _BYTES})
SCHEMAS: dict[str, Any] = {
    "OverlayLookupQuestion": record({"service": {"enum": names(LOOKUPS)}, "query": {}}),
    "OverlayLookupAnswer": record({"type": {"const": "output-list"}, "outputs": array_of(_OUTPUT)}),
}
