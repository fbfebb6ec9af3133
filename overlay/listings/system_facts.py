"""The facts that systems add to listings: members of items, filter terms, warnings, and a number to sort by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from overlay.installation import NAMES, installed

if TYPE_CHECKING:
    from indexer.store import Store
    from parsers.reasons import Reason


Subject = Any
"""A listing (`overlay.listings.listing.Listing`; its records hold the types defined here)."""


class ListingHealth(NamedTuple):
    """Whether a listing answers: `state` is one of `overlay.answers.items.HEALTH`; `is_lost`: it did not for long."""

    state: str
    is_reachable: bool
    is_lost: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FactSource:
    """`read` maps ids of registrations to their stored facts, in a few statements, from a mapping of these ids to their
    hosts. The others take a listing and its stored facts (None without any), and return the members of its item, filter
    terms, warnings, the number to sort by, the larger the better, and the public key (hex) that its host signs for the
    agent, "" for none. `fresh` are members with times that no change announces, which only answers from the store have
    in place of those of `members`; `health` is whether it answers, None where nobody looked."""

    read: Callable[[Store, Mapping[str, str]], Mapping[str, Any]] = lambda _store, _hosts: {}
    members: Callable[[Subject, Any], Mapping[str, Any]] = lambda _listing, _value: {}
    terms: Callable[[Subject, Any], Iterable[str]] = lambda _listing, _value: ()
    warnings: Callable[[Subject, Any], Iterable[Reason]] = lambda _listing, _value: ()
    fresh: Callable[[Subject, Any], Mapping[str, Any]] = lambda _listing, _value: {}
    health: Callable[[Subject, Any], ListingHealth | None] = lambda _listing, _value: None
    number: Callable[[Any], int | None] = lambda _value: None
    host_key: Callable[[Subject, Any], str] = lambda _listing, _value: ""


class SystemFact(NamedTuple):
    """The stored value of a system for a registration, and the source that makes facts from it."""

    source: FactSource
    value: Any = None


Facts = Mapping[str, SystemFact]
"""The facts of a registration by the name of the system."""


@cache
def sources(names: tuple[str, ...] = NAMES) -> Mapping[str, FactSource]:
    """The fact sources of these systems, as far as they are installed and have one."""
    return {
        member.name: member.module(member.facts).FACTS
        for member in installed()
        if member.facts and member.name in names
    }


@cache
def no_facts(names: tuple[str, ...] = NAMES) -> Facts:
    """The facts of a registration without stored ones."""
    return {name: SystemFact(source) for name, source in sources(names).items()}


def facts_of(store: Store, hosts: Mapping[str, str], names: tuple[str, ...] = NAMES) -> Callable[[str], Facts]:
    """The facts of registrations by id; `hosts` has the host of each, "" where it has none."""
    stored = {name: source.read(store, hosts) for name, source in sources(names).items()}
    return lambda id_: {name: fact._replace(value=stored[name].get(id_)) for name, fact in no_facts(names).items()}
