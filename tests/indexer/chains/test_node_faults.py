"""Faults between us and a node, and forged answers: each is retried, or refused with a clear error."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from indexer.chains.node import create
from indexer.chains.node.address import read as read_address
from indexer.chains.node.chain import NodeChain
from indexer.chains.node.client import NodeClient, RpcError, TooLargeError
from indexer.chains.spool import Spool
from indexer.errors import SourceError, SourceRefusalError, SourceUnavailableError
from parsers.bitcoin.tx import sha256d
from tests.chainkit import ChainKit
from tests.fakes import MemoryChain
from tests.indexer.chains.following import Open, hashes, opened
from tests.indexing import Indexing
from tests.nodes import Node
from tests.waiting import until

__all__ = ["opened"]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr("indexer.chains.node.client.PAUSES", (0.0, 0.0))
    monkeypatch.setattr("indexer.chains.node.block_download.PAUSES", (0.0, 0.0))


@pytest.fixture
def kit() -> ChainKit:
    mint = ChainKit(funds=8)
    mint.mine_empty(5)
    return mint


@pytest.fixture
async def node(kit: ChainKit) -> AsyncIterator[Node]:
    async with Node(MemoryChain(*kit.blocks)) as node:
        yield node


async def refusal(url: str, name: str = "bsv") -> SourceError:
    """The error that opening this chain raises."""
    chain = create(name, url)
    try:
        with pytest.raises(SourceError) as refused:
            await chain.open()
    finally:
        await chain.close()
    return refused.value


def is_refusal(error: SourceError) -> bool:
    """Whether the source is asked again less and less often, up to every five minutes."""
    return isinstance(error, SourceRefusalError)


# --- who may ask, and what is there


async def test_a_wrong_login_stops_with_what_to_check(node: Node) -> None:
    error = await refusal(f"http://user:wr%40ng@127.0.0.1:{node.port}")
    assert is_refusal(error)
    assert str(error) == (
        f"bsv: http://127.0.0.1:{node.port} refuses the login (401); check user and password in the URL, "
        "rpcauth and rpcuser"
    )
    error = await refusal(node.bare_url)
    assert is_refusal(error)
    assert "it requires a login: add user:password@ to the URL, or ?cookie=PATH" in str(error)


async def test_an_address_that_may_not_ask_stops_with_what_to_configure(node: Node) -> None:
    node.forbidden = True
    error = await refusal(node.url)
    assert is_refusal(error)
    assert "refuses requests (403); add this machine to rpcallowip" in str(error)


async def test_a_cookie_is_read_again_when_the_node_has_written_another(
    node: Node, kit: ChainKit, tmp_path: Path
) -> None:
    cookie = tmp_path / ".cookie"
    cookie.write_text("__cookie__:one")
    node.login = ("__cookie__", "one")
    chain = create("bsv", f"{node.bare_url}?cookie={cookie}")
    await chain.open()
    node.login = ("__cookie__", "two")
    cookie.write_text("__cookie__:two\n")
    assert (await chain.tip()).hash == kit.tip.hash  # type: ignore[union-attr]
    node.login = ("__cookie__", "three")
    with pytest.raises(SourceError, match=r"refuses the login \(401\); check the cookie .*\.cookie"):
        await chain.tip()
    cookie.unlink()
    with pytest.raises(SourceUnavailableError, match=r"cookie .* cannot be read \(No such file or directory\)"):
        await chain.tip()
    await chain.close()


async def test_a_node_that_warms_up_or_is_in_safe_mode_is_waited_for(node: Node) -> None:
    node.warming_up = "Loading block index..."
    error = await refusal(node.url)
    assert not is_refusal(error)
    assert str(error).endswith("is starting: Loading block index...")
    node.warming_up = ""
    node.refused["getblockhash"] = (-2, "Safe mode: chain split")
    error = await refusal(node.url)
    assert not is_refusal(error)
    assert "is in safe mode: Safe mode: chain split" in str(error)


async def test_a_port_where_nobody_listens_is_waited_for() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        error = await refusal(f"http://127.0.0.1:{port}")
    assert not is_refusal(error)
    assert str(error).endswith(f"the node at http://127.0.0.1:{port} does not answer: connection refused")
    assert "does not answer: " in str(await refusal("http://no-such-host.invalid:8332"))


async def test_a_server_that_is_no_node_stops(node: Node) -> None:
    for created in (
        web.Response(text="<html>hello</html>", content_type="text/html"),
        web.Response(text="[]"),
        web.Response(text="[" * 100_000),
        web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}),
        web.Response(status=405),
    ):
        node.instead["getblockhash"] = lambda _, built=created: built
        error = await refusal(node.url)
        assert is_refusal(error)
        assert "not as a node does; is that the node's RPC port?" in str(error)
        node.instead["getblockhash"] = lambda _: web.json_response({"result": 7, "error": None})
    assert "its genesis block is '7' (of no known network)" in str(await refusal(node.url))


async def test_a_busy_node_gets_the_request_again(node: Node, kit: ChainKit, opened: Open) -> None:
    chain = await opened(node)
    answers = [web.Response(status=500, text="Work queue depth exceeded"), web.Response(status=503)]
    node.instead["getbestblockhash"] = lambda _: answers.pop() if answers else normal()

    def normal() -> web.Response:
        return web.json_response({"result": kit.tip.hex, "error": None, "id": 0})

    assert (await chain.tip()).hash == kit.tip.hash  # type: ignore[union-attr]
    assert not answers
    node.instead["getbestblockhash"] = lambda _: web.Response(status=500, text="Work queue depth exceeded")
    with pytest.raises(SourceUnavailableError, match="answers getbestblockhash with status 500 and no JSON"):
        await chain.tip()


async def test_a_silent_node_is_given_up(node: Node, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.chains.node.client.SILENCE_SECONDS", 0.05)
    chain = await opened(node)

    async def silent(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    node.instead["getbestblockhash"] = silent
    with pytest.raises(SourceUnavailableError, match="does not answer: it was silent for too long"):
        await chain.tip()


async def test_answers_are_bounded(node: Node) -> None:
    client = NodeClient(read_address("bsv", node.url))
    node.instead["getblock"] = lambda _: web.Response(body=bytes(1_001))
    with pytest.raises(TooLargeError, match="more than 1,000 bytes"):
        await client.call("getblock", limit=1_000)
    with pytest.raises(RpcError, match=r"bsv: the node refuses nonsense: Method not found \(code -32601\)"):
        await client.call("nonsense")
    assert [str(item) for item in await client.batch([("getblockcount", ()), ("nonsense", ())])] == [
        "6", "bsv: the node refuses nonsense: Method not found (code -32601)",
    ]  # fmt: skip
    await client.close()
    await client.close()


async def test_tls_is_checked_and_its_authority_can_be_named(
    kit: ChainKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(  # noqa: ASYNC221 - nothing else waits
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    async with Node(MemoryChain(*kit.blocks), tls=context) as node:
        url = f"https://user:pass%2Fword@localhost:{node.port}"
        error = await refusal(url)
        assert is_refusal(error)
        assert "is not trusted" in str(error)
        assert "name the file of its authority in SSL_CERT_FILE" in str(error)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", ssl.create_default_context())
        chain = create("bsv", url)
        await chain.open()
        assert (await chain.tip()).hash == kit.tip.hash  # type: ignore[union-attr]
        assert len(await hashes(chain)) == 7
        await chain.close()
    async with Node(MemoryChain(*kit.blocks)) as plain:
        error = await refusal(f"https://127.0.0.1:{plain.port}")
        assert "supports no known version of TLS" in str(error)


# --- which chain it follows


async def test_a_node_of_another_chain_stops(node: Node) -> None:
    error = await refusal(node.url, "ltc")
    assert is_refusal(error)
    assert "does not follow ltc: its genesis block is '0f9188f1" in str(error)
    assert "(of bsv regtest or btc regtest or bch regtest)" in str(error)
    error = await refusal(f"{node.url}?network=mainnet")
    assert is_refusal(error)
    assert "follows bsv regtest, not bsv mainnet; correct the URL, or ?network=" in str(error)


async def test_a_node_beyond_a_parting_of_chains_stops_when_it_is_there(
    node: Node, kit: ChainKit, opened: Open
) -> None:
    chain = await opened(node)
    milestones = chain.split_blocks
    changed = replace(milestones.network, split_blocks=((6, kit["6"].hex), (7, "77" * 32)))
    chain.split_blocks = type(milestones)(chain.client, changed)
    assert (await chain.tip()).height == 6  # type: ignore[union-attr]
    node.chain.arrive(kit.mine())
    with pytest.raises(SourceError, match=r"its block 7 is .* \(of no known network\)") as refused:
        await chain.tip()
    assert is_refusal(refused.value)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://u:p@h:1?lookback=5", "unknown option 'lookback'; http: takes chain, network, zmq, cookie, from"),
        ("https://h:1?from=x", "from='x' is not a number of blocks"),
        ("http://h:1?chain=eth", "chain='eth' is not available from http"),
        ("http://u:p@h:1?cookie=/x", "has a login and a cookie"),
        ("http://", "write http://user:password@host:port"),
        ("http://u:se/cret@h:1", "write http://user:password@host:port"),
        ("http://u:se#cret@h:1", "write http://user:password@host:port"),
        ("http://h:99999", "write http://user:password@host:port"),
        ("http://h :1", "write http://user:password@host:port"),
        ("http://[::1", "write http://user:password@host:port"),
    ],
)
def test_bad_urls_are_refused_without_repeating_a_password(url: str, text: str) -> None:
    with pytest.raises(SourceError, match=r"^bsv: ") as refused:
        create("bsv", url)
    assert text in str(refused.value)
    assert "cret" not in str(refused.value)


def test_a_name_that_is_no_coin_needs_its_chain() -> None:
    with pytest.raises(SourceError, match=r"^node: which chain does the node follow\? add \?chain=bsv\|btc"):
        create("node", "http://h:1")


async def test_an_address_that_cannot_be_subscribed_to_is_refused(node: Node) -> None:
    error = await refusal(f"{node.url}?zmq=carrier-pigeon")
    assert not is_refusal(error)
    assert "zmq=carrier-pigeon is not a valid address" in str(error)


def test_addresses_are_read_as_written() -> None:
    read = read_address("bsv", "https://us%40er:p%3Aw@[::1]:8332/node/")
    assert (read.base, read.login) == ("https://[::1]:8332/node", ("us@er", "p:w"))
    assert read_address("bsv", "http://node.example").login is None


# --- blocks that are cut, altered about or gone


def rest_path(kit: ChainKit, label: str) -> str:
    return f"/rest/block/{kit[label].hex}.bin"


async def cut(request: web.Request, raw: bytes) -> web.StreamResponse:
    """Half of a block, and then the connection is gone."""
    response = web.StreamResponse(headers={"Content-Length": str(len(raw))})
    await response.prepare(request)
    await response.write(raw[: len(raw) // 2])
    assert request.transport is not None
    request.transport.close()
    return response


async def test_a_block_that_is_cut_is_fetched_again(node: Node, kit: ChainKit, opened: Open) -> None:
    chain = await opened(node)
    await chain.tip()
    left = [1, 2]

    async def answer(request: web.Request) -> web.StreamResponse:
        if left:
            left.pop()
            return await cut(request, kit["4"].raw)
        return web.Response(body=kit["4"].raw)

    node.instead[rest_path(kit, "4")] = answer
    assert await hashes(chain) == [block.hash for block in kit.branch()]
    assert not left


@pytest.mark.parametrize("forgery", ["another block", "nothing", "too short", "cut"])
async def test_bytes_that_are_not_the_block_requested_are_never_given_out(
    forgery: str, node: Node, kit: ChainKit, opened: Open
) -> None:
    chain = await opened(node)
    await chain.tip()
    answers = {"another block": kit["5"].raw, "nothing": b"", "too short": kit["4"].raw[:79]}

    async def answer(request: web.Request) -> web.StreamResponse:
        return await cut(request, kit["4"].raw) if forgery == "cut" else web.Response(body=answers[forgery])

    node.instead[rest_path(kit, "4")] = answer
    seen = []

    async def read() -> None:
        async for ref, _ in chain.blocks(0, 9):
            seen.append(ref.height)

    with pytest.raises(SourceUnavailableError) as refused:
        await read()
    assert seen == [0, 1, 2, 3], "what stands before it is given out"
    assert ("does not answer" if forgery == "cut" else "block 4 (") in str(refused.value)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ('"00zz"', "Non-hexadecimal"),
        ('"000"', "an odd number"),
        ('"00', "hex ends after 1 bytes"),
        ("7" * 2_000, "no str"),
    ],
)
async def test_hex_that_is_none_is_never_given_out(result: str, text: str, node: Node, opened: Open) -> None:
    node.rest = False
    chain = await opened(node)
    await chain.tip()
    node.instead["getblock"] = lambda _: web.Response(text='{"result": ' + result)
    with pytest.raises(SourceUnavailableError, match=text):
        await hashes(chain, 2, 2)


async def test_rest_is_not_requested_repeatedly_of_a_node_without_it(
    node: Node, kit: ChainKit, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.rest = False
    chain = await opened(node)
    await chain.tip()
    assert len(await hashes(chain)) == 7
    query = node.requests["/rest/block"] + node.requests["/rest/headers"]
    assert len(await hashes(chain)) == 7
    assert node.requests["/rest/block"] + node.requests["/rest/headers"] == query
    node.rest = True
    chain.rest.off_until = 0.0  # as after ten minutes
    node.requests.clear()
    assert len(await hashes(chain)) == 7
    assert (node.requests["/rest/block"], node.requests["getblock"]) == (7, 0)


@pytest.mark.parametrize("rest", [True, False], ids=["rest", "rpc"])
async def test_a_node_that_prunes_what_is_needed_names_the_first_height_it_has(
    rest: bool, node: Node, opened: Open
) -> None:
    node.rest, node.pruned_below = rest, 4
    chain = await opened(node)
    await chain.tip()
    assert len(await hashes(chain, 4)) == 3
    with pytest.raises(SourceError, match=r"has them from 4 on; start with \?from=4, or let it keep all") as refused:
        await hashes(chain, 3)
    assert is_refusal(refused.value)


async def test_a_block_that_the_node_does_not_give_is_requested_again_later(
    node: Node, kit: ChainKit, opened: Open
) -> None:
    chain = await opened(node)
    await chain.tip()
    node.instead[rest_path(kit, "4")] = lambda _: web.Response(status=404, text=f"{kit['4'].hex} not found")
    with pytest.raises(SourceUnavailableError, match=r"does not send a block of its own chain: .* not found"):
        await hashes(chain)


async def test_a_full_disk_is_reported_and_waited_for(
    node: Node, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.chains.prefetch.Spool", lambda: FullSpool(0))
    chain = await opened(node)
    await chain.tip()
    with pytest.raises(
        SourceUnavailableError, match=r"block 0 cannot be stored in .*: No space left on device; make room"
    ):
        await hashes(chain)


class FullSpool(Spool):
    """A spool whose disk is full: /dev/full takes nothing."""

    def _write(self, held: list[bytes], _turn: int) -> None:
        with Path("/dev/full").open("wb", buffering=0) as full:
            full.write(b"".join(held))


# --- forged headers


def header_forgeries(kit: ChainKit) -> dict[str, tuple[bytes, str]]:
    last = kit["6"].raw[:80]
    lazy = next(
        raw for n in range(1_000) if (raw := last[:76] + n.to_bytes(4, "little")) and kit.coin.pow(raw)[-1] >= 0x80
    )
    easy = last[:72] + (0x2100FFFF).to_bytes(4, "little") + last[76:]
    return {
        "without work": (lazy, "proof of work"),
        "of its own bits": (easy, "bits"),
        "cut": (last[:50], "headers end after 50 bytes"),
    }


@pytest.mark.parametrize("forgery", ["without work", "of its own bits", "cut"])
async def test_headers_that_break_a_rule_are_not_followed(forgery: str, kit: ChainKit, opened: Open) -> None:
    raw, message = header_forgeries(kit)[forgery]
    async with Node(MemoryChain(*kit.branch(kit["5"]))) as node:
        chain = await opened(node)
        await chain.tip()
        created = web.json_response({"result": sha256d(raw)[::-1].hex(), "error": None})
        node.instead["getbestblockhash"] = lambda _: created
        node.instead["getblockheader"] = lambda _: web.json_response({"result": raw.hex(), "error": None})
        with pytest.raises(SourceError, match=message) as refused:
            await chain.tip()
        assert is_refusal(refused.value) == (forgery != "cut")


async def test_a_node_that_went_back_below_what_is_known_is_waited_for(
    kit: ChainKit, opened: Open, tmp_path: Path
) -> None:
    memory = MemoryChain(*kit.blocks)
    async with Node(memory) as node:
        chain = create("demo", f"{node.url}?chain=bsv")
        with Indexing(f"sqlite:///{tmp_path}/a2b.db", chain) as indexing:
            await indexing.catch_up()
            memory.prefer(kit["2"])
            await indexing.catch_up()
            newest = indexing.store.blocks.newest("demo")
            assert newest is not None
            assert newest.height == 6, "the node is merely behind"
        await chain.close()


# --- nothing is left behind


@pytest.mark.parametrize("rest", [True, False], ids=["rest", "rpc"])
async def test_reading_can_be_cut_short_anywhere_and_leaves_nothing(
    rest: bool, node: Node, kit: ChainKit, opened: Open
) -> None:
    node.rest = rest
    chain = await opened(node)
    await chain.tip()
    for steps in range(0, 60, 3):
        task = asyncio.create_task(consume(chain))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    reading = chain.blocks(0, 9)
    await anext(reading)  # and nobody asks for the second
    await chain.close()
    await reading.aclose()  # type: ignore[attr-defined]
    await until(lambda: not node.open_now)
    await node.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def consume(chain: NodeChain) -> None:
    async for _ in chain.blocks(0, 9):
        await asyncio.sleep(0)
