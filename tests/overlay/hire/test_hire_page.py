"""The page on hiring leads from nothing to a paid result: its commands, as a reader types them, on a Bitcoin SV node
where `BITCOIND` names one."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.bitcoind import VARIABLE, installed
from tests.ports import free_port
from tests.running import a2b_here, environment
from tests.test_docs import DOCS

_BLOCK = re.compile(r"<!-- try -->\n```sh\n(.*?)```", re.DOTALL)


def commands(port: int, served: int, agent: int) -> str:
    """The commands of the page, with free ports."""
    text = "".join(_BLOCK.findall((DOCS / "hire.md").read_text()))
    assert text.count("\n") == 20
    for old, new in {
        "127.0.0.1:18332": f"127.0.0.1:{port}", "bitcoind -regtest": f"bitcoind -regtest -rpcport={port} -listen=0",
        "bitcoin-cli -rpcwait": f"bitcoin-cli -rpcwait -rpcport={port}", "a2b up &": f"a2b up --port {served} &",
        "127.0.0.1:8080": f"127.0.0.1:{served}", "--signing-key seller": f"--port {agent} --signing-key seller",
    }.items():  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    return f"set -e\n{text}"


@pytest.mark.timeout(600)
def test_a_reader_gets_from_nothing_to_a_paid_result(tmp_path: Path) -> None:
    installed()
    folders = [Path(os.environ[VARIABLE]).parent, Path(sys.executable).parent]
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    ours, theirs = pty.openpty()  # a person is asked on a terminal only
    script = commands(*(free_port() for _ in range(3)))
    shell = subprocess.Popen(
        ["bash", "-c", script], cwd=tmp_path, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=environment() | {"PATH": path}, start_new_session=True,
    )  # fmt: skip
    try:
        os.write(ours, b"y\nn\n")
        assert shell.stdout is not None
        lines = []
        for line in shell.stdout:
            lines.append(line)
            if re.match(r"[0-9a-f]{16}  done ", line):
                break
        assert "receipt: signed by the key of the card\n" in lines, "".join(lines)
        (answer,) = (tmp_path / "answer").iterdir()
        assert json.loads(answer.read_text()) == json.loads((tmp_path / "card.json").read_text())
        (hired,) = json.loads(a2b_here("hires", "--json", "--wallet", "buyer", cwd=tmp_path).stdout)
        assert (hired["state"], hired["satoshis"]) == ("done", 1_000)
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, number)
        os.kill(int((tmp_path / "node" / "regtest" / "bitcoind.pid").read_text()), signal.SIGKILL)
        os.close(ours)
        os.close(theirs)
        shell.communicate()
