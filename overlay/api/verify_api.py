"""The route that verifies claims of other systems: receipts, delegations, tokens, identity files, cards."""

from __future__ import annotations

import time
from typing import Any

from aiohttp import web

from overlay.api.answers import body, json_answer
from overlay.api.problems import BadRequestError, Fault, NotFoundError
from overlay.api.publisher_api import run
from parsers.claims.verification import KINDS, ClaimRequestError, verify_claim

MAX_BODY = 512 << 10
"""Bytes of a body: a document that is too large to be verified gets a verdict, within this limit."""


async def verify(request: web.Request) -> web.Response:
    """Whether a claim verifies by the keys that you trust, and if not, why not: 200 also where it does not."""
    kind = request.match_info["kind"]
    if kind not in KINDS:
        raise NotFoundError(f"{kind[:100]!a} is no kind of claim; there are {', '.join(KINDS)}")
    return json_answer(await run(request, _verdict, kind, await body(request, MAX_BODY)))


def _verdict(kind: str, document: bytes) -> dict[str, Any]:
    try:
        return verify_claim(kind, document, time.time_ns()).as_json()
    except ClaimRequestError as error:
        raise BadRequestError((Fault(error.code, str(error), pointer=error.member),)) from None
