"""The lines of a snapshot: one canonical form each; anything else is an error that names it."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.snapshot.codec import (
    SnapshotError,
    block_line,
    card_line,
    end_line,
    event_line,
    header_line,
    headers_line,
    parent_line,
    parse,
    proof_line,
)
from tests.snapshots import Line, dump, parsed, snapshot

pytestmark = pytest.mark.usefixtures("often_collected")

__all__ = ["snapshot"]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)

WRITTEN: dict[str, Callable[[Any], bytes]] = {
    "chains": header_line,
    "card": card_line,
    "parent": parent_line,
    "headers": lambda result: headers_line(result.chain, result.first, result.raw),
    "block": block_line,
    "proof": lambda result: proof_line(*result),
    "event": event_line,
    "end": end_line,
}
"""How what each line holds is written again."""


def says_all_or_is_refused(line: bytes) -> bool:
    """Whether a line is read: then it is written again as it was."""
    try:
        name, value = parse(line)
    except SnapshotError:
        return False
    assert WRITTEN[name](value) == line
    return True


def test_every_line_is_written_again_as_it_was(snapshot: bytes) -> None:
    lines = snapshot.splitlines(keepends=True)
    assert all(says_all_or_is_refused(line) for line in lines)
    assert {parse(line)[0] for line in lines} == set(WRITTEN) - {"headers"}
    assert says_all_or_is_refused(headers_line("demo", 3, bytes(160)))


KEYED = st.dictionaries(st.sampled_from(["format", "event", "card", "a"]), JSON, max_size=2)


@given(st.binary(max_size=200) | (JSON | KEYED).map(lambda value: json.dumps(value).encode() + b"\n"))
def test_any_bytes_are_a_line_or_a_snapshot_error(line: bytes) -> None:
    says_all_or_is_refused(line)


def parts(value: Any) -> Iterator[Line]:
    """The objects of a line."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(item)


def near(value: Any) -> list[Any]:
    """Values near a value that might be taken for it."""
    if isinstance(value, str):
        return [value.upper(), value + "00", value[2:], f" {value}", [value], None]
    if isinstance(value, bool):
        return [int(value), not value, None]
    return [-value, value + 1, float(value), bool(value), str(value), 2**63] if isinstance(value, int) else [[value], 0]


def test_a_line_with_a_member_nearly_right_says_all_that_is_read_of_it_or_is_refused(snapshot: bytes) -> None:
    read = 0
    for line in parsed(snapshot):
        for part in parts(line):
            for member, value in [*part.items()]:
                for part[member] in near(value):
                    read += says_all_or_is_refused(dump(line))
                part[member] = value
            part["stranger"] = None
            assert not says_all_or_is_refused(dump(line))
            del part["stranger"]
        assert says_all_or_is_refused(dump(line))
    assert read


@given(data=st.data())
def test_a_line_with_any_member_replaced_says_all_that_is_read_of_it_or_is_refused(
    data: st.DataObject, snapshot: bytes
) -> None:
    line = json.loads(data.draw(st.sampled_from(snapshot.splitlines())))
    part = data.draw(st.sampled_from([*parts(line)]))
    part[data.draw(st.sampled_from(sorted(part)))] = data.draw(JSON)
    says_all_or_is_refused(dump(line))


@pytest.mark.parametrize(
    "line",
    [
        b'{"end":{"cards":NaN,"blocks":0,"events":0,"proofs":0}}\n',
        b'{"end":{"cards":-1,"blocks":0,"events":0,"proofs":0}}\n',
        b'{"end":{"cards":1e400,"blocks":0,"events":0,"proofs":0}}\n',
        b'{"end":{"cards":' + b"9" * 5_000 + b',"blocks":0,"events":0,"proofs":0}}\n',
        b'{"end":{"cards":0,"cards":0,"blocks":0,"events":0,"proofs":0}}\n',
        b'{"format":"\\ud800","chains":[]}\n',
        b'{"format":"a2b-snapshot/3","chains":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}\n",
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n",
        b'{"card":"e30"}\n',
        b'{"card":" e30="}\n',
        b'{"card":"e31="}\n',
        b'{"card":"e30=","end":{"cards":0,"blocks":0,"events":0,"proofs":0}}\n',
        b'{ "card":"e30="}\n',
        b'{"card":"\\u00653\\u0030="}\n',
        b'{"card":"e30="}\r\n',
        b'{"card":"e30="}',
        b"\xff\xfe\n",
        b"{}\n",
        b"[]\n",
        b"null\n",
        b"\n",
    ],
)
def test_a_hostile_line_is_refused(line: bytes) -> None:
    with pytest.raises(SnapshotError, match=r"not a line of a snapshot|not in canonical form|the format is"):
        parse(line)


def test_a_line_of_many_small_values_takes_no_memory() -> None:
    """As plain JSON it would be half a gigabyte of objects."""
    line = b'{"proof":{"txid":[' + b"{}," * 2_000_000 + b"{}]}}\n"
    tracemalloc.start()
    with pytest.raises(SnapshotError):
        parse(line)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
