"""SIGKILL at any instant: what was committed stays, what was not is read again, and the end is the undisturbed one.

A chain of small blocks with registrations and forks is written to a folder in stages. In each stage the indexer is
killed again and again at moments drawn from a seeded generator, at its start or at work; `A2B_KILLS` sets how often.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest

from indexer.chains.files import create
from indexer.store import Change
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import Block, ChainKit, agent, tool
from tests.conftest import ROOT
from tests.indexing import Indexing, Reader
from tests.oracles.anchors import anchors
from tests.oracles.registry import read_chain

KILLS = int(os.environ.get("A2B_KILLS", "12"))
STAGES = 4
BLOCKS_A_STAGE = 60
SEED = 20_240


class Story:
    """A chain that grows and forks at random, with a few live registrations on each branch."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kit = ChainKit(funds=1_500)
        self.alive: dict[bytes, list[Outpoint]] = {self.kit["1"].hash: []}
        self.written = 0

    def grow(self, blocks: int) -> None:
        """Leave the last blocks behind by a longer branch, and go on from there; now and then again."""
        for number in range(blocks):
            tip = self.kit.tip
            if tip.height > 12 and (number == 0 or self.random.random() < 0.05):
                parent = self.kit.branch(tip)[-self.random.randint(3, 12)]
                while parent.height <= tip.height:
                    parent = self._mine(parent)
            else:
                self._mine(tip)

    def _mine(self, parent: Block) -> Block:
        alive = list(self.alive[parent.hash])
        created = [self._act(alive) for _ in range(self.random.randint(0, 4))]
        block = self.kit.mine(*created, parent=parent)
        self.alive[block.hash] = alive
        return block

    def _act(self, alive: list[Outpoint]) -> Outpoint:
        number = self.random.randrange(10_000)
        if len(alive) < 4 or self.random.random() < 0.4:
            kind = self.random.random() < 0.7
            tx = self.kit.inscribe(
                agent(f"Agent {number}") if kind else tool(f"tool-{number}"), "a2b" if kind else "a2b-mcp"
            )
            alive.append(tx)
            return tx
        popped = alive.pop(self.random.randrange(len(alive)))
        if self.random.random() < 0.2:
            return self.kit.burn(popped, to="fee")
        tx = (
            self.kit.move(popped)
            if self.random.random() < 0.5
            else self.kit.update(popped, agent(f"New {number}"), map=None)
        )
        alive.append(tx)
        return tx

    def write(self, folder: Path) -> None:
        """Append what is new to the folder's block file, as a node does."""
        path = folder / "blk00000.dat"
        path.touch()
        self.kit.append(path, *self.kit.blocks[self.written :])
        self.kit.write_tip(folder)
        self.written = len(self.kit.blocks)


class Killer:
    """Starts the indexer and kills it at random moments."""

    def __init__(self, folder: Path, database: Path, seed: int) -> None:
        self.command = [sys.executable, "-m", "tests.kill_driver", str(folder), str(database), "1"]
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.random = random.Random(seed)
        self.kills = self.midway = 0

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command, cwd=ROOT, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def finish(self) -> tuple[float, float]:
        """Let it run to the end; how long it took until it was ready, and then to the tip (seconds)."""
        began = time.monotonic()
        with self._start() as process:
            assert _line(process.stdout) == "ready", process.stderr and process.stderr.read()
            ready = time.monotonic()
            assert _line(process.stdout) == "done", process.stderr and process.stderr.read()
            assert process.wait() == 0
        return ready - began, time.monotonic() - ready

    def kill(self, starting: float, working: float) -> None:
        """Start it, and kill it within so many seconds: one time in six before it is ready, else after."""
        with self._start() as process:
            if self.random.random() < 1 / 6:
                time.sleep(self.random.uniform(starting / 3, starting))
            else:
                assert _line(process.stdout) == "ready", process.stderr and process.stderr.read()
                time.sleep(self.random.uniform(0, working))
            process.kill()
            self.kills += 1
            self.midway += _line(process.stdout) != "done"


def _line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline().strip()


@pytest.mark.timeout(1_800)
async def test_an_indexer_killed_at_many_moments_ends_like_one_that_never_was(tmp_path: Path) -> None:
    folder = tmp_path / "blocks"
    folder.mkdir()
    story = Story(SEED)
    killer = Killer(folder, tmp_path / "killed.db", SEED)
    undisturbed = Killer(folder, tmp_path / "undisturbed.db", SEED)
    for _ in range(STAGES):
        story.grow(BLOCKS_A_STAGE)
        story.write(folder)
        starting, working = undisturbed.finish()
        for _ in range(KILLS // STAGES):
            # so short that the kills of a stage are spread over its work
            killer.kill(starting, 1.5 * working * STAGES / KILLS)
        killer.finish()
    await compare(folder, tmp_path)
    assert killer.midway >= killer.kills // 4


async def compare(folder: Path, tmp_path: Path) -> None:
    """The database of the killed indexer against the undisturbed one, the oracle, and its own outbox."""
    chain = create("demo", f"files:{folder}")
    with (
        Indexing(f"sqlite:///{tmp_path}/killed.db", chain) as killed,
        Indexing(f"sqlite:///{tmp_path}/undisturbed.db") as undisturbed,
    ):
        await chain.open()
        facts = killed.facts()
        assert facts == undisturbed.facts()
        tip = killed.store.blocks.newest("demo")
        assert tip is not None
        raws = [bytes(data) async for _, data in chain.blocks(0, tip.height)]
        oracle = read_chain(raws)
        assert facts["hashes"] == oracle.state_hashes
        assert facts["anchors"] == anchors(oracle, raws)
        assert len(oracle.registrations) > 100
        news = killed.changes()
        assert [change.seq for change in news] == list(range(1, len(news) + 1))
        assert sum(change.op == "revert" for change in news) >= STAGES - 1
        newest = {change.id: change for change in news}
        for registration in killed.records()["registrations"]:
            assert is_last_word(newest[registration["id"]], registration["revisions"][-1])
        reader = Reader(killed.store)
        reader.read()
        assert reader.state_hash() == oracle.state_hashes[tip.height]


def is_last_word(change: Change, revision: dict[str, object]) -> bool:
    """Whether a change is that of the newest revision, or of a reorg after which nothing happened to it any more."""
    if change.op == "revert":
        return change.height is not None and change.height >= int(str(revision["height"]))
    return (change.height, change.reason) == (revision["height"], revision["kind"])
