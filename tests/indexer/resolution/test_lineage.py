"""Following a satoshi, against a slow oracle that lays every single satoshi on a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.resolution.lineage import OutputRanges, SatLocation, UnknownPosition, positions
from parsers.bitcoin.script import is_unspendable
from parsers.bitcoin.tx import Outpoint, TxOutput

P2PKH, DATA, FALSE_DATA = b"\x76\xa9", b"\x6a\x01x", b"\x00\x6a\x01x"
PREVOUTS = [Outpoint(bytes([number]) * 32, number) for number in range(8)]

values = st.lists(st.integers(0, 6), min_size=1, max_size=8)
outputs = st.lists(
    st.builds(TxOutput, st.sampled_from([0, 0, 1, 1, 1, 2, 5]), st.sampled_from([P2PKH, DATA, FALSE_DATA]))
)


def amount_of(amounts: Sequence[int | None]) -> Callable[[Outpoint], int | None]:
    return dict(zip(PREVOUTS, amounts, strict=False)).__getitem__


def where(amounts: Sequence[int], number: int, offset: int, created: Sequence[TxOutput], *, alone: bool) -> SatLocation:
    """The oracle: a list with one entry a satoshi of the inputs, and one with an entry a satoshi of the outputs."""
    line = [(index, sat) for index, amount in enumerate(amounts) for sat in range(amount)]
    slots = [(vout, sat) for vout, output in enumerate(created) for sat in range(output.satoshis)]
    position = line.index((number, offset))
    if position >= len(slots):
        return SatLocation(None, 0, burned=True)
    vout, sat = slots[position]
    data = created[vout].script.startswith((b"\x6a", b"\x00\x6a"))
    return SatLocation(vout, sat, burned=created[vout].satoshis != 1 if alone else data)


@given(values, outputs, st.booleans(), st.data())
def test_every_satoshi_lands_where_the_list_says(
    amounts: list[int], created: list[TxOutput], alone: bool, data: st.DataObject
) -> None:
    sats = [(number, sat) for number, amount in enumerate(amounts) for sat in range(amount)]
    watched = sorted(data.draw(st.lists(st.sampled_from(sats)))) if sats else []
    ranges = OutputRanges(created, one_sat_rule=alone)
    results = list(positions(PREVOUTS[: len(amounts)], watched, amount_of(amounts)))
    assert len(results) == len(watched)
    for (number, offset), position in zip(watched, results, strict=True):
        assert isinstance(position, int)
        assert ranges.locate(position) == where(amounts, number, offset, created, alone=alone)


@given(values, outputs, st.data())
def test_an_unknown_value_hides_later_positions_and_bounds_them(
    amounts: list[int], created: list[TxOutput], data: st.DataObject
) -> None:
    hidden = data.draw(st.sets(st.integers(0, len(amounts) - 1)))
    existing = [None if number in hidden else amount for number, amount in enumerate(amounts)]
    sats = [(number, sat) for number, amount in enumerate(amounts) for sat in range(amount)]
    ranges = OutputRanges(created, one_sat_rule=True)
    for (number, offset), position in zip(
        sats, positions(PREVOUTS[: len(amounts)], sats, amount_of(existing)), strict=True
    ):
        before = [item for item in sorted(hidden) if item < number]
        truth = where(amounts, number, offset, created, alone=True)
        if not before:
            assert isinstance(position, int)
            assert ranges.locate(position) == truth
            continue
        assert isinstance(position, UnknownPosition)
        assert position.missing == tuple(PREVOUTS[item] for item in before)
        assert position.at_least <= sum(amounts[:number]) + offset
        assert truth.vout is None or ranges.may_hold(truth.vout, position.at_least)


def test_only_values_of_inputs_before_a_followed_satoshi_are_requested() -> None:
    requests = []

    def value(outpoint: Outpoint) -> int:
        requests.append(outpoint)
        return 10

    assert list(positions(PREVOUTS, [(2, 0), (2, 3), (4, 1)], value)) == [20, 23, 41]
    assert requests == PREVOUTS[:4]
    requests.clear()
    assert list(positions(PREVOUTS, [(0, 7)], value)) == [7]
    assert requests == []


def test_the_satoshi_at_a_border_belongs_to_the_output_that_begins_there() -> None:
    ranges = OutputRanges(
        [TxOutput(1, P2PKH), TxOutput(0, P2PKH), TxOutput(1, P2PKH), TxOutput(5, P2PKH)], one_sat_rule=True
    )
    assert [ranges.locate(number) for number in (0, 1, 2, 6, 7)] == [
        SatLocation(0, 0, burned=False),
        SatLocation(2, 0, burned=False),
        SatLocation(3, 0, burned=True),
        SatLocation(3, 4, burned=True),
        SatLocation(None, 0, burned=True),
    ]


def test_ordinal_theory_keeps_the_offset_and_burns_only_what_can_never_be_spent() -> None:
    ranges = OutputRanges([TxOutput(546, P2PKH), TxOutput(3, DATA), TxOutput(3, FALSE_DATA)], one_sat_rule=False)
    assert [ranges.locate(number) for number in (545, 546, 549, 552)] == [
        SatLocation(0, 545, burned=False),
        SatLocation(1, 0, burned=True),
        SatLocation(2, 0, burned=True),
        SatLocation(None, 0, burned=True),
    ]


def test_outputs_of_no_or_negative_value_hold_nothing() -> None:
    assert OutputRanges([], one_sat_rule=True).locate(0) == SatLocation(None, 0, burned=True)
    ranges = OutputRanges([TxOutput(-5, P2PKH), TxOutput(0, P2PKH), TxOutput(1, P2PKH)], one_sat_rule=True)
    assert ranges.locate(0) == SatLocation(2, 0, burned=False)
    assert [ranges.may_hold(vout, 0) for vout in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    ("script", "is_data"), [(DATA, True), (FALSE_DATA, True), (P2PKH, False), (b"", False), (b"\x00", False)]
)
def test_data_scripts_are_known_by_how_they_begin(script: bytes, is_data: bool) -> None:
    assert is_unspendable(script) is is_data
