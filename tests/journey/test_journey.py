"""From a node's block files to answers over HTTP, through the command that people start."""

from __future__ import annotations

import json
import os
import pty
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.chainkit import ChainKit, agent, agent_without_host
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.overlay.answer_models import fits
from tests.running import Running

SOON = 5.0
"""Seconds that an end may take beside other tests; 2 are aimed at on a machine that does nothing else."""


def names(page: dict[str, Any]) -> list[str]:
    return [item["name"] for item in page.get("items", ())]  # none where there is no index yet


def meets(value: Any, name: str) -> None:
    fits(value, name)


# -- the packaged sample, with nothing configured


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("up")
    with Running("up", "--port", "0", cwd=folder) as running:
        running.until_ready()
        yield running


@pytest.fixture(scope="module")
def expected(sample: Path) -> dict[str, Any]:
    stated: dict[str, Any] = json.loads((sample / "expected.json").read_text())
    return stated


def until_hashed(running: Running, chain: str, height: int) -> dict[str, Any]:
    """The state hashes of the status, once the block at this height has its own: until then an earlier one is shown."""
    running.until(lambda: running.get("/v1/status")["stateHash"].get(chain, {}).get("height") == height)
    hashes: dict[str, Any] = running.get("/v1/status")["stateHash"]
    return hashes


def test_up_says_what_it_does_and_how_to_follow_a_node(up: Running) -> None:
    assert "the packaged sample blocks" in up.out
    assert "A2B_CHAINS='bsv=http://USER:PASSWORD@127.0.0.1:8332' a2b up" in up.out
    assert "sqlite:///a2b-demo/a2b.db" in up.out
    assert "demo: block 125 of 125" in up.err
    assert all({"time", "level", "logger", "message"} <= json.loads(line).keys() for line in up.err.splitlines())


def test_status_is_at_the_tip_with_the_stated_hash(up: Running, expected: dict[str, Any]) -> None:
    until_hashed(up, "demo", 125)
    status = up.get("/v1/status")
    meets(status, "Status")
    [chain] = status["chains"]
    assert (chain["name"], chain["chain"], chain["network"]) == ("demo", "bsv:regtest", "regtest")
    assert (chain["state"], chain["height"], chain["tip"], chain["lag"]) == ("following", 125, 125, 0)
    assert chain["source"] == "files"
    assert status["stateHash"]["demo"].items() >= {"height": 125, "hash": expected["stateHashes"]["125"]}.items()
    live = [registration for registration in expected["registrations"] if registration["status"] == "live"]
    assert status["listings"]["live"] == len(live)
    assert status["listings"]["burned"] == len(expected["registrations"]) - len(live)
    assert status["listings"]["rejected"] == len(expected["rejected"])
    assert status["index"]["behind"] == 0


def test_every_registration_is_listed_with_its_history_and_card(up: Running, expected: dict[str, Any]) -> None:
    for stated in expected["registrations"]:
        listing = up.get(f"/v1/listings/{stated['id']}")
        meets(listing, "Listing")
        assert (listing["status"], listing["cardSha256"]) == (stated["status"], stated["cardSha256"])
        history = up.get(f"/v1/listings/{stated['id']}/history")["revisions"]
        assert [item["kind"] for item in reversed(history)] == [revision["kind"] for revision in stated["revisions"]]
        assert up.get(f"/v1/listings/{stated['id']}/card") == stated["card"]


def test_every_live_listing_is_found_by_its_own_name(up: Running, expected: dict[str, Any]) -> None:
    live = [
        registration
        for registration in expected["registrations"]
        if registration["status"] == "live" and "name" in registration["card"]
    ]
    assert live
    for stated in live:
        page = up.get(f"/v1/search?limit=100&q={quote(stated['card']['name'])}")
        assert stated["id"] in [item["id"] for item in page["items"]], stated["card"]["name"]


def test_a_typo_and_filters_lead_to_the_same_offer(up: Running) -> None:
    page = up.get("/v1/search?q=dex+chrat&acceptedCurrency=USD&maxPrice=1&priceCurrency=USD")
    meets(page, "Page")
    assert 0 < page["matched"] <= page["total"]
    assert "DEX" in page["items"][0]["name"]
    for item in page["items"]:
        assert any(offer["currency"] == "USD" and float(offer["amount"]) <= 1 for offer in item["offers"])
    assert page["index"]["heights"] == {"demo": 125}


