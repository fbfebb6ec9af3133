"""Judges the effect of a parsed output on a registration (laws 1, 4 and 7). Pure.

`judge_update`: what an output means for the registration of the satoshi that it holds. `judge_registration`: whether an
output without a registration is a first record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256

from indexer.model import EventKind
from parsers import cards
from parsers.cards import Kind
from parsers.cards.strict_json import MAX_BYTES
from parsers.inscriptions.envelope import Inscription, is_json
from parsers.inscriptions.output_record import OutputRecord, family, is_for_registry
from parsers.reasons import Reason

_A2B_TYPE = re.compile(rb"\x04type(?:[\x03-\x4b]|\x4c.)a2b", re.DOTALL)
"""A MAP type that begins with a2b, anywhere in a script: a broken script with it was intended for the registry."""

_ARTICLES = {Kind.AGENT: "an agent", Kind.TOOL: "a tool"}
_NUMBERS = ("no satoshis", "one satoshi", "two satoshis", "three satoshis", "four satoshis", "five satoshis")


@dataclass(frozen=True, slots=True)
class Judgement:
    """The meaning of an output. `card` is the SHA-256 of a body that is a card by its record, valid or not; `body` its
    bytes where they are stored; `fields` the MAP that counts; `kind` is set for a first record."""

    event: EventKind
    reasons: tuple[Reason, ...] = ()
    card: bytes | None = None
    body: bytes | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    kind: Kind | None = None


def judge_update(kind: Kind, record: OutputRecord) -> Judgement:
    """Judge, by law 4, the effect of a record on the registration of `kind` on the satoshi that its output holds."""
    changed = _kind_change(kind, record.fields)
    if record.inscription is None:
        if not record.fields:
            return Judgement(EventKind.MOVED)
        if changed:
            return Judgement(EventKind.FOREIGN_CONTENT, (changed,))
        return Judgement(EventKind.MAP_ONLY, fields=record.fields)
    if not is_json(record.inscription.content_type):
        return Judgement(EventKind.FOREIGN_CONTENT, (Reason("content-type", record.inscription.content_type[:100]),))
    if changed:
        return Judgement(EventKind.FOREIGN_CONTENT, (changed,))
    return _judge_card(record.inscription, kind, EventKind.REINSCRIBED, EventKind.INVALID, record.fields)


def may_update(record: OutputRecord) -> bool:
    """Whether a record would update a registration of any kind."""
    return any(judge_update(kind, record).event is EventKind.REINSCRIBED for kind in Kind)


def _kind_change(kind: Kind, fields: Mapping[str, str]) -> Reason | None:
    if "type" not in fields:
        return None
    stated = family(fields["type"])
    if stated is kind:
        return None
    if stated is None:
        return Reason("map-type", fields["type"])
    return Reason("kind-changed", f"{_ARTICLES[kind]} does not become {_ARTICLES[stated]}")


def _judge_card(
    inscription: Inscription, kind: Kind, good: EventKind, bad: EventKind, fields: Mapping[str, str]
) -> Judgement:
    body = inscription.body
    digest = sha256(body).digest()
    stored_body = body if len(body) <= MAX_BYTES else None
    encoded = (Reason("content-encoding", inscription.encoding),) if inscription.encoding else ()
    if broken := encoded or cards.faults(body, kind):
        return Judgement(bad, broken, digest, stored_body)
    return Judgement(good, (), digest, stored_body, fields, kind)


def judge_registration(record: OutputRecord, *, elsewhere: bool, one_sat_rule: bool) -> Judgement | None:
    """Judge, by laws 1 and 7, the record of an output without a registration; None when it does not concern A2B.

    `elsewhere`: another output of the transaction has an A2B MAP. `one_sat_rule`: the output must hold exactly one
    satoshi (law 1).
    """
    if record.inscription is None:
        return _judge_without_envelope(record)
    named, inscription = is_for_registry(record.fields), record.inscription
    verdict: Judgement | None
    if not is_json(inscription.content_type):
        verdict = _rejected(Reason("content-type", inscription.content_type[:100])) if named else None
    elif record.kind is None:
        verdict = _judge_without_type(record, inscription, named=named, elsewhere=elsewhere)
    else:
        verdict = _judge_card(inscription, record.kind, EventKind.INSCRIBED, EventKind.REJECTED, record.fields)
    if verdict is not None and one_sat_rule and record.satoshis != 1:
        reasons = (Reason("satoshis", count_of_satoshis(record.satoshis)), *verdict.reasons)
        return replace(verdict, event=EventKind.REJECTED, reasons=reasons)
    return verdict


def _judge_without_envelope(record: OutputRecord) -> Judgement | None:
    """An output without a valid envelope: a broken envelope, or a MAP that needs one."""
    named = is_for_registry(record.fields)
    # a body that runs past the script may have swallowed its MAP
    broken = record.near_json and "body-truncated" in record.near
    if record.near and (named or broken or _A2B_TYPE.search(record.script)):
        return _rejected(*(Reason(code) for code in record.near))
    return _rejected(Reason("no-envelope")) if named else None


def _judge_without_type(
    record: OutputRecord, inscription: Inscription, *, named: bool, elsewhere: bool
) -> Judgement | None:
    """A JSON body without the MAP of a registration: the closest reason, if it concerns A2B at all."""
    if named:
        return _rejected(Reason("map-type", record.fields["type"]), inscription=inscription)
    type_ = record.fields.get("type")
    if not record.fields and (elsewhere or _is_card(inscription.body)):
        return _rejected(_map_reason(record, elsewhere=elsewhere), inscription=inscription)
    if type_ not in (None, "agent") or not _is_card(inscription.body):
        return None
    reason = Reason("map-app", record.fields.get("app", "")) if type_ else Reason("no-map")
    return _rejected(reason, inscription=inscription)


def _map_reason(record: OutputRecord, *, elsewhere: bool) -> Reason:
    if record.map and record.map.commands:
        return Reason("map-command", " ".join(record.map.commands)[:100])
    return Reason("map-elsewhere") if elsewhere else Reason("no-map")


def _is_card(body: bytes) -> bool:
    return not cards.faults(body)


def _rejected(*reasons: Reason, inscription: Inscription | None = None) -> Judgement:
    body = inscription.body if inscription else None
    return Judgement(EventKind.REJECTED, reasons, sha256(body).digest() if body is not None else None)


def count_of_satoshis(satoshis: int) -> str:
    return _NUMBERS[satoshis] if 0 <= satoshis < len(_NUMBERS) else f"{satoshis:,} satoshis"
