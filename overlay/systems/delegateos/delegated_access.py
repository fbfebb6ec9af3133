"""Delegated access: the actions that a capability token of DelegateOS grants here, and the units that they are
charged.

Public routes stay public: a request without a token is answered as before, one with a token only where the token grants
it. Each request costs one unit of `maxBudgetMicrocents`. It is charged to every block of the token, because the holder
of an attenuated token also holds the tokens that it was made from.
"""

from __future__ import annotations

import time
from asyncio import to_thread
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from aiohttp import hdrs, web

from overlay.api.answers import BODY_SHA256
from overlay.api.openapi import parameter_json, refusal
from overlay.api.parameters import pairs, parameter
from overlay.api.problems import Fault, ProblemError
from overlay.api.request_context import CONTEXT, RouteInfo
from overlay.api.routes import Route
from overlay.listings.ids import parse_id
from parsers.claims.canonical_json import SAFE_INTEGER, DocumentError
from parsers.claims.delegateos.capability_token import (
    Authorized,
    Token,
    TokenContext,
    TokenDeniedError,
    authorize_token,
    blocks,
    check_capability,
    is_revoked,
    read_dct,
    revocation_ids,
    scopes,
)
from parsers.claims.delegateos.holder_proof import HolderProof, check_proof
from parsers.claims.delegateos.signed_objects import is_principal
from parsers.claims.rfc3339 import instant

if TYPE_CHECKING:
    from overlay.systems.delegateos.store import BlockBudget, DelegationRecords

NAMESPACE = "registry"
ACTIONS = ("search", "submit", "rate")
"""The actions that tokens grant here."""

PROVEN_ACTIONS = frozenset({"submit", "rate"})
"""Actions that need a holder proof."""

PROOF_HEADER = "X-DCT-Proof"
MAX_TOKEN = 16_384
"""Characters of a token: some 30 attenuations."""

_START = "eyJhdHRlbnVhdGlvbnMi"
"""The beginning of every token: `{"attenuations"` in base64url."""

_NANOSECONDS = 10**9
_FORBIDDEN = frozenset({"capability_not_granted", "budget_exceeded"})
"""Denials of tokens that are valid in themselves."""


class Access(NamedTuple):
    """A verified token, with what each of its blocks leaves."""

    token: Token
    steps: list[Authorized]

    @property
    def holder(self) -> str:
        """The last delegatee."""
        return self.steps[-1].delegatee

    def check(self, action: str, resources: Iterable[str]) -> None:
        """Check that the token grants an action on something, which has these names. Raises TokenDeniedError."""
        check_capability(self.steps[-1], NAMESPACE, action, tuple(resources))


