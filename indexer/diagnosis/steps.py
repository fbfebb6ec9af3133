"""The steps of a diagnosis: their sentences, and the step at which each reason code ends a record."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from indexer.model import Event, EventKind
from indexer.store.requests import RequestState, TransactionRequest
from parsers.cards.secrets import secret_in
from parsers.reasons import Reason

Step = dict[str, Any]
"""A step as the API gives it: its name, whether it succeeded, a sentence, and the reason code where it did not."""

_STEP_OF = {
    **dict.fromkeys(
        ("no-envelope", "envelope-in-push", "body-truncated", "envelope-open", "envelope-no-body", "envelope-opcode",
         "script-truncated", "satoshis"),
        "envelope",
    ),
    **dict.fromkeys(("no-map", "map-type", "map-app", "map-command", "map-elsewhere", "kind-changed"), "map"),
    **dict.fromkeys(
        ("content-type", "content-encoding", "card-size", "card-bom", "card-utf8", "card-nesting", "card-json",
         "card-number", "card-constant", "card-surrogate"),
        "json",
    ),
    **dict.fromkeys(
        ("card-object", "card-name", "card-skills", "card-url", "config-servers", "config-no-server",
         "config-server-count", "config-server-key"),
        "card",
    ),
    **dict.fromkeys(
        ("burned-merged", "burned-fee", "burned-displaced", "burned-unspendable", "values-unknown", "origin-unknown",
         "origin-untraced", "outpoint-taken", "unbound", "spent-elsewhere"),
        "satoshi",
    ),
    **dict.fromkeys(
        ("pointer-domain", "pointer-hash", "pointer-uri", "pointer-path", "pointer-extra", "pointer-mismatch",
         "pointer-encoding", "pointer-split", "pointer-withdrawn", "account-closed", "account-points", "entry-no-uri",
         "entry-burned", "data-uri"),
        "pointer",
    ),
}  # fmt: skip

_ACCOUNT_STEPS = ("json", "card")
_CARD_STEPS = ("envelope", "map", "json", "card", "satoshi")
_GOOD = {
    "envelope": "a valid ord envelope, on a satoshi that can be followed",
    "map": "MAP says what it registers",
    "json": "the body is JSON",
    "card": "the card meets every hard rule",
    "satoshi": "the satoshi is followed",
    "pointer": "a well-formed pointer",
}


def step(name: str, detail: str, *, ok: bool = True, code: str | None = None) -> Step:
    """One step."""
    return {"step": name, "ok": ok, "detail": detail} | ({"code": code} if code else {})


def steps_of(event: Event, conflict: Reason | None = None, *, mined: bool = True) -> list[Step]:
    """The steps that an event passed, up to and with the one at which it failed; on chains that are not `mined` there
    is neither envelope nor satoshi."""
    failed = conflict or (event.reasons[0] if event.reasons else None)
    broken = _STEP_OF.get(failed.code, "card") if failed else None
    order: tuple[str, ...]
    if not mined:
        order = ("pointer",) if event.pointer or broken == "pointer" else _ACCOUNT_STEPS if event.card else ()
    else:
        has_card = event.card or (failed and event.kind is not EventKind.BURNED)
        order = ("pointer",) if event.pointer else _CARD_STEPS if has_card else ("satoshi",)
    steps: list[Step] = []
    for name in order:
        if name == broken and failed:
            return [*steps, step(name, failed.explanation, ok=event.kind is EventKind.BURNED, code=failed.code)]
        steps.append(step(name, _GOOD[name]))
    if event.pointer is not None and secret_in(event.pointer.locator or ""):
        steps.append(step("secret", Reason("secret", "the URI of the pointer").sentence, ok=False, code="secret"))
    return steps


def requested(request: TransactionRequest) -> Step:
    """The step on the progress of a publisher's request for the transaction."""
    times = f"{request.tries} time{'' if request.tries == 1 else 's'}"
    detail = f"at {moment(request.requested_at)}, looked for {times}"
    if request.state is RequestState.GIVEN_UP:
        detail = f"{detail} and given up: {request.detail}; ask again once it is broadcast"
        return step("requested", detail, ok=False, code="given-up")
    detail += f": {request.detail}" if request.detail else ""
    return step("requested", detail if request.ended else f"{detail}; next at {moment(request.next_at)}")


def moment(seconds: int) -> str:
    """A time in seconds since 1970 as text (RFC 3339, UTC)."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
