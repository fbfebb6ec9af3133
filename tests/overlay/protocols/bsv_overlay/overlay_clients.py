"""The clients of BSV overlays, unmodified, each in a separate process."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.conftest import missing

FOLDER = Path(__file__).parent


def node() -> str:
    """The path of node; the test is skipped where it, or what `npm ci` installs, is missing."""
    program = shutil.which("node")
    if program is None:
        missing("node (Node.js)")
    if not (FOLDER / "node_modules" / "@bsv" / "sdk").is_dir():
        missing("what `npm ci --ignore-scripts` installs in tests/overlay/protocols/bsv_overlay (@bsv/sdk)")
    return program


async def resolved(url: str, *questions: Any) -> list[Any]:
    """The answers that `lookup_client.mjs` gets to these questions."""
    answers: list[Any] = await _printed(node(), "lookup_client.mjs", url, *map(json.dumps, questions))
    return answers


async def resolved_by_python(url: str, service: str, query: Any) -> dict[str, str]:
    """The ids by outpoint that `lookup_client.py` gets."""
    if find_spec("bsv") is None:
        missing("bsv-sdk")
    ids: dict[str, str] = await _printed(sys.executable, "lookup_client.py", url, service, json.dumps(query))
    return ids


async def submitted(url: str, *packages: bytes) -> list[dict[str, Any]]:
    """The answers that `submit_client.mjs` gets for these BEEFs, in each form."""
    answers: list[dict[str, Any]] = await _printed(
        node(), "submit_client.mjs", url, *(package.hex() for package in packages)
    )
    return answers


async def submitted_by_python(url: str, package: bytes) -> dict[str, Any]:
    """The answer that `submit_client.py` gets for a BEEF."""
    if find_spec("bsv") is None:
        missing("bsv-sdk")
    answer: dict[str, Any] = await _printed(sys.executable, "submit_client.py", url, package.hex())
    return answer


async def engine(**task: Any) -> list[Any]:
    """The answers of the Engine of `@bsv/overlay` to a task of `engine.mjs`."""
    answers: list[Any] = await _printed(*_engine(task))
    return answers


@asynccontextmanager
async def engine_server(**task: Any) -> AsyncIterator[str]:
    """The URL at which the Engine answers GASP after a task of `engine.mjs`."""
    process = await asyncio.create_subprocess_exec(
        *_engine(task | {"serve": True}), cwd=FOLDER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.stdin.close()
        await process.wait()


def _engine(task: dict[str, Any]) -> tuple[str, ...]:
    program = node()
    if not (FOLDER / "node_modules" / "@bsv" / "overlay").is_dir():
        missing("what `npm ci --ignore-scripts` installs in tests/overlay/protocols/bsv_overlay (@bsv/overlay)")
    return program, "engine.mjs", json.dumps(task)


async def _printed(*command: str) -> Any:
    process = await asyncio.create_subprocess_exec(*command, cwd=FOLDER, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(out)
