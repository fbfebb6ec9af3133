"""Registrations become the documents of an index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import accumulate, chain, islice
from typing import NamedTuple

from indexer import store
from indexer.headers.networks import ticker_of
from indexer.model import Status
from indexer.resolution.pointer_resolution import Integrity
from indexer.resolution.pointer_service import is_outpoint
from indexer.store.event_codec import event_position
from overlay.duplicates.text_keys import ADDRESS, NAME, URL, TextKeyHistory, unconfirmed
from overlay.installation import NAMES
from overlay.listings import from_pointer
from overlay.listings.assembler import Assembler, RegistrationFacts, Revisions
from overlay.listings.card_texts import card_offers, read_card
from overlay.listings.item_json import stored_item
from overlay.listings.listing import Listing, listings_of
from overlay.listings.records import Registration
from overlay.listings.registrations import (
    CARD_BYTES,
    ChainHistory,
    by_chain,
    cards_to_read,
    fitting,
    newest_registration,
    pending_revision,
    previous_cards,
    registration_at,
    winner_of,
)
from overlay.search.analysis import stem, words
from overlay.search.diversity import source_number
from overlay.search.document import NOTHING, Document, Fingerprint, Since
from overlay.search.facts import FLAGS, id_fact, outpoint_fact, package_fact, run_fact, same_fact, transaction_fact
from parsers.bitcoin.tx import Outpoint
from parsers.cards import McpServer
from parsers.cards.command_packages import installed
from parsers.cards.offers import in_coin

MOST_STRETCHES = 256
"""Superseded states of a registration in an index, at most, and as many as have CARD_BYTES of cards; older ones are
only in its history. A transfer of a few bytes would add an item of 1 MB otherwise."""

FETCHED_BYTES = 128 << 10
"""Bytes that a fetched card counts for before it is read: of 1 MB, 256 are in one portion."""

RUN_WORDS = 64
"""Words of a tool's command, arguments and variables by which it is excluded, at most."""

AT_ONCE, AT_ONCE_BYTES = 32, 4 << 20
"""Registrations whose documents are made together where the cards of a portion have at most so many bytes."""

PORTION = 1_000
"""Registrations whose documents are in memory together."""

Portion = tuple[list[str], Iterator[Document]]
"""Registrations and all their documents."""

STILL = 2**63 - 1
"""The `until_height` of a confirmed state that no later block ends, where another document holds the current state,
with a pending revision, observed tools or a fetched card."""


_Times = dict[str, dict[int, int]]


