"""One visit to a URL that a listing names, which finds out whether it answers.

JSON-RPC is posted only where the host names the listing, or where a config says that the URL is an MCP server; other
URLs are only read. Nothing that a card states as header, variable or argument is ever sent, and no work is ever asked
for: of an A2A agent a task that cannot exist, of an MCP server its tools.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from time import monotonic
from types import MappingProxyType

from indexer.fetcher.connections import Admit
from indexer.fetcher.http_fetcher import HttpFetcher, PostAnswer, Visit, open_admit
from indexer.fetcher.limits import PRODUCT
from indexer.fetcher.mcp_session import SECONDS, McpSession, McpStatusError
from indexer.fetcher.reasons import FINAL, OFF_PORT, FetchError
from overlay.systems.liveness.store import HealthState, ProbeMethod, ProbeOutcome
from parsers.claims.canonical_json import DocumentError, read

MOST_READ = 65_536
"""Bytes of an answer that are read."""

MOST_WAYS = 64
"""Ways to pay of a 402 that are read."""

NO_SUCH_TASK = "a2b-registry-probe-no-such-task"

_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_NOT_VISITED = FINAL | OFF_PORT | {"fetch-address", "fetch-opt-out", "fetch-redirect-host", "fetch-fault"}
"""Codes after which nothing is known of an endpoint, as it was not visited."""

_NO_HEAD = frozenset((400, 404, 405, 406, 501))
"""Statuses after which a URL that does not take HEAD may answer GET."""


class _RedirectedError(Exception):
    """The answer leads to another location."""


async def probe(
    fetcher: HttpFetcher, url: str, method: ProbeMethod, purpose: str, admit: Admit = open_admit
) -> ProbeOutcome:
    """The outcome of a visit. `purpose` is named in the User-Agent. Raises FetchError."""
    try:
        async with asyncio.timeout(SECONDS), fetcher.visit(admit) as visit:
            for _ in range(fetcher.limits.redirects + 1):
                await visit.check_opt_out(url)
                try:
                    return await _WAYS[method](visit, url, purpose)
                except _RedirectedError as moved:
                    url = visit.redirected(url, str(moved))
        return ProbeOutcome(HealthState.FAILS, "fetch-redirects")
    except TimeoutError:
        return ProbeOutcome(HealthState.FAILS, "fetch-slow")


def failed(code: str) -> ProbeOutcome:
    """The outcome of a visit that ended with this code of fetching."""
    return ProbeOutcome(HealthState.NOT_CHECKED if code in _NOT_VISITED else HealthState.FAILS, code)


async def _read(visit: Visit, url: str, purpose: str, more: Mapping[str, str] = MappingProxyType({})) -> ProbeOutcome:
    """Whether a URL answers HEAD, or GET."""
    headers, began = {"User-Agent": f"{PRODUCT}/1 ({purpose})", **more}, monotonic()
    answer = await visit.look(url, headers)
    if answer.status in _NO_HEAD:
        answer = await visit.look(url, headers, "GET", MOST_READ)
    if (refused := _refused(answer)) is not None:
        return refused
    if answer.status == 404:
        return ProbeOutcome(HealthState.NOT_CHECKED, "no-get")
    return ProbeOutcome(HealthState.ANSWERS, latency_ms=_since(began))


async def _read_events(visit: Visit, url: str, purpose: str) -> ProbeOutcome:
    """Whether a URL answers with a stream of events."""
    began = monotonic()
    headers = {"User-Agent": f"{PRODUCT}/1 ({purpose})", "Accept": "text/event-stream"}
    answer = await visit.look(url, headers, "GET")
    if (refused := _refused(answer)) is not None:
        return refused
    if answer.status == 200 and answer.headers.get("content-type", "").lower().startswith("text/event-stream"):
        return ProbeOutcome(HealthState.ANSWERS, latency_ms=_since(began))
    return ProbeOutcome(HealthState.FAILS, _code_of(answer.status) or "mcp-error")


async def _mcp(visit: Visit, url: str, purpose: str) -> ProbeOutcome:
    """Whether an MCP server answers `initialize`, with the tools that it lists."""
    session, began = McpSession(visit, url, purpose), monotonic()
    try:
        await session.initialize()
    except McpStatusError as error:
        if error.answer.status in (400, 404, 405):  # a server of the transport before streamable HTTP
            return await _read_events(visit, url, purpose)
        return _refused(error.answer) or ProbeOutcome(HealthState.FAILS, _code_of(error.answer.status) or "mcp-error")
    except DocumentError:
        return ProbeOutcome(HealthState.FAILS, "mcp-error")
    latency, tools = _since(began), None
    with suppress(DocumentError, FetchError):
        tools = await session.tools()
    with suppress(FetchError):
        await session.end()
    return ProbeOutcome(HealthState.ANSWERS, latency_ms=latency, tools=tools)


async def _a2a(visit: Visit, url: str, purpose: str) -> ProbeOutcome:
    return await _task(visit, url, purpose, "tasks/get")


async def _a2a_1(visit: Visit, url: str, purpose: str) -> ProbeOutcome:
    return await _task(visit, url, purpose, "GetTask", {"A2A-Version": "1.0"})


async def _task(
    visit: Visit, url: str, purpose: str, method: str, more: Mapping[str, str] = MappingProxyType({})
) -> ProbeOutcome:
    """Whether an A2A agent answers a request for a task that cannot exist: an error of JSON-RPC is the sign of life."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": NO_SUCH_TASK}}
    headers, began = {"User-Agent": f"{PRODUCT}/1 ({purpose})", **more}, monotonic()
    answer = await visit.post(url, json.dumps(request).encode(), headers, MOST_READ)
    if (refused := _refused(answer)) is not None and answer.status < 500:
        return refused
    if await asyncio.to_thread(_is_json_rpc, answer.body):
        return ProbeOutcome(HealthState.ANSWERS, latency_ms=_since(began))
    return ProbeOutcome(HealthState.FAILS, _code_of(answer.status) or "a2a-error")


