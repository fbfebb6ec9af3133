"""The file of the duplicate index: a killed process, a full disk or a damaged byte leaves a former state or none."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.duplicates.duplicate_index import FILE, DuplicateIndex
from overlay.duplicates.text_keys import ADDRESS, CLUSTER, NAME, TEXT, URL, digest
from overlay.engines import EngineError, IndexPosition
from overlay.search.document import Document, Fingerprint, Since, TextKey
from tests.contracts.listed import listing
from tests.overlay.duplicates.test_duplicates_law import expected_statuses

ROOT = Path(__file__).parents[3]
Batch = dict[str, list[Document]]


def batch(number: int, size: int = 3) -> Batch:
    """The change of that number: some registrations with few names and texts, or without a listing."""
    chance = Random(number)

    def document(id_: str) -> Document:
        since = Since(chance.randrange(9), "bsv", 1, chance.randrange(9), 1)
        first = chance.randrange(12)
        text_keys = [(TEXT, f"text {chance.randrange(3)}")]
        text_keys += [(CLUSTER, f"{key}") for key in range(first, first + 3)]
        text_keys += [(kind, f"{kind} {chance.randrange(5)}") for kind in (NAME, URL, ADDRESS)]
        fingerprint = Fingerprint(tuple(TextKey(kind, digest(text), since) for kind, text in text_keys), 3, "al",
                                  destination=chance.randrange(2))  # fmt: skip
        return replace(listing(id_), fingerprint=fingerprint)

    ids = chance.sample("abcdefghijklmnopqrst", size)
    return {id_: [document(id_)] if chance.random() < 0.8 else [] for id_ in ids}


def update(index: DuplicateIndex, number: int) -> None:
    """Make the change of that number."""
    changed = batch(number)
    index.update(
        list(changed), [document for rows in changed.values() for document in rows], IndexPosition("e", number)
    )


def is_current(index: DuplicateIndex) -> bool:
    """Whether the statuses are those after the changes up to the position."""
    position = index.position()
    current: Batch = {}
    for number in range(1, position.seq + 1 if position else 1):
        current |= batch(number)
    statuses = {id_: status for (id_, _), status in index.statuses(current).items()}
    return statuses == expected_statuses(current)


CHILD = """
import sys
from itertools import count
from contextlib import closing
from overlay.duplicates.duplicate_index import DuplicateIndex
from tests.overlay.duplicates.test_duplicate_file import update
with closing(DuplicateIndex(sys.argv[1])) as index:
    position = index.position()
    print("ready", flush=True)
    for number in count(position.seq + 1 if position else 1):
        update(index, number)
"""


def test_killed_at_any_instant_it_has_all_of_a_change_or_nothing(tmp_path: Path) -> None:
    chance = Random(1)
    reached = 0
    for _ in range(8):
        child = subprocess.Popen([sys.executable, "-c", CHILD, f"{tmp_path}"], cwd=ROOT, stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        time.sleep(chance.uniform(0, 0.1))
        os.kill(child.pid, signal.SIGKILL)
        child.stdout.close()
        child.wait()
        with closing(DuplicateIndex(f"{tmp_path}")) as index:
            position = index.position()
            assert (position.seq if position else 0) >= reached
            reached = position.seq if position else 0
            assert is_current(index)
    assert reached > 0


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let writes beyond that size fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_each_write_that_fails_leaves_the_former_state(tmp_path: Path) -> None:
    with closing(DuplicateIndex(f"{tmp_path}")) as index, closing(DuplicateIndex()) as fresh:
        for number in range(1, 40):
            update(index, number)
            update(fresh, number)
        update(fresh, 40)
        ways: tuple[Callable[[], object], ...] = (lambda: update(index, 40), lambda: index.copy_from(fresh))
        failures = 0
        for size in count(0, 512):
            with files_of_at_most(size):
                message = error_of(ways[failures % 2])
            if not message:
                break
            failures += 1
            assert str(tmp_path / FILE) in message
            assert index.position() == IndexPosition("e", 39)
            assert is_current(index)
        assert failures > 10
        assert index.position() == IndexPosition("e", 40)
        assert is_current(index)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    with pytest.raises(EngineError, match=FILE):
        DuplicateIndex(f"{tmp_path}")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file after some changes."""
    folder = tmp_path_factory.mktemp("duplicates")
    with closing(DuplicateIndex(f"{folder}")) as index:
        for number in range(1, 10):
            update(index, number)
    return folder / FILE


@settings(deadline=None, max_examples=100)
@given(position=st.integers(0, 2**20), change=st.integers(1, 255), is_cut=st.booleans())
def test_a_damaged_byte_or_a_missing_end_is_refused_or_read(
    written: Path, position: int, change: int, is_cut: bool
) -> None:
    damaged = bytearray(written.read_bytes())
    position %= len(damaged)
    damaged[position] ^= change
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, FILE).write_bytes(damaged[: position if is_cut else None])
        for _ in range(2):
            message = error_of(lambda: use(folder))
            assert not message or FILE in message


def use(folder: str) -> None:
    """Open a file, write and read."""
    with closing(DuplicateIndex(folder)) as index:
        update(index, 10)
        index.statuses("abcdefghijklmnopqrst")


def error_of(action: Callable[[], object]) -> str:
    """The message of the error that an action raises, "" without one."""
    try:
        action()
    except EngineError as error:
        return str(error)
    return ""


def test_a_damaged_row_is_replaced_by_a_new_file(tmp_path: Path, written: Path) -> None:
    path = tmp_path / FILE
    path.write_bytes(written.read_bytes())
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE listings SET places = x'00'")
    with closing(DuplicateIndex(f"{tmp_path}")) as index:
        with pytest.raises(EngineError, match="a row is damaged"):
            index.statuses("a")
        assert index.position() is None
        update(index, 1)
        assert is_current(index)
