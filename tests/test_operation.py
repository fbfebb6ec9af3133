"""The unit and the compose file of the README: what systemd and YAML say of them, and what this program does."""

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
from overlay.workers import STOP_SECONDS
from tests.conftest import ROOT, missing

A2B = "/opt/a2b/.venv/bin/a2b"


def written(language: str) -> str:
    """The only block of the README in a language."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def unit() -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(written("ini"))
    return found


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(written("yaml"))
    return found


def understood(command: str) -> Any:
    """What the command line makes of an `a2b` command."""
    return cli.parser().parse_args(shlex.split(command)[1:])


def settings(environment: dict[str, str]) -> Settings:
    """What the settings make of variables, with every `${NAME:?}` filled in."""
    told = {"POSTGRES_PASSWORD": "secret", "CHAINS": "bsv=http://u:p@node:8332"}
    filled = {
        name: re.sub(r"\$\{(\w+):\?\}", lambda found: told[found[1]], value) for name, value in environment.items()
    }
    return Settings.load(environ=filled)


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze")
    # the command need not be installed on the machine that tests
    (tmp_path / "a2b.service").write_text(written("ini").replace(A2B, "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", tmp_path / "a2b.service"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, [line for line in done.stderr.splitlines() if "a2b.service" in line]) == (0, [])


def test_the_unit_starts_a_command_with_settings_that_exist_and_lets_it_end(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    assert service["ExecStart"].startswith(f"{A2B} ")
    assert understood(service["ExecStart"])
    name, _, value = service["Environment"].partition("=")
    folder = settings({name: value}).data
    assert folder == Path("/var/lib") / service["StateDirectory"], "where a dynamic user may write"
    assert int(service["TimeoutStopSec"]) > STOP_SECONDS
    assert service["KillMode"] == "mixed", "the first process tells its workers"
    assert "MemoryDenyWriteExecute" not in service, "loops are compiled"


def test_the_compose_file_starts_what_exists_and_lets_it_end(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name in ("indexer", "overlay"):
        service = services[name]
        assert service["command"].startswith("/venv/bin/a2b ")
        assert understood(service["command"])
        told = settings(service["environment"])
        assert told.database == "postgresql+psycopg://a2b:secret@database/a2b"
        assert int(service["stop_grace_period"].removesuffix("s")) > STOP_SECONDS
        assert service["depends_on"].keys() <= services.keys()
    assert "postgresql+psycopg" in services["overlay"]["environment"]["A2B_DATABASE"]
    assert services["overlay"]["ports"] == ["127.0.0.1:8080:8080"]


def test_volumes_of_the_compose_file_are_declared(compose: dict[str, Any]) -> None:
    mounted = {volume.partition(":")[0] for service in compose["services"].values() for volume in service["volumes"]}
    assert mounted - {"."} == compose["volumes"].keys()
