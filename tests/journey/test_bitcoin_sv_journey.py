"""A real Bitcoin SV node (`BITCOIND`) with a random history, followed by `a2b up` while that is killed at random."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from parsers.bitcoin.tx import Outpoint
from tests.bitcoind import Bitcoind, installed
from tests.indexer.chains.test_node_litecoind import card
from tests.oracles.registry import Registry, read_chain
from tests.ports import free_port
from tests.running import Running, a2b

STEPS = 60
SEED = 1_2_2


class History:
    """Registers, updates, moves and burns at random, and forks the chain one to five blocks deep."""

    def __init__(self, node: Bitcoind, seed: int) -> None:
        self.node = node
        self.random = random.Random(seed)
        self.live: list[Outpoint] = []
        self.stale_blocks = 0

    def step(self) -> None:
        """One to three transactions, and now and then a block or a fork."""
        for _ in range(self.random.randint(1, 3)):
            self._publish()
        chance = self.random.random()
        if chance < 0.12:
            depth = self.random.randint(1, 5)
            self.node.undo(depth)
            self.node.mine_empty(depth + 1)
            self.stale_blocks += depth
        elif chance < 0.6:
            self.node.mine()

    def _publish(self) -> None:
        name = f"agent-{self.random.randrange(10**6)}"
        if len(self.live) < 4 or self.random.random() < 0.35:
            self.live.append(self.node.inscribe(card(name)))
            return
        outpoint = self.live.pop(self.random.randrange(len(self.live)))
        action = self.random.choice(["update", "move", "move", "behind a coin", "burn"])
        if action == "update":
            self.live.append(self.node.update(outpoint, card(name)))
        elif action == "move":
            self.live.append(self.node.move(outpoint))
        elif action == "behind a coin":
            self.node.move_behind_a_coin(outpoint)
        else:
            self.node.burn(outpoint)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rest", [True, False], ids=["rest", "rpc"])
def test_a_random_history_is_followed_through_forks_and_kills(rest: bool, tmp_path: Path) -> None:
    installed()
    chance = random.Random(SEED)
    zmq = f"tcp://127.0.0.1:{free_port()}"
    home = tmp_path / "home"
    home.mkdir()
    with Bitcoind(tmp_path / "node", rest=rest, more=[f"-zmqpubhashblock={zmq}", f"-zmqpubrawtx={zmq}"]) as node:
        node.fund(140)
        chains = f"bsv={node.cookie_url}&zmq={zmq}"
        settings = {"A2B_CHAINS": chains, "A2B_PORT": "0"}
        history, kills, done = History(node, SEED), 0, 0
        while done < STEPS:
            with Running("up", cwd=home, **settings) as running:
                assert running.url
                for _ in range(chance.randint(5, 15)):
                    history.step()
                    done += 1
                running.process.kill()
                kills += 1
        with Running("up", cwd=home, **settings) as running:
            running.until_ready()
            newcomer = node.inscribe(card("newcomer"))
            running.until(lambda: status_of(running, newcomer) == "pending")
            node.mine()
            running.until(lambda: status_of(running, newcomer) == "live")
            oracle = read_chain(node.blocks)
            expected = (oracle.height, oracle.state_hashes[oracle.height])
            running.until(lambda: state_of(running) == expected)
            total = running.get("/v1/search?status=live&status=burned&limit=100")["total"]
            code, _ = running.stop()
            assert (code, "Traceback" in running.err) == (0, False)
        assert total == len(oracle.registrations)
        assert (kills >= 4, history.stale_blocks >= 5, len(oracle.ids("burned")) >= 3) == (True, True, True)
        verify_some(oracle, node, home, settings)


def state_of(running: Running) -> tuple[int, str]:
    hashed = running.get("/v1/status")["stateHash"]["bsv"]
    return hashed["height"], hashed["hash"]


def status_of(running: Running, outpoint: Outpoint) -> object:
    """The status of a listing: 404 while it is unknown."""
    return running.get(f"/v1/listings/{outpoint}").get("status")


def verify_some(oracle: Registry, node: Bitcoind, home: Path, settings: dict[str, str]) -> None:
    """`a2b verify` proves live listings against the node itself."""
    for id_ in sorted(oracle.ids("live"))[:5]:
        done = a2b("verify", id_, "--headers", node.cookie_url, cwd=home, **settings)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "newest: proved" in done.stdout
