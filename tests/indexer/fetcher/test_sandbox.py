"""The process that draws strangers' pictures has no network and no files, and draws all the same."""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from indexer.fetcher.thumbnail import FORMATS
from tests.waiting import PATIENCE

_STATUS = Path("/proc/self/status")
HAS_SECCOMP = "Seccomp_filters:" in (_STATUS.read_text() if _STATUS.exists() else "")

CONFINED = """
import os, socket, sys
from indexer.fetcher import thumbnail

print(thumbnail.confine())
attempts = {
    "socket": socket.socket,
    "socketpair": socket.socketpair,
    "create": lambda: open("made", "w"),
    "overwrite": lambda: open("there", "r+"),
    "read": lambda: open("there"),
    "list": lambda: os.listdir("."),
    "remove": lambda: os.unlink("there"),
    "fork": os.fork,
    "run": lambda: os.execv(sys.executable, [sys.executable]),
    "signal": lambda: os.kill(os.getppid(), 0),
}
for name, attempt in attempts.items():
    try:
        attempt()
        print(name, "done")
    except OSError as error:
        print(name, error.errno)
"""


def drawn(form: str) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6  # stands on its side
    body = BytesIO()
    picture = Image.linear_gradient("L").resize((60, 40)).convert("RGB")
    more = {"append_images": [picture], "save_all": True} if form == "MPO" else {}
    picture.save(body, form, exif=exif, **more)
    return body.getvalue()


@pytest.mark.skipif(not HAS_SECCOMP, reason="this kernel has no seccomp filters; rlimits alone confine the process")
def test_a_confined_process_gets_neither_network_nor_files_nor_processes(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("secret")
    done = subprocess.run(
        [sys.executable, "-c", CONFINED], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    confined, *refused = done.stdout.splitlines()
    assert confined == "True"
    assert len(refused) == 10
    assert [line for line in refused if not line.endswith(" 1")] == []  # EPERM
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("form", [*FORMATS, "MPO"])
def test_a_confined_process_draws_every_kind_of_picture(form: str) -> None:
    program = "from indexer.fetcher import thumbnail; thumbnail.main(1_300)"
    done = subprocess.run([sys.executable, "-c", program], input=drawn(form), capture_output=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, b"")
    with Image.open(BytesIO(done.stdout)) as created:
        assert created.format == "WEBP"
        assert created.size == ((60, 40) if form == "GIF" else (40, 60))
