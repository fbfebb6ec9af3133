"""One change of a JSON document, for the law that no change of a signed document verifies."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st


def values(numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """JSON values with these numbers."""
    return st.recursive(
        st.none() | st.booleans() | numbers | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    )


ANY_JSON = values(st.integers() | st.floats())
"""With numbers, too, that JSON or RFC 8785 has not."""

JSON = values(st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False))


@st.composite
def mutated(draw: st.DrawFn, value: Any) -> Any:
    """A value that differs from `value`: a member of it replaced, dropped, added or changed in itself."""
    if isinstance(value, dict) and value and draw(st.integers(0, 3)):
        name = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 4)):
            return {**value, name: draw(mutated(value[name]))}
        return {key: member for key, member in value.items() if key != name}
    if isinstance(value, dict):
        return {**value, draw(st.text(max_size=3).filter(lambda key: key not in value)): draw(JSON)}
    if isinstance(value, list) and value and draw(st.booleans()):
        index = draw(st.integers(0, len(value) - 1))
        return [*value[:index], draw(mutated(value[index])), *value[index + 1 :]]
    if isinstance(value, list):
        return [*value, draw(JSON)]
    if isinstance(value, str) and value and draw(st.booleans()):
        index = draw(st.integers(0, len(value) - 1))
        return (
            value[:index] + draw(st.characters(codec="utf-8").filter(lambda c: c != value[index])) + value[index + 1 :]
        )
    if isinstance(value, int) and not isinstance(value, bool):
        return value + draw(st.integers(1, 9))
    return draw(JSON.filter(lambda other: other != value))
