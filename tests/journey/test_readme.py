"""The questions of the README have the answers that it prints, on the packaged sample chain."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.conftest import ROOT
from tests.running import Running

QUESTIONS = re.findall(
    r"<!-- question(?:: (\d))? -->\n```sh\n\.venv/bin/a2b ([^\n]*)\n```\n\n```\n(.*?)\n```\n",
    (ROOT / "README.md").read_text(),
    re.DOTALL,
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """`a2b up`, which has indexed the sample chain."""
    folder = tmp_path_factory.mktemp("readme")
    with Running("up", "--port", "0", cwd=folder) as running:
        running.until_ready()
        running.until(lambda: running.get("/v1/status")["index"]["behind"] == 0)
        yield running


@pytest.fixture
def folder(running: Running) -> Path:
    """The folder in which `a2b up` runs."""
    return running.cwd


def test_there_are_questions() -> None:
    assert len(QUESTIONS) == 4


def test_the_question_over_http_has_its_answer(running: Running) -> None:
    url, answer = re.findall(
        r"```sh\ncurl -s 'http://127\.0\.0\.1:8080(/.*?)'\n```\n\n```\n(.*?)…\n```\n", (ROOT / "README.md").read_text()
    )[0]
    with urlopen(f"{running.url}{url}") as response:  # noqa: S310 - this machine
        assert response.read().decode().startswith(answer)


@pytest.mark.parametrize(
    ("code", "command", "answer"), QUESTIONS, ids=[command.split()[0] for _, command, _ in QUESTIONS]
)
def test_a_question_has_its_answer(folder: Path, code: str, command: str, answer: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "overlay", *shlex.split(command)], cwd=folder, capture_output=True, text=True,
        env={"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert done.returncode == int(code or 0), done.stderr
    assert set(answer.splitlines()) <= set(done.stdout.splitlines())
