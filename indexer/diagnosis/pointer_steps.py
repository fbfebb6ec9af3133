"""The last steps in the diagnosis of a pointer: was its card fetched, does it have the hash, is it listed; or why
not."""

from __future__ import annotations

from indexer.diagnosis.steps import Step, moment, step
from indexer.fetcher.reasons import Refusal
from indexer.model import Anchor, PointerAnchor
from indexer.resolution.pointer_resolution import met_by
from indexer.resolution.pointer_service import PointerListing, pointer_listing
from indexer.store import LocatorStatus, Store
from indexer.store.fetches import FetchState
from indexer.store.history import Revision


def steps(store: Store, revision: Revision, pointer: PointerAnchor) -> tuple[list[Step], list[str]]:
    """The steps of a valid pointer on chain, and the ids that it lists or supports."""
    locator, id_ = pointer.locator, pointer.id
    if locator is None or id_ is None:
        return [step("listed", "nothing can be fetched for it", ok=False)], []
    status = store.fetches.statuses([locator]).get(locator)
    listing = pointer_listing(store, id_)
    anchor = _own_anchor(listing, revision) if listing else None
    fetched = _fetched(locator, status, pointer.digest)
    if listing is None or anchor is None or not fetched["ok"]:
        return [fetched, *_listed(listing, anchor, met=False)[0]], []
    is_met = met_by(anchor, store.pointers.facts([locator])) is not None
    hashed = _hash(pointer, status, is_met=is_met)
    last, listed = _listed(listing, anchor, met=is_met)
    return [fetched, hashed, *last], listed


def _own_anchor(listing: PointerListing, revision: Revision) -> Anchor | None:
    """The anchor of a revision; None where the id has too many to read."""
    event = revision.event
    return next(
        (
            anchor
            for anchor in listing.anchors
            if (anchor.chain, anchor.txid, anchor.outpoint) == (revision.chain, event.txid, event.outpoint)
        ),
        None,
    )


def _fetched(locator: str, status: LocatorStatus | None, digest: bytes | None) -> Step:
    if status is None or status.last_at is None:
        return step("fetched", f"{locator} is about to be fetched", ok=False)
    if status.reason:
        sentence = Refusal(status.reason, status.detail).sentence
        if status.state is FetchState.MISMATCH and digest is not None and digest.hex() not in sentence:
            sentence += f"; this one names {digest.hex()}"
        return step("fetched", f"{locator}: {sentence}; {_again(status)}", ok=False, code=status.reason)
    return step("fetched", f"{locator} served a card at {moment(status.last_at // 1000)}")


def _again(status: LocatorStatus) -> str:
    if status.next_at is None:
        return "it is fetched again on request (POST /v1/listings/{id}/recheck)"
    return f"it is fetched again at {moment(status.next_at // 1000)}"


def _hash(pointer: PointerAnchor, status: LocatorStatus | None, *, is_met: bool) -> Step:
    if pointer.digest is None:
        detail = "the pointer names no hash; what is fetched is what its CID names" if is_met else "it names no hash"
        return step("hash", detail if is_met else f"{detail}: its card is unhashed")
    if is_met:
        return step("hash", f"the bytes have the SHA-256 {pointer.digest.hex()}")
    serves = f"the SHA-256 {status.serving.hex()}" if status is not None and status.serving else "another SHA-256"
    detail = f"what is served has {serves}, which another pointer names; this one names {pointer.digest.hex()}"
    return step("hash", detail, ok=False, code="fetch-mismatch")


def _listed(listing: PointerListing | None, anchor: Anchor | None, *, met: bool) -> tuple[list[Step], list[str]]:
    resolution = listing.resolution if listing else None
    if listing is None or resolution is None:
        return [step("listed", "its card is not listed", ok=False)], []
    if resolution.anchor == anchor:
        return [step("listed", f"listed as {listing.id}, {resolution.integrity.value}")], [listing.id]
    other = resolution.anchor.txid[::-1].hex()
    if met and anchor is not None and anchor.digest == resolution.card:
        return [step("listed", f"one of the pointers to {listing.id}, which {other} lists")], [listing.id]
    return [step("listed", f"{listing.id} is listed by another pointer: {other}", ok=False)], []
