"""The route `/lookup` (BRC-24), and its service of the registry: the search of the API, answered with the
outputs where the satoshis are now."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiohttp import hdrs, web
from pydantic import Field

from overlay.answers.schema_parts import array_of, record
from overlay.api import protocol_requests
from overlay.api.answers import SERVICES, Answer, body, json_bytes
from overlay.api.executors import RECORDS, run_in
from overlay.api.parameters import parameter
from overlay.api.problems import bad_request
from overlay.api.request_bodies import OpenBody, body_schemas, read
from overlay.api.routes import BINARY, JSON
from overlay.api.values import shown
from overlay.listings.lookup import ListingNotFoundError
from overlay.listings.repository import ListingRepository
from overlay.systems.bsv_overlay.express_routes import express_route
from overlay.systems.bsv_overlay.host_tokens import host_outputs
from overlay.systems.bsv_overlay.output_list import (
    JSON_CHARACTERS,
    MAX_ANSWER_BYTES,
    OverlayOutput,
    PackedTransaction,
    aggregated,
    output_list,
)
from overlay.systems.bsv_overlay.service_names import CHAIN_PREFIX, LOOKUP, LOOKUPS, by_name, names
from overlay.text.compact_json import encode
from parsers.bitcoin.beef import NODE_PAIR
from parsers.bitcoin.tx import Outpoint
from parsers.reasons import UNPROVED

_LISTED = ("live", "pending")
_DIRECT = ("id", "outpoint")
MAX_SAME_OUTPOINT = 64
"""Registrations at one outpoint that are looked up, at most: inscriptions of one output are one."""

MAX_PENDING = 20
"""Outputs in no block that are looked up among submissions for one answer, at most: each may be of 32 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryOutputs:
    """The outputs of a page. `total` counts the listings that match, `next_cursor` is the page cursor of the next page,
    and `left_out` counts the outputs of this page that the answer lacks: in the mempool only, without a stored proof,
    or too large."""

    outputs: tuple[OverlayOutput, ...] = ()
    total: int = 0
    next_cursor: str | None = None
    left_out: int = 0


class CurrentOutput(NamedTuple):
    """Where a listing's satoshi is: the configured name of the chain, and the outpoint."""

    id: str
    chain: str
    outpoint: Outpoint


async def find_outputs(request: web.Request, query: Any, room: int) -> RegistryOutputs:
    """The outputs for a query, in at most about `room` bytes of transactions. Raises BadRequestError naming every
    fault, and ProblemError as a search does."""
    if not isinstance(query, dict):
        raise bad_request(
            "wrong-type", f"the query is {shown(str(query))}: an object of search parameters", pointer="/query"
        )
    if query.keys() & set(_DIRECT):
        items = await _direct(request, query)
        return await _proved(request, items, len(items), None, room)
    pairs = protocol_requests.json_pairs(query, "/query")
    chains = request.app[SERVICES].chains()
    bsv_chains = [name for name, caip2 in chains.items() if caip2.startswith(CHAIN_PREFIX)]
    if not bsv_chains:
        return RegistryOutputs()
    if "chain" not in query and len(bsv_chains) < len(chains):
        pairs += [("chain", name) for name in bsv_chains]
    has_words = any(name in ("q", "query") and text.strip() for name, text in pairs)
    page = await protocol_requests.find(request, pairs, with_duplicates=not has_words)
    return await _proved(request, page.items, page.total, page.next_cursor, room)


async def _direct(request: web.Request, query: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The item with an id, or the items at an outpoint; empty for an unknown one."""
    name = next(name for name in _DIRECT if name in query)
    text = query[name]
    if len(query) > 1 or not isinstance(text, str):
        raise bad_request("not-alone", f"{name} is a text, and the only member of its query", pointer=f"/query/{name}")
    ids = [text]
    if name == "outpoint":
        try:
            outpoint = Outpoint.parse(text)
        except ValueError as error:
            raise bad_request("not-an-outpoint", str(error), pointer="/query/outpoint") from None
        ids = (await run_in(request, RECORDS, request.app[SERVICES].store.topic.ids_at, outpoint))[:MAX_SAME_OUTPOINT]
    items = []
    for id_ in ids:
        with suppress(ListingNotFoundError):
            items.append(await protocol_requests.get(request, id_))
    return items


async def _proved(
    request: web.Request, items: Sequence[Mapping[str, Any]], total: int, next_cursor: str | None, room: int
) -> RegistryOutputs:
    """The outputs of items with their proofs: one for each outpoint."""
    current: dict[Outpoint, CurrentOutput] = {}
    for item in items:
        if item["caip2"].startswith(CHAIN_PREFIX) and item["outpoint"] and _is_listed(item):
            outpoint = Outpoint.parse(item["outpoint"])
            current.setdefault(outpoint, CurrentOutput(item["id"], item["chain"], outpoint))
    chosen = tuple(current.values())
    outputs = (
        await run_in(request, RECORDS, proved_outputs, request.app[SERVICES].store, chosen, room) if chosen else ()
    )
    return RegistryOutputs(
        outputs=outputs, total=total, next_cursor=next_cursor, left_out=len(chosen) - len(outputs)
    )  # fmt: skip


def _is_listed(item: Mapping[str, Any]) -> bool:
    """Whether an item is at an output as far as is known. An unproved item counts where it was requested."""
    return item["status"] in _LISTED or any(warning["code"] == UNPROVED for warning in item["warnings"])


def proved_outputs(store: ListingRepository, chosen: Sequence[CurrentOutput], room: int) -> tuple[OverlayOutput, ...]:
    """The chosen outputs whose transactions are stored with a proof, or were submitted with a proved ancestor, in this
    order, up to the size limit."""
    by_chain: dict[str, list[bytes]] = {}
    for _, chain, outpoint in chosen:
        by_chain.setdefault(chain, []).append(outpoint.txid)
    mined = {chain: store.topic.mined(chain, txids, room) for chain, txids in by_chain.items()}
    outputs, pending_tries = list[OverlayOutput](), MAX_PENDING
    for id_, chain, outpoint in chosen:
        proof = mined[chain].get(outpoint.txid)
        if proof is not None:
            output = OverlayOutput(outpoint, encode({"id": id_}), (PackedTransaction(proof.raw, proof.bump),))
        elif pending_tries > 0:
            pending_tries -= 1
            output = _pending_output(store, id_, chain, outpoint, room)
        else:
            continue
        # what has the size of two merkle nodes proves nothing (CVE-2017-12842)
        if output.transactions and len(output.transactions[-1].raw) != NODE_PAIR and output.size <= room:
            room -= output.size
            outputs.append(output)
    return tuple(outputs)


def _pending_output(store: ListingRepository, id_: str, chain: str, outpoint: Outpoint, room: int) -> OverlayOutput:
    """An output of a submitted transaction, with its ancestors; without transactions where it was not submitted."""
    nodes = store.topic.graph.package(chain, outpoint.txid, room)
    context = encode({"id": id_, "pending": True})
    return OverlayOutput(outpoint, context, tuple(PackedTransaction(raw, path) for raw, path in nodes))


MAX_BODY = 64 * 1024


class LookupQuestion(OpenBody):
    """A question to a lookup service of a BSV overlay (BRC-24). What the query may be depends on the service."""

    service: str = Field(json_schema_extra={"enum": list(names(LOOKUPS))})
    query: Any


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
    """Headers with the values for which the output list has no member."""
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
    **body_schemas({"OverlayLookupQuestion": LookupQuestion}),
    "OverlayLookupAnswer": record({"type": {"const": "output-list"}, "outputs": array_of(_OUTPUT)}),
}
