"""Compare changed listings with all webhooks, and queue the reports.

The matcher has an outbox position and reads up to the change that the search index has read: a search after a delivery
finds the listings in it. A listing is reported when it meets the search and differs from its last report, and when it
was reported and no longer meets the search.

A listing is compared only with the queries that share a term with it: each query is filed under the alternatives of one
requirement, its rarest word or its narrowest filter.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from indexer.failures import LeftOut, is_of_machine
from indexer.store.outbox import Change
from overlay.api.base_url import listing_url
from overlay.duplicates.duplicate_status import document_with_status
from overlay.projection.documents import DocumentReader
from overlay.search.document import Document
from overlay.search.facts import facts, required, selection, unwanted
from overlay.search.forward import Analysed
from overlay.search.planner import required_terms
from overlay.search.prices import asks_offer, meets, pack
from overlay.search.query import Query
from overlay.systems.webhooks.store import ListingReport, NewDelivery, StoredWebhook, StoredWebhooks
from overlay.text.compact_json import encode
from overlay.text.safe_text import on_one_line
from overlay.text.timestamps import timestamp

if TYPE_CHECKING:
    from indexer.store import Store
    from overlay.duplicates.duplicate_index import DuplicateIndex
    from overlay.projection.search_index import SearchIndex


_WORD = "word:"
_NARROW = ("owner", "domain", "skill", "tag", "currency", "interval", "chain")
"""The filters that few listings meet, the narrowest first."""


class _Saved(NamedTuple):
    """A query and its keys: the groups of facts and `word:` terms, one of each of which a listing needs, the facts and
    phrases that it must not have, and the phrases that it needs."""

    query: Query
    keys: list[str]
    groups: tuple[frozenset[str], ...]
    unwanted: frozenset[str]
    phrases: tuple[str, ...]
    excluded: tuple[str, ...]


class Percolator:
    """Queries in memory, by any key. Heights, times and the order of a query are not considered."""

    def __init__(self, queries: Iterable[tuple[str, Query]], frequency: Callable[[str], int] = lambda _: 0) -> None:
        """`frequency` is the number of listings that contain a term."""
        keys = defaultdict[Query, list[str]](list)
        for key, query in queries:
            keys[query].append(key)
        self._filed = defaultdict[str, list[_Saved]](list)
        for query, of_query in keys.items():
            saved = _saved(query, of_query)
            for term in _rarest(saved, frequency):
                self._filed[term].append(saved)

    def matching(self, document: Document) -> Iterator[str]:
        """The keys of the queries that a document meets: it has all words, and passes the filters."""
        analysed = Analysed.of(document)
        terms = {*facts(document), *(_WORD + term for term in analysed.terms())}
        near = {id(saved): saved for term in terms & self._filed.keys() for saved in self._filed[term]}
        texts: list[str] | None = None
        offers: bytes | None = None
        for saved in near.values():
            if any(map(terms.isdisjoint, saved.groups)) or not terms.isdisjoint(saved.unwanted):
                continue
            if saved.phrases or saved.excluded:
                texts = texts or [f" {sequence} " for sequence in analysed.sequences()]
                if not all(_holds(texts, phrase) for phrase in saved.phrases) or any(
                    _holds(texts, phrase) for phrase in saved.excluded
                ):
                    continue
            if asks_offer(saved.query):
                offers = offers or pack(document)
                if not meets(offers, saved.query):
                    continue
            yield from saved.keys


def _saved(query: Query, keys: list[str]) -> _Saved:
    named = frozenset(fact for lookup in query.lookups if not lookup.leads for fact in lookup.facts)
    words = (named.union(_WORD + term for term in group) for group in required_terms(query.text))
    filters = map(frozenset, (*selection(query), *required(query)))
    operators = query.operators
    phrases = (operators.phrases, operators.excluded) if operators else ((), ())
    return _Saved(query, keys, (*words, *filters), frozenset(unwanted(query)), *phrases)


def _rarest(saved: _Saved, frequency: Callable[[str], int]) -> frozenset[str]:
    """The group of terms that the fewest listings have, by the best knowledge: words by their frequency, and filters
    by their kind."""

    def commonness(group: frozenset[str]) -> tuple[int, int]:
        kind = next(iter(group)).partition(":")[0]
        if f"{kind}:" == _WORD:
            return 0, sum(frequency(term.removeprefix(_WORD)) for term in group)
        return (1, _NARROW.index(kind)) if kind in _NARROW else (2, len(group))

    return min(saved.groups, key=commonness)


def _holds(texts: Iterable[str], phrase: str) -> bool:
    return any(f" {phrase} " in text for text in texts)


_WORK = "webhooks"
"""The kind of work in `LeftOut`: comparing a listing with saved searches."""

BATCH = 1_000
"""Changes compared in one step."""

MAX_CHANGES = 50
"""Listings in one delivery; `more` counts those left out."""

LISTING_MEMBERS = (
    "id", "type", "status", "name", "summary", "chain", "caip2", "owner", "txid", "outpoint", "cardSha256",
    "updatedHeight", "timestamp",
)  # fmt: skip
"""The members of items that deliveries have."""
_NAME = 160  # characters


class Reported(NamedTuple):
    """The report of a listing: the change that made it so, and its members (None where it is not a result)."""

    report: ListingReport
    change: Change
    members: dict[str, Any] | None


class WebhookMatcher:
    """Calls block: call them from a worker thread. `parse` gives the query of a saved search, None where it has become
    invalid, `stamp` another value when exchange rates have changed, `clock` Unix seconds."""

    def __init__(
        self,
        store: Store,
        webhooks: StoredWebhooks,
        index: SearchIndex,
        duplicates: DuplicateIndex | None,
        parse: Callable[[str], Query | None],
        stamp: Callable[[], object],
        clock: Callable[[], float] = time.time,
        left_out: LeftOut | None = None,
    ) -> None:
        self._left_out = left_out if left_out is not None else LeftOut()
        self._store, self._webhooks, self._index, self._duplicates = store, webhooks, index, duplicates
        self._parse, self._stamp, self._clock = parse, stamp, clock
        self._reader = DocumentReader(store)
        self._percolator: tuple[object, Percolator] | None = None

    def step(self) -> bool:
        """Compare the next batch of changes; False without changes, or where another process was faster."""
        index, outbox, before = self._index.position(), self._store.outbox.position(), self._webhooks.position()
        end = min(index.seq if index and self._store.outbox.has(*index) else 0, outbox.newest_seq)
        if before == (outbox.epoch, end) or not (active := self._webhooks.active()):
            return False
        # sequence numbers go on after a fail-over; of a restored database the newest is earlier
        start = max(min(before[1], end) if before else 0, active[0].since_seq)
        changes = [change for change in self._store.outbox.after(start, BATCH) if change.seq <= end]
        if not changes:
            if start == end:
                self._webhooks.enqueue(before, (outbox.epoch, end), (), int(self._clock()))
            return False
        new = list(self._deliveries({webhook.id: webhook for webhook in active}, changes))
        after = outbox.epoch, changes[-1].seq
        return self._webhooks.enqueue(before, after, new, int(self._clock()))

    def _deliveries(self, active: dict[str, StoredWebhook], changes: Sequence[Change]) -> Iterator[NewDelivery]:
        last = {change.id: change for change in changes}
        by_webhook = defaultdict[str, list[Reported]](list)
        previous = self._webhooks.reports(last)
        percolator = self._percolate(active.values())
        seen = set[tuple[str, str]]()
        for document in self._documents(list(last)):
            members = _members(document)
            digest = blake2b(encode(members), digest_size=16).digest()
            change = last[document.registration]
            for id_ in percolator.matching(document):
                key = (id_, document.id)
                if key in seen or change.seq <= active[id_].since_seq:
                    continue
                seen.add(key)
                before = previous.pop(key, None)
                if before is None or before.digest != digest:
                    report = ListingReport(document.id, document.registration, digest)
                    by_webhook[id_].append(Reported(report, change, members))
        for (id_, _), report in previous.items():
            if id_ in active and not self._left_out.is_waiting(_WORK, report.registration):
                by_webhook[id_].append(Reported(report._replace(digest=None), last[report.registration], None))
        for id_, reports in by_webhook.items():
            reports.sort(key=lambda entry: entry.change.seq)
            yield _delivery(active[id_], reports, int(self._clock()))

    def _documents(self, registrations: Sequence[str]) -> Iterator[Document]:
        """The current documents of registrations, with what hides them as duplicates."""
        statuses = self._duplicates.statuses(registrations) if self._duplicates is not None else {}
        for document in self._readable(registrations):
            if document.until_height is None:
                yield document_with_status(document, statuses)

    def _readable(self, registrations: Sequence[str]) -> Iterable[Document]:
        """The documents of registrations, without those that fail: deliveries report them with their next change."""
        try:
            return list(self._reader.documents(registrations))
        except Exception as error:
            if is_of_machine(error):
                raise
        documents: list[Document] = []
        for id_ in registrations:
            with self._left_out.leaving_out(_WORK, id_):
                documents += self._reader.documents([id_])
        return documents

    def _percolate(self, active: Iterable[StoredWebhook]) -> Percolator:
        key = tuple(webhook.id for webhook in active), self._stamp()
        if self._percolator is None or self._percolator[0] != key:
            queries = [(webhook.id, self._parse(webhook.search)) for webhook in active]
            frequency = self._index.terms().frequency
            resolved = ((id_, self._index.resolved(query)) for id_, query in queries if query is not None)
            percolator = Percolator(resolved, frequency)
            self._percolator = key, percolator
        return self._percolator[1]


def _members(document: Document) -> dict[str, Any]:
    item = json.loads(document.item)
    return {name: item[name] for name in LISTING_MEMBERS} | {"name": on_one_line(item["name"], _NAME)}


def _delivery(webhook: StoredWebhook, reports: Sequence[Reported], now: int) -> NewDelivery:
    shown = reports[:MAX_CHANGES]
    body = {
        "type": "search.changed",
        "timestamp": timestamp(now),
        "subscription": webhook.id,
        "sequence": webhook.sequence + 1,
        "search": webhook.search,
        "changes": [_change_json(webhook.base, report) for report in shown],
        "more": len(reports) - len(shown),
    }
    return NewDelivery(webhook.id, webhook.sequence + 1, encode(body), [report.report for report in shown])


def _change_json(base: str, reported: Reported) -> dict[str, Any]:
    change, id_ = reported.change, reported.report.listing
    return {
        "op": "gone" if reported.members is None else "match",
        "id": id_,
        "seq": change.seq,
        "height": change.height,
        "reason": change.reason,
        "url": listing_url(base, id_),
        "listing": reported.members,
    }
