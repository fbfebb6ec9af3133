"""Publish, update, transfer and burn with `a2b`, on a chain of our own and on a real Bitcoin SV node (`BITCOIND`)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import Any

import base58
import pytest

from overlay.client import OverlayClient
from overlay.client.listing_source import ClientSource
from overlay.publish.coins import from_file
from overlay.publish.keys import PublisherKey
from overlay.publish.registration_output import find
from overlay.publish.wallet_file import unsigned_change
from parsers.bitcoin.tx import read
from tests.bitcoind import Bitcoind, installed
from tests.chainkit import ChainKit, agent, tool
from tests.conftest import ROOT
from tests.fakes import MemoryChain
from tests.nodes import Node
from tests.running import Running, a2b_here
from tests.waiting import PATIENCE

KEY = PublisherKey(sha256(b"the publisher's key").digest(), "testnet")
OTHER = PublisherKey(sha256(b"the next owner's key").digest(), "testnet")


FUNDING = [(100_000, KEY.script)] * 8 + [(1, KEY.script)]


class Kit:
    """Blocks in files; scripts are executed by bitcoinX."""

    has_mempool = False

    def __init__(self, folder: Path) -> None:
        self.kit, self.folder, self.written = ChainKit(), folder, 0
        folder.mkdir()
        self.funding = self.kit.spend([self.kit.fund()], FUNDING)
        self.chains = f"live=files:{folder}?chain=bsv&network=regtest"
        self._mine(self.kit.raw(self.funding.outpoint(0)))

    def _mine(self, raw: bytes) -> None:
        self.kit.mine(raw)
        self.kit.append(self.folder / "blk00000.dat", *self.kit.blocks[self.written :])
        self.written = len(self.kit.blocks)

    def send(self, answer: dict[str, Any], out: Path) -> None:
        """Verify a transaction, which `mine` mines."""
        bitcoinx = pytest.importorskip("bitcoinx", reason="bitcoinX has no wheel for this Python")
        assert json.loads(out.read_text()) == {name: answer[name] for name in ("txid", "rawTx", "extended")}
        extended = bitcoinx.Tx.from_hex_extended(answer["extended"])
        assert (extended.to_hex(), extended.fee()) == (answer["rawTx"], answer["fee"])
        extended.verify_inputs()
        self.sent = bytes.fromhex(answer["rawTx"])

    def mine(self) -> None:
        self._mine(self.sent)


class Served:
    """A stand-in for a node, with a mempool."""

    has_mempool = True

    def __init__(self) -> None:
        self.kit = ChainKit()
        self.funding = self.kit.spend([self.kit.fund()], FUNDING)
        self.kit.mine(self.kit.raw(self.funding.outpoint(0)))
        self.chain = MemoryChain(*self.kit.blocks)
        self.node, self.loop = Node(self.chain), asyncio.new_event_loop()
        self.thread = Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> Served:
        self.thread.start()
        asyncio.run_coroutine_threadsafe(self.node.start(), self.loop).result(PATIENCE)
        self.chains = f"live={self.node.url}?chain=bsv"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self.node.stop(), self.loop).result(PATIENCE)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(PATIENCE)
        self.loop.close()

    def send(self, answer: dict[str, Any], out: Path) -> None:
        """Send a transaction twice, which is not an error."""
        send_twice(answer, out, self.node.url)

    def mine(self) -> None:
        block = self.kit.mine(*self.chain.unconfirmed.values())

        def arrive() -> None:
            self.chain.unconfirmed.clear()
            self.chain.arrive(block)

        self.loop.call_soon_threadsafe(arrive)


def send_twice(answer: dict[str, Any], out: Path, url: str) -> None:
    for _ in range(2):
        done = a2b_here("broadcast", str(out), "--node", url, cwd=out.parent)
        assert (done.returncode, done.stdout) == (0, f"sent {answer['txid']}\n"), done.stderr


class Live:
    """A node, which checks scripts and fees itself."""

    has_mempool = True

    def __init__(self, node: Bitcoind) -> None:
        self.node = node
        node.fund(112)
        self.funding = node.give(FUNDING)
        self.chains = f"live={node.cookie_url}&chain=bsv"

    def send(self, answer: dict[str, Any], out: Path) -> None:
        """Send a transaction twice, which is not an error."""
        send_twice(answer, out, self.node.url)

    def mine(self) -> None:
        self.node.mine()


World = Kit | Served | Live


NODES = pytest.mark.parametrize("world", ["a stand-in for a node", "a real node"], indirect=True)
"""Blocks in files differ by what is read of them, which is in the first story."""


@pytest.fixture(params=["blocks in files", "a stand-in for a node", "a real node"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if request.param == "blocks in files":
        yield Kit(tmp_path / "blocks")
        return
    if request.param == "a stand-in for a node":
        with Served() as served:
            yield served
        return
    installed()
    with Bitcoind(tmp_path / "node") as node:
        yield Live(node)


class Publisher:
    """Runs `a2b` with the publisher's key and coins, and the overlay that it looks registrations up in."""

    def __init__(self, world: World, running: Running, home: Path) -> None:
        self.world, self.running, self.home, self.number = world, running, home, 0
        coins = [
            {"txid": world.funding.hex_id, "vout": vout, "satoshis": satoshis}
            for vout, (satoshis, _) in enumerate(FUNDING)
        ]
        (home / "key").write_bytes(base58.b58encode_check(b"\xef" + KEY.private + b"\x01") + b"\n")
        (home / "key").chmod(0o600)
        self.coins = home / "coins.json"
        self.coins.write_text(json.dumps(coins))

    def run(
        self, *arguments: str, meanwhile: Callable[[dict[str, Any]], object] = bool, **environ: str
    ) -> dict[str, Any]:
        """The answer of a command that builds a transaction, once that is mined. Its coins are not used again.
        `meanwhile` is called before it is mined, where there is a mempool."""
        self.number += 1
        out = self.home / f"{self.number}.json"
        done = a2b_here(
            *arguments, "--coins", str(self.coins), "--url", self.running.url, "--out", str(out), "--json",
            *(() if environ else ("--key-file", str(self.home / "key"))), cwd=self.home, **environ,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        self.world.send(answer, out)
        if self.world.has_mempool:
            meanwhile(answer)
        self.world.mine()
        spent = {str(tx_input.prevout) for tx_input in read(bytes.fromhex(answer["rawTx"])).inputs}
        left = [coin for coin in json.loads(self.coins.read_text()) if f"{coin['txid']}_{coin['vout']}" not in spent]
        self.coins.write_text(json.dumps(left))
        return answer

    def card(self, card: dict[str, Any]) -> str:
        """A file with a card."""
        file = self.home / f"card-{self.number}.json"
        file.write_text(json.dumps(card))
        return str(file)

    def matching(self, words: str, status: str) -> list[str]:
        """The ids that a search finds; none while searches are refused, as the search is compiled."""
        return [item["id"] for item in self.running.get(f"/v1/search?q={words}&status={status}").get("items", ())]

    def until(self, id_: str, **members: Any) -> dict[str, Any]:
        """The listing, once it has these members."""
        shown: dict[str, Any] = {}

        def has_them() -> bool:
            shown.clear()
            shown.update(self.running.get(f"/v1/listings/{id_}"))
            return all(shown.get(name) == value for name, value in members.items())

        self.running.until(has_them)
        return shown


@pytest.fixture
def publisher(world: World, tmp_path: Path) -> Iterator[Publisher]:
    home = tmp_path / "home"
    home.mkdir()
    with Running(
        "up", "--port", "0", cwd=home, A2B_CHAINS=world.chains
    ) as running:  # fmt: skip
        yield Publisher(world, running, home)


def test_the_life_of_a_registration(publisher: Publisher) -> None:
    def is_pending(created: dict[str, Any]) -> None:
        publisher.until(created["outpoint"], status="pending", name="Alpha")
        publisher.running.until(lambda: publisher.matching("Alpha", "pending") == [created["outpoint"]])

    result = publisher.run("inscribe", publisher.card(agent("Alpha")), "--app", "test", "--sigma", meanwhile=is_pending)
    id_ = result["outpoint"]
    assert (result["preview"]["name"], result["sent"]) == ("Alpha", False)
    assert result["purpose"] == f"registers the agent “Alpha” for {KEY.address}"
    shown = publisher.until(id_, status="live", name="Alpha")
    assert (shown["owner"], shown["signer"], shown["app"]) == (KEY.address, KEY.address, "test")
    assert shown["cardSha256"] == sha256(Path(publisher.home / "card-0.json").read_bytes()).hexdigest()

    publisher.running.until(lambda: publisher.matching("Alpha", "live") == [id_])
    refused = a2b_here(
        "inscribe", publisher.card(agent("Beta")), "--update", id_, "--type", "tool", "--coins", str(publisher.coins),
        "--url", publisher.running.url, cwd=publisher.home, A2B_KEY=KEY.private.hex(),
    )  # fmt: skip
    assert (refused.returncode, "is registered as agent" in refused.stderr) == (2, True), refused.stderr

    publisher.run("inscribe", publisher.card(agent("Beta")), "--update", id_)
    shown = publisher.until(id_, name="Beta", pending=None)
    assert (shown["app"], shown["owner"], "signer" in shown) == ("test", KEY.address, False)

    publisher.run("inscribe", "--update", id_, "--app", "other")
    assert publisher.until(id_, app="other", pending=None)["name"] == "Beta"

    successor = f"{'ab' * 32}_0"
    noticed = publisher.run("deprecate", id_, "--successor", successor, "--message", "Use the new one.")
    assert noticed["purpose"] == f"deprecates the agent “Beta”, {id_}, in favour of {successor}: “Use the new one.”"
    shown = publisher.until(id_, outpoint=noticed["outpoint"], pending=None)
    assert shown["deprecated"] == {
        "since": shown["deprecated"]["since"], "successor": successor, "message": "Use the new one."
    }  # fmt: skip
    printed = a2b_here("show", id_, "--url", publisher.running.url, cwd=publisher.home).stdout
    assert f"deprecated by its owner since {shown['deprecated']['since']}, use {successor} instead: Use the" in printed
    refused = a2b_here("deprecate", id_, "--undo", "--message", "x", cwd=publisher.home)
    assert (refused.returncode, "--undo takes neither" in refused.stderr) == (2, True), refused.stderr
    refused = a2b_here("deprecate", id_, "--successor", id_, cwd=publisher.home)
    assert (refused.returncode, "the successor is the listing itself" in refused.stderr) == (2, True), refused.stderr
    restored = publisher.run("deprecate", id_, "--undo")
    assert "deprecated" not in publisher.until(id_, outpoint=restored["outpoint"], pending=None)

    moved = publisher.run("transfer", id_, OTHER.address)
    assert moved["purpose"] == f"transfers the agent “Beta”, {id_}, to {OTHER.address}"
    assert publisher.until(id_, owner=OTHER.address, pending=None)["name"] == "Beta"
    refused = a2b_here(
        "burn", id_, "--coins", str(publisher.coins), "--url", publisher.running.url, cwd=publisher.home,
        A2B_KEY=KEY.private.hex(),
    )  # fmt: skip
    assert (refused.returncode, " belongs to 1" in refused.stderr) == (1, True)

    other = publisher.run("inscribe", publisher.card(tool("clock")), "--app", "test", A2B_KEY=KEY.private.hex())
    publisher.until(other["outpoint"], status="live", type="tool")
    burned = publisher.run("burn", other["outpoint"])
    assert burned["purpose"] == f"delists the tool “clock”, {other['outpoint']}, for good"
    publisher.until(other["outpoint"], status="burned")


@NODES
def test_the_steps_of_a_publisher_and_a_servers_update_run_as_they_are_documented(publisher: Publisher) -> None:
    page = (ROOT / "docs" / "payments.md").read_text()
    [block] = re.findall(r"^## Publisher\n.*?^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    check, inscribe, broadcast = (line.split()[1:] for line in block.splitlines())
    publisher.home.joinpath("card.json").write_text(json.dumps(agent("Alpha")))
    done = a2b_here(*check, cwd=publisher.home)
    assert done.returncode == 0, done.stderr
    assert broadcast[:2] == ["broadcast", inscribe[-1]]  # which the world does with its own node
    result = publisher.run(*inscribe[:-2])
    assert publisher.until(result["outpoint"], status="live")["app"] == "watchtower"
    [update] = re.findall(r"`a2b (inscribe card.json --update ID)`", page)
    publisher.home.joinpath("card.json").write_text(json.dumps(agent("Beta")))
    publisher.run(*update.replace("ID", result["outpoint"]).split())
    publisher.until(result["outpoint"], name="Beta", pending=None)


@NODES
def test_a_file_that_spends_another_registration_than_it_names_is_not_signed(publisher: Publisher) -> None:
    first, other = (
        publisher.run("inscribe", publisher.card(agent(name)), "--app", "test")["outpoint"]
        for name in ("Alpha", "Beta")
    )
    for id_ in (first, other):
        publisher.until(id_, status="live")
    with OverlayClient(publisher.running.url) as client:
        held = find(ClientSource(client.ask), other)
    left = from_file(publisher.coins)[:1]

    def sign(listing: str, *arguments: str) -> tuple[int, str]:
        prepared = unsigned_change(held, [OTHER.script], left, listing=listing).as_json()
        file = publisher.home / "unsigned.json"
        file.write_text(json.dumps(prepared))
        done = a2b_here("sign", str(file), "--key-file", "key", *arguments, cwd=publisher.home)
        return done.returncode, done.stdout + done.stderr

    url = ("--url", publisher.running.url)
    code, text = sign(other, *url)
    assert (code, f"it transfers the agent “Beta”, {other}, to {OTHER.address}\n" in text) == (0, True), text
    code, text = sign(first, *url)
    assert (code, f"spends {other}, and {first} is at {first}" in text) == (1, True), text
    code, text = sign("", *url)
    assert (code, f"spends {other}, which may hold a registration" in text) == (1, True), text
    code, text = sign(f"{'ff' * 32}_0")
    assert (code, f"spends {other}, the satoshi of {other}, and its listing is ffff" in text) == (1, True), text
    code, text = sign(other, "--data", "elsewhere")
    assert (code, f"not looked up: what {other} is" in text) == (0, True), text


@NODES
def test_a_coin_of_one_satoshi_is_never_spent_as_fee(publisher: Publisher) -> None:
    for _ in range(2):
        spent = read(bytes.fromhex(publisher.run("point", "a.example")["rawTx"])).inputs
        assert publisher.world.funding.outpoint(len(FUNDING) - 1) not in {tx_input.prevout for tx_input in spent}


@NODES
def test_a_pointer_is_read_back(publisher: Publisher) -> None:
    file = publisher.card(agent("Alpha"))
    result = publisher.run("point", "a.example", file)
    traced = publisher.running.until(
        lambda: (trace := publisher.running.get(f"/v1/diagnose/{result['txid']}"))["records"] and trace
    )
    assert [record["kind"] for record in traced["records"]] == ["pointer"]
