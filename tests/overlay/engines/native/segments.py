"""A slow twin of merging: documents as plain Python, and the arrays of a segment that holds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import numpy as np

from overlay.engines.native.schema import BREAK, MEMBERS, TABLES, ArrayMember

Row = dict[str, list[Any]]
"""The values of a document or offer by member: strings as bytes, and BREAK as None."""


class Twin:
    """A document with its offers."""

    def __init__(self, random: Random) -> None:
        self.members = row(random, of_offer=False)
        self.offers = [row(random, of_offer=True) for _ in range(random.choice((0, 0, 1, 3)))]


def row(random: Random, *, of_offer: bool) -> Row:
    return {
        member.name: [value(random, member) for _ in range(random.randrange(5) if member.is_rows else 1)]
        for member in MEMBERS
        if member.of_offer == of_offer
    }


def value(random: Random, member: ArrayMember) -> Any:
    if member.name == "forward" and random.random() < 0.2:
        return None
    if member.table:
        return bytes(random.choice(b"\0ab\xff") for _ in range(random.randrange(4)))
    if member.dtype == "f8":
        return random.choice((-1.0, 0.5, 1e9))
    return random.randrange(100)


def rows_of(documents: Sequence[Twin], member: ArrayMember) -> list[list[Any]]:
    """The values of a member, for each document or offer."""
    if member.of_offer:
        return [offer[member.name] for document in documents for offer in document.offers]
    return [document.members[member.name] for document in documents]


def arrays_of(documents: Sequence[Twin], unused: Iterable[bytes] = ()) -> dict[str, Any]:
    """The arrays of a segment of these documents, with strings that none of them uses in each table."""
    arrays = {"offers_offsets": offsets([document.offers for document in documents])}
    strings = {table: set(unused) for table in TABLES}
    for member in MEMBERS:
        if member.table:
            strings[member.table] |= {
                text for values in rows_of(documents, member) for text in values if text is not None
            }
    numbers = {table: {text: number for number, text in enumerate(sorted(texts))} for table, texts in strings.items()}
    for table, texts in numbers.items():
        arrays[f"{table}_bytes"] = np.frombuffer(b"".join(texts), np.uint8)
        arrays[f"{table}_offsets"] = offsets(list(texts))
    for member in MEMBERS:
        rows = rows_of(documents, member)
        values: list[Any] = [value for values in rows for value in values]
        if member.table:
            values = [BREAK if text is None else numbers[member.table][text] for text in values]
        arrays[member.name] = np.array(values, f"<{member.dtype}")
        if member.is_rows:
            arrays[f"{member.name}_offsets"] = offsets(rows)
    return arrays


def offsets(rows: Sequence[Sequence[Any]]) -> Any:
    return np.array([sum(map(len, rows[:end])) for end in range(len(rows) + 1)], "<i8")
