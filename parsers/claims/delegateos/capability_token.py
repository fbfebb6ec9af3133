"""Capability tokens of DelegateOS (DCT, `delegateos-sjt-v1`, §3, §4, §10.1), verified.

The root's signature is checked by the key of the issuer, which must be trusted, and not by the key that the signature
names. Denials: malformed_token, revoked, invalid_signature, attenuation_violation, chain_depth_exceeded, expired,
budget_exceeded, capability_not_granted; also weak-key, not-yet-valid, replayed and patterns-too-costly.

The holder of an attenuated token also holds the tokens that it was made from. A separate proof shows that the presenter
is its delegatee.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from parsers.claims.canonical_json import (
    DocumentError,
    base64url_text,
    from_base64url,
    jcs,
    joined,
    read,
)
from parsers.claims.delegateos.resource_globs import GlobBudget, is_part, matches
from parsers.claims.delegateos.signed_objects import DIGEST_BYTES, check_canonical, check_record, digest_text
from parsers.claims.record_shape import ANYTHING, COUNT, NUMBER, OBJECT, OBJECTS, TEXT, TIME, RecordShape, one_of
from parsers.claims.rfc3339 import instant
from parsers.claims.verdict import SKEW_MS, DocumentVerdict, authority_by

FORMAT = "delegateos-sjt-v1"
MAX_DEPTH = 10
"""Attenuations of a token, where the verifier names no other limit."""

MAX_CAPABILITIES = 256
_CAPABILITY = RecordShape("a capability", dict.fromkeys(("namespace", "action", "resource"), TEXT), {})
_CAPABILITIES = (
    lambda value: (
        isinstance(value, list)
        and len(value) <= MAX_CAPABILITIES
        and all(_CAPABILITY.fault(member) is None for member in value)
    ),
    "a list of capabilities",
)
_TOKEN = RecordShape(
    "a token",
    {"format": one_of(FORMAT), "authority": OBJECT, "attenuations": OBJECTS, "signatures": OBJECTS},
    {},
)
_AUTHORITY = RecordShape(
    "an authority",
    {
        **dict.fromkeys(("issuer", "delegatee", "contractId", "delegationId", "parentDelegationId"), TEXT),
        "capabilities": _CAPABILITIES,
        **dict.fromkeys(("chainDepth", "maxChainDepth"), COUNT),
        "maxBudgetMicrocents": NUMBER,
        **dict.fromkeys(("expiresAt", "issuedAt"), TIME),
    },
    {},
)
ATTENUATION_SHAPE = RecordShape(
    "an attenuation",
    dict.fromkeys(("attenuator", "delegatee", "delegationId", "contractId"), TEXT),
    {"allowedCapabilities": _CAPABILITIES, "maxBudgetMicrocents": NUMBER, "expiresAt": TIME, "maxChainDepth": COUNT},
)
_SIGNATURE = RecordShape("a signature", {"signer": TEXT, "signature": TEXT, "covers": ANYTHING}, {})
_REVOCATION = RecordShape(
    "a revocation",
    {
        **dict.fromkeys(("revocationId", "revokedBy", "signature"), TEXT),
        "revokedAt": TIME,
        "scope": one_of("block", "chain"),
    },
    {},
)

Token = dict[str, Any]


class TokenDeniedError(DocumentError):
    """A denial (§10.1): its type is the code; `members` are those that the type has."""

    def __init__(self, code: str, detail: str, **members: Any) -> None:
        super().__init__(code, detail)
        self.members = members


class UnknownIssuerError(TokenDeniedError):
    """The denial of a token by an issuer that is not trusted: no signature is checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenContext:
    """The checks of a token, at a time (nanoseconds since 1970). `roots` are the trusted issuers. Without an
    `operation` no capability is checked; without a namespace one of any namespace suffices. `required` are the
    capabilities of its contract, as `namespace:action` (§5.2). `revoked` are ids that are
    certainly revoked, `revocations` entries that must be signed by a principal with the right to revoke; `seen` are
    delegation ids that were used before."""

    roots: frozenset[str]
    now: int
    operation: str | None = None
    resource: str = "*"
    namespace: str | None = None
    spent: float = 0
    max_depth: float = MAX_DEPTH
    contract_id: str | None = None
    required: Sequence[str] = ()
    revoked: frozenset[str] = frozenset()
    revocations: Sequence[Any] = ()
    seen: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Authorized:
    """The permissions of a token: the most that its root and every attenuation leave."""

    capabilities: Sequence[Mapping[str, str]]
    budget: float
    expires: str
    max_depth: float
    delegatee: str
    steps: GlobBudget = field(default_factory=GlobBudget, compare=False)

    def narrowed(self, by: Mapping[str, Any]) -> Authorized:
        """The permissions that are left after an attenuation. Raises TokenDeniedError for an attenuation that adds
        something."""
        if by["attenuator"] != self.delegatee:
            raise TokenDeniedError("attenuation_violation", "Attenuator mismatch")
        capabilities = by.get("allowedCapabilities", self.capabilities)
        budget, expires = by.get("maxBudgetMicrocents", self.budget), by.get("expiresAt", self.expires)
        for capability in capabilities:
            if not is_granted(capability, self.capabilities, self.steps):
                raise TokenDeniedError("attenuation_violation", "Capability expansion", capability=capability)
        if budget > self.budget:
            raise TokenDeniedError("attenuation_violation", "Budget expansion")
        if (instant(expires) or 0) > (instant(self.expires) or 0):
            raise TokenDeniedError("attenuation_violation", "Expiry expansion")
        if by.get("maxChainDepth", -1) >= self.max_depth:
            raise TokenDeniedError("attenuation_violation", "Chain depth expansion")
        max_depth = by.get("maxChainDepth", self.max_depth)
        return Authorized(capabilities, budget, expires, max_depth, by["delegatee"], self.steps)


