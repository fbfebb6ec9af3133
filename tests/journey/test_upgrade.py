"""Data of version 0.2.0 is taken over: its database, its index, its backup, and its answers to a mirror.

`upgrade/0.2.0.tar.xz` was made by that version (`upgrade/make.py`).
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from sqlalchemy import Engine, select

from indexer.state_hash import state_hash
from indexer.store import Store, connect
from indexer.store.schema import metadata
from overlay.systems.webhooks.store import subscriptions
from tests.indexer.store.test_backup import contents
from tests.running import Running, a2b
from tests.waiting import PATIENCE

ARCHIVE = Path(__file__).parent / "upgrade" / "0.2.0.tar.xz"

VOLATILE = {
    *("followers", "statistics"),  # what processes report, and counts
    *("changes", "chain_counts", "outbox_positions", "outbox_runs"),  # in what order things became known
    *("badges", "card_signatures", "logos", "motebit_endpoints", "motebit_hosts"),  # what hosts answer now
    *("ratings", "trust_edges"),  # when they were computed, and how often
    "pending",  # nothing is unconfirmed in block files, where rows of clients may be
}
"""Rebuilt tables of which the rows of two readings of one chain may differ."""


def extracted(folder: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A folder with what 0.2.0 left."""
    return extracted(tmp_path)


def chains(folder: Path) -> str:
    return f"demo=files:{folder}/blocks?chain=bsv&network=regtest"


def database(folder: Path, name: str) -> Engine:
    return connect(f"sqlite:///{folder}/{name}/a2b.db")


def restored(folder: Path) -> str:
    """The name of a data folder into which the backup was restored."""
    done = a2b("restore", "backup", "--data", "restored", cwd=folder)
    assert (done.returncode, done.stdout.startswith("restored 90 rows")) == (0, True), done.stderr
    return "restored"


def test_its_backup_restores_what_a_migration_brings(old: Path) -> None:
    done = a2b("migrate", "--data", "data", cwd=old)
    assert done.returncode == 0, done.stderr
    migrated, other = contents(database(old, "data")), contents(database(old, restored(old)))
    for row in migrated[subscriptions.name]:
        row["since_seq"] = 0  # the outbox of another database counts from the beginning
    migrated["checks"] = [row for row in migrated["checks"] if row["kind"] not in ("badge", "keys", "logo")]
    assert sum(map(len, migrated.values())) == 90
    empty = {name for name, rows in migrated.items() if not rows}
    assert empty <= {
        "rate_feeds", "observed_tools", "complaints", "hidden", "clients", "search_days", "missed_words",
    }  # fmt: skip
    assert other == migrated
    keys = [json.loads((old / name / "identity.json").read_bytes()) for name in ("data", "restored")]
    assert keys[0] == keys[1]


# -- answers


