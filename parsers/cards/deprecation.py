"""An owner's notice that a listing is deprecated, in the MAP of a registration or in a card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from parsers.cards.fields import Fields, Json
from parsers.cards.strict_json import step

STATUS, SUCCESSOR, MESSAGE = "a2b-status", "a2b-successor", "a2b-message"
"""The MAP keys of a notice."""

DEPRECATED, ACTIVE = "deprecated", "active"
MEMBER = "x-a2b-deprecated"
"""The member of a card, `{successor, message}`, for what has no MAP: pointers and registry entries."""

MAX_MESSAGE, MAX_SUCCESSOR = 500, 1_024
"""Characters; a longer message is cut, a longer successor left out."""


class Deprecation(NamedTuple):
    """A notice: the id of the listing to use instead, and a message; "" for none. The id is as the owner wrote it, and
    proves nothing about the listing that it names."""

    successor: str = ""
    message: str = ""


def states_status(fields: Mapping[str, str]) -> bool:
    """Whether a MAP says if its registration is deprecated; what the card says does not count then."""
    return fields.get(STATUS) in (DEPRECATED, ACTIVE)


def from_map(fields: Mapping[str, str]) -> Deprecation | None:
    """The notice of a MAP, None where it has none or took it back."""
    if fields.get(STATUS) != DEPRECATED:
        return None
    return Deprecation(_successor(fields.get(SUCCESSOR, "")), fields.get(MESSAGE, "").strip()[:MAX_MESSAGE])


def map_fields(notice: Deprecation | None) -> dict[str, str]:
    """The MAP of a notice, None to take it back. Empty texts replace those of an earlier notice. Raises ValueError for
    a text that `from_map` would change."""
    if notice is None:
        return {STATUS: ACTIVE, SUCCESSOR: "", MESSAGE: ""}
    written = {STATUS: DEPRECATED, SUCCESSOR: notice.successor, MESSAGE: notice.message}
    if len(notice.message) > MAX_MESSAGE:
        raise ValueError(f"the message has {len(notice.message):,} characters: at most {MAX_MESSAGE}")
    if from_map(written) != notice:
        raise ValueError("the successor is the id of a listing, and neither text has spaces around it")
    return written


def read_deprecation(card: Json, fields: Fields) -> Deprecation | None:
    """The notice of a card, None without one."""
    if card.get(MEMBER) is None:
        return None
    if not isinstance(card[MEMBER], dict):
        fields.wrong(card[MEMBER], "an object", "", MEMBER)
        return None
    pointer = step("", MEMBER)
    successor, message = (fields.text(card[MEMBER], name, pointer).strip() for name in ("successor", "message"))
    if successor and not _successor(successor):
        fields.warn("ignored", "a successor that is not the id of a listing", f"{pointer}/successor")
    if len(message) > MAX_MESSAGE:
        fields.not_indexed(f"only the first {MAX_MESSAGE} characters of the message", f"{pointer}/message")
    return Deprecation(_successor(successor), message[:MAX_MESSAGE])


def _successor(text: str) -> str:
    """The text if it may be an id, which has no spaces."""
    text = text.strip()
    return text if len(text) <= MAX_SUCCESSOR and not any(map(str.isspace, text)) else ""
