"""The routes by which overlays compare the transactions that their topic admitted, block by block, and get the missing
ones (BRC-136)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from aiohttp import web
from pydantic import Field

from indexer.model import UNCONFIRMED
from overlay.answers.schema_parts import BOOL, COUNT, HEX, TEXT, TXID, array_of, record
from overlay.api.answers import SERVICES, body, json_bytes
from overlay.api.executors import read_json
from overlay.api.problems import bad_request
from overlay.api.request_bodies import Body, body_schemas, read
from overlay.listings.repository import ListingRepository
from overlay.systems.bsv_overlay.express_routes import express_route, read_topic, topic_header
from overlay.systems.bsv_overlay.service_names import CHAIN_PREFIX
from parsers.bitcoin import bump
from parsers.bitcoin.basm import TopicAnchor
from parsers.errors import ParseError

MAX_BODY = 128 * 1024
MAX_RANGE = 1_024
"""Anchors in one answer (BRC-136)."""

MAX_ADMITTED = 20_000
"""Admitted transactions in one answer: 2 MB. The next request continues at `nextOffset`."""

MAX_TXIDS = 1_000
MAX_RAW_BYTES = 16 << 20
"""Bytes of raw transactions in one answer; a single one has as many at most."""

MAX_PARENTS = 100
"""Transactions of one request that are also searched among those stored for their output values."""

_Height = Annotated[int, Field(ge=0, lt=UNCONFIRMED)]
_Txid = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Txids = Annotated[list[_Txid], Field(min_length=1, max_length=MAX_TXIDS)]


class AnchorRange(Body):
    """The heights of the first and the last anchor."""

    fromHeight: _Height  # noqa: N815 - the members' names in JSON, here and below
    toHeight: _Height  # noqa: N815


class AdmittedQuestion(Body):
    """The height of a block, its hash if it must be this one, and how many admitted transactions to pass over."""

    blockHeight: _Height  # noqa: N815
    blockHash: _Txid | None = None  # noqa: N815
    offset: Annotated[int, Field(ge=0, lt=UNCONFIRMED)] = 0


class PathQuestion(Body):
    """The height of a block, and the txids of admitted transactions."""

    blockHeight: _Height  # noqa: N815
    txids: _Txids


class RawQuestion(Body):
    """The txids of transactions."""

    txids: _Txids


async def anchor_tip(request: web.Request) -> web.Response:
    """The newest anchor of a topic (BRC-136), the height of the first, and whether anything admitted may be missing."""
    topic, chain = read_topic(request), _chain(request)
    return await _answer(request, _tip, topic, chain)


async def anchor_range(request: web.Request) -> web.Response:
    """The anchors of a topic from one height to another (BRC-136), at most 1,024 at once."""
    topic, chain = read_topic(request), _chain(request)
    heights = read(AnchorRange, await body(request, MAX_BODY))
    if not 0 <= heights.toHeight - heights.fromHeight < MAX_RANGE:
        detail = f"toHeight is {heights.toHeight}: from fromHeight on, and for at most {MAX_RANGE} heights at once"
        raise bad_request("out-of-range", detail, pointer="/toHeight")
    return await _answer(request, _range, topic, chain, heights)


async def admitted_list(request: web.Request) -> web.Response:
    """The transactions of a block that a topic admitted (BRC-136), in block order, with their numbers in it."""
    topic, chain = read_topic(request), _chain(request)
    return await _answer(request, _admitted, topic, chain, read(AdmittedQuestion, await body(request, MAX_BODY)))


async def compound_path(request: web.Request) -> web.Response:
    """One merkle path (BRC-74) of several admitted transactions of a block (BRC-136)."""
    topic, chain = read_topic(request), _chain(request)
    return await _answer(request, _path, topic, chain, read(PathQuestion, await body(request, MAX_BODY)))


async def raw_transactions(request: web.Request) -> web.Response:
    """Raw transactions by txid (BRC-136); those that are not stored, or have no room in the answer, are missing."""
    return await _answer(request, _delivered, _chain(request), read(RawQuestion, await body(request, MAX_BODY)))


async def _answer(request: web.Request, work: Callable[..., dict[str, Any]], *args: Any) -> web.Response:
    encoded = await read_json(request, work, request.app[SERVICES].store, *args)
    return json_bytes(encoded, headers={"Cache-Control": "no-store"})


def _chain(request: web.Request) -> tuple[str, str]:
    """The BSV chain of the topic, its name and its CAIP-2 id: the first that is configured. Raises BadRequestError."""
    chains = request.app[SERVICES].chains().items()
    configured = next((pair for pair in chains if pair[1].startswith(CHAIN_PREFIX)), None)
    if configured is None:
        raise bad_request("no-chain", "this overlay follows no BSV chain")
    return configured


def _tip(store: ListingRepository, topic: str, chain: tuple[str, str]) -> dict[str, Any]:
    newest, tip = store.topic.anchors.newest(chain[0]), store.topic.anchor_tip(*chain)
    shown = _anchor(topic, newest) if newest else {"topic": topic, "blockHeight": tip.height, "tac": _hex(tip.tac)}
    covered = {"genesisHeight": tip.genesis, "undecidedFrom": tip.undecided_from}
    stated = {name: height for name, height in covered.items() if height is not None}
    return shown | {"chain": tip.chain, "complete": tip.complete, **stated}


def _range(store: ListingRepository, topic: str, chain: tuple[str, str], heights: AnchorRange) -> dict[str, Any]:
    anchors = store.topic.anchors.between(chain[0], heights.fromHeight, heights.toHeight)
    return {"topic": topic, "anchors": [_anchor(topic, anchor) for anchor in anchors]}


def _anchor(topic: str, anchor: TopicAnchor) -> dict[str, Any]:
    return {
        "topic": topic, "blockHeight": anchor.height, "blockHash": _hex(anchor.block_hash),
        "basmRoot": _hex(anchor.root), "admittedCount": anchor.admitted, "tac": _hex(anchor.tac),
    }  # fmt: skip


def _admitted(
    store: ListingRepository, topic: str, chain: tuple[str, str], question: AdmittedQuestion
) -> dict[str, Any]:
    height, end = question.blockHeight, question.offset + MAX_ADMITTED
    of_block = store.topic.anchors.admitted(chain[0], height, question.offset, MAX_ADMITTED)
    if of_block is None:
        raise bad_request(
            "unknown-block", f"there is no block at height {height} yet, or it was not read", pointer="/blockHeight"
        )
    block_hash = _hex(of_block.block_hash)
    if question.blockHash not in (None, block_hash):
        raise bad_request("another-block", f"the block at height {height} is {block_hash} here", pointer="/blockHash")
    answer: dict[str, Any] = {
        "topic": topic, "blockHeight": height, "blockHash": block_hash, "admittedCount": of_block.count,
        "admitted": [
            {"txid": _hex(transaction.txid), "blockIndex": transaction.number} for transaction in of_block.transactions
        ],
    }  # fmt: skip
    return answer | ({"nextOffset": end} if end < of_block.count else {})


def _path(store: ListingRepository, topic: str, chain: tuple[str, str], question: PathQuestion) -> dict[str, Any]:
    txids = [_bytes(txid) for txid in dict.fromkeys(question.txids)]
    stored = store.topic.merkle_paths(chain[0], question.blockHeight, txids)
    missing = next((txid for txid in txids if txid not in stored), None)
    if missing is not None:
        detail = f"there is no merkle path of {_hex(missing)} at height {question.blockHeight} here"
        raise bad_request("not-proved", detail, pointer="/txids")
    try:
        path = bump.combine([bump.read(stored[txid]) for txid in txids])
    except ParseError as error:
        raise bad_request("not-proved", f"the paths cannot be combined: {error}", pointer="/txids") from None
    return {
        "topic": topic, "blockHeight": question.blockHeight, "txids": [_hex(txid) for txid in txids],
        "merklePath": path.to_bytes().hex(),
    }  # fmt: skip


def _delivered(store: ListingRepository, chain: tuple[str, str], question: RawQuestion) -> dict[str, Any]:
    txids = [_bytes(txid) for txid in dict.fromkeys(question.txids)]
    raws = {txid: proof.raw for txid, proof in store.topic.mined(chain[0], txids, MAX_RAW_BYTES).items()}
    room = MAX_RAW_BYTES - sum(map(len, raws.values()))
    for txid in [txid for txid in txids if txid not in raws][:MAX_PARENTS]:
        raw = store.topic.parent(txid)
        if raw is not None and len(raw) <= room:
            raws[txid] = raw
            room -= len(raw)
    transactions = [{"txid": _hex(txid), "rawTx": raws[txid].hex()} for txid in txids if txid in raws]
    return {"transactions": transactions, "missing": [_hex(txid) for txid in txids if txid not in raws]}


def _hex(digest: bytes) -> str:
    return digest[::-1].hex()


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text)[::-1]


_route = partial(express_route, method="POST", headers=(topic_header(required=True),))
ROUTES = (
    _route("/requestTopicAnchorTip", anchor_tip, "TopicAnchorTip"),
    _route("/requestTopicAnchorRange", anchor_range, "TopicAnchorRange", body="AnchorRange"),
    _route("/requestAdmittedList", admitted_list, "AdmittedList", body="AdmittedQuestion"),
    _route("/requestCompoundMerklePath", compound_path, "CompoundPath", body="PathQuestion"),
    _route("/requestRawTransactions", raw_transactions, "RawTransactions", body="RawQuestion", headers=()),
)

_HEIGHT = COUNT | {"exclusiveMaximum": UNCONFIRMED}
_ANCHOR = {
    "topic": TEXT,
    "blockHeight": COUNT,
    "blockHash": TXID,
    "basmRoot": TXID,
    "admittedCount": COUNT,
    "tac": TXID,
}
_TIP = {"topic": TEXT, "blockHeight": {"type": "integer", "minimum": -1}, "tac": TXID, "chain": TEXT, "complete": BOOL}
_TIP_MORE = {name: _ANCHOR[name] for name in ("blockHash", "basmRoot", "admittedCount")} | {
    "genesisHeight": COUNT,
    "undecidedFrom": COUNT,
}
SCHEMAS: dict[str, Any] = {
    **body_schemas(
        {
            "AnchorRange": AnchorRange,
            "AdmittedQuestion": AdmittedQuestion,
            "PathQuestion": PathQuestion,
            "RawQuestion": RawQuestion,
        }
    ),
    "TopicAnchorTip": record(_TIP, _TIP_MORE),
    "TopicAnchorRange": record({"topic": TEXT, "anchors": array_of(record(_ANCHOR))}),
    "AdmittedList": record(
        {
            "topic": TEXT,
            "blockHeight": COUNT,
            "blockHash": TXID,
            "admittedCount": COUNT,
            "admitted": array_of(record({"txid": TXID, "blockIndex": COUNT})),
        },
        {"nextOffset": COUNT},
    ),
    "CompoundPath": record({"topic": TEXT, "blockHeight": COUNT, "txids": array_of(TXID), "merklePath": HEX}),
    "RawTransactions": record(
        {"transactions": array_of(record({"txid": TXID, "rawTx": HEX})), "missing": array_of(TXID)}
    ),
}
