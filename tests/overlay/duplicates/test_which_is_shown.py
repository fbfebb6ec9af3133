"""Law 21 over histories: whatever owners and copiers inscribe, and when, each text is shown as a slow reader of all
revisions has it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.duplicates.duplicate_index import DuplicateIndex
from overlay.duplicates.duplicate_status import DuplicateStatus
from overlay.duplicates.text_keys import SIMILAR, TextKeyHistory
from overlay.listings.listing import Listing
from overlay.projection.documents import document
from overlay.search.document import Document, Since
from tests.facts import outpoint_of
from tests.overlay.duplicates.test_duplicates import LONG, gateway, subject_of

PARCELS = (
    "Weighs parcels, finds the cheapest carrier between two towns, prints labels for it and follows each van until "
    "somebody has signed for delivery at home, in a shop or in a locker."
)
TEXTS = (LONG, PARCELS)


class Revision(NamedTuple):
    """The content inscribed at a height: numbers of a text, of a price and of a destination."""

    height: int
    text: int
    price: int
    leads_to: int


@dataclass(frozen=True)
class Owned:
    """A registration: its number in the names of its cards, and its revisions, oldest first."""

    number: int
    revisions: tuple[Revision, ...]

    @property
    def now(self) -> Revision:
        return self.revisions[-1]

    @property
    def id(self) -> str:
        return str(outpoint_of(f"r{self.number}"))

    @property
    def age(self) -> tuple[int, int]:
        return self.revisions[0].height, self.number

    @property
    def held_since(self) -> int:
        """Since when it had the text of its present card, whatever it cost and had between."""
        return min(revision.height for revision in self.revisions if revision.text == self.now.text)


@st.composite
def registries(draw: st.DrawFn) -> list[Owned]:
    """Up to four registrations with up to four revisions each."""
    owned = []
    for number in range(draw(st.integers(2, 4))):
        heights = sorted(draw(st.sets(st.integers(1, 9), min_size=1, max_size=4)))
        few = st.integers(0, 1)
        owned.append(Owned(number, tuple(Revision(height, draw(few), draw(few), draw(few)) for height in heights)))
    return owned


def expected(registry: Sequence[Owned]) -> dict[str, tuple[str, str]]:
    """For each the id of the one that is shown, and of the one that a warning `same-text` names, "" without one."""
    shown: list[Owned] = []
    results: dict[str, tuple[str, str]] = {}
    for mine in sorted(registry, key=lambda one: (one.held_since, one.age)):
        alike = [one for one in shown if one.now[1:3] == mine.now[1:3]]
        instead = [one for one in alike if one.age < mine.age or one.now.leads_to == mine.now.leads_to]
        same_text = [one for one in registry if one.now.text == mine.now.text]
        first = min(same_text, key=lambda one: one.age)  # all names are the same but for a number
        is_warned = first is not mine and first.now.leads_to != mine.now.leads_to
        results[mine.id] = (instead[0].id if instead else mine.id), first.id if is_warned else ""
        shown += [] if instead else [mine]
    return results


def listing_of(one: Owned, revision: Revision) -> Listing:
    """The listing after a revision."""
    host = ("api", "copy")[revision.leads_to]
    body = gateway(
        f"0x{revision.leads_to}", str(1 + revision.price), f"Gateway {one.number}", description=TEXTS[revision.text],
        url=f"https://{host}.example/",
    )  # fmt: skip
    subject = subject_of(body)
    state = replace(subject.state, id=one.id, owner=f"owner {one.number}")
    return replace(subject, state=state)


def indexed(one: Owned) -> Document:
    """The present document of a registration."""
    history = TextKeyHistory()
    for revision in one.revisions:
        subject = listing_of(one, revision)
        since = Since(revision.height, "demo", revision.height, one.age[0], one.number)
        history.add([subject], since)
    return document(subject, fingerprint=history.fingerprint(subject))


def seen(status: DuplicateStatus, id_: str) -> tuple[str, str]:
    """The id of the one that is shown, and of the one that a warning `same-text` names."""
    warned = {kind: other for kind, other, _ in status.earlier}
    return status.group or id_, warned.get(SIMILAR, "")


@settings(deadline=None, max_examples=60)
@given(registries(), st.randoms())
def test_each_text_is_shown_as_law_21_has_it(registry: list[Owned], order: object) -> None:
    documents = [indexed(one) for one in registry]
    order.shuffle(documents)  # type: ignore[attr-defined]
    with closing(DuplicateIndex()) as index:
        for one in documents:
            index.update([one.id], [one], None)
        statuses = {id_: status for (id_, _), status in index.statuses([one.id for one in registry]).items()}
    assert {id_: seen(status, id_) for id_, status in statuses.items()} == expected(registry)
    by_id = {one.id: one for one in registry}
    for id_, status in statuses.items():
        mine, other = by_id[id_], by_id[status.group or id_]
        assert other.age <= mine.age or other.now.leads_to == mine.now.leads_to
