"""The versions of an index on a cluster: an alias names the live one; another may be built beside it.

The process that rebuilds holds a lease, a document of the live version, which also has its progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep, time
from typing import NamedTuple
from uuid import uuid4

from overlay.engines import BusyError, EngineError, Progress
from overlay.engines.opensearch import state as states
from overlay.engines.opensearch.cluster import Cluster, Json, RemovedError, StoredValue
from overlay.engines.opensearch.mapping import LAYOUT, MAPPINGS

SEARCHING_SECONDS = 2.0
"""How long the former version stays for running searches."""
_LEASE_SECONDS = 60.0
_WAIT_SECONDS = 30.0


class ClusterVersion(NamedTuple):
    """An index of a cluster."""

    cluster: Cluster
    name: str


def make_index(cluster: Cluster, index: str) -> states.StoredState:
    """Create a missing index; the first one becomes live. Raises EngineError when it is of another program."""
    while not _create(cluster, index) and not _has_layout(cluster, index):
        # a write to an index that was removed makes another one, without our mapping
        with suppress(RemovedError):
            cluster.request("DELETE", f"/{index}")
    if index == _first(cluster) and states.read(cluster, _alias(cluster)) is None:
        actions = [{"add": {"index": index, "alias": _alias(cluster)}}]
        cluster.request("POST", "/_aliases", {"actions": actions})
    return states.create(cluster, index)


def _create(cluster: Cluster, index: str) -> bool:
    """Create an index; False where it exists."""
    settings = {
        "number_of_shards": cluster.shards,
        "number_of_replicas": cluster.replicas,
        "refresh_interval": "-1",  # commits refresh it
        "max_result_window": 2**31 - 1,  # pages at any depth; a request sorts no more than there are documents
    }
    body: Json = {"mappings": MAPPINGS, "settings": settings}
    if index == _first(cluster):
        body["aliases"] = {_alias(cluster): {}}
    try:
        cluster.request("PUT", f"/{index}", body)
    except EngineError as error:
        if "resource_already_exists" not in str(error):
            raise
        return False
    return True


def _has_layout(cluster: Cluster, index: str) -> bool:
    """Whether an index has the mapping of this layout; True of one that is missing."""
    try:
        (held,) = cluster.request("GET", f"/{index}/_mapping").values()
    except RemovedError:
        return True
    return bool(held["mappings"].get("_meta", {}).get("layout") == LAYOUT)


def _first(cluster: Cluster) -> str:
    return f"{_alias(cluster)}.first"


def _alias(cluster: Cluster) -> str:
    return f"{cluster.name}-{LAYOUT}"


class ClusterVersions:
    """The versions of the index at a URL. Raises UnknownEngineError, EngineError."""

    def __init__(self, location: str) -> None:
        self._cluster = Cluster.connect(location)
        self._writer = self._cluster.for_writing()
        self._alias = _alias(self._cluster)
        self._me = uuid4().hex

    def live(self) -> ClusterVersion:
        """The live version; it may not exist yet."""
        return self._live(self._cluster)

    def _live(self, cluster: Cluster) -> ClusterVersion:
        stored = states.read(cluster, self._alias)
        return ClusterVersion(self._cluster, stored.document.index_name if stored else _first(cluster))

    def watch(self, version: ClusterVersion) -> Callable[[], bool]:  # noqa: ARG002
        """A function that returns True: the version has no files here, and an index that was removed has no
        position."""
        return lambda: True

    @contextmanager
    def writing(self, version: ClusterVersion) -> Iterator[None]:
        """Check that `version` is live; its lease excludes other writers. Raises BusyError when it is not."""
        if self._live(self._writer) != version:
            raise BusyError("the index was replaced meanwhile; read its position again")
        yield

    @contextmanager
    def promoting(self) -> Iterator[None]:
        """Exclude commits; waits for those in progress."""
        until = monotonic() + max(_WAIT_SECONDS, 2 * self._cluster.lease)
        while True:
            try:
                stored = states.read(self._writer, self._alias)
                held = stored and states.write(self._writer, stored.state.taking(self._me, self._writer.lease), stored)
                break
            except BusyError:
                if monotonic() > until:
                    raise
                sleep(0.05)
        try:
            yield
        finally:
            if held is not None:
                with suppress(EngineError):
                    states.write(self._writer, held.state.released(), held)

    @contextmanager
    def rebuilding(self) -> Iterator[ClusterVersion]:
        """A new version, removed at the end if it was not promoted. Raises BusyError while another process rebuilds."""
        self._hold(0, 0)
        try:
            self._sweep()
            yield ClusterVersion(self._cluster, f"{self._alias}.{uuid4().hex[:8]}")
        finally:
            self._sweep()
            self._drop()

    def report_progress(self, done: int, of: int) -> None:
        """Publish the progress of a rebuild; renews its lease."""
        self._hold(done, of)

    def progress(self) -> Progress | None:
        """The progress of the process that rebuilds; None without one, or before its first report."""
        held = self._cluster.get(self._alias, "rebuild")
        if held is None or held.value["until"] < time() or not held.value["of"]:
            return None
        return Progress(held.value["done"], held.value["of"])

    def promote(self, version: ClusterVersion) -> None:
        """Make a version live. Only while `promoting`."""
        former = self._live(self._writer).name
        actions = [
            {"remove": {"index": former, "alias": self._alias, "must_exist": False}},
            {"add": {"index": version.name, "alias": self._alias}},
        ]
        self._writer.request("POST", "/_aliases", {"actions": actions})
        self._hold(0, 0)

    def cleanup(self) -> None:
        """Remove versions that a killed process left, unless a rebuild is in progress."""
        with suppress(BusyError):
            self._hold(0, 0)
            self._sweep()
            self._drop()

    # -- the lease of a rebuild

    def _hold(self, done: int, of: int) -> None:
        """Take or renew the lease. Raises BusyError while another process holds it."""
        held = self._writer.get(self._alias, "rebuild")
        if held and held.value["by"] != self._me and held.value["until"] > time():
            raise BusyError(f"another process rebuilds the index {self._cluster.shown}")
        if held is None and states.read(self._writer, self._alias) is None:
            make_index(self._writer, _first(self._writer))
        lease = {"by": self._me, "until": time() + _LEASE_SECONDS, "done": done, "of": of}
        new = StoredValue(None, self._alias, {"op_type": "create", "require_alias": "true"})
        self._writer.put("rebuild", lease, held or new)

    def _drop(self) -> None:
        with suppress(RemovedError):
            self._writer.request("DELETE", f"/{self._alias}/_doc/rebuild")

    def _sweep(self) -> None:
        """Remove all versions but the live one, after running searches of the former one have ended."""
        live = self._live(self._writer).name
        indexes = self._writer.request("GET", f"/{self._alias}.*", expand_wildcards="all")
        others = sorted(indexes.keys() - {live})
        if others:
            sleep(SEARCHING_SECONDS)
        for name in others:
            with suppress(RemovedError):
                self._writer.request("DELETE", f"/{name}")
