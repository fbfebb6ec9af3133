"""Results that are kept by their argument."""

from __future__ import annotations

from collections import Counter

import pytest

from overlay.search import memo
from overlay.search.memo import Memo


def test_what_is_used_again_is_computed_once_and_what_is_not_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "MOST", 4)
    calls: Counter[str] = Counter()

    def shout(text: str) -> str:
        calls[text] += 1
        return text.upper()

    upper = Memo(shout)
    for number in range(1_000):
        assert upper["often"] == "OFTEN"
        assert upper[f"once {number}"] == f"ONCE {number}"
        assert len(upper) <= 4
    assert calls["often"] == 1
    assert upper["once 0"] == "ONCE 0"
    assert calls["once 0"] == 2
