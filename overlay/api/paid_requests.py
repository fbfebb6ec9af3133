"""Requests beyond a rate limit that are paid for (A2B §8): this overlay's own payment gate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from overlay.api.request_context import RequestContext
from overlay.payments.carriers import PAYMENT_HEADER
from overlay.payments.gate_answers import GateAnswer

_OWN = frozenset({"content-length", "transfer-encoding"})


async def paid_beyond_limit(
    context: RequestContext, request: web.Request, answer: Callable[[], Awaitable[web.StreamResponse]]
) -> web.Response | None:
    """The response to a request beyond its limit that carries a claim in the header `A2B-Payment`; None where it has
    none, or too many were tried. A payment of several times the price gives the client's bucket as many requests back,
    at most until it is full. A stream is no whole answer that could be withheld: 402 after its limit."""
    routed = context.routed(request)
    if context.gate is None or PAYMENT_HEADER not in request.headers or routed.limit is None or not routed.timed:
        return None
    if not context.take_attempt(request):
        return None

    async def work() -> GateAnswer:
        response = await answer()
        body = response.body if isinstance(response, web.Response) else None
        headers = tuple((name, value) for name, value in response.headers.items() if name.lower() not in _OWN)
        return GateAnswer(response.status, headers, bytes(body) if isinstance(body, bytes | memoryview) else b"")

    paid = await context.gate.answer(request.headers, b"", work, url=str(request.url))
    if paid.payment is not None and paid.payment.needed:
        # this request is the first that was paid for
        routed.limit.credit(context.clients.of(request), paid.payment.paid // paid.payment.needed - 1)
    return web.Response(status=paid.status, headers=list(paid.headers), body=paid.body)
