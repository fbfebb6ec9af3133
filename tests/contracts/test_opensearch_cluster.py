"""A cluster of three of which one is killed: nothing is lost, nothing doubled, and a while of 503 at most."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.request import urlopen

from overlay.engines import BusyError, IndexPosition, UnavailableError
from overlay.projection.search_index import SearchIndex
from tests.contracts.listed import EPOCH, ask, count, listing, matching_ids, put
from tests.opensearch_server import Distribution, Node
from tests.ports import free_port
from tests.waiting import PATIENCE

LISTINGS = 40
AFTER = 6
"""Commits after the kill."""


@contextmanager
def three(programs: Distribution) -> Iterator[list[Node]]:
    """A cluster of three nodes."""
    ports = [(free_port(), free_port()) for _ in range(3)]
    positions = ",".join(f"127.0.0.1:{transport}" for _, transport in ports)
    settings = (
        f"discovery.seed_hosts={positions}",
        f"cluster.initial_cluster_manager_nodes={positions}",
        "cluster.name=three",
    )
    nodes = [programs.node(*settings, heap=384, ports=port) for port in ports]
    try:
        for node in nodes:
            node.wait("/_cluster/health?wait_for_nodes=3&timeout=5s")
        yield nodes
    finally:
        for node in nodes:
            node.kill()


def test_a_node_is_killed_while_writes_and_searches_go_on(opensearch_programs: Distribution) -> None:
    with three(opensearch_programs) as nodes:
        hosts = ",".join(node.address for node in nodes)
        url = f"opensearch:http://{hosts}/killed?shards=3&replicas=1&lease=2"
        with closing(SearchIndex(url)) as writer, closing(SearchIndex(url)) as reader:
            put(writer, *(listing(str(index), "alpha word0") for index in range(LISTINGS)))
            nodes[0].wait("/_cluster/health?wait_for_status=green&timeout=10s")
            stop = threading.Event()
            looks: list[int] = []
            errors: list[BaseException] = []
            thread = threading.Thread(target=look, args=(reader, stop, looks, errors))
            thread.start()
            try:
                carry(writer, 3)
                manager(nodes).kill()
                before = len(looks)
                carry(writer, 3 + AFTER)
                until = time.monotonic() + PATIENCE
                while len(looks) < before + 3 and not errors and time.monotonic() < until:
                    time.sleep(0.05)
            finally:
                stop.set()
                thread.join()
            assert not errors
            assert len(looks) >= before + 3, "searches go on"
            seq = 3 + AFTER
            assert reader.position() == IndexPosition(EPOCH, seq)
            assert (count(reader), len(matching_ids(reader, "alpha"))) == (LISTINGS, LISTINGS)
            assert matching_ids(reader, f"word{seq}") == {str(index) for index in range(LISTINGS)}
            for counted in (reader.terms().counts.surfaces, reader.terms().counts.terms):
                assert (counted[f"word{seq}"], counted[f"word{seq - 1}"]) == (LISTINGS, 0)


def manager(nodes: list[Node]) -> Node:
    """The node that the others have elected."""
    with urlopen(f"http://{nodes[0].address}/_cluster/state/cluster_manager_node,nodes", timeout=30) as answer:
        state = json.loads(answer.read())
    address = state["nodes"][state["cluster_manager_node"]]["transport_address"]
    return next(node for node in nodes if address.endswith(f":{node.transport}"))


def carry(writer: SearchIndex, last: int) -> None:
    """Replace all listings with each commit, as a feed does: what failed is read from the position on again."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            position = writer.position()
            assert position is not None, "nothing is lost"
            if position.seq >= last:
                return
            seq = position.seq + 1
            put(writer, *(listing(str(index), f"alpha word{seq}") for index in range(LISTINGS)), seq=seq)
        except (UnavailableError, BusyError):
            assert time.monotonic() < until
            time.sleep(0.2)


def look(reader: SearchIndex, stop: threading.Event, looks: list[int], errors: list[BaseException]) -> None:
    """Search all the time: whole states, or a clear refusal."""
    while not stop.is_set():
        try:
            hits = ask(reader, "alpha", limit=100)
            assert hits.total == len({hit.id for hit in hits.hits}) == len(hits.hits) == LISTINGS
            looks.append(hits.total)
        except UnavailableError:
            time.sleep(0.1)
        except BaseException as error:
            errors.append(error)
            return
