"""A rating is shown by its counts wherever it is shown, and by stars only where enough customers paid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from overlay.answers.items import ItemRating
from overlay.answers.record import read
from overlay.commands.search import card_lines
from overlay.commands.show import trust_rows
from overlay.projection.documents import DocumentReader
from overlay.systems.a2a.search_messages import listing_line
from overlay.text.rating_words import rating_words
from overlay.web.cards import render_card, result
from tests.overlay.rating.registry import Payer, Registry
from tests.parsers.claims.motebit.signers import ALICE, BOB

FEW = {"paidTasks": 7, "customers": 3, "failed": 1, "stars": None, "evidence": 8, "score": 0.412}


@pytest.mark.parametrize(
    ("rating", "words"),
    [
        (FEW, "7 paid tasks, 3 customers, 1 failed"),
        ({**FEW, "paidTasks": 1, "customers": 1, "failed": 0}, "1 paid task, 1 customer"),
        ({**FEW, "paidTasks": 0, "customers": 0, "failed": 0, "evidence": 3}, "no paid tasks, 3 only signed"),
        (
            {**FEW, "paidTasks": 1200, "customers": 40, "stars": 4.1},
            "1,200 paid tasks, 40 customers, 1 failed, 4.1 of 5 stars",
        ),
        ({"score": 0.412, "evidence": 8, "rung": "E2"}, "8 tasks"),
    ],
)
def test_a_rating_in_words(rating: dict[str, Any], words: str) -> None:
    assert rating_words(rating) == words


def test_an_item_of_version_0_2_0_is_read() -> None:
    rating = {"score": 0.412, "evidence": 8, "rung": "E2", "asOf": "2026-01-01T00:00:00Z"}
    assert read(rating, ItemRating) == rating


async def rated_item(registry: Registry, customers: int) -> dict[str, Any]:
    """The item of an agent that so many customers paid once, all of them happy."""
    alice = await registry.inscribe(ALICE)
    registry.bind(ALICE, alice)
    for number in range(customers):
        task, proof = await registry.paid(Payer(1 + number))
        registry.intake.submit("receipt", registry.work(ALICE, BOB, task), payment=proof)
    registry.rate()
    (document,) = DocumentReader(registry.store).documents([alice])
    item: dict[str, Any] = json.loads(document.item)
    return item


def shown(item: dict[str, Any]) -> dict[str, str]:
    """The words about a rating for people and models: on the card, at the command line, and in an answer of A2A."""
    return {
        "page": render_card(result(item, None, None, {})),
        "show": dict(trust_rows(item))["rating"],
        "search": "\n".join(card_lines(item)),
        "a2a": listing_line(item),
    }


async def test_one_happy_customer_is_one_happy_customer(tmp_path: Path) -> None:
    registry = Registry(f"sqlite:///{tmp_path}/a2b.db")
    with registry.indexing:
        item = await rated_item(registry, 1)
    rating = item["rating"]
    assert {name: rating[name] for name in ("paidTasks", "customers", "failed", "stars", "evidence")} == {
        "paidTasks": 1, "customers": 1, "failed": 0, "stars": None, "evidence": 1,
    }  # fmt: skip
    assert next(iter(rating)) == "paidTasks", "the counts come before what is computed from them"
    assert rating["score"] < 0.1
    for where, text in shown(item).items():
        assert "1 paid task, 1 customer" in text, where
        assert "of 5" not in text, where


async def test_ten_customers_have_stars_beside_the_counts(tmp_path: Path) -> None:
    registry = Registry(f"sqlite:///{tmp_path}/a2b.db")
    with registry.indexing:
        item = await rated_item(registry, 10)
    stars = item["rating"]["stars"]
    assert stars == int(item["rating"]["score"] * 50) / 10
    for where, text in shown(item).items():
        assert f"10 paid tasks, 10 customers, {stars} of 5 stars" in text, where


def test_show_names_the_identity_of_an_agent_and_whether_its_host_serves_it() -> None:
    for members, words in (
        ({"verified": True}, "verified: its host serves it"),
        ({"verified": False}, "not verified"),
        ({"verified": False, "reason": "key-changed"}, "not verified: key-changed"),
    ):
        rows = dict(trust_rows({"motebit": {"id": "0197a1b2", **members}}))
        assert rows == {"identity": f"0197a1b2 ({words})"}
