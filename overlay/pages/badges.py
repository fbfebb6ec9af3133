"""Badges: what is known of a listing in a word each, and what each word means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from parsers.price_changes import ADDRESS, PRICE

SAME = ("same-name", "same-url", "same-address")
"""Codes of warnings that another listing had the same before."""


class Meaning(NamedTuple):
    """What a badge says: its word, whether that is `good`, `plain`, `warn` or `bad` news, and an explanation."""

    word: str
    tone: str
    text: str


MEANINGS: dict[str, Meaning] = {
    "inscribed": Meaning(
        "inscribed", "plain",
        "The card itself stands on the chain, in the transaction that the listing names. Whoever serves it to you, "
        "not a byte can be changed without that showing.",
    ),
    "hash-verified": Meaning(
        "hash verified", "good",
        "A transaction names the SHA-256 of this card. The card was fetched from the place that the transaction "
        "names, and its bytes had that hash.",
    ),
    "unhashed": Meaning(
        "unhashed", "warn",
        "The pointer on chain names a place and no hash. The card is what was served there when it was last asked, "
        "and may be another one tomorrow.",
    ),
    "drifted": Meaning(
        "drifted", "warn",
        "The place that the pointer names serves something else by now. What is shown is the card that had the hash "
        "named on chain.",
    ),
    "proved": Meaning(
        "proved", "good",
        "The transaction is in a block: a merkle path leads from it to a block header with proof of work, and both "
        "are kept here. On the listing's own page your browser can check that for itself.",
    ),
    "domain": Meaning(
        "domain", "good",
        "The host named beside this badge speaks for the listing: it names the registration, or serves exactly this "
        "card. It says who runs it, not whether it is any good.",
    ),
    "pending": Meaning(
        "pending", "warn",
        "It was seen in the mempool and is in no block yet. It may still change, or never be mined.",
    ),
    "update": Meaning(
        "update waiting", "warn",
        "A newer revision was seen in the mempool. What is shown is the newest one that stands in a block.",
    ),
    "burned": Meaning(
        "burned", "bad",
        "The satoshi that carried the registration was spent as a fee or merged with others. It is delisted for good.",
    ),
    "undecided": Meaning(
        "undecided", "warn",
        "Where its satoshi went, or whether it was registered before the first block that is indexed, depends on a "
        "transaction that the source of the chain does not have. Nothing is guessed; a warning says what is missing.",
    ),
    "same-name": Meaning(
        "name taken", "bad",
        "Another listing had this name, or one that looks like it, before. The listing's page names that one.",
    ),
    "same-url": Meaning(
        "URL taken", "bad",
        "Another listing had this URL before. The listing's page names that one.",
    ),
    "same-address": Meaning(
        "pay-to shared", "bad",
        "Another listing had payments go to the same address before. The listing's page names that one.",
    ),
    PRICE: Meaning(
        "price changed", "warn",
        "Its prices differ from those that were shown a while ago. The listing's page names the old and the new ones.",
    ),
    ADDRESS: Meaning(
        "pay-to changed", "warn",
        "Payments go to another address than a while ago. Make sure that this is meant before you pay.",
    ),
}  # fmt: skip
"""By the kind of badge, in the order in which they are explained."""


class Badge(NamedTuple):
    """A badge of a listing: its kind, and the word on it."""

    kind: str
    word: str
    tone: str


def badges(item: Mapping[str, Any], *, proved: bool) -> list[Badge]:
    """The badges of an item, the most telling first; `proved` says that a proof of its transaction is kept."""
    return [_badge(kind, item) for kind in _kinds(item, proved=proved)]


def _kinds(item: Mapping[str, Any], *, proved: bool) -> Iterator[str]:
    if item["status"] in MEANINGS:
        yield item["status"]
    if "pending" in item:
        yield "update"
    codes = {each["code"] for each in item["warnings"]}
    yield from (code for code in (*SAME, PRICE, ADDRESS) if code in codes)
    if item["domain"] and item["domain"]["verified"]:
        yield "domain"
    if item["integrity"] in MEANINGS:
        yield item["integrity"]
    if proved:
        yield "proved"


def _badge(kind: str, item: Mapping[str, Any]) -> Badge:
    meaning = MEANINGS[kind]
    word = item["domain"]["host"] if kind == "domain" else meaning.word
    return Badge(kind, word, meaning.tone)


def explained(shown: Iterable[Badge]) -> list[tuple[str, Meaning]]:
    """The meanings that a page with these badges needs, each once."""
    kinds = {badge.kind for badge in shown}
    return [(kind, meaning) for kind, meaning in MEANINGS.items() if kind in kinds]
