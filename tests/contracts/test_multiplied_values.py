"""Values that strangers can multiply make no request dearer: steps are counted, not time.

A first listing is what honest people write; the others have any number of currencies, intervals, amounts, skills, tags,
spellings and words, and are counted twice: so many, and three times as many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any

from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from parsers.cards import Skill
from parsers.cards.offers import Offer
from tests.contracts.listed import ask, listing, price, put
from tests.steps import python_steps_of

FEW, MANY = 80, 240
"""Hostile listings, more than a page is made from. Each has 16 of most values."""

RATES = {"EUR": Decimal("1.1"), "BSV": Decimal(40)}
LETTERS = "".join(map(chr, range(ord("a"), ord("a") + 16)))
TAG = "orchidpainting"
SPELLINGS = list(map("".join, islice(product(*zip(TAG, TAG.upper(), strict=True)), 16 * MANY)))

Ask = Callable[[SearchIndex], object]


def hostile(number: int) -> Document:
    numbers = range(16 * number, 16 * number + 16)
    return listing(
        f"9{number:05}",
        f"Names {' '.join(f'n{n}amed' for n in numbers)}",
        description=" ".join(anagram(n) for n in numbers) + "".join(f" orchi{anagram(n)}" for n in numbers),
        tags=[*(SPELLINGS[n] for n in numbers), *(f"\u00e9{n}" for n in numbers), *(f"tag{n}" for n in numbers)],
        skills=[Skill(f"skill{n}", f"Orchid skill {n}") for n in numbers],
        offers=[offer(n, currency) for n in numbers for currency in ("USD", "EUR", f"X{n}")],
    )


def anagram(number: int) -> str:
    """A word of the same letters as any other."""
    letters, word = LETTERS, ""
    for _ in range(8):
        number, index = divmod(number, len(letters))
        word, letters = word + letters[index], letters[:index] + letters[index + 1 :]
    return word + letters


def offer(number: int, currency: str) -> Offer:
    """A price that no double tells from the next one, per another number of days."""
    return price(f"1.00000000000{number:06}", currency, f"P{number + 1}D", *(f"Y{number}Z{n}" for n in range(4)))


def honest() -> Iterator[Document]:
    for number in range(3):
        offers = [price(str(number + 1), currency, "P1D") for currency in ("USD", "EUR", "BSV")]
        tags = (TAG, "\u00e9tude")
        yield listing(f"{number}", "Orchid painter", description="Paints orchids", tags=tags, offers=offers)


def searching(**query: Any) -> Ask:
    return lambda engine: ask(engine, **query)


REQUESTS: dict[str, Ask] = {
    "bounds in a currency": searching(max_price="5", price_currency="USD", rates=RATES, text="painter"),
    "bounds in any currency": searching(max_price="5", text="painter"),
    "the order of prices": searching(sort="price", price_currency="USD", text="painter"),
    "the order of prices by rates": searching(sort="price", price_currency="BSV", rates={"USD": Decimal("0.025")}),
    "the order of prices in any currency": searching(sort="price"),
    "the order of prices per day": searching(sort="price_per_day", price_currency="USD", text="painter"),
    "a currency": searching(currencies="EUR"),
    "an interval": searching(intervals="P1D", currencies="USD"),
    "a skill": searching(skills="skill0", max_price="5"),
    "a tag": searching(tags=TAG),
    "tags that may be a list": searching(tags=f"{TAG},tag1"),
    "values of all facets": searching(facets=("type", "skillId", "acceptedCurrency", "interval", "tag", "chain")),
    "values of a facet of some": searching(text="painter", facets=("tag",)),
    "values with a beginning": searching(facets=("tag",), facet_prefix="orch"),
    "values with a beginning beyond ASCII": searching(facets=("tag",), facet_prefix="\u00e9t"),
    "values of prices": searching(facets=("acceptedCurrency", "interval"), max_price="5", text="painter"),
    "a mistyped word": searching(text=f"{LETTERS[:9]}{LETTERS[10]}{LETTERS[9]}{LETTERS[11:]}"),
    "a word that is not finished": searching(text="orch"),
    "words of a question": searching(text="who paints an orchid for me and sends it home today"),
    "completions": lambda engine: engine.suggest("orch", 10),
    "completions of a second word": lambda engine: engine.suggest("orchid sk", 10),
}


def test_no_request_takes_more_steps_when_strangers_write_more(tmp_path: Path) -> None:
    engine, steps = SearchIndex(f"native:{tmp_path}/index"), list[dict[str, int]]()
    put(engine, *honest())
    for seq, numbers in enumerate((range(FEW), range(FEW, MANY)), 2):
        put(engine, *map(hostile, numbers), seq=seq)
        for request in REQUESTS.values():
            request(engine)  # reads the commit
        steps.append({name: python_steps_of(partial(request, engine)) for name, request in REQUESTS.items()})
    engine.close()
    few, many = steps
    more = 16 * (MANY - FEW)
    assert {name: (few[name], many[name]) for name in REQUESTS if many[name] - few[name] >= more} == {}
