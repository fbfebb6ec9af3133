"""The TXT record `_motebit.<domain>` by which a domain names its identity file (discovery@1.0)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

MAX_RECORDS, MAX_LENGTH = 64, 4_096


class TxtRecord(NamedTuple):
    """Where the identity file of a domain is, and the address of its MCP server ("" where none is named)."""

    url: str
    endpoint: str


def read_txt(records: Iterable[Sequence[str]]) -> TxtRecord | None:
    """The first record of version `motebit1` with a URL. A record comes in strings of 255 bytes, which belong together;
    its fields are separated by spaces, in any order."""
    for number, chunks in enumerate(records):
        if number == MAX_RECORDS:
            break
        fields: dict[str, str] = {}
        for field in "".join(chunks)[:MAX_LENGTH].split():
            name, is_field, value = field.partition("=")
            if is_field:
                fields.setdefault(name, value)
        if fields.get("v") == "motebit1" and fields.get("url"):
            return TxtRecord(fields["url"], fields.get("endpoint", ""))
    return None
