"""Whatever listings come and go, and in whatever order they are read: each has the status that a slow reader finds."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from itertools import chain, repeat
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.duplicates import text_key_table
from overlay.duplicates.duplicate_index import DuplicateIndex
from overlay.duplicates.duplicate_status import DuplicateStatus
from overlay.duplicates.text_keys import ADDRESS, CLUSTER, COMMAND, NAME, SIMILAR, TEXT, URL, digest
from overlay.engines import EngineError, IndexPosition
from overlay.search.document import AT_HOME, NAMED, Document, Fingerprint, Since, TextKey
from overlay.search.facts import HERE
from tests.contracts.listed import listing

CHAINS = ("bsv", "ltc")
SortKey = tuple[Any, ...]


@st.composite
def documents(draw: st.DrawFn, registration: str) -> list[Document]:
    """The documents of a registration: none, an agent, or two servers."""
    results, registered = [], draw(st.integers(0, 2))
    for key in draw(st.sampled_from([(), ("",), ("",), ("",), ("#a", "#b")])):
        chain = draw(st.sampled_from(CHAINS))
        since = Since(draw(st.integers(1, 3)), chain, draw(st.integers(1, 2)), registered, int(registration, 36))
        text_keys = [TextKey(TEXT, digest(draw(st.sampled_from("xyz")) + key), since)]
        # sets of neighbours, so that chains of similarity are common
        first = draw(st.integers(0, 6))
        text_keys += [
            TextKey(CLUSTER, digest(str(index)), since) for index in range(first, first + draw(st.integers(1, 3)))
        ]
        named = since._replace(time=draw(st.integers(0, 3)))
        for kind, values in ((NAME, "mn"), (URL, "u"), (COMMAND, "c"), (ADDRESS, "pq"), (SIMILAR, "st")):
            messages = sorted(draw(st.sets(st.sampled_from(values))))
            text_keys += [TextKey(kind, digest(item), named if kind == SIMILAR else since) for item in messages]
        leads = {"destination": draw(st.integers(1, 3)), "host": draw(st.integers(0, 2))}
        owner = draw(st.sampled_from(["", "al"]))
        fingerprint = Fingerprint(tuple(text_keys), draw(st.integers(0, 3)), owner, **leads)
        also_on = tuple(item for item in CHAINS if item != chain and draw(st.booleans()))
        listed = listing(
            registration + key, chain=chain, also_on=also_on, domain=draw(st.sampled_from(["", "a.example"]))
        )
        status = draw(st.sampled_from(["live", "live", "live", "burned"]))
        results.append(replace(listed, fingerprint=fingerprint, status=status))
    return results


changes = st.sampled_from("abcdef").flatmap(lambda id_: st.tuples(st.just(id_), documents(id_)))
happenings = st.one_of(st.sampled_from(["", "reopened", "by another process", "copied"]), st.integers(1, 3_000))
"""Events before a batch; a number: it fails at that step of the database first."""


def order_of(document: Document) -> SortKey:
    """Where a listing is in the order of seniority."""
    assert document.fingerprint is not None
    return document.fingerprint.rank, *document.fingerprint.text_keys[0].since, crc32(document.id.encode())


def holding(document: Document, value: int) -> SortKey:
    """Where a listing is in the order of those that had a text key."""
    assert document.fingerprint is not None
    since = next(text_key.since for text_key in document.fingerprint.text_keys if text_key.value == value)
    return *since, crc32(document.id.encode())


def age(document: Document) -> SortKey:
    """Which of two registrations is the older one."""
    *_, registered_time, registered, id_ = order_of(document)
    return registered_time, registered, id_


def is_of_the_host_that_confirms(mine: Document, other: Document) -> bool:
    """Whether the host of a listing confirms it and another one names that host."""
    assert mine.fingerprint is not None
    assert other.fingerprint is not None
    return mine.fingerprint.rank in (NAMED, AT_HOME) and mine.fingerprint.host == other.fingerprint.host > 0


def leads_to(document: Document) -> int:
    assert document.fingerprint is not None
    return document.fingerprint.destination


def replaces(senior: Document, other: Document) -> bool:
    """Whether a listing that is before another one in order is shown instead of it (law 21)."""
    if is_of_the_host_that_confirms(senior, other) or leads_to(senior) == leads_to(other):
        return True
    return age(senior) <= age(other)


def shown_of(listed: list[Document], alike: Callable[[Document, Document], object]) -> dict[str, str]:
    """Which is shown for each listing: one after the other, the most senior first."""
    shown: list[Document] = []
    results: dict[str, str] = {}
    for mine in sorted(listed, key=order_of):
        instead = [item for item in shown if alike(item, mine) and replaces(item, mine)]
        results[mine.id] = instead[0].id if instead else mine.id
        shown += [] if instead else [mine]
    return results


def values(document: Document, kind: str) -> set[int]:
    """The values of a document's text keys of a kind."""
    assert document.fingerprint is not None
    return {text_key.value for text_key in document.fingerprint.text_keys if text_key.kind == kind}


