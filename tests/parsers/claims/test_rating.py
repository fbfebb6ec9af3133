"""Ratings: what moves one, what must not, and by how much at most."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.claims import rating_windows
from parsers.claims.rating import (
    CONFIDENCE,
    HALF_LIFE_MS,
    RULES,
    RatedListing,
    ReceiptRecord,
    decayed,
    lower_bound,
    rate,
    stars,
)
from tests.oracles import rating_windows as windows_by_words
from tests.oracles.rating_windows import Limits

NOW = 1_790_000_000_000
LISTING = RatedListing(
    frozenset(("worker", "address")), "owner", {"cousin": "owner", "p1": "one", "p2": "one"}, frozenset(("p0",))
)
STRANGERS = [f"p{number}" for number in range(6)]
OWN_KEYS = ["worker", "address", "owner", "cousin"]


def record(digest: str, **members: Any) -> ReceiptRecord:
    """A record on E2, but for what is said otherwise."""
    usual = {
        "worker": "worker",
        "counter_signer": "p3",
        "payer": "p3",
        "payment": f"{digest}:0",
        "paid": 500,
        "price": 500,
        "completed_at": NOW,
    }
    return ReceiptRecord(digest, **{**usual, **members})


def records(**fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[ReceiptRecord]:
    members: dict[str, st.SearchStrategy[Any]] = {
        "digest": st.uuids().map(str),
        "worker": st.sampled_from(("worker", "worker", "worker", "stranger")),
        "counter_signer": st.sampled_from((*STRANGERS, *OWN_KEYS, "")),
        "payer": st.sampled_from((*STRANGERS, *OWN_KEYS, "")),
        "payment": st.sampled_from(("", *(f"t{number}:0" for number in range(30)))),
        "paid": st.integers(0, 1000),
        "price": st.sampled_from((0, 500)),
        "outcome": st.sampled_from(("completed", "completed", "failed", "denied")),
        "completed_at": st.integers(NOW - 4 * HALF_LIFE_MS, NOW + 1000),
        "task": st.sampled_from(("", *(f"worker:{number}" for number in range(30)))),
        "before_transfer": st.sampled_from((False, False, False, True)),
    }
    return st.builds(ReceiptRecord, **{**members, **fixed})


HISTORIES = st.lists(records(), max_size=25)


def score(history: list[ReceiptRecord], listing: RatedListing = LISTING) -> int:
    return rate(history, listing, NOW).score or 0


@given(HISTORIES, st.randoms(use_true_random=False))
def test_the_order_of_evidence_does_not_matter(history: list[ReceiptRecord], random: Any) -> None:
    mixed = random.sample(history, len(history))
    assert rate(mixed, LISTING, NOW) == rate(history, LISTING, NOW)


@given(HISTORIES)
def test_duplicates_count_once(history: list[ReceiptRecord]) -> None:
    assert rate(history * 2, LISTING, NOW) == rate(history, LISTING, NOW)


@given(st.lists(records(digest=st.sampled_from("abc")), max_size=12), st.randoms(use_true_random=False))
def test_a_digest_counts_once_whatever_is_claimed_beside_it(history: list[ReceiptRecord], random: Any) -> None:
    rating = rate(history, LISTING, NOW)
    digests = [entry.digest for entry in rating.basis]
    assert digests == sorted(set(digests))
    assert rate(random.sample(history, len(history)), LISTING, NOW) == rating


def numbers(history: list[ReceiptRecord]) -> tuple[Any, ...]:
    """A rating without its basis."""
    return rate(history, LISTING, NOW)[:-1]


@given(HISTORIES, records(counter_signer=st.just("")))
def test_receipts_that_only_the_worker_signed_never_move_a_rating(
    history: list[ReceiptRecord], claimed: ReceiptRecord
) -> None:
    assert numbers([*history, claimed]) == numbers(history)


@given(HISTORIES, records(counter_signer=st.sampled_from(OWN_KEYS)))
def test_evidence_by_own_keys_and_the_same_owner_never_counts(
    history: list[ReceiptRecord], record: ReceiptRecord
) -> None:
    assert numbers([*history, record]) == numbers(history)


@given(HISTORIES, records(payer=st.sampled_from(OWN_KEYS)))
def test_payments_by_own_keys_are_no_payments(history: list[ReceiptRecord], record: ReceiptRecord) -> None:
    record = record._replace(task="", payment=record.payment and "own:0")  # a payment has one payer
    assert numbers([*history, record]) == numbers([*history, record._replace(payment="")])


@given(
    HISTORIES,
    st.one_of(
        records(outcome=st.just("denied")), records(before_transfer=st.just(True)), records(worker=st.just("stranger"))
    ),
)
def test_denied_tasks_former_owners_and_keys_that_are_not_bound_are_neutral(
    history: list[ReceiptRecord], neutral: ReceiptRecord
) -> None:
    assert numbers([*history, neutral]) == numbers(history)


@given(HISTORIES, records(outcome=st.just("failed")))
def test_a_failed_task_never_raises_a_rating(history: list[ReceiptRecord], failed: ReceiptRecord) -> None:
    assert score([*history, failed._replace(task="")]) <= score(history)


@given(HISTORIES, records(outcome=st.just("completed")))
def test_a_completed_task_with_its_own_payment_never_lowers_a_rating(
    history: list[ReceiptRecord], completed: ReceiptRecord
) -> None:
    assert score([*history, completed._replace(payment="own:0", task="")]) >= score(history)


def repetitions(history: list[ReceiptRecord]) -> st.SearchStrategy[list[ReceiptRecord]]:
    """Records that strangers who pay nothing can add: receipts of the history under other keys, later, with a public
    payment of the same receipt or without; and their signatures below receipts that nobody else signed."""
    keys, later = st.integers(0, 50).map("k{}".format), st.integers(NOW + 1, NOW + 50)

    def under(record: ReceiptRecord, key: str, received_at: int, is_paid: bool) -> ReceiptRecord:
        again = record._replace(counter_signer=key, received_at=received_at)
        return again if is_paid else again._replace(payment="", payer="", paid=0)

    return st.lists(st.builds(under, st.sampled_from(history), keys, later, st.booleans()), max_size=60)


SIGNED = records(counter_signer=st.sampled_from(STRANGERS), received_at=st.integers(NOW, NOW + 1))
CLAIMED = records(counter_signer=st.just(""), payment=st.just(""), received_at=st.integers(NOW, NOW + 1))


@given(st.data(), st.lists(SIGNED | CLAIMED, min_size=1, max_size=25, unique_by=lambda one: one.digest))
def test_what_strangers_add_without_paying_never_changes_what_paid_evidence_contributes(
    data: Any, history: list[ReceiptRecord]
) -> None:
    everything = [*history, *data.draw(repetitions(history))]

    def contributed(evidence: list[ReceiptRecord]) -> list[Any]:
        return [entry for entry in rate(evidence, LISTING, NOW).basis if entry.rung > 1 and entry.weight]

    with pytest.MonkeyPatch.context() as patch:
        for name, limit in zip(("MAX_PAID", "MAX_COUNTER_SIGNED", "MAX_A_SIGNER"), (5, 4, 2), strict=True):
            patch.setattr(rating_windows, name, limit)
        assert contributed(everything) == contributed(history)
        chosen = windows_by_words.counted(everything, Limits(5, rating_windows.MAX_A_PAYMENT, 4, 2))
        assert {entry.digest for entry in rate(everything, LISTING, NOW).basis if entry.rung} <= chosen


def test_receipts_that_pay_less_or_are_of_one_signer_make_room() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rating_windows, "MAX_PAID", 2)
        patch.setattr(rating_windows, "MAX_A_SIGNER", 2)
        sums = [record(f"{paid}", paid=paid, received_at=paid) for paid in (500, 700, 600)]
        assert {entry.digest for entry in rate(sums, LISTING, NOW).basis} == {"700", "600"}
        same = [record(name, received_at=time) for name, time in (("c", 1), ("b", 2), ("a", 2))]
        assert {entry.digest for entry in rate(same, LISTING, NOW).basis} == {"c", "a"}, "the first accepted"
        by_one = [record(f"{number}", payment="", received_at=number) for number in range(4)]
        by_another = [record("x", payment="", counter_signer="p4")]
        assert {entry.digest for entry in rate(by_one + by_another, LISTING, NOW).basis} == {"2", "3", "x"}


def test_receipts_that_share_a_payment_do_not_fill_the_window() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rating_windows, "MAX_PAID", 4)
        shared = [record(f"s{number}", payment="t:0", paid=900, outcome="completed") for number in range(9)]
        failed = [record("f", outcome="failed"), record("g", payment="t:0", outcome="failed")]
        basis = {entry.digest: entry.reason for entry in rate(shared + failed, LISTING, NOW).basis}
        assert basis == {"s0": "payment-reused", "s1": "payment-reused", "f": "", "g": ""}


@given(st.lists(records(payer=st.just("p3"), counter_signer=st.just("p3")), max_size=60))
def test_one_payer_never_reaches_a_star_with_any_number_of_keys_that_do_not_pay(history: list[ReceiptRecord]) -> None:
    keys = [record(f"free{number}", counter_signer=f"k{number}", payment="") for number in range(20)]
    assert score([*history, *keys]) < 200


@given(st.integers(0, 20_000_000), st.integers(1, 20_000_000))
def test_the_lower_bound_is_the_root_of_wilsons_equation(completed: int, failed: int) -> None:
    total = completed + failed
    bound, share, z2 = lower_bound(completed, total), Fraction(completed, total), Fraction(CONFIDENCE, total)

    def distance(p: Fraction) -> Fraction:
        return (share - p) ** 2 - z2 * p * (1 - p)

    here, above = Fraction(bound, 1000), Fraction(bound + 1, 1000)
    assert here <= share
    assert distance(here) >= 0
    assert above > share or distance(above) < 0


def test_the_lower_bound_of_flawless_work_grows_with_its_weight() -> None:
    assert [lower_bound(weight, weight) for weight in (2_706_000, 27_060_000)] == [500, 909]


def test_weight_halves_in_ninety_days() -> None:
    ages = (-1, 0, HALF_LIFE_MS // 2, HALF_LIFE_MS, 2 * HALF_LIFE_MS, 90 * HALF_LIFE_MS)
    assert [decayed(1000, age) for age in ages] == [1000, 1000, 750, 500, 250, 0]


def test_keys_alone_buy_less_than_half_a_star_and_unrated_payers_less_than_three() -> None:
    ring = [record(f"{number:04}", counter_signer=f"k{number}", payer=f"k{number}") for number in range(500)]
    signed = [record._replace(payment="") for record in ring]
    assert rate(signed, LISTING, NOW)[:2] == (lower_bound(150_000, 150_000), 1)
    assert score(signed) < 100
    unpaid = [record._replace(digest=f"free {record.digest}") for record in signed]
    assert 500 < score([*ring, *unpaid]) < 600
    assert score(ring, replace(LISTING, rated=frozenset(f"k{number}" for number in range(500)))) > 900


def test_above_a_limit_completed_and_failed_tasks_weigh_less_in_proportion() -> None:
    mixed = [record(f"{number:02}", outcome="failed" if number % 4 else "completed") for number in range(40)]
    assert score(mixed) == lower_bound(RULES[2].counterparty // 4, RULES[2].counterparty)


def test_keys_of_one_owner_are_one_counterparty() -> None:
    pair = [record(f"{number}", counter_signer=f"p{1 + number % 2}", payer=f"p{1 + number % 2}") for number in range(8)]
    assert score(pair) == lower_bound(RULES[2].counterparty, RULES[2].counterparty)
    assert score(pair, replace(LISTING, owner_of={})) == lower_bound(1_000_000, 1_000_000)


@pytest.mark.parametrize(
    ("members", "rung", "reason"),
    [
        ({}, 2, ""),
        ({"payer": "p0"}, 3, ""),
        ({"paid": 499}, 1, ""),
        ({"paid": 0, "price": 0}, 1, ""),
        ({"payment": ""}, 1, ""),
        ({"payer": "cousin"}, 1, ""),
        ({"counter_signer": ""}, 0, "claimed"),
        ({"counter_signer": "worker"}, 0, "own-key"),
        ({"worker": "p4"}, 0, "not-bound"),
        ({"before_transfer": True}, 0, "previous-owner"),
        ({"outcome": "denied"}, 2, "denied"),
    ],
)
def test_the_rung_of_a_record(members: dict[str, Any], rung: int, reason: str) -> None:
    entry = rate([record("a", **members)], LISTING, NOW).basis[0]
    assert (entry.rung, entry.reason) == (rung, reason)


def test_of_the_receipts_for_one_task_the_strongest_counts_and_a_failed_one_before_a_completed_one() -> None:
    pair = [record("a", task="t", outcome="failed"), record("b", task="t")]
    assert [entry.digest for entry in rate(pair, LISTING, NOW).basis] == ["a"]
    assert [entry.digest for entry in rate([*pair, record("c", task="t", payer="p0")], LISTING, NOW).basis] == ["c"]


def test_a_payment_that_two_receipts_name_proves_neither() -> None:
    rating = rate([record("a", payment="t:0"), record("b", payment="t:0")], LISTING, NOW)
    assert [(entry.rung, entry.reason) for entry in rating.basis] == [(1, "payment-reused")] * 2


@given(HISTORIES)
def test_paid_tasks_and_customers_are_those_of_the_records_that_count_above_e1(history: list[ReceiptRecord]) -> None:
    rating = rate(history, LISTING, NOW)
    paid = [entry for entry in rating.basis if entry.weight and entry.rung in (2, 3)]
    assert (rating.paid_tasks, rating.customers) == (len(paid), len({entry.counterparty for entry in paid}))
    assert rating.customers <= rating.paid_tasks <= rating.completed + rating.failed


def test_one_customer_is_one_however_often_and_by_however_many_keys_he_pays() -> None:
    often = [record("a"), record("b"), record("c", payer="p1"), record("d", payer="p2"), record("e", payment="")]
    rating = rate(often, LISTING, NOW)
    assert (rating.paid_tasks, rating.customers, rating.completed) == (4, 2, 5)


@pytest.mark.parametrize(
    ("score", "customers", "shown"), [(84, 1, None), (999, 9, None), (749, 10, 3.7), (1000, 10, 5.0), (0, 10, 0.0)]
)
def test_stars_are_for_ten_customers_and_more(score: int, customers: int, shown: float | None) -> None:
    assert stars(score, customers) == shown


def test_a_rating_without_evidence_is_none() -> None:
    assert rate([], LISTING, NOW).as_json() == {"score": None, "rung": "E0", "completed": 0, "failed": 0, "basis": []}


def test_a_rating_is_published_with_every_digest() -> None:
    answer = rate([record("b", outcome="failed"), record("a"), record("c", counter_signer="")], LISTING, NOW).as_json()
    assert (answer["score"], answer["rung"], answer["completed"], answer["failed"]) == (0.04, "E2", 1, 1)
    assert [(entry["digest"], entry["rung"], entry["weight"]) for entry in answer["basis"]] == [
        ("a", "E2", 250_000),
        ("b", "E2", 250_000),
        ("c", "E0", 0),
    ]
