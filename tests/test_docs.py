"""The README cannot be wrong about what it names: commands, settings, routes, folders."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from indexer.settings import KEYS, PREFIX
from overlay.api.routes import ROUTES
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text()
COMMANDS = (
    "up",
    "index",
    "serve",
    "search",
    "show",
    "history",
    "verify",
    "diagnose",
    "check",
    "status",
    "rebuild",
    "export",
    "import",
)


def block(label: str) -> str:
    """The shell block of the README that stands after `<!-- label -->`."""
    found = re.search(rf"<!-- {label} -->\n```sh\n(.*?)\n```", README, re.DOTALL)
    assert found, f"the README has no command marked {label}"
    return found[1]


def test_two_commands_do_all_the_set_up() -> None:
    assert block("run").endswith("a2b up")
    assert block("test").endswith("pytest")
    for command in (block("run"), block("test")):
        assert "\n" not in command
        assert command.startswith("python3 -m venv ")


def test_ci_runs_the_test_command_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    function = re.search(r"sed -n '(.*?)' README.md", script)
    assert function
    shown = subprocess.run(["sed", "-n", function[1], ROOT / "README.md"], capture_output=True, text=True, check=True)
    assert block("test") in shown.stdout


@pytest.mark.parametrize("key", sorted(KEYS))
def test_every_setting_is_documented(key: str) -> None:
    assert f"`{PREFIX}{key.upper()}`" in README


def test_no_setting_is_documented_that_does_not_exist() -> None:
    named = set(re.findall(r"`A2B_([A-Z_]+)`", README)) - {"REQUIRE_ALL", "TEST_SHARED"}
    assert {name.lower() for name in named} == set(KEYS)


def documented_routes() -> set[str]:
    return set(re.findall(r"`(?:GET|POST) (/[^`]*)`", README))


UNLISTED = {"/static/{name}", "/robots.txt"}


def test_every_route_is_documented() -> None:
    served = {route.path for route in ROUTES} - UNLISTED
    assert documented_routes() == served


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented_and_exists(command: str) -> None:
    assert f"`a2b {command}" in README
    helped = subprocess.run([sys.executable, "-m", "overlay", command, "--help"], capture_output=True, text=True)
    assert helped.returncode == 0, helped.stderr
    assert helped.stdout.startswith(f"usage: a2b {command}")


def test_no_command_exists_that_is_not_documented() -> None:
    helped = subprocess.run([sys.executable, "-m", "overlay", "--help"], capture_output=True, text=True, check=True)
    shown = set(re.findall(r"^    ([a-z]+)(?: |$)", helped.stdout, re.MULTILINE))
    assert shown == set(COMMANDS)


def test_the_files_that_the_readme_names_exist() -> None:
    rooms = re.findall(r"^\| `(\w+(?:-\w+)?)/` \| (.*) \|$", README, re.MULTILINE)
    assert len(rooms) == 5
    for room, told in rooms:
        for name in re.findall(r"`([\w/]+(?:\.py|/))`", told):
            assert (ROOT / room / name).exists(), f"{room}/{name} does not exist"
