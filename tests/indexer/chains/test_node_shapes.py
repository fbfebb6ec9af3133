"""The stand-in for a node is held to what a real one was recorded to answer, or tests against it would mean little."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from parsers.bitcoin.tx import sha256d
from tests.fakes import MemoryChain
from tests.nodes import Node
from tests.oracles.wire import frames

EXACT = [
    "getblockcount", "getbestblockhash", "getblockhash", "getblockhash-too-high", "getblockheader-raw",
    "getblockheader-unknown", "getblock-0", "getblock-unknown", "getrawtransaction", "getrawtransaction-unknown",
    "getrawmempool", "unknown-method", "bad-json", "batch", "rest-block-bin", "rest-block-stale", "rest-block-unknown",
    "rest-block-malformed", "rest-headers-bin", "rest-headers-stale", "rest-headers-too-many", "bad-login", "no-login",
    "get-root",
]  # fmt: skip
"""Recorded answers that the stand-in gives too: status, type, framing and what they say."""

PARTLY = ["getblockchaininfo", "getmempoolinfo"]
"""Recorded answers of which it gives some members."""


class Recorded(NamedTuple):
    """An answer as it was recorded."""

    status: int
    headers: dict[str, str]
    body: bytes


def recorded(path: Path) -> Recorded:
    head, _, body = path.read_bytes().partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return Recorded(int(first.split()[1]), dict(line.split(": ", 1) for line in lines), body)


@pytest.fixture
async def node(sample: Path) -> AsyncIterator[Node]:
    chain = MemoryChain(*frames((sample / "blk00000.dat").read_bytes()))
    for item in json.loads((sample / "mempool.json").read_text()):
        raw = bytes.fromhex(item["hex"])
        chain.unconfirmed[sha256d(raw)] = raw
    async with Node(chain) as node:
        yield node


@pytest.fixture
def answers(shared: Path) -> Path:
    return shared / "sample-chain" / "rpc"


async def ask(node: Node, request: dict[str, Any], login: str | None) -> Recorded:
    headers = {"Authorization": "Basic " + base64.b64encode(login.encode()).decode()} if login else {}
    body = request.get("body")
    data = body if isinstance(body, str) else json.dumps(body)
    async with aiohttp.ClientSession() as session:
        url = node.bare_url + request["path"]
        async with session.request(
            request["method"], url, data=data if body is not None else None, headers=headers
        ) as got:
            return Recorded(got.status, dict(got.headers), await got.read())


@pytest.mark.parametrize("name", EXACT)
async def test_the_stand_in_answers_as_the_node_did(name: str, node: Node, answers: Path) -> None:
    request = json.loads((answers / "requests.json").read_text())[name]
    theirs = recorded(answers / f"{name}.http")
    login = {"no-login": None, "bad-login": "user:wrong"}.get(name, "user:pass/word")
    ours = await ask(node, request, login)
    assert ours.status == theirs.status
    assert ours.headers["Content-Type"].split(";")[0] == theirs.headers["Content-Type"].split(";")[0]
    for header in ("Transfer-Encoding", "WWW-Authenticate"):
        assert ours.headers.get(header) == theirs.headers.get(header)
    if theirs.headers["Content-Type"] == "application/json":
        assert json.loads(ours.body) == json.loads(theirs.body)
    else:
        assert ours.body == theirs.body


@pytest.mark.parametrize("name", PARTLY)
async def test_the_fake_node_describes_itself_as_the_real_node_does(name: str, node: Node, answers: Path) -> None:
    request = json.loads((answers / "requests.json").read_text())[name]
    ours, theirs = await ask(node, request, "user:pass/word"), recorded(answers / f"{name}.http")
    body, expected = json.loads(ours.body), json.loads(theirs.body)
    assert body["result"].items() <= expected["result"].items()
    assert (ours.status, body["id"], body["error"]) == (theirs.status, expected["id"], expected["error"])


async def test_the_stand_in_warms_up_as_the_node_did(node: Node, answers: Path) -> None:
    node.warming_up = "RPC server started"
    requests = {"method": "POST", "path": "/", "body": {"method": "getblockcount", "params": [], "id": 0}}
    ours, theirs = await ask(node, requests, "user:pass/word"), recorded(answers / "warming-up.http")
    assert (ours.status, json.loads(ours.body)) == (theirs.status, json.loads(theirs.body))
    rest = await ask(node, {"method": "GET", "path": "/rest/chaininfo.json"}, None)
    recorded_rest = recorded(answers / "rest-warming-up.http")
    assert (rest.status, rest.body) == (recorded_rest.status, recorded_rest.body)
