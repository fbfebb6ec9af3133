"""Routes of claims of other systems: verify receipts, delegations, tokens, identity files and cards, and the public
list of revoked blocks of capability tokens."""

from __future__ import annotations

import time
from asyncio import to_thread
from typing import Any

from aiohttp import web

from overlay.api import values
from overlay.api.answers import body, json_answer
from overlay.api.delegated_access import MAX_TOKEN, DelegatedAccess, delegated_access, denial_problem
from overlay.api.executors import PUBLISHING, run_in
from overlay.api.parameters import WHOLE, parameter, read_query, table
from overlay.api.problems import NotFoundError, ProblemError, bad_request
from overlay.api.request_bodies import RevocationBody, checked
from parsers.claims.canonical_json import ClaimRefusedError, read
from parsers.claims.delegateos.capability_token import TokenDeniedError, check_revocation
from parsers.claims.verification import KINDS, ClaimRequestError, verify_claim

MAX_CLAIM = 512 << 10
"""Bytes of a body: a document that is too large to be verified gets a verdict, within this limit."""


async def verify(request: web.Request) -> web.Response:
    """Whether a claim verifies by the keys that you trust, and if not, why not: 200 also where it does not."""
    kind = request.match_info["kind"]
    if kind not in KINDS:
        raise NotFoundError(f"{kind[:100]!a} is no kind of claim; there are {', '.join(KINDS)}")
    return json_answer(await run_in(request, PUBLISHING, _verdict, kind, await body(request, MAX_CLAIM)))


def _verdict(kind: str, document: bytes) -> dict[str, Any]:
    try:
        return verify_claim(kind, document, time.time_ns()).as_json()
    except ClaimRequestError as error:
        raise bad_request(error.code, str(error), pointer=error.member) from None


MAX_BODY = MAX_TOKEN + 4_096
MAX_PAGE = 1_000
"""Revocations in one answer."""

REVOCATIONS = table(
    parameter("after", "The `next` of an earlier answer, for what is new since then.", values.whole, **WHOLE),
    parameter("limit", f"Revocations in the answer: {MAX_PAGE}; more are cut to that.", values.whole, **WHOLE),
)


async def revocations(request: web.Request) -> web.Response:
    """The revocations that were sent here, in the order of arrival: anyone may send one, and it counts only against a
    token of which its signer signed the block, or with the scope `chain` one that it builds on."""
    arguments = read_query(request, REVOCATIONS)
    after, limit = arguments.get("after") or 0, min(arguments.get("limit", MAX_PAGE), MAX_PAGE)
    access = _access(request)
    rows = await to_thread(lambda: access.ledger.revocations(after, limit))
    return json_answer({"revocations": [entry for _, entry in rows], "next": rows[-1][0] if rows else after})


async def revoke(request: web.Request) -> web.Response:
    """Store a signed revocation (`{revocation, dct?}`, or the entry alone); it counts from then on."""
    try:
        document = read(await body(request, MAX_BODY))
    except ClaimRefusedError as error:
        raise bad_request(error.code, error.detail, pointer="") from None
    return json_answer(await to_thread(store_revocation, _access(request), document))


def _access(request: web.Request) -> DelegatedAccess:
    try:
        return delegated_access(request)
    except TokenDeniedError as error:
        raise ProblemError(503, error.detail) from None


def store_revocation(access: DelegatedAccess, document: Any) -> dict[str, Any]:
    """Store what `{revocation, dct?}`, or an entry alone, says. Raises ProblemError."""
    from indexer.store.delegations import LedgerFullError

    is_alone = not (isinstance(document, dict) and "revocation" in document)
    sent = checked(RevocationBody, {"revocation": document} if is_alone else document)
    entry = sent.revocation
    try:
        check_revocation(entry)
    except ClaimRefusedError as error:
        raise bad_request(error.code, error.detail, pointer="/revocation") from None
    try:
        access.revoke(entry, sent.dct)
    except TokenDeniedError as error:
        raise denial_problem(error) from None
    except LedgerFullError as error:
        raise ProblemError(503, str(error), headers={"Retry-After": "3600"}) from None
    return {name: entry[name] for name in ("revocationId", "revokedBy", "scope")}
