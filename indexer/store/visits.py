"""Results of visits to hosts, stored together with the next visits."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from indexer.check_verdict import HostVerdict
from indexer.store import badges, card_signatures, fetches, observed_tools, outbox
from indexer.store.badges import BadgeCandidate
from indexer.store.card_signatures import SignatureVerdict, SignedCard
from indexer.store.fetches import FetchOutcome
from indexer.store.host_topics import topics
from indexer.store.observed_tools import NamedEndpoint
from indexer.store.writer import Writer
from parsers.pointers.locator import host_of


def record_fetch(writer: Writer, locator: str, outcome: FetchOutcome) -> int:
    """Store how a fetch of a locator ended; return how many listings may have changed for it. Raises
    ValueError for a body that does not have its hash."""
    with writer.transaction() as connection:
        if outcome.served and (host := host_of(locator) if "://" in locator else locator):
            _enlist_topics(connection, host, outcome.begun_ms)
        return outbox.announce(connection, fetches.record(connection, locator, outcome), "fetched")


def update_candidates(
    writer: Writer,
    candidates: Sequence[BadgeCandidate],
    registrations: Sequence[str],
    seq: int | None,
    now_ms: int,
    signed: Sequence[SignedCard] = (),
    named: Sequence[NamedEndpoint] = (),
) -> None:
    """Make `candidates` the badge candidates among these `registrations` and `named` their endpoints, and have the
    signatures of `signed` checked; new ones are due at `now_ms` (milliseconds since 1970). `seq` is the sequence number
    up to which the outbox was read for that."""
    with writer.transaction() as connection:
        lost = badges.update_candidates(connection, candidates, registrations, now_ms)
        card_signatures.enlist(connection, signed, now_ms)
        outbox.announce(connection, lost, "domain-checked")
        outbox.announce(connection, observed_tools.update_named(connection, named, registrations), observed_tools.TOOLS)
        if seq is not None:
            outbox.move_position(connection, seq, badges.POSITION)


def record_host(writer: Writer, verdict: HostVerdict, now_ms: int) -> int:
    """Store the answer of a host about the registrations that name it; return how many of them may have changed for
    it."""
    with writer.transaction() as connection:
        if not verdict.failed & {"name", "hash"}:
            _enlist_topics(connection, verdict.host, now_ms)
        return outbox.announce(connection, badges.record(connection, verdict, now_ms), "domain-checked")


def _enlist_topics(connection: Connection, host: str, now_ms: int) -> None:
    for topic in topics:
        topic.enlist(connection, host, now_ms)


def enlist_signatures(writer: Writer, signed: Sequence[SignedCard], now_ms: int) -> None:
    """Have the signatures of these cards checked."""
    with writer.transaction() as connection:
        card_signatures.enlist(connection, signed, now_ms)


def record_signatures(writer: Writer, verdicts: Sequence[SignatureVerdict], now_ms: int) -> int:
    """Store the results of checking cards by a key set; return how many listings may have changed for it."""
    with writer.transaction() as connection:
        return outbox.announce(connection, card_signatures.record(connection, verdicts, now_ms), "signature-checked")


def fail_key_set(writer: Writer, url: str, reason: str, now_ms: int) -> int:
    """Store why a key set could not be fetched; return how many listings may have changed for it."""
    with writer.transaction() as connection:
        lost = card_signatures.record_failure(connection, url, reason, now_ms)
        return outbox.announce(connection, lost, "signature-checked")
