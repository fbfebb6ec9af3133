"""Results that are kept by their argument."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections import Counter, deque
from collections.abc import Callable, Iterable

import pytest

from overlay.engines.native import labels
from overlay.listings import hit_json
from overlay.search import analysis, memo, spans, suggesting
from overlay.search.memo import LONGEST, Memo, memoized
from overlay.search.query import Cheapest, Suggestion

pytestmark = pytest.mark.usefixtures("often_collected")


def test_what_is_used_again_is_computed_once_and_what_is_not_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "MOST", 40)
    calls: Counter[str] = Counter()

    def shout(text: str) -> str:
        calls[text] += 1
        return text.upper()

    upper = Memo(shout)
    for number in range(1_000):
        assert upper["often"] == "OFTEN"
        assert upper[f"once {number}"] == f"ONCE {number}"
        assert sum(map(len, upper)) <= 40
    assert calls["often"] == 1
    assert upper["once 0"] == "ONCE 0"
    assert calls["once 0"] == 2


def test_long_texts_are_computed_again_and_not_kept() -> None:
    calls: Counter[str] = Counter()

    @memoized
    def shout(text: str) -> str:
        calls[text] += 1
        return text.upper()

    for text in ("a" * LONGEST, "a" * (LONGEST + 1), "\u00e4" * (LONGEST // 3), "\u00e4" * (LONGEST // 3 + 1)):
        assert [shout(text), shout(text)] == [text.upper()] * 2
    assert list(calls.values()) == [1, 2, 1, 2]


def test_no_function_of_the_search_keeps_what_it_computed_of_long_texts() -> None:
    """Whoever registers cards chooses the texts."""

    def use(number: int) -> None:
        compound = f"{number}_b-" * 2_000
        for text in (compound, "a" + "\u0301" * 5_000 + str(number)):
            analysis.tokenize(text)
            list(analysis.query_words(text))
            list(spans.spans(text))
            suggesting.joined_words(text)
            labels.unpacked(labels.packed(Suggestion(text, "skill", text)).encode())
            hit_json.cheapest(Cheapest(text, "1", "BSV", "none"))
            hit_json.lacking((text,) * 9)

    use(0)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(1, 6):
            use(number)
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 100_000


@pytest.mark.parametrize(
    "letters", [(0x4E00, 0x9FA5), (ord("A"), ord("Z")), (0x0E01, 0x0E2E)], ids=["han", "latin", "thai"]
)
@pytest.mark.parametrize(
    "function",
    [analysis.tokenize, analysis.query_words, spans.spans, suggesting.joined_words],
    ids=["tokens", "query", "spans", "completions"],
)
def test_memos_take_few_megabytes_whatever_words_strangers_choose(
    function: Callable[[str], Iterable[object]], letters: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memo, "MOST", memo.MOST // 16)
    chance = random.Random(1)
    words = [
        chance.choice(("", "_", "1")).join(chr(chance.randint(*letters)) for _ in range(chance.choice((4, 8, 16, 64))))
        for _ in range(3_000)
    ]
    tracemalloc.start()
    try:
        for word in words:
            deque(function(word), maxlen=0)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 6 << 20
