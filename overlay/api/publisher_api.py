"""A publisher's questions: why is my transaction not listed, and is my card good before I pay for it?"""

from __future__ import annotations

from asyncio import to_thread

from aiohttp import web

from overlay import check as checks
from overlay.api import bodies
from overlay.api.answers import SERVICES, body, json_answer
from overlay.api.params import CHECK, taken
from overlay.api.problems import BadRequestError, Fault
from parsers.errors import ParseError
from parsers.tx import Outpoint

MAX_CHECK_BYTES = 2 << 20
MAX_RAW_BYTES = 4 << 20  # a transaction with a card of 1 MiB is a little over 2 MiB of hex


async def diagnose(request: web.Request) -> web.Response:
    """The step trace of a transaction or of one of its outputs."""
    what = _what(request.match_info["what"].strip())
    return json_answer(await to_thread(request.app[SERVICES].diagnose, what))


async def diagnose_raw(request: web.Request) -> web.Response:
    """The step trace of a transaction handed in."""
    raw = bytes.fromhex(bodies.read(bodies.RawTransaction, await body(request, MAX_RAW_BYTES)).rawTx)
    try:
        return json_answer(await to_thread(request.app[SERVICES].diagnose, raw))
    except ParseError as error:
        raise _bad("not-a-transaction", f"rawTx is no transaction: {error}", "/rawTx") from None


async def check(request: web.Request) -> web.Response:
    """Errors, warnings and a preview of a card, an MCP config or a price list. The body is the file itself."""
    given = taken(request.rel_url.raw_query_string, CHECK)
    document = await body(request, MAX_CHECK_BYTES)
    return json_answer(await to_thread(checks.check, document, given.get("type")))


def _what(text: str) -> str:
    """A txid or an outpoint in the usual spelling."""
    try:
        return str(Outpoint.parse(text if len(text) != 64 else f"{text}_0"))[: None if len(text) != 64 else 64]
    except ValueError:
        detail = f"{text[:100]!a} is neither a txid (64 hex digits) nor an outpoint (<txid>_<output number>)"
        raise BadRequestError((Fault("not-a-transaction-id", detail, "what"),)) from None


def _bad(code: str, detail: str, pointer: str) -> BadRequestError:
    return BadRequestError((Fault(code, detail, pointer=pointer),))
