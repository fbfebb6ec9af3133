"""Answers about signed documents: verdicts, revocations, and receipts."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType, field

from overlay.answers.items import ItemRating
from overlay.answers.record import Count, Record, Txid, words
from parsers.claims.complaint_codes import CODES, WITHDRAWN

Scope = Annotated[str, words("block", "chain")]


class RevocationState(Record, kw_only=True):
    """Whether a capability token is revoked."""

    status: Annotated[str, words("fresh", "revoked", "unchecked")]


class VerdictAxes(Record, kw_only=True):
    """The questions that a verdict answers one by one."""

    integrity: Annotated[str, words("verified", "invalid", "unknown")]
    identity_binding: Annotated[str, words("sovereign", "pinned", "unverified", "invalid")]
    authority: Annotated[str, words("valid", "expired", "not_yet_valid", "insufficient", "unknown")]
    revocation: RevocationState


class VerdictAnswer(Record, kw_only=True):
    """The verdict on a signed document; `error` is a stable code, `delegations` are verdicts on nested receipts.
    `missing` names members that the document needs to count. The `profile` is current, legacy (the form before suites,
    which never counts; `profile_verified` where every other rule holds) or unknown."""

    verified: bool
    axes: VerdictAxes
    error: str = ""
    detail: str = ""
    missing: tuple[str, ...] = ()
    profile: Annotated[str, words("current", "legacy", "unknown")] = ""
    profile_verified: bool = False
    delegations: tuple[VerdictAnswer, ...] = ()


class RevokedBlock(Record, kw_only=True):
    """A revocation that is stored."""

    revocation_id: str
    revoked_by: str
    scope: Scope


class StoredRevocation(Record, kw_only=True):
    """A signed revocation of a block of capability tokens, or of all that build on it."""

    revocation_id: str
    revoked_by: str = ""
    revoked_at: str = ""
    scope: Scope = ""
    signature: str = ""


class RevocationPage(Record, kw_only=True):
    """Stored revocations, and where the next page begins."""

    revocations: tuple[StoredRevocation, ...]
    next: Count


class BoundKey(Record, kw_only=True):
    """A key and the listing that it works for."""

    key: str
    listing: str


COMPLAINT_CODES = words(*CODES, WITHDRAWN)


class AcceptedStatement(Record, kw_only=True):
    """A complaint: the listing, the payment and the code."""

    listing: str
    txid: Txid
    code: Annotated[str, COMPLAINT_CODES]


class SubmittedReceipts(Record, kw_only=True):
    """The result of a submitted receipt."""

    document: Txid | None
    new: Annotated[Count, Meta(description="Records that are new, or have a new payment.")]
    listings: tuple[str, ...]
    records: tuple[dict[str, Any], ...]
    bind: BoundKey | None
    complaint: Annotated[
        AcceptedStatement | UnsetType, Meta(description="The complaint that was submitted, or taken back.")
    ] = UNSET


class RatedFacts(Record, kw_only=True):
    """Further facts by which records are rated: keys and addresses of the listing, owners of other keys, payers with a
    rating, and the transfer to the present owner."""

    keys: tuple[str, ...]
    owner: str
    owner_of: dict[str, Any]
    rated_payers: tuple[str, ...]
    transfer: dict[str, Any] | None


class KeyConsent(Record, kw_only=True):
    """The consent of a key to work for a listing; times in milliseconds since 1970."""

    key: str
    token: Txid | None
    received_at: Count


class WorkRecord(Record, kw_only=True):
    """A record of work, with its weight; times in milliseconds since 1970."""

    digest: Txid
    document: Txid
    worker: str
    counter_signer: str | None
    task: str
    outcome: Annotated[str, words("completed", "failed", "denied")]
    completed_at: Count
    received_at: Count
    before_transfer: bool
    payment: dict[str, Any] | None
    rung: Annotated[str, words("E0", "E1", "E2", "E3")]
    weight: Count
    reason: str | None
    counterparty: str | None


class PublishedComplaint(Record, kw_only=True):
    """A complaint of the payer of a transaction; times in milliseconds since 1970, amounts in satoshis. It `counts`
    unless it is withdrawn, or its payment is not proved or from before a transfer; it is `disputed` where a receipt
    names the payment, too."""

    txid: Txid
    code: Annotated[str, COMPLAINT_CODES]
    stated_at: Count = field(name="at")
    received_at: Count
    payer: str
    paid: Count
    price: Count
    chain: str
    height: Count
    proved: bool
    disputed: bool
    counts: bool
    document: Txid
    proof: Txid


class ReceiptPage(Record, kw_only=True):
    """The receipts behind the rating of a listing; `next` names the page after this one."""

    id: str
    rating: ItemRating | None
    as_of: Count | None
    basis_sha256: Txid | None
    completed: Count
    failed: Count
    facts: RatedFacts
    binds: tuple[KeyConsent, ...]
    records: tuple[WorkRecord, ...]
    complaints: Annotated[tuple[PublishedComplaint, ...] | UnsetType, Meta(description="The newest, at most 100.")] = (
        UNSET
    )
    next: str | None
