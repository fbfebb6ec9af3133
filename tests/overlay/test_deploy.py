"""The files of docs/deploy: each is read by the program that it is for, and names what this program has."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from overlay import cli
from overlay.api.services import AppServices
from overlay.installation import NAMES
from overlay.jobs import JobStatus, Role
from tests.conftest import ROOT, missing
from tests.overlay.conftest import Serve
from tests.overlay.fakes import changed, status
from tests.overlay.test_metrics import scrape
from tests.ports import free_port
from tests.running import Running
from tests.waiting import PATIENCE

DEPLOY = ROOT / "docs" / "deploy"
NOTICE = DEPLOY / "a2b-failed@.service"
SERVICES = sorted(path for path in DEPLOY.glob("*.service") if path != NOTICE)
DASHBOARD = json.loads((DEPLOY / "grafana.json").read_text())
RULES = [rule for group in yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]


def program(name: str) -> str:
    """A program that is installed."""
    path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    return path or missing(name)


def run(*command: str, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


class Site:
    """The name of the pages, its certificate, and a free port for TLS."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        certificate = authority.issue_cert("registry.example")
        certificate.cert_chain_pems[0].write_to_path(folder / "fullchain.pem")
        certificate.private_key_pem.write_to_path(folder / "privkey.pem")
        self.folder, self.port = folder, free_port()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        authority.configure_trust(self._context)

    def get(self, path: str, *, is_stream: bool = False, **headers: str) -> tuple[int, str]:
        """Status and body of an answer through the proxy; of a stream the first line."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        connection = http.client.HTTPConnection("registry.example")
        with plain, self._context.wrap_socket(plain, server_hostname="registry.example") as connection.sock:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request("GET", path, headers=names)
            with connection.getresponse() as response:
                return response.status, (response.readline() if is_stream else response.read()).decode()

    def nginx(self, upstream: int, other: int | None = None) -> list[str]:
        """A command that runs nginx with the site's file, which is changed in folder and ports only. Without an
        `other` server nothing listens at the second port."""
        text = (DEPLOY / "nginx.conf").read_text().replace("/etc/letsencrypt/live/registry.example", str(self.folder))
        text = re.sub(r"listen \[::\].*\n", "", text)  # there may be no IPv6
        text = text.replace("listen 80;", f"listen 127.0.0.1:{free_port()};")
        text = text.replace("listen 443 ", f"listen 127.0.0.1:{self.port} ").replace(
            "127.0.0.1:8080", f"127.0.0.1:{upstream}"
        )
        text = text.replace("127.0.0.1:8081", f"127.0.0.1:{other or free_port()}")
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        folders = "\n".join(f"{kind}_temp_path {self.folder}/{kind};" for kind in kinds)
        user = "user root;" if os.geteuid() == 0 else ""
        file = self.folder / "nginx.conf"
        file.write_text(
            f"daemon off; {user} pid {self.folder}/pid; error_log stderr; events {{}}\n"
            f"http {{ access_log off;\n{folders}\n{text}\n}}\n"
        )
        return [program("nginx"), "-p", str(self.folder), "-e", "stderr", "-c", str(file)]

    def caddy(self, upstream: int) -> list[str]:
        """The command that runs Caddy with this site and certificate."""
        text = (DEPLOY / "Caddyfile").read_text().replace("127.0.0.1:8080", f"127.0.0.1:{upstream}")
        certificate = f"tls {self.folder}/fullchain.pem {self.folder}/privkey.pem"
        text = text.replace("registry.example {", f"https://registry.example:{self.port} {{\n\t{certificate}")
        file = self.folder / "Caddyfile"
        file.write_text(f"{{\n\tadmin off\n\tauto_https off\n\tdefault_bind 127.0.0.1\n}}\n{text}")
        return [program("caddy"), "run", "--adapter", "caddyfile", "--config", str(file)]


@pytest.fixture
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that trusts a proxy on this machine, and answers 20 requests of a client a minute."""
    with Running(
        "up", "--port", "0", "--trusted-proxies", "127.0.0.1", "--limits", "read=20/60",
        cwd=tmp_path_factory.mktemp("upstream"),
    ) as running:  # fmt: skip
        assert running.url
        yield running


