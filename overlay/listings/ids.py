"""Ids of listings as clients write them."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import unquote

from parsers import cards
from parsers.bitcoin.tx import Outpoint, without_ord


def parse_id(text: str) -> tuple[str, str | None]:
    """A listing's id as (registration id, server key or None). Outpoints, also after `ord://`, and contract addresses
    are normalised; keys are percent-encoded (law 6), also when the client has decoded them."""
    registration_id, key = cards.split_id(without_ord(text))
    if registration_id.startswith("eip155:"):
        registration_id = registration_id.lower()  # the checksum of an address is in the case of its letters
    base, mark, number = registration_id.partition("#")
    with suppress(ValueError):  # the id of a pointer is a domain or a URL
        registration_id = f"{Outpoint.parse(base)}{mark}{number}"
    return registration_id, None if key is None else cards.encoded_key(unquote(key))
