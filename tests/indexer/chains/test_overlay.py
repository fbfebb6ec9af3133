"""Another overlay as a source: its blocks are read as those of a node, and nothing that it makes up comes in."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from indexer.chains.overlay import chain as overlay_chain
from indexer.chains.overlay import create
from indexer.chains.overlay.chain import OverlayChain
from indexer.errors import SourceError, SourceUnavailableError
from parsers.bitcoin import basm
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.serving import new_app, serving
from tests.waiting import stop, until_told

Change = Callable[[str, dict[str, Any], Any], Any]


class Relay:
    """A server between an overlay and who mirrors it, which may change what it answers."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.change: Change = lambda _path, _question, answer: answer
        self.counts: dict[str, int] = {}
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.counts[request.path] = self.counts.get(request.path, 0) + 1
        headers = {"X-BSV-Topic": request.headers.get("X-BSV-Topic", "")}
        async with self._client.request(request.method, str(request.rel_url), data=body, headers=headers) as answer:
            document, status = await answer.json(content_type=None), answer.status
        changed = self.change(request.path, json.loads(body) if body else {}, document)
        return web.json_response(changed, status=status)


class Original:
    """An overlay that follows a chain, and a relay before it."""

    def __init__(self, kit: ChainKit, chain: MemoryChain, relay: Relay, client: Any, folder: Path) -> None:
        self.kit, self.chain, self.relay, self._client, self.folder = kit, chain, relay, client, folder

    async def caught_up(self) -> None:
        height = self.kit.tip.height
        await until_told(self._client, "/v1/status", lambda answer: answer["chains"][0].get("height") == height)

    def source(self, **options: str) -> OverlayChain:
        query = "&".join(f"{name}={value}" for name, value in ({"network": "regtest"} | options).items())
        chain_source = create("demo", f"overlay:{self.relay.url}?{query}")
        chain_source.poll_seconds = 0
        return chain_source

    @asynccontextmanager
    async def mirror(self) -> AsyncIterator[Indexing]:
        source = self.source()
        try:
            with Indexing(f"sqlite:///{self.folder}/mirror.db", source) as indexing:
                yield indexing
        finally:
            await source.close()

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[Indexing]:
        """The index of the same chain from a node."""
        with Indexing(f"sqlite:///{self.folder}/node.db", self.chain) as indexing:
            yield await indexing.catch_up()


@pytest.fixture
async def original(tmp_path: Path) -> AsyncIterator[Original]:
    kit = ChainKit()
    chain = MemoryChain(*kit.blocks, name="demo")
    async with serving(new_app(tmp_path, chain, limits="off")) as client:
        relay = Relay(client)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", relay.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        relay.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield Original(kit, chain, relay, client, tmp_path)
        await stop(runner)


async def test_registrations_updates_moves_and_burns_arrive_and_follow_a_reorganisation(original: Original) -> None:
    kit = original.kit
    echo, other = kit.inscribe(agent("Echo")), kit.inscribe(agent("Other"))
    kit.mine(echo, other, kit.point("agent.example", "11" * 32), kit.inscribe(b"not json", "a2b"))
    kit.mine_empty(3)
    # the satoshi's position depends on the value of an input before it, of a transaction without a record
    tx = kit.spend([kit.pay("carol", 5_000), echo], [(5_000, b"\x6a"), (1, kit.tx(echo).outputs[echo.vout].script)])
    kit.mine(kit.tx(tx.inputs[0].prevout), tx, kit.burn(other, to="fee"))
    original.chain.arrive(*kit.blocks)
    await original.caught_up()
    async with original.mirror() as mirror, original.followed() as node:
        await mirror.catch_up()
        assert mirror.facts()["anchors"] == node.facts()["anchors"]
        assert list(mirror.store.registrations.states("demo", 99)) == list(node.store.registrations.states("demo", 99))
        assert mirror.store.is_partial("demo")
        before = dict(original.relay.counts)
        await mirror.catch_up()
        assert original.relay.counts["/requestAdmittedList"] == before["/requestAdmittedList"]
        for _ in range(4):
            kit.mine(*([kit.inscribe(agent("New"))] if kit.tip.height == 4 else []), parent=None)
        fork = kit.mine_empty(kit.tip.height, parent=kit["2"])
        original.chain.arrive(*kit.branch(fork))
        await until_told(
            original._client, "/v1/status", lambda answer: answer["chains"][0].get("hash") == fork.hash[::-1].hex()
        )
        await mirror.catch_up()
        await node.catch_up()
        assert mirror.facts()["anchors"] == node.facts()["anchors"]


