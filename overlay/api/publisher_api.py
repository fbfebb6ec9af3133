"""A publisher's questions: why is my transaction not listed, and is my card good before I pay for it?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from aiohttp import web

from overlay import check as checks
from overlay.api import bodies
from overlay.api.answers import EDGE, SERVICES, body, json_answer, json_bytes
from overlay.api.executor import LOOKUPS, PUBLISHING, PUBLISHING_SECONDS
from overlay.api.params import CHECK, taken
from overlay.api.problems import BadRequestError, Fault
from overlay.compact import encode
from overlay.ports import Services
from parsers.errors import ParseError
from parsers.tx import Outpoint

_T = TypeVar("_T")

MAX_CHECK_BYTES = 2 << 20
MAX_RAW_BYTES = 4 << 20  # a transaction with a card of 1 MiB is a little over 2 MiB of hex


async def diagnose(request: web.Request) -> web.Response:
    """The step trace of a transaction or of one of its outputs."""
    what = _what(request.match_info["what"].strip())
    return json_answer(await look_up(request, request.app[SERVICES].diagnose, what))


async def diagnose_raw(request: web.Request) -> web.Response:
    """The step trace of a transaction handed in."""
    return json_answer(await run(request, _diagnosed, request.app[SERVICES], await body(request, MAX_RAW_BYTES)))


async def check(request: web.Request) -> web.Response:
    """Errors, warnings and a preview of a card, an MCP config or a price list. The body is the file itself."""
    given = taken(request.rel_url.raw_query_string, CHECK)
    document = await body(request, MAX_CHECK_BYTES)
    return json_bytes(await run(request, _checked, document, given.get("type")), headers={"Cache-Control": "no-store"})


async def look_up(request: web.Request, work: Callable[..., _T], *args: Any) -> _T:
    """What is known of a txid, in its turn: sources may be waited for. Raises ProblemError (429, 503)."""
    client = request.app[EDGE].clients.of(request)
    return await request.app[LOOKUPS].run(client, PUBLISHING_SECONDS, work, *args)


async def run(request: web.Request, work: Callable[..., _T], *args: Any) -> _T:
    """What comes of bytes that a client hands in, in its turn. Raises ProblemError (429, 503)."""
    client = request.app[EDGE].clients.of(request)
    return await request.app[PUBLISHING].run(client, PUBLISHING_SECONDS, work, *args)


def _diagnosed(services: Services, document: bytes) -> dict[str, Any]:
    try:
        return services.diagnose(bytes.fromhex(bodies.read(bodies.RawTransaction, document).rawTx))
    except ParseError as error:
        raise _bad("not-a-transaction", f"rawTx is no transaction: {error}", "/rawTx") from None


def _checked(document: bytes, kind: str | None) -> bytes:
    return encode(checks.check(document, kind))


def _what(text: str) -> str:
    """A txid or an outpoint in the usual spelling."""
    try:
        return str(Outpoint.parse(text if len(text) != 64 else f"{text}_0"))[: None if len(text) != 64 else 64]
    except ValueError:
        detail = f"{text[:100]!a} is neither a txid (64 hex digits) nor an outpoint (<txid>_<output number>)"
        raise BadRequestError((Fault("not-a-transaction-id", detail, "what"),)) from None


def _bad(code: str, detail: str, pointer: str) -> BadRequestError:
    return BadRequestError((Fault(code, detail, pointer=pointer),))
