"""The files in `docs/deploy`: systemd and YAML accept them, and the program accepts their commands and settings."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from indexer.settings import Settings
from overlay import cli
from overlay.app.workers import STOP_SECONDS
from tests.conftest import ROOT, missing

A2B = "/opt/a2b/.venv/bin/a2b"
DEPLOY = ROOT / "docs" / "deploy"
BACKUP, NOTICE = "a2b-backup.service", "a2b-failed@.service"
UNITS = sorted(path.name for path in DEPLOY.glob("*.service") if path.name not in (BACKUP, NOTICE))


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((DEPLOY / name).read_text())
    return parser


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return document


def parse(command: list[str]) -> Any:
    """The parsed arguments of an `a2b` command; exits where the command does not exist."""
    return cli.parser().parse_args(command)


def settings(environment: dict[str, str]) -> Settings:
    """The settings that these variables give, with every `${NAME:?}` filled in."""
    values = {"POSTGRES_PASSWORD": "secret", "CHAINS": "bsv=http://u:p@node:8332"}
    filled = {
        name: re.sub(r"\$\{(\w+):\?\}", lambda match: values[match[1]], value) for name, value in environment.items()
    }
    return Settings.load(environ=filled)


def test_there_is_a_unit_for_each_way_to_run() -> None:
    assert UNITS == ["a2b-index.service", "a2b-serve.service", "a2b-serve@.service", "a2b.service"]
    assert parse(["backup", "a2b.gz"]), "which the unit of the timer runs"


@pytest.mark.parametrize("name", [*UNITS, BACKUP, NOTICE])
def test_systemd_accepts_the_unit(name: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze")
    # the command need not be installed on the machine that tests
    (tmp_path / name).write_text((DEPLOY / name).read_text().replace(A2B, "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", tmp_path / name],
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, [line for line in done.stderr.splitlines() if name in line]) == (0, [])


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_starts_an_existing_command_with_existing_settings(name: str) -> None:
    service = unit(name)["Service"]
    assert service["ExecStart"].startswith(f"{A2B} ")
    assert parse(shlex.split(service["ExecStart"])[1:])
    variable, _, value = service["Environment"].partition("=")
    folder = settings({variable: value}).data
    assert folder == Path("/var/lib") / service["StateDirectory"], "where the units' user may write"
    assert int(service["TimeoutStopSec"]) > STOP_SECONDS
    assert service["KillMode"] == "mixed", "the first process stops its workers"
    assert "MemoryDenyWriteExecute" not in service, "the block walk is compiled at run time"


def test_the_compose_file_starts_existing_commands_with_existing_settings(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert services.keys() == {"database", "search", "indexer", "server-1", "server-2"}
    for name in ("indexer", "server-1", "server-2"):
        service = services[name]
        assert parse(service["command"])
        loaded = settings(service["environment"])
        assert loaded.database == "postgresql+psycopg://a2b:secret@database/a2b"
        assert loaded.search.startswith("opensearch:http://search:9200/")
        assert int(service["stop_grace_period"].removesuffix("s")) > STOP_SECONDS
        assert service["depends_on"].keys() <= services.keys()
        assert (DEPLOY / service["build"]["context"]).resolve() == ROOT
        assert (ROOT / service["build"]["dockerfile"]).is_file()


def test_named_volumes_of_the_compose_file_are_declared(compose: dict[str, Any]) -> None:
    mounted = {volume.partition(":")[0] for service in compose["services"].values() for volume in service["volumes"]}
    assert {volume for volume in mounted if not volume.startswith("/")} == compose["volumes"].keys()


def test_the_containerfile_copies_the_repository_and_starts_a2b() -> None:
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    assert "COPY . /src" in lines
    assert 'ENTRYPOINT ["/venv/bin/a2b"]' in lines
    (command,) = (line.removeprefix("CMD ") for line in lines if line.startswith("CMD "))
    assert parse(yaml.safe_load(command))
    assert {line.split()[1] for line in lines if line.startswith("FROM ")} == {"docker.io/library/python:3.11-slim"}


def test_the_workflow_runs_ci_and_nothing_else() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    steps = workflow["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step][-1] == ".ci/run"
