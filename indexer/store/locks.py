"""PostgreSQL's advisory locks of this program. SQLite has one writer at a time anyway."""

from __future__ import annotations

from enum import IntEnum, unique


@unique
class AdvisoryLock(IntEnum):
    """Numbers with the first three bytes "a2b", as other programs may lock in the same database."""

    SCHEMA = 0x613262
    """While tables are created or migrated."""
    WRITER = 0x61326277
    """The lock of the one process that writes facts, as long as it does."""
    SERVERS = 0x61326264
    """The lock of the one serving process that runs the jobs of a single server, as long as it does."""
    DELEGATIONS = 0x61326274
    """While revocations or delegations are counted and one is added."""
    RECEIPTS = 0x61326265
    """While receipts are compared with the stored ones, and added."""
    LEDGER = 0x6132626C
    """While the ledger of the relay is written."""
    MRP_PROVIDERS = 0x6132626D
    """While challenges or providers are counted and one is added."""
    PAYMENTS = 0x61326270
    """While payments are compared and one is added."""
    QUOTES = 0x61326278
    """While exchange rates are written."""
    REQUESTS = 0x61326271
    """While requests for transactions are counted and one is added."""
    SUBMISSIONS = 0x61326273
    """While a submitted transaction is compared with the others and added."""
    SUBSCRIPTIONS = 0x61326268
    """While webhooks are counted, and their deliveries queued."""
