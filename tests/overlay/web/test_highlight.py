"""Excerpts of a result from texts that are not on its card."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from overlay.text.safe_text import visible
from overlay.web.highlight import excerpt

WATCH: dict[str, Any] = {
    "name": "Watchtower", "summary": "It watches.",
    "description": f"It watches. {'Very ' * 40}closely, <b>all day</b>.", "tags": ["lightning", "guard"],
    "skills": [{"id": "s", "name": "Penalty", "description": "Sends penalties."}],
}  # fmt: skip
ON_CARD = ("/name", "/summary", "/tags/0")


def test_a_result_says_in_an_excerpt_what_its_card_does_not() -> None:
    position = WATCH["description"].index("all")
    snippet = excerpt(WATCH, {"/summary": ((3, 10),), "/description": ((3, 10), (position, position + 3))}, ON_CARD)
    assert snippet is not None
    assert snippet.kind == "description"
    assert snippet.text.startswith("…Very")
    assert snippet.text.endswith("closely, &lt;b&gt;<mark>all</mark> day&lt;/b&gt;.")
    snippet = excerpt(WATCH, {"/name": ((0, 10),), "/skills/0/description": ((6, 15),)}, ON_CARD)
    assert snippet is not None
    assert snippet.kind == "skill"
    assert snippet.text == "Sends <mark>penalties</mark>."


def test_a_result_repeats_nothing_that_its_card_says() -> None:
    assert excerpt(WATCH, {}, ON_CARD) is None
    assert excerpt(WATCH, {"/name": ((0, 10),), "/tags/0": ((0, 9),)}, ON_CARD) is None
    assert excerpt(WATCH, {"/summary": ((3, 10),), "/description": ((3, 10),)}, ON_CARD) is None
    other = excerpt(WATCH, {"/name": ((0, 10),), "/tags/1": ((0, 5),)}, ON_CARD)
    assert other is not None
    assert (other.kind, other.text) == ("tag", "<mark>guard</mark>")


@given(
    st.text(max_size=400),
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 40)), min_size=1, max_size=6),
)
def test_an_excerpt_is_a_short_piece_of_any_text_with_a_mark_in_it(text: str, drawn: list[tuple[int, int]]) -> None:
    ranges: list[tuple[int, int]] = []
    for start, length in sorted(drawn):
        if (not ranges or start > ranges[-1][1]) and start + length <= len(text):
            ranges.append((start, start + length))
    item = {**WATCH, "description": text}
    result = excerpt(item, {"/description": tuple(ranges)}, ON_CARD) if ranges else None
    if result is not None:
        plain = result.text.replace("<mark>", "").replace("</mark>", "").removeprefix("…").removesuffix("…")
        assert plain in str(escape(visible(text)))
        assert "<mark>" in result.text
        assert len(result.text.unescape()) < 140 * 10