class DocumentReader:
    """Reads the documents of registrations from the store."""

    def __init__(self, source: store.Store, systems: tuple[str, ...] = NAMES) -> None:
        self._store, self._assembler = source, Assembler(source, systems)

    def documents(self, registrations: Iterable[str]) -> Iterator[Document]:
        """The documents of these registrations and pointers: one for each listing and range of heights, and one for an
        unconfirmed state or a fetched card; none of what is hidden."""
        portions = chain.from_iterable(portions for _, portions in self.commits(registrations))
        return chain.from_iterable(documents for _, documents in portions)

    def commits(
        self, registrations: Iterable[str], most: int = PORTION
    ) -> Iterator[tuple[list[str], Iterable[Portion]]]:
        """These registrations in order, in groups of about CARD_BYTES of cards and items, in portions of `most` with
        their documents, which are read before the next portion."""
        for ids, records in self._store.history.portions(registrations):
            histories = {id_: list(by_chain(records[id_])) if id_ in records else [] for id_ in ids}
            named = {id_: [cards_to_read(history) for history in histories[id_]] for id_ in ids}
            sizes = self._store.content.card_sizes(chain.from_iterable(chain.from_iterable(named.values())))
            fit = {id_: [fitting(cards, sizes) for cards in named[id_]] for id_ in ids}

            def portions(some: list[str]) -> Iterator[Portion]:
                for start in range(0, len(some), most):
                    few = some[start : start + most]
                    digests = set(chain.from_iterable(chain.from_iterable(map(fit.__getitem__, few))))  # noqa: B023
                    yield few, self._of_portion(few, records, digests, histories)  # noqa: B023

            some: list[str] = []
            counted: set[bytes] = set()
            size = 0
            for id_ in ids:
                some.append(id_)
                size += 0 if is_outpoint(id_) else FETCHED_BYTES
                for history, cards in zip(histories[id_], fit[id_], strict=True):
                    new = cards - counted
                    counted |= new
                    states = (past.event.state for past in history.confirmed[-MOST_STRETCHES:])
                    of_items = sum(sizes.get(state.card, 0) for state in states if state)  # in the index, about
                    size += max(sum(sizes.get(card, 0) for card in new), min(CARD_BYTES, of_items))
                if size >= CARD_BYTES:
                    yield some, portions(some)
                    some, counted, size = [], set(), 0
            if some:
                yield some, portions(some)

    def _of_portion(
        self, ids: Sequence[str], records: Revisions, digests: Iterable[bytes],
        histories_of: Mapping[str, Sequence[ChainHistory]],
    ) -> Iterator[Document]:  # fmt: skip
        chains, key, hidden = self._store.chains(), self._store.hash_key, self._store.hidden.of(ids)
        ids = [id_ for id_ in ids if id_ not in hidden]
        elsewhere: set[str] = set()
        for registration in self._assembler.pointed(ids, records):
            if registration.state.id in records:
                elsewhere.add(registration.state.id)
            yield from _documents([self._pointed(registration)], key)
        histories = [history for id_ in ids for history in histories_of[id_]]
        bodies = self._store.content.cards(digests)
        facts = self._assembler.facts([id_ for id_ in ids if id_ in records], histories, bodies)
        times = self._settled_times(histories)
        at_once = AT_ONCE if sum(map(len, bodies.values())) <= AT_ONCE_BYTES else 1
        for start in range(0, len(histories), at_once):
            stretches: list[Sequence[_Stretch]] = []
            for history in histories[start : start + at_once]:
                name = history.chain
                if history.confirmed:
                    state = history.confirmed[-1].event.state
                    outdated = state is not None and state.id in elsewhere
                    stretches.append([*_confirmed(history, chains, bodies, facts, times[name], outdated=outdated)])
                else:
                    shown = newest_registration([], history.waiting, name, chains, bodies, facts.checked)
                    stretches.append(_current(facts.with_facts(shown), unconfirmed(name)))
            yield from _documents(stretches, key)

    def _settled_times(self, histories: Iterable[ChainHistory]) -> _Times:
        """The times by which seniority is compared, for each chain by the heights of these revisions."""
        heights: dict[str, set[int]] = {}
        for history in histories:
            heights.setdefault(history.chain, set()).update(past.height for past in history.confirmed)
        return {
            chain: self._store.blocks.monotonic_times(chain, heights_of_chain)
            for chain, heights_of_chain in heights.items()
        }

    def _pointed(self, registration: Registration) -> list[_Stretch]:
        """A listing from pointers, with the text keys of its earlier cards."""
        periods = from_pointer.card_periods(registration.pointers) if registration.pointers else []
        bodies = self._store.content.cards({digest for digest, _ in periods[:-1] if digest})
        stretches: list[_Stretch] = []
        for digest, since in periods[:-1]:
            if not digest:
                stretches.append(_Stretch((), since))
            elif digest in bodies:
                before = replace(registration, state=replace(registration.state, card=digest), previous=())
                card = read_card(registration.state.id, bodies[digest], registration.state.kind)
                stretches.append(_Stretch(listings_of(before, card), since))
        return stretches + _current(registration, periods[-1][1] if periods else unconfirmed(registration.chain))


class _Stretch(NamedTuple):
    """A time in which a registration did not change, with the listings whose text keys count since then, and those
    in the index: from a height on (None: as `document` says), until before another (None: still). Where it is burned
    (`is_over`), earlier text keys count no longer: an account that is opened again is a new registration."""

    keyed: Sequence[Listing]
    since: Since
    shown: Sequence[Listing] = ()
    from_height: int | None = None
    until: int | None = None
    is_current: bool = False
    is_over: bool = False


