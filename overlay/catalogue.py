"""The store as the overlay sees it: revisions become listings, and listings become the documents of an index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from indexer import store
from indexer.facts import Event, EventKind, Status
from indexer.pointers import Drift
from indexer.pointing import Pointing, drifts, is_outpoint, pointing, pointings
from indexer.store import pointed as anchors
from indexer.store.badges import Badge
from indexer.store.proofs import kept, run
from indexer.store.rows import place
from overlay import items, pointed
from overlay.document import Document
from overlay.duplicates.claims import ClaimHistory, Since, unconfirmed
from overlay.ports import Change, Changes, Listing, Pending, PreviousCard, Revision
from overlay.proofs import Evidence, evidence
from overlay.unconfirmed import WINS, beside, newcomer
from parsers import cards
from parsers.cards import Card, Kind
from parsers.erc8004 import is_entry
from parsers.tx import Outpoint

MOST_STRETCHES = 256
"""Superseded states of a registration that an index keeps; older ones are answered from the store's history only."""

MAX_PREVIOUS = 64
"""Cards shown before that the current one is compared with."""

STILL = 2**63 - 1
"""The end of a stretch that no block has ended, of a listing whose current document shows what is pending, or was
fetched."""


_Times = dict[str, dict[int, int]]


class Catalogue:
    """Reads of the store in the overlay's words. Synchronous; safe from several threads."""

    def __init__(self, source: store.Store) -> None:
        self._store = source

    @property
    def is_here(self) -> bool:
        """Whether the database is a file."""
        return self._store.engine.dialect.name == "sqlite"

    def listing(self, id: str, /) -> Listing | None:  # noqa: A002
        """The newest word about a registration or pointer, None when nobody knows the id."""
        story = self._store.stories([id]).get(id)
        found = None if is_outpoint(id) else pointing(self._store, id)
        if found is not None and (story is None or _leads_elsewhere(story, found)):
            elsewhere = self._listing_of(found)
            if elsewhere is not None:
                return self._with_previous(elsewhere)
        if story is None:
            return None
        # the same transaction may stand on two chains that share their past: the first by name is shown
        chain = (story.confirmed or story.pending)[0].chain
        history = [revision for revision in story.confirmed if revision.chain == chain]
        waiting = [each.event for each in story.pending if each.chain == chain]
        bodies = self._store.cards(
            _newest_cards(history, waiting) | {past.event.card or b"" for past in _shown(history)}
        )
        found_so = _listing(history, waiting, chain, self._store.chains(), bodies, self._checked([history]))
        return replace(found_so, badge=self._store.badges([id]).get(id))

    def pointing(self, id: str, /) -> Pointing | None:  # noqa: A002
        """What points at an id, None when nothing does."""
        return None if is_outpoint(id) else pointing(self._store, id)

    def history(self, registration_id: str, /) -> list[Revision]:
        """Every revision of a registration or pointer, newest first; those that are in no block stand before all
        others."""
        story = self._store.stories([registration_id]).get(registration_id, store.Story())
        if not is_outpoint(registration_id):
            said = {(past.chain, past.height, past.event.position) for past in story.confirmed}
            more = anchors.revisions(self._store.engine, registration_id)
            new = [past for past in more if (past.chain, past.height, past.event.position) not in said]
            both = sorted([*story.confirmed, *new], key=lambda past: (past.time, past.height, past.event.position))
            story = replace(story, confirmed=both)
        return [
            *(Revision(each.event, None, None, None) for each in reversed(story.pending)),
            *(Revision(past.event, past.height, past.hash, past.time) for past in reversed(story.confirmed)),
        ]

    def drifts(self, id: str, /) -> list[Drift]:  # noqa: A002
        """What was served at the address of a pointer instead of the card that it lists, the newest first (law 10)."""
        return [] if is_outpoint(id) else drifts(self._store, id)

    def card(self, sha256: bytes, /) -> bytes | None:
        """Card bytes by their SHA-256, None when they were never kept."""
        return self._store.cards([sha256]).get(sha256)

    def evidence(self, registration_id: str, /) -> Evidence:
        """What proves a registration's winning revision. Raises NoProofError."""
        return evidence(self._store, registration_id)

    def proved(self, txids: Iterable[str], /) -> set[str]:
        """Those of these txids, as they are shown, of which a proof is kept."""
        found = kept(self._store.engine, [bytes.fromhex(txid)[::-1] for txid in txids])
        return {txid[::-1].hex() for txid in found}

    def headers(self, chain: str, first: int, count: int, /) -> list[bytes]:
        """At most `count` consecutive headers of a chain from height `first` on."""
        return run(self._store.engine, chain, first, count)

    def changes(self, since: int, limit: int, /) -> Changes:
        """At most `limit` rows of the outbox after sequence number `since`."""
        return _changes(self._store, since, limit)

    def surely_changes(self, since: int, limit: int, /) -> Changes:
        """The same from the database itself. Raises StoreUnavailableError when only a replica answers."""
        found = _changes(self._store.at_home(), since, limit)
        if found.may_be_behind:
            raise store.StoreUnavailableError("only a standby answers, which may be behind what was told before")
        return found

    def documents(self, registrations: Iterable[str]) -> Iterator[Document]:
        """What an index holds of these registrations and pointers: a document for each listing and stretch of heights,
        and one for what is unconfirmed, or was fetched."""
        wanted = list(registrations)
        chains = self._store.chains()
        stories = self._store.stories(wanted)
        elsewhere: set[str] = set()
        for found in pointings(self._store, (id_ for id_ in wanted if not is_outpoint(id_))):
            story = stories.get(found.id)
            shown = self._listing_of(found) if story is None or _leads_elsewhere(story, found) else None
            if shown is not None:
                elsewhere.add(found.id)
                yield from self._pointed(self._with_previous(shown))
        badges = self._store.badges(stories)
        on_each = [parts for story in stories.values() for parts in _by_chain(story)]
        events = (event for _, history, waiting in on_each for event in (*(past.event for past in history), *waiting))
        bodies = self._store.cards({event.state.card for event in events if event.state})
        checked = self._checked(history for _, history, _ in on_each)
        times = self._settled_times(on_each)
        for chain, history, waiting in on_each:
            if history:
                id_ = _id(history)
                badge = badges.get(id_)
                yield from _stretches(
                    history, beside(waiting, bodies), chains, bodies, checked, badge, times[chain],
                    outdated=id_ in elsewhere,
                )  # fmt: skip
            else:
                alone = _listing(history, waiting, chain, chains, bodies, checked)
                yield from _current(alone, ClaimHistory(), unconfirmed(chain, alone.state.id))

    def _settled_times(self, on_each: Iterable[tuple[str, list[store.Revision], list[Event]]]) -> _Times:
        """For each chain the times by which seniority is compared, by the heights of these revisions."""
        heights: dict[str, set[int]] = {}
        for chain, history, _ in on_each:
            heights.setdefault(chain, set()).update(past.height for past in history)
        return {chain: self._store.settled_times(chain, wanted) for chain, wanted in heights.items()}

    def _pointed(self, found: Listing) -> Iterator[Document]:
        """The documents of a listing that is pointed at, which may have had other cards before."""
        turns = pointed.turns(found.pointing) if found.pointing else []
        bodies = self._store.cards({digest for digest, _ in turns[:-1] if digest})
        claims = ClaimHistory()
        for digest, since in turns[:-1]:
            if not digest:
                claims.add((), since)
            elif digest in bodies:
                before = replace(found, state=replace(found.state, card=digest), previous=())
                claims.add(items.subjects(before, _read(found.state.id, bodies[digest], found.state.kind)), since)
        yield from _current(found, claims, turns[-1][1] if turns else unconfirmed(found.chain, found.state.id))

    def _listing_of(self, found: Pointing) -> Listing | None:
        """The listing of what is pointed at; None while nothing is to be listed."""
        shown = pointed.listing(found, self._store.chains())
        if shown is None or not self._store.is_unproved(shown.chain):
            return shown
        return replace(shown, headers_unproved=True)

    def _with_previous(self, found: Listing) -> Listing:
        """A listing of a pointer, with the cards that were listed before."""
        standing = found.pointing.standing if found.pointing else None
        if standing is None or standing.anchor.locator is None:
            return found
        if standing.anchor.digest is None:
            facts = anchors.facts(self._store.engine, [standing.anchor.locator])
            served = pointed.served_before(standing, facts.get(standing.anchor.locator, ()))
            heights = [
                (digest, found.state.owner, self._store.height_at(found.chain, until)) for digest, until in served
            ]
            # no block is so old: no warning is due
            previous = [(digest, owner, height) for digest, owner, height in heights if height is not None]
        else:
            previous = pointed.listed_before(standing)
        bodies = self._store.cards({digest for digest, _, _ in previous})
        cards_before = (
            PreviousCard(body=bodies[digest], owner=owner, replaced_at=height)
            for digest, owner, height in previous
            if digest in bodies
        )
        return replace(found, previous=tuple(cards_before))

    def _checked(self, histories: Iterable[Sequence[store.Revision]]) -> dict[Outpoint, int]:
        """When the outpoints of registrations were last seen unspent, in seconds since 1970, on chains whose moves are
        found by asking."""
        seats: dict[str, list[Outpoint]] = {}
        for history in histories:
            state = history[-1].event.state if history else None
            if state is not None and state.outpoint is not None:
                seats.setdefault(history[-1].chain, []).append(state.outpoint)
        found: dict[Outpoint, int] = {}
        for chain, outpoints in seats.items():
            if self._store.is_partial(chain):
                found |= self._store.checked(chain, outpoints)
        return found