def heads(listed: list[Document]) -> dict[str, str]:
    """Which is shown for each listing."""
    return shown_of(listed, lambda one, other: values(one, CLUSTER) & values(other, CLUSTER))


def views(document: Document) -> dict[str, object]:
    """The values by which a listing's text is compared in each view."""
    assert document.fingerprint is not None
    (text,) = values(document, TEXT)
    chains = {document.chain, *document.also_on}
    here = text, document.domain, document.fingerprint.rank < 3, frozenset(chains)
    return dict.fromkeys(chains, text) | {HERE: here}


def is_of_owner(mine: Document, other: Document) -> bool:
    assert mine.fingerprint is not None
    assert other.fingerprint is not None
    return bool(mine.fingerprint.owner) and other.fingerprint.owner == mine.fingerprint.owner


def is_known(kind: str, mine: Document, other: Document) -> bool:
    """Whether the same owner said all of it before: the pay-to addresses, and with a name the URL and the command."""
    leads = all(values(mine, held) <= values(other, held) for held in (URL, COMMAND))
    is_paid_there = values(mine, ADDRESS) <= values(other, ADDRESS)
    return is_of_owner(mine, other) and is_paid_there and (kind not in (NAME, SIMILAR) or leads)


def exempt(mine: Document, kind: str) -> bool:
    """Whether the domain of a listing keeps it from warnings of a kind."""
    assert mine.fingerprint is not None
    return {NAMED: kind in (NAME, URL, ADDRESS), AT_HOME: kind == URL}.get(mine.fingerprint.rank, False)


def earlier_of(kind: str, mine: Document, listed: list[Document]) -> tuple[str, str, bool] | None:
    """The warning of a kind of a listing: which had the text key before."""
    others: list[tuple[SortKey, Document]] = []
    for held in (NAME, SIMILAR) if kind == NAME else (kind,):
        for value in values(mine, held):
            holders = [item for item in listed if value in values(item, held)]
            first = min(holders, key=lambda item: holding(item, value))
            others.append((holding(first, value), first))
    for _, other in sorted(others, key=lambda pair: pair[0]):
        harmless = leads_to(mine) == leads_to(other) or is_of_the_host_that_confirms(mine, other)
        if other.registration == mine.registration or is_known(kind, mine, other) or (kind == SIMILAR and harmless):
            continue
        return None if exempt(mine, kind) else (kind, other.id, is_of_owner(mine, other))
    return None


def expected(mine: Document, listed: list[Document]) -> DuplicateStatus:
    """The expected status of a listing, by looking at all others."""
    shown_for = heads(listed)
    head, duplicates = shown_for[mine.id], list(shown_for.values()).count(mine.id) - 1
    hidden_in = [] if head == mine.id else [""]
    for view, value in views(mine).items():
        same = [item for item in listed if views(item).get(view) == value]
        if shown_of(same, lambda *_: True)[mine.id] != mine.id:
            hidden_in.append(view)
    kinds = (NAME, URL, ADDRESS, SIMILAR)
    earlier = tuple(warning for kind in kinds if (warning := earlier_of(kind, mine, listed)))
    group = head if head != mine.id or duplicates > 0 else ""
    return DuplicateStatus(tuple(sorted(hidden_in)), max(0, duplicates), group, earlier)


