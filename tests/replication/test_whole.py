"""The whole: PostgreSQL with a replica, one indexer, and two servers behind nginx with the packaged file, each a
process of its own. What befalls them costs no request, every change is read once, a copy that is put back has no
ghosts, and a restored backup lists what was listed."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from overlay.api.identity_key import read_or_create
from tests.chainkit import ChainKit, agent_without_host
from tests.chainkit_blocks import Block
from tests.databases import binary
from tests.overlay.test_deploy import Site, answers
from tests.ports import free_port
from tests.replication.conftest import Pair
from tests.replication.servers import Server, caught_up
from tests.running import Running, a2b
from tests.waiting import PATIENCE


class Machines:
    """The chain, the processes and the proxy. The second server reads from the replica."""

    def __init__(self, pair: Pair, folder: Path, opened: ExitStack) -> None:
        self._primary, self._replica = pair
        self._folder, self._opened = folder, opened
        self._kit, self.names = ChainKit(), set[str]()
        self._ports = (free_port(), free_port())
        for name in ("index", "first", "second", "nginx", "blocks"):
            (folder / name).mkdir()
        read_or_create(folder / "identity.json")
        (self._file,) = self._kit.write(folder / "blocks")
        self.site = Site(folder / "nginx")

    def mine(self, *names: str, parent: Block | None = None) -> Block:
        """A block that registers an agent of each name."""
        block = self._kit.mine(*map(self._kit.inscribe, map(agent_without_host, names)), parent=parent)
        self._kit.append(self._file, block)
        self.names |= set(names)
        return block

    def index(self) -> Running:
        """Start the indexer."""
        chains = f"live=files:{self._folder / 'blocks'}?chain=bsv&network=regtest"
        return self._run("index", "index", A2B_CHAINS=chains)

    def serve(self, number: int) -> Running:
        """Start a server."""
        replica = {"A2B_DATABASE_READ": self._replica.url("registry")} if number else {}
        flags = ("--port", str(self._ports[number]), "--limits", "off", "--trusted-proxies", "127.0.0.1")
        return self._run(("first", "second")[number], "serve", *flags, **replica)

    def _run(self, name: str, *arguments: str, **more: str) -> Running:
        running = Running(*arguments, cwd=self._folder / name, **self._settings(name), **more)
        return self._opened.enter_context(running)

    def run(self, *arguments: str) -> None:
        """Run a command to its end on the database."""
        done = a2b(*arguments, cwd=self._folder / "index", **self._settings("index"))
        assert done.returncode == 0, done.stderr

    def _settings(self, name: str) -> dict[str, str]:
        return {
            "A2B_DATA": str(self._folder / name / "data"), "A2B_DATABASE": self._primary.url("registry"),
            "A2B_IDENTITY_KEY": str(self._folder / "identity.json"),
        }  # fmt: skip

    def proxy(self) -> None:
        """Start nginx."""
        log = self._opened.enter_context((self._folder / "nginx/log").open("w"))
        process = subprocess.Popen(self.site.nginx(*self._ports), cwd=self._folder, stdout=log, stderr=log)
        self._opened.callback(process.wait)
        self._opened.callback(process.terminate)

    def until_listed(self, *servers: Running) -> None:
        """Wait until each of these lists what the chain has registered, and nothing else."""
        for server in servers:
            server.until(lambda server=server: listed(server) == self.names)


def listed(server: Running) -> set[str]:
    """The names that a server lists; none while it cannot say."""
    return {item["name"] for item in server.get("/v1/search?limit=100").get("items", ())}


class Readers:
    """Through the proxy all the time, in threads: searches, of which the statuses are kept, and the change feed."""

    def __init__(self, site: Site) -> None:
        self._site, self._over = site, threading.Event()
        self.statuses: list[int] = []
        self.seqs: list[int] = []
        self.ids, self.resets = set[str](), 0
        self._epoch = ""

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read meanwhile."""
        threads = [threading.Thread(target=self._repeat, args=(work,)) for work in (self._search, self._feed)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join(PATIENCE)

    def _repeat(self, work: Any) -> None:
        while not self._over.is_set():
            work()
            time.sleep(0.1)

    def _get(self, path: str) -> Any:
        try:
            status, body = self._site.get(path)
        except OSError:
            status, body = 0, ""
        self.statuses.append(status)
        return json.loads(body) if status == 200 else None

    def _search(self) -> None:
        self._get("/v1/search?q=router")

    def _feed(self) -> None:
        since = self.seqs[-1] if self.seqs else 0
        page = self._get(f"/v1/changes?since={since}&limit=100" + (f"&epoch={self._epoch}" if self._epoch else ""))
        if page is None:
            return
        if page["changes"] and page["changes"][0]["op"] == "reset":
            self.resets, self._epoch = self.resets + 1, ""
            self.ids.clear()
            self.seqs.clear()
            return
        self.seqs += [change["seq"] for change in page["changes"]]
        self.ids |= {change["id"] for change in page["changes"]}
        self._epoch = page["epoch"]

    def has_read(self, database: Server) -> bool:
        """Whether every change of a database was read, once and in order."""
        newest = database.ask("SELECT max(seq) FROM changes", "registry")
        return self.seqs == list(range(1, newest + 1))


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def of_database(program: str, server: Server, *arguments: str) -> Sequence[str]:
    return (binary(program), "-h", str(server.folder), "-U", "a2b", "-d", "registry", *arguments)


@pytest.mark.timeout(900)
def test_kills_a_stopped_replica_a_copy_that_is_put_back_and_a_restored_backup_lose_nothing(
    pair: Pair, tmp_path: Path
) -> None:
    primary, replica = pair
    with ExitStack() as opened:
        machines = Machines(pair, tmp_path, opened)
        machines.mine(*(f"router {number}" for number in range(4)))
        index = machines.index()
        index.until(lambda: primary.ask("SELECT to_regclass('changes')", "registry"))
        caught_up(primary, replica)
        servers = [machines.serve(0), machines.serve(1)]
        machines.until_listed(*servers)
        machines.proxy()
        servers[0].until(partial(answers, machines.site))
        readers = Readers(machines.site)
        with readers.reading():
            servers[0].stop(SIGKILL)
            machines.mine("router after a kill")
            machines.until_listed(servers[1])
            servers[0] = machines.serve(0)
            machines.until_listed(*servers)
            servers[1].stop(SIGKILL)
            index.stop(SIGKILL)
            machines.mine("router after two kills")
            servers[1], index = machines.serve(1), machines.index()
            machines.until_listed(*servers)
            replica.stop()
            machines.mine("router without a replica")
            machines.until_listed(servers[0])
            replica.start()
            machines.until_listed(*servers)
            index.until(partial(readers.has_read, primary))
            assert (readers.resets, set(readers.statuses)) == (0, {200})
            put_back(machines, primary, index)
            index = machines.index()
            machines.until_listed(*servers)
            index.until(lambda: readers.resets == 1 and readers.has_read(primary))
            restore_backup(machines, primary, [index, *servers])
            index, servers = machines.index(), [machines.serve(0), machines.serve(1)]
            machines.until_listed(*servers)
            # what was restored has as many changes as what was read before
            index.until(lambda: readers.resets == 2 and readers.has_read(primary))
        assert readers.resets == 2
        assert len(readers.ids) == len(machines.names)


def restore_backup(machines: Machines, primary: Server, processes: Sequence[Running]) -> None:
    """Restore into a new database what `a2b backup` wrote of the one before, which is gone."""
    file, count = str(machines.site.folder / "backup.gz"), "SELECT count(*) FROM cards"
    machines.run("backup", file)
    before = primary.ask(count, "registry")
    for process in processes:
        process.stop()
    run(*of_database("psql", primary, "-q", "-1", "-c", "DROP SCHEMA public CASCADE; CREATE SCHEMA public"))
    machines.run("restore", file)
    assert primary.ask(count, "registry") == before > 0
    assert primary.ask("SELECT count(*) FROM events", "registry") == 0


def put_back(machines: Machines, primary: Server, index: Running) -> None:
    """Dump the database, read more, and put the dump back, while another branch of the chain becomes the best one."""
    parent, dump = machines.mine("router in the copy"), str(machines.site.folder / "dump.sql")
    index.until(lambda: primary.ask("SELECT max(height) FROM blocks", "registry") == parent.height)
    run(*of_database("pg_dump", primary, "--clean", "--if-exists", "-f", dump))
    names = set(machines.names)
    ghosts = [machines.mine("router ghost", parent=parent)]
    ghosts.append(machines.mine("router second ghost", parent=ghosts[0]))
    index.until(lambda: primary.ask("SELECT max(height) FROM blocks", "registry") == ghosts[-1].height)
    time.sleep(1)  # the servers and the reader of the feed have the ghosts
    index.stop()
    run(*of_database("psql", primary, "-q", "-1", "-v", "ON_ERROR_STOP=1", "-f", dump))
    machines.names.clear()
    machines.names |= names
    for number in range(3):
        parent = machines.mine(f"router of another branch {number}", parent=parent)