def _changes(source: store.Store, since: int, limit: int) -> Changes:
    outbox, found = source.page(since, limit)
    rows = tuple(Change(row.seq, row.op, row.id, row.height, row.reason) for row in found)
    return Changes(outbox.epoch, rows, outbox.newest_seq, outbox.is_replica)


def _by_chain(story: store.Story) -> Iterator[tuple[str, list[store.Revision], list[Event]]]:
    """A registration's confirmed and unconfirmed revisions, chain by chain."""
    for chain in dict.fromkeys([*(past.chain for past in story.confirmed), *(each.chain for each in story.pending)]):
        history = [past for past in story.confirmed if past.chain == chain]
        yield chain, history, [each.event for each in story.pending if each.chain == chain]


def _id(history: Sequence[store.Revision]) -> str:
    state = history[-1].event.state
    return state.id if state else ""


def _leads_elsewhere(story: store.Story, found: Pointing) -> bool:
    """Whether the newest word about a registration is a pointer to its card, and what that leads to is known: so of
    entries of registries only."""
    if not story.confirmed or story.confirmed[-1].event.pointer is None or found.standing is None:
        return False
    winner = _winner(story.confirmed) or story.confirmed[0]
    return found.standing.anchor.place > place(winner.height, winner.event.position)


def _stretches(
    history: Sequence[store.Revision],
    pending: Pending | None,
    chains: dict[str, str],
    bodies: dict[bytes, bytes],
    checked: Mapping[Outpoint, int],
    badge: Badge | None,
    times: Mapping[int, int],
    *,
    outdated: bool,
) -> Iterator[Document]:
    """One registration of one chain: its state after each block that spoke of it, until the next one that did; and
    what it is now, if that shows what is pending. With `outdated`, something else is shown of it by now."""
    ends = [number for number in range(1, len(history)) if history[number].height != history[number - 1].height]
    ends.append(len(history))
    heights = [history[end - 1].height for end in ends]
    untils: list[int | None] = [*heights[1:], STILL if pending or outdated else None]
    claims = ClaimHistory()
    for end, height, until in list(zip(ends, heights, untils, strict=True))[-MOST_STRETCHES:]:
        state = history[end - 1].event.state
        if state is None or state.card not in bodies:
            continue
        stood = listing(history[:end], chains, bodies[state.card], checked)
        stood = replace(stood, badge=badge, previous=_previous(history[:end], bodies))
        subjects = items.subjects(stood, _read(state.id, bodies[state.card], state.kind))
        since = _since(history[:end], times)
        claims.add(() if state.status is Status.BURNED else subjects, since)
        for subject in subjects:
            likeness = claims.likeness(subject) if until is None else None
            yield replace(items.document(subject), from_height=height, until_height=until, likeness=likeness)
        if pending and not outdated and end == len(history):
            shown = _current(replace(stood, pending=pending), claims, since)
            yield from (replace(found, from_height=None) for found in shown)