def is_granted(capability: Mapping[str, str], granted: Sequence[Mapping[str, str]], steps: GlobBudget) -> bool:
    """Whether a capability is part of a granted one. Raises DocumentError where the steps do not suffice."""
    steps.take(len(granted))
    return any(
        parent["namespace"] == capability["namespace"]
        and parent["action"] == capability["action"]
        and is_part(capability["resource"], parent["resource"], steps)
        for parent in granted
    )


def is_covered(name: str, granted: Sequence[Mapping[str, str]]) -> bool:
    """Whether a capability of a contract, `namespace:action`, is among those granted, on some resource."""
    namespace, _, action = name.rpartition(":")
    return any(
        capability["namespace"] in (namespace, "*") and capability["action"] in (action, "*") for capability in granted
    )


def capability_text(capability: Mapping[str, str], between: str = "for") -> str:
    """A capability for people, for example `registry:search for tool:search`."""
    return f"{capability['namespace']}:{capability['action']} {between} {capability['resource']}"


def blocks(token: Token) -> list[Mapping[str, Any]]:
    """The authority, and the attenuations in order."""
    return [token["authority"], *token["attenuations"]]


def revocation_ids(token: Token) -> list[str]:
    """The ids by which the blocks of a token are revoked."""
    return list(map(digest_text, blocks(token)))


def read_dct(serialized: Any) -> Token:
    """The token in `{token, format}`, or in its text alone. Raises TokenDeniedError."""
    text: Any = serialized
    form: Any = FORMAT
    if isinstance(serialized, dict):
        text, form = serialized.get("token"), serialized.get("format")
    try:
        if form != FORMAT:
            raise DocumentError("malformed_token", f"the format is not {FORMAT}")
        data, is_canonical = from_base64url(text)
        token = read(data)
        check_form(token)
        if not is_canonical or jcs(token) != data:
            raise DocumentError("malformed_token", "the token is not in the form of RFC 8785 and base64url")
    except DocumentError as error:
        raise TokenDeniedError("malformed_token", f"Failed to deserialize token: {error.detail}") from None
    decoded: Token = token
    return decoded


def check_form(token: Any) -> None:
    """Raises DocumentError for a token without the members of one."""
    _TOKEN.check(token, "malformed_token")
    _AUTHORITY.check(token["authority"], "malformed_token")
    for attenuation in token["attenuations"]:
        ATTENUATION_SHAPE.check(attenuation, "malformed_token")
    for signature in token["signatures"]:
        _SIGNATURE.check(signature, "malformed_token")


def serialize_dct(token: Token) -> dict[str, str]:
    """The serialized form (§3.2)."""
    return {"token": base64url_text(jcs(token)), "format": FORMAT}


