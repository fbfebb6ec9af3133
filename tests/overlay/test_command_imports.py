"""A command imports what it uses: what takes long to load is absent where nothing needs it. `python -X importtime -m
overlay ...` shows what takes long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from indexer.settings import Settings
from overlay.app.storage import open_index, open_store
from tests.running import environment

LIBRARIES = (
    "PIL", "aiohttp", "apscheduler", "cryptography", "google_crc32c", "httpx", "jinja2", "jsonschema", "mcp", "msgspec",
    "numba", "numpy", "opensearchpy", "orjson", "prometheus_client", "psycopg", "pydantic", "rapidfuzz", "sqlalchemy",
    "whoosh",
)  # fmt: skip
"""Libraries that take long to load, or that only some commands use."""

JSON = {"msgspec", "orjson"}


def libraries(folder: Path, *arguments: str) -> set[str]:
    """The libraries that a command has loaded when it ends."""
    program = (
        "import atexit, sys\n"
        "from overlay.cli import main\n"
        f"atexit.register(lambda: print('\\nloaded', *(name for name in {LIBRARIES} if name in sys.modules)))\n"
        f"main({list(arguments)})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1, 3), done.stderr
    return set(done.stdout.rpartition("loaded")[2].split())


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_help_and_version_load_none(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert libraries(tmp_path, *arguments) == set()


def test_a_check_of_a_card_loads_no_database_no_search_and_no_client(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text('{"name": "Summarizer", "description": "Shortens texts."}')
    assert libraries(tmp_path, "check", "card.json") <= JSON


@pytest.mark.parametrize("command", [("search", "maps"), ("show", f"{'0' * 64}_0"), ("status",)])
def test_a_command_that_queries_a_server_loads_no_database_and_no_search(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    assert libraries(tmp_path, *command, "--url", "http://127.0.0.1:9") <= {"httpx", *JSON}


def test_status_of_local_data_loads_no_kernels_no_server_and_no_client(tmp_path: Path) -> None:
    settings = Settings.load({"data": str(tmp_path / "data")})
    for data in (open_store(settings, create=True), open_index(settings, create=True)):
        data.close()
    assert libraries(tmp_path, "status", "--data", "data") <= {"google_crc32c", "numpy", "sqlalchemy", *JSON}
