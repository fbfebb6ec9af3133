"""`a2b inscribe --broadcast` is killed at any instant: what was sent is in its file, and nothing else is ever sent."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from overlay.publish.keys import PublisherKey
from tests.chainkit import agent
from tests.running import environment
from tests.waiting import PATIENCE

KEY = PublisherKey(sha256(b"the publisher's key").digest(), "testnet")


class Miner:
    """An ARC server that notes what it receives from a publisher in a folder, who is killed at `kill_at`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.received = folder, list[str]()
        self.kill_at, self.process = "", None

    process: asyncio.subprocess.Process | None

    async def tx(self, request: web.Request) -> web.Response:
        """Accept a transaction."""
        extended = (await request.json())["rawTx"]
        if self.kill_at == "request":
            self.kill()
        self.received.append(extended)
        if self.kill_at == "response":
            asyncio.get_running_loop().call_later(0.01, self.kill)
        return web.json_response({"txid": _saved(self.folder)["txid"], "txStatus": "SEEN_ON_NETWORK"})

    def kill(self) -> None:
        """SIGKILL, where it still runs."""
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)


INSCRIBE = ("inscribe", "card.json", "--app", "test", "--coins", "coins.json", "--broadcast", "--out", "out.json")


async def run(miner: Miner, url: str, *command: str, seconds: float | None = None) -> int:
    """The exit code of one run of a command, killed as `miner.kill_at` says or after so many seconds."""
    folder = miner.folder
    miner.process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "overlay", *command, "--arc", url, cwd=folder, env=environment(A2B_KEY=KEY.private.hex()),
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    ended = asyncio.create_task(miner.process.wait())
    if seconds is not None:
        await asyncio.wait([ended], timeout=seconds)
        miner.kill()
    while miner.kill_at == "saved" and not ended.done():
        if os.path.exists(folder / "out.json"):  # noqa: ASYNC240, PTH110 - what is waited for
            miner.kill()
        await asyncio.sleep(0)
    return await asyncio.wait_for(ended, PATIENCE)


@pytest.mark.parametrize("instant", ["saved", "request", "response", 0.3, 0.6, 0.9])
async def test_a_publisher_that_is_killed_sends_one_transaction_and_loses_none(
    tmp_path: Path, instant: str | float
) -> None:
    (tmp_path / "card.json").write_text(json.dumps(agent("Alpha")))
    (tmp_path / "coins.json").write_text(json.dumps([{"txid": "11" * 32, "vout": 0, "satoshis": 90_000}]))
    miner, app = Miner(tmp_path), web.Application()
    app.router.add_post("/v1/tx", miner.tx)
    async with TestServer(app) as server:
        url = str(server.make_url(""))
        miner.kill_at = instant if isinstance(instant, str) else ""
        await run(miner, url, *INSCRIBE, seconds=instant if isinstance(instant, float) else None)
        before = list(miner.received)
        saved = _saved(tmp_path)
        # what was sent is in the file, whole
        assert all(extended == saved["extended"] for extended in before)
        # the same command again builds another transaction only where nothing was saved, and so nothing was sent
        miner.kill_at = ""
        await run(miner, url, *INSCRIBE)
        again = _saved(tmp_path)
        assert saved in ({}, again)
        assert not saved or miner.received == before
        assert await run(miner, url, "broadcast", "out.json") == 0
    assert {*miner.received} == {again["extended"]}


def _saved(folder: Path) -> dict[str, str]:
    file = folder / "out.json"
    return dict(json.loads(file.read_text())) if file.exists() else {}
