"""Nobody gets to the first page by inscribing nearly the same over and over: of a crowd the first few are heard."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from overlay.copies.ages import SINCE
from overlay.copies.book import Copies
from overlay.copies.claims import NAME, Claim, Likeness, Since, digest
from overlay.copies.crowds import ALIKE, NAMED
from overlay.copies.marks import marked_document
from overlay.copies.voices import Voice, spoken
from overlay.document import Document
from overlay.engines import Cursor, Engine, open_engine
from overlay.search.kept import KEPT
from overlay.search.ranking import texts
from parsers.cards import Skill
from tests.contracts.listed import EPOCH, ask, ids, listing

FLOOD = {"tantivy": 10_000, "whoosh": 200}
BATCH = 5_000
SAID = "Takes a payment by card, coin or bank transfer, and pays out the same day."
QUESTIONS = ("payment gateway", "payment", "paymnet gatewya")
Crowd = Callable[[int], Document]
Fill = Callable[[Crowd], list[Document]]


def told(id_: str, name: str, description: str, height: int, owner: str, domain: str = "") -> Document:
    """A listing, with what it says with others; verified where a domain speaks for it."""
    made = listing(id_, name, description=description, height=height, owner=owner, domain=domain, verified=bool(domain))
    since = Since(made.updated_time or 0, "bsv", height)
    rest = "\n".join(text for _, text in list(texts(made))[1:])
    domain = ".".join(domain.split(".")[-2:])
    values = spoken(name, rest, domain, domain or owner)
    item = json.dumps({"id": id_, "name": name, "description": description, "status": "live", "warnings": []})
    claims = (Claim(NAME, digest(id_), since),)
    likeness = Likeness(claims, voices=(Voice(since, values),), answers=domain or owner, worded=since)
    return replace(made, likeness=likeness, item=item.encode())


HONEST = [
    told(f"h{at}", name, said, at + 1, f"h{at}")
    for at, (name, said) in enumerate(
        [
            ("Payment gateway", "Accepts cards and coins for shops, with refunds."),
            ("Gateway for payments", "Charges customers in forty countries."),
            ("Acme pay", "A payment gateway that settles every night."),
            ("Checkout", "Hosted page with a gateway to payment by card."),
            ("Lightning gateway", "Instant payment over channels."),
            ("Merchant payment tools", "Invoices, subscriptions, gateway fees."),
        ]
    )
]


class Filled:
    """An engine that was given listings in batches, as the feed gives them."""

    def __init__(self, engine: Engine, copies: Copies, size: int) -> None:
        self.engine, self._copies, self.size = engine, copies, size
        self._all: dict[str, Document] = {}
        self._items: dict[str, bytes] = {}

    def put(self, documents: Sequence[Document], today: int | None = None) -> None:
        self._all |= {each.id: each for each in documents}
        if today is not None:
            self._copies.grow({"bsv": today})
        for start in range(0, len(documents), BATCH):
            batch = documents[start : start + BATCH]
            touched = [each.id for each in batch]
            self._copies.take(touched, batch, Cursor(EPOCH, 1))
            self._tell(touched)
        while others := self._copies.waiting():
            self._tell(others)
            self._copies.done(others)

    def _tell(self, registrations: Sequence[str]) -> None:
        marks = self._copies.marks(registrations)
        found = [marked_document(self._all[id_], marks) for id_ in registrations]
        self._items |= {each.id: each.item for each in found}
        self.engine.replace(registrations, found, Cursor(EPOCH, 1))

    def page(self, question: str) -> list[str]:
        return ids(ask(self.engine, question, limit=20))

    def codes(self, id_: str) -> list[str]:
        assert self.engine.get(id_) == self._items[id_]
        return [each["code"] for each in json.loads(self._items[id_])["warnings"]]

    def heard(self, prefix: str) -> list[str]:
        """Those of a crowd of which nothing is told."""
        return [id_ for id_ in self._all if id_.startswith(prefix) and b'"warnings": []' in self._items[id_]]


@pytest.fixture(params=list(FLOOD))
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Filled]:
    engine = open_engine(f"{request.param}:{tmp_path}/index")
    copies = Copies(str(tmp_path / "copies"))
    made = Filled(engine, copies, FLOOD[request.param])
    others = [told(f"o{at}", f"Other {at}", f"Something else {at * 'x'} for everybody", 9, f"o{at}") for at in range(9)]
    made.put([*HONEST, *others])
    yield made
    copies.close()
    engine.close()


def crowd(filled: Filled, made: Crowd) -> None:
    """Inscribe a flood, newer than what is honest; then all that is honest is on page one, and marked in nothing."""
    filled.put([made(at) for at in range(filled.size)])
    assert set(filled.heard("h")) == {each.id for each in HONEST}
    for question in QUESTIONS:
        page = filled.page(question)
        assert {each.id for each in HONEST} <= set(page), question
        assert sum(id_.startswith("s") for id_ in page[: len(HONEST) + NAMED]) <= NAMED
    for typed in ("payment g", "gat", "pay"):
        completed = {each.id or "" for each in filled.engine.suggest(typed, 40)}
        assert sum(id_.startswith("s") for id_ in completed) <= NAMED, typed
        assert "h0" in completed


def test_what_a_crowd_does_and_calls_itself_is_completed_only_as_often_as_it_is_heard(filled: Filled) -> None:
    skill = Skill("p", name="Payment at example")
    shops = [
        told(f"k{at}", f"Shop {at * 'y'}", f"Sells {at * 'z'} things", 50 + at, f"k{at}") for at in range(ALIKE + 1)
    ]
    filled.put([replace(each, tags=("payments",)) for each in shops])
    same = [told(f"s{at}", f"Payment gateway {at}", SAID, 1_000 + at, f"n{at}") for at in range(60)]
    filled.put([replace(each, tags=("payment scam",), skills=(skill,)) for each in same])
    first, *more = filled.engine.suggest("pay", 40)
    assert (first.text, first.kind) == ("payments", "tag")
    assert {each.text for each in more} >= {"Payment at example", "payment scam"}, "of those that are heard"
    assert sum((each.id or "").startswith("s") for each in more) == ALIKE
    assert sum((each.id or "").startswith("s") for each in filled.engine.suggest("payment g", 40)) == ALIKE


def test_cards_that_differ_in_numbers_leave_page_one_to_others(filled: Filled) -> None:
    crowd(filled, lambda at: told(f"s{at}", f"Payment gateway {at}", f"{SAID} Number {at:x}", 1_000 + at, f"n{at}"))
    assert filled.heard("s") == [f"s{at}" for at in range(ALIKE)]
    assert filled.codes("s5") == ["crowded"]


def test_cards_with_one_text_under_names_made_at_random_leave_page_one_to_others(filled: Filled) -> None:
    chance = Random(1)
    names = ["".join(chance.choices("bcdfghjkmnoqrstuvwxz", k=9)) for _ in range(filled.size)]
    crowd(filled, lambda at: told(f"s{at}", f"{names[at]} payment gateway", SAID, 1_000 + at, f"n{at}"))
    assert ALIKE <= len(filled.heard("s")) <= NAMED


@pytest.mark.parametrize("said", ["payment gateway", "1Payment 1Gateway", "p-a-y-m-e-n-t g-a-t-e-w-a-y"])
def test_cards_with_a_short_text_under_names_made_at_random_leave_page_one_to_others(filled: Filled, said: str) -> None:
    chance = Random(5)
    names = ["".join(chance.choices("bcdfghjkmnoqrstuvwxz", k=9)) for _ in range(filled.size)]
    crowd(filled, lambda at: told(f"s{at}", names[at], said, 1_000 + at, f"n{at}"))
    assert ALIKE <= len(filled.heard("s")) <= NAMED


def test_cards_with_one_name_over_changed_texts_leave_page_one_to_others(filled: Filled) -> None:
    chance = Random(2)
    words = ["".join(chance.choices("bcdfghjkmnoqrstuvwxz", k=7)) for _ in range(999)]
    crowd(
        filled,
        lambda at: told(f"s{at}", "Payment gateway", " ".join(chance.sample(words, 12)), 1_000 + at, f"n{at}"),
    )
    assert len(filled.heard("s")) == NAMED - 2, "as two that are honest have a name of these words"
    assert filled.codes("s99") == ["crowded-name"]


def test_an_owner_whose_cards_all_have_a_word_in_their_names_is_heard_ten_times(filled: Filled) -> None:
    chance = Random(3)
    words = ["".join(chance.choices("bcdfghjkmnoqrstuvwxz", k=7)) for _ in range(999)]

    def made(at: int) -> Document:
        return told(
            f"s{at}", f"Payment gateway {words[at % 999]}", " ".join(chance.sample(words, 14)), 1_000 + at, "one"
        )

    crowd(filled, made)
    assert filled.heard("s") == [f"s{at}" for at in range(NAMED)]
    assert json.loads(filled.engine.get("s99") or b"")["quiet"] == ["payment", "gateway"]


def test_cards_in_words_of_their_own_leave_places_to_those_who_said_so_before(filled: Filled) -> None:
    chance = Random(4)
    words = ["".join(chance.choices("bcdfghjkmnoqrstuvwxz", k=7)) for _ in range(4_000)]

    def made(at: int) -> Document:
        a, b, c, d, e, f, g, h, own = chance.sample(words, 9)
        said = f"Accepts {a} {b} payment with {c} {d} for {e} shops, {f} gateway {g} {h}."
        return told(f"s{at}", f"{own} payment gateway", said, 1_000 + at, f"n{at}")

    filled.put([made(at) for at in range(filled.size)])
    assert len(filled.heard("s")) > 0.9 * filled.size, "nobody can tell them from others"
    honest = {each.id for each in HONEST}
    for question in QUESTIONS:
        page = filled.page(question)
        assert honest <= set(page[: 5 + KEPT]), question
    for typed in ("payment g", "gat", "pay"):
        completed = [each.id for each in filled.engine.suggest(typed, 8) if each.id]
        assert completed[0].startswith("h"), typed


def test_an_owner_who_spells_a_word_in_ever_other_parts_is_heard_ten_times(filled: Filled) -> None:
    chance = Random(7)
    words = ["".join(chance.choices("bcdfghjkmnoqrstuvwxz", k=7)) for _ in range(999)]
    spelt = [f"{'payment'[:at]}{joint}{'payment'[at:]}" for at in range(1, 7) for joint in "-_."]

    def made(at: int) -> Document:
        said = " ".join(chance.sample(words, 14))
        return told(f"s{at}", f"{spelt[at % len(spelt)]} {words[at % 999]}", said, 1_000 + at, "one")

    filled.put([made(at) for at in range(filled.size)])
    assert len(filled.heard("s")) <= NAMED
    assert "payment" in json.loads(filled.engine.get("s99") or b"")["quiet"]
    assert {each.id for each in HONEST} <= set(filled.page("payment"))


def test_names_under_one_verified_domain_are_one_crowd_and_others_are_not_of_it(filled: Filled) -> None:
    def made(at: int) -> Document:
        return told(f"s{at}", f"Payment gateway {at}", SAID, 1_000 + at, f"n{at}", f"n{at}.spam.example")

    filled.put([made(at) for at in range(filled.size)])
    late = told("late", "Payment gateway", SAID, 900_000, "late", "own.example")
    plain = told("plain", "Payment gateway", SAID, 900_001, "plain")
    filled.put([late, plain])
    assert filled.heard("s") == [f"s{at}" for at in range(ALIKE)]
    assert filled.codes("late") == filled.codes("plain") == []
    assert set(filled.page("payment gateway")[: ALIKE + 1]) == {"late", *filled.heard("s")}


def test_who_had_a_name_for_long_comes_before_those_who_have_it_since_yesterday(filled: Filled) -> None:
    days = [(1_700_000_000 + 600 * height) // 86_400 for height in (1, 100_000)]
    assert days[1] - days[0] > SINCE[1]

    def made(at: int) -> Document:
        return told(f"s{at}", f"{'xyzw'[at % 4]}{at} pay", f"A payment gateway, number {at}", 100_000 + at, f"n{at}")

    filled.put([made(at) for at in range(50)], today=days[1])
    assert filled.page("acme pay payment gateway")[0] == "h2"
    ages = {id_: json.loads(filled.engine.get(id_) or b"").get("age") for id_ in ("h2", "s1")}
    assert ages == {"h2": len(SINCE), "s1": None}
    filled.put([], today=days[0])
    assert "age" not in json.loads(filled.engine.get("h2") or b"")
