"""The members of an item: the values that proved bytes require, and the members that no bytes prove."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from overlay.answers.items import ListingHead
from overlay.listings import from_pointer, item_json
from overlay.verify.server_answer import HOP_MEMBERS, LOCATED_MEMBERS, PROOF_MEMBERS, NotProvedError, ServerAnswer
from parsers import cards
from parsers.cards import AgentCard, Card, Kind, McpServer, ToolConfig
from parsers.errors import CardError
from parsers.pointers.locator import url_host

ABSENT = object()
"""The value of a member that must not be there."""

PROVED = frozenset(
    (
        "id", "type", "origin", "caip2", "txid", "cardSha256", "integrity", "anchors", "signer", "domain", "outpoint",
        "owner", "sale", "status", "app", "createdHeight", "updatedHeight", "blockHeight", "timestamp",
    )
)  # fmt: skip
"""Members of items that steps prove; reported as not proved otherwise."""

UNPROVABLE_OF_AGENTS = frozenset(("motebit", "signed"))
"""Members of agents without a proof: the data that their hosts publish. A server can omit them unnoticed, so they are
always reported."""

UNPROVABLE_OF_POINTERS = frozenset(("anchorCount", "anchors", "createdHeight", "drift", "fetchedFrom"))
"""Members of listings with fetched cards without a proof: other pointers, and the results of fetches."""

UNPROVABLE = frozenset(("changedHeight", "duplicates", "health", "recentChanges", "warnings")) | (
    frozenset(ListingHead.__struct_encode_fields__) - PROVED - UNPROVABLE_OF_AGENTS - UNPROVABLE_OF_POINTERS
)
"""Members of every listing without a proof: all facts about it that no step proves."""

OPTIONAL_OF_CARDS = ("headers", "transport")
"""Members that an item has only where its card has them."""

MOST_NAMES, LONGEST_NAME = 200, 100
"""Names of a server's unknown members in a report, and characters of a name, at most."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result that a step proves: a sentence, and the members of the item with the values that they must have."""

    detail: str
    members: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Partly:
    """A member that is proved in part: `check` returns False for values that contradict this part."""

    check: Callable[[Any], bool]


def same(expected: Any, served: Any) -> bool:
    """Whether two JSON values are the same, types included: `true` is not 1."""
    if type(expected) is not type(served):
        return False
    if isinstance(expected, dict):
        return expected.keys() == served.keys() and all(same(value, served[key]) for key, value in expected.items())
    if isinstance(expected, list):
        return len(expected) == len(served) and all(map(same, expected, served))
    return bool(expected == served)


def differing(expected: Mapping[str, Any], item: Mapping[str, Any]) -> list[str]:
    """The members of an item that are missing or differ from what proved bytes require, sorted."""
    return sorted(name for name, value in expected.items() if not _fits(value, item.get(name, ABSENT)))


def _fits(expected: Any, served: Any) -> bool:
    if isinstance(expected, Partly):
        return expected.check(served)
    return served is ABSENT if expected is ABSENT else served is not ABSENT and same(expected, served)


def read_card(answer: ServerAnswer) -> Card:
    """The card's record. Raises NotProvedError."""
    try:
        return cards.read(answer.card, answer.kind)
    except CardError as error:
        raise NotProvedError(f"the card is not valid: {error}") from None


def of_card(answer: ServerAnswer) -> dict[str, Any]:
    """The members that an item must have for its card. Raises NotProvedError when the card lacks the server named."""
    card = read_card(answer)
    if _is_whole_of_several(answer, card):
        trusted = [item_json.warning_json(reason) for reason in card.warnings]
        shown: dict[str, Any] = {"servers": _server_ids(answer, card)}
    else:
        read = _read_card(answer, card)
        shown = item_json.card_fields(read, card.warnings if isinstance(card, ToolConfig) else ())
        trusted = shown["warnings"]
        shown |= {"cheapest": item_json.cheapest_json(read.offers), "servers": ABSENT}
    here = host(answer)
    return (
        dict.fromkeys(OPTIONAL_OF_CARDS, ABSENT)
        | shown
        | {
            "warnings": Partly(lambda served: isinstance(served, list) and same(trusted, served[: len(trusted)])),
            "domain": Partly(lambda served: isinstance(served, dict) and served.get("host") == here) if here else None,
        }
    )


def host(answer: ServerAnswer) -> str:
    """The domain of a listing: that of the pointer's locator, else that of the card's url; "" for none."""
    card = read_card(answer)
    shown = (
        card.servers[0]
        if isinstance(card, ToolConfig) and _is_whole_of_several(answer, card)
        else _read_card(answer, card)
    )
    pointed_at = "" if answer.origin else from_pointer.host(answer.registration)
    return pointed_at or url_host(shown.url)


def _is_whole_of_several(answer: ServerAnswer, card: Card) -> bool:
    """Whether the id is the plain one of a config of several servers (law 6)."""
    return isinstance(card, ToolConfig) and len(card.servers) > 1 and answer.id == answer.registration


def _server_ids(answer: ServerAnswer, card: Card) -> list[str]:
    servers = card.servers if isinstance(card, ToolConfig) else ()
    return [cards.server_id(answer.registration, server.key, len(servers)) for server in servers]


def _read_card(answer: ServerAnswer, card: Card) -> AgentCard | McpServer:
    """The agent or the server that the id names. Raises NotProvedError."""
    shown: dict[str, AgentCard | McpServer] = {}
    if isinstance(card, ToolConfig):
        shown.update(zip(_server_ids(answer, card), card.servers, strict=True))
    else:
        shown[answer.registration] = card
    if answer.id not in shown:
        raise NotProvedError(f"the card holds nothing for {answer.id[:200]!a}")
    return shown[answer.id]


def unprovable(answer: ServerAnswer) -> frozenset[str]:
    """The members of a listing of this kind that no bytes prove, whether it has them or not."""
    of_kind = UNPROVABLE_OF_AGENTS if answer.kind is Kind.AGENT else frozenset()
    return UNPROVABLE | of_kind | (UNPROVABLE_OF_POINTERS if answer.origin is None else frozenset())


def not_proved(item: Mapping[str, Any], proof: Mapping[str, Any], needed: Iterable[str], proved: set[str]) -> list[str]:
    """The members that are not proved, sorted: all of the item and those `needed`, without the `proved`; and unknown
    members of the proof, as `proof.NAME`."""
    names = {str(name) for name in item} | set(needed)
    return _bounded([*(names - proved), *_unknown_of_proof(proof)])


def _unknown_of_proof(proof: Mapping[str, Any]) -> set[str]:
    names = {f"proof.{name}" for name in proof.keys() - PROOF_MEMBERS}
    for member, defined in (("before", HOP_MEMBERS), ("after", HOP_MEMBERS), ("current", LOCATED_MEMBERS)):
        served = proof.get(member)
        for hop in served if isinstance(served, list) else [served]:
            names |= {f"proof.{member}.{name}" for name in hop.keys() - defined} if isinstance(hop, dict) else set()
    return names


def _bounded(names: Iterable[str]) -> list[str]:
    listed = sorted({name[:LONGEST_NAME] for name in names})
    more = [f"and {len(listed) - MOST_NAMES:,} more"] if len(listed) > MOST_NAMES else []
    return listed[:MOST_NAMES] + more
