"""The Motebit identity of a listing, and the filter terms by which it is discovered.

A listing has the identity that its host publishes, or the one that its card claims. Once the host has published one, a
claim of another identity or key counts for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from overlay.answers.items import EndpointHandshake, MotebitIdentity
from overlay.text.timestamps import timestamp
from parsers.cards import AgentCard, IdentityStatement
from parsers.claims.motebit.identifiers import canonical_id, is_same_identity

if TYPE_CHECKING:
    from indexer.store.motebit_hosts import HostIdentity
    from overlay.listings.listing import Listing

VERIFIED, CLAIMED, NONE = "motebit:verified", "motebit:claimed", "motebit:none"
"""Facts of agents: their host serves a verified identity file, their card claims an identity, neither."""


def id_fact(motebit_id: str) -> str:
    """The fact of agents with this identity."""
    return f"motebit-id:{canonical_id(motebit_id) or motebit_id}"


def capability_fact(capability: str) -> str:
    """The fact of agents with an identity and this capability."""
    return f"motebit-capability:{capability}"


def contradicts_host(listing: Listing) -> bool:
    """Whether a card claims another identity or key than its host has published."""
    claim, published = _claim(listing), _published(listing)
    if claim is None or published is None:
        return False
    is_same = is_same_identity(claim.motebit_id, published.motebit_id)
    return not is_same or claim.public_key != published.public_key


def _claim(listing: Listing) -> IdentityStatement | None:
    return listing.card.motebit if isinstance(listing.card, AgentCard) else None


def _published(listing: Listing) -> HostIdentity | None:
    """The identity pinned for the host of an agent, whether it is served now or not."""
    published = listing.published_identity
    is_own = published is not None and published.host == listing.host and isinstance(listing.card, AgentCard)
    return published if is_own else None


def motebit_identity(listing: Listing) -> MotebitIdentity | None:
    """The member `motebit` of an item: the identity of an agent, None without one.

    Of a verified one the capabilities are those that the identity file names, and the skills of the card only where the
    domain confirms the listing: anyone can inscribe a card with a url at this host. It is not verified where its MCP
    endpoint did not prove to be the pinned one.
    """
    claim, published = _claim(listing), _published(listing)
    if contradicts_host(listing):
        return None
    skills = [skill.id for skill in listing.card.skills]
    if published is not None and published.valid:
        more = skills if listing.is_confirmed_by_domain else []
        identity, key = published.motebit_id, published.public_key
        endpoint, capabilities = published.endpoint or listing.card.url, [*published.capabilities, *more]
    elif claim is not None:
        identity, key = claim.motebit_id, claim.public_key
        endpoint, capabilities = listing.card.url, skills
    else:
        return None
    handshake = _handshake(listing, endpoint, key)
    is_refused = handshake is not None and handshake.state == "refused"
    return MotebitIdentity(
        id=identity, public_key=key, did=(claim.did or None) if claim else None, endpoint=endpoint,
        verified=published is not None and published.valid and not is_refused,
        capabilities=tuple(dict.fromkeys(capabilities)), handshake=handshake,
    )  # fmt: skip


def _handshake(listing: Listing, endpoint: str, key: str) -> EndpointHandshake | None:
    """The outcome of the newest handshake with an MCP endpoint, None before the first."""
    for check in listing.endpoint_checks:
        if (check.endpoint, check.public_key) == (endpoint, key):
            return EndpointHandshake(
                state=check.state, reason=check.reason or None, checked_at=timestamp(check.checked_at // 1_000) or "",
                manifest_sha256=check.manifest_sha256 or None, **check.changes._asdict(),
            )  # fmt: skip
    return None


def motebit_facts(listing: Listing) -> Iterator[str]:
    """The facts of an agent by which it is discovered, none of a tool."""
    if not isinstance(listing.card, AgentCard):
        return
    identity = motebit_identity(listing)
    if identity is None:
        yield NONE
        return
    yield VERIFIED if identity.verified else CLAIMED
    yield id_fact(identity.id)
    yield from map(capability_fact, identity.capabilities)
