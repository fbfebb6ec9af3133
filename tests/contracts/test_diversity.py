"""Nobody fills a page alone, and pages by number and by cursor agree."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.index import SearchIndex
from overlay.search.diversity import MOST, PAGE, diversified
from tests.contracts.listed import ask, ids, listing, put

sources = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=70)


@given(sources)
def test_at_most_three_of_a_source_are_before_others_on_a_page(given_sources: list[tuple[int, int]]) -> None:
    order = diversified(given_sources)
    assert sorted(order) == list(range(len(given_sources)))
    for start in range(0, len(order), PAGE):
        page, counts, follows = order[start : start + PAGE], Counter[tuple[int, int]](), False
        for at in page:
            own = [(kind, source) for kind, source in enumerate(given_sources[at]) if source]
            is_over = any(counts[each] >= MOST for each in own)
            assert is_over or not follows  # those within the limit come first
            follows = is_over
            counts.update([] if is_over else own)


def flood() -> list[Any]:
    """Thirty listings of one owner about one word, and five of others that say more besides."""
    spam = [listing(f"1{at:02}", "Invoice", owner="mallory", tags=(f"t{at}",)) for at in range(30)]
    more = "invoice among many other words that a longer text has"
    return [*spam, *(listing(f"9{at}", "Helper", owner=f"o{at}", description=more) for at in range(5))]


def test_one_owner_does_not_fill_the_first_page(engine: SearchIndex) -> None:
    put(engine, *flood())
    found = ids(ask(engine, "invoice", limit=20))
    assert [id_[0] for id_ in found] == ["1"] * 3 + ["9"] * 5 + ["1"] * 12


def test_one_verified_domain_shares_no_places_with_strangers_that_name_it(engine: SearchIndex) -> None:
    strangers = [listing(f"1{at}", "Invoice", owner=f"s{at}", domain="api.v.example") for at in range(8)]
    more = "invoice and what else is said of it in a longer text"
    victim = listing("9", "Helper", owner="v", domain="v.example", verified=True, description=more)
    others = [listing(f"8{at}", "Office", owner=f"o{at}", description=more) for at in range(3)]
    put(engine, *strangers, victim, *others)
    found = ids(ask(engine, "invoice"))
    assert set(found[3:7]) == {"9", "80", "81", "82"}


@pytest.mark.parametrize("descending", [None, False])
@pytest.mark.parametrize("limit", [1, 7, 20])
def test_pages_by_number_and_by_cursor_agree(engine: SearchIndex, limit: int, descending: bool | None) -> None:
    put(engine, *flood())
    whole = ask(engine, "invoice", limit=100, descending=descending)
    keys = [hit.sort_key for hit in whole.hits]
    assert keys == sorted(keys, reverse=descending is False)
    assert len(set(keys)) == whole.total == 35
    numbered, after, followed = [], None, []
    for offset in range(0, 35, limit):
        numbered += ids(ask(engine, "invoice", limit=limit, offset=offset, descending=descending))
        page = ask(engine, "invoice", limit=limit, after=after, offset=0, descending=descending)
        followed += ids(page)
        after = page.hits[-1].sort_key
    assert numbered == followed == ids(whole)