async def test_an_interrupted_mirror_goes_on_where_it_ended(
    original: Original, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = original.kit
    for number in range(6):
        kit.mine(kit.inscribe(agent(f"Agent {number}")))
    original.chain.arrive(*kit.blocks)
    await original.caught_up()
    monkeypatch.setattr(overlay_chain, "BLOCKS_AT_ONCE", 1)
    last = kit.tip.height

    def breaks(path: str, question: dict[str, Any], answer: Any) -> Any:
        return {} if path == "/requestAdmittedList" and question["blockHeight"] == last - 2 else answer

    original.relay.change = breaks
    async with original.mirror() as mirror:
        with pytest.raises(SourceUnavailableError, match="cannot be read"):
            await mirror.catch_up()
    async with original.mirror() as mirror, original.followed() as node:
        newest = mirror.store.blocks.newest("demo")
        original.relay.change = lambda _path, _question, answer: answer
        original.relay.counts.clear()
        await mirror.catch_up()
        assert mirror.facts()["anchors"] == node.facts()["anchors"]
        if newest is not None:
            assert original.relay.counts["/requestAdmittedList"] <= last - newest.height


def swapped(name: str, value: Any) -> Change:
    return lambda _path, _question, answer: answer | {name: value} if name in answer else answer


def other_bytes(_path: str, _question: Any, answer: Any) -> Any:
    for entry in answer.get("transactions", []):
        entry["rawTx"] += "00"
    return answer


def other_place(_path: str, _question: Any, answer: Any) -> Any:
    for entry in answer.get("admitted", []):
        entry["blockIndex"] += 1
    return answer


def uncounted(_path: str, _question: Any, answer: Any) -> Any:
    """The last anchor is over transactions that it does not count; it is the first one where it is alone."""
    for entry in answer.get("anchors", [])[-1:]:
        entry["admittedCount"] = 0
    return answer


def made_up(path: str, question: Any, answer: Any) -> Any:
    """A transaction that is in no block, under anchors that fit it."""
    txid = b"\x99" * 32
    if path == "/requestTopicAnchorRange":
        tac = None
        for entry in answer["anchors"]:
            admits = entry["admittedCount"] > 0
            root = txid if admits else bytes.fromhex(entry["basmRoot"])[::-1]
            if tac is not None or admits:
                start = tac if tac is not None else bytes(32)
                tac = basm.chained(start, bytes.fromhex(entry["blockHash"])[::-1], root)
            entry |= {"basmRoot": root[::-1].hex(), "admittedCount": int(admits)}
            if tac is not None:
                entry["tac"] = tac[::-1].hex()
    if path == "/requestAdmittedList":
        answer["admitted"] = [{"txid": txid.hex(), "blockIndex": 1}]
        answer["admittedCount"] = 1
    return answer


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (swapped("anchors", None), "anchors is missing or cannot be read"),
        (swapped("admitted", []), "not the one that its anchor is over"),
        (swapped("merklePath", "00"), "the number of levels"),
        (swapped("merklePath", "zz"), "merklePath is missing or cannot be read"),
        (swapped("transactions", []), "is not proved"),
        (swapped("headers", ["00" * 80]), "is not|refused|genesis|header"),
        (swapped("headers", ["zz"]), "headers is missing or cannot be read"),
        (swapped("headers", None), "headers is missing or cannot be read"),
        (other_bytes, "bytes of another transaction"),
        (other_place, "is not proved"),
        (made_up, "answers 400|not proved|not chained"),
    ],
)
async def test_nothing_that_is_made_up_comes_in(original: Original, change: Change, message: str) -> None:
    kit = original.kit
    kit.mine(kit.inscribe(agent("Echo")))
    original.chain.arrive(*kit.blocks)
    await original.caught_up()
    original.relay.change = change
    async with original.mirror() as mirror:
        with pytest.raises(SourceError, match=message):
            await mirror.catch_up()
        assert mirror.facts()["events"] == []


async def test_an_anchor_alone_that_does_not_count_what_it_is_over_is_refused(original: Original) -> None:
    kit = original.kit
    async with original.mirror() as mirror:
        original.chain.arrive(*kit.blocks)
        await original.caught_up()
        await mirror.catch_up()
        kit.mine(echo := kit.inscribe(agent("Echo")))
        original.chain.arrive(*kit.blocks)
        await original.caught_up()
        original.relay.change = uncounted
        with pytest.raises(SourceUnavailableError, match="counts 0 and has another root"):
            await mirror.catch_up()
        original.relay.change = lambda _path, _question, answer: answer
        await mirror.catch_up()
        assert mirror.live() == {str(echo)}


async def test_what_is_left_out_is_missing_and_nothing_else(original: Original) -> None:
    kit = original.kit
    kit.mine(kit.inscribe(agent("Echo")))
    original.chain.arrive(*kit.blocks)
    await original.caught_up()

    def empties(path: str, _question: Any, answer: Any) -> Any:
        if path == "/requestTopicAnchorRange":
            tac = bytes(32)
            for entry in answer["anchors"]:
                tac = basm.chained(tac, bytes.fromhex(entry["blockHash"])[::-1], bytes(32))
                entry |= {"basmRoot": "00" * 32, "admittedCount": 0, "tac": tac[::-1].hex()}
        return answer

    original.relay.change = empties
    async with original.mirror() as mirror, original.followed() as node:
        await mirror.catch_up()
        assert mirror.facts()["events"] == []
        assert mirror.facts()["anchors"] != node.facts()["anchors"]