def _current(found: Listing, claims: ClaimHistory, since: Since) -> Iterator[Document]:
    """What an index holds of a listing for those who do not ask for a height: as it is `since` then, after what
    `claims` was told."""
    if found.card_body is not None:
        subjects = items.subjects(found, _read(found.state.id, found.card_body, found.state.kind))
        claims.add(subjects, since)
        for subject in subjects:
            yield replace(items.document(subject), likeness=claims.likeness(subject))


def _since(history: Sequence[store.Revision], times: Mapping[int, int]) -> Since:
    """Since when what is shown after these revisions is."""
    winner = _winner(history) or history[0]
    state = history[-1].event.state
    created = state.created_height if state else 0
    # an account that was closed and opened again is a first record again
    first = next((past for past in history if past.height >= created), history[0])
    time = times.get(winner.height, winner.time)
    return Since(time, winner.chain, winner.height, place(first.height, first.event.position))


def _winner(history: Sequence[store.Revision]) -> store.Revision | None:
    """The revision whose card is shown, None where that is in a block before the first one that is stored."""
    return next((past for past in reversed(history) if past.event.kind in WINS), None)


def _newest_cards(history: Sequence[store.Revision], waiting: Sequence[Event]) -> set[bytes]:
    newest = [past.event.state for past in history[-1:]] + [event.state for event in waiting[-1:]]
    return {state.card for state in newest if state}


