"""Verify a listing on the client's side: each member of the answer is proved by bytes, or reported as not proved.

A server can omit a newer revision, and no bytes that it serves can disprove this. Only the user's own source can
report whether the satoshi is still at the location in the answer, and only other overlays what this one left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from overlay.text.network_words import network_note
from overlay.verify import item_members, server_answer, steps
from overlay.verify.completeness import Completeness
from overlay.verify.domains import Hosts
from overlay.verify.header_chain import HeaderLinks, Progress
from overlay.verify.item_members import Finding
from overlay.verify.rating_checks import RatingCheck, ReceiptSource
from overlay.verify.server_answer import NotCheckedError, NotProvedError
from overlay.verify.steps import VerificationContext
from overlay.verify.trusted_source import TrustedSource
from parsers.errors import ParseError

PROVED, NOT_PROVED, NOT_CHECKED = "proved", "not proved", "not checked"

STEPS: Mapping[str, Callable[[VerificationContext], Finding | None]] = {
    "transaction": steps.transaction,
    "card": steps.card,
    "registration": steps.registration,
    "block": steps.block,
    "work": steps.work,
    "chain": steps.chain,
    "lineage": steps.lineage,
    "listing": steps.listing,
    "newest": steps.newest,
    "domain": steps.domain,
    "rating": steps.rating,
    "complete": steps.complete,
}
"""The steps in order; a step may use the findings of earlier ones. None is the result of a step that this verification
does not have."""

_OPTIONAL = frozenset(("newest", "domain", "rating"))
"""Steps that may be left unchecked; if they fail, the listing is not verified, as with every step."""

_BASE = frozenset(("transaction", "registration", "block", "work", "chain"))
"""Steps without which no member of an item is proved."""


class ListingSource(Protocol):
    """A source of listings and proofs: a running overlay or the local store."""

    def listing(self, id_: str) -> Any:
        """The item."""
        ...

    def card(self, id_: str) -> bytes:
        """The card's bytes."""
        ...

    def proof(self, id_: str, first: int | None = None) -> Any:
        """The proof, with headers from height `first` on."""
        ...


class StepResult(NamedTuple):
    """The result of one step: its name, the outcome (`proved`, `not proved`, `not checked`), and a sentence."""

    step: str
    outcome: str
    detail: str


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """The results of all steps. A listing is verified when every step is proved; `newest` and `domain` may be
    unchecked.

    `not_proved_members` are the members of the item that no step proves, also of a verified listing: only the server
    vouches for them (`proof.NAME` for members of the proof that this program does not support)."""

    id: str
    chain: str
    steps: tuple[StepResult, ...]
    not_proved_members: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """The sentence that its chain is a test network; "" for a main one."""
        return network_note(self.chain)

    @property
    def missing(self) -> list[str]:
        """The required steps that are not proved."""
        return [
            result.step
            for result in self.steps
            if result.outcome == NOT_PROVED or (result.outcome == NOT_CHECKED and result.step not in _OPTIONAL)
        ]

    def as_json(self) -> dict[str, Any]:
        """The report as JSON; a test network comes first."""
        return {
            **({"testNetwork": self.note} if self.note else {}), "id": self.id, "chain": self.chain,
            "proved": not self.missing, "verified": not self.missing, "notProved": self.missing,
            "notProvedMembers": list(self.not_proved_members), "steps": [result._asdict() for result in self.steps],
        }  # fmt: skip


def verify(
    source: ListingSource,
    id_: str,
    *,
    trusted: TrustedSource | None = None,
    hosts: Hosts | None = None,
    expected: str | None = None,
    progress: Progress = lambda _done, _of: None,
    completeness: Completeness | None = None,
    receipts: ReceiptSource | None = None,
) -> VerificationReport:
    """Verify a listing and its proof. `expected` is the CAIP-2 id of the required chain; without it, a listing on a
    test network is not proved unless `trusted`, the user's own source, has the block. Domains are checked through
    `hosts`, None to skip this, anchors compared by `completeness`, and a rating is computed again from the receipts of
    `receipts`. Raises what `source`, `receipts` and `trusted` raise when they do not answer."""
    item, proof, card = _members(source.listing(id_)), _members(source.proof(id_)), source.card(id_)
    try:
        _check_id(id_, item)
        read = server_answer.read(item["id"], item, proof, card)
    except NotProvedError as error:
        named = item_members.not_proved(item, proof, item_members.UNPROVABLE, set())
        return VerificationReport(
            id_, str(proof.get("chain"))[:100], (StepResult("answer", NOT_PROVED, str(error)),), tuple(named)
        )

    def fetch(first: int) -> list[bytes]:
        return server_answer.headers(source.proof(id_, first))

    blocks = [read.block, *(hop.block for hop in read.hops if hop.block is not None)]
    if completeness is not None:
        completeness.compare(read.network, fetch)
        blocks += completeness.blocks
    rating = None
    if receipts is not None and item.get("rating") is not None:
        rating = RatingCheck(read, receipts, fetch)
        rating.read()
        blocks += rating.blocks
    links = HeaderLinks(read.network, blocks, fetch, trusted, progress)
    context = VerificationContext(read, links, trusted, hosts, expected, completeness, rating)
    done = tuple(_run(context))
    return VerificationReport(id_, read.network.caip2, done, tuple(_not_proved(context)))


def _members(answer: Any) -> Mapping[str, Any]:
    """The members of an answer; empty if it is not a JSON object."""
    return answer if isinstance(answer, dict) else {}


def _check_id(id_: str, item: Mapping[str, Any]) -> None:
    from overlay.listings.ids import parse_id

    served = item.get("id")
    # lone surrogates, which occur in no id, are not printable
    if not isinstance(served, str) or not served.isprintable() or parse_id(id_) != parse_id(served):
        raise NotProvedError(f"the answer is about {str(served)[:100]!a}")


def _run(context: VerificationContext) -> Iterable[StepResult]:
    for name, check in STEPS.items():
        try:
            finding = check(context)
        except NotCheckedError as error:
            yield StepResult(name, NOT_CHECKED, str(error))
        except (NotProvedError, ParseError) as error:
            yield StepResult(name, NOT_PROVED, str(error))
        else:
            if finding is not None:
                context.findings[name] = finding
                yield StepResult(name, PROVED, finding.detail)


def _not_proved(context: VerificationContext) -> list[str]:
    item = context.answer.item
    expected = context.expected_members()
    proved = {name for name, value in expected.items() if not isinstance(value, item_members.Partly)}
    proved -= set(item_members.differing(expected, item))
    if not context.findings.keys() >= _BASE:
        proved = set()
    needed = item_members.PROVED | expected.keys() | item_members.unprovable(context.answer)
    if "domain" in proved and item.get("domain") is not None:
        needed |= {"domain.checkedAt", *(("domain.lastFailure",) if "lastFailure" in item["domain"] else ())}
    return item_members.not_proved(item, context.answer.proof, needed, proved)