class DelegatedAccess:
    """Tokens of the principals `roots`, and the stored state of tokens. `clock` gives nanoseconds since
    1970."""

    def __init__(
        self,
        roots: Iterable[str],
        records: DelegationRecords,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.roots, self.records, self.now = frozenset(roots), records, clock

    def verify(self, text: object, contract_id: str | None = None) -> Access:
        """A token (its text) that a trusted issuer signed, and that is neither revoked nor expired. Raises
        TokenDeniedError."""
        if not isinstance(text, str) or len(text) > MAX_TOKEN:
            raise TokenDeniedError("malformed_token", f"the token is not a text of at most {MAX_TOKEN:,} characters")
        token = read_dct(text)
        revocations: list[Any] = []
        if token["authority"]["issuer"] in self.roots:
            signers = {block.get("attenuator", block.get("issuer")) for block in blocks(token)}
            revocations = self.records.revocations_of(revocation_ids(token), set(filter(is_principal, signers)))
        context = TokenContext(roots=self.roots, now=self.now(), revocations=revocations, contract_id=contract_id)
        authorize_token(token, context)
        return Access(token, scopes(token))

    def charge(self, access: Access, proof: HolderProof | None = None) -> None:
        """Charge a request to a token, and use up the nonce of its proof. Raises TokenDeniedError."""
        from overlay.systems.delegateos.store import NonceUse, SpentBudgetError, UsedNonceError

        nonce = None if proof is None else NonceUse(f"dct:{access.holder}", proof.nonce, proof.expires_at)
        try:
            self.records.charge(_budgets(access), nonce)
        except SpentBudgetError as error:
            limit = error.budget.limit
            raise TokenDeniedError("budget_exceeded", "the budget is spent", limit=limit, spent=limit) from None
        except UsedNonceError:
            raise TokenDeniedError("replayed", "the nonce of the holder proof was used before") from None

    def revoke(self, entry: Mapping[str, str], token_text: str | None) -> None:
        """Store a revocation with a checked form and signature. With a token, it must revoke a block of that token.
        Raises TokenDeniedError, RecordsFullError."""
        is_trusted = is_proven = entry["revokedBy"] in self.roots
        if token_text is not None:
            token = self._issued_here(token_text)
            if not is_revoked(token, revocation_ids(token), entry):
                raise TokenDeniedError("not_revocable", "the signer may not revoke this block of the token")
            is_proven = True
        self.records.revoke(entry, is_proven=is_proven, is_trusted=is_trusted)

    def _issued_here(self, text: str) -> Token:
        """A token that a trusted issuer signed, whether or not it is revoked. Raises TokenDeniedError."""
        if len(text) > MAX_TOKEN:
            raise TokenDeniedError("malformed_token", f"the token has more than {MAX_TOKEN:,} characters")
        token = read_dct(text)
        authorize_token(token, TokenContext(roots=self.roots, now=self.now()))
        return token


ACCESS: web.AppKey[DelegatedAccess] = web.AppKey("delegated access", DelegatedAccess)


def _budgets(access: Access) -> list[BlockBudget]:
    """The units that each block allows: of 0.5, one request is below it."""
    from overlay.systems.delegateos.store import BlockBudget

    return [
        BlockBudget(
            revocation_id,
            ceil(max(0, min(step.budget, SAFE_INTEGER))),
            (instant(step.expires) or 0) // _NANOSECONDS + 1,
        )
        for revocation_id, step in zip(revocation_ids(access.token), access.steps, strict=True)
    ]


def delegated_access(request: web.Request) -> DelegatedAccess:
    """The service that checks tokens here. Raises TokenDeniedError where no issuer is trusted."""
    access = request.app.get(ACCESS)
    if access is None:
        raise TokenDeniedError("invalid_signature", "no issuer of tokens is trusted here")
    return access


def bearer_token(request: web.Request) -> str | None:
    """The capability token in the header `Authorization`, None without one. Schemes other than Bearer belong to proxies
    in front of this server. Clients send other bearer tokens to every server: these are ignored, unless a holder proof
    comes with them. Raises TokenDeniedError for two different tokens."""
    presented = set()
    for header in request.headers.getall(hdrs.AUTHORIZATION, ()):
        scheme, _, text = header.partition(" ")
        if scheme.lower() == "bearer" and (text.strip().startswith(_START) or PROOF_HEADER in request.headers):
            presented.add(text.strip())
    if len(presented) > 1:
        raise TokenDeniedError("malformed_token", "the header Authorization is sent twice, with different tokens")
    return presented.pop() if presented else None


async def authorize_request(request: web.Request) -> None:
    """Check and charge the token that a request presents, where its route takes one. Raises ProblemError: 403 for an
    action that the token does not grant, 401 for other denials."""
    if hdrs.AUTHORIZATION not in request.headers:
        return
    routed = request.app[CONTEXT].routed(request)
    if routed.action is None:
        return
    try:
        text = bearer_token(request)
        if text is None:
            return
        access, names = delegated_access(request), resources(request, routed)
        await to_thread(_authorize, access, request, text, routed.action, names)
    except TokenDeniedError as error:
        raise denial_problem(error) from None


def _authorize(access: DelegatedAccess, request: web.Request, text: str, action: str, names: list[str]) -> None:
    granted = access.verify(text)
    granted.check(action, names)
    proof = _proof(request, granted, access.now()) if action in PROVEN_ACTIONS else None
    access.charge(granted, proof)
    if proof is not None:
        request[BODY_SHA256] = proof.body_sha256


def _proof(request: web.Request, access: Access, now: int) -> HolderProof:
    text = request.headers.get(PROOF_HEADER)
    if text is None:
        raise TokenDeniedError(
            "proof_required", f"send {PROOF_HEADER}: the last delegatee signs each of these requests"
        )
    proof = check_proof(text, holder=access.holder, method=request.method, path=request.raw_path, now=now)
    if not request.body_exists and proof.body_sha256 != sha256(b"").hexdigest():
        raise TokenDeniedError("invalid_proof", "the body is not the one that the holder proof was signed for")
    return proof


def resources(request: web.Request, routed: RouteInfo) -> list[str]:
    """The names of the subjects of a request: the tool, and the origin of the listing that its route acts on, read as
    the route reads it. Raises BadRequestError for a query string that cannot be read."""
    ids = {request.match_info["id"]} if routed.listing_in == "path" else set[str]()
    if routed.listing_in == "query":
        ids = {value for name, value in pairs(request.rel_url.raw_query_string) if name == "id"}
    return [routed.resource, *(parse_id(id_)[0] for id_ in ids if len(ids) == 1)]


def denial_json(error: TokenDeniedError) -> dict[str, Any]:
    """A denial as DelegateOS has it (§11.2: `type`, and for a capability `requested` and `granted`)."""
    return {"type": error.code, "detail": error.detail, **error.members}


def denial_problem(error: DocumentError) -> ProblemError:
    """A denial over HTTP, with the challenge of RFC 6750."""
    status = 403 if error.code in _FORBIDDEN else 401
    kind = "insufficient_scope" if status == 403 else "invalid_token"
    headers = {"WWW-Authenticate": f'Bearer error="{kind}"', "Cache-Control": "no-store"}
    return ProblemError(status, error.detail, (Fault(error.code, error.detail, "Authorization"),), headers)


_PROOF = parameter(
    PROOF_HEADER, "Proof that the client is the last delegatee of the capability token it presents.", may_be_empty=True
)


def describe(route: Route, operation: dict[str, Any]) -> None:
    """Add the proof that an action needs, and the denials of a token."""
    if route.action is None:
        return
    if route.action in PROVEN_ACTIONS:
        operation["parameters"].append(parameter_json(_PROOF, "header"))
    for status in (401, 403):
        operation["responses"].setdefault(str(status), refusal(route, status))
