"""Requests beyond a rate limit that are paid for (A2B §8): this overlay's own payment gate."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from aiohttp import hdrs, web

from overlay.answers.schema_parts import ref
from overlay.api.answers import body
from overlay.api.base_url import request_url
from overlay.api.request_context import RequestContext, Requirements
from overlay.api.routes import JSON, STREAM, Route
from overlay.systems.payments.aiohttp_gate import response_of, withheld_answer
from overlay.systems.payments.carriers import MEMBER, PAYMENT_HEADER, SUBSCRIPTION_HEADER, PaidCall, read_call
from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.gate_answers import GateAnswer, requirements
from overlay.systems.payments.own_payments import GATE
from parsers.claims.amount_due import PaymentRefusedError

MAX_CALL_BYTES = 1 << 20
"""Bytes of a call in which a claim is looked for."""

_JSON_RPC = ("/a2a", "/mcp")


async def paid_beyond_limit(
    context: RequestContext, request: web.Request, answer: Callable[[], Awaitable[web.StreamResponse]]
) -> web.Response | Requirements | None:
    """The response to a request beyond its limit that carries a claim or names a paid interval, in a header or in a
    call of A2A or MCP; the ways to pay for it where it has neither, or too many were tried; None where there are none.
    A payment of several times the price gives the client's bucket as many requests back, at most until it is full. A
    stream is not a whole answer that could be withheld: 402 after its limit. Raises ProblemError, StoreError."""
    routed, gate = context.routed(request), request.app.get(GATE)
    limit = context.limit_of(request, routed.limit)
    if gate is None or limit is None or not routed.timed:
        return None

    async def work() -> GateAnswer:
        return withheld_answer(await answer()) or GateAnswer(500, (), b"a stream is not paid for by the request")

    try:
        call = await _call(request)
    except PaymentRefusedError as error:
        is_attempt = context.take_attempt(request)
        refused = PaidCall(url=request_url(request))
        return response_of(await gate.refuse(refused, error)) if is_attempt else await _required(gate, request)
    if call is None:
        return await _required(gate, request)
    interval = await to_thread(gate.paid_interval, call) if call.claim is None else None
    if interval is None and not context.take_attempt(request):
        return await _required(gate, request)
    paid = await gate.handle(call, work)
    if paid.payment is not None and paid.payment.needed:
        # this request is the first that was paid for
        requests = max(0, paid.payment.paid // paid.payment.needed - 1)
        limit.credit(context.clients.of(request), requests)
    return response_of(paid)


async def _required(gate: PaymentGate, request: web.Request) -> Requirements | None:
    """The ways to pay for a request; None where it cannot be paid now."""
    url = request_url(request)
    accepted = [requirement | {"resource": url} for requirement in await gate.accepted()]
    if not accepted:
        return None
    required, headers = requirements(url, accepted, "PaymentMissing")
    return Requirements({name: value for name, value in required.items() if name != "error"}, headers)


async def _call(request: web.Request) -> PaidCall | None:
    """The call with a claim or paid interval in a request. Raises PaymentRefusedError, ProblemError."""
    document = b""
    if request.path.removesuffix("/") in _JSON_RPC and request.method == hdrs.METH_POST:
        document = await body(request, MAX_CALL_BYTES)
    in_header = PAYMENT_HEADER in request.headers or SUBSCRIPTION_HEADER in request.headers
    if not in_header and MEMBER.encode() not in document:
        return None
    call = read_call(request.headers, document, request_url(request))
    return call if call.claim is not None or call.subscription else None


_DOCUMENTED: dict[str, Any] = {"content": {JSON: {"schema": ref("PaymentRequired")}}}


def describe(route: Route, operation: dict[str, Any]) -> None:
    """Describe the gate's answers to requests beyond a limit, in its own shape."""
    if route.limit is None or STREAM in route.media:
        return
    answers = operation["responses"]
    required = {
        "PAYMENT-REQUIRED": {
            "description": "The requirements of x402, as base64 of JSON.",
            "schema": {"type": "string"},
        }
    }
    answers["429"]["headers"] |= required
    answers[str(HTTPStatus.PAYMENT_REQUIRED.value)] = {
        "description": "Beyond the limit, and the claim in A2B-Payment does not pay.",
        **_DOCUMENTED,
        "headers": required,
    }
    answers["503"]["content"] = _DOCUMENTED["content"] | answers["503"]["content"]
