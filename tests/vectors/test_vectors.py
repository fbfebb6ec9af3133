"""The vectors of the shared folder, evaluated by the runner."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vectors.documents import documents
from tests.vectors.kinds import KINDS
from tests.vectors.runner import run


@pytest.mark.parametrize("name", ["motebit.jsonl", "delegateos.jsonl", "mrp", "motebit-schemas"])
def test_all_vectors_agree(shared: Path, name: str) -> None:
    path = shared / "vectors" / "trust" / name
    if not path.exists():
        pytest.skip(f"{name} is not among the shared vectors")
    shown: list[str] = []
    assert run(documents(path) if path.is_dir() else [path], KINDS, shown.append) == 0, shown