def _shown(history: Sequence[store.Revision]) -> list[store.Revision]:
    """The revisions whose card was shown, oldest first: of many the first and the newest, so that no number of updates
    hides what the first one said."""
    winners = [past for past in history if past.event.kind in WINS and past.event.card]
    return winners if len(winners) <= MAX_PREVIOUS else [winners[0], *winners[-MAX_PREVIOUS:]]


def _previous(history: Sequence[store.Revision], bodies: Mapping[bytes, bytes]) -> tuple[PreviousCard, ...]:
    """The cards shown before the newest one."""
    return tuple(
        PreviousCard(body=body, owner=before.event.state.owner, replaced_at=after.height)
        for before, after in pairwise(_shown(history))
        if before.event.state is not None and (body := bodies.get(before.event.card or b"")) is not None
    )


def _card(events: Sequence[Event], bodies: Mapping[bytes, bytes]) -> bytes | None:
    """The card's bytes after these events."""
    state = events[-1].state
    return bodies.get(state.card) if state else None


def _read(id_: str, body: bytes, kind: Kind) -> Card:
    # every entry of a registry is told its own name, every other card is the same whoever carries it
    return _read_of(id_ if is_entry(id_) else "", body, kind)


@lru_cache(maxsize=256)
def _read_of(id_: str, body: bytes, kind: Kind) -> Card:
    return cards.read_of(id_, body, kind)


def _listing(
    history: Sequence[store.Revision],
    waiting: Sequence[Event],
    chain: str,
    chains: dict[str, str],
    bodies: Mapping[bytes, bytes],
    checked: Mapping[Outpoint, int],
) -> Listing:
    """A registration as it stands on a chain, with what is unconfirmed (`waiting`) beside it or alone."""
    if not history:
        return newcomer(waiting, chain, chains.get(chain, chain), _card(waiting, bodies))
    body = _card([past.event for past in history], bodies)
    found = listing(history, chains, body, checked)
    return replace(found, pending=beside(waiting, bodies), previous=_previous(history, bodies))


def listing(
    history: Sequence[store.Revision], chains: dict[str, str], body: bytes | None, checked: Mapping[Outpoint, int]
) -> Listing:
    """A registration as its revisions so far (oldest first, not empty) say it stands; `checked` are times at which
    outpoints were seen unspent."""
    newest = history[-1]
    state = newest.event.state
    if state is None:
        raise ValueError("these revisions are not of a registration")
    winner = _winner(history)
    if winner is None and newest.event.kind is EventKind.UNDECIDED and newest.event.card is not None:
        winner = newest  # its card is shown until it is known whose update it is
    return Listing(
        state=state,
        chain=newest.chain,
        caip2=chains.get(newest.chain, newest.chain),
        card_body=body,
        updated_time=winner.time if winner else None,
        # an account that was closed and opened again is a first record again
        created_time=next((past.time for past in history if past.height >= state.created_height), history[0].time),
        signer=winner.event.signer if winner else None,
        undecided=newest.event.reasons[0] if state.status is Status.UNDECIDED and newest.event.reasons else None,
        owner_checked=checked.get(state.outpoint) if state.outpoint else None,
    )