async def test_an_original_that_began_late_is_mirrored_from_there_on(original: Original) -> None:
    original.kit.mine_empty(5)
    original.chain.arrive(*original.kit.blocks)
    await original.caught_up()
    original.relay.change = lambda path, _question, answer: (
        answer | {"genesisHeight": 3, "complete": False} if path == "/requestTopicAnchorTip" else answer
    )
    source = original.source()
    await source.open()
    assert source.first == 3
    assert "did not read everything itself" in source.warning
    await source.close()


async def test_the_beginning_of_anchors_is_requested_again(original: Original) -> None:
    original.kit.mine_empty(5)
    original.chain.arrive(*original.kit.blocks)
    await original.caught_up()
    stated = {"genesisHeight": 1_000_000_000}
    original.relay.change = lambda path, _question, answer: (
        answer | stated if path == "/requestTopicAnchorTip" else answer
    )
    source = original.source()
    with pytest.raises(SourceUnavailableError, match="has anchors from block 1,000,000,000 to block 6"):
        await source.open()
    stated["genesisHeight"] = 4
    await source.open()
    assert source.first == 4
    stated["genesisHeight"] = 0
    await source.tip()
    assert source.first == 0
    assert "begin at block 0, and said 4 before: read it again (a2b index --again demo)" in source.warning
    await source.close()


async def test_headers_that_repeat_are_not_requested_repeatedly(original: Original) -> None:
    kit = original.kit
    kit.mine_empty(5)
    original.chain.arrive(*kit.blocks)
    await original.caught_up()
    repeated = kit.blocks[3].raw[:80].hex()

    def endless(path: str, _question: Any, answer: Any) -> Any:
        if path == "/requestTopicAnchorTip":
            return answer | {"blockHeight": 1_000_000}
        return answer | {"headers": [repeated]} if "headers" in answer and answer["headers"] == [] else answer

    original.relay.change = endless
    source = original.source()
    with pytest.raises(SourceUnavailableError, match="delivers header 3 for header 7"):
        await source.open()
    assert original.relay.counts["/v1/headers"] <= 4
    await source.close()


async def test_an_overlay_that_delivers_nothing_below_its_newest_anchor_is_named_and_then_read(
    original: Original,
) -> None:
    kit = original.kit
    kit.mine_empty(2)
    original.chain.arrive(*kit.blocks)
    await original.caught_up()
    async with original.mirror() as mirror:
        await mirror.catch_up()
        [follower] = mirror.followers
        kit.mine(echo := kit.inscribe(agent("Echo")))
        original.chain.arrive(*kit.blocks)
        await original.caught_up()
        original.relay.change = swapped("headers", [])
        with pytest.raises(SourceUnavailableError, match="delivers no header 3"):
            await mirror.catch_up()
        original.relay.change = swapped("anchors", [])
        await mirror.catch_up()
        assert follower.progress.state == "following", "once, it may be a reorganisation"
        for _ in range(2):
            await mirror.catch_up()
            assert follower.progress.state == "unreachable"
            assert follower.progress.error == "demo: the source delivers no block 4, though its newest is 4"
        original.relay.change = lambda _path, _question, answer: answer
        await mirror.catch_up()
        assert (follower.progress.state, follower.progress.error) == ("following", "")
        assert mirror.live() == {str(echo)}


@pytest.mark.parametrize(
    "url",
    [
        "overlay:", "overlay:gopher://x", "overlay:http://", "overlay:http://user:secret@host", "overlay:http://host#x",
        "overlay:http://host?network=moon", "overlay:http://host?chain=btc", "overlay:http://host?from=x",
        "overlay:http://host?token=1",
    ],
)  # fmt: skip
def test_a_url_that_is_wrong_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(SourceError) as caught:
        create("demo", url)
    assert "secret" not in str(caught.value)


async def test_another_network_is_refused(original: Original) -> None:
    source = original.source(network="mainnet")
    with pytest.raises(SourceError, match="is about 'bsv:regtest', and not bsv:mainnet"):
        await source.open()
    await source.close()


async def test_too_many_transactions_in_one_block_are_left_to_a_node(
    original: Original, monkeypatch: pytest.MonkeyPatch
) -> None:
    original.kit.mine(original.kit.inscribe(agent("Echo")))
    original.chain.arrive(*original.kit.blocks)
    await original.caught_up()
    monkeypatch.setattr(overlay_chain, "MAX_ADMITTED", 0)
    async with original.mirror() as mirror:
        with pytest.raises(SourceError, match="read it from a node"):
            await mirror.catch_up()
