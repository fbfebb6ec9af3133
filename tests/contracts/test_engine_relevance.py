"""Long questions, which describe what is sought, on every engine: forgiving, what is close, and pages of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from overlay.engines import Engine, open_engine
from overlay.search.closeness import MOST
from tests.contracts.listed import ask, found, ids, listing, put


def test_words_that_stand_together_bring_a_listing_to_the_front(engine: Engine) -> None:
    put(
        engine,
        listing("1", "Search", description="vector tools for a graph, store and database"),
        listing("9", "Search", description="graph tools for a store and vector database"),
        *(listing(f"2{at}", f"Other {at}") for at in range(9)),
    )
    assert ids(ask(engine, "store and search a vector database"))[:2] == ["9", "1"]
    assert ids(ask(engine, "vector database")) == ["1", "9"], "a short question is answered as it was: by seniority"


def test_what_is_said_first_counts_most(engine: Engine) -> None:
    put(engine, listing("1", "Figma"), listing("2", "Slack"), *(listing(f"3{at}", "Other") for at in range(9)))
    assert ids(ask(engine, "figma designs are posted with comments to slack")) == ["1", "2"]
    assert ids(ask(engine, "slack shows designs with comments of figma")) == ["2", "1"]


def test_a_word_of_four_letters_may_have_lost_one_in_a_long_question(engine: Engine) -> None:
    put(engine, listing("1", "Token"), listing("2", "Other"))
    assert found(engine, "some tokn that we seek") == {"1"}
    assert found(engine, "some TOKN that we seek") == set(), "a ticker is meant as it is written"
    assert found(engine, "some tokn") == set()


def test_a_word_that_hardly_any_listing_holds_may_be_mistyped(engine: Engine) -> None:
    put(engine, listing("typo", "Sevrer"), *(listing(f"1{at:02}", "Server") for at in range(40)))
    for question in ("sevrer", "one sevrer", "the best sevrer we have"):
        assert len(found(engine, question)) == 41
        assert ids(ask(engine, question))[0] == "typo"
    put(engine, *(listing(f"typo{at}", "Sevrer", height=500 + at) for at in range(3)), seq=2)
    assert found(engine, "sevrer") == {"typo", "typo0", "typo1", "typo2"}, "as many may mean it"


def test_a_mistyped_part_of_a_compound_does_not_hide_the_others(engine: Engine) -> None:
    put(engine, listing("1", "Driven"), listing("2", "Data"), listing("3", "Other"))
    assert found(engine, "we seek xyzxyz-driven tools") == {"1"}
    assert found(engine, "we seek data-qqqqq tools") == {"2"}


def test_of_guesses_for_a_mistyped_word_the_commoner_one_comes_first(engine: Engine) -> None:
    put(
        engine, *(listing(f"1{at:02}", "Search" if at < 10 else "Other") for at in range(70)), listing("rare", "Servch")
    )
    assert ids(ask(engine, "serach", limit=50))[-1] == "rare"
    assert ids(ask(engine, "we seek a serach here", limit=50))[-1] == "rare"


def test_two_errors_are_only_forgiven_in_a_long_question_where_one_explains_nothing(engine: Engine) -> None:
    put(engine, listing("one", "Translation"), listing("two", "Transmation"))
    assert found(engine, "translatoin well") == {"one", "two"}
    assert found(engine, "we seek translatoin here") == {"one"}
    assert found(engine, "we seek transmatoni here") == {"two"}


@pytest.fixture(scope="module")
def crowds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Engine]]:
    """Engines with more listings than closeness looks at, whose points tie in rows."""
    made = [open_engine(f"{name}:{tmp_path_factory.mktemp(name)}") for name in ("tantivy", "whoosh")]
    says = ("alpha beta gamma", "gamma beta alpha", "alpha gamma", "delta alpha beta", "beta")
    documents = [
        listing(f"{at * 7919 % 1000:03}", says[at % 5], description=says[at % 3], height=at % 4) for at in range(150)
    ]
    for engine in made:
        put(engine, *documents)
    yield made
    for engine in made:
        engine.close()


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("text", ["alpha beta gamma delta", "nothing but gamma then beta"])
@pytest.mark.parametrize("narrow", [{}, {"statuses": "live"}, {"facets": "tag"}])
def test_pages_of_a_long_question_are_parts_of_the_whole(
    crowds: list[Engine], text: str, narrow: dict[str, str], *, descending: bool
) -> None:
    whole = ask(crowds[0], text, limit=500, descending=descending).hits
    assert len(whole) > 2 * MOST
    keys = [hit.sort_key for hit in whole]
    assert keys == sorted(keys, reverse=not descending)
    for engine in crowds:
        assert ask(engine, text, limit=500, descending=descending, **narrow).hits == whole
        for at in (0, 1, MOST - 8, MOST - 1, MOST, len(whole) - MOST - 3, len(whole) - MOST, len(whole) - 5):
            assert ask(engine, text, limit=9, offset=at, descending=descending, **narrow).hits == whole[at:][:9]
            after = whole[at].sort_key
            assert ask(engine, text, limit=9, after=after, descending=descending).hits == whole[at + 1 :][:9]
