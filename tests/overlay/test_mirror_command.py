"""`a2b mirror`: another overlay's registry in a database of one's own, verified, with the same anchors."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from indexer.errors import SourceUnavailableError
from indexer.retries import Backoff
from indexer.store import Store, connect
from indexer.sync.progress import SyncProgress
from overlay.commands import mirror
from tests.overlay.calls import TOWER
from tests.overlay.test_cli import Run, alone, data, run, served

__all__ = ["alone", "data", "run", "served"]


def test_a_mirror_has_the_listings_and_anchors_of_the_original(
    run: Run, data: Path, served: str, tmp_path: Path
) -> None:
    done = run("mirror", f"{served}/v1", "--network", "regtest", "--name", "demo", "--data", tmp_path / "copy")
    assert done.code == 0, done.err
    assert "34 live registrations, 4 burned, up to block 125" in done.out
    stores = [Store(connect(f"sqlite:///{folder}/a2b.db")) for folder in (data, tmp_path / "copy")]
    anchors = [store.topic_anchors.between("demo", 0, 999) for store in stores]
    assert anchors[0] == anchors[1]
    assert len(anchors[0]) == 125
    assert done.out.endswith(f": {anchors[0][-1].tac[::-1].hex()}\n")
    states = [list(store.registrations.states("demo", 125)) for store in stores]
    assert states[0] == states[1]
    assert stores[1].is_partial("demo")
    again = run("mirror", served, "--network", "regtest", "--name", "demo", "--data", tmp_path / "copy")
    assert (again.code, again.out.splitlines()[-1][-64:]) == (0, done.out.splitlines()[-1][-64:])
    assert run("rebuild", "--data", tmp_path / "copy").code == 0
    shown = run("show", TOWER, "--data", tmp_path / "copy", "--json")
    assert json.loads(shown.out)["id"] == TOWER
    checked = run("verify", TOWER, "--offline", "--chain", "bsv:regtest", "--data", tmp_path / "copy")
    assert checked.code == 0


def test_a_mirror_says_what_is_wrong_with_its_command(
    run: Run, data: Path, served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "BACKOFF", Backoff(0, 0))
    mirrored = run("mirror", served, "--network", "regtest", "--name", "demo", "--data", data)
    assert mirrored.code == 2
    assert "mirror into another one" in mirrored.err
    other = run("mirror", served, "--data", tmp_path / "other")
    assert other.code == 3
    assert "is about 'bsv:regtest', and not bsv:mainnet" in other.err
    for url in ("gopher://x", "http://", "http://user:secret@host", "http://host:0"):
        wrong = run("mirror", url, "--data", tmp_path / "wrong")
        assert wrong.code in (2, 3)
        assert "write overlay:https://host" in wrong.err
        assert "secret" not in wrong.err
    silent = run("mirror", "http://127.0.0.1:1", "--data", tmp_path / "silent")
    assert silent.code == 3


class Unsteady:
    """A follower whose source fails now and then: what each look at it brings, None for a failure."""

    def __init__(self, *looks: int | None) -> None:
        self.progress = SyncProgress("demo")
        self._looks = list(looks)

    async def catch_up(self) -> None:
        height = self._looks.pop(0)
        if height is None:
            raise SourceUnavailableError("busy")
        self.progress.height = height


def test_a_mirror_of_an_overlay_that_never_answers_ends_after_a_minute(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (mirror.SILENT_SECONDS, sum(mirror.BACKOFF.pauses(mirror.ATTEMPTS - 1))) == (60, 63)
    monkeypatch.setattr(mirror, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(mirror, "LOOK_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        done = run("mirror", f"http://127.0.0.1:{listening.getsockname()[1]}", "--data", tmp_path / "silent")
    assert done.code == 3
    assert "no answer for 0.3 s; run this again later" in done.err


async def test_a_busy_overlay_is_waited_for_as_long_as_there_is_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror, "BACKOFF", Backoff(0, 0))
    follower = Unsteady(*[None] * 6, 5, None, 7, *[None] * 6, 9, 9)
    await mirror.catch_up(follower)  # type: ignore[arg-type]
    assert follower.progress.height == 9
    with pytest.raises(SourceUnavailableError, match="busy"):
        await mirror.catch_up(Unsteady(*[None] * 7))  # type: ignore[arg-type]
