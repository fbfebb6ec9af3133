"""The names that a text may be: any text is read, and names of packages are compared as their registries compare
them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.api.lookups import LONGEST, lookups
from parsers.cards.command_packages import package_key

PIECE = st.sampled_from(
    ["ab" * 32, "_0", "i99999999999", "@", "/", "==", "1.2", "ord://", "https://", "npx", " ", "#", ":", "é", "%40"]
)


@given(st.lists(PIECE | st.text(max_size=4), max_size=8).map("".join))
def test_any_text_is_read_and_names_no_fact_without_a_value(text: str) -> None:
    for lookup in lookups(text):
        assert lookup.facts
        assert all(fact.partition(":")[2] or fact == "package:" for fact in lookup.facts)


def test_words_and_long_texts_are_not_looked_up() -> None:
    for text in ("", "weather", "two words", "-y", '"a.example"', "a.example " * LONGEST, "x." * LONGEST):
        assert lookups(text) == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Foo_Bar.baz", "foo-bar-baz==1.2"),
        ("@Scope/Name@1.2.3", "@scope/name"),
        ("docker.io/library/redis:7", "redis"),
        ("ghcr.io/o/image@sha256:" + "0" * 64, "ghcr.io/o/image:latest"),
        ("localhost:5000/o/image:1", "localhost:5000/o/image"),
    ],
)
def test_names_of_one_package_are_one(one: str, other: str) -> None:
    assert package_key(one) == package_key(other)
    assert package_key("@a/b") != package_key("@a/c") != package_key("b")
