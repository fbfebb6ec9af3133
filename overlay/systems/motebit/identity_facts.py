"""The Motebit identity of an item, from hosts and cards: the identity, the terms by which it is discovered, and
warnings where a card states another identity than its host has published, and where the host serves another key.

A listing has the identity that its host publishes, or the one that its card states. Once the host has published an
identity, a statement of another identity or key does not count. Where the host serves another key than the pinned one,
without a succession that the pinned one signed, both are shown, and neither is verified.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from indexer.check_verdict import CheckedState
from indexer.store import Store
from overlay.answers.items import EndpointHandshake, MotebitIdentity
from overlay.listings.listing import Listing
from overlay.listings.system_facts import FactSource
from overlay.systems.motebit.store_endpoints import EndpointCheck, EndpointChecks
from overlay.systems.motebit.store_hosts import AT_WELL_KNOWN, KEY_CHANGED, HostIdentities, HostIdentity
from overlay.text.timestamps import timestamp
from parsers.cards import AgentCard, IdentityStatement
from parsers.claims.motebit.identifiers import CLAIMED, NONE, VERIFIED, capability_fact, id_fact, is_same_identity
from parsers.pointers.locator import url_host
from parsers.reasons import Reason


class StoredIdentity(NamedTuple):
    """The stored facts of the host of a listing: the identity that it published (None without one), and the handshakes
    with MCP endpoints of agents there."""

    published: HostIdentity | None
    checks: tuple[EndpointCheck, ...]


def _read(store: Store, hosts: Mapping[str, str]) -> dict[str, StoredIdentity]:
    names = {host for host in hosts.values() if host}
    if not names:
        return {}
    published = HostIdentities(store.engine).get(names)
    checks = EndpointChecks(store.engine).of_hosts(names)
    return {id_: StoredIdentity(published.get(host), checks.get(host, ())) for id_, host in hosts.items()}


def _contradicts_host(listing: Listing, stored: StoredIdentity | None) -> bool:
    """Whether a card states another identity or key than its host has published, or serves now."""
    statement, published = _statement(listing), _published(listing, stored)
    if statement is None or published is None:
        return False
    if published.served_key and statement.public_key == published.served_key:
        return False
    is_same = is_same_identity(statement.motebit_id, published.motebit_id)
    return not is_same or statement.public_key != published.public_key


def _statement(listing: Listing) -> IdentityStatement | None:
    return listing.card.motebit if isinstance(listing.card, AgentCard) else None


def _published(listing: Listing, stored: StoredIdentity | None) -> HostIdentity | None:
    """The identity pinned for the host of an agent, whether it is served now or not."""
    published = stored.published if stored else None
    is_own = published is not None and published.host == listing.host and isinstance(listing.card, AgentCard)
    return published if is_own else None


def _identity(listing: Listing, stored: StoredIdentity | None) -> MotebitIdentity | None:
    """The member `motebit` of an item: the identity of an agent, None without one.

    Of a verified one the capabilities are those that the identity file names, and the skills of the card only where the
    domain confirms the listing: anyone can inscribe a card with a url at this host. It is not verified where its MCP
    endpoint did not prove to be the pinned one.
    """
    statement, published = _statement(listing), _published(listing, stored)
    if _contradicts_host(listing, stored):
        return None
    skills = [skill.id for skill in listing.card.skills]
    change = _key_change(published)
    if published is not None and (published.verdict.is_verified or change):
        more = skills if listing.is_confirmed_by_domain else []
        identity, key = published.motebit_id, published.public_key
        endpoint, capabilities = published.endpoint or listing.card.url, [*published.capabilities, *more]
    elif statement is not None:
        identity, key = statement.motebit_id, statement.public_key
        endpoint, capabilities = listing.card.url, skills
    else:
        return None
    handshake = _handshake(stored, endpoint, key)
    is_refused = handshake is not None and handshake.state == CheckedState.REFUSED
    return MotebitIdentity(
        id=identity, public_key=key, did=(statement.did or None) if statement else None, endpoint=endpoint,
        verified=published is not None and published.verdict.is_verified and not is_refused,
        capabilities=tuple(dict.fromkeys(capabilities)), handshake=handshake, **change,
    )  # fmt: skip


def _key_change(published: HostIdentity | None) -> dict[str, Any]:
    """The members of an identity whose host serves another key; none for others."""
    if published is None or not published.served_key:
        return {}
    since = timestamp(published.changed_at // 1_000)
    return {"reason": KEY_CHANGED, "pinned": published.public_key, "served": published.served_key, "since": since}


def _handshake(stored: StoredIdentity | None, endpoint: str, key: str) -> EndpointHandshake | None:
    """The outcome of the newest handshake with an MCP endpoint, None before the first."""
    for check in stored.checks if stored else ():
        if (check.endpoint, check.public_key) == (endpoint, key):
            verdict = check.verdict
            return EndpointHandshake(
                state=verdict.state.value, reason=verdict.reason or None,
                checked_at=timestamp(verdict.checked_at // 1_000) or "",
                manifest_sha256=check.manifest_sha256 or None, **check.changes._asdict(),
            )  # fmt: skip
    return None


def _terms(listing: Listing, stored: StoredIdentity | None) -> Iterator[str]:
    """The facts by which an agent is discovered; empty for a tool."""
    if not isinstance(listing.card, AgentCard):
        return
    identity = _identity(listing, stored)
    if identity is None:
        yield NONE
        return
    yield VERIFIED if identity.verified else CLAIMED
    yield id_fact(identity.id)
    yield from map(capability_fact, identity.capabilities)


def _warnings(listing: Listing, stored: StoredIdentity | None) -> Iterator[Reason]:
    if _contradicts_host(listing, stored):
        yield Reason("motebit-claim", "its host has published another one", "/x-motebit")
    if change := _key_change(_published(listing, stored)):
        yield Reason(KEY_CHANGED, change["since"])


def _host_key(listing: Listing, stored: StoredIdentity | None) -> str:
    """The key of a verified identity at the well-known path of a host, with a signed `service_url` at that host. A copy
    of another's identity does not suffice, as anybody can serve one, nor do TXT records and relays, as they are not
    signed."""
    published = _published(listing, stored)
    if published is None or not published.verdict.is_verified or published.method != AT_WELL_KNOWN:
        return ""
    return published.public_key if url_host(published.endpoint) == listing.host else ""


FACTS = FactSource(
    read=_read,
    members=lambda listing, stored: {"motebit": _identity(listing, stored)},
    terms=_terms,
    warnings=_warnings,
    host_key=_host_key,
)
