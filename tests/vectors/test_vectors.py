"""The vectors of the shared folder, evaluated by the runner."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vectors.kinds import KINDS
from tests.vectors.runner import run


@pytest.mark.parametrize("name", ["motebit.jsonl", "delegateos.jsonl", "mrp/signed_envelopes.jsonl"])
def test_all_vectors_agree(shared: Path, name: str) -> None:
    path = shared / "vectors" / "trust" / name
    if not path.is_file():
        pytest.skip(f"{name} is not among the shared vectors")
    shown: list[str] = []
    assert run([path], KINDS, shown.append) == 0, shown