class Server(Running):
    """`a2b up` on one of the data folders."""

    def __init__(self, folder: Path, data: str) -> None:
        run_folder = folder / f"run-{data}"
        run_folder.mkdir()
        options = ("--chains", chains(folder), "--data", str(folder / data))
        settings = {"A2B_PUBLIC_URL": "https://registry.example", "A2B_PROBE": "off"}
        super().__init__("up", "--port", "0", *options, cwd=run_folder, **settings)

    def answer(self, path: str, body: Any = None) -> tuple[int, str | None, Any]:
        """Status, Retry-After and document."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "X-BSV-Topic": "tm_agent_registry"}
        try:
            with urlopen(Request(f"{self.url}{path}", data=data, headers=headers), timeout=PATIENCE) as answer:  # noqa: S310
                return answer.status, None, steady(read(answer.read()))
        except HTTPError as error:
            with error:
                return error.code, error.headers.get("Retry-After"), steady(read(error.read()))

    def until_indexed(self) -> None:
        self.until_ready()
        self.until(lambda: "ratings: 1 listings rated" in self.err)
        self.until(lambda: self._is_indexed(self.get("/v1/status")))

    def _is_indexed(self, status: dict[str, Any]) -> bool:
        index, hashed = status["index"], status["stateHash"].get("demo") or {}
        return hashed.get("height") == 10 and index["behind"] == 0 and not index.get("rebuilding")


def read(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")


MOMENTARY = {"asOf", "basisSha256", "checkedAt", "index", "lastFailure", "nextCursor", "requestId"}
"""Members that name a moment, or the epoch of the outbox."""


def steady(document: Any) -> Any:
    """A document without what depends on the moment."""
    if isinstance(document, dict):
        return {key: steady(value) for key, value in document.items() if key not in MOMENTARY}
    if isinstance(document, str):
        return re.sub(r"(rates are|again at) [0-9,TZ:-]+", r"\1 …", document)
    return [*map(steady, document)] if isinstance(document, list) else document


def questions(server: Server) -> Iterator[tuple[str, Any]]:
    """All that is compared: paths with bodies."""
    searches = ("", "q=echo", "q=eco", "q=clock&type=tool", "q=repeats&explain=true", "sort=price&priceCurrency=BSV")
    more = (
        "sort=rating",
        "facets=skillId,acceptedCurrency",
        "acceptedCurrency=USD",
        "interval=monthly",
        "status=burned",
    )
    for search in (*searches, *more, "domain=pointed.example", "q=pointed", "asOfHeight=7", "owner=x", "limit=2"):
        yield f"/v1/search?{search}", None
    for word in ("e", "ti", "po"):
        yield f"/v1/suggest?q={word}", None
    items = server.get("/v1/search?limit=100&status=live,burned,undecided")["items"]
    assert len(items) == 7
    for item in items:
        id_ = quote(item["id"], safe="")
        for part in ("", "/history", "/card", "/proof", "/evidence"):
            yield f"/v1/listings/{id_}{part}", None
        yield f"/v1/diagnose/{item['txid']}", None
        if item["type"] == "agent":
            yield f"/v1/quote?id={id_}&configId=p&currency=BSV", None
    for path in ("/v1/feeds/search.json?q=echo", "/v0.1/servers", "/discovery/resources", "/agents"):
        yield path, None
    for path in ("/api/v1/agents/discover", "/.well-known/ai-catalog.json", "/listTopicManagers"):
        yield path, None
    yield "/requestTopicAnchorTip", {}
    yield "/requestTopicAnchorRange", {"fromHeight": 0, "toHeight": 10}
    yield "/lookup", {"service": "ls_agent_registry", "query": {"q": "echo"}}


def test_every_answer_is_that_of_a_fresh_reading(old: Path) -> None:
    with Server(old, "data") as upgraded, Server(old, restored(old)) as fresh:
        early = [upgraded.answer("/v1/search?q=echo") for _ in range(3)]
        for server in (upgraded, fresh):
            server.until_indexed()
        expected = [(path, body, fresh.answer(path, body)) for path, body in questions(fresh)]
        assert {status for _, _, (status, _, _) in expected} == {200, 404}
        assert sum(status == 200 for _, _, (status, _, _) in expected) > 60
        differing = [path for path, body, answer in expected if upgraded.answer(path, body) != answer]
        assert differing == []
        for status, retry_after, document in early:
            is_refused = status == 503 and retry_after is not None
            assert is_refused or (status, document) == upgraded.answer("/v1/search?q=echo")[::2], (status, document)
        status, before = upgraded.get("/v1/status"), fresh.get("/v1/status")
        for name in ("listings", "pointers", "stateHash"):
            assert status[name] == before[name], name
        assert "index: new, filled from the first change on" in upgraded.err
        ids = {change["id"] for change in fresh.get("/v1/changes?limit=1000")["changes"]}
        feed = upgraded.get("/v1/changes?limit=1000")
        assert ids <= {change["id"] for change in feed["changes"]}
        assert [change["seq"] for change in feed["changes"]] == [*range(1, len(feed["changes"]) + 1)]
        assert (upgraded.stop()[0], fresh.stop()[0]) == (0, 0)
    one, other = database(old, "data"), database(old, "restored")
    rebuilt = [table for table in metadata.sorted_tables if table.info["rebuilt"] and table.name not in VOLATILE]
    assert len(rebuilt) > 8
    for table in rebuilt:
        assert rows(one, table) == rows(other, table), table.name


def rows(engine: Engine, table: Any) -> list[Any]:
    with engine.connect() as connection:
        return sorted(map(repr, connection.execute(select(table)).mappings()))


# -- a mirror


@pytest.fixture
def recorded(old: Path) -> Iterator[str]:
    """The URL of a server that repeats what one of 0.2.0 answered."""
    answers = {(one["path"], one["body"]): one for one in json.loads((old / "answers.json").read_text())}

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            stored = answers.get((self.path, body), {"status": 404, "answer": "{}"})
            self.send_response(stored["status"])
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(stored["answer"].encode())

        do_GET = do_POST = answer  # noqa: N815 - http.server has these names

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_server_of_it_can_be_mirrored(old: Path, recorded: str) -> None:
    done = a2b("migrate", "--data", "data", cwd=old)
    assert done.returncode == 0, done.stderr
    done = a2b("mirror", recorded, "--name", "demo", "--network", "regtest", "--data", "mirror", cwd=old)
    assert (done.returncode, "the anchor is the same" in done.stdout) == (0, True), done.stdout + done.stderr
    original, mirror = (Store(database(old, name)) for name in ("data", "mirror"))
    states = list(original.registrations.states("demo", 99))
    assert len(states) == 6
    assert list(mirror.registrations.states("demo", 99)) == states
    assert mirror.topic_anchors.between("demo", 0, 99) == original.topic_anchors.between("demo", 0, 99)
    assert state_hash(original, "demo", 10) is not None
