"""One listing and its history by its id, for `/v1/listings`, the pages, the command line and `a2b verify`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from overlay.listings import item_json
from overlay.listings.card_texts import read_card
from overlay.listings.from_pointer import why_not
from overlay.listings.ids import parse_id
from overlay.listings.listing import Listing, listings_of
from overlay.listings.records import HistoryEntry
from overlay.listings.revision_changes import with_changes
from overlay.text.timestamps import timestamp, timestamp_of_milliseconds
from parsers.bitcoin.tx import Outpoint, transaction_name
from parsers.pointers.locator import a_label

if TYPE_CHECKING:
    from indexer.store.hidden import HideDecision
    from overlay.listings.assembler import Revisions
    from overlay.listings.records import Registration
    from overlay.listings.repository import ListingRepository


def revision(shown: HistoryEntry) -> dict[str, Any]:
    """One revision: outpoint, block, kind, and whether it is valid; `reason` is the first of `reasons`, the most
    important one. Height and block are null while it is unconfirmed."""
    event = shown.event
    named = event.pointer.digest if event.pointer is not None else None
    digest = event.card if event.card is not None else named
    return {
        "outpoint": str(event.outpoint) if event.outpoint else None,
        "txid": event.txid[::-1].hex(),
        "height": shown.height,
        "txIndex": event.tx_index if shown.height is not None else None,
        "kind": event.kind.value,
        "cardSha256": digest.hex() if digest is not None else None,
        "valid": event.valid,
        "reason": event.reasons[0].sentence if event.reasons else "",
        "reasons": [{"code": reason.code, "detail": reason.explanation} for reason in event.reasons],
        "owner": event.owner,
        "signer": event.signer,
        "spent": str(event.spent) if event.spent else None,
        "blockHash": shown.hash[::-1].hex() if shown.hash else None,
        "timestamp": timestamp(shown.time),
    }


MAX_ID_LENGTH = 4_096
"""Characters of an id; a longer one names no listing."""

_MAX_NAMED_IDS = 64


class ListingNotFoundError(LookupError):
    """No listing has this id, or its card is not fetched yet; the message names the case."""


class ListedUnderError(ListingNotFoundError):
    """No listing has this id, but these `ids` are of the transaction, outpoint or domain of that name."""

    def __init__(self, text: str, ids: Sequence[str]) -> None:
        super().__init__(f"no listing has the id {_quoted(text)}; it leads to {', '.join(ids[:_MAX_NAMED_IDS])}")
        self.ids = ids


class ListingHiddenError(ListingNotFoundError):
    """The operator hides the listing by law; the message is for people, and `decision` says why."""

    def __init__(self, text: str, decision: HideDecision) -> None:
        super().__init__(f"{_quoted(text)} is {decision.sentence}")
        self.decision = decision


def check_hidden(repository: ListingRepository, ids: Iterable[str], text: str) -> None:
    """Raise ListingHiddenError where one of these registrations or pointers is hidden; messages name it as `text`."""
    for decision in repository.hidden(ids).values():
        raise ListingHiddenError(text, decision)


def check_transaction(repository: ListingRepository, txid: str) -> None:
    """Raise ListingHiddenError for a transaction (display order) of a hidden listing."""
    check_hidden(repository, repository.ids_of(bytes.fromhex(txid)[::-1], None), txid)


def registration(repository: ListingRepository, registration_id: str, text: str) -> Registration:
    """The registration with this id; messages name it as `text`, as the client wrote it.

    Raises ListingNotFoundError, which is a ListingHiddenError for what is hidden.
    """
    well_formed = _is_well_formed(registration_id)
    check_hidden(repository, [registration_id] if well_formed else (), text)
    record = repository.listing(registration_id) if well_formed else None
    if record is None and well_formed and (pointers := repository.pointers(registration_id)) is not None:
        raise ListingNotFoundError(f"{_quoted(text)} is not listed: {why_not(pointers)}")
    if record is None and (ids := _ids_of(repository, text)):
        raise ListedUnderError(text, ids)
    if record is None:
        raise ListingNotFoundError(f"no listing has the id {_quoted(text)}; diagnose its transaction to see why")
    return record


def _ids_of(repository: ListingRepository, text: str) -> list[str]:
    """The ids of the listings at a txid or an outpoint, or of the pointers to a domain in another spelling."""
    try:
        name = transaction_name(text)
    except ValueError:
        domain = a_label(text)
        return [domain] if domain and domain != text and repository.pointers(domain) is not None else []
    return repository.ids_of(bytes.fromhex(name[:64])[::-1], Outpoint.parse(name) if len(name) > 64 else None)


def listings(repository: ListingRepository, text: str) -> tuple[Listing, ...]:
    """The listings of the registration that the id `text` belongs to: one, or one for each MCP server of its card.

    Raises ListingNotFoundError.
    """
    record = registration(repository, parse_id(text)[0], text)
    if record.card_body is None:
        raise _not_fetched(text)
    return _listings_of(record, record.card_body)


def listings_by_id(
    repository: ListingRepository, ids: Iterable[str], revisions: Revisions | None = None
) -> dict[str, tuple[Listing, ...]]:
    """The listings of the registrations of these ids, read together. Ids of no registration, or of one without a
    fetched card, and what is hidden, are left out. `revisions` are those of these registrations where they were read
    before."""
    registration_ids = {id_: parse_id(id_)[0] for id_ in ids}
    hidden = repository.hidden(registration_ids.values())
    records = repository.listings(set(registration_ids.values()) - hidden.keys(), revisions)
    return {
        id_: _listings_of(record, record.card_body)
        for id_, registration_id in registration_ids.items()
        if (record := records.get(registration_id)) is not None and record.card_body is not None
    }


def _listings_of(record: Registration, body: bytes) -> tuple[Listing, ...]:
    return listings_of(record, read_card(record.state.id, body, record.state.kind))


def listing(repository: ListingRepository, text: str) -> dict[str, Any]:
    """The item of a listing (schema `Item`), or the ids of the servers of a registration. Raises
    ListingNotFoundError."""
    _, key = parse_id(text)
    return item_json.registration_json(
        listings(repository, text) if key is None else (single_listing(repository, text),)
    )


def single_listing(repository: ListingRepository, text: str) -> Listing:
    """The one listing that an id names. Raises ListingNotFoundError, also for a registration of several servers."""
    registration_id, key = parse_id(text)
    candidates = listings(repository, text)
    listing_id = registration_id if key is None else f"{registration_id}#{key}"
    for candidate in candidates:
        if candidate.id == listing_id:
            return candidate
    ids = ", ".join(candidate.id for candidate in candidates[:_MAX_NAMED_IDS])
    if key is None:
        raise ListingNotFoundError(f"{_quoted(text)} is not a single listing; there are {ids}")
    raise ListingNotFoundError(f"no listing has the id {_quoted(text)}; this registration lists {ids}")


def history(repository: ListingRepository, text: str) -> dict[str, Any]:
    """The history of a registration, the newest revision first. Raises ListingNotFoundError."""
    registration_id, _ = parse_id(text)
    check_hidden(repository, [registration_id] if _is_well_formed(registration_id) else (), text)
    entries = repository.history(registration_id) if _is_well_formed(registration_id) else []
    if not entries:
        registration(repository, registration_id, text)
    revisions = with_changes(repository, registration_id, entries, [revision(entry) for entry in entries])
    members = {"id": registration_id, "revisions": revisions}
    drifts = [
        {"cardSha256": drift.sha256.hex(), "since": timestamp_of_milliseconds(drift.since)}
        for drift in repository.drifts(registration_id)
    ]
    return members | {"drifts": drifts} if drifts else members


def card(repository: ListingRepository, text: str) -> tuple[bytes, bytes]:
    """The SHA-256 of a listing's card (32 bytes), and the card's exact bytes. Raises ListingNotFoundError."""
    record = registration(repository, parse_id(text)[0], text)
    body = record.card_body if record.card_body is not None else repository.card(record.state.card)
    if body is None:
        raise _not_fetched(text)
    return record.state.card, body


def _not_fetched(text: str) -> ListingNotFoundError:
    return ListingNotFoundError(f"the card of {_quoted(text)} has not been fetched yet")


def _is_well_formed(registration_id: str) -> bool:
    return len(registration_id) <= MAX_ID_LENGTH and registration_id.isprintable()  # lone surrogates are not printable


def _quoted(text: str) -> str:
    return ascii(text[:200])