def scopes(token: Token) -> list[Authorized]:
    """The permissions after each block of a token. Raises TokenDeniedError for an attenuation that adds something."""
    members = ("capabilities", "maxBudgetMicrocents", "expiresAt", "maxChainDepth", "delegatee")
    left = [Authorized(*(token["authority"][name] for name in members))]
    for attenuation in token["attenuations"]:
        with _denials():
            left.append(left[-1].narrowed(attenuation))
    return left


def authorize(serialized: Any, context: TokenContext) -> dict[str, Any]:
    """The permissions of a token (§10.1: AuthorizedScope). Raises TokenDeniedError."""
    return authorize_token(read_dct(serialized), context)


def authorize_token(token: Token, context: TokenContext) -> dict[str, Any]:
    """`authorize` of a token that has been read."""
    with _denials():
        return _authorized(token, context)


@contextmanager
def _denials() -> Iterator[None]:
    """Turn other refusals of documents into denials."""
    try:
        yield
    except TokenDeniedError:
        raise
    except DocumentError as error:
        raise TokenDeniedError(error.code, error.detail) from None


def _authorized(token: Token, context: TokenContext) -> dict[str, Any]:
    _check_revocations(token, context)
    _check_signatures(token, context)
    scope = scopes(token)[-1]
    depth = _check_depth(token, context)
    if (instant(token["authority"]["issuedAt"]) or 0) > context.now + SKEW_MS * 1_000_000:
        raise TokenDeniedError("not-yet-valid", f"issued at {token['authority']['issuedAt']}, in the future")
    if context.now > (instant(scope.expires) or 0):
        raise TokenDeniedError("expired", f"expired at {scope.expires}")
    if context.spent >= scope.budget:
        raise TokenDeniedError("budget_exceeded", "the budget is spent", limit=scope.budget, spent=context.spent)
    if context.operation is not None:
        check_capability(scope, context.namespace, context.operation, (context.resource,))
    last = blocks(token)[-1]
    if context.contract_id not in (None, last["contractId"]):
        raise TokenDeniedError("capability_not_granted", "the token is for another contract")
    missing = next((name for name in context.required if not is_covered(name, scope.capabilities)), None)
    if missing is not None:
        detail = f"the token does not grant {missing[:100]!a}, which its contract requires"
        raise TokenDeniedError("capability_not_granted", detail, granted=list(scope.capabilities))
    if last["delegationId"] in context.seen:
        raise TokenDeniedError("replayed", f"the delegation {last['delegationId'][:100]!a} was used before")
    return {
        "capabilities": list(scope.capabilities),
        "remainingBudgetMicrocents": scope.budget - context.spent,
        "chainDepth": depth,
        "maxChainDepth": scope.max_depth,
        "contractId": last["contractId"],
        "delegationId": last["delegationId"],
    }


def _check_revocations(token: Token, context: TokenContext) -> None:
    ids = revocation_ids(token)
    certain = (revocation_id for revocation_id in ids if revocation_id in context.revoked)
    signed = (entry["revocationId"] for entry in context.revocations if is_revoked(token, ids, entry))
    revoked = next(chain(certain, signed), None)
    if revoked is not None:
        raise TokenDeniedError("revoked", "a block of the token is revoked", revocationId=revoked)


def check_revocation(entry: Any) -> None:
    """Check the form of a revocation and the signature of its signer, but not the right to revoke. Raises
    DocumentError: malformed, weak-key, bad-signature."""
    _REVOCATION.check(entry)
    id_, is_canonical = from_base64url(entry["revocationId"])
    if not is_canonical or len(id_) != DIGEST_BYTES:
        raise DocumentError("malformed", "revocationId is not the BLAKE2b-256 of a block, in base64url")
    check_record(entry["revokedBy"], entry, "the Ed25519 signature does not verify")


def is_revoked(token: Token, ids: Sequence[str], entry: Any) -> bool:
    """Whether a signed entry revokes a block of a token with these revocation ids. The signer of the block may revoke
    it; with the scope `chain` also the signer of an earlier block."""
    if _REVOCATION.fault(entry) or entry["revocationId"] not in ids:
        return False
    signers = [block.get("issuer", block.get("attenuator")) for block in blocks(token)]
    index = ids.index(entry["revocationId"])
    allowed = signers[: index + 1] if entry["scope"] == "chain" else signers[index : index + 1]
    if entry["revokedBy"] not in allowed:
        return False
    try:
        check_revocation(entry)
    except DocumentError:
        return False
    return True


