"""A pointer's last steps in a diagnosis: was its card fetched, did its hash meet it, is it listed? If not, why not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from indexer.facts import PointerAnchor
from indexer.fetching.reasons import Refusal
from indexer.pointers import Anchor, met_by
from indexer.pointing import Pointing, pointing
from indexer.store import Known, Store, pointed
from indexer.store.fetched import FetchState
from indexer.store.stories import Revision


class Step(NamedTuple):
    """A step: its name, what is said of it, whether it went well, and the code of the reason where it did not."""

    name: str
    detail: str
    ok: bool
    code: str | None = None


def steps(store: Store, revision: Revision, pointer: PointerAnchor) -> tuple[list[Step], list[str]]:
    """The steps of a valid pointer on chain, and the ids that it lists or stands behind."""
    locator, id_ = pointer.locator, pointer.id
    if locator is None or id_ is None:
        return [Step("listed", "nothing can be fetched for it", ok=False)], []
    known = store.known_locators([locator]).get(locator)
    found = pointing(store, id_)
    anchor = _own(found, revision) if found else None
    fetched = _fetched(locator, known, pointer.digest)
    if found is None or anchor is None or not fetched.ok:
        return [fetched, *_listed(found, anchor, met=False)[0]], []
    is_met = met_by(anchor, pointed.facts(store.engine, [locator])) is not None
    hashed = _hash(pointer, known, is_met=is_met)
    last, listed = _listed(found, anchor, met=is_met)
    return [fetched, hashed, *last], listed


def _own(found: Pointing, revision: Revision) -> Anchor | None:
    """The anchor that a revision is; None among too many to be read."""
    event = revision.event
    return next(
        (
            anchor
            for anchor in found.anchors
            if (anchor.chain, anchor.txid, anchor.outpoint) == (revision.chain, event.txid, event.outpoint)
        ),
        None,
    )


def _fetched(locator: str, known: Known | None, digest: bytes | None) -> Step:
    if known is None or known.last_at is None:
        return Step("fetched", f"{locator} is about to be fetched", ok=False)
    if known.reason:
        sentence = Refusal(known.reason, known.detail).sentence
        if known.state is FetchState.MISMATCH and digest is not None and digest.hex() not in sentence:
            sentence += f"; this one names {digest.hex()}"
        return Step("fetched", f"{locator}: {sentence}; {_again(known)}", ok=False, code=known.reason)
    return Step("fetched", f"{locator} served a card at {_time(known.last_at)}", ok=True)


def _again(known: Known) -> str:
    if known.next_at is None:
        return "it is fetched again when somebody asks for it (POST /v1/listings/{id}/recheck)"
    return f"it is fetched again at {_time(known.next_at)}"


def _hash(pointer: PointerAnchor, known: Known | None, *, is_met: bool) -> Step:
    if pointer.digest is None:
        told = "the pointer names no hash; what is fetched is what its CID names" if is_met else "it names no hash"
        return Step("hash", told if is_met else f"{told}: its card is unhashed", ok=True)
    if is_met:
        return Step("hash", f"the bytes have the SHA-256 {pointer.digest.hex()}", ok=True)
    serves = f"the SHA-256 {known.serving.hex()}" if known is not None and known.serving else "another SHA-256"
    told = f"what is served has {serves}, which another pointer names; this one names {pointer.digest.hex()}"
    return Step("hash", told, ok=False, code="fetch-mismatch")


def _listed(found: Pointing | None, anchor: Anchor | None, *, met: bool) -> tuple[list[Step], list[str]]:
    standing = found.standing if found else None
    if found is None or standing is None:
        return [Step("listed", "its card is not listed", ok=False)], []
    if standing.anchor == anchor:
        return [Step("listed", f"listed as {found.id}, {standing.integrity.value}", ok=True)], [found.id]
    other = standing.anchor.txid[::-1].hex()
    if met and anchor is not None and anchor.digest == standing.card:
        return [Step("listed", f"one of the pointers to {found.id}, which {other} lists", ok=True)], [found.id]
    return [Step("listed", f"{found.id} is listed by another pointer: {other}", ok=False)], []


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
