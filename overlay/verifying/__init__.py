"""Check a listing on the client's side: what a server says is proved by bytes, or said not to be proved.

The server can leave out a newer revision, and no bytes of its own can show that it does not: only a source of the
user's own tells whether the satoshi is still where the server says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from overlay.verifying import claim, members, steps
from overlay.verifying.claim import HEADER, NotCheckedError, NotProvedError
from overlay.verifying.domains import Hosts
from overlay.verifying.linking import HeaderLinks, Progress
from overlay.verifying.own import OwnSource
from overlay.verifying.steps import Context, Finding
from parsers.errors import ParseError

PROVED, NOT_PROVED, NOT_CHECKED = "proved", "not proved", "not checked"

STEPS: Mapping[str, Callable[[Context], Finding]] = {
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
}
"""What is looked at, in order: each step may use the findings of those before it."""

_OPTIONAL = frozenset(("newest", "domain"))
"""Steps that may go unchecked; what they find to be wrong counts like everywhere."""

_BASE = frozenset(("transaction", "registration", "block", "work", "chain"))
"""Steps without which no member of an item is proved."""


class Told(Protocol):
    """Who tells of listings: a running overlay, or the local store."""

    def listing(self, id_: str) -> Any:
        """The item."""
        ...

    def card(self, id_: str) -> bytes:
        """The card's bytes."""
        ...

    def proof(self, id_: str, first: int | None = None) -> Any:
        """The proof, with headers from height `first` on."""
        ...


class Step(NamedTuple):
    """One thing looked at: what, the outcome (`proved`, `not proved`, `not checked`), and a sentence."""

    step: str
    outcome: str
    detail: str


@dataclass(frozen=True, slots=True)
class Report:
    """All that was looked at. It is verified when every step is proved; `newest` and `domain` may be unchecked.

    `not_proved_members` are the members of the item that no step proves, a verified listing's too: what only the server
    says (`proof.NAME` for members of the proof that this program does not know)."""

    id: str
    chain: str
    steps: tuple[Step, ...]
    not_proved_members: tuple[str, ...] = ()

    @property
    def missing(self) -> list[str]:
        """What is needed and not proved."""
        return [
            each.step
            for each in self.steps
            if each.outcome == NOT_PROVED or (each.outcome == NOT_CHECKED and each.step not in _OPTIONAL)
        ]

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "id": self.id, "chain": self.chain, "verified": not self.missing, "notProved": self.missing,
            "notProvedMembers": list(self.not_proved_members), "steps": [each._asdict() for each in self.steps],
        }  # fmt: skip


def verify(
    told: Told,
    id_: str,
    *,
    own: OwnSource | None = None,
    hosts: Hosts | None = None,
    expected: str | None = None,
    progress: Progress = lambda _done, _of: None,
) -> Report:
    """Check everything that is said about a listing. `expected` is the CAIP-2 name of the chain it must be on; without
    it, one that is no main network proves nothing, unless it is the user's own source that vouches for the block.
    Domains are asked through `hosts`, None to ask nobody. Raises what `told` and `own` raise when they cannot be
    asked."""
    item, proof, card = _members(told.listing(id_)), _members(told.proof(id_)), told.card(id_)
    try:
        _check_id(id_, item)
        read = claim.read(item["id"], item, proof, card)
    except NotProvedError as error:
        named = members.not_proved(item, proof, (), set())
        return Report(id_, str(proof.get("chain")), (Step("answer", NOT_PROVED, str(error)),), tuple(named))

    def fetch(first: int) -> list[bytes]:
        headers = _members(told.proof(id_, first)).get("headers")
        if not isinstance(headers, list):
            raise NotProvedError("the answer holds no headers")
        return [claim.unhex(each, "headers", HEADER) for each in headers]

    blocks = [read.block, *(hop.block for hop in read.hops if hop.block is not None)]
    links = HeaderLinks(read.network, blocks, fetch, own, progress)
    context = Context(read, links, own, hosts, expected)
    done = tuple(_run(context))
    return Report(id_, read.network.caip2, done, tuple(_not_proved(context)))


def _members(answer: Any) -> Mapping[str, Any]:
    """The members of an answer, none of one that is no JSON object."""
    return answer if isinstance(answer, dict) else {}


def _check_id(asked: str, item: Mapping[str, Any]) -> None:
    from overlay.api.listing_api import split

    served = item.get("id")
    # lone surrogates, which no id can be made of, are not printable
    if not isinstance(served, str) or not served.isprintable() or split(asked) != split(served):
        raise NotProvedError(f"the answer is about {str(served)[:100]!a}")


def _run(context: Context) -> Iterable[Step]:
    for name, check in STEPS.items():
        try:
            finding = check(context)
        except NotCheckedError as error:
            yield Step(name, NOT_CHECKED, str(error))
        except (NotProvedError, ParseError) as error:
            yield Step(name, NOT_PROVED, str(error))
        else:
            context.findings[name] = finding
            yield Step(name, PROVED, finding.detail)


def _not_proved(context: Context) -> list[str]:
    item, pointer = context.claim.item, context.claim.origin is None
    expected = context.expected_members()
    proved = {name for name, value in expected.items() if not isinstance(value, members.Partly)}
    proved -= set(members.differing(expected, item))
    if not context.findings.keys() >= _BASE:
        proved = set()
    needed = steps.MEMBERS | expected.keys() | (members.UNPROVABLE_OF_POINTERS if pointer else frozenset())
    if "domain" in proved and item.get("domain") is not None:
        needed |= {"domain.checkedAt"}
    return members.not_proved(item, context.claim.proof, needed, proved)
