"""GASP, by which overlays synchronise a topic: the admitted outputs by score, and the transactions of their graphs."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from aiohttp import web
from pydantic import Field

from overlay.answers.schema_parts import array_of, record
from overlay.api.answers import SERVICES, body, json_answer
from overlay.api.counters import SharedLoad
from overlay.api.executors import RECORDS, BoundedExecutor, run_in
from overlay.api.problems import bad_request
from overlay.api.request_bodies import OpenBody, Txid, body_schemas, read
from overlay.systems.bsv_overlay.express_routes import express_route, read_topic, topic_header
from parsers.bitcoin.tx import Outpoint, read_exactly

VERSION = 1
MAX_OUTPUTS = 1_000
"""The limit of outputs in an answer, also the default. Clients request the graphs of all of them at once, and do not
retry a refused one; a client that requests more outputs continues at its next synchronisation."""

NODES = web.AppKey("graph nodes", BoundedExecutor)

MAX_SCORE = (1 << 63) - 1
MAX_BODY = 4_096


def node_executor(load: SharedLoad) -> BoundedExecutor:
    """The threads that read nodes; concurrent requests of one client queue for them. Create it in an event loop."""
    return BoundedExecutor("graph node", load, workers=2, waiting=10 * MAX_OUTPUTS, per_client=2 * MAX_OUTPUTS,
                           seconds=60.0)  # fmt: skip


_OUTPOINT = "^[0-9a-fA-F]{64}[_.:i][0-9]{1,10}$"


class SyncRequest(OpenBody):
    """Another overlay's question for outputs with a score above `since` (GASP)."""

    version: int = Field(json_schema_extra={"const": VERSION})
    since: float = Field(ge=0, allow_inf_nan=False)
    limit: int | None = Field(default=None, ge=1)


class NodeRequest(OpenBody):
    """Another overlay's question for a transaction of the graph whose tip is the outpoint `graphID` (GASP)."""

    txid: Txid
    graphID: str = Field(json_schema_extra={"pattern": _OUTPOINT})  # noqa: N815 - the member's name in JSON
    outputIndex: int = Field(ge=0)  # noqa: N815


async def sync_response(request: web.Request) -> web.Response:
    """The outputs of a topic with scores above `since`, in this order, with unique scores (GASP)."""
    read_topic(request)
    question = read(SyncRequest, await body(request, MAX_BODY))
    if question.version != VERSION:
        detail = f"GASP version mismatch. Current version: {VERSION}, foreign version: {question.version}"
        raise bad_request("ERR_GASP_VERSION_MISMATCH", detail, pointer="/version")
    limit = min(question.limit or MAX_OUTPUTS, MAX_OUTPUTS)
    since = math.floor(min(question.since, MAX_SCORE))
    outputs = await run_in(request, RECORDS, request.app[SERVICES].store.topic.graph.outputs, since, limit)
    utxos = [
        {"txid": outpoint.txid[::-1].hex(), "outputIndex": outpoint.vout, "score": score} for outpoint, score in outputs
    ]
    return json_answer({"UTXOList": utxos, "since": question.since}, headers={"Cache-Control": "no-store"})


async def graph_node(request: web.Request) -> web.Response:
    """A transaction of a graph, with its merkle path if it is in a block; otherwise the client requests its parents
    (GASP)."""
    if "X-BSV-Topic" in request.headers:
        read_topic(request)
    question = read(NodeRequest, await body(request, MAX_BODY))
    try:
        root = Outpoint.parse(question.graphID)
    except ValueError as error:
        raise bad_request("not-an-outpoint", str(error), pointer="/graphID") from None
    txid = bytes.fromhex(question.txid)[::-1]
    node = await run_in(request, NODES, request.app[SERVICES].store.topic.graph.node, root.txid, txid)
    if node is None:
        detail = f"transaction {question.txid} is not in the graph of {root}"
        raise bad_request("unknown-transaction", detail, pointer="/txid")
    if question.outputIndex >= len(read_exactly(node.raw).outputs):
        detail = f"transaction {question.txid} has no output {question.outputIndex}"
        raise bad_request("unknown-output", detail, pointer="/outputIndex")
    members = {"graphID": question.graphID, "rawTx": node.raw.hex(), "outputIndex": question.outputIndex}
    return json_answer(members | ({"proof": node.path.hex()} if node.path else {}))


_route = partial(express_route, method="POST")
ROUTES = (
    _route("/requestSyncResponse", sync_response, "GaspOutputs", body="GaspSyncRequest",
           headers=(topic_header(required=True),)),
    _route("/requestForeignGASPNode", graph_node, "GaspNode", body="GaspNodeRequest",
           headers=(topic_header(required=False),)),
)  # fmt: skip

_TEXT, _COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}
_TXID = {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"}
_OUTPUT = record({"txid": _TXID, "outputIndex": _COUNT, "score": _COUNT})
SCHEMAS: dict[str, Any] = {
    **body_schemas({"GaspSyncRequest": SyncRequest, "GaspNodeRequest": NodeRequest}),
    "GaspOutputs": record({"UTXOList": array_of(_OUTPUT), "since": {"type": "number", "minimum": 0}}),
    "GaspNode": record({"graphID": _TEXT, "rawTx": _TEXT, "outputIndex": _COUNT}, {"proof": _TEXT}),
}
