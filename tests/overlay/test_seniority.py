"""Since when a listing has said what it says: what keeps that moment, and what makes it begin anew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from indexer.store import FetchState
from overlay.api.asked import from_pairs
from overlay.api.extras import extras
from overlay.catalogue import Catalogue
from overlay.search.coverage import COVERED
from tests.facts import at as place
from tests.overlay.test_copies import Registry, again, inscribed, named, opened
from tests.pointing import card, points, serves

SAID = "Takes payment by card, coin or {} transfer"


def pays(name: str, what: str = "bank", **more: Any) -> bytes:
    return card(name, url=f"https://{name.lower()}.example/", description=SAID.format(what), **more)


@pytest.fixture(params=["tantivy", "whoosh"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Registry]:
    with opened(request.param, tmp_path) as made:
        yield made


def order(registry: Registry, text: str = "payment") -> list[str]:
    return [named(hit.id) for hit in registry.ask(text=text).hits]


def test_who_has_a_price_for_a_skill_that_he_does_not_tell_of_says_something_else(registry: Registry) -> None:
    bodies = {name.lower()[0]: pays(name) for name in ("Alpha", "Beta")}
    for label, (id_, body) in enumerate(bodies.items(), 1):
        registry.block(str(label), inscribed(id_, body, height=label), bodies=(body,))
    price = {"id": "o", "name": "O", "amount": "9", "currency": "USD", "skillIds": ["find"]}
    aimed = pays("Alpha", **{"x-payment-config": [price]})
    registry.block("3", again("a", aimed, 3), bodies=(aimed,))
    assert order(registry) == ["b", "a"]


def test_who_says_something_else_has_said_it_since_then(registry: Registry) -> None:
    first, second, third = (pays(name) for name in ("Alpha", "Beta", "Gamma"))
    for label, (id_, body) in enumerate((("a", first), ("b", second), ("c", third)), 1):
        registry.block(str(label), inscribed(id_, body, height=label), bodies=(body,))
    assert order(registry) == ["a", "b", "c"]
    dearer = pays("Alpha", **{"x-payment-config": [{"id": "o", "name": "O", "amount": "9", "currency": "USD"}]})
    registry.block("4", again("a", dearer, 4), bodies=(dearer,))
    assert order(registry) == ["a", "b", "c"], "a price is nothing that it says"
    better = pays("Alpha", "quick")
    registry.block("5", again("a", better, 5), bodies=(better,))
    assert order(registry) == ["b", "c", "a"]
    renamed = pays("Delta")
    registry.block("6", again("b", renamed, 6), bodies=(renamed,))
    assert order(registry) == ["c", "a", "b"]
    before = order(registry)
    registry.feed.rebuild()
    assert order(registry) == before
    registry.writer.forget("demo", 5)
    registry._prev["demo"] = "5"
    assert order(registry) == ["b", "c", "a"]


@pytest.mark.parametrize(
    "more",
    [{"description": "Takes payment by card, coin or bank transfer 1Gateway"},
     {"description": "Takes payment by card, coin or p-a-y-o-u-t bank transfer"},
     {"description": "Takes payment by card, coin or bank transfer for ai agents"},
     {"description": "Takes payment by card, coin or k8s bank transfer"},
     {"tags": ["payment"]}, {"tags": ["payments"]}, {"name": "Beta payment"}],
    ids=["glued", "spelt", "common", "short form", "louder", "another form", "name"],
)  # fmt: skip
def test_no_word_is_added_without_beginning_anew_though_a_domain_speaks_for_it(
    registry: Registry, more: dict[str, Any]
) -> None:
    bodies = [pays(name) for name in ("Alpha", "Beta", "Gamma")]
    for label, (id_, body) in enumerate(zip("abc", bodies, strict=True), 1):
        registry.block(str(label), inscribed(id_, body, height=label), bodies=(body,))
    before = since(registry, "b")
    newer = card("Beta", **{"url": "https://beta.example/", "description": SAID.format("bank"), **more})
    registry.block("4", again("b", newer, 4), bodies=(newer,))
    registry.badge("b", "beta.example", newer)
    assert since(registry, "b") > before
    assert since(registry, "a") < before < since(registry, "c")


def test_words_that_leave_a_long_list_of_tags_begin_anew_as_they_get_louder(registry: Registry) -> None:
    every = [f"trade{at}" for at in range(60)]
    before, after = (
        pays("Alpha", skills=[{"id": "pay"}, *({"id": word} for word in every[tags:])], tags=every[:tags])
        for tags in (60, 30)
    )
    registry.block("1", inscribed("a", before), bodies=(before,))
    first = since(registry, "a")
    registry.block("2", again("a", after, 2), bodies=(after,))
    assert since(registry, "a") > first


def test_order_and_punctuation_are_no_words(registry: Registry) -> None:
    body = pays("Alpha")
    registry.block("1", inscribed("a", body), bodies=(body,))
    before = since(registry, "a")
    newer = card("ALPHA", url="https://other.example/", description="By card -- coin, or bank transfer: takes payment!")
    registry.block("2", again("a", newer, 2), bodies=(newer,))
    assert since(registry, "a") == before


def test_a_card_that_is_served_again_has_been_said_since_then(registry: Registry) -> None:
    first, other = pays("Alpha"), pays("Beta")
    registry.block("1", points("pay.example"))
    moments = []
    for body in (first, first, other, first, first):
        for _ in range(2_000):  # milliseconds
            now = registry.clock.tick()
        registry.writer.note_fetched("pay.example", serves(now, body, state=FetchState.UNHASHED))
        moments.append(since(registry, "pay.example"))
    one, again, two, three, still = moments
    assert one == again < two < three == still


def since(registry: Registry, id_: str) -> int:
    documents = Catalogue(registry.store).documents([id_ if "." in id_ else str(place(id_))])
    (found,) = [each.said_since for each in documents if each.until_height is None]
    assert found is not None
    return found


def test_a_kept_place_is_explained(registry: Registry) -> None:
    chance = Random(6)
    words = ["".join(chance.choices("bcdfghjkmnoqrstuvwxz", k=7)) for _ in range(900)]
    old = card("Alpha", description=f"Payment by {' '.join(words[:6])}", url="https://alpha.example/")
    registry.block("1", inscribed("old", old), bodies=(old,))
    loud = [card(f"Payment {one}", description=f"Payment {other} {one[::-1]}", url=f"https://{one}.example/")
            for one, other in zip(words[100:130], words[200:230], strict=True)]  # fmt: skip
    said = (inscribed(f"n{at}", body, owner=f"o{at}", height=2) for at, body in enumerate(loud))
    registry.block("2", *said, bodies=tuple(loud))
    registry.feed.run()
    asked = from_pairs((("q", "payment"), ("explain", "1")), {"demo": "demo:regtest"})
    hits, _ = extras(registry.engine, asked, registry.engine.search(asked.query))
    items = [json.loads(hit.item) for hit in hits.hits]
    assert [named(each["id"]) for each in items].index("old") == 5
    told = [each["explain"] for each in items[:7]]
    assert [each["seniority"] > 0 for each in told] == [False] * 5 + [True, False]
    assert {each["points"] for each in told} == {told[0]["points"]}
    for each in told:
        assert each["points"] == sum(word["points"] for word in each["words"]) + each["seniority"]
        assert each["closeness"] == each["coverage"] == 0


def test_to_hold_all_words_where_nobody_means_them_is_explained(registry: Registry) -> None:
    bodies = [card(f"Payment gateway {at}", url=f"https://g{at}.example/") for at in range(3)]
    bodies.append(card("Zork", description=" ".join(["stripe payment", *map(hex, range(200)), "gateway"])))
    said = (inscribed(f"n{at}", body, owner=f"o{at}", height=1) for at, body in enumerate(bodies))
    registry.block("1", *said, bodies=tuple(bodies))
    registry.feed.run()
    asked = from_pairs((("q", "payment gateway stripe"), ("explain", "1")), {"demo": "demo:regtest"})
    hits, _ = extras(registry.engine, asked, registry.engine.search(asked.query))
    told = {item["name"]: item["explain"] for item in (json.loads(hit.item) for hit in hits.hits)}
    assert {name: each["coverage"] for name, each in told.items() if each["coverage"]} == {"Zork": COVERED}
    assert len(told) == 4
    for each in told.values():
        assert each["points"] == sum(word["points"] for word in each["words"]) + each["coverage"]