def _documents(registrations: Iterable[Sequence[_Stretch]], key: bytes) -> Iterator[Document]:
    """The documents of some registrations; `key` makes the numbers of sources. Each step is for all of them: one
    registration after the other took a third more, as each step found the processor's caches filled by the others."""
    rows: list[tuple[_Stretch, Listing, Fingerprint | None]] = []
    for stretches in registrations:
        text_keys = TextKeyHistory()
        for stretch in stretches:
            text_keys = TextKeyHistory() if stretch.is_over else text_keys
            text_keys.add(stretch.keyed, stretch.since)
            rows += (
                (stretch, listing, text_keys.fingerprint(listing) if stretch.until is None else None)
                for listing in stretch.shown
            )
    for stretch, listing, fingerprint in rows:
        source = 0 if listing.is_confirmed_by_domain else source_number(key, listing.owner or "", listing.host)
        shown = document(
            listing, stretch.until, from_height=stretch.from_height, fingerprint=fingerprint, source=source
        )
        yield replace(shown, from_height=None) if stretch.is_current else shown


def _confirmed(
    on_chain: ChainHistory,
    chains: dict[str, str],
    bodies: dict[bytes, bytes],
    facts: RegistrationFacts,
    times: Mapping[int, int],
    *,
    outdated: bool,
) -> Iterator[_Stretch]:
    """A registration on one chain: its state after each block with an event of it, until the next such block, and its
    current state with a pending revision or observed tools. `outdated`: a fetched card has replaced the last state."""
    history, pending = on_chain.confirmed, pending_revision(on_chain.waiting, bodies)
    last = history[-1].event.state
    observed = facts.observed.get(last.id, {}) if last else {}
    offers_of, read = cache(card_offers), cache(read_card)  # each card is one of many states
    ends = [number for number in range(1, len(history)) if history[number].height != history[number - 1].height]
    ends.append(len(history))
    heights = [history[end - 1].height for end in ends]
    untils: list[int | None] = [*heights[1:], STILL if pending or observed or outdated else None]
    stretches = list(zip(ends, heights, untils, strict=True))
    # no number of updates takes the seniority of the first text
    recent = [*stretches[:-MOST_STRETCHES][:1], *stretches[-MOST_STRETCHES:]]
    states = [history[end - 1].event.state for end, _, _ in recent]
    sizes = [len(bodies.get(state.card, b"")) if state else 0 for state in states]
    fitting_last = sum(total <= CARD_BYTES for total in accumulate(reversed(sizes)))
    in_index = min(max(1, fitting_last), MOST_STRETCHES)  # the current state always is
    for number, ((end, height, until), state) in enumerate(zip(recent, states, strict=True)):
        if state is None or state.card not in bodies:
            continue
        previous = previous_cards(history[:end], bodies, offers_of)
        registration = facts.with_facts(
            registration_at(history[:end], chains, bodies[state.card], facts.checked, previous=previous)
        )
        # a query for a past height does not cover what was observed at hosts (law 24)
        registration = replace(registration, observed={})
        listings = listings_of(registration, read(state.id, bodies[state.card], state.kind))
        since = _since(history[:end], times)
        shown = listings if len(recent) - number <= in_index else ()
        is_burned = state.status is Status.BURNED
        yield _Stretch(() if is_burned else listings, since, shown, height, until, is_over=is_burned)
        if (pending or observed) and not outdated and end == len(history):
            current = _current(replace(registration, pending=pending, observed=observed), since)
            yield from (stretch._replace(is_current=True) for stretch in current)


def _current(registration: Registration, since: Since) -> list[_Stretch]:
    """The current state, valid `since` then, for queries without a height."""
    if registration.card_body is None:
        return []
    listings = listings_of(
        registration, read_card(registration.state.id, registration.card_body, registration.state.kind)
    )
    return [_Stretch(listings, since, listings)]


def _since(history: Sequence[store.Revision], times: Mapping[int, int]) -> Since:
    """When the state after these revisions began."""
    winner = winner_of(history) or history[0]
    state = history[-1].event.state
    created = state.created_height if state else 0
    # an account that was closed and opened again is a first record again
    first = next((past for past in history if past.height >= created), history[0])
    time, registered_time = (times.get(past.height, past.time) for past in (winner, first))
    registered = event_position(first.height, first.event.position)
    return Since(time, winner.chain, winner.height, registered_time, registered)


