"""The client alone, as `pip install .` brings it: nothing that it imports is the server's, it is small, and what needs
the server ends with the command that installs it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from overlay.installation import SERVER
from tests.conftest import ROOT
from tests.running import Running, environment
from tests.waiting import PATIENCE

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ID = "dc35745fe6bf0623a33a2d79bcfeaeb9d34808c5d37d772598ebe5fa93db9dd7_0"
INSTALL = "pip install '.[server]'"
WITHOUT_SERVER = "import sys; from overlay.installation import SERVER; sys.modules.update(dict.fromkeys(SERVER)); "
"""The start of a program in which no library of the server can be imported."""

MAX_BYTES = 110_000_000


def python(program: str, *arguments: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_SERVER + program, *arguments], cwd=cwd, env=environment(**more),
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip


def a2b(*arguments: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return python("from overlay.cli import main; main()", *arguments, cwd=cwd, **more)


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the packaged chain's overlay."""
    with Running("up", "--port", "0", cwd=tmp_path_factory.mktemp("overlay")) as running:
        running.until_ready()
        yield running.url
        running.stop()


def names(requirements: Sequence[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in requirements}


def test_the_libraries_of_the_server_are_those_of_its_extra() -> None:
    of_modules = packages_distributions()
    blocked = {canonicalize_name(name) for module in SERVER for name in of_modules[module]}
    others = {"bitcoinx", "pydantic"}  # has wheels for Python 3.11 only; comes with mcp
    assert blocked - {"psycopg-binary"} == names(PROJECT["optional-dependencies"]["server"]) - others
    assert not blocked & names(PROJECT["dependencies"])


def test_client_verifier_and_all_that_pays_and_publishes_are_imported_without_the_server(tmp_path: Path) -> None:
    program = (
        "from importlib import import_module; from pkgutil import walk_packages\n"
        "import overlay.client, overlay.verify, overlay.publish\n"
        "[import_module(module.name) for package in (overlay.client, overlay.verify, overlay.publish) "
        "for module in walk_packages(package.__path__, f'{package.__name__}.')]\nprint('imported')"
    )
    done = python(program, cwd=tmp_path)
    assert done.stdout == "imported\n", done.stderr


def test_it_takes_at_most_110_megabytes() -> None:
    """Counted are the distributions that the client needs, as pip unpacks them, and its files with what Python makes of
    them."""
    files = {path for room in ("parsers", "indexer", "overlay", "sample-blocks") for path in (ROOT / room).rglob("*")}
    sizes = {path: path.stat().st_size for path in files if path.is_file() and "__pycache__" not in path.parts}
    total = sum(size * (2 if path.suffix == ".py" else 1) for path, size in sizes.items())
    waiting, seen = [Requirement(line) for line in PROJECT["dependencies"]], set[str]()
    while waiting:
        requirement = waiting.pop()
        extras = requirement.extras or {""}
        name = canonicalize_name(requirement.name)
        if name in seen or (requirement.marker and not any(requirement.marker.evaluate({"extra": e}) for e in extras)):
            continue
        seen.add(name)
        installed = distribution(name)
        for file in installed.files or ():
            path = Path(str(file.locate()))
            total += path.stat().st_size if path.is_file() else 0
        for line in installed.requires or ():
            needed = Requirement(line)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                needed.marker = None
                waiting.append(needed)
    assert {"cryptography", "httpx", "mcp", "wallycore"} < seen
    assert total < MAX_BYTES, f"{total:,} bytes of {sorted(seen)}"


def test_a_running_overlay_is_searched_and_shown_and_its_proofs_are_verified(overlay: str, tmp_path: Path) -> None:
    for expected, *arguments in (
        ("On‑Chain DEX Chart API", "search", "dex", "chrat", "--limit", "1"),
        ("reinscribed", "history", ID),
        ("owner", "show", ID),
        ("402 says what to pay", "show", "--snippets", ID),
        ("block 125", "status"),
        ("the transaction is in the registry's records", "diagnose", ID.partition("_")[0]),
    ):
        done = a2b(*arguments, cwd=tmp_path, A2B_URL=overlay)
        assert expected in done.stdout, (arguments, done.stdout, done.stderr)
    done = a2b("verify", ID, "--chain", "bsv:regtest", "--offline", "--url", overlay, cwd=tmp_path)
    assert done.stdout.endswith("verified\n"), done.stdout + done.stderr
    done = a2b("verify", ID, "--url", overlay, "--headers", "http://127.0.0.1:9", cwd=tmp_path)
    assert done.returncode == 3
    assert "does not answer" in done.stderr


def test_tools_of_mcp_are_served_over_standard_input_and_output(overlay: str, tmp_path: Path) -> None:
    program = (
        "import asyncio, os\n"
        "from mcp import ClientSession, StdioServerParameters, stdio_client\n"
        f"code = {WITHOUT_SERVER!r} + 'from overlay.cli import main; main()'\n"
        "async def run():\n"
        "    server = StdioServerParameters(command=sys.executable, args=['-c', code, 'mcp'], env=dict(os.environ))\n"
        "    async with stdio_client(server) as streams, ClientSession(*streams) as session:\n"
        "        await session.initialize()\n"
        "        found = await session.call_tool('search', {'q': 'watchtower'})\n"
        "        print(found.content[0].text[:500])\n"
        "asyncio.run(run())\n"
    )
    done = python(program, cwd=tmp_path, A2B_URL=overlay)
    assert "Watch Services" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("up",), ("index",), ("serve",), ("search", "maps"), ("show", ID), ("history", ID), ("verify", ID), ("status",),
        ("diagnose", "a" * 64), ("rebuild",), ("migrate",), ("backup", "file"), ("refunds",), ("block", "list"),
        ("search", "maps", "--data", "elsewhere"),
    ],
)  # fmt: skip
def test_what_needs_the_server_ends_with_the_command_that_installs_it(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    more = {"A2B_URL": "http://127.0.0.1:9"} if "--data" in arguments else {}
    done = a2b(*arguments, cwd=tmp_path, **more)
    assert done.returncode == 2, done.stdout + done.stderr
    assert INSTALL in done.stderr
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())


def test_the_docs_and_the_units_install_the_server_and_name_no_index() -> None:
    for name in ("README.md", "docs/install.md", "docs/going-public.md"):
        assert f"/pip {INSTALL.removeprefix('pip ')}" in (ROOT / name).read_text(), name
    assert "'/src[server]'" in (ROOT / "docs/deploy/Containerfile").read_text()
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        assert "install a2b" not in path.read_text(), path
