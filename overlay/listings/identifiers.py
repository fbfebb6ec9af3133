"""Identifiers by which a listing is looked up, as filter terms: its ids, outpoints and transactions, and the package
that its command installs."""

from __future__ import annotations

from collections.abc import Iterator

from overlay.listings import from_pointer
from overlay.listings.listing import Listing
from overlay.search.facts import id_fact, outpoint_fact, package_fact, transaction_fact
from parsers.bitcoin.tx import Outpoint
from parsers.cards import McpServer
from parsers.cards.command_packages import installed


def identifier_facts(listing: Listing) -> Iterator[str]:
    """All identifiers of a listing, as filter terms."""
    yield from dict.fromkeys((id_fact(listing.id), id_fact(listing.state.id)))
    outpoints = {listing.state.outpoint, listing.state.winner, _origin(listing.state.id)} - {None}
    resolution = listing.pointers.resolution if listing.pointers else None
    anchors = [anchor for anchor, _ in (from_pointer.shown_anchors(resolution) if resolution else ())]
    outpoints |= {anchor.outpoint for anchor in anchors if anchor.outpoint}
    yield from sorted(outpoint_fact(outpoint) for outpoint in outpoints if outpoint)
    txids = {outpoint.txid for outpoint in outpoints if outpoint} | {anchor.txid for anchor in anchors}
    yield from sorted(map(transaction_fact, txids))
    if isinstance(listing.card, McpServer) and (run := installed(listing.card.command, listing.card.args)):
        yield package_fact(run.name)


def _origin(registration_id: str) -> Outpoint | None:
    try:
        return Outpoint.parse(registration_id.partition("#")[0])
    except ValueError:  # the id of a pointer, or of an entry
        return None