class Process:
    """The duplicate index of a folder, as two processes have it open; the first one writes."""

    def __init__(self, folder: str, ending: ExitStack) -> None:
        self._folder, self._ending = folder, ending
        self._databases: dict[DuplicateIndex, sqlite3.Connection] = {}
        self.index, self._other = self._opened(), self._opened()

    def _opened(self) -> DuplicateIndex:
        connect, opened = sqlite3.connect, list[sqlite3.Connection]()

        def connecting(*args: Any, **options: Any) -> sqlite3.Connection:
            opened.append(connect(*args, **options))
            return opened[-1]

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sqlite3, "connect", connecting)
            index = self._ending.enter_context(closing(DuplicateIndex(self._folder)))
        self._databases[index] = opened[-1]
        return index

    def let(self, happening: str | int, update: tuple[Any, ...]) -> None:
        """Let something happen before an update."""
        if happening == "reopened":
            self.index = self._opened()
        elif happening == "by another process":
            self.index, self._other = self._other, self.index
        elif happening == "copied":
            with closing(DuplicateIndex()) as beside:
                beside.copy_from(self.index)
                self.index.clear()
                self.index.copy_from(beside)
        elif isinstance(happening, int):
            steps = chain(repeat(0, happening), [1])
            self._databases[self.index].set_progress_handler(lambda: next(steps, 0), 1)
            with suppress(EngineError):
                self.index.update(*update)
            self._databases[self.index].set_progress_handler(None, 0)


@pytest.fixture(params=[(1, 2), (text_key_table.FEWEST, 1)], ids=["in arrays", "in the dictionary"])
def fewest(request: pytest.FixtureRequest) -> Iterator[int]:
    """Where the text keys are: in the arrays, compacted before each batch by slices of two, or in the dictionary."""
    fewest, values = request.param
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(text_key_table, "FEWEST", fewest)
        patched.setattr(text_key_table, "SLICE", values)
        yield fewest


@pytest.mark.usefixtures("fewest")
@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.lists(changes, min_size=1, max_size=3), happenings), max_size=6))
def test_the_status_of_each_is_what_follows_from_all(
    history: list[tuple[list[tuple[str, list[Document]]], str | int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as ending:
        process = Process(folder, ending)
        current: dict[str, list[Document]] = {}
        answers: dict[str, DuplicateStatus] = {}
        for number, (batch, happening) in enumerate(history):
            touched = list(dict(batch))
            current |= dict(batch)
            update = touched, [item for id_ in touched for item in current[id_]], IndexPosition("e", number)
            process.let(happening, update)
            process.index.update(*update)
            waiting = process.index.queued()
            for id_ in {*touched, *waiting}:
                answers = {listing: status for listing, status in answers.items() if listing.partition("#")[0] != id_}
            answers |= {id_: status for (id_, _), status in process.index.statuses([*touched, *waiting]).items()}
            process.index.dequeue(waiting)
        assert answers == expected_statuses(current)
        assert process.index.queued() == []


def expected_statuses(current: dict[str, list[Document]]) -> dict[str, DuplicateStatus]:
    """The statuses of all listings, by id."""
    listed = [item for result in current.values() for item in result if item.status == "live"]
    return {item.id: expected(item, listed) for item in listed}


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_groups_do_not_depend_on_the_order_of_reading(data: st.DataObject) -> None:
    results = {id_: data.draw(documents(id_)) for id_ in "abcdefgh"}
    statuses = []
    for order in (list(results), data.draw(st.permutations(list(results)))):
        with tempfile.TemporaryDirectory() as folder, closing(DuplicateIndex(folder)) as index:
            for id_ in order:
                index.update([id_], results[id_], None)
            statuses.append(index.statuses(results))
    assert statuses[0] == statuses[1]


def test_the_former_first_is_queued_when_several_older_ones_come_at_once() -> None:
    def copy(id_: str, time: int) -> Document:
        since = Since(time, "bsv", 1, 1, 1)
        text_keys = TextKey(TEXT, digest("x"), since), TextKey(CLUSTER, digest(id_), since)
        return replace(listing(id_), fingerprint=Fingerprint(text_keys))

    with closing(DuplicateIndex()) as index:
        index.update(["c"], [copy("c", 9)], None)
        index.update(list("abd"), [copy("a", 1), copy("b", 2), copy("d", 3)], None)
        assert index.queued() == ["c"]
        hidden = {id_: status.hidden_in for (id_, _), status in index.statuses("abcd").items()}
        assert hidden == {"a": (), "b": (HERE, "bsv"), "c": (HERE, "bsv"), "d": (HERE, "bsv")}
