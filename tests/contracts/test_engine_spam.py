"""Nobody gets to the first page by inscribing more: floods of cheap cards against a few listings that mean it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from overlay.document import Document
from overlay.engines import Cursor, Engine, open_engine
from tests.contracts.listed import EPOCH, ask, ids, listing, price

FLOOD = {"tantivy": 10_000, "whoosh": 300}
"""Cards. Whoosh takes long to index, and is for few."""
QUESTIONS = ("payment gateway", "paymnet gatewya", "a payment gateway that takes cards and coins")
HONEST = "Takes a payment by card, coin or bank transfer, and pays out the same day."

Spam = Callable[[int], Document]


@pytest.fixture(params=list(FLOOD))
def flood(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    """Fills an engine with spam, newer than all honest listings."""
    engine = open_engine(f"{request.param}:{tmp_path / 'index'}")

    def fill(spam: Spam, *honest: Document) -> Engine:
        others = [listing(f"o{at}", f"Other {at}", description="Something else for everybody") for at in range(50)]
        cards = [spam(at) for at in range(FLOOD[request.param])]
        engine.replace([], [*honest, *others, *cards], Cursor(EPOCH, 1))
        return engine

    yield fill
    engine.close()


def honest(id_: str = "honest", **more: object) -> Document:
    """A listing that is what people look for."""
    return listing(id_, **{"name": "Payment gateway", "description": HONEST, "height": 1, **more})


def card(at: int, name: str, **more: object) -> Document:
    """Spam of an owner of its own, newer than what is honest."""
    return listing(f"spam{at}", name, **{"owner": f"nobody{at}", "height": 1_000 + at, **more})


def first(engine: Engine, question: str) -> str:
    """The first listing of page one."""
    return ids(ask(engine, question, limit=20))[0]


def test_cards_that_repeat_a_word_do_not_come_before_one_that_means_it(flood: Callable[..., Engine]) -> None:
    def spam(at: int) -> Document:
        words = "payment gateway " * (10 + at % 20)
        where = [{"name": words}, {"description": words}, {"tags": tuple(words.split()[:64])}][at % 3]
        return card(at, **{"name": f"Payment gateway {at}", "description": words, **where})

    engine = flood(spam, honest(), honest("proved", verified=True))
    for question in QUESTIONS:
        assert first(engine, question) == "proved"
        scores = {hit.id: hit.score for hit in ask(engine, question, limit=20_000).hits}
        cards = [score for id_, score in scores.items() if id_.startswith("spam")]
        assert scores["honest"] >= max(cards), "none has more points than one that is not verified"


def test_cards_that_list_all_words_come_behind_those_that_say_a_few(flood: Callable[..., Engine]) -> None:
    every = " ".join(f"card coin bank transfer take cards coins keyword{at}" for at in range(12))
    engine = flood(lambda at: card(at, f"Number {at}", description=f"payment {every} gateway"), honest())
    assert [first(engine, question) for question in QUESTIONS] == ["honest"] * 3


@pytest.mark.parametrize(("length", "places"), [(12, 10), (20, 20)])
def test_cards_that_list_all_words_do_not_hide_those_that_mean_two_of_three(
    flood: Callable[..., Engine], length: int, places: int
) -> None:
    every = " ".join(f"card coin bank transfer take cards coins keyword{at}" for at in range(length))
    meant = [honest(f"honest{at}") for at in range(20)]
    engine = flood(lambda at: card(at, f"Number {at}", description=f"payment stripe {every} gateway"), *meant)
    for question in ("payment gateway stripe", "stripe paymnet gatewya"):
        page = ids(ask(engine, question, limit=20))
        assert len({each.id for each in meant}.intersection(page)) == places


def test_cards_whose_name_or_tags_list_all_words_come_behind_one_that_describes_them(
    flood: Callable[..., Engine],
) -> None:
    every = ("payment", "gateway", "card", "coin", "bank", "transfer", "take", *(f"keyword{at}" for at in range(57)))

    def spam(at: int) -> Document:
        return card(at, " ".join(every)) if at % 2 else card(at, f"Number {at}", tags=every)

    engine = flood(spam, honest(name="Acme", description=f"A payment gateway. {HONEST}"))
    assert [first(engine, question) for question in QUESTIONS] == ["honest"] * 3


def test_cards_that_no_block_holds_come_behind_one_that_is_mined(flood: Callable[..., Engine]) -> None:
    def spam(at: int) -> Document:
        return card(at, "Payment gateway", description=HONEST, status="pending", height=None)

    engine = flood(spam, honest())
    assert [first(engine, question) for question in QUESTIONS] == ["honest"] * 3


def test_cards_that_come_later_do_not_take_all_of_a_page_without_words(flood: Callable[..., Engine]) -> None:
    offers = [price("0.01", "BSV", id="o")]
    others = [honest(f"honest{at}", height=1 + at, tags=("pay",), offers=offers) for at in range(12)]
    engine = flood(lambda at: card(at, f"Card {at}", tags=("pay",), offers=offers), *others)
    for narrow in ({"tags": "pay"}, {"currencies": "BSV"}, {"max_price": "0.02"}, {"chains": "bsv", "tags": "pay"}):
        page = ids(ask(engine, limit=20, **narrow))
        assert page[5:15] == [f"honest{at}" for at in range(10)]
        assert ids(ask(engine, sort="updated", limit=10, **narrow)) == [*page[:5], *page[15:]]


def test_a_verified_listing_comes_before_any_number_of_cards_that_say_the_same(flood: Callable[..., Engine]) -> None:
    engine = flood(lambda at: card(at, "Payment gateway", description=HONEST), honest(verified=True))
    assert [first(engine, question) for question in QUESTIONS] == ["honest"] * 3


def test_being_verified_does_not_replace_saying_it(flood: Callable[..., Engine]) -> None:
    told = "Tells how warm it will be tomorrow wherever you are, hour by hour, with maps of rain and wind; no payment."
    engine = flood(lambda at: card(at, f"Weather {at}", description=told, verified=True), honest("honest", height=1))
    assert first(engine, "payment") == "honest"
    assert first(engine, "weather").startswith("spam")
