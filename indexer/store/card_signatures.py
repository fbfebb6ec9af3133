"""Signatures of cards: which key sets to fetch for them, and what these verified. Times are milliseconds since 1970.

The functions that write work inside a transaction of the writer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, select, update

from indexer.store import fetches
from indexer.store.badges import BACKOFF, CHECK_INTERVAL, GRACE, retry
from indexer.store.queries import Queries, batches, insert_new
from indexer.store.schema import badges, card_signatures, cards
from indexer.store.schema import fetches as facts

MAX_IDS = 1_000
"""Listings of one card that are announced when its signature is checked; anyone may copy a signed card."""


class SignedCard(NamedTuple):
    """A card (SHA-256) with signatures, and the URL of the key set to check them by; "" where none may be fetched, with
    the `reason`."""

    card: bytes
    url: str
    reason: str = ""


class SignatureVerdict(NamedTuple):
    """What a key set meant for a card: the host that published the key which verified a signature ("" for none, with
    the `reason`), the key's id, the canonical form, and whether it covers prices."""

    card: bytes
    by: str = ""
    kid: str = ""
    form: str = ""
    covers_pricing: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSignature:
    """The result of checking a card's signatures, as the columns of the table say."""

    by: str
    kid: str
    form: str
    covers_pricing: bool
    reason: str


class SignatureQueries(Queries):
    """Reads of checked signatures, and of the key sets to fetch."""

    def get(self, digests: Iterable[bytes]) -> dict[bytes, StoredSignature]:
        """The results for these cards (SHA-256); those without signatures are left out."""
        columns = [card_signatures.c[name] for name in StoredSignature.__dataclass_fields__]
        matches = self._rows_in(select(card_signatures.c.card, *columns), card_signatures.c.card, digests)
        return {row["card"]: StoredSignature(**{name: row[name] for name in row if name != "card"}) for row in matches}

    def due_key_sets(self, now_ms: int, limit: int, after: tuple[int, str]) -> list[tuple[int, str]]:
        """At most `limit` key sets to fetch, as (due since, URL), those due longest first, after such a pair."""
        return self._due_groups(card_signatures.c.next_at, card_signatures.c.url, now_ms, limit, after)

    def due_cards(self, url: str, now_ms: int, limit: int) -> dict[bytes, bytes]:
        """At most `limit` cards (by SHA-256) that are to be checked by a key set now."""
        columns = (card_signatures.c.card, cards.c.body)
        joined = select(*columns).join(cards, cards.c.sha256 == card_signatures.c.card)
        due = joined.where(card_signatures.c.url == url, card_signatures.c.next_at <= now_ms).limit(limit)
        return {row["card"]: row["body"] for row in self._rows(due)}


def enlist(connection: Connection, signed: Sequence[SignedCard], now_ms: int) -> None:
    """Have the signatures of these cards checked, unless they are already."""
    new = {"by": "", "kid": "", "form": "", "covers_pricing": False, "tries": 0, "checked_at": 0, "verified_at": 0}
    rows = [{**new, **one._asdict(), "next_at": now_ms if one.url else None} for one in signed]
    insert_new(connection, card_signatures, rows)
    for batch in batches(one.card for one in signed if one.url):
        paused = card_signatures.c.card.in_(batch) & card_signatures.c.next_at.is_(None)
        connection.execute(update(card_signatures).where(paused).values(next_at=now_ms))


def record(connection: Connection, verdicts: Iterable[SignatureVerdict], now_ms: int) -> list[str]:
    """Store what a key set meant for cards. Returns the listings that may be shown otherwise, sorted. A card that no
    listing shows any more is not checked again."""
    changed: set[str] = set()
    for verdict in verdicts:
        same = card_signatures.c.card == verdict.card
        ids = ids_of(connection, verdict.card)
        row = connection.execute(select(card_signatures).where(same)).mappings().one()
        is_changed = any(row[name] != value for name, value in verdict._asdict().items())
        tries = 0 if verdict.by else row["tries"] + 1
        delay = CHECK_INTERVAL if verdict.by else BACKOFF.pause_ms(tries)
        values = {**verdict._asdict(), "tries": tries, "checked_at": now_ms, "next_at": now_ms + delay if ids else None}
        if verdict.by:
            values["verified_at"] = now_ms
        connection.execute(update(card_signatures).where(same).values(**values))
        changed.update(ids if is_changed else ())
    return sorted(changed)


def record_failure(connection: Connection, url: str, reason: str, now_ms: int) -> list[str]:
    """Store that a key set could not be fetched. A verified signature stays so for a while. Returns the listings of
    those that are lost, sorted."""
    due = (card_signatures.c.url == url) & (card_signatures.c.next_at <= now_ms)
    lost = due & (card_signatures.c.by != "") & (card_signatures.c.verified_at <= now_ms - GRACE)
    digests = connection.execute(select(card_signatures.c.card).where(lost)).scalars().all()
    connection.execute(update(card_signatures).where(lost).values(by="", kid="", form="", covers_pricing=False))
    connection.execute(update(card_signatures).where(due).values(reason=reason, **retry(card_signatures, now_ms)))
    return sorted({id_ for digest in digests for id_ in ids_of(connection, digest)})


def ids_of(connection: Connection, card: bytes) -> list[str]:
    """The inscribed agents with this card, those first that their host confirms, as anybody can copy a card; and the
    pointers whose locators served it."""
    inscribed = select(badges.c.registration).where(badges.c.card == card).order_by(badges.c.by == "").limit(MAX_IDS)
    locators = select(facts.c.locator).where(facts.c.sha256 == card).limit(MAX_IDS)
    ids = list(connection.execute(inscribed).scalars())
    for locator in connection.execute(locators).scalars().all():
        ids += fetches.ids_of(connection, locator)
    return ids
