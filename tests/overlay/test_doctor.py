"""`a2b doctor` and `a2b config`: each finding by its facts, and the commands on a running program."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from indexer.settings import Settings, SettingsError
from indexer.store import connect
from indexer.store.backup import BackupRecord, last_backup, record_backup
from overlay.app import findings
from overlay.app.findings import GIB, OperatorFinding
from tests.chainkit import ChainKit
from tests.fakes import MemoryChain
from tests.nodes import Node
from tests.overlay.test_cli import Run, alone, index, run
from tests.ports import free_port
from tests.running import SAMPLE, Running, a2b_here

__all__ = ["alone", "run"]

NOW = 1_800_000_000.0
NODE = "bsv=http://user:secret@127.0.0.1:1"


def codes(iterated: Iterable[OperatorFinding]) -> list[str]:
    """The codes of findings, each of which says what to do."""
    results = list(iterated)
    assert all(finding.advice and finding.text for finding in results)
    return [finding.code for finding in results]


def of_settings(**flags: str) -> list[str]:
    return codes(findings.of_settings(Settings.load(flags), flags))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, []),
        ({"relay_address": "BSV:1x"}, ["setting-unused"]),
        ({"relay_address": "BSV:1x", "relay": "on"}, []),
        ({"rates_max_age": "60"}, ["setting-unused"]),
        ({"rates": "BSV=whatsonchain:", "rates_every": "600", "rates_max_age": "60"}, ["rates-too-rare"]),
        ({"gasp_peers": "https://a.example", "systems": "mcp"}, ["setting-unused"]),
        ({"gasp_peers": "https://a.example", "systems": "bsv_overlay"}, []),
        ({"public_url": "https://a.example"}, ["no-trusted-proxy"]),
        ({"public_url": "https://a.example", "trusted_proxies": "127.0.0.1"}, []),
        ({"host": "192.0.2.1"}, ["metrics-public"]),
        ({"host": "192.0.2.1", "metrics": ":9464"}, []),
        ({"junglebus_token": "x", "chains": NODE}, ["setting-unused"]),
        ({"junglebus_token": "x", "chains": "bsv=junglebus:"}, []),
        ({"submit_broadcast": "on", "chains": "bsv=junglebus:"}, ["setting-needs-node"]),
        ({"submit_broadcast": "on", "chains": NODE}, []),
    ],
)
def test_settings_that_contradict_each_other(flags: dict[str, str], expected: list[str]) -> None:
    assert of_settings(**flags) == expected


def test_a_disk_has_room_for_a_rebuild(tmp_path: Path) -> None:
    assert codes(findings.of_disk(tmp_path, GIB, 0)) == []
    assert codes(findings.of_disk(tmp_path, GIB - 1, 0)) == ["disk-full"]
    assert codes(findings.of_disk(tmp_path, 2 * GIB, 3 * GIB)) == ["disk-full"]


def test_what_others_may_read(tmp_path: Path) -> None:
    (tmp_path / "key").touch()
    modes = {tmp_path: 0o40700, tmp_path / "key": 0o100600}
    assert codes(findings.of_modes(modes)) == []
    open_modes = {tmp_path: 0o40750, tmp_path / "key": 0o100604}
    advice = [finding.advice for finding in findings.of_modes(open_modes)]
    assert advice == [f"chmod 700 {tmp_path}", f"chmod 600 {tmp_path / 'key'}"]


def test_clocks_that_differ() -> None:
    assert codes(findings.of_clock(NOW, NOW + 9, {"bsv": int(NOW) + 7_000})) == []
    assert codes(findings.of_clock(NOW, NOW - 11, {})) == ["clock"]
    assert codes(findings.of_clock(NOW, NOW, {"bsv": int(NOW) + 7_201, "btc": 0})) == ["clock"]


def test_a_backup_that_is_missing_or_old() -> None:
    assert codes(findings.of_backup(None, NOW)) == ["backup-missing"]
    assert codes(findings.of_backup(BackupRecord(int(NOW) - 4 * 86_400, 5), NOW)) == ["backup-old"]
    assert codes(findings.of_backup(BackupRecord(int(NOW) - 2 * 86_400, 5), NOW)) == []


def status(**chain: Any) -> dict[str, Any]:
    usual = {"name": "bsv", "chain": "bsv:main", "network": "main", "state": "following", "lastBlockAt": None}
    return {"chains": [usual | chain], "index": {"engine": "native", "behind": 0}}


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        ({}, []),
        ({"state": "catching-up"}, []),
        ({"state": "unreachable", "error": "no answer"}, ["chain-unreachable"]),
        ({"state": "stopped", "error": "another network"}, ["chain-stopped"]),
        ({"state": "silent"}, ["follower-silent"]),
        ({"state": "stored"}, ["chain-not-followed"]),
        ({"error": "the log says why"}, ["chain-fails"]),
        ({"lastBlockAt": "2027-01-15T08:00:00Z"}, []),
        ({"lastBlockAt": "2027-01-15T04:59:59Z"}, ["no-block"]),
        ({"lastBlockAt": "2027-01-15T04:59:59Z", "network": "regtest"}, []),
        ({"lastBlockAt": "2027-01-15T07:29:00Z", "chain": "eip155:1"}, ["no-block"]),
        ({"sourcesDisagree": "at block 5"}, ["sources-disagree"]),
        ({"note": "read by other rules: run a2b index --again bsv"}, ["old-rules"]),
        ({"note": "selected transactions alone"}, []),
        ({"name": "other"}, ["chain-not-configured", "chain-never-followed"]),
    ],
)
def test_chains_that_are_not_followed(chain: dict[str, Any], expected: list[str]) -> None:
    assert codes(findings.of_status(status(**chain), ["bsv"], NOW)) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"index": None}, ["index-missing"]),
        ({"index": {"behind": 5_000, "outdated": True}}, ["index-outdated"]),
        ({"index": {"behind": 5_000}}, ["index-behind"]),
        ({"index": {"behind": 0, "damage": "texts"}}, ["index-damaged"]),
        ({"index": {"behind": 0, "error": "no space left"}}, ["index-not-written"]),
        ({"integrity": {"state": "failed", "detail": "row 5"}}, ["database-damaged"]),
        ({"integrity": {"state": "ok", "detail": ""}}, []),
        ({"failed": {"count": 2, "first": []}}, ["left-out"]),
    ],
)
def test_index_and_database(members: dict[str, Any], expected: list[str]) -> None:
    assert codes(findings.of_status(status() | members, ["bsv"], NOW)) == expected


def test_options_of_a_node() -> None:
    assert codes(findings.of_node("bsv", "", 0, 100)) == []
    assert codes(findings.of_node("bsv", "the node has no transaction index", 0, 100)) == ["node-txindex"]
    assert codes(findings.of_node("bsv", "", 101, 100)) == ["node-pruned"]
    assert codes(findings.of_node("bsv", "", 100, 100)) == []


def test_a_finding_has_three_members_for_programs() -> None:
    assert sorted(OperatorFinding("a", "b", "c", is_unreachable=True).as_json()) == ["advice", "code", "text"]


# -- commands


def doctor(folder: Path, *arguments: str, code: int) -> list[str]:
    """The codes that it finds in a data folder."""
    done = a2b_here("doctor", "--json", "--data", str(folder / "data"), *arguments, cwd=folder)
    assert done.returncode == code, done.stdout + done.stderr
    return [finding["code"] for finding in json.loads(done.stdout)["findings"]]


def test_a_program_that_runs_well_is_healthy_and_its_backup_is_seen(tmp_path: Path) -> None:
    data, port = tmp_path / "data", str(free_port())
    use = ("--chains", SAMPLE, "--port", port)
    with Running("up", *use, "--data", str(tmp_path / "data"), cwd=tmp_path) as running:
        running.until_ready()
        private = [data, data / "index", *data.glob("a2b.db*[!k]"), *(data / "index").glob("native*/*")]
        assert len(private) > 6
        assert not [path for path in private if path.stat().st_mode & 0o077], "a2b.db and index are of this user alone"
        assert doctor(tmp_path, *use, code=0) == []
        assert doctor(tmp_path, "--port", port, code=0) == [], "the packaged chain needs not be configured"
        done = a2b_here("doctor", "--data", str(tmp_path / "data"), *use, cwd=tmp_path)
        assert done.stdout == "nothing to do\n"
        done = a2b_here("backup", "b.gz", "--data", str(tmp_path / "data"), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        done = a2b_here("doctor", "--json", "--data", str(tmp_path / "data"), *use, cwd=tmp_path)
        assert json.loads(done.stdout)["lastBackup"]["size"] == (tmp_path / "b.gz").stat().st_size
        done = a2b_here("doctor", "--data", str(tmp_path / "data"), *use, cwd=tmp_path)
        assert done.stdout.startswith("the last backup: 20")
        (tmp_path / "data").chmod(0o755)
        assert doctor(tmp_path, *use, code=1) == ["readable-by-others"]
        (tmp_path / "data").chmod(0o700)
        other = ("--chains", f"{SAMPLE} {NODE}", "--port", port)
        assert doctor(tmp_path, *other, code=3) == ["chain-never-followed", "source-unreachable"]


async def test_options_that_a_node_lacks_are_findings(tmp_path: Path) -> None:
    data = await asyncio.to_thread(index, tmp_path / "data")
    data.chmod(0o700)
    async with Node(MemoryChain(*ChainKit(funds=1).blocks)) as node:
        node.txindex, node.pruned_below = False, 5
        use = ("--chains", f"{SAMPLE} bsv={node.url}", "--port", "0")
        results = await asyncio.to_thread(partial(doctor, tmp_path, *use, code=1))
        assert {"chain-never-followed", "node-txindex", "node-pruned"} <= set(results)
        node.login = ("user", "another")
        use = ("--chains", f"{SAMPLE} bsv=http://user:wrong@127.0.0.1:{node.port}", "--port", "0")
        assert "source-unreachable" in await asyncio.to_thread(partial(doctor, tmp_path, *use, code=3))


def test_a_port_of_another_program_is_named(tmp_path: Path) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

    with closing(socket.create_server(("127.0.0.1", 0))) as taken, HTTPServer(("127.0.0.1", 0), Other) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        metrics = f"127.0.0.1:{server.server_port}"
        port = str(taken.getsockname()[1])
        taken.close()
        assert doctor(tmp_path, "--port", port, "--metrics", metrics, code=3) == ["port-taken", "database-missing"]
        server.shutdown()


def test_wrong_settings_are_a_finding(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, words in (
        ("A2B_DOORS", "A2B_DOORS is a setting no longer: it is A2B_SYSTEMS now"),
        ("A2B_HOTS", "did you mean A2B_HOST?"),
    ):
        with monkeypatch.context() as patched:
            patched.setenv(variable, "x")
            done = run("doctor")
            assert (done.code, done.out.startswith("settings: "), words in done.out) == (1, True, True)
            with pytest.raises(SettingsError):
                Settings.effective({}, {variable: "x"})


def test_a_database_of_another_version_is_a_finding(run: Run, tmp_path: Path) -> None:
    data = index(tmp_path / "data")
    data.chmod(0o700)
    engine = connect(f"sqlite:///{data}/a2b.db")
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE meta SET value = '99' WHERE key = 'schema'")
    engine.dispose()
    done = run("doctor", "--json", "--data", data, "--port", "0")
    assert (done.code, [finding["code"] for finding in done.json["findings"]]) == (1, ["database"])


def test_the_last_backup_replaces_the_one_before(tmp_path: Path) -> None:
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    assert last_backup(engine) is None
    for record in (BackupRecord(5, 6), BackupRecord(7, 8)):
        record_backup(engine, record)
        assert last_backup(engine) == record
    engine.dispose()


def test_config_names_the_origin_of_every_setting(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a2b.toml"
    file.write_text('title = "Ours"\nport = 9000\nhost = "::1"\n')
    monkeypatch.setenv("A2B_CHAINS", "bsv=http://user:secret@10.0.0.2:8332")
    monkeypatch.setenv("A2B_HOST", "127.0.0.2")
    monkeypatch.setenv("A2B_ARC_CALLBACK_TOKEN", "s" * 20)
    done = run("config", "--json", "--config", file, "--port", "9001", "--data", "d")
    assert done.code == 0
    by_name = {row["name"]: (row["value"], row["origin"]) for row in done.json}
    expected = {
        "title": ("Ours", "file"), "port": ("9001", "flag"), "host": ("127.0.0.2", "environment"),
        "chains": ("bsv=http://user:***@10.0.0.2:8332", "environment"), "arc_callback_token": ("***", "environment"),
        "data": ("d", "flag"), "database": ("sqlite:///d/a2b.db", "default"), "search": ("native:d/index", "default"),
        "rates_every": ("60", "default"), "rates": ("", "default"),
    }  # fmt: skip
    assert {name: by_name[name] for name in expected} == expected
    text = run("config", "--config", file).out
    assert "file        A2B_TITLE=Ours\n" in text
    assert "secret" not in text
    monkeypatch.setenv("A2B_PORT", "x")
    assert run("config").code == 2
