"""What hosts and cards say of agents: the Motebit identity of an item, the terms by which it is discovered, and a
warning where a card claims another one than its host has published."""

from __future__ import annotations

from collections.abc import Iterator

from overlay.listings.listing import Listing
from overlay.listings.motebit import contradicts_host, motebit_facts, motebit_identity
from overlay.listings.system_facts import FactSource
from parsers.reasons import Reason


def _warnings(listing: Listing, _value: None) -> Iterator[Reason]:
    if contradicts_host(listing):
        yield Reason("motebit-claim", "its host has published another one", "/x-motebit")


FACTS = FactSource(
    members=lambda listing, _: {"motebit": motebit_identity(listing)},
    terms=lambda listing, _: motebit_facts(listing),
    warnings=_warnings,
)