@pytest.mark.parametrize("proxy", ["nginx", "caddy"])
def test_a_proxy_with_its_file_serves_the_pages_by_tls(proxy: str, upstream: Running, tmp_path: Path) -> None:
    site, port = Site(tmp_path), int(upstream.url.rpartition(":")[2])
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(getattr(site, proxy)(port), cwd=tmp_path, env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            upstream.until(lambda: process.poll() is not None or answers(site))
            assert process.poll() is None, (tmp_path / "log").read_text()
            assert "<h1" in site.get("/docs")[1]
            assert '"https://registry.example/' in site.get("/.well-known/agent-card.json")[1], "by the public name"
            status, line = site.get("/v1/stream", is_stream=True)
            assert (status, bool(line)) == (200, True), "what begins is not held until it ends"
            statuses = [site.get("/v1/changes", X_Forwarded_For=f"203.0.113.{n}")[0] for n in range(30)]
            assert (statuses[0], statuses[-1]) == (200, 429), "a client that names other addresses is the same client"
        finally:
            process.terminate()


def test_no_request_is_lost_while_one_server_after_the_other_restarts(tmp_path: Path) -> None:
    for folder in ("first", "second", "nginx"):
        (tmp_path / folder).mkdir()
    ports, site, data = (free_port(), free_port()), Site(tmp_path / "nginx"), str(tmp_path / "data")

    def server(number: int) -> Running:
        command = ("up", "serve")[number]
        return Running(
            command, "--port", str(ports[number]), "--limits", "off", "--trusted-proxies", "127.0.0.1",
            cwd=tmp_path / ("first", "second")[number], A2B_DATA=data,
        )  # fmt: skip

    statuses: list[int] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            statuses.append(site.get("/v1/search?q=agent")[0])

    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(site.nginx(*ports), cwd=tmp_path, stdout=log, stderr=log) as process,
        ExitStack() as opened,
    ):
        opened.callback(process.terminate)
        running = [opened.enter_context(server(0))]
        running[0].until_ready()
        running.append(opened.enter_context(server(1)))
        running[1].until_ready()
        running[0].until(lambda: answers(site))
        askers = [threading.Thread(target=ask) for _ in range(3)]
        for asker in askers:
            asker.start()
        for number in (0, 1):
            running[number].until(partial(is_longer, statuses, len(statuses) + 20))
            assert running[number].stop()[0] == 0
            running[number] = opened.enter_context(server(number))
            running[number].until_ready()
        over.set()
        for asker in askers:
            asker.join(PATIENCE)
    assert set(statuses) == {200}


def is_longer(answered: list[int], count: int) -> bool:
    return len(answered) > count


def answers(site: Site) -> bool:
    try:
        return site.get("/healthz")[0] == 200
    except OSError:
        return False


def test_prometheus_takes_the_rules(tmp_path: Path) -> None:
    run(program("promtool"), "check", "rules", str(DEPLOY / "alerts.yaml"), cwd=tmp_path)


def test_prometheus_fires_the_alerts_of_what_is_degraded(tmp_path: Path) -> None:
    """Samples a minute apart, and what is expected to fire a minute or more after the fault."""
    labels = {"instance": "one", "job": "a2b"}
    state = 'a2b_chain_state{chain="live",state="%s",instance="one",job="a2b"}'
    cases = [
        ("A2bFollowerSilent", state % "silent", "0 0 1 1 1", {"chain": "live", "state": "silent"}),
        ("A2bChainStopped", state % "stopped", "0 0 1 1 1", {"chain": "live", "state": "stopped"}),
        ("A2bDatabaseDown", 'a2b_database_up{instance="one",job="a2b"}', "1 1 0 0 0", {}),
    ]
    tests = []
    for name, series, values, more in cases:
        (rule,) = (rule for rule in RULES if rule["alert"] == name)
        summary = rule["annotations"]["summary"]
        for label, value in (labels | more).items():
            summary = summary.replace(f"{{{{ $labels.{label} }}}}", value)
        fired = {"exp_labels": rule["labels"] | labels | more, "exp_annotations": {"summary": summary}}
        alerts = [
            {"eval_time": "1m", "alertname": name, "exp_alerts": []},
            {"eval_time": "4m", "alertname": name, "exp_alerts": [fired]},
        ]
        tests.append(
            {"interval": "1m", "input_series": [{"series": series, "values": values}], "alert_rule_test": alerts}
        )
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(DEPLOY / "alerts.yaml")], "tests": tests}))
    run(program("promtool"), "test", "rules", str(file), cwd=tmp_path)


def test_both_proxies_pass_on_one_address_and_no_buffer_holds_streams() -> None:
    nginx, caddy = (DEPLOY / "nginx.conf").read_text(), (DEPLOY / "Caddyfile").read_text()
    assert nginx.count("{") == nginx.count("}")
    directives = dict(re.findall(r"^\s+(proxy_\w+(?: X-\S+| Host| Connection)?) (.*);$", nginx, re.MULTILINE))
    assert directives["proxy_set_header X-Forwarded-For"] == "$remote_addr", "what the client sent is not passed on"
    assert (directives["proxy_buffering"], directives["proxy_http_version"]) == ("off", "1.1")
    assert "reverse_proxy 127.0.0.1:8080" in caddy
    assert re.findall("server (.*);", nginx)[:2] == ["127.0.0.1:8080 max_fails=0", "127.0.0.1:8081 max_fails=0"]
    assert directives["proxy_next_upstream"] == "error timeout http_503"


