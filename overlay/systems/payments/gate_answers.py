"""Answers of a gate: 402 with the JSON-RPC codes of A2B §5.3, and `accepts` as x402 clients read it.

The scheme of `accepts` is `a2b`: a raw transaction that pays to a static address, in an A2B claim. x402's `exact` and
BRC-105 pay to keys that are derived for each payment, for which the server would need a key that can spend: not served.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, cast

from indexer.errors import SourceError
from indexer.fetcher.event_data import event_data
from indexer.headers.networks import NETWORKS
from overlay.systems.payments.carriers import PaidCall, task_id
from overlay.systems.payments.checking import PaymentSources
from overlay.systems.payments.store_records import StoredPayment, TaskState
from overlay.text.compact_json import encode
from parsers.cards.money import plain
from parsers.cards.offers import Offer
from parsers.cards.payees import reaches
from parsers.claims.amount_due import PaymentRefusedError, due, satoshis
from parsers.claims.payment import STAGES_IN, UtxoChain

X402_VERSION, SCHEME = 2, "a2b"
TIMEOUT_SECONDS = 600
"""How long a payment may take; rates are usable for longer."""

REQUIRED_HEADER = "PAYMENT-REQUIRED"
"""x402 v2: the requirements as base64 of JSON."""

MAX_HEADER_BYTES = 6_000

MAX_ANSWER_BYTES = 8 << 20
"""Bytes of an answer that can be withheld."""

RETRY_SECONDS = 30

MAX_NAMES = 8
"""Ids of A2A tasks in an answer by which its final payment may name its task."""


class GateAnswer(NamedTuple):
    """An HTTP answer. `streamed`: its head and the beginning of its body are sent already. `payment` is the full
    payment of this answer, None for a repeated answer."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    streamed: bool = False
    payment: StoredPayment | None = None


class StreamDelivery:
    """Whether parts of a streamed answer may go out before it ends: once one has, the delivered part is paid for,
    however the stream ends. `failure` is why none may; `config` the id of the price that was paid; `sent` the SHA-256
    of all parts that went out."""

    def __init__(self) -> None:
        self._settle: Callable[[], Awaitable[None]] | None = None
        self.config, self.sent = "", sha256()
        self.has_begun, self.failure = False, cast("Exception | None", None)

    def settle_before(self, settle: Callable[[], Awaitable[None]]) -> None:
        """Settle this before the first part."""
        self._settle = settle

    async def may_begin(self) -> bool:
        """Whether a part may go out; False for a stream that is withheld as a whole, as the node does not answer.
        Raises any other error that keeps the payment from being settled."""
        if self._settle is not None and not self.has_begun and self.failure is None:
            try:
                await self._settle()
            except Exception as error:
                self.failure = error
                if not isinstance(error, SourceError):
                    raise
        self.has_begun = self.failure is None
        return self.has_begun


def payment_required(
    call: PaidCall,
    error: PaymentRefusedError,
    offers: Sequence[Offer],
    sources: PaymentSources,
    state: TaskState,
    **members: Any,
) -> GateAnswer:
    """The 402 for a call without a valid payment; `members` are added to it."""
    required, headers = requirements(call.url, list(accepts(offers, sources, state, call.url)), error.name)
    data = required | {
        "code": error.code,
        "reason": error.reason,
        "detail": str(error),
        "state": state.value,
        **members,
    }
    return _answer(call, 402, error.code, error.name, data, tuple(headers.items()))


