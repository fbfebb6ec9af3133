"""The release: a wheel and an sdist of the same bytes wherever they are built, which need no checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen
from zipfile import ZipFile

import pytest

from indexer.model import SCHEMA
from overlay.engines import NATIVE_LAYOUT
from tests.conftest import ROOT, missing
from tests.running import Running
from tests.waiting import PATIENCE

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def run(*command: object, cwd: Path, umask: int = 0o022) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SOURCE_DATE_EPOCH")}
    paths = os.pathsep.join(path for path in sys.path if path and not path.startswith(str(ROOT) + os.sep + "tests"))
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, umask=umask, capture_output=True, text=True,
        env=environment | ({"PYTHONPATH": paths} if "hatchling" in command else {}),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def built(folder: Path, umask: int = 0o022) -> dict[str, bytes]:
    """The files that a build of this folder brings, by name."""
    run(sys.executable, "-m", "hatchling", "build", "-d", folder / "out", cwd=folder, umask=umask)
    return {path.name: path.read_bytes() for path in (folder / "out").iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], str]:
    """The files of a release, built from a clone of this checkout as it is committed, and the commit."""
    if find_spec("hatchling") is None:
        missing("hatchling")
    folder, commit = tmp_path_factory.mktemp("first"), run("git", "rev-parse", "HEAD", cwd=ROOT)
    cloned(folder / "clone", commit)
    return built(folder / "clone"), commit


def cloned(folder: Path, commit: str) -> None:
    run("git", "clone", "-q", "--no-checkout", ROOT, folder, cwd=ROOT)
    run("git", "checkout", "-q", commit, cwd=folder)


def test_a_release_is_the_same_bytes_wherever_it_is_built(
    release: tuple[dict[str, bytes], str], tmp_path: Path
) -> None:
    files, commit = release
    assert {name.partition("-")[0] for name in files} == {"a2b_registry"}
    assert len(files) == 2
    cloned(tmp_path / "elsewhere", commit)
    for path in (tmp_path / "elsewhere").rglob("*.py"):
        os.utime(path, (1, 10_000_000))
    again = built(tmp_path / "elsewhere", umask=0o077)
    digests = [{name: sha256(body).hexdigest() for name, body in one.items()} for one in (files, again)]
    assert digests[0] == digests[1]


def test_the_wheel_of_the_sdist_is_the_same(release: tuple[dict[str, bytes], str], tmp_path: Path) -> None:
    files, _ = release
    (name,) = [name for name in files if name.endswith(".tar.gz")]
    (tmp_path / name).write_bytes(files[name])
    with tarfile.open(tmp_path / name) as archive:
        archive.extractall(tmp_path, filter="data")
    again = built(tmp_path / name.removesuffix(".tar.gz"))
    (wheel,) = [name for name in files if name.endswith(".whl")]
    assert sha256(again[wheel]).digest() == sha256(files[wheel]).digest()


def test_the_wheel_alone_serves_what_it_packages(
    release: tuple[dict[str, bytes], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, commit = release
    (name,) = [name for name in files if name.endswith(".whl")]
    (tmp_path / name).write_bytes(files[name])
    venv.create(tmp_path / "env", symlinks=True)
    packages = next((tmp_path / "env" / "lib").glob("python*/site-packages"))
    with ZipFile(tmp_path / name) as wheel:
        names = wheel.namelist()
        assert not [path for path in names if path.startswith("tests/")]
        assert [path for path in names if re.fullmatch(r"indexer/sample-blocks/bsv-regtest/blk[0-9]+\.dat", path)]
        wheel.extractall(packages)  # noqa: S202 - built here
    # the libraries are those of this environment: which versions there are for others, CI resolves
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "libraries.pth").write_text("\n".join(libraries))
    python = tmp_path / "env" / "bin" / "python"
    where = run(python, "-c", "import overlay, indexer; print(overlay.__file__, indexer.__file__)", cwd=tmp_path)
    assert where.count(str(packages)) == 2
    shown = run(python, "-m", "overlay", "--version", cwd=tmp_path)
    assert shown == f"a2b {VERSION} (commit {commit}, database schema {SCHEMA}, index format {NATIVE_LAYOUT})"
    monkeypatch.setattr(sys, "executable", str(python))
    with Running("up", "--port", "0", cwd=tmp_path, PYTHONPATH="") as running:
        assert running.get("/v1/status")["version"] == VERSION
        for page in ("/docs/search", "/docs/publishing", "/status"):
            with urlopen(f"{running.url}{page}", timeout=PATIENCE) as response:  # noqa: S310 - http only
                assert response.status == 200
        running.stop()


def test_the_version_is_one_that_the_changelog_can_have() -> None:
    assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", VERSION)
