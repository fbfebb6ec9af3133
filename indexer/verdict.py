"""What an output says about a registration: the judgements of laws 1, 4 and 7. Pure.

Two questions: what does an output say to the registration whose satoshi it now holds (`of_arrival`), and is an output
without one a first record (`of_newcomer`)?
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from indexer.facts import EventKind
from parsers import cards
from parsers.cards import Kind
from parsers.envelope import Inscription, is_json
from parsers.output import OutputRecord, family, is_claim
from parsers.reasons import Reason
from parsers.strict_json import MAX_BYTES

_A2B_TYPE = re.compile(rb"\x04type(?:[\x03-\x4b]|\x4c.)a2b", re.DOTALL)
"""A MAP type that begins with a2b, wherever its bytes stand: enough to call a broken script meant for us."""

_ARTICLES = {Kind.AGENT: "an agent", Kind.TOOL: "a tool"}
_NUMBERS = ("no satoshis", "one satoshi", "two satoshis", "three satoshis", "four satoshis", "five satoshis")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an output's words amount to. `card` is set when a body is meant as a card, good or bad; `body` when it is
    worth keeping; `kind` for a first record."""

    event: EventKind
    reasons: tuple[Reason, ...] = ()
    card: bytes | None = None
    body: bytes | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    kind: Kind | None = None


def of_arrival(kind: Kind, said: OutputRecord) -> Verdict:
    """Law 4: what an output says to the registration of `kind` whose satoshi it now holds."""
    changed = _kind_change(kind, said.fields)
    if said.inscription is None:
        if not said.fields:
            return Verdict(EventKind.MOVED)
        if changed:
            return Verdict(EventKind.FOREIGN_CONTENT, (changed,))
        return Verdict(EventKind.MAP_ONLY, fields=said.fields)
    if not is_json(said.inscription.content_type):
        return Verdict(EventKind.FOREIGN_CONTENT, (Reason("content-type", said.inscription.content_type[:100]),))
    if changed:
        return Verdict(EventKind.FOREIGN_CONTENT, (changed,))
    return _of_card(said.inscription.body, kind, EventKind.REINSCRIBED, EventKind.INVALID, said.fields)


def may_update(said: OutputRecord) -> bool:
    """Whether an output says what would be an update of a registration of some kind."""
    return any(of_arrival(kind, said).event is EventKind.REINSCRIBED for kind in Kind)


def _kind_change(kind: Kind, fields: Mapping[str, str]) -> Reason | None:
    if "type" not in fields:
        return None
    said = family(fields["type"])
    if said is kind:
        return None
    if said is None:
        return Reason("map-type", fields["type"])
    return Reason("kind-changed", f"{_ARTICLES[kind]} does not become {_ARTICLES[said]}")


def _of_card(body: bytes, kind: Kind, good: EventKind, bad: EventKind, fields: Mapping[str, str]) -> Verdict:
    digest = sha256(body).digest()
    kept = body if len(body) <= MAX_BYTES else None
    if broken := cards.faults(body, kind):
        return Verdict(bad, broken, digest, kept)
    return Verdict(good, (), digest, kept, fields, kind)


def of_newcomer(said: OutputRecord, *, elsewhere: bool, alone: bool) -> Verdict | None:
    """Laws 1 and 7: what an output without a registration says; None when it is not meant for us.

    `elsewhere`: another output of the transaction has an A2B MAP. `alone`: the one-satoshi rule holds (law 1).
    """
    if said.inscription is None:
        return _of_bare(said)
    verdict = _of_inscription(said, said.inscription, elsewhere=elsewhere)
    if verdict is not None and alone and said.satoshis != 1:
        reasons = (Reason("satoshis", _count(said.satoshis)), *verdict.reasons)
        return replace(verdict, event=EventKind.REJECTED, reasons=reasons)
    return verdict


def _of_inscription(said: OutputRecord, inscription: Inscription, *, elsewhere: bool) -> Verdict | None:
    kind = said.kind
    named = is_claim(said.fields)
    if not is_json(inscription.content_type):
        return _rejected(Reason("content-type", inscription.content_type[:100])) if named else None
    if kind is None:
        return _of_unnamed(said, inscription, named=named, elsewhere=elsewhere)
    return _of_card(inscription.body, kind, EventKind.INSCRIBED, EventKind.REJECTED, said.fields)


def _of_bare(said: OutputRecord) -> Verdict | None:
    """An output without a valid envelope: a broken one, or a MAP that wants one."""
    named = is_claim(said.fields)
    # a body that runs past the script may have swallowed its MAP
    broken = said.near_json and "body-truncated" in said.near
    if said.near and (named or broken or _A2B_TYPE.search(said.script)):
        return _rejected(*(Reason(code) for code in said.near))
    return _rejected(Reason("no-envelope")) if named else None


def _of_unnamed(said: OutputRecord, inscription: Inscription, *, named: bool, elsewhere: bool) -> Verdict | None:
    """A JSON body whose MAP does not make it a registration: the nearest reason, if it is meant for us at all."""
    if named:
        return _rejected(Reason("map-type", said.fields["type"]), inscription=inscription)
    type_ = said.fields.get("type")
    if not said.fields and (elsewhere or _is_card(inscription.body)):
        return _rejected(_without_map(said, elsewhere=elsewhere), inscription=inscription)
    if type_ not in (None, "agent") or not _is_card(inscription.body):
        return None
    reason = Reason("map-app", said.fields.get("app", "")) if type_ else Reason("no-map")
    return _rejected(reason, inscription=inscription)


def _without_map(said: OutputRecord, *, elsewhere: bool) -> Reason:
    if said.map and said.map.commands:
        return Reason("map-command", " ".join(said.map.commands)[:100])
    return Reason("map-elsewhere") if elsewhere else Reason("no-map")


def _is_card(body: bytes) -> bool:
    return not cards.faults(body)


def _rejected(*reasons: Reason, inscription: Inscription | None = None) -> Verdict:
    body = inscription.body if inscription else None
    return Verdict(EventKind.REJECTED, reasons, sha256(body).digest() if body is not None else None)


def _count(satoshis: int) -> str:
    return _NUMBERS[satoshis] if 0 <= satoshis < len(_NUMBERS) else f"{satoshis:,} satoshis"
