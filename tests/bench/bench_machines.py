"""Several servers of one database: `python -m tests.bench.bench_machines [--listings N] [--changes N] [--seconds N]`.

One `a2b index` writes to PostgreSQL; 1, 2 and 4 `a2b serve` have an index of their own each, fed by the outbox. The
first projects all registrations, the others start from copies of its index. With `--opensearch N` they share an index
on OpenSearch of N nodes instead, one shard a node and a copy of each. The servers, the load (a process for each),
PostgreSQL and OpenSearch share this machine: beside the requests a second there is what a second of the servers'
processors does, and how many processors they had.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from tests.bench.bench_http import SHARED, _cpu, questions
from tests.bench.bench_serve import load
from tests.bench.bench_up import OUTPUTS, mine
from tests.bench.listings import listings
from tests.chainkit import ChainKit, agent
from tests.databases import Cluster, binary
from tests.opensearch_server import Distribution, archive
from tests.ports import free_port
from tests.running import Running, a2b

SERVERS, PATHS, TRIALS = (1, 2, 4), 2_000, 5


class Machine(Running):
    """A process with a data folder of its own; all share a database."""

    def __init__(self, folder: Path, name: str, command: str, database: str, index: str = "") -> None:
        files = folder / name
        files.mkdir(exist_ok=True)
        self.index = index or f"native:{files}/data/index"
        super().__init__(
            command, cwd=files, A2B_DATA=f"{files}/data", A2B_DATABASE=database, A2B_SEARCH=self.index,
            A2B_CHAINS=f"bsv=files:{folder / 'blocks'}", A2B_PORT="0", A2B_LIMITS="off", A2B_SYSTEMS="off",
        )  # fmt: skip

    def lag(self) -> int:
        """Changes that its index has not read."""
        count: int = self.get("/v1/status")["index"]["behind"]
        return count

    def is_ready(self) -> bool:
        """Whether it answers searches."""
        return bool(self.get("/readyz").get("status") == "ready")

    def has(self, word: str) -> bool:
        """Whether a search finds a listing with a word."""
        return bool(self.get(f"/v1/search?q={word}&limit=1")["total"])

    def wait(self, is_done: Callable[[], object]) -> float:
        """Seconds until something is so, however many."""
        began = time.perf_counter()
        while not is_done():
            time.sleep(0.01)
        return time.perf_counter() - began

    @property
    def port(self) -> int:
        """Where it serves."""
        return urlsplit(self.url).port or 0


def throughput(servers: Sequence[Machine], paths: Path, seconds: float) -> None:
    """A line of the table: a load on each server at the same time."""
    with ThreadPoolExecutor(len(servers)) as clients:
        list(clients.map(lambda server: load(server.port, paths, "", 2), servers))
        before = sum(_cpu(server.process.pid) for server in servers)
        loads = list(clients.map(lambda server: load(server.port, paths, "", seconds), servers))
        used = sum(_cpu(server.process.pid) for server in servers) - before
    answers = sum(one.rate for one in loads) * seconds
    print(
        f"  {len(servers)} servers: {answers / seconds:,.0f} a second, {answers / used:,.0f} a second of their "
        f"processors, of which they had {used / seconds:.1f}; p99 {max(one.p99 for one in loads):.0f} ms",
        flush=True,
    )


def lag(servers: Sequence[Machine], kit: ChainKit, blocks: Path) -> None:
    """From a block file until each server finds what it lists."""
    took: list[list[float]] = []
    with ThreadPoolExecutor(len(servers)) as clients:
        for number in range(TRIALS):
            name = f"Zyxwv{chr(97 + number) * 3}"
            kit.append(blocks, kit.mine(kit.inscribe(agent(name))))
            took.append(list(clients.map(lambda server, name=name: server.wait(lambda: server.has(name)), servers)))
    medians = [sorted(times)[TRIALS // 2] for times in zip(*took, strict=True)]
    print("  block file to a search result, median by server: " + ", ".join(f"{1000 * s:.0f} ms" for s in medians))


def start_copy(folder: Path, first: Machine, number: int, database: str) -> Machine:
    """Start a server from a copy of the first one's index."""
    began = time.perf_counter()
    copied = a2b("index-copy", f"{folder}/copy{number}", cwd=folder, A2B_SEARCH=first.index)
    assert copied.returncode == 0, copied.stderr
    copying = time.perf_counter() - began
    server = Machine(folder, f"server{number}", "serve", database, f"native:{folder}/copy{number}")
    ready = server.wait(server.is_ready)
    print(f"  a copy after {copying:.1f} s, ready from it {ready:.1f} s later", flush=True)
    return server