def document(
    listing: Listing,
    until_height: int | None = None,
    *,
    from_height: int | None = None,
    fingerprint: Fingerprint | None = None,
    source: int = 0,
) -> Document:
    """The document of a listing, valid from a height (None: its updated height) until before `until_height`."""
    state, card, facts = listing.state, listing.card, listing.facts.values()
    observed = listing.observed_tools.words if listing.observed_tools else ()
    confirmed, coin = listing.confirmed, ticker_of(listing.caip2)
    # a query for a past height does not cover fetched cards (law 18)
    if from_height is None and confirmed and listing.pointers is None:
        from_height = state.updated_height
    return Document(
        id=listing.id,
        registration=state.id,
        kind=card.kind.value,
        status=listing.status,
        chain=listing.chain,
        caip2=listing.caip2,
        owner=listing.owner or "",
        domain=listing.host,
        verified=listing.verified,
        drifted=listing.integrity is Integrity.DRIFTED,
        also_on=tuple(_other_chains(listing)),
        from_height=from_height,
        until_height=until_height,
        updated_height=state.updated_height if confirmed else None,
        updated_time=listing.updated_time,
        created_height=state.created_height if confirmed else None,
        created_time=listing.created_time,
        name=card.name,
        description=card.description,
        tags=card.tags,
        skills=card.skills,
        words=(*listing.more_texts, *observed),
        offers=tuple(in_coin(offer, coin) for offer in card.offers),
        fingerprint=fingerprint,
        signed=listing.signer is not None,
        deprecated=listing.is_deprecated,
        health=listing.health.state if listing.health else "",
        lost=listing.health is not None and listing.health.is_lost,
        not_runnable=not listing.is_runnable,
        notice_time=listing.notice_time,
        usage=listing.usage,
        source=source,
        rating=next((number for fact in facts if (number := fact.source.number(fact.value)) is not None), None),
        more_facts=(
            *identifier_facts(listing),
            *(same_fact(key.value) for key in (fingerprint or NOTHING).text_keys if key.kind in (NAME, URL, ADDRESS)),
            *(term for fact in facts for term in fact.source.terms(listing, fact.value)),
            *(flag for flag in FLAGS if getattr(listing, f"is_{flag}")),
        ),
        item=stored_item(listing),
        analysed=None if observed else listing.analysed,
    )


def _other_chains(listing: Listing) -> Iterable[str]:
    """The other chains with an anchor that is met."""
    resolution = listing.pointers.resolution if listing.pointers else None
    if resolution is not None:
        on = {anchor.chain for anchor, met in zip(resolution.anchors, resolution.met, strict=True) if met}
        yield from sorted(on - {listing.chain})


def identifier_facts(listing: Listing) -> Iterator[str]:
    """The identifiers by which a listing is looked up: its ids, outpoints and transactions, and the package that its
    command installs; and the words by which the command is excluded."""
    yield from dict.fromkeys((id_fact(listing.id), id_fact(listing.state.id)))
    outpoints = {listing.state.outpoint, listing.state.winner}
    with suppress(ValueError):  # the id of a pointer, or of an entry, is not an outpoint
        outpoints.add(Outpoint.parse(listing.state.id.partition("#")[0]))
    resolution = listing.pointers.resolution if listing.pointers else None
    anchors = [anchor for anchor, _ in (from_pointer.shown_anchors(resolution) if resolution else ())]
    outpoints |= {anchor.outpoint for anchor in anchors if anchor.outpoint}
    yield from sorted(outpoint_fact(outpoint) for outpoint in outpoints if outpoint)
    txids = {outpoint.txid for outpoint in outpoints if outpoint} | {anchor.txid for anchor in anchors}
    yield from sorted(map(transaction_fact, txids))
    if isinstance(listing.card, McpServer):
        if run := installed(listing.card.command, listing.card.args):
            yield package_fact(run.name)
        texts = (listing.card.command, *listing.card.args, *listing.card.env, *listing.card.headers)
        yield from map(run_fact, islice(dict.fromkeys(stem(word) for text in texts for word in words(text)), RUN_WORDS))
