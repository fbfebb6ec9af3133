"""The route that verifies signed documents: receipts, delegations, tokens, identity files and cards."""

from __future__ import annotations

import time
from typing import Any

from aiohttp import web

from overlay.api.answers import body, json_answer
from overlay.api.executors import PUBLISHING, run_in
from overlay.api.problems import NotFoundError, bad_request
from parsers.claims.verification import KINDS, VerifyRequestError, verify_document

MAX_DOCUMENT = 512 << 10
"""Bytes of a body: a document that is too large to be verified gets a verdict, within this limit."""


async def verify(request: web.Request) -> web.Response:
    """Whether a document verifies by the keys that you trust, and if not, why not. The status is 200 in both cases."""
    kind = request.match_info["kind"]
    if kind not in KINDS:
        raise NotFoundError(f"{kind[:100]!a} is not a kind of signed document; there are {', '.join(KINDS)}")
    return json_answer(await run_in(request, PUBLISHING, _verdict, kind, await body(request, MAX_DOCUMENT)))


def _verdict(kind: str, document: bytes) -> dict[str, Any]:
    try:
        return verify_document(kind, document, time.time_ns()).as_json()
    except VerifyRequestError as error:
        raise bad_request(error.code, str(error), pointer=error.member) from None
