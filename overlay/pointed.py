"""Listings of pointers: what is pointed at and fetched, as the registration it would be had it been inscribed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from indexer.facts import State, Status
from indexer.pointers import Anchor, Fact, Integrity, Standing
from indexer.pointing import Pointing
from indexer.store.fetched import Known
from overlay.duplicates.claims import Since
from overlay.ports import Listing
from parsers import cards
from parsers.tx import Outpoint

MOST_TURNS = 8
"""Cards that a listing had in turn, of which it is asked since when it says what it says."""

MOST_ANCHORS = 32
"""Anchors that are shown of a listing."""


def listing(found: Pointing, chains: Mapping[str, str]) -> Listing | None:
    """The listing of what is pointed at; None while nothing is to be listed. `chains` are CAIP-2 ids by name."""
    standing = found.standing
    if standing is None or found.body is None:
        return None
    anchor, first = standing.anchor, _first(standing)
    place = anchor.outpoint or Outpoint(anchor.txid, 0)
    state = State(
        id=found.id,
        kind=cards.read_of(found.id, found.body, anchor.kind).kind,
        status=Status.BURNED if found.ended else Status.LIVE,
        outpoint=None if found.ended else place,
        offset=0,
        satoshis=0,
        owner=standing.newest.owner,
        map={},
        card=standing.card,
        winner=place,
        updated_height=anchor.height,
        created_height=first.height,
    )
    return Listing(
        state=state,
        chain=anchor.chain,
        caip2=chains.get(anchor.chain, anchor.chain),
        card_body=found.body,
        updated_time=anchor.time,
        created_time=first.time,
        pointing=found,
    )


def _first(standing: Standing) -> Anchor:
    """The oldest anchor that was ever met, on the chain of the one that lists the card: heights are of one chain."""
    for anchor, met in zip(standing.anchors, standing.met, strict=True):
        if anchor.chain == standing.anchor.chain and (met or anchor == standing.anchor):
            return anchor
    return standing.anchor


def listed_before(standing: Standing) -> list[tuple[bytes, str | None, int]]:
    """The cards that other anchors listed before, by hashes that were met, oldest first: SHA-256, owner, and the height
    of the next one of these anchors (on the listing's chain, whose heights are not those of another)."""
    chain = standing.anchor.chain
    anchors = []
    for anchor, met in zip(standing.anchors, standing.met, strict=True):
        if anchor == standing.anchor:
            break
        if met and anchor.digest is not None:
            anchors.append(anchor)
    heights = [anchor.height if anchor.chain == chain else standing.anchor.height for anchor in anchors[1:]]
    heights.append(standing.anchor.height)
    return [
        (anchor.digest, anchor.owner, height)
        for anchor, height in zip(anchors, heights, strict=False)
        if anchor.digest is not None
    ][-MOST_TURNS:]


def served_before(standing: Standing, served: Iterable[Fact]) -> list[tuple[bytes, int]]:
    """Of a card that no hash is held to: what its locator `served` before it, oldest first, and until when at the
    latest (milliseconds since 1970); empty for any other card."""
    if standing.integrity is not Integrity.UNHASHED:
        return []
    fact = standing.fact
    others = [each for each in served if each.sha256 != fact.sha256 and each.last_at < fact.last_at]
    others.sort(key=lambda each: (each.last_at, each.sha256))
    until = [each.last_at for each in others[:-1]] + [max(each.last_at, fact.first_at) for each in others[-1:]]
    return list(zip((each.sha256 for each in others), until, strict=True))[-MOST_TURNS:]


def turns(pointing: Pointing) -> list[tuple[bytes, Since]]:
    """The cards that a listing had, one after the other, and since when: the last is the one it has, and b"" stands for
    others that are not told. A hash on chain counts from its block on; a card without one from when it was first
    fetched, and anew from when it is served again. Empty while nothing is to be listed."""
    standing = pointing.standing
    if standing is None:
        return []
    anchors: list[Anchor] = []
    for anchor, met in zip(standing.anchors, standing.met, strict=True):
        if met and anchor.digest is not None and (not anchors or anchors[-1].digest != anchor.digest):
            anchors.append(anchor)
        if anchor == standing.anchor:
            break
    born = _first(standing).place

    def since(anchor: Anchor, time: int) -> Since:
        return Since(time, anchor.chain, anchor.height, born if anchor.chain == standing.anchor.chain else anchor.place)

    found = [(each.digest or b"", since(each, each.time)) for each in anchors[-MOST_TURNS:]]
    if standing.anchor.digest is None:
        own = standing.anchor
        time = own.time if standing.fact.by_cid else max(own.time, standing.fact.first_at // 1000)
        found.append((standing.card, since(own, time)))
        again = _again(standing, pointing.fetching)
        if again is not None and again > time:
            found += [(each, since(own, again)) for each in (b"", standing.card)]
    return found


def _again(standing: Standing, fetching: Known | None) -> int | None:
    """Since when a card is served again (seconds since 1970) after others were; None where it always was."""
    if fetching is None or fetching.serving != standing.card or fetching.serving_since is None:
        return None
    return fetching.serving_since // 1000 if fetching.serving_since > standing.fact.first_at else None


def host(locator: str) -> str:
    """The domain that a locator is of, "" for one that is of none."""
    if "://" not in locator:
        return locator
    scheme, _, rest = locator.partition("://")
    return rest.partition("/")[0] if scheme == "https" else ""


def shown_anchors(standing: Standing) -> list[tuple[Anchor, bool]]:
    """The anchors to show, the oldest first, and whether each is met: of many the one that lists the card, then the
    first of each chain that is met, then the newest, those that are met before the others."""
    pairs = list(zip(standing.anchors, standing.met, strict=True))
    if len(pairs) <= MOST_ANCHORS:
        return pairs
    firsts: dict[str, int] = {}
    for number, (anchor, met) in enumerate(pairs):
        if met:
            firsts.setdefault(anchor.chain, number)

    def urgency(number: int) -> tuple[bool, bool, bool, int]:
        anchor, met = pairs[number]
        return anchor != standing.anchor, number not in firsts.values(), not met, -number

    return [pairs[number] for number in sorted(sorted(range(len(pairs)), key=urgency)[:MOST_ANCHORS])]


def why_not(found: Pointing) -> str:
    """Why nothing is listed of what is pointed at, in a sentence."""
    from indexer.fetching.reasons import Refusal

    count = f"{found.total:,} pointer{'' if found.total == 1 else 's'} to it"
    known = found.fetching
    if known is None:
        return f"{count}, and none that can be fetched"
    if known.reason:
        return f"{count}, and its card is not listed: {Refusal(known.reason, known.detail).sentence}"
    return f"{count}, and its card has not been fetched yet" if known.last_at is None else f"{count}, and none is met"


def locators(found: Iterable[Pointing]) -> set[str]:
    """What is fetched for these."""
    return {locator for each in found for locator in each.known}
