"""The compiled loops of a search against slow twins, on small random arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overlay.engines.native import search_kernels as kernels

SEEDS = st.integers(0, 10**6).map(Random)
DOCUMENTS = 12


def bytes_of(random: Random, size: int, most: int = 1) -> Any:
    return np.array([random.randint(0, most) for _ in range(size)], np.uint8)


def rows(random: Random, count: int, values: int, longest: int = 4) -> tuple[list[list[int]], Any, Any]:
    """Rows of distinct numbers, and as arrays."""
    lists = [sorted(random.sample(range(values), random.randint(0, min(longest, values)))) for _ in range(count)]
    offsets = np.array([0, *np.cumsum([len(row) for row in lists])], np.int64)
    return lists, offsets, np.array([value for row in lists for value in row], np.uint32)


@given(SEEDS)
def test_facts_admit_and_exclude(random: Random) -> None:
    facts, offsets, documents = rows(random, 5, DOCUMENTS + 2)  # some documents are outside
    mask, chosen = bytes_of(random, DOCUMENTS), random.sample(range(5), random.randint(0, 3))
    with_fact = {document for fact in chosen for document in facts[fact]}
    admitted = np.full(DOCUMENTS, 7, np.uint8)
    kernels.admit(mask, admitted, offsets, documents, np.array(chosen, np.int64))
    assert admitted.tolist() == [int(one in with_fact and mask[one]) for one in range(DOCUMENTS)]
    of_documents = [[fact for fact, held in enumerate(facts) if one in held] for one in range(DOCUMENTS)]
    some, left_over = random.sample(range(DOCUMENTS + 2), random.randint(0, DOCUMENTS)), mask.copy()
    kernels.keep(
        left_over, np.array(some, np.uint32), np.array([0, *np.cumsum([len(row) for row in of_documents])], np.int64),
        np.array([fact for row in of_documents for fact in row], np.uint32), np.array(chosen, np.int64),
    )  # fmt: skip
    assert left_over.tolist() == [int(mask[one] and (one in with_fact or one not in some)) for one in range(DOCUMENTS)]
    counts = np.full(len(chosen), 7, np.uint32)
    kernels.count_admitted(mask, offsets, documents, np.array([-1, *chosen[1:]][: len(chosen)], np.int64), counts)
    expected = [sum(int(mask[one]) for one in facts[fact] if one < DOCUMENTS) for fact in chosen]
    assert counts.tolist() == [0, *expected[1:]][: len(chosen)]
    left = mask.copy()
    kernels.exclude(left, offsets, documents, np.array(chosen, np.int64))
    assert left.tolist() == [int(one not in with_fact and mask[one]) for one in range(DOCUMENTS)]


@given(SEEDS)
def test_bounds_of_a_column_are_included(random: Random) -> None:
    mask, values = bytes_of(random, DOCUMENTS), np.array([random.randint(-1, 5) for _ in range(DOCUMENTS)], np.int64)
    low, high = random.randint(0, 5), random.randint(0, 5)
    expected = [int(bool(one) and low <= value <= high) for one, value in zip(mask, values, strict=True)]
    kernels.between(mask, values, low, high)
    assert mask.tolist() == expected


@given(SEEDS)
def test_the_first_of_an_order_are_chosen(random: Random) -> None:
    documents = random.sample(range(DOCUMENTS), random.randint(0, DOCUMENTS))
    values = np.array([random.randint(0, 3) for _ in range(DOCUMENTS)], np.uint64)
    ranks = np.array(random.sample(range(DOCUMENTS), DOCUMENTS), np.uint64)
    most, is_reversed = random.randint(0, 8), random.random() < 0.5
    chosen = kernels.first(np.array(documents, np.int64), values, ranks, most, is_reversed)
    ordered = sorted(documents, key=lambda one: (-int(values[one]), int(ranks[one])), reverse=is_reversed)
    assert set(chosen.tolist()) == set(ordered[:most])
    assert len(chosen) == min(most, len(documents))


@given(SEEDS)
def test_values_are_counted_and_summed_by_group(random: Random) -> None:
    size = 9
    lists, offsets, values = rows(random, DOCUMENTS, size + 1)  # one value is outside
    documents = random.sample(range(DOCUMENTS), random.randint(0, DOCUMENTS))
    few, more, counted = np.zeros(size, np.uint8), np.zeros(size, np.uint32), np.empty(size + 1, np.uint32)
    documents *= random.choice((1, 300))  # more than a byte holds
    low, high = sorted(random.sample(range(size + 2), 2))
    number = kernels.count(np.array(documents, np.int64), offsets, values, low, high, few, more, counted)
    expected = Counter(value for one in documents for value in lists[one] if low <= value < min(high, size))
    assert (few + more).tolist() == [expected[value] for value in range(size)]
    assert sorted(counted[:number].tolist()) == sorted(expected)
    assert not any(few[value] == 0 for value in expected)
    groups, held = [random.randint(0, value) for value in range(size)], np.sort(counted[:number])
    totals = np.zeros(size, np.uint32)
    results = kernels.total_groups(held, (few + more)[held], np.array(groups, np.uint32), totals)
    by_group: Counter[int] = Counter()
    for value in held.tolist():
        by_group[groups[value]] += expected[value]
    assert totals.tolist() == [by_group[group] for group in range(size)]
    assert results.tolist() == list(by_group)


@given(SEEDS)
def test_totals_of_equal_hashes_are_joined(random: Random) -> None:
    pool = [random.getrandbits(64) if random.random() < 0.5 else number << 40 for number in range(12)]
    sides: list[Any] = [random.sample(sorted(set(pool)), random.randint(0, 10)) for _ in range(2)]
    (hashes, totals), (others, more) = [
        (np.array(side, np.uint64), np.array([random.randint(1, 9) for _ in side], np.uint64)) for side in sides
    ]
    sums = Counter(dict(zip(others.tolist(), more.tolist(), strict=True)))
    expected = [total + sums[value] for value, total in zip(hashes.tolist(), totals.tolist(), strict=True)]
    is_joined = np.zeros(len(others), np.uint8)
    number = kernels.join(hashes, totals, others, more, np.uint64(random.getrandbits(64) | 1), is_joined)
    assert totals.tolist() == expected
    assert is_joined.tolist() == [int(value in hashes.tolist()) for value in others.tolist()]
    assert number == is_joined.sum()


CASES = st.text(st.sampled_from("aAbBkKzéÉßſK:İ"), max_size=4)


@given(st.lists(CASES, min_size=1, max_size=5), CASES.map(str.casefold).filter(bool))
def test_no_value_with_a_beginning_is_missed(texts: Sequence[str], prefix: str) -> None:
    data = [b"tag:" + text.encode() for text in texts]
    begins = np.empty(len(texts), np.uint8)
    kernels.may_begin(
        np.arange(len(texts), dtype=np.uint32), np.frombuffer(b"".join(data), np.uint8),
        np.array([0, *np.cumsum([len(text) for text in data])], np.int64), 4,
        np.frombuffer(prefix.encode(), np.uint8), begins,
    )  # fmt: skip
    for text, answer in zip(texts, begins.tolist(), strict=True):
        assert answer in {int(text.casefold().startswith(prefix)), 2}
        assert answer < 2 or not (text + prefix).isascii()


class Offers:
    """Offers of documents, with members by number."""

    def __init__(self, random: Random) -> None:
        counts = [random.randint(0, 3) for _ in range(DOCUMENTS)]
        self.offsets = np.array([0, *np.cumsum(counts)], np.int64)
        self.size = size = sum(counts)
        self.currency, self.interval, self.amount = (
            np.array([random.randrange(most) for _ in range(size)], np.uint32) for most in (3, 3, 6)
        )
        self.accepted = rows(random, size, 3)
        self.names_skills, self.payable = bytes_of(random, size), bytes_of(random, size)
        self.skills, self.document_skills = rows(random, size, 4), rows(random, DOCUMENTS, 4)


@given(SEEDS)
def test_one_offer_meets_all_filters(random: Random) -> None:
    offers, documents = Offers(random), random.sample(range(DOCUMENTS), random.randint(0, DOCUMENTS))
    currencies, intervals, skills, payable = (
        bytes_of(random, size) if random.random() < 0.5 else np.empty(0, np.uint8) for size in (3, 3, 4, 2)
    )
    bounds = random.choice((1, 3))
    low, high = (np.array([random.randint(0, 6) for _ in range(bounds)], np.int64) for _ in range(2))
    meets, mask = np.full(offers.size, 7, np.uint8), np.full(DOCUMENTS, 7, np.uint8)
    total = kernels.meeting(
        np.array(documents, np.int64), offers.offsets, offers.currency, offers.interval, offers.amount,
        *offers.accepted[1:], offers.names_skills, *offers.skills[1:], *offers.document_skills[1:], offers.payable,
        currencies, intervals, skills, payable, low, high, meets, mask,
    )  # fmt: skip

    def is_met(document: int, offer: int) -> bool:
        named = offers.skills[0][offer] if offers.names_skills[offer] else offers.document_skills[0][document]
        currency = offers.currency[offer]
        return bool(
            (not len(currencies) or any(currencies[one] for one in offers.accepted[0][offer]))
            and (not len(intervals) or intervals[offers.interval[offer]])
            and (not len(skills) or any(skills[one] for one in named))
            and (not len(payable) or payable[offers.payable[offer]])
            and low[currency % bounds] <= offers.amount[offer] < high[currency % bounds]
        )

    results = set()
    for document in range(DOCUMENTS):
        for offer in range(int(offers.offsets[document]), int(offers.offsets[document + 1])):
            expected = is_met(document, offer)
            assert meets[offer] == (expected if document in documents else 7)
            if expected and document in documents:
                results.add(document)
    assert mask.tolist() == [int(one in results) if one in documents else 7 for one in range(DOCUMENTS)]
    assert total == len(results)


@given(SEEDS)
def test_the_lowest_price_is_of_an_offer_that_meets_the_filters(random: Random) -> None:
    offers, meets = Offers(random), bytes_of(random, 3 * DOCUMENTS)
    ranks = np.array([random.choice((random.randrange(5), int(kernels.NOWHERE))) for _ in range(6)], np.int64)
    documents, is_by_currency = random.sample(range(DOCUMENTS), random.randint(0, DOCUMENTS)), random.random() < 0.5
    lowest = np.empty(len(documents), np.int64)
    kernels.lowest(
        np.array(documents, np.int64),
        offers.offsets,
        meets,
        offers.currency,
        offers.amount,
        ranks,
        is_by_currency,
        lowest,
    )
    for document, rank in zip(documents, lowest.tolist(), strict=True):
        range_of_offers = range(int(offers.offsets[document]), int(offers.offsets[document + 1]))
        priced = [one for one in range_of_offers if meets[one] and ranks[offers.amount[one]] != kernels.NOWHERE]
        if is_by_currency and priced:
            currencies = [int(offers.currency[one]) for one in priced]
            most = max(currencies, key=currencies.count)
            priced = [one for one in priced if offers.currency[one] == most]
        assert rank == min((int(ranks[offers.amount[one]]) for one in priced), default=int(kernels.NOWHERE))


@given(SEEDS)
def test_sequences_are_found_within_a_section(random: Random) -> None:
    sections = [[[random.randrange(3) for _ in range(random.randint(0, 4))] for _ in range(6)] for _ in range(5)]
    forward = np.array([term for one in sections for terms in one for term in terms], np.uint32)
    ends = np.array([end for one in sections for end in np.cumsum([len(terms) for terms in one])], np.uint32)
    offsets = np.array([0, *np.cumsum([sum(map(len, one)) for one in sections])], np.int64)
    sequence = [random.randrange(3) for _ in range(random.randint(1, 3))]
    is_held = np.empty(5, np.uint8)
    kernels.contains(np.arange(5), offsets, ends, forward, np.array(sequence, np.uint32), is_held)
    for one, held in zip(sections, is_held.tolist(), strict=True):
        texts = one if len(sequence) == 1 else one[:3]
        assert held == any(
            terms[start : start + len(sequence)] == sequence for terms in texts for start in range(len(terms))
        )