def _is_json_rpc(body: bytes) -> bool:
    try:
        message = read(body, max_bytes=MOST_READ)
    except DocumentError:
        return False
    return isinstance(message, dict) and message.get("jsonrpc") == "2.0" and ("error" in message or "result" in message)


def _refused(answer: PostAnswer) -> ProbeOutcome | None:
    """The outcome of a status that says the same of every request; None for others. Raises FetchError for a host that
    is busy."""
    if answer.status in _REDIRECTS:
        raise _RedirectedError(answer.headers.get("location", ""))
    if answer.status in (401, 403):
        return ProbeOutcome(HealthState.NEEDS_AUTH)
    if answer.status == 402:
        return ProbeOutcome(HealthState.NEEDS_PAYMENT, payees=tuple(_payees(answer)))
    if answer.status in (429, 503):
        raise FetchError("fetch-busy", str(answer.status), answer.retry_after)
    if answer.status == 410 or answer.status >= 500:
        return ProbeOutcome(HealthState.FAILS, _code_of(answer.status))
    return None


def _payees(answer: PostAnswer) -> list[str]:
    """The addresses that a 402 says may be paid: `accepts` of x402 in its body, or in `data` of a JSON-RPC error."""
    try:
        body = read(answer.body, max_bytes=MOST_READ)
    except DocumentError:
        return []
    error = body.get("error") if isinstance(body, dict) else None
    stated = error.get("data") if isinstance(error, dict) else body
    accepted = stated.get("accepts") if isinstance(stated, dict) else None
    ways = accepted[:MOST_WAYS] if isinstance(accepted, list) else []
    named = (way.get("payTo") for way in ways if isinstance(way, dict))
    return list(dict.fromkeys(payee for payee in named if isinstance(payee, str) and payee))


def _code_of(status: int) -> str:
    """The code of fetching for a status, "" for one of success."""
    if status in (404, 410):
        return "fetch-missing"
    return "fetch-server" if status >= 500 else "fetch-status" if status >= 300 else ""


def _since(began: float) -> int:
    return round((monotonic() - began) * 1_000)


_WAYS: Mapping[ProbeMethod, Callable[[Visit, str, str], Awaitable[ProbeOutcome]]] = {
    ProbeMethod.A2A: _a2a,
    ProbeMethod.A2A_1: _a2a_1,
    ProbeMethod.MCP: _mcp,
    ProbeMethod.SSE: _read_events,
    ProbeMethod.READ: _read,
}