def start_opensearch(stack: ExitStack, nodes: int) -> str:
    """Start a cluster; return the URL of an index on all its nodes."""
    java, packed = shutil.which("java"), archive()
    if java is None or packed is None:
        raise SystemExit("OpenSearch needs Java, and Maven to be fetched")
    programs = Distribution(packed, java)
    stack.callback(programs.remove)
    ports = [(free_port(), free_port()) for _ in range(nodes)]
    seeds = ",".join(f"127.0.0.1:{transport}" for _, transport in ports)
    managers = ",".join(f"node-{number}" for number in range(nodes))
    cluster = (f"discovery.seed_hosts={seeds}", f"cluster.initial_cluster_manager_nodes={managers}")
    running = [programs.node(*cluster, heap=1024, ports=pair) for pair in ports]
    for node in running:
        stack.callback(node.kill)
    for node in running:
        node.wait(f"/_cluster/health?wait_for_nodes={nodes}&timeout=5s")
    hosts = ",".join(node.address for node in running)
    return f"opensearch:http://{hosts}/bench?shards={nodes}&replicas={min(1, nodes - 1)}"


def measure(folder: Path, stack: ExitStack, count: int, changes: int, seconds: float, nodes: int) -> None:
    """Print the table."""
    documents = list(islice(listings(1, SHARED if SHARED.is_dir() else None), count + changes))
    (folder / "blocks").mkdir()
    kit = ChainKit(funds=(count + changes) // OUTPUTS + 100)
    mine(kit, documents[:count])
    [blocks] = kit.write(folder / "blocks")
    cluster = Cluster(binary("initdb"), binary("postgres"))
    stack.callback(cluster.stop)
    database = cluster.new()
    shared = start_opensearch(stack, nodes) if nodes else ""
    began = time.perf_counter()
    stack.enter_context(Machine(folder, "indexer", "index", database))
    servers = [stack.enter_context(Machine(folder, "server0", "serve", database, shared))]
    first = servers[0]
    first.wait(lambda: first.get("/v1/status")["index"]["seq"] >= count and not first.lag())
    print(f"{count:,} listings: indexed and found after {time.perf_counter() - began:.1f} s", flush=True)
    for number in range(1, max(SERVERS)):
        if nodes:
            server = stack.enter_context(Machine(folder, f"server{number}", "serve", database, shared))
            print(f"  ready after {server.wait(server.is_ready):.1f} s", flush=True)
        else:
            server = stack.enter_context(start_copy(folder, first, number, database))
        servers.append(server)
    paths = folder / "paths"
    paths.write_text("".join(f"/v1/search?{one}\n" for one in islice(questions(documents), PATHS)))
    for number in SERVERS:
        throughput(servers[:number], paths, seconds)
    lag(servers, kit, blocks)
    killed = servers.pop()
    killed.process.kill()
    killed.process.wait()
    height = kit.tip.height
    mine(kit, documents[count:])
    for block in kit.branch()[height + 1 :]:
        kit.append(blocks, block)
    time.sleep(1)
    took = first.wait(lambda: first.get("/v1/status")["chains"][0]["height"] == kit.tip.height and not first.lag())
    print(f"  {changes:,} changes while one is killed: found by the others after {1 + took:.1f} s", flush=True)
    again = stack.enter_context(Machine(folder, f"server{len(servers)}", "serve", database, killed.index))
    took = again.wait(lambda: again.is_ready() and not again.lag())
    print(f"  started again: answers, and has read them after {took:.1f} s", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=20_000)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--opensearch", type=int, default=0, metavar="NODES", help="share an index on so many nodes")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        os.environ.setdefault("NUMBA_CACHE_DIR", f"{folder}/numba")  # compiled once, for all servers
        measure(Path(folder), stack, args.listings, args.changes, args.seconds, args.opensearch)


if __name__ == "__main__":
    main()