async def test_alerts_and_the_dashboard_watch_existing_metrics_and_labels(serve: Serve, services: AppServices) -> None:
    def answer() -> dict[str, Any]:
        now = status()
        row = now["chains"][0] | {
            "tip": 130,
            "lag": 5,
            "mempool": 12,
            "reorgs": 2,
            "peers": {"connected": 8, "networks": 7},
        }
        rates = {"source": "https://a.example", "at": "2026-01-01T00:00:00Z", "age": 5, "base": "USD", "feeds": []}
        return now | {"chains": [row], "index": {"engine": "fake", "seq": 7, "behind": 3}, "rates": rates}

    jobs = (JobStatus(name="rates", role=Role.SERVER, failures=2),)
    client = await serve(
        changed(
            services, status=answer, refused=lambda: {"bsv-regtest": 1}, jobs=lambda: jobs, searches=lambda _: {},
            named_clients=lambda: ["acme"],
        )
    )  # fmt: skip
    async with client.get("/v1/search?q=x") as response:
        await response.read()
    labels: dict[str, set[str]] = {"up": {"job", "instance"}}
    for name, pairs in await scrape(client):
        labels.setdefault(name, set()).update(dict(pairs))

    def check(title: str, expression: str) -> set[str]:
        """The labels of the metrics of an expression, which exist."""
        used = re.findall(r"\b(a2b_[a-z_]+|up)\b(?:\{([^}]*)\})?", expression)
        assert used, title
        for name, matchers in used:
            assert name in labels, f"{title} watches {name}"
            assert {one.partition("=")[0] for one in matchers.split(",") if one} <= labels[name], title
        return set[str]().union({"instance"}, *(labels[name] for name, _ in used))

    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            usable = check(panel["title"], target["expr"])
            grouped = re.findall(r"by \(([a-z, ]+)\)", target["expr"])
            legend = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
            assert {*legend, *(name for names in grouped for name in names.split(", "))} <= usable
    for rule in RULES:
        check(rule["alert"], rule["expr"])
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]


def test_the_dashboard_has_panels_side_by_side_from_a_source_that_grafana_asks_for() -> None:
    (variable,) = DASHBOARD["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", "prometheus")
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    fields: set[tuple[int, int]] = set()
    for panel in panels:
        x, y, width, height = (panel["gridPos"][name] for name in "xywh")
        assert x + width <= 24
        covered = {(column, row) for column in range(x, x + width) for row in range(y, y + height)}
        assert fields.isdisjoint(covered), panel["title"]
        fields |= covered
        assert panel["datasource"]["uid"] == f"${{{variable['name']}}}"
        references = [target["refId"] for target in panel["targets"]]
        assert references
        assert len(set(references)) == len(references)


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_units_share_a_user_and_a_folder_and_run_commands_that_exist(path: Path) -> None:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[method-assign,assignment]
    unit.read(path)
    service = unit["Service"]
    assert (service["User"], service["Group"], "DynamicUser" in service) == ("a2b", "a2b", False)
    assert service["StateDirectory"].split()[0] == "a2b"
    assert (service["StateDirectoryMode"], service["UMask"]) == ("0700", "0077")
    assert 'u a2b - "A2B registry" /var/lib/a2b' in (DEPLOY / "a2b.sysusers").read_text()
    command = (
        service["ExecStart"]
        .partition("/opt/a2b/.venv/bin/a2b ")[2]
        .rstrip("'")
        .replace("$(date +%%u)", "1")
        .replace("%i", "8081")
    )
    assert cli.parser().parse_args(command.split()).run


def test_no_two_units_serve_metrics_at_one_address() -> None:
    addresses = {path.name: re.findall(r"--metrics (\S+)", path.read_text()) for path in SERVICES}
    assert addresses["a2b-index.service"] == addresses["a2b.service"] == ["127.0.0.1:9464"], (
        "either the one or the other"
    )
    assert addresses["a2b-serve.service"] == ["127.0.0.1:9465"]


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    units = [*SERVICES, NOTICE, *DEPLOY.glob("*.timer")]
    for path in units:
        (tmp_path / path.name).write_text(path.read_text().replace("/opt/a2b/.venv/bin/a2b", "/bin/true"))
    names = [str(tmp_path / path.name) for path in units]
    done = subprocess.run([program("systemd-analyze"), "verify", *names], capture_output=True, text=True)
    faults = [line for line in done.stderr.splitlines() if str(tmp_path) in line]
    assert not faults


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_units_are_confined_and_report_that_they_failed(path: Path) -> None:
    command = [program("systemd-analyze"), "security", "--offline=true", "--threshold=30", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-200:] + done.stderr
    assert f"OnFailure={NOTICE.name.replace('@', '@%n')}\n" in path.read_text()


def test_every_system_is_in_the_table_of_systems() -> None:
    table = (ROOT / "docs" / "going-public.md").read_text().partition("## Systems")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(NAMES)


def test_every_alert_has_a_row_that_says_what_to_do() -> None:
    table = (
        (ROOT / "docs" / "going-public.md")
        .read_text()
        .partition("What to do when one fires:")[2]
        .partition("\n\nLogs")[0]
    )
    rows = [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `")]
    assert re.findall(r"`(\w+)`", "".join(rows)) == [rule["alert"] for rule in RULES]
