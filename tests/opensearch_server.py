"""Real OpenSearch servers for tests: unpacked once from the minimal distribution on Maven Central, stopped at the end.

The distribution has no scripts, no further analysers and no users; it refuses to run as root.
"""

from __future__ import annotations

import http.client
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port
from tests.waiting import PATIENCE

VERSION = "2.19.0"
ARTIFACT = f"org.opensearch.distribution.integ-test-zip:opensearch:{VERSION}:zip"
_START_SECONDS = 180


def archive() -> Path | None:
    """The zip in the local Maven repository, fetched when it is missing and Maven is there."""
    path = Path.home() / ".m2/repository/org/opensearch/distribution/integ-test-zip/opensearch"
    path = path / VERSION / f"opensearch-{VERSION}.zip"
    if not path.exists() and (maven := shutil.which("mvn")):
        fetch = [maven, "-q", "dependency:get", f"-Dartifact={ARTIFACT}", "-Dtransitive=false"]
        subprocess.run(fetch, check=False, timeout=300)
    return path if path.exists() else None


class Distribution:
    """The unpacked programs, in a folder that whoever runs them owns."""

    def __init__(self, packed: Path, java: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="a2b-opensearch-"))
        with zipfile.ZipFile(packed) as files:
            files.extractall(self.folder)
        (self.home,) = self.folder.iterdir()
        for program in (self.home / "bin").iterdir():
            program.chmod(0o755)
        self.user: dict[str, Any] = {}
        if os.geteuid() == 0:
            self.user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []}
            self._give(self.folder)
        self.java_home = str(Path(java).resolve().parents[1])
        self._numbers = count()

    def node(self, *settings: str, heap: int = 512, ports: tuple[int, int] | None = None) -> Node:
        """Start a node with these settings; `heap` is in megabytes."""
        return Node(self, next(self._numbers), settings, heap, ports or (free_port(), free_port()))

    def _give(self, folder: Path) -> None:
        for path in (folder, *folder.rglob("*")) if self.user else ():
            shutil.chown(path, "nobody")

    def copy_of_config(self, number: int) -> Path:
        """Settings of one node, to which it adds files of its own."""
        folder = shutil.copytree(self.home / "config", self.folder / f"config-{number}")
        self._give(folder)
        return folder

    def remove(self) -> None:
        """Delete all files."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Node:
    """A running server, on its own ports of this machine."""

    def __init__(
        self, programs: Distribution, number: int, settings: Sequence[str], heap: int, ports: tuple[int, int]
    ) -> None:
        self.port, self.transport = ports
        self._log = programs.folder / f"node-{number}.log"
        config = programs.copy_of_config(number)
        options = {
            "path.data": f"{programs.folder}/data-{number}",
            "path.logs": f"{programs.folder}/logs-{number}",
            "http.port": self.port,
            "transport.port": self.transport,
            "cluster.routing.allocation.disk.threshold_enabled": "false",
            "node.name": f"node-{number}",
        }
        environment = os.environ | {
            "OPENSEARCH_PATH_CONF": str(config),
            "OPENSEARCH_JAVA_HOME": programs.java_home,
            # a server lives for minutes: the optimising compiler would take more time than it saves
            "OPENSEARCH_JAVA_OPTS": f"-Xms{heap}m -Xmx{heap}m -XX:TieredStopAtLevel=1 -XX:-UseG1GC -XX:+UseSerialGC",
            "HOME": str(programs.folder),
        }
        arguments = [f"-E{name}={value}" for name, value in options.items()] + [f"-E{setting}" for setting in settings]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [f"{programs.home}/bin/opensearch", *arguments], stdout=log, stderr=log, env=environment,
                cwd=programs.folder, **programs.user,
            )  # fmt: skip

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def wait(self, path: str = "/") -> None:
        """Wait until it answers a path with 200."""
        until = time.monotonic() + _START_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"http://{self.address}{path}", timeout=10).close()
            except OSError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise AssertionError(f"OpenSearch did not start:\n{self._log.read_text()[-4000:]}") from None
                time.sleep(0.2)
            else:
                return

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Accept connections, and answer nothing."""
        self._process.send_signal(signal.SIGSTOP)
        until_all_stopped(self._process.pid)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()


def until_all_stopped(pid: int) -> None:
    """Wait until no thread of a process runs: after the signal that stops it one may still answer a request."""
    limit = time.monotonic() + PATIENCE
    while not all(map(_is_stopped, Path(f"/proc/{pid}/task").iterdir())):
        assert time.monotonic() < limit, "a thread runs"
        time.sleep(0.01)


def _is_stopped(thread: Path) -> bool:
    try:
        return (thread / "stat").read_text().rpartition(") ")[2].startswith("T")
    except OSError:  # it has ended
        return True


@pytest.fixture(scope="session")
def opensearch_programs() -> Iterator[Distribution]:
    """OpenSearch, unpacked; the test is skipped where it or Java is missing."""
    from tests.conftest import missing

    java, packed = shutil.which("java"), archive()
    if java is None:
        missing("Java")
    if packed is None:
        missing(f"OpenSearch ({ARTIFACT} from Maven Central)")
    programs = Distribution(packed, java)
    yield programs
    programs.remove()


@pytest.fixture(scope="session")
def opensearch(opensearch_programs: Distribution) -> Iterator[Node]:
    """A running server. Searches end sooner in tests, so that versions of an index are removed sooner."""
    node = opensearch_programs.node("discovery.type=single-node", "cluster.max_shards_per_node=100000")
    try:
        node.wait("/_cluster/health?wait_for_status=yellow&timeout=5s")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("overlay.engines.opensearch.versions.SEARCHING_SECONDS", 0.5)
            yield node
    finally:
        node.kill()


_INDEXES = count()


@pytest.fixture(scope="session")
def new_opensearch_url(opensearch: Node) -> Callable[[], str]:
    """Gives URLs of new indexes."""
    return lambda: (
        f"opensearch:http://{opensearch.address}/test{os.getpid()}-{next(_INDEXES)}?shards=1&replicas=0&lease=2"
    )


@pytest.fixture
def opensearch_url(opensearch: Node, new_opensearch_url: Callable[[], str]) -> Iterator[str]:
    """The URL of a new index, which is removed after the test."""
    url = new_opensearch_url()
    yield url
    name = url.partition("?")[0].rpartition("/")[2]
    with closing(http.client.HTTPConnection("127.0.0.1", opensearch.port, timeout=PATIENCE)) as connection:
        connection.request("DELETE", f"/{name}-*")
        assert connection.getresponse().status == 200


def index_url(request: pytest.FixtureRequest, name: str, folder: Path) -> str:
    """The URL of a new index of an engine: in a folder, or on the server."""
    if name != "opensearch":
        return f"{name}:{folder}"
    new: Callable[[], str] = request.getfixturevalue("new_opensearch_url")
    return new()


def indexes(url: str) -> int:
    """How many versions of an index its server holds."""
    location = url.removeprefix("opensearch:").partition("?")[0]
    server, _, name = location.rpartition("/")
    with closing(http.client.HTTPConnection(server.removeprefix("http://"), timeout=PATIENCE)) as connection:
        connection.request("GET", f"/{name}-*")
        return len(json.loads(connection.getresponse().read()))
