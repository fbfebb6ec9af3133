"""Signatures of cards: which key sets to fetch for them, and the signatures that they verified. Times are milliseconds
since 1970.

The functions that write work inside a transaction of the writer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, select, update

from indexer.check_verdict import CheckVerdict
from indexer.store import checks, fetches
from indexer.store.checks import GRACE, CheckQueries, check_kind
from indexer.store.queries import Queries, insert_new
from indexer.store.schema import badges, card_signatures, cards, events
from indexer.store.schema import fetches as facts

KEYS_CHECK = check_kind("keys", is_rebuilt=True)
"""The check of the signatures of a card (its SHA-256 in hex), by the key set at a URL."""

MAX_IDS = 1_000
"""Listings of one card that are announced when its signature is checked; anyone may copy a signed card."""


class SignedCard(NamedTuple):
    """A card (SHA-256) with signatures, and the URL of the key set to check them by; "" where none may be fetched, with
    the `reason`."""

    card: bytes
    url: str
    reason: str = ""


class SignatureVerdict(NamedTuple):
    """The result of checking a card by a key set: the host that published the key which verified a signature (""
    without one, with the `reason`), the key's id, the canonical form, and whether it covers prices."""

    card: bytes
    by: str = ""
    kid: str = ""
    form: str = ""
    covers_pricing: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSignature:
    """The result of checking a card's signatures: the host that published the key which verified one, the key's id, the
    canonical form, and whether it covers prices."""

    by: str
    kid: str
    form: str
    covers_pricing: bool
    verdict: CheckVerdict


class SignatureQueries(Queries):
    """Reads of checked signatures."""

    def get(self, digests: Iterable[bytes]) -> dict[bytes, StoredSignature]:
        """The results for these cards (SHA-256); those without signatures are left out."""
        matches = self._rows_in(select(card_signatures), card_signatures.c.card, digests)
        return {
            row["card"]: StoredSignature(
                by=row["by"], kid=row["kid"], form=row["form"], covers_pricing=row["covers_pricing"],
                verdict=CheckVerdict.of(row["by"], row["reason"], row["verified_at"] if row["by"] else 0),
            )
            for row in matches
        }  # fmt: skip

    def due_cards(self, url: str, now_ms: int, limit: int) -> dict[bytes, bytes]:
        """At most `limit` cards (by SHA-256) that are due for a check by a key set."""
        names = CheckQueries(self._engine).names_due(KEYS_CHECK, url, now_ms, limit)
        return {
            row["sha256"]: row["body"]
            for row in self._rows_in(select(cards), cards.c.sha256, map(bytes.fromhex, names))
        }


def enlist(connection: Connection, signed: Sequence[SignedCard], now_ms: int) -> None:
    """Have the signatures of these cards checked, unless they are already."""
    new = {"by": "", "kid": "", "form": "", "covers_pricing": False, "verified_at": 0}
    insert_new(connection, card_signatures, [{**new, **signature._asdict()} for signature in signed])
    checks.enlist(
        connection,
        KEYS_CHECK,
        {signature.card.hex(): signature.url for signature in signed if signature.url},
        now_ms,
    )


def record(connection: Connection, verdicts: Iterable[SignatureVerdict], now_ms: int) -> list[str]:
    """Store the results of checking cards by a key set. Returns the listings that may have changed, sorted. A card that
    no listing shows any more is not checked again."""
    changed: set[str] = set()
    for verdict in verdicts:
        same = card_signatures.c.card == verdict.card
        ids = ids_of(connection, verdict.card)
        row = connection.execute(select(card_signatures).where(same)).mappings().one()
        is_changed = any(row[name] != value for name, value in verdict._asdict().items())
        values, name = verdict._asdict(), [verdict.card.hex()]
        if verdict.by:
            values["verified_at"] = now_ms
            checks.record(connection, KEYS_CHECK, name, now_ms)
        else:
            checks.fail(connection, KEYS_CHECK, name, verdict.reason, now_ms)
        if not ids:
            checks.pause(connection, KEYS_CHECK, name)
        connection.execute(update(card_signatures).where(same).values(**values))
        changed.update(ids if is_changed else ())
    return sorted(changed)


def record_failure(connection: Connection, url: str, reason: str, now_ms: int) -> list[str]:
    """Store that a key set could not be fetched. A verified signature stays so for a while. Returns the listings whose
    signature is lost, sorted."""
    of_url = card_signatures.c.url == url
    lost = of_url & (card_signatures.c.by != "") & (card_signatures.c.verified_at <= now_ms - GRACE)
    digests = connection.execute(select(card_signatures.c.card).where(lost)).scalars().all()
    connection.execute(update(card_signatures).where(lost).values(by="", kid="", form="", covers_pricing=False))
    connection.execute(update(card_signatures).where(of_url, card_signatures.c.by == "").values(reason=reason))
    checks.fail_due(connection, KEYS_CHECK, url, reason, now_ms)
    held = select(card_signatures.c.card, card_signatures.c.verified_at).where(of_url, card_signatures.c.by != "")
    checks.hold(connection, KEYS_CHECK, {row.card.hex(): row.verified_at for row in connection.execute(held).all()})
    return sorted({id_ for digest in digests for id_ in ids_of(connection, digest)})


def ids_of(connection: Connection, card: bytes) -> list[str]:
    """The inscribed agents with this card, first those that their host confirms, as anybody can copy a card; and the
    pointers with a locator that served it."""
    brought = badges.c.registration.in_(select(events.c.registration).where(events.c.card == card))
    inscribed = select(badges.c.registration).where(badges.c.card == card, brought).order_by(badges.c.by == "")
    locators = select(facts.c.locator).where(facts.c.sha256 == card).limit(MAX_IDS)
    ids = list(connection.execute(inscribed.limit(MAX_IDS)).scalars())
    for locator in connection.execute(locators).scalars().all():
        ids += fetches.ids_of(connection, locator)
    return ids