def requirements(url: str, accepted: Sequence[Any], error: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The ways to pay for a resource as x402 clients read them: members of JSON, and the header with the same, where it
    fits into one."""
    required: dict[str, Any] = {"x402Version": X402_VERSION, "error": error, "accepts": accepted}
    required |= {"resource": {"url": url}} if url else {}
    encoded = base64.b64encode(json.dumps(required).encode()).decode()
    return required, {REQUIRED_HEADER: encoded} if len(encoded) <= MAX_HEADER_BYTES else {}


def unavailable(call: PaidCall, detail: str, **members: Any) -> GateAnswer:
    """The 503 for a call with a payment that cannot be decided now."""
    headers = (("Retry-After", str(RETRY_SECONDS)),)
    return _answer(call, 503, -32603, "PaymentUndecided", {"detail": detail, **members}, headers)


def limited(call: PaidCall, seconds: int) -> GateAnswer:
    """The 429 for a payment beyond the limits of a gate: nothing is reserved, and nothing sent."""
    detail = f"more is paid for than is sold at once: repeat the call with the same claim in {seconds:,} seconds"
    return _answer(call, 429, -32603, "PaymentLimited", {"detail": detail}, (("Retry-After", str(seconds)),))


def too_large(call: PaidCall) -> GateAnswer:
    """The 500 in place of an answer that cannot be withheld: it is not paid for."""
    detail = f"the answer is larger than {MAX_ANSWER_BYTES:,} bytes and cannot be withheld: it was not charged"
    return _answer(call, 500, -32603, "AnswerTooLarge", {"detail": detail}, ())


def _answer(
    call: PaidCall, status: int, code: int, name: str, data: dict[str, Any], headers: tuple[tuple[str, str], ...]
) -> GateAnswer:
    body: dict[str, Any] = {"code": code, "error": name} | data
    if call.rpc:
        body = {"jsonrpc": "2.0", "id": call.rpc[0], "error": {"code": code, "message": name, "data": data}}
    return GateAnswer(
        status, (("Content-Type", "application/json"), ("Cache-Control", "no-store"), *headers), encode(body)
    )


def accepts(offers: Sequence[Offer], sources: PaymentSources, state: TaskState, url: str) -> Iterator[dict[str, Any]]:
    """The ways to pay for a call: each offer in each of its currencies with a chain, a rate and an address of that
    chain, at the stages of the task's state."""
    for offer in offers:
        stages = [stage for stage in STAGES_IN.get(state, ()) if stage == "full" or offer.deposit_pct is not None]
        for currency in offer.accepted:
            chain = sources.chains.get(currency)
            is_payable = chain is not None and reaches(offer.address, currency, chain.network)
            for stage in stages if is_payable else ():
                try:
                    amount = due(offer, stage, currency, sources.rate(offer.currency, currency))
                except PaymentRefusedError:
                    continue
                yield {
                    "scheme": SCHEME,
                    "network": _caip2(chain),
                    "amount": str(satoshis(amount.amount)),
                    "asset": currency,
                    "payTo": offer.address,
                    "maxTimeoutSeconds": TIMEOUT_SECONDS,
                    "resource": url,
                    "description": offer.description or offer.name,
                    "extra": {
                        "configId": offer.id,
                        "stage": stage,
                        "leastSatoshis": satoshis(amount.least),
                        "interval": offer.interval,
                        "depositPct": None if offer.deposit_pct is None else plain(offer.deposit_pct),
                    },
                }


def _caip2(chain: UtxoChain | None) -> str:
    return next((network.caip2 for network in NETWORKS if (network.coin, network.kind) == chain), "")


_FAILED_STATES = frozenset(("failed", "rejected", "canceled"))


def is_failed(answer: GateAnswer, call: PaidCall) -> bool:
    """Whether an answer to a call reports failed work; the last part of a streamed answer decides."""
    return answer.status >= 400 or bool(call.rpc and any(map(_is_error, _messages(answer.body))))


_FORMS = ("task", "statusUpdate", "artifactUpdate", "message")
"""Members of a result of A2A 1.0 that hold what earlier versions answer itself."""


def a2a_tasks(answer: GateAnswer) -> list[str]:
    """The ids of A2A tasks in an answer; of a streamed answer, in its last part."""
    results = (message.get("result") for message in _messages(answer.body) if isinstance(message, dict))
    held = [form for result in results if isinstance(result, dict) for form in (result, *map(result.get, _FORMS))]
    forms = [form for form in held if isinstance(form, dict)]
    ids = [task_id(form.get("taskId") or ("status" in form and form.get("id"))) for form in forms]
    return list(dict.fromkeys(filter(None, ids)))[:MAX_NAMES]


def _messages(body: bytes) -> Iterator[Any]:
    """The JSON in a body, or in the events of its stream."""
    if body.lstrip()[:1] == b"{":
        yield from _json(body)
        return
    for data in event_data(body):
        yield from _json(data)


def _json(text: bytes) -> Iterator[Any]:
    try:
        yield json.loads(text)
    except (ValueError, RecursionError):
        return


def _is_error(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    result = message.get("result")
    if message.get("error") is not None or not isinstance(result, dict):
        return message.get("error") is not None
    if result.get("isError") is True:
        return True
    forms = (result, result.get("task"), result.get("statusUpdate"))
    statuses = (form.get("status") for form in forms if isinstance(form, dict))
    states = (status.get("state") for status in statuses if isinstance(status, dict))
    return any(str(state).lower().removeprefix("task_state_") in _FAILED_STATES for state in states)
