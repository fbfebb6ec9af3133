"""Laws 9 and 10: which of the pointers to an id lists its card. Stories, attacks, and any history against an oracle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from indexer.model import Anchor, Drift, EventKind, FetchFact
from indexer.resolution.pointer_resolution import Integrity, PointerResolution, in_order, met_by, resolve, resolve_entry
from parsers.cards import Kind
from tests.facts import name, outpoint_of
from tests.oracles import pointers as oracle
from tests.oracles.pointers import Fetch

HERE = "victim.example"
H1, H2, H3, JUNK = name("h1"), name("h2"), name("h3"), name("junk")
CARDS = frozenset((H1, H2, H3))


def anchored(
    digest: bytes | None, seen: int, *, chain: str = "bsv", height: int | None = None, number: int = 0, **more: Any
) -> Anchor:
    """A pointer that was seen then; its block is of that height and time, unless said otherwise."""
    high = seen if height is None else height
    txid = name(f"{chain} {high} {number}")
    return replace(
        Anchor(
            chain=chain, position=high << 26 | number, height=high, time=high, txid=txid, outpoint=outpoint_of(chain),
            locator=HERE, digest=digest, seen_at=seen,
        ),
        **more,
    )  # fmt: skip


def facts(*fetches: tuple[int, bytes], url: str = "") -> dict[str, list[FetchFact]]:
    """The facts that the store sums up from fetches (begun, served)."""
    times: dict[bytes, list[int]] = {}
    for begun, served in fetches:
        times.setdefault(served, []).append(begun)
    return {HERE: [FetchFact(digest, min(all_), max(all_), url) for digest, all_ in times.items()]}


def is_card(digest: bytes, kind: Kind) -> bool:
    return digest in CARDS and kind is Kind.AGENT


def stand(anchors: Iterable[Anchor], *fetches: tuple[int, bytes]) -> PointerResolution | None:
    return resolve(anchors, facts(*fetches), is_card)


def shown(pointer_resolution: PointerResolution | None) -> tuple[bytes, str, int] | None:
    """The card, what it was held to, and the height at which it was pointed at."""
    return (
        (pointer_resolution.card, pointer_resolution.integrity.value, pointer_resolution.anchor.height)
        if pointer_resolution
        else None
    )


# -- what is listed ---------------------------------------------------------------------------------------------------


def test_nothing_is_listed_before_it_is_fetched() -> None:
    assert stand([]) is None
    assert stand([anchored(H1, 10)]) is None


def test_a_card_with_the_hash_pointed_at_is_listed() -> None:
    resolution = stand([anchored(H1, 10)], (11, H1))
    assert shown(resolution) == (H1, "hash-verified", 10)
    assert resolution is not None
    assert (resolution.met, resolution.drift) == ((True,), None)


def test_a_card_with_another_hash_is_never_listed() -> None:
    assert stand([anchored(H1, 10)], (11, H2), (12, JUNK)) is None


def test_bytes_that_are_no_card_are_not_listed_though_their_hash_is_met() -> None:
    assert stand([anchored(JUNK, 10)], (11, JUNK)) is None
    assert shown(stand([anchored(H1, 10), anchored(JUNK, 12)], (11, H1), (13, JUNK))) == (H1, "drifted", 10)


def test_what_was_fetched_before_the_pointer_was_seen_does_not_meet_it() -> None:
    assert stand([anchored(H1, 10)], (9, H1)) is None
    assert stand([anchored(H1, 10)], (10, H1)) is None


def test_the_newest_pointer_whose_hash_is_met_wins() -> None:
    both = [anchored(H1, 10), anchored(H2, 20)]
    assert shown(stand(both, (11, H1))) == (H1, "hash-verified", 10)
    assert shown(stand(both, (11, H1), (21, H2))) == (H2, "hash-verified", 20)


def test_a_pointer_without_a_hash_lists_what_is_served_as_unhashed() -> None:
    assert stand([anchored(None, 10)], (9, H1)) is None
    assert shown(stand([anchored(None, 10)], (11, H1))) == (H1, "unhashed", 10)
    assert shown(stand([anchored(None, 10)], (11, H1), (12, H2), (13, JUNK))) == (H2, "unhashed", 10)


def test_a_hash_that_is_met_beats_a_newer_pointer_without_one() -> None:
    assert shown(stand([anchored(H1, 10), anchored(None, 20)], (11, H1), (21, H2))) == (H1, "drifted", 10)


def test_repeating_a_pointer_without_a_hash_changes_nothing() -> None:
    resolution = stand([anchored(None, 10), anchored(None, 20)], (11, H1), (21, H1))
    assert shown(resolution) == (H1, "unhashed", 10)


def test_a_listing_that_no_longer_is_what_is_served_has_drifted_since_then() -> None:
    resolution = stand([anchored(H1, 10)], (11, H1), (15, H1), (20, H2), (25, H3))
    assert shown(resolution) == (H1, "drifted", 10)
    assert resolution is not None
    assert resolution.drift == Drift(H3, 20)
    back = stand([anchored(H1, 10)], (11, H1), (20, H2), (25, H1))
    assert shown(back) == (H1, "hash-verified", 10)


def test_drift_to_earlier_bytes_is_shown_since_it_was_seen() -> None:
    resolution = stand([anchored(H1, 10)], (11, H2), (15, H1), (20, H2))
    assert resolution is not None
    assert resolution.drift == Drift(H2, 20)


def test_what_a_cid_names_needs_no_hash_and_cannot_drift() -> None:
    served = {HERE: [FetchFact(H1, 11, 12, "", True), FetchFact(JUNK, 20, 20)]}
    assert shown(resolve([anchored(None, 10)], served, is_card)) == (H1, "hash-verified", 10)
    assert resolve([anchored(H2, 10)], served, is_card) is None


def test_a_pointer_is_about_a_card_of_its_kind() -> None:
    assert stand([anchored(H1, 10, kind=Kind.TOOL)], (11, H1)) is None
    assert shown(stand([anchored(None, 10), anchored(None, 20, kind=Kind.TOOL)], (21, H1))) == (H1, "unhashed", 10)


def test_a_pointer_that_is_not_valid_or_leads_nowhere_lists_nothing() -> None:
    for more in ({"valid": False}, {"locator": None}, {"seen_at": None}):
        for digest in (H1, None):
            assert stand([anchored(digest, 10, **more)], (11, H1)) is None


def test_a_removed_pointer_gives_way_to_the_one_before() -> None:
    assert shown(stand([anchored(H1, 10), anchored(H2, 20)], (11, H1), (21, H2))) == (H2, "hash-verified", 20)
    assert shown(stand([anchored(H1, 10)], (11, H1), (21, H2))) == (H1, "drifted", 10)


# -- several chains ---------------------------------------------------------------------------------------------------


def test_the_same_domain_on_several_chains_is_one_listing_with_every_anchor() -> None:
    anchors = [anchored(H1, 12, chain="ltc"), anchored(H1, 11, chain="bsv"), anchored(H1, 13, chain="bch")]
    resolution = stand(anchors, (14, H1))
    assert resolution is not None
    assert [anchor.chain for anchor in resolution.anchors] == ["bsv", "ltc", "bch"]
    assert (resolution.anchor.chain, resolution.met) == ("bsv", (True, True, True))


def test_an_older_pointer_of_a_chain_learnt_of_later_takes_its_place() -> None:
    late = anchored(H1, 50, chain="ltc", height=5)
    resolution = stand([anchored(H1, 10), late], (11, H1), (51, H1))
    assert resolution is not None
    assert resolution.anchor == late


def test_an_older_pointer_learnt_of_later_takes_no_place_beyond_a_change() -> None:
    returned = [anchored(H1, 10), anchored(H2, 20), anchored(H1, 30)]
    late = anchored(H1, 50, chain="ltc", height=5)
    resolution = stand([*returned, late], (11, H1), (21, H2), (31, H1), (51, H1))
    assert shown(resolution) == (H1, "hash-verified", 30)


def test_the_clock_of_a_chain_never_goes_back() -> None:
    early = anchored(H1, 1, height=1, time=100)
    after = anchored(H2, 2, height=2, time=90)
    other = anchored(H3, 3, chain="ltc", height=3, time=95)
    assert in_order([after, other, early]) == [other, early, after]


def test_at_the_same_time_chains_go_by_name() -> None:
    resolution = stand([anchored(H1, 10, chain="ltc"), anchored(H1, 10, chain="bch")], (11, H1))
    assert resolution is not None
    assert resolution.anchor.chain == "bch"


# -- attacks ----------------------------------------------------------------------------------------------------------

LISTED = [anchored(H1, 10)]


def test_a_later_wrong_hash_by_a_stranger_changes_nothing() -> None:
    resolution = stand([*LISTED, anchored(H2, 20)], (11, H1), (21, H1))
    assert shown(resolution) == (H1, "hash-verified", 10)
    assert resolution is not None
    assert resolution.met == (True, False)


def test_a_later_right_hash_by_a_stranger_is_an_anchor_and_nothing_more() -> None:
    resolution = stand([*LISTED, anchored(H1, 20, owner="mallory")], (11, H1), (21, H1))
    assert shown(resolution) == (H1, "hash-verified", 10)
    assert resolution is not None
    assert (resolution.met, resolution.newest.owner) == ((True, True), None)


def test_the_hash_of_bytes_inscribed_elsewhere_is_not_met_by_their_being_known() -> None:
    # H2 is a card that is kept, since somebody inscribed it: no fact says that the victim served it
    assert shown(stand([*LISTED, anchored(H2, 20)], (11, H1), (21, H1))) == (H1, "hash-verified", 10)
    elsewhere = {**facts((11, H1)), "mallory.example": [FetchFact(H2, 5, 99)]}
    assert shown(resolve([*LISTED, anchored(H2, 20)], elsewhere, is_card)) == (H1, "hash-verified", 10)


def test_the_hash_of_the_victims_old_card_does_not_bring_it_back() -> None:
    moved_on = [anchored(H1, 10), anchored(H2, 20)]
    resolution = stand([*moved_on, anchored(H1, 30)], (11, H1), (21, H2), (31, H2))
    assert shown(resolution) == (H2, "hash-verified", 20)


def test_an_old_card_is_not_held_up_by_pointing_at_it_before_its_successor_is_served() -> None:
    announced = [anchored(H1, 10), anchored(H2, 20), anchored(H1, 25, owner="mallory")]
    assert shown(stand(announced, (11, H1), (26, H1))) == (H1, "hash-verified", 10)
    assert shown(stand(announced, (11, H1), (26, H1), (30, H2))) == (H2, "hash-verified", 20)


def test_the_publisher_may_go_back_to_an_old_card() -> None:
    back = [anchored(H1, 10), anchored(H2, 20), anchored(H1, 30)]
    assert shown(stand(back, (11, H1), (21, H2), (31, H1))) == (H1, "hash-verified", 30)


def test_a_flood_of_wrong_hashes_changes_nothing() -> None:
    flood = [anchored(name(f"junk {n}"), 20 + n) for n in range(10_000)]
    assert shown(stand([*flood, *LISTED], (11, H1), (20_000, H1))) == (H1, "hash-verified", 10)


# -- entries of registries --------------------------------------------------------------------------------------------

ENTRY: dict[str, Any] = {"form": "erc8004"}


def of_entry(seen: int, locator: str, **more: Any) -> Anchor:
    return anchored(None, seen, chain="eth", **ENTRY, **{"locator": locator, **more})


def test_the_newest_anchor_of_an_entry_that_leads_to_a_card_is_listed() -> None:
    served = {"a": [FetchFact(H1, 1, 1)], "b": [FetchFact(H2, 30, 30)], "c": [FetchFact(JUNK, 50, 50)]}
    anchors = [of_entry(10, "a"), of_entry(20, "b"), of_entry(40, "c")]
    assert shown(resolve_entry(anchors[:1], served, is_card)) == (H1, "unhashed", 10)
    assert shown(resolve_entry(anchors, served, is_card)) == (H2, "unhashed", 20)
    assert resolve_entry(anchors[2:], served, is_card) is None
    assert resolve_entry([replace(anchors[0], valid=False)], served, is_card) is None


def test_an_entry_that_changes_hands_keeps_its_card_and_has_a_new_owner() -> None:
    sold = of_entry(20, "a", event=EventKind.MOVED, owner="0xbob")
    resolution = resolve_entry([of_entry(10, "a", owner="0xalice"), sold], {"a": [FetchFact(H1, 11, 11)]}, is_card)
    assert shown(resolution) == (H1, "unhashed", 10)
    assert resolution is not None
    assert resolution.newest.owner == "0xbob"


def test_an_entry_with_the_same_uri_again_is_listed_by_its_newest_pointer() -> None:
    anchors = [of_entry(10, "a"), of_entry(20, "a", event=EventKind.MAP_ONLY), of_entry(30, "a")]
    served = {"a": [FetchFact(H1, 11, 41)]}
    assert shown(resolve_entry(anchors[:2], served, is_card)) == (H1, "unhashed", 10)
    assert shown(resolve_entry(anchors, served, is_card)) == (H1, "unhashed", 30)


def test_an_entry_whose_uri_is_a_cid_is_verified() -> None:
    served = {"ipfs://x": [FetchFact(H1, 11, 11, "", True)]}
    assert shown(resolve_entry([of_entry(10, "ipfs://x")], served, is_card)) == (H1, "hash-verified", 10)


# -- every history ----------------------------------------------------------------------------------------------------

happenings = st.one_of(
    st.tuples(st.just("say"), st.sampled_from(("bsv", "ltc")), st.sampled_from((None, H1, H2, H3, JUNK)),
              st.integers(-3, 3)),
    st.tuples(st.just("fetch"), st.sampled_from((H1, H2, H3, JUNK))),
)  # fmt: skip


def happened(story: list[Any]) -> tuple[list[Anchor], list[Fetch]]:
    """The anchors and fetches of a story, one tick each; blocks' times are not quite what they should be."""
    anchors, fetches = [], []
    for tick, what in enumerate(story, 1):
        if what[0] == "say":
            _, chain, digest, late = what
            anchors.append(anchored(digest, 10 * tick, chain=chain, height=tick, time=10 * tick + 10 * late))
        else:
            fetches.append(Fetch(10 * tick, frozenset(what[1:])))
    return anchors, fetches


