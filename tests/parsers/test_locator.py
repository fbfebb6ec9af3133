"""Names that need no IDNA are read as IDNA reads them."""

from __future__ import annotations

import idna
from hypothesis import example, given
from hypothesis import strategies as st

from parsers.locator import a_label

NAMES = st.lists(st.text("aZ09-", max_size=6) | st.sampled_from(["xn--a", "ab--c", "a" * 63, "a" * 64]), max_size=4)


@given(NAMES.map(".".join) | st.text("ab-._1İK\n ", max_size=12))
@example("a.b\n")
@example("a.b.")
@example("K.example")  # the sign of kelvin is a small k in lower case
def test_a_name_is_what_idna_makes_of_it(name: str) -> None:
    try:
        told = idna.encode(name, uts46=True, std3_rules=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        told = ""
    found = a_label(name)
    assert found in (told, None)
    if found is None and told:
        last = told.split(".")[-1]
        assert len(name) > 253 or "." not in told or not last or last.isdigit() or last.lower().startswith("0x")
