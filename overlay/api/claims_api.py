"""The route of claims of other systems: verify receipts, delegations, tokens, identity files and cards."""

from __future__ import annotations

import time
from typing import Any

from aiohttp import web

from overlay.api.answers import body, json_answer
from overlay.api.executors import PUBLISHING, run_in
from overlay.api.problems import NotFoundError, bad_request
from parsers.claims.verification import KINDS, ClaimRequestError, verify_claim

MAX_CLAIM = 512 << 10
"""Bytes of a body: a document that is too large to be verified gets a verdict, within this limit."""


async def verify(request: web.Request) -> web.Response:
    """Whether a claim verifies by the keys that you trust, and if not, why not: 200 also where it does not."""
    kind = request.match_info["kind"]
    if kind not in KINDS:
        raise NotFoundError(f"{kind[:100]!a} is not a kind of claim; there are {', '.join(KINDS)}")
    return json_answer(await run_in(request, PUBLISHING, _verdict, kind, await body(request, MAX_CLAIM)))


def _verdict(kind: str, document: bytes) -> dict[str, Any]:
    try:
        return verify_claim(kind, document, time.time_ns()).as_json()
    except ClaimRequestError as error:
        raise bad_request(error.code, str(error), pointer=error.member) from None
