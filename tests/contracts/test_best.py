"""The best of more listings than are counted, in PostgreSQL: found from the top, and the same as of all."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.engines import Engine, open_engine
from overlay.engines.postgres import best, lexemes, search
from overlay.engines.postgres.question import Ladder
from overlay.query import Operators
from overlay.search import kept
from overlay.search.closeness import MOST
from tests.contracts.listed import ask, listing, put
from tests.contracts.test_many import FEW, pages
from tests.databases import new_index

SAID = ("alpha", "alphabet", "beta", "gamma", "delta", "web", "search", "webSearch", "alpine")


@pytest.fixture(autouse=True)
def keep_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places are kept where more is found than is counted here."""
    monkeypatch.setattr(kept, "PAGE", FEW - 1)


@pytest.fixture(scope="module")
def crowd(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Listings that say a few words at all levels; some tie."""
    with closing(open_engine(new_index("postgres", request, tmp_path_factory.mktemp("crowd")))) as opened:
        chance = random.Random(5)

        def some(most: int) -> str:
            return " ".join(chance.choices(SAID, k=chance.randrange(most)))

        put(
            opened,
            *(listing(f"{at}", some(3) or "Nameless", description=some(12), tags=tuple(set(some(3).split())),
                      owner="alice" if at % 11 else "bob", time=1_700_000_000 + at // 3,
                      kind="tool" if at % 4 else "agent", status="burned" if at % 9 == 7 else "live")
              for at in range(120)),
        )  # fmt: skip
        yield opened


@pytest.mark.parametrize(
    "text",
    ["alpha", "alpah", "alp", "web_search", "alpha beta", "beta gamma delta", "gamma web_search", "alpha zzzz",
     "gamma then beta", "nothing but alpha then beta", "a web search for delta gamma alpha alpine and beta"],
)  # fmt: skip
@pytest.mark.parametrize(
    "query", [{}, {"kind": "tool"}, {"statuses": ("live", "burned")}, {"descending": False}],
    ids=["all", "tools", "burned-too", "worst-first"],
)  # fmt: skip
@pytest.mark.parametrize("few", [1, 4, 2_000])
def test_the_best_of_many_are_those_that_looking_at_all_of_them_finds(
    crowd: Engine, monkeypatch: pytest.MonkeyPatch, text: str, query: dict[str, Any], few: int
) -> None:
    exact = [(hits.total, hits.hits) for hits in pages(crowd, text=text, **query)]
    assert exact[0][0] > FEW
    monkeypatch.setattr(search, "EXACT", FEW)
    monkeypatch.setattr(best, "FEW", few)
    many = [(hits.total, hits.hits) for hits in pages(crowd, text=text, **query)]
    assert [hits for _, hits in many] == [hits for _, hits in exact]
    assert {total for total, _ in many} == {FEW}


@pytest.mark.parametrize("narrow", [{"owners": "bob"}, {"operators": Operators(not_tags=("alpha",))}])
def test_of_a_common_word_few_that_a_filter_leaves_are_counted(
    crowd: Engine, monkeypatch: pytest.MonkeyPatch, narrow: dict[str, Any]
) -> None:
    exact = ask(crowd, "alpha", **narrow).total
    assert 0 < exact < ask(crowd, "alpha").total
    monkeypatch.setattr(search, "EXACT", exact)
    hits = ask(crowd, "alpha", **narrow)
    assert (hits.total, hits.at_least) == (exact, False)


LADDERS = st.lists(st.integers(0, 40), min_size=1, max_size=7, unique=True).map(lambda points: sorted(points)[::-1])


@given(st.lists(LADDERS, min_size=1, max_size=9), st.data(), st.booleans(), st.integers(1, 8), st.integers(1, 9))
def test_whoever_can_have_so_many_points_is_asked_for(
    points: list[list[int]], data: st.DataObject, every: bool, steps: int, apart: int
) -> None:
    ladders = [
        Ladder(tuple((made, lexemes.quoted(f"t{word}/{made}")) for made in each), exact=True)
        for word, each in enumerate(points)
    ]
    holds = [data.draw(st.sampled_from(each if every else [*each, None])) for each in points]
    held = {f"t{word}/{made}" for word, made in enumerate(holds) if made is not None}
    least = data.draw(st.integers(0, sum(each.most for each in ladders)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(best, "_STEPS", dict.fromkeys(range(1, 10), steps))
        patch.setattr(best, "_TOLD_APART", apart)
        asked = best.reaching(ladders, least, every=every)
    enough = sum(made or 0 for made in holds) >= least
    if asked is not None and enough:
        assert is_met(asked, held)
    if asked is not None and apart == 9 and steps >= 7:  # then it tells exactly
        assert is_met(asked, held) == enough


def is_met(asked: str, held: set[str]) -> bool:
    """Whether a document that holds some lexemes is asked for."""
    said = re.sub(r"'([^']*)'", lambda found: str(found[1] in held), asked)
    return bool(eval(said.replace("&", " and ").replace("|", " or ")))  # noqa: S307 - of what was made here


def test_the_best_are_looked_for_where_that_is_less_than_looking_at_all(
    crowd: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_for: list[int] = []

    def found(self: best.Best) -> list[Any]:
        looked_for.append(self.number)
        return []

    monkeypatch.setattr(search, "EXACT", FEW)
    monkeypatch.setattr(best.Best, "found", found)
    for hits in (
        ask(crowd, "alpha", limit=3),
        ask(crowd, "alpha beta", limit=3, kind="tool"),
        ask(crowd, "beta", limit=3, offset=6),
        ask(crowd, "nothing but gamma then beta", limit=3),
    ):
        assert (hits.total, hits.at_least, hits.hits) == (FEW, True, ())
    assert looked_for == [5, 5, 9, MOST]  # behind five places are kept, and closeness counts where there are more words
    looked_for.clear()
    assert ask(crowd, "alpha", sort="updated").hits
    assert ask(crowd, "alpha", descending=False).hits
    assert not looked_for
