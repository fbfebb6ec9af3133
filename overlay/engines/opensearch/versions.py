"""The versions of an index on a cluster: an alias names the one that answers; another may be built beside it.

Whoever rebuilds holds a lease, a document of the version that answers, which also says how far that is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep, time
from typing import NamedTuple
from uuid import uuid4

from opensearchpy.exceptions import NotFoundError

from overlay.engines import BusyError, EngineError
from overlay.engines.opensearch import state as states
from overlay.engines.opensearch.cluster import Cluster, Json
from overlay.engines.opensearch.mapping import LAYOUT, MAPPINGS, settings
from overlay.index_versions import Progress

SEARCHING_SECONDS = 2.0
"""How long the former version stays for searches that are under way."""
_LEASE_SECONDS = 60.0
_WAIT_SECONDS = 30.0


class Version(NamedTuple):
    """An index of a cluster."""

    cluster: Cluster
    name: str


def make_index(cluster: Cluster, index: str) -> None:
    """Make an index that is missing; the first one answers. Raises EngineError when it is of another program."""
    alias = _alias(cluster)
    body: Json = {"mappings": MAPPINGS, "settings": settings(cluster)}
    if index == f"{alias}.first":
        body["aliases"] = {alias: {}}
    try:
        cluster.request("PUT", f"/{index}", body)
    except EngineError as error:
        if "resource_already_exists" not in str(error):
            raise
    states.create(cluster, index)


def _alias(cluster: Cluster) -> str:
    return f"{cluster.name}-{LAYOUT}"


class ClusterVersions:
    """Those of the index that a URL names. Raises UnknownEngineError, EngineError."""

    def __init__(self, place: str) -> None:
        self._cluster = Cluster.connect(place)
        self._alias = _alias(self._cluster)
        self._lease: states.Versioned | None = None
        self._me = uuid4().hex

    def live(self) -> Version:
        """The one that answers; it may not have been made yet."""
        found = states.read(self._cluster, self._alias)
        return Version(self._cluster, found.name if found else f"{self._alias}.first")

    @contextmanager
    def writing(self, version: Version) -> Iterator[None]:
        """While something is committed to the one that answers; its lease excludes others. Raises BusyError when it is
        not the one any more."""
        if self.live() != version:
            raise BusyError("the index was replaced meanwhile; read its cursor again")
        yield

    @contextmanager
    def promoting(self) -> Iterator[None]:
        """While nobody commits; waits for who does."""
        until = monotonic() + max(_WAIT_SECONDS, 2 * self._cluster.lease)
        while True:
            try:
                found = states.read(self._cluster, self._alias)
                held = found and states.write(self._cluster, found.state.taking(self._me, self._cluster.lease), found)
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
                    states.write(self._cluster, held.state.released(), held)

    @contextmanager
    def rebuilding(self) -> Iterator[Version]:
        """A name for another one, which is removed in the end if it does not answer. Raises BusyError while another
        process builds one."""
        self._hold(0, 0)
        try:
            self._sweep()
            yield Version(self._cluster, f"{self._alias}.{uuid4().hex[:8]}")
        finally:
            self._sweep()
            self._drop()

    def report_progress(self, done: int, of: int) -> None:
        """Say how far a rebuild has come; renews its lease."""
        self._hold(done, of)

    def progress(self) -> Progress | None:
        """How far the process has come that rebuilds; None where none does, or none has said."""
        lease = self._read_lease()
        if lease is None or lease["until"] < time() or not lease["of"]:
            return None
        return Progress(lease["done"], lease["of"])

    def promote(self, version: Version) -> None:
        """Let this one answer from now on. Only while `promoting`."""
        former = self.live().name
        actions = [
            {"remove": {"index": former, "alias": self._alias, "must_exist": False}},
            {"add": {"index": version.name, "alias": self._alias}},
        ]
        self._cluster.request("POST", "/_aliases", {"actions": actions})
        self._hold(0, 0)

    def cleanup(self) -> None:
        """Remove what a killed process was building, unless another one is building."""
        with suppress(BusyError):
            self._hold(0, 0)
            self._sweep()
            self._drop()

    # -- the lease of who rebuilds

    def _read_lease(self) -> Json | None:
        try:
            found: Json = self._cluster.request("GET", f"/{self._alias}/_doc/rebuild")["_source"]["state"]
        except NotFoundError:
            return None
        return found

    def _hold(self, done: int, of: int) -> None:
        """Take or renew the lease. Raises BusyError while another process holds it."""
        condition: Json = {"op_type": "create"}
        with suppress(NotFoundError):
            found = self._cluster.request("GET", f"/{self._alias}/_doc/rebuild")
            lease = found["_source"]["state"]
            if lease["by"] != self._me and lease["until"] > time():
                raise BusyError(f"another process builds the index {self._cluster.shown}")
            condition = {"if_seq_no": found["_seq_no"], "if_primary_term": found["_primary_term"]}
        index = self.live().name
        state = {"by": self._me, "until": time() + _LEASE_SECONDS, "done": done, "of": of}
        self._cluster.request("PUT", f"/{index}/_doc/rebuild", {"state": state}, **condition)

    def _drop(self) -> None:
        with suppress(NotFoundError):
            self._cluster.request("DELETE", f"/{self._alias}/_doc/rebuild")

    def _sweep(self) -> None:
        """Remove all versions but the one that answers, after searches of the former one have ended."""
        live = self.live().name
        found = self._cluster.request("GET", f"/{self._alias}.*", expand_wildcards="all")
        others = sorted(found.keys() - {live})
        if others:
            sleep(SEARCHING_SECONDS)
        for name in others:
            with suppress(NotFoundError):
                self._cluster.request("DELETE", f"/{name}")