def test_the_publisher_gets_the_reason(up: Running, expected: dict[str, Any]) -> None:
    for rejected in expected["rejected"]:
        answer = up.get(f"/v1/diagnose/{rejected['outpoint']}")
        meets(answer, "Diagnosis")
        assert rejected["reason"] in [reason["detail"] for record in answer["records"] for reason in record["reasons"]]


def test_an_unconfirmed_transaction_is_diagnosed_from_its_bytes(up: Running, sample: Path) -> None:
    waiting = json.loads((sample / "mempool.json").read_text())
    raw = next(value for item in waiting for value in item.values() if isinstance(value, str) and len(value) > 300)
    answer = up.get("/v1/diagnose", json.dumps({"rawTx": raw}).encode())
    meets(answer, "Diagnosis")
    assert answer["where"] == "raw"
    assert answer["records"]


def test_the_change_feed_has_no_gaps(up: Running) -> None:
    seen, since, more = [], 0, True
    while more:
        answer = up.get(f"/v1/changes?since={since}&limit=7")
        meets(answer, "Changes")
        seen += [change["seq"] for change in answer["changes"]]
        since, more = answer["nextSince"], answer["more"]
    assert seen == list(range(1, len(seen) + 1))
    assert up.get("/v1/status")["index"]["seq"] == seen[-1]


def test_pages_and_documents_are_served(up: Running) -> None:
    assert up.get("/healthz")["status"] == "ok"
    assert up.get("/openapi.json")["openapi"].startswith("3.1")


# -- a chain that lives


class Node:
    """The changes of a node to its folder, step by step."""

    def __init__(self, folder: Path) -> None:
        self.kit, self.folder = ChainKit(), folder / "blocks"
        self.folder.mkdir()
        self.written = 0

    def write(self) -> None:
        """Append the blocks that are new."""
        self.kit.append(self.folder / "blk00000.dat", *self.kit.blocks[self.written :])
        self.written = len(self.kit.blocks)

    def up(self, folder: Path, *more: str, **environ: Any) -> Running:
        chains = f"live=files:{self.folder}?chain=bsv&network=regtest"
        return Running("up", "--port", "0", *more, cwd=folder, A2B_CHAINS=chains, **environ)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def replayed(node: Node, folder: Path) -> str | None:
    """The state hash of the node's best chain, read from nothing."""
    with Indexing(f"sqlite:///{folder}/replay.db", MemoryChain(*node.kit.blocks, name="live")) as indexing:
        await indexing.catch_up()
        return indexing.hashes([node.kit.tip.height], "live")[node.kit.tip.height]


async def test_search_follows_the_chain_through_updates_a_reorg_a_kill_and_a_restart(
    node: Node, tmp_path: Path
) -> None:
    kit = node.kit
    first = kit.inscribe(agent_without_host("Alpha Router"))
    kit.mine(first)
    node.write()
    with node.up(tmp_path) as running:
        running.until_ready()
        assert names(running.get("/v1/search?q=router")) == ["Alpha Router"]

        update = kit.update(first, agent_without_host("Beta Router"))
        fork = kit.mine(update)
        node.write()
        running.until(lambda: names(running.get("/v1/search?q=router")) == ["Beta Router"])
        assert running.get(f"/v1/listings/{first}")["updatedHeight"] == 3

        other = kit.update(first, agent_without_host("Gamma Router"))
        kit.mine(other, kit.inscribe(agent_without_host("Delta Router")), parent=kit["2"])
        kit.mine()
        node.write()
        running.until(lambda: sorted(names(running.get("/v1/search?q=router"))) == ["Delta Router", "Gamma Router"])
        [chain] = running.get("/v1/status")["chains"]
        assert (chain["reorgs"], chain["height"], chain["hash"]) == (1, 4, kit.tip.hex)
        reasons = [(change["op"], change["reason"]) for change in running.get("/v1/changes")["changes"]]
        assert reasons == [
            ("upsert", "inscribed"), ("upsert", "reinscribed"), ("revert", "reorg"), ("upsert", "reinscribed"),
            ("upsert", "inscribed"),
        ]  # fmt: skip

        running.stop(signal.SIGKILL)
    kit.mine(kit.update(update, agent_without_host("Epsilon Router")), parent=fork)
    kit.mine_empty(2)
    node.write()
    with node.up(tmp_path) as running:
        running.until_ready()
        assert names(running.get("/v1/search?q=router")) == ["Epsilon Router"]
        hashes = until_hashed(running, "live", kit.tip.height)
        none = {"count": 0, "hash": bytes(32).hex()}
        assert hashes == {"live": {"height": kit.tip.height, "hash": await replayed(node, tmp_path), "pointers": none}}
        assert running.stop()[0] == 0
    with node.up(tmp_path) as running:
        running.until_ready()
        assert running.get("/v1/status")["chains"][0]["height"] == kit.tip.height
        assert "of 6;" not in running.err, "blocks were read again after a clean end"


