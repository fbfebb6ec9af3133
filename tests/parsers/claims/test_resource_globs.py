"""Resource patterns of DelegateOS §10.2 beside a naive reader, and parts of patterns beside enumerated paths."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.claims.delegateos.resource_globs import is_part, matches

Segments = tuple[str, ...]


def naive(pattern: Segments, path: Segments) -> bool:
    """§10.2, word for word: `*` is any single segment, `**` zero or more, another segment itself."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(naive(pattern[1:], path[taken:]) for taken in range(len(path) + 1))
    return bool(path) and pattern[0] in ("*", path[0]) and naive(pattern[1:], path[1:])


def tuples(alphabet: str, longest: int) -> list[Segments]:
    return [
        segments
        for length in range(1, longest + 1)
        for segments in product(alphabet.split(","), repeat=length)
        if segments != ("*",)  # alone it is anything, not one segment
    ]


PATTERNS, PATHS = tuples("a,b,*,**", 3), tuples("a,b,c", 6)


def test_patterns_match_what_the_specification_says() -> None:
    for pattern in PATTERNS:
        for path in PATHS:
            assert matches("/".join(pattern), "/".join(path)) == naive(pattern, path), (pattern, path)


def test_a_pattern_is_part_of_another_exactly_where_it_matches_no_other_path() -> None:
    matched = {pattern: {path for path in PATHS if naive(pattern, path)} for pattern in PATTERNS}
    for child, parent in product(PATTERNS, PATTERNS):
        assert is_part("/".join(child), "/".join(parent)) == (matched[child] <= matched[parent]), (child, parent)


SEGMENTS = st.sampled_from(["a", "b", "", "\0", ".", "*", "**", "a*", "/"])
PATTERN = st.lists(SEGMENTS, min_size=1, max_size=6).map("/".join)
PATH = st.lists(st.sampled_from(["a", "b", "c", "", "\0", "..", "a*", "*"]), min_size=1, max_size=8).map("/".join)


@settings(max_examples=1_000, deadline=None)
@given(PATTERN, PATH)
def test_long_and_odd_patterns_match_as_a_naive_reader_has_it(pattern: str, path: str) -> None:
    by_rule = naive(tuple(pattern.split("/")), tuple(path.split("/")))
    assert matches(pattern, path) == (by_rule or pattern in ("*", path))


@settings(max_examples=1_000, deadline=None)
@given(PATTERN, PATTERN, PATH)
def test_what_a_part_matches_its_parent_matches(child: str, parent: str, path: str) -> None:
    if is_part(child, parent) and matches(child, path):
        assert matches(parent, path)


@pytest.mark.parametrize(
    ("child", "parent", "is_so"),
    [
        ("/project", "/project/**", True),
        ("/project/", "/project/**", True),
        ("/project/**", "/project/**/*", False),
        ("/project/**/*", "/project/**", True),
        ("/**/project", "/project", False),
        ("/project", "/**/project", True),
        ("a/**/**", "a/**", True),
        ("a/**", "a/**/**", True),
        ("**/*", "**/\0", False),
        ("**", "*/**", True),
        ("*", "**", True),
        ("**", "*", True),
        ("/project/..", "/project/**", False),
    ],
)
def test_examples_of_parts(child: str, parent: str, is_so: bool) -> None:
    assert is_part(child, parent) is is_so