def summed(fetches: Iterable[Fetch]) -> dict[str, list[FetchFact]]:
    return facts(*((fetch.begun, digest) for fetch in fetches for digest in fetch.served))


@given(st.lists(happenings, max_size=14))
def test_any_history_resolves_as_by_the_oracle(story: list[Any]) -> None:
    anchors, fetches = happened(story)
    expected = oracle.listed(anchors, fetches, CARDS)
    resolved = resolve(anchors, summed(fetches), is_card)
    assert (resolved is None) == (expected is None)
    if resolved is not None and expected is not None:
        assert (resolved.anchor, resolved.card) == (expected.anchor, expected.card)
        assert (resolved.integrity is Integrity.UNHASHED, resolved.drift is not None) == (
            not expected.hashed, expected.drifted,
        )  # fmt: skip
        assert resolved.met == tuple(oracle.is_met(anchor, fetches) for anchor in resolved.anchors)


@given(st.lists(happenings, max_size=10), st.randoms(use_true_random=False))
def test_the_order_in_which_anchors_and_facts_are_given_means_nothing(story: list[Any], random: Any) -> None:
    anchors, fetches = happened(story)
    existing = summed(fetches)
    expected = resolve(anchors, existing, is_card)
    random.shuffle(anchors)
    for item in existing.values():
        random.shuffle(item)
    assert resolve(anchors, existing, is_card) == expected


