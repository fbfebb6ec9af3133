"""The contract of an index in a cluster: leases instead of locks, aliases instead of folders, and every way in which a
server fails."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from indexer.masking import masked
from overlay.engines import BusyError, EngineError, IndexPosition, UnavailableError, UnknownEngineError
from overlay.engines.opensearch import cluster as clusters
from overlay.engines.opensearch import state as states
from overlay.engines.opensearch import term_counts, versions
from overlay.engines.opensearch.mapping import LAYOUT
from overlay.projection.search_index import SearchIndex
from tests.contracts.listed import EPOCH, count, listing, matching_ids, put
from tests.opensearch_server import Node
from tests.ports import free_port
from tests.waiting import PATIENCE

pytestmark = pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")


@pytest.fixture
def index(opensearch_url: str) -> Iterator[SearchIndex]:
    """An index of two listings."""
    with closing(SearchIndex(opensearch_url)) as opened:
        put(opened, listing("1", "alpha"), listing("2", "alpha"))
        yield opened


@pytest.fixture
def other(index: SearchIndex, opensearch_url: str) -> Iterator[SearchIndex]:
    """The index as another machine sees it."""
    with closing(SearchIndex(opensearch_url)) as opened:
        yield opened


def request(node: Node, method: str, path: str, body: Any = None) -> Any:
    """The answer of the server to a request."""
    with closing(http.client.HTTPConnection("127.0.0.1", node.port, timeout=PATIENCE)) as connection:
        connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())


def name_of(url: str) -> str:
    """The alias of an index."""
    return f"{url.partition('?')[0].rpartition('/')[2]}-{LAYOUT}"


# -- leases and versions


def test_a_writer_that_was_overtaken_loses_and_nothing_of_it_is_seen(
    index: SearchIndex, other: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It paused for longer than its lease, after its documents were written and before it committed."""
    refresh = clusters.Cluster.refresh

    def paused(self: clusters.Cluster, name: str) -> None:
        monkeypatch.setattr(clusters.Cluster, "refresh", refresh)
        time.sleep(2.1)
        put(other, listing("1", "omega"), listing("3", "alpha"), seq=2)
        refresh(self, name)

    monkeypatch.setattr(clusters.Cluster, "refresh", paused)
    with pytest.raises(BusyError):
        put(index, listing("2", "zeta"), listing("4", "alpha zeta"), seq=2)
    for item in (index, other):
        assert (matching_ids(item, "alpha"), matching_ids(item, "omega"), matching_ids(item, "zeta")) == (
            {"2", "3"},
            {"1"},
            set(),
        )
        assert (count(item), item.position()) == (3, IndexPosition(EPOCH, 2))
        assert item.terms().frequency("zeta") == 0
    put(index, listing("2", "zeta"), seq=3)
    assert (matching_ids(other, "zeta"), count(other)) == ({"2"}, 3)


