"""The `a2b` command as its users have it: a process of its own, with a folder and an environment of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from indexer.settings import sample_blocks
from overlay.cli import main
from tests.compiled import compile_loops
from tests.conftest import ROOT
from tests.waiting import PATIENCE

SAMPLE = f"demo=files:{sample_blocks()}?chain=bsv&network=regtest"
"""The packaged chain as one that is configured: without it, only `a2b up` follows it."""


def environment(**more: str) -> dict[str, str]:
    """This process' environment without settings of the product, with this checkout to import and the compiled loops
    of the test run."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("A2B_")}
    return {**inherited, "PYTHONPATH": str(ROOT), **more}


def a2b(*arguments: str, cwd: Path, stdin: bytes = b"", **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "overlay", *arguments], cwd=cwd, env=environment(**more), capture_output=True,
        input=stdin.decode(), text=True, timeout=PATIENCE,
    )  # fmt: skip


def a2b_here(*arguments: str, cwd: Path, stdin: bytes = b"", **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in this process, for tests of anything but the process: a start takes a second of a
    processor."""
    out, err = BytesIO(), BytesIO()
    with (
        TextIOWrapper(BytesIO(stdin), "utf-8") as read, TextIOWrapper(out, "utf-8", write_through=True) as written,
        TextIOWrapper(err, "utf-8", write_through=True) as complaints, redirect_stdout(written),
        redirect_stderr(complaints), patch.object(sys, "stdin", read), chdir(cwd),
        patch.dict(os.environ, environment(**more), clear=True),
    ):  # fmt: skip
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        texts = [stream.getvalue().decode() for stream in (out, err)]
    return subprocess.CompletedProcess(arguments, ended.value.code, *texts)


class Running:
    """A command that runs until it is stopped; its output is in the files `out` and `err` of its folder."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        err: IO[Any] | int | None = None,
        before: Callable[[], None] | None = None,
        module: str = "overlay",
        **more: str,
    ) -> None:
        compile_loops()
        self.cwd = cwd
        self._out, self._err = cwd / "out", cwd / "err"
        with self._out.open("w") as out, self._err.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments], cwd=cwd, env=environment(**more), stdout=out,
                stderr=errors if err is None else err, stdin=subprocess.DEVNULL,
                preexec_fn=before,  # noqa: PLW1509 - what tests do there is one system call
            )  # fmt: skip

    @property
    def out(self) -> str:
        """Standard output so far."""
        return self._out.read_text()

    @property
    def err(self) -> str:
        """Standard error so far."""
        return self._err.read_text()

    def until(self, what: Callable[[], Any]) -> Any:
        """Wait until `what` answers something true, and give that."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if result := what():
                return result
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.out}{self.err}"
            time.sleep(0.05)
        raise AssertionError(f"nothing after {PATIENCE:.0f} s: {self.out}{self.err}")

    @property
    def url(self) -> str:
        """Where it serves, once it does."""
        line: str = self.until(lambda: [line for line in self.out.splitlines() if line.startswith("serving on ")])[0]
        return line.removeprefix("serving on ")

    def get(self, path: str, body: bytes | None = None) -> Any:
        """The JSON at a path; of an error, the problem."""
        return json.loads(self.text(path, body))

    def text(self, path: str, body: bytes | None = None) -> str:
        """The body at a path, of an error, too."""
        try:
            with urlopen(Request(f"{self.url}{path}", data=body), timeout=PATIENCE) as answer:  # noqa: S310 - http only
                return str(answer.read().decode())
        except HTTPError as error:
            with error:
                return error.read().decode()

    def until_ready(self) -> None:
        """Wait until everything is indexed."""
        self.until(lambda: self.get("/readyz").get("status") == "ready")

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """Send a signal; the exit code, and how many seconds the end took."""
        began = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(PATIENCE), time.monotonic() - began

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
