"""What a listing is looked up by, as filter terms: its ids, outpoints and transactions, and the package that its
command installs."""

from __future__ import annotations

from collections.abc import Iterator

from overlay.listings import from_pointer
from overlay.listings.listing import Listing
from parsers.bitcoin.tx import Outpoint
from parsers.cards import McpServer
from parsers.cards.command_packages import installed, package_key


def id_fact(id_: str) -> str:
    """The fact of the listings with this id, their own or that of their registration."""
    return f"id:{id_}"


def outpoint_fact(outpoint: Outpoint) -> str:
    """The fact of the listings that began at this outpoint, are at it, or have their card there."""
    return f"outpoint:{outpoint}"


def transaction_fact(txid: bytes) -> str:
    """The fact of the listings with such an outpoint, or an anchor, in this transaction (internal byte order)."""
    return f"transaction:{txid[::-1].hex()}"


def package_fact(name: str) -> str:
    """The fact of the tools whose command installs this package, of any version."""
    return f"package:{package_key(name)}"


def identifier_facts(listing: Listing) -> Iterator[str]:
    """All of them of a listing."""
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
