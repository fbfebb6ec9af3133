"""The members of an item: what proved bytes say each must be, and which no bytes prove."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from overlay import items, pointed
from overlay.verifying.claim import HOP_MEMBERS, LOCATED_MEMBERS, PROOF_MEMBERS, Claim, NotProvedError
from parsers import cards
from parsers.cards import AgentCard, Card, Server, ToolConfig
from parsers.errors import CardError
from parsers.hosts import url_host

ABSENT = object()
"""The value of a member that must not be there."""

UNPROVABLE = frozenset(("age", "chain", "duplicates", "ownerCheckedAt", "pending", "rating", "warnings"))
"""What only the server says, of every listing. A server can leave these out unnoticed, so they are named even then."""

UNPROVABLE_OF_POINTERS = frozenset(("anchorCount", "anchors", "createdHeight", "drift", "fetchedFrom", "changedHeight"))
"""The same of listings whose cards were fetched: other pointers, and what fetching them came to."""

MOST_NAMES, LONGEST_NAME = 200, 100
"""Names of a server's making that a report repeats, and characters of each."""


@dataclass(frozen=True, slots=True)
class Partly:
    """What is proved of a member is less than all of it: `check` finds out what cannot be true, the rest is not
    proved."""

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
    """The members of an item that are not as proved bytes say, or are missing, sorted."""
    return sorted(name for name, value in expected.items() if not _fits(value, item.get(name, ABSENT)))


def _fits(expected: Any, served: Any) -> bool:
    if isinstance(expected, Partly):
        return expected.check(served)
    return served is ABSENT if expected is ABSENT else served is not ABSENT and same(expected, served)


def read_card(claim: Claim) -> Card:
    """The card's record. Raises NotProvedError."""
    try:
        return cards.read(claim.card, claim.kind)
    except CardError as error:
        raise NotProvedError(f"the card is not valid: {error}") from None


def of_card(claim: Claim) -> dict[str, Any]:
    """What an item must show of the card. Raises NotProvedError when the card does not hold what the id names."""
    card = read_card(claim)
    if _is_whole_of_several(claim, card):
        own = [items.warning(reason) for reason in card.warnings]
        shown: dict[str, Any] = {"servers": _server_ids(claim, card)}
    else:
        one = _one(claim, card)
        shown = items.shown(one, card.warnings if isinstance(card, ToolConfig) else ())
        own = shown["warnings"]
        shown |= {"cheapest": items.cheapest(one.offers), "servers": ABSENT}
    here = host(claim)
    return shown | {
        "warnings": Partly(lambda served: isinstance(served, list) and same(own, served[: len(own)])),
        "domain": Partly(lambda served: isinstance(served, dict) and served.get("host") == here) if here else None,
    }


def host(claim: Claim) -> str:
    """The domain that a listing is of: the one pointed at, else that of the url of its card; "" for none."""
    card = read_card(claim)
    shown = card.servers[0] if isinstance(card, ToolConfig) and _is_whole_of_several(claim, card) else _one(claim, card)
    pointed_at = "" if claim.origin else pointed.host(claim.registration)
    return pointed_at or url_host(shown.url)


def _is_whole_of_several(claim: Claim, card: Card) -> bool:
    """Whether the id is the plain one of a config of several servers (law 6)."""
    return isinstance(card, ToolConfig) and len(card.servers) > 1 and claim.id == claim.registration


def _server_ids(claim: Claim, card: Card) -> list[str]:
    servers = card.servers if isinstance(card, ToolConfig) else ()
    return [cards.server_id(claim.registration, server.key, len(servers)) for server in servers]


def _one(claim: Claim, card: Card) -> AgentCard | Server:
    """The agent or the server that the id names. Raises NotProvedError."""
    shown: dict[str, AgentCard | Server] = {}
    if isinstance(card, ToolConfig):
        shown.update(zip(_server_ids(claim, card), card.servers, strict=True))
    else:
        shown[claim.registration] = card
    if claim.id not in shown:
        raise NotProvedError(f"the card holds nothing for {claim.id[:200]!a}")
    return shown[claim.id]


def not_proved(item: Mapping[str, Any], proof: Mapping[str, Any], needed: Iterable[str], proved: set[str]) -> list[str]:
    """The members that are not proved, sorted: all of the item, those `needed` and those that only a server says,
    without the `proved`; and those of the proof that this program does not know, as `proof.NAME`."""
    names = {str(name) for name in item} | set(needed) | UNPROVABLE
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
