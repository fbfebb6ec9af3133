"""Readers of the change feed over real processes that are killed, restarted and terminated: no gap, nothing twice."""

from __future__ import annotations

import json
import re
import signal
import time
from contextlib import suppress
from http.client import HTTPException, IncompleteRead
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.chainkit import ChainKit, agent_without_host
from tests.ports import free_port
from tests.running import Running
from tests.waiting import PATIENCE


class Node:
    """A folder of blocks that grows."""

    def __init__(self, folder: Path) -> None:
        self.kit, self.folder, self.written = ChainKit(), folder / "blocks", 0
        self.folder.mkdir()

    @property
    def chains(self) -> str:
        return f"live=files:{self.folder}?chain=bsv&network=regtest"

    def mine(self, count: int, **where: Any) -> None:
        """So many blocks with a registration each."""
        for _ in range(count):
            self.kit.mine(self.kit.inscribe(agent_without_host(f"Router {len(self.kit.blocks)}")), **where)
            where = {}
        self.kit.append(self.folder / "blk00000.dat", *self.kit.blocks[self.written :])
        self.written = len(self.kit.blocks)


class Follower:
    """A reader that comes back with the last id it saw, and keeps everything it received."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.last = ""

    def read(self, url: str, upto: int) -> None:
        """Follow until it received a change of that number, or the stream breaks off."""
        headers = {"Last-Event-ID": self.last} if self.last else {}
        with (
            suppress(OSError, HTTPException),
            urlopen(Request(f"{url}/v1/stream", headers=headers), timeout=PATIENCE) as lines,  # noqa: S310 - http only
        ):
            for line in lines:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "id":
                    self.last = value
                elif name == "data":
                    self.messages.append(json.loads(value))
                    if self.messages[-1]["seq"] >= upto:
                        return

    def follow(self, url: str, upto: int) -> None:
        """Follow until then, coming back as often as it takes."""
        until = time.monotonic() + PATIENCE
        while not self.messages or self.messages[-1]["seq"] < upto:
            assert time.monotonic() < until, f"received {len(self.messages)} of {upto}"
            self.read(url, upto)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def port() -> str:
    return str(free_port())


def newest(running: Running) -> int:
    seq: int = running.get("/v1/status")["index"]["seq"]
    return seq


def everything(running: Running) -> list[dict[str, Any]]:
    answer = running.get("/v1/changes?limit=1000")
    assert not answer["more"]
    changes: list[dict[str, Any]] = answer["changes"]
    return changes


def folder(of: Path, name: str) -> Path:
    path = of / name
    path.mkdir()
    return path


def test_a_reader_misses_nothing_through_kills_restarts_and_a_reorg(node: Node, port: str, tmp_path: Path) -> None:
    def up(number: int) -> Running:
        return Running(
            "up", "--port", port, cwd=folder(tmp_path, f"run-{number}"), A2B_CHAINS=node.chains,
            A2B_DATA=str(tmp_path / "data"),
        )  # fmt: skip

    reader, ahead = Follower(), Follower()
    node.mine(5)
    for number in range(3):
        with up(number) as running:
            running.until_ready()
            reader.read(running.url, newest(running) - number)
            node.mine(2)
            running.until(lambda goal=node.kit.tip.height: running.get("/v1/status")["chains"][0]["height"] == goal)
            ahead.follow(running.url, newest(running))
            node.mine(3, parent=node.kit.tip)
            running.stop(signal.SIGKILL)
    with up(3) as running:
        running.until(lambda: running.get("/v1/status")["chains"][0]["height"] == node.kit.tip.height)
        node.mine(4, parent=node.kit[str(node.kit.tip.height - 2)])
        running.until(lambda: running.get("/v1/status")["chains"][0]["height"] == node.kit.tip.height)
        upto = len(everything(running))
        for item in (reader, ahead):
            item.follow(running.url, upto)
        assert reader.messages == ahead.messages == everything(running)
        assert [change["seq"] for change in reader.messages] == list(range(1, upto + 1))
        assert {change["op"] for change in reader.messages} == {"upsert", "revert"}
        assert running.stop()[0] == 0


def test_open_streams_do_not_keep_a_server_from_ending(node: Node, tmp_path: Path) -> None:
    node.mine(2)
    with Running("up", "--port", "0", cwd=tmp_path, A2B_CHAINS=node.chains) as running:
        running.until_ready()
        url = f"{running.url}/v1/stream"
        with urlopen(url, timeout=PATIENCE) as one, urlopen(url, timeout=PATIENCE) as other:  # noqa: S310
            for reader in (one, other):
                answers = [reader.readline() for _ in range(8)]
                assert sum(line.startswith(b"data: ") for line in answers) == 2
            assert running.stop()[0] == 0
            for reader in (one, other):
                assert re.fullmatch(rb"retry: [0-9]+\n\n", rest(reader))


def rest(reader: Any) -> bytes:
    """The remaining bytes; on a machine so busy that the process ends before the answer does, it breaks off."""
    try:
        parsed: bytes = reader.read()
    except IncompleteRead as error:
        parsed = error.partial
    return parsed


def test_workers_tell_what_another_process_writes_and_count_together(node: Node, port: str, tmp_path: Path) -> None:
    node.mine(3)
    answers = {"A2B_DATA": str(tmp_path / "data")}
    with Running("index", cwd=folder(tmp_path, "index"), A2B_CHAINS=node.chains, **answers) as indexing:
        with Running(
            "serve", "--workers", "2", "--port", port, cwd=folder(tmp_path, "serve"), **answers
        ) as serving:  # fmt: skip
            serving.until_ready()
            readers = [Follower() for _ in range(6)]
            for reader in readers:
                reader.follow(serving.url, 3)
            node.mine(3)
            for reader in readers:
                reader.follow(serving.url, 6)
            assert all(reader.messages == everything(serving) for reader in readers)
            for _ in range(10):
                answer = serving.get("/v1/search?q=router")
                assert "items" in answer, answer
            counts = {searches(serving.url) for _ in range(8)}
            assert counts == {10}
            assert serving.stop()[0] == 0
        assert indexing.stop()[0] == 0


def searches(url: str) -> int:
    """Searches answered, as any of the workers tells."""
    with urlopen(f"{url}/metrics", timeout=PATIENCE) as answer:  # noqa: S310
        text = answer.read().decode()
    [count] = re.findall(r'^a2b_http_request_seconds_count{route="/v1/search",status="200"} (\d+)', text, re.MULTILINE)
    return int(count)


def test_a_request_that_was_answered_outlives_a_kill(node: Node, tmp_path: Path) -> None:
    node.mine(1)
    answers = {
        "A2B_CHAINS": node.chains, "A2B_DATA": str(tmp_path / "data"),
    }  # fmt: skip
    with Running("up", "--port", "0", cwd=folder(tmp_path, "before"), **answers) as running:
        running.until_ready()
        first = running.get("/v1/ingest", json.dumps({"txid": "ab" * 32}).encode())
        running.stop(signal.SIGKILL)
    with Running("up", "--port", "0", cwd=folder(tmp_path, "after"), **answers) as running:
        step = running.until(lambda: requested(running, first["txid"], "looked for"))
        assert step["detail"].startswith(f"at {first['askedAt']}, looked for ")
        again = running.get("/v1/ingest", json.dumps({"txid": "AB" * 32}).encode())
        assert (again["askedAt"], again["state"]) == (first["askedAt"], "waiting")
        running.until(lambda: requested(running, first["txid"], "not known to live"))


def requested(running: Running, txid: str, text: str) -> dict[str, Any] | None:
    """The step of a diagnosis about the request, once it holds this text."""
    step: dict[str, Any] = running.get(f"/v1/diagnose/{txid}")["steps"][0]
    return step if step["step"] == "requested" and text in step["detail"] else None
