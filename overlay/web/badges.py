"""Badges of a listing, what each means, and warnings in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from overlay.text.interval_words import in_words
from overlay.text.severity_words import SAME_OWNER
from parsers.cards.price_changes import ADDRESS, PRICE

SAME = ("same-name", "same-url", "same-address", "same-text")
"""Codes of warnings that an older listing has the same name, URL, pay-to address or text."""


class Meaning(NamedTuple):
    """A badge's word, its tone (`good`, `plain`, `warn` or `bad`), and an explanation."""

    word: str
    tone: str
    text: str


MEANINGS: dict[str, Meaning] = {
    "hash-verified": Meaning(
        "hash verified", "good",
        "A transaction names the SHA-256 of this card. The card was fetched from the address that the transaction "
        "names, and its bytes have that hash.",
    ),
    "unhashed": Meaning(
        "unhashed", "warn",
        "The pointer on chain names an address without a hash. The card is what was served there at the last fetch, "
        "and may be another one tomorrow.",
    ),
    "drifted": Meaning(
        "drifted", "warn",
        "The address that the pointer names serves something else by now. Shown is the card with the hash named on "
        "chain.",
    ),
    "domain": Meaning(
        "domain", "good",
        "The host on this badge names the registration, or serves exactly this card. That says who runs it, not "
        "whether it is any good.",
    ),
    "signed": Meaning(
        "signed, prices too", "good",
        "The card has a signature by a key that the host of its URL publishes, and its prices are among what was "
        "signed. That says who wrote it. Anyone may register a copy.",
    ),
    "signed-in-part": Meaning(
        "signed without prices", "plain",
        "The card has a signature by a key that the host of its URL publishes. The prices and pay-to addresses are not "
        "among what was signed: anyone may register a copy with others.",
    ),
    "pending": Meaning(
        "pending", "warn",
        "Seen in the mempool, and in no block yet. It may still change, or never be mined.",
    ),
    "update": Meaning(
        "update waiting", "warn",
        "A newer revision is in the mempool. Shown is the newest one that is in a block. The listing's page shows what "
        "it changes: read that before you pay.",
    ),
    "deprecated": Meaning(
        "deprecated", "warn",
        "Its owner says that it should not be used any more. The listing's page shows the owner's message, and the "
        "listing to be used instead.",
    ),
    "burned": Meaning(
        "burned", "bad",
        "The satoshi of the registration was spent as a fee or merged with others. The listing is gone for good.",
    ),
    "undecided": Meaning(
        "undecided", "warn",
        "Where its satoshi went, or whether it was registered before the first indexed block, depends on a "
        "transaction that the source of the chain does not have; or it was submitted, and no block may ever hold it. "
        "A warning says which.",
    ),
    "same-name": Meaning(
        "name taken", "bad",
        "An older listing has this name, or one that looks like it; the listing's page links to it. "
        "No agent that its domain names by id has this badge.",
    ),
    "same-url": Meaning(
        "URL taken", "bad",
        "An older listing has this URL; the listing's page links to it. No agent that the domain of its URL names has "
        "this badge.",
    ),
    "same-address": Meaning(
        "pay-to shared", "bad",
        "An older listing takes payments at the same address; the listing's page links to it. No agent that its domain "
        "names by id has this badge.",
    ),
    "same-text": Meaning(
        "text taken", "bad",
        "An older listing has this text, but another URL, host, command or pay-to address; the listing's page links to "
        "it. No agent that the host of the older one's URL confirms has this badge.",
    ),
    PRICE: Meaning(
        "price changed", "warn",
        "A price rose or became another one lately. The listing's page shows the old and the new one.",
    ),
    ADDRESS: Meaning(
        "pay-to changed", "warn",
        "The pay-to address changed lately. The listing's page shows the old and the new one: make sure of it before "
        "you pay.",
    ),
}  # fmt: skip
"""The meanings by kind of badge, in the order of explanation."""


NO_ITEM: Mapping[str, Any] = {}


class Badge(NamedTuple):
    """A badge of a listing: its kind, and the word on it."""

    kind: str
    word: str
    tone: str


def badges(item: Mapping[str, Any]) -> list[Badge]:
    """The badges of an item, the most important first: only facts that set it apart from other results."""
    return [_badge(kind, item) for kind in _kinds(item)]


def _kinds(item: Mapping[str, Any]) -> Iterator[str]:
    if item["status"] in MEANINGS:
        yield item["status"]
    if "deprecated" in item:
        yield "deprecated"
    if "pending" in item:
        yield "update"
    yield from _warned(item["warnings"])
    if item["domain"] and item["domain"]["verified"]:
        yield "domain"
    if signed := item.get("signed"):
        yield "signed" if signed["coversPricing"] else "signed-in-part"
    if item["integrity"] in MEANINGS:
        yield item["integrity"]


def _warned(warnings: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    codes = {warning["code"] for warning in warnings}
    return (code for code in (*SAME, PRICE, ADDRESS) if code in codes)


def warned(warnings: Iterable[Mapping[str, Any]]) -> Iterator[Badge]:
    """The badges of a card's warnings, before it is published."""
    return map(_badge, _warned(warnings))


def _badge(kind: str, item: Mapping[str, Any] = NO_ITEM) -> Badge:
    meaning = MEANINGS[kind]
    return Badge(kind, item["domain"]["host"] if kind == "domain" else meaning.word, meaning.tone)


def explained(shown: Iterable[Badge]) -> list[tuple[str, Meaning]]:
    """The meanings of these badges, each once."""
    kinds = {badge.kind for badge in shown}
    return [(kind, meaning) for kind, meaning in MEANINGS.items() if kind in kinds]


_NAMING = re.compile(rf"(.*: )(\S+?)({re.escape(SAME_OWNER)})?", re.DOTALL)
"""The detail of a warning of SAME: a sentence, the id of the older listing, and whether it has the same owner."""


class WarningText(NamedTuple):
    """A warning's sentence up to the id of another listing, that id ("" where it names none), and the rest of the
    sentence."""

    text: str
    id: str = ""
    rest: str = ""


def warning_text(warning: Mapping[str, Any]) -> WarningText:
    """A warning in words, with the interval of a price as people name it."""
    text = in_words(warning["detail"])
    match = _NAMING.fullmatch(text) if warning["code"] in SAME else None
    return WarningText(match[1], match[2], match[3] or "") if match else WarningText(text)
