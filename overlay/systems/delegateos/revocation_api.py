"""Routes of the public list of revoked blocks of capability tokens."""

from __future__ import annotations

from asyncio import to_thread
from functools import partial

from aiohttp import web

from overlay.api import values
from overlay.api.answers import body, json_answer
from overlay.api.parameters import WHOLE, parameter, read_query, table
from overlay.api.problems import ProblemError, bad_request
from overlay.api.request_bodies import body_schemas
from overlay.api.routes import Route
from overlay.api.shared_services import VERIFIER
from overlay.api.systems import Parts, Services, SystemApi
from overlay.systems.delegateos import delegated_calls
from overlay.systems.delegateos.delegated_access import (
    ACCESS,
    MAX_TOKEN,
    DelegatedAccess,
    authorize_request,
    delegated_access,
    describe,
)
from overlay.systems.delegateos.revocations import RevocationBody, store_revocation
from overlay.systems.delegateos.store import DelegationRecords
from parsers.claims.canonical_json import DocumentError, base64url_text, read
from parsers.claims.delegateos.capability_token import TokenDeniedError

MAX_BODY = MAX_TOKEN + 4_096
MAX_PAGE = 1_000
"""Revocations in one answer."""

REVOCATIONS = table(
    parameter("after", "The `next` of an earlier answer, for what is new since then.", values.whole, **WHOLE),
    parameter("limit", f"Revocations in the answer: {MAX_PAGE}; more are cut to that.", values.whole, **WHOLE),
)


async def revocations(request: web.Request) -> web.Response:
    """The revocations that were sent here, in the order of arrival: anyone may send one, and it counts only against a
    token where its signer signed the revoked block, or, with the scope `chain`, an earlier one."""
    arguments = read_query(request, REVOCATIONS)
    after, limit = arguments.get("after") or 0, min(arguments.get("limit", MAX_PAGE), MAX_PAGE)
    access = _access(request)
    rows = await to_thread(lambda: access.records.revocations(after, limit))
    return json_answer({"revocations": [entry for _, entry in rows], "next": rows[-1][0] if rows else after})


async def revoke(request: web.Request) -> web.Response:
    """Store a signed revocation (`{revocation, dct?}`, or the entry alone); it counts from then on."""
    try:
        document = read(await body(request, MAX_BODY))
    except DocumentError as error:
        raise bad_request(error.code, error.detail, pointer="") from None
    return json_answer(await to_thread(store_revocation, _access(request), document))


def _access(request: web.Request) -> DelegatedAccess:
    try:
        return delegated_access(request)
    except TokenDeniedError as error:
        raise ProblemError(503, error.detail) from None


def bring(parts: Parts) -> Services:
    """The service that checks capability tokens on this server: those of the configured issuers, and of its key."""
    own_keys = [] if parts.identity is None else [base64url_text(parts.identity.ed25519_public)]
    roots = (*parts.settings.delegation_roots, *own_keys)
    access = DelegatedAccess(roots, DelegationRecords(parts.store.primary))
    return {ACCESS: access, VERIFIER: delegated_calls}


_documents = partial(Route, tag="claims")
API = SystemApi(
    schemas=body_schemas({"Revocation": RevocationBody}),
    routes=(
        _documents("/v1/delegations/revocations", revocations, "Revocations", parameters=REVOCATIONS),
        _documents(
            "/v1/delegations/revocations", revoke, "Revoked", method="POST", body="Revocation", errors=(401,),
            limit="ingest",
        ),
    ),
    bring=bring,
    guard=authorize_request,
    describe=describe,
)  # fmt: skip