def _check_signatures(token: Token, context: TokenContext) -> None:
    authority, attenuations, signatures = token["authority"], token["attenuations"], token["signatures"]
    if not signatures or signatures[0]["covers"] != "authority":
        raise TokenDeniedError("invalid_signature", "Missing authority signature")
    if authority["issuer"] not in context.roots:
        raise UnknownIssuerError("invalid_signature", "Issuer does not match root public key")
    forms = list(map(jcs, blocks(token)))  # written once: each signature covers all blocks until its own
    root = joined({"authority": forms[0]})
    _check_signature(authority["issuer"], root, signatures[0], "Authority signature invalid")
    for index, attenuation in enumerate(attenuations):
        if index + 1 >= len(signatures):
            raise TokenDeniedError("invalid_signature", f"Missing signature for attenuation {index}")
        signature, detail = signatures[index + 1], f"Attenuation {index} signature invalid"
        if signature["covers"] != index or isinstance(signature["covers"], bool):
            raise TokenDeniedError("invalid_signature", f"signature {index + 1} does not cover attenuation {index}")
        covered = b"[" + b",".join(forms[1 : index + 2]) + b"]"
        payload = joined({"authority": forms[0], "attenuations": covered})
        _check_signature(attenuation["attenuator"], payload, signature, detail)
    if len(signatures) > len(attenuations) + 1:
        raise TokenDeniedError("invalid_signature", "more signatures than blocks")


def _check_signature(principal: str, payload: bytes, signature: Mapping[str, Any], detail: str) -> None:
    if signature["signer"] != principal:
        raise TokenDeniedError("invalid_signature", detail)
    try:
        check_canonical(principal, payload, signature["signature"], "invalid_signature", detail)
    except DocumentError as error:
        raise TokenDeniedError(error.code, error.detail) from None


def _check_depth(token: Token, context: TokenContext) -> int:
    """The depth of a token, within the limits of its root, its attenuations and the verifier."""
    authority, attenuations = token["authority"], token["attenuations"]
    depth = int(authority["chainDepth"]) + len(attenuations)
    limits = [context.max_depth, authority["maxChainDepth"]]
    limits += [
        authority["chainDepth"] + number + attenuation["maxChainDepth"]
        for number, attenuation in enumerate(attenuations, 1)
        if "maxChainDepth" in attenuation
    ]
    if depth > min(limits):
        detail = "the token is delegated further than it allows"
        raise TokenDeniedError("chain_depth_exceeded", detail, max=min(limits), actual=depth)
    return depth


def check_capability(scope: Authorized, namespace: str | None, action: str, resources: Sequence[str]) -> None:
    """Check that a scope grants an action on one of the resources, which are names of the same thing, the first to be
    shown. Without a namespace, any. Raises TokenDeniedError."""
    plain = [resource for resource in resources if not {".", ".."} & set(resource.split("/"))]
    for capability in scope.capabilities:
        is_action = namespace is None or capability["namespace"] in (namespace, "*")
        is_action = is_action and capability["action"] in (action, "*")
        with _denials():
            if is_action and any(matches(capability["resource"], resource, scope.steps) for resource in plain):
                return
    requested = {"namespace": namespace or "*", "action": action, "resource": resources[0]}
    detail = capability_text(requested, "is not granted for")
    raise TokenDeniedError(
        "capability_not_granted", detail[:300], requested=requested, granted=list(scope.capabilities)
    )


def verify_dct(serialized: Any, context: TokenContext) -> DocumentVerdict:
    """The verdict on a token, with the scope that it authorizes or the members of its denial."""
    revocation = "fresh" if context.revoked or context.revocations else "unchecked"
    try:
        scope = authorize(serialized, context)
    except TokenDeniedError as error:
        is_signed = error.code not in ("malformed_token", "invalid_signature", "weak-key", "revoked")
        is_unchecked = error.code == "revoked" or isinstance(error, UnknownIssuerError)
        return DocumentVerdict(
            error=error.code,
            detail=error.detail,
            integrity="verified" if is_signed else "unknown" if is_unchecked else "invalid",
            binding="pinned" if is_signed else "unverified",
            authority=authority_by(error) if is_signed else "unknown",
            revocation="revoked" if error.code == "revoked" else revocation if is_signed else "unchecked",
            members=error.members,
        )
    return DocumentVerdict(
        integrity="verified", binding="pinned", authority="valid", revocation=revocation, members={"scope": scope}
    )
