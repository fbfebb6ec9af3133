"""Registrations from pointers: a fetched card as a `Registration`, as if the card were inscribed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from indexer.model import Anchor, FetchFact, RegistrationState, Status
from indexer.resolution.pointer_resolution import Integrity, PointerResolution
from indexer.resolution.pointer_service import PointerListing
from overlay.listings.records import Registration
from overlay.search.document import Since
from parsers import cards
from parsers.bitcoin.tx import Outpoint

MAX_PERIODS = 8
"""Consecutive cards of a listing from which its seniority is computed, at most."""

MOST_ANCHORS = 32
"""Anchors shown for a listing, at most."""


def registration_of(pointers: PointerListing, chains: Mapping[str, str]) -> Registration | None:
    """The registration that pointers define; None while no fetched card meets one. `chains` are CAIP-2 ids by name."""
    resolution = pointers.resolution
    if resolution is None or pointers.body is None:
        return None
    anchor, first = resolution.anchor, _first(resolution)
    outpoint = anchor.outpoint or Outpoint(anchor.txid, 0)
    state = RegistrationState(
        id=pointers.id,
        kind=cards.read_of(pointers.id, pointers.body, anchor.kind).kind,
        status=Status.BURNED if pointers.ended else Status.LIVE,
        outpoint=None if pointers.ended else outpoint,
        offset=0,
        satoshis=0,
        owner=resolution.newest.owner,
        map={},
        card=resolution.card,
        winner=outpoint,
        updated_height=anchor.height,
        created_height=first.height,
    )
    return Registration(
        state=state,
        chain=anchor.chain,
        caip2=chains.get(anchor.chain, anchor.chain),
        card_body=pointers.body,
        updated_time=anchor.time,
        created_time=first.time,
        pointers=pointers,
    )


def _first(resolution: PointerResolution) -> Anchor:
    """The oldest anchor ever met on the chain of the anchor that lists the card: heights compare within one chain."""
    for anchor, met in zip(resolution.anchors, resolution.met, strict=True):
        if anchor.chain == resolution.anchor.chain and (met or anchor == resolution.anchor):
            return anchor
    return resolution.anchor


def listed_before(resolution: PointerResolution) -> list[tuple[bytes, str | None, int]]:
    """The cards that earlier anchors listed by a hash that was met, oldest first: SHA-256, owner, and the height of the
    next of these anchors. An anchor on another chain counts with the height of the current anchor."""
    chain = resolution.anchor.chain
    anchors = []
    for anchor, met in zip(resolution.anchors, resolution.met, strict=True):
        if anchor == resolution.anchor:
            break
        if met and anchor.digest is not None:
            anchors.append(anchor)
    heights = [anchor.height if anchor.chain == chain else resolution.anchor.height for anchor in anchors[1:]]
    heights.append(resolution.anchor.height)
    return [
        (anchor.digest, anchor.owner, height)
        for anchor, height in zip(anchors, heights, strict=False)
        if anchor.digest is not None
    ][-MAX_PERIODS:]


def served_before(resolution: PointerResolution, served: Iterable[FetchFact]) -> list[tuple[bytes, int]]:
    """The earlier cards of a card without a hash on chain: what its locator `served` before, oldest first, with the
    latest time (milliseconds since 1970) at which each was served; empty for any other card."""
    if resolution.integrity is not Integrity.UNHASHED:
        return []
    current = resolution.fact
    others = [fact for fact in served if fact.sha256 != current.sha256 and fact.last_at < current.last_at]
    others.sort(key=lambda fact: (fact.last_at, fact.sha256))
    until = [fact.last_at for fact in others[:-1]] + [max(fact.last_at, current.first_at) for fact in others[-1:]]
    return list(zip((fact.sha256 for fact in others), until, strict=True))[-MAX_PERIODS:]


def card_periods(pointers: PointerListing) -> list[tuple[bytes, Since]]:
    """The consecutive cards of a listing (SHA-256) and the start of each period; the last is the current one, and b""
    replaces omitted cards. A card with a hash on chain counts from the block of the hash; a card without one from its
    first fetch, or from when it was served again after another card. Empty while nothing is listed."""
    resolution = pointers.resolution
    if resolution is None:
        return []
    anchors: list[Anchor] = []
    for anchor, met in zip(resolution.anchors, resolution.met, strict=True):
        if met and anchor.digest is not None and (not anchors or anchors[-1].digest != anchor.digest):
            anchors.append(anchor)
        if anchor == resolution.anchor:
            break
    first = _first(resolution)

    def since(anchor: Anchor, time: int) -> Since:
        return Since(time, anchor.chain, anchor.height, first.time, first.position)

    periods = [(anchor.digest or b"", since(anchor, anchor.time)) for anchor in anchors[-MAX_PERIODS:]]
    if resolution.anchor.digest is None:
        current = resolution.anchor
        time = current.time if resolution.fact.by_cid else max(current.time, resolution.fact.first_at // 1000)
        periods.append((resolution.card, since(current, time)))
        fetching = pointers.fetching
        serving_since = fetching.serving_since if fetching and fetching.serving == resolution.card else None
        # it was served again after another card
        if serving_since is not None and serving_since > resolution.fact.first_at and serving_since // 1000 > time:
            periods += [(digest, since(current, serving_since // 1000)) for digest in (b"", resolution.card)]
    return periods


def host(locator: str) -> str:
    """The domain of a locator, "" where it has none."""
    if "://" not in locator:
        return locator
    scheme, _, rest = locator.partition("://")
    return rest.partition("/")[0] if scheme == "https" else ""


def shown_anchors(resolution: PointerResolution) -> list[tuple[Anchor, bool]]:
    """The anchors to show, oldest first, and whether each is met. Above MOST_ANCHORS, the anchor that lists the card
    has priority, then the first met one of each chain, then met ones, then newer ones."""
    pairs = list(zip(resolution.anchors, resolution.met, strict=True))
    if len(pairs) <= MOST_ANCHORS:
        return pairs
    firsts: dict[str, int] = {}
    for number, (anchor, met) in enumerate(pairs):
        if met:
            firsts.setdefault(anchor.chain, number)

    def urgency(number: int) -> tuple[bool, bool, bool, int]:
        anchor, met = pairs[number]
        return anchor != resolution.anchor, number not in firsts.values(), not met, -number

    return [pairs[number] for number in sorted(sorted(range(len(pairs)), key=urgency)[:MOST_ANCHORS])]


def why_not(pointers: PointerListing) -> str:
    """Why pointers to an id list nothing, in a sentence."""
    from indexer.fetcher.reasons import Refusal

    count = f"{pointers.total:,} pointer{'' if pointers.total == 1 else 's'} to it"
    fetching = pointers.fetching
    if fetching is None:
        return f"{count}, and none that can be fetched"
    if fetching.reason:
        return f"{count}, and its card is not listed: {Refusal(fetching.reason, fetching.detail).sentence}"
    return (
        f"{count}, and its card has not been fetched yet" if fetching.last_at is None else f"{count}, and none is met"
    )