@given(st.lists(happenings, max_size=10), st.lists(st.tuples(st.integers(1, 120), st.sampled_from("bl")), max_size=4))
def test_pointers_that_are_not_met_change_nothing(story: list[Any], noise: list[tuple[int, str]]) -> None:
    anchors, fetches = happened(story)
    strangers = [anchored(name("no such"), seen, chain={"b": "bch", "l": "doge"}[on], position=n)
                 for n, (seen, on) in enumerate(noise, 1)]  # fmt: skip
    assert shown(resolve([*strangers, *anchors], summed(fetches), is_card)) == shown(
        resolve(anchors, summed(fetches), is_card)
    )


@given(st.lists(happenings, max_size=10), st.integers(0, 120))
def test_repeating_what_is_listed_changes_nothing_but_the_anchors(story: list[Any], later: int) -> None:
    anchors, fetches = happened(story)
    listed = resolve(anchors, summed(fetches), is_card)
    if listed is None:
        return
    now = 10 * len(story) + 10
    fetched = [*fetches, Fetch(now + 1 + later, frozenset((listed.card,)))]
    before = resolve(anchors, summed(fetched), is_card)
    if before is None or before.integrity is Integrity.UNHASHED:
        return
    again = anchored(before.card, now, chain="zec", height=1_000, time=10_000)
    after = resolve([*anchors, again], summed(fetched), is_card)
    assert after is not None
    assert (after.anchor, after.newest, after.card) == (before.anchor, before.newest, before.card)
    assert (met_by(again, summed(fetched)) is not None) == (before.card == listed.card)
