"""Crowds and ages in an index that follows the store: told on items, in answers, after reorganisations, made anew."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from overlay import feed
from overlay.api.asked import from_pairs
from overlay.api.extras import extras
from overlay.copies.ages import SINCE
from overlay.copies.crowds import ALIKE, NAMED
from overlay.document import Document
from overlay.engines import Cursor
from overlay.search.ranking import LEVELS, QUIET
from tests.facts import burned, says
from tests.overlay.test_copies import Registry, again, inscribed, named, opened
from tests.pointing import card, points, serves

DAY = 86_400
SAID = "Takes a payment by card, coin or bank transfer, and pays out the same day"


def like(number: int) -> bytes:
    """One of a crowd: its name, its URL and its price are its own."""
    offer = {"id": "o", "name": "O", "amount": f"{number}.5", "currency": "USD", "interval": None}
    said = f"{SAID}, version {number}."
    return card(
        f"Gateway {number}", url=f"https://{number}.example/", description=said, **{"x-payment-config": [offer]}
    )


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with opened("tantivy", tmp_path) as made:
        yield made


def crowd(registry: Registry, label: str, first: int, last: int, **more: Any) -> None:
    """A block that holds some of a crowd, each of an owner of its own."""
    bodies = [like(number) for number in range(first, last)]
    said = [
        inscribed(f"g{number}", body, owner=f"o{number}", height=int(label), **more)
        for number, body in zip(range(first, last), bodies, strict=True)
    ]
    registry.block(label, *said, bodies=tuple(bodies))


def told(registry: Registry) -> list[str]:
    """Who is told to be of a crowd."""
    found = registry.found(text="")
    return sorted(id_ for id_, item in found.items() if "crowded" in {each["code"] for each in item["warnings"]})


def whole(registry: Registry) -> dict[str, Any]:
    return dict(sorted(registry.found(text="").items()))


def test_of_those_who_say_nearly_the_same_the_first_are_heard_and_the_others_told(registry: Registry) -> None:
    crowd(registry, "1", 0, 6)
    assert told(registry) == [f"g{number}" for number in range(ALIKE, 6)]
    (warning,) = [each for each in registry.item("g4")["warnings"] if each["code"] == "crowded"]
    assert warning["detail"].startswith("several earlier listings say nearly the same")
    found = [named(hit.id) for hit in registry.ask(text="gateway").hits]
    assert set(found[:ALIKE]) == {f"g{number}" for number in range(ALIKE)}
    registry.block("2", burned("g0", "g0", "gone", height=2))
    assert told(registry) == ["g4", "g5"]
    registry.block("3", again("g1", card("Weather", description="Tells how warm it will be"), 3),
                   bodies=(card("Weather", description="Tells how warm it will be"),))  # fmt: skip
    assert told(registry) == ["g5"]


def test_after_a_reorganisation_and_made_anew_the_same_is_told(registry: Registry) -> None:
    crowd(registry, "1", 0, 2)
    crowd(registry, "2", 2, 4)
    crowd(registry, "3", 4, 6)
    before = whole(registry)
    assert told(registry) == ["g3", "g4", "g5"]
    registry.writer.forget("demo", 1)
    registry._prev["demo"] = "1"
    assert told(registry) == []
    crowd(registry, "2", 4, 6)  # on the other branch they come in another order
    crowd(registry, "3", 2, 4)
    assert told(registry) == ["g2", "g3", "g5"]
    forked = whole(registry)
    assert forked.keys() == before.keys()
    registry.feed.rebuild()
    assert whole(registry) == forked
    registry.lose()
    assert whole(registry) == forked


def test_of_an_owners_names_ten_say_a_word_as_loudly_as_others_and_explain_says_which_do_not(
    registry: Registry,
) -> None:
    what = ["mail", "calendar", "maps", "notes", "music", "photos", "drive", "tasks", "news", "books"]
    what += ["travel", "health"]
    bodies = [
        card(f"Acme {each}", url=f"https://{each}.example/", description=f"About {each} and {each[::-1]}", skills=[
            {"id": each, "name": f"Do {each}", "description": f"{each[1:]} for {each}s", "tags": [each]}])
        for each in what
    ]  # fmt: skip
    registry.block("1", *(inscribed(each, body) for each, body in zip(what, bodies, strict=True)), bodies=tuple(bodies))
    assert told(registry) == []
    found = registry.found(text="acme")
    quiet = {id_: item["quiet"] for id_, item in found.items() if "quiet" in item}
    assert quiet == {id_: ["acm"] for id_ in what[NAMED:]}
    assert (
        "here: acme" in next(each for each in found["health"]["warnings"] if each["code"] == "crowded-name")["detail"]
    )

    pairs = (("q", "acme health"), ("explain", "1"))
    asked = from_pairs(pairs, {"demo": "demo:regtest"})
    hits, _ = extras(registry.engine, asked, registry.engine.search(asked.query))
    first = json.loads(hits.hits[0].item)
    assert named(first["id"]) == "health"
    made = first["explain"]
    assert made["standing"] == {
        "level": LEVELS - 1, "of": LEVELS, "counted": [{"what": "confirmed", "levels": LEVELS - 1}],
        "quiet": {"words": ["acm"], "level": QUIET},
    }  # fmt: skip
    assert made["points"] == sum(each["points"] for each in made["words"])


def test_names_of_a_domain_are_a_crowd_of_their_own(registry: Registry) -> None:
    crowd(registry, "1", 0, 6)
    theirs = card("Gateway 9", url="https://pay.example/", description=SAID)
    registry.block("2", points("pay.example", theirs), bodies=(theirs,))
    registry.writer.note_fetched("pay.example", serves(registry.clock.tick(), theirs))
    assert told(registry) == ["g3", "g4", "g5"]
    assert registry.item("pay.example")["domain"]["verified"] is True


def mine_on(registry: Registry, label: str, day: int, chain: str = "demo") -> None:
    """An empty block so many days later."""
    reading = says(label, prev=registry._prev[chain], chain=chain)
    dated = replace(reading.ref, time=reading.ref.time + day * DAY)
    registry.writer.append(chain, [replace(reading, ref=dated)])
    registry._prev[chain] = label


def test_names_become_older_with_the_blocks_of_their_chain(registry: Registry) -> None:
    def ages() -> list[int]:
        return [registry.item(id_).get("age", 0) for id_ in ("a", "l")]

    body, other = card("Alpha"), card("Beta", url="https://beta.example/")
    registry.block("1", inscribed("a", body), bodies=(body,))
    registry.block("1", inscribed("l", other), bodies=(other,), chain="ltc")
    assert ages() == [0, 0]
    mine_on(registry, "2", SINCE[0] - 2)
    assert ages() == [0, 0]
    mine_on(registry, "3", SINCE[0] + 1)
    assert ages() == [1, 0]
    mine_on(registry, "4", SINCE[1] + 1)
    mine_on(registry, "2", SINCE[0] + 1, "ltc")
    assert ages() == [2, 1]
    older = whole(registry)
    registry.feed.rebuild()
    assert whole(registry) == older
    registry.writer.forget("demo", 3)
    registry._prev["demo"] = "3"
    assert ages() == [1, 1]
    registry.lose()
    assert ages() == [1, 1]


def test_an_index_that_is_made_anew_is_told_each_listing_once(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows from all claims is known before the first is told: copies, crowds and ages."""
    crowd(registry, "1", 0, 6)
    body = card("Beta", url="https://beta.example/")
    registry.block("2", inscribed("b", body, height=2), inscribed("zz", body, height=2), bodies=(body,))
    mine_on(registry, "3", SINCE[0] + 1)
    before = whole(registry)
    assert (before["b"]["duplicates"], before["b"]["age"], told(registry)) == (1, 1, ["g3", "g4", "g5"])
    put: list[str] = []
    kind = type(registry.engine)
    replaced = kind.replace

    def noted(engine: Any, registrations: Sequence[str], documents: Iterable[Document], cursor: Cursor) -> None:
        put.extend(registrations)
        replaced(engine, registrations, documents, cursor)

    monkeypatch.setattr(kind, "replace", noted)
    monkeypatch.setattr(feed, "BATCH", 2)
    registry.feed.rebuild()
    assert whole(registry) == before
    assert sorted(put) == sorted(id_ for _, id_ in registry.store.ids(None, 100))