async def test_two_processes_share_the_work(node: Node, tmp_path: Path) -> None:
    node.kit.mine(node.kit.inscribe(agent("Alpha Router")))
    node.write()
    for name in ("index", "serve"):
        (tmp_path / name).mkdir()
    data = f"{tmp_path}/data"
    chains = f"live=files:{node.folder}?chain=bsv&network=regtest"
    shared = {"A2B_DATA": data}
    with (
        Running("serve", "--port", "0", cwd=tmp_path / "serve", **shared) as serving,
        Running("index", "--chains", chains, cwd=tmp_path / "index", **shared) as indexing,
    ):
        serving.until(lambda: names(serving.get("/v1/search?q=router")))
        node.kit.mine(node.kit.inscribe(agent("Beta Router")))
        node.write()
        serving.until(lambda: len(names(serving.get("/v1/search?q=router"))) == 2)
        until_hashed(serving, "live", 3)
        serving.until(lambda: serving.get("/v1/status")["chains"][0]["state"] == "following")
        [chain] = serving.get("/v1/status")["chains"]
        assert (chain["height"], chain["tip"], chain["lag"], chain["reorgs"]) == (3, 3, 0, 0)
        assert serving.get("/v1/status")["stateHash"]["live"]["hash"] == await replayed(node, tmp_path)
        assert indexing.stop()[0] == 0
        assert serving.stop()[0] == 0


# -- the end


REGISTRATIONS = 6_300


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """A chain of 90 blocks that takes some seconds to read."""
    node = Node(tmp_path_factory.mktemp("long"))
    node.kit = ChainKit(funds=REGISTRATIONS)
    for number in range(90):
        agents = [agent(f"Agent {number} {index}") for index in range(REGISTRATIONS // 90)]
        node.kit.mine(*map(node.kit.inscribe, agents), spends_fees=False)
    node.write()
    return node


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_while_it_is_catching_up(number: int, long: Node, tmp_path: Path) -> None:
    with long.up(tmp_path) as running:
        running.until(lambda: "live: block" in running.err)
        assert running.get("/readyz").get("status") != "ready", "it had caught up: this test shows nothing"
        code, seconds = running.stop(number)
        assert code == 0, running.err
        assert seconds < SOON
        assert "Traceback" not in running.err


def test_a_signal_ends_it_at_once_while_loops_are_being_compiled(node: Node, tmp_path: Path) -> None:
    node.write()
    with node.up(tmp_path, NUMBA_CACHE_DIR=f"{tmp_path}/cold") as running:
        assert running.url
        code, seconds = running.stop()
        assert (code, "Traceback" in running.err) == (0, False)
        assert seconds < SOON


def test_a_signal_ends_it_at_once_while_it_waits(tmp_path: Path) -> None:
    with Running("up", "--port", "0", cwd=tmp_path) as running:
        running.until_ready()
        code, seconds = running.stop()
        assert (code, running.err.count("Traceback")) == (0, 0)
        assert seconds < SOON


async def test_killed_at_any_moment_it_goes_on_to_the_same_state_and_a_terminal_says_where(
    long: Node, tmp_path: Path
) -> None:
    for lines in (1, 2):
        with long.up(tmp_path) as running:
            running.until(lambda lines=lines: running.err.count("live: block") >= lines)
            running.stop(signal.SIGKILL)
    ours, theirs = pty.openpty()
    seen = bytearray()

    def watch() -> None:
        while True:
            try:
                chunk = os.read(ours, 65_536)
            except OSError:  # the other end is closed
                return
            seen.extend(chunk)

    watching = threading.Thread(target=watch)
    watching.start()
    with long.up(tmp_path, err=theirs, TERM="xterm", COLUMNS="120") as running:
        os.close(theirs)
        running.until_ready()
        hashes = until_hashed(running, "live", 91)
        assert (hashes["live"]["height"], hashes["live"]["hash"]) == (91, await replayed(long, tmp_path))
        assert running.get("/v1/search?limit=1")["total"] == REGISTRATIONS
        assert running.stop()[0] == 0
    watching.join()
    os.close(ours)
    assert b"live: following at block 91" in seen