def test_a_bulk_request_that_fails_in_part_leaves_the_index_position(
    index: SearchIndex, other: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = clusters.OpenSearch.bulk

    def partly(self: clusters.OpenSearch, **request: Any) -> Any:
        answer = real(self, **request)
        if "gamma" in request["body"]:
            answer["items"][-1]["index"] = {"status": 503, "error": {"type": "unavailable_shards", "reason": "late"}}
        return answer

    monkeypatch.setattr(clusters.OpenSearch, "bulk", partly)
    with pytest.raises(UnavailableError, match="503"):
        put(index, listing("1", "gamma"), listing("3", "gamma"), seq=2)
    monkeypatch.undo()
    for item in (index, other):
        assert (matching_ids(item, "alpha"), matching_ids(item, "gamma"), item.position()) == (
            {"1", "2"},
            set(),
            IndexPosition(EPOCH, 1),
        )
    put(other, listing("1", "gamma"), listing("3", "gamma"), seq=2)
    assert (matching_ids(index, "gamma"), matching_ids(index, "alpha"), count(index)) == ({"1", "3"}, {"2"}, 3)


def test_a_rebuilt_version_answers_everywhere_at_one_stroke(
    index: SearchIndex, other: SearchIndex, opensearch: Node, opensearch_url: str
) -> None:
    with index.rebuilding() as fresh:
        put(fresh, listing("3", "alpha"))
        index.report_progress(1, 2)
        assert other.progress() == (1, 2)
        with pytest.raises(BusyError, match="another process rebuilds"):
            other.rebuilding().__enter__()
        other.cleanup()
        put(other, listing("5", "alpha"), seq=2)
        assert matching_ids(index, "alpha") == {"1", "2", "5"}
        assert not index.promote(fresh), "the new one has read less"
        put(fresh, listing("5", "alpha"), seq=2)
        assert index.promote(fresh)
        for item in (index, other):
            assert (matching_ids(item, "alpha"), item.position(), item.get("1")) == (
                {"3", "5"},
                IndexPosition(EPOCH, 2),
                None,
            )
    assert (other.progress(), len(request(opensearch, "GET", f"/{name_of(opensearch_url)}*"))) == (None, 1)
    put(index, listing("6", "alpha"), seq=3)
    assert matching_ids(other, "alpha") == {"3", "5", "6"}


def test_what_a_killed_rebuild_left_is_removed_when_its_lease_ends(
    index: SearchIndex, other: SearchIndex, opensearch: Node, opensearch_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "_LEASE_SECONDS", 1.0)
    put(index.rebuilding().__enter__(), listing("3", "alpha"))
    time.sleep(1.1)
    other.cleanup()
    assert len(request(opensearch, "GET", f"/{name_of(opensearch_url)}*")) == 1
    assert matching_ids(index, "alpha") == {"1", "2"}


def test_documents_that_no_search_sees_are_deleted(
    index: SearchIndex, opensearch: Node, opensearch_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("overlay.engines.opensearch._GRACE", 0.0)
    for seq in range(2, 12):
        put(index, listing("1", f"alpha word{seq}"), listing("2", "alpha"), seq=seq)
    index.replace([], [], IndexPosition(EPOCH, 12))
    request(opensearch, "POST", f"/{name_of(opensearch_url)}/_refresh")
    held = {"query": {"exists": {"field": "added"}}}
    assert request(opensearch, "POST", f"/{name_of(opensearch_url)}/_count", held)["count"] <= 6
    assert (matching_ids(index, "alpha"), matching_ids(index, "word11"), count(index)) == ({"1", "2"}, {"1"}, 2)


def counts(engine: SearchIndex) -> list[dict[str, int]]:
    """How many listings hold each word and each term."""
    held = engine.terms().counts
    return [{word: n for word, n in of.items() if n} for of in (held.surfaces, held.terms)]


def test_words_are_the_same_after_their_base_was_rewritten(
    index: SearchIndex, other: SearchIndex, opensearch_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(term_counts, "_LEAST", 10)
    monkeypatch.setattr(term_counts, "PART", 3)
    for seq in range(2, 9):
        put(index, *(listing(f"{number}", f"alpha word{seq} more{number}") for number in range(seq)), seq=seq)
        assert counts(other) == counts(index)
    with closing(SearchIndex(opensearch_url)) as later:
        assert counts(later) == counts(index)
        assert later.terms().listings == index.terms().listings == 8
        assert (later.terms().frequency("word8"), later.terms().frequency("word7")) == (8, 0)


def test_an_index_that_somebody_deletes_wants_a_rebuild(
    index: SearchIndex, other: SearchIndex, opensearch: Node, opensearch_url: str
) -> None:
    request(opensearch, "DELETE", f"/{name_of(opensearch_url)}.first")
    time.sleep(states.RECENT_SECONDS)  # until then a reader may find that it is unavailable
    assert (other.position(), matching_ids(other, "alpha"), other.get("1")) == (None, set(), None)
    put(index, listing("7", "alpha"), seq=5)
    assert (matching_ids(other, "alpha"), other.position()) == ({"7"}, IndexPosition(EPOCH, 5))


def test_an_index_that_a_late_write_made_is_replaced_by_one_with_our_mapping(
    index: SearchIndex, other: SearchIndex, opensearch: Node, opensearch_url: str
) -> None:
    """OpenSearch makes an index of any name that is written to, with a mapping by what the document holds."""
    name = name_of(opensearch_url)
    request(opensearch, "DELETE", f"/{name}.first")
    request(opensearch, "PUT", f"/{name}.first/_doc/rebuild", {"state": {"by": "x", "until": 1.0, "done": 0, "of": 0}})
    with other.rebuilding() as fresh:
        other.report_progress(1, 2)
        put(fresh, listing("3", "alpha"))
        assert other.promote(fresh)
    for item in (index, other):
        assert (matching_ids(item, "alpha"), item.position()) == ({"3"}, IndexPosition(EPOCH, 1))
    (held,) = request(opensearch, "GET", f"/{name}").values()
    assert held["mappings"]["_meta"] == {"layout": LAYOUT}


def test_an_index_without_its_alias_has_it_again(
    index: SearchIndex, other: SearchIndex, opensearch: Node, opensearch_url: str
) -> None:
    name = name_of(opensearch_url)
    request(opensearch, "DELETE", f"/{name}.first/_alias/{name}")
    put(index, listing("7", "alpha"), seq=5)
    with other.rebuilding() as fresh:
        other.report_progress(1, 2)
        put(fresh, listing("3", "alpha"), seq=5)
        assert other.promote(fresh)
    assert matching_ids(index, "alpha") == {"3"}
    assert len(request(opensearch, "GET", f"/{name}*")) == 1


def test_a_reader_waits_for_one_answer_and_then_for_none_until_the_cluster_answers(
    index: SearchIndex, opensearch: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opensearch.hanging():
        began = time.monotonic()
        with pytest.raises(UnavailableError, match="does not answer"):
            index.position()
        assert time.monotonic() - began < 2 * clusters.READ_SECONDS
        until_true(lambda: time_of(index) < 0.5)
        assert index.get("1") is None
    until_true(lambda: time_of(index) == 0.0)
    assert matching_ids(index, "alpha") == {"1", "2"}


def time_of(index: SearchIndex) -> float:
    """How many seconds a reader was kept waiting for nothing; 0 for an answer."""
    began = time.monotonic()
    try:
        index.position()
    except UnavailableError:
        return time.monotonic() - began
    return 0.0


def until_true(holds: Callable[[], bool]) -> None:
    """Wait for it."""
    limit = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_an_index_of_another_program_is_not_touched(opensearch: Node, opensearch_url: str) -> None:
    request(opensearch, "PUT", f"/{name_of(opensearch_url)}/_doc/state", {"mine": 1})
    with pytest.raises(EngineError, match="of another program"):
        SearchIndex(opensearch_url)


# -- servers that fail


def test_a_read_only_index_answers_and_says_why_it_takes_nothing(
    index: SearchIndex, opensearch: Node, opensearch_url: str
) -> None:
    path = f"/{name_of(opensearch_url)}/_settings"
    request(opensearch, "PUT", path, {"index.blocks.write": True})
    with pytest.raises(UnavailableError, match="read-only"):
        put(index, listing("3", "alpha"), seq=2)
    assert matching_ids(index, "alpha") == {"1", "2"}
    request(opensearch, "PUT", path, {"index.blocks.write": False})
    put(index, listing("3", "alpha"), seq=2)
    assert matching_ids(index, "alpha") == {"1", "2", "3"}


@contextmanager
def wrong_server(status: int, body: Any) -> Iterator[str]:
    """The address of a server that answers everything alike, and the requests that it received."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            message = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(message)))
            self.end_headers()
            self.wfile.write(message)

        do_POST = do_PUT = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as port:
        yield f"127.0.0.1:{port}"


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[int]:
    """Serve in a thread; the port."""
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


ELASTIC = {"version": {"number": "8.1.0", "build_flavor": "default"}}


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (200, ELASTIC, EngineError, "no OpenSearch 8.1.0: OpenSearch 2 or 3 is needed"),
        (200, {"version": {"number": "1.3.0", "distribution": "opensearch"}}, EngineError, "opensearch 1.3.0"),
        (401, {"error": "Unauthorized"}, EngineError, "refuses these credentials"),
        (429, {"error": {"type": "rejected", "reason": "queue is full"}, "status": 429}, UnavailableError, "429"),
        (503, {"error": {"type": "cluster_manager_not_discovered", "reason": "x"}}, UnavailableError, "503"),
    ],
)
def test_servers_that_are_of_no_use_are_named(
    status: int, body: Any, kind: type[EngineError], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "RETRIES", 0)
    with wrong_server(status, body) as address, pytest.raises(kind, match=words) as caught:
        SearchIndex(f"opensearch:http://user:hidden@{address}/index")
    assert isinstance(caught.value, UnavailableError) == (kind is UnavailableError)
    assert "hidden" not in str(caught.value)


def test_a_server_that_is_away_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "RETRIES", 0)
    with pytest.raises(UnavailableError, match="does not answer") as caught:
        SearchIndex(f"opensearch:http://user:hidden@127.0.0.1:{free_port()}/index")
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    "location",
    ["", "host/x", "ftp://host/x", "http://host/", "http://host/Upper", "http://host/a/b", "http://host/x?shards=0",
     "http://host/x?lease=nan", "http://host/x?lease=0", "http://host/x?shards=many", "http://host/x?other=1",
     "http://host:port/x", "http:///x", "https://h/x?ca=/none"],
)  # fmt: skip
def test_urls_that_name_no_index_are_refused(location: str) -> None:
    with pytest.raises(UnknownEngineError, match="names no index"):
        SearchIndex(f"opensearch:{location}")


def test_passwords_in_urls_are_masked() -> None:
    url = "opensearch:https://user:p%40ss@a.example:9200,b.example:9200/index?shards=3"
    assert masked(url) == "opensearch:https://user:***@a.example:9200,b.example:9200/index?shards=3"


# -- TLS


@contextmanager
def tls_proxy(node: Node, authority: trustme.CA) -> Iterator[tuple[int, list[str | None]]]:
    """A TLS server for `localhost` before a node: its port, and the credentials that were sent."""
    sent: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            sent.append(self.headers["Authorization"])
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with closing(http.client.HTTPConnection("127.0.0.1", node.port, timeout=PATIENCE)) as connection:
                kind = {"Content-Type": self.headers.get("Content-Type", "application/json")}
                connection.request(self.command, self.path, body, kind)
                answer = connection.getresponse()
                parsed = answer.read()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.send_header("Content-Length", str(len(parsed)))
            self.end_headers()
            self.wfile.write(parsed)

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with serving(server) as port:
        yield port, sent


def test_certificates_are_verified_and_credentials_sent(
    opensearch: Node, opensearch_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    for name, item in (("ours", authority), ("strange", stranger)):
        item.cert_pem.write_to_path(str(tmp_path / name))
    name = opensearch_url.partition("?")[0].rpartition("/")[2]
    with tls_proxy(opensearch, authority) as (port, sent):
        url = f"opensearch:https://user:p%40ss@localhost:{port}/{name}?replicas=0&ca={tmp_path}"
        with closing(SearchIndex(f"{url}/ours")) as index:
            put(index, listing("1", "alpha"))
            assert matching_ids(index, "alpha") == {"1"}
        assert set(sent) == {"Basic dXNlcjpwQHNz"}
        sent.clear()
        monkeypatch.setattr(clusters, "RETRIES", 0)
        for refused in (f"{url}/strange", url.partition("&ca=")[0], f"{url}/ours".replace("localhost", "127.0.0.1")):
            with pytest.raises(UnavailableError, match="certificate verify failed"):
                SearchIndex(refused)
        assert not sent


def test_state_of_a_damaged_kind_is_refused(index: SearchIndex, opensearch: Node, opensearch_url: str) -> None:
    body = {"state": {"epoch": "e", "unknown": 1}}
    request(opensearch, "PUT", f"/{name_of(opensearch_url)}/_doc/state", body)
    with pytest.raises(EngineError, match="of another program"):
        index.position()
    assert states.OpenSearchCommitState().position is None
