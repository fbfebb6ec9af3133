"""The page about the format of the index lists the arrays that a segment has."""

from __future__ import annotations

import re

from overlay.engines.native import background_jobs, durable, segment_file
from overlay.engines.native.builder import SegmentBuilder
from overlay.engines.native.derived import derived
from overlay.engines.native.schema import DERIVED, MEMBERS, TABLES
from overlay.engines.native.writing import AT_ONCE, FACTOR, FILLED, SMALL
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "index-format.md").read_text()


def test_the_page_lists_every_array_with_its_type_and_what_it_has_a_value_of() -> None:
    expected = {}
    for table in TABLES:
        expected |= {f"{table}_bytes": ("u1", ""), f"{table}_offsets": ("i8", f"string of `{table}`")}
    expected["offers_offsets"] = ("i8", "document")
    for member in MEMBERS:
        of = "offer" if member.of_offer else "document"
        expected[member.name] = (member.dtype, "" if member.is_rows else of)
        if member.is_rows:
            expected[f"{member.name}_offsets"] = ("i8", of)
    of_each = {"": "", "documents": "document", "offers": "offer", "lengths": "number of letters"}
    of_each["clusters"] = "cluster"
    for array in DERIVED:
        kind = "string" if array.of in TABLES else "value"
        expected[array.name] = (array.dtype, of_each.get(array.of, f"{kind} of `{array.of}`"))
    rows = re.findall(r"^\| `(\w+)` \| ([uif]\d) \| ([^|]*) \| [^|]* \|$", PAGE, re.MULTILINE)
    assert {name: (type_, of.strip()) for name, type_, of in rows} == expected
    arrays = SegmentBuilder().arrays()
    assert set(expected) == set(arrays | derived(arrays))


def test_the_page_states_the_numbers_of_the_program() -> None:
    assert f"up to {SMALL} documents" in PAGE
    assert FACTOR == 4
    assert "less than four\ntimes" in PAGE
    assert f"up to {AT_ONCE:,} documents" in PAGE
    assert f"more than {FILLED} segments" in PAGE
    assert f"{durable.LARGE >> 20} MiB and more" in PAGE
    assert background_jobs.CLOSE_SECONDS == 10
    assert f"at most {segment_file._MOST:,} |" in PAGE
