"""Verification of a signed document by its kind: the document, the keys that the caller trusts, a time and a context.

Pure, and total: each fault of a document is a verdict with a code and a sentence, never an exception. What is
wrong with `keys`, `now` or `context` is the caller's mistake, a VerifyRequestError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from parsers.claims import card_signature
from parsers.claims.canonical_json import DocumentError, read
from parsers.claims.delegateos.capability_token import MAX_DEPTH, TokenContext, serialize_dct, verify_dct
from parsers.claims.delegateos.contracts import check_contract, verify_attestation, verify_contract_output
from parsers.claims.delegateos.signed_objects import trusted_principals
from parsers.claims.json_web_key import MAX_KEYS
from parsers.claims.motebit.bearer_token import verify_token
from parsers.claims.motebit.delegations import (
    DelegationRules,
    verify_delegation,
    verify_delegation_chain,
    verify_tick,
)
from parsers.claims.motebit.identifiers import key_ring
from parsers.claims.motebit.identity_file import verify_identity
from parsers.claims.motebit.receipts import (
    ReceiptRules,
    verify_receipt,
    verify_receipt_chain,
    verify_receipt_sequence,
)
from parsers.claims.mrp.signed_envelope import EnvelopeRules, mrp_keys, verify_envelope
from parsers.claims.record_shape import BOOLEAN, NUMBER, TEXT, TEXTS, MemberTest
from parsers.claims.rfc3339 import instant
from parsers.claims.verdict import DocumentVerdict, refused

_MILLISECOND = 1_000_000
MAX_SEEN = 1_000
_FEW_TEXTS: MemberTest = (
    lambda value: TEXTS[0](value) and len(value) <= MAX_SEEN,
    f"a list of at most {MAX_SEEN} texts",
)
_FEW: MemberTest = (lambda value: isinstance(value, list) and len(value) <= MAX_SEEN, f"a list of at most {MAX_SEEN}")


class VerifyRequestError(ValueError):
    """A request with a fault besides its document: the member, a code, and a sentence about the fault."""

    def __init__(self, member: str, code: str, detail: str) -> None:
        super().__init__(detail)
        self.member, self.code = member, code


class VerifyRequest(NamedTuple):
    """The inputs against which a document is verified. `now` is in nanoseconds since 1970."""

    document: Any
    keys: Any
    now: int
    context: Mapping[str, Any]

    @property
    def milliseconds(self) -> float:
        """The time in milliseconds since 1970."""
        return self.now / _MILLISECOND

    def member(self, name: str, test: MemberTest, default: Any = None) -> Any:
        """A member of the context, or the default where it is absent. Raises VerifyRequestError."""
        is_one, noun = test
        value = self.context.get(name)
        if value is not None and not is_one(value):
            raise VerifyRequestError(f"/context/{name}", "wrong-type", f"{name} is {noun}")
        return default if value is None else value

    @property
    def seen(self) -> frozenset[str]:
        """The texts that were used before. Raises VerifyRequestError."""
        return frozenset(self.member("seen", _FEW_TEXTS, ()))


class DocumentKind(NamedTuple):
    """How a kind is verified, and which members its context may have. `is_json`: its documents are JSON, which may come
    as a text, too."""

    verify: Callable[[VerifyRequest], DocumentVerdict]
    context: frozenset[str] = frozenset()
    is_json: bool = True


def _receipt_rules(request: VerifyRequest) -> ReceiptRules:
    return ReceiptRules(
        keys=key_ring(request.keys or {}),
        now=request.milliseconds,
        seen=request.seen,
        relay_task_id=request.member("relayTaskId", TEXT),
    )


def _delegation_rules(request: VerifyRequest) -> DelegationRules:
    now = request.milliseconds if request.member("checkExpiry", BOOLEAN, True) else None
    return DelegationRules(keys=key_ring(request.keys or {}), now=now, seen=request.seen)


def _delegation(request: VerifyRequest) -> DocumentVerdict:
    if "grant" not in request.context:
        return verify_delegation(request.document, _delegation_rules(request))
    revocations = request.member("revocations", _FEW)
    return verify_tick(request.document, request.context["grant"], revocations, _delegation_rules(request))


def _token(request: VerifyRequest) -> DocumentVerdict:
    keys, audience = key_ring(request.keys or {}), request.member("audience", TEXT)
    return verify_token(request.document, keys, request.milliseconds, audience=audience, seen=request.seen)


def _dct(request: VerifyRequest) -> DocumentVerdict:
    """Without an operation no capability is required; an operation needs its namespace. Clients send the root and the
    time of their own context, too: the members of the body win. The document may be the token that its text encodes."""
    document = request.document
    document = serialize_dct(document) if isinstance(document, dict) and "authority" in document else document
    operation, namespace, root = (request.member(name, TEXT) for name in ("operation", "namespace", "rootPublicKey"))
    if operation is not None and namespace is None:
        raise VerifyRequestError("/context/namespace", "missing", "an operation needs the namespace that it is of")
    keys = [root] if request.keys is None and root is not None else request.keys
    contract_id, required = _contract_terms(request)
    context = TokenContext(
        roots=trusted_principals(keys) or frozenset(),
        now=request.now,
        operation=operation,
        resource=request.member("resource", TEXT) or "*",
        namespace=namespace,
        spent=request.member("spentMicrocents", NUMBER, 0),
        max_depth=request.member("maxChainDepth", NUMBER, MAX_DEPTH),
        contract_id=contract_id,
        required=required,
        revoked=frozenset(request.member("revocationIds", _FEW_TEXTS, ())),
        revocations=request.member("revocations", _FEW, ()),
        seen=request.seen,
    )
    return verify_dct(document, context)


def _contract_terms(request: VerifyRequest) -> tuple[str | None, Sequence[str]]:
    """The contract that a token has to be for, and the capabilities that it requires (§5.2): of a signed contract in
    the context, else of a contract's id. Raises VerifyRequestError."""
    id_, contract = request.member("contractId", TEXT), request.context.get("contract")
    if contract is None:
        return id_, ()
    try:
        check_contract(contract, None)
    except DocumentError as error:
        raise VerifyRequestError("/context/contract", error.code, error.detail) from None
    if id_ not in (None, contract["id"]):
        raise VerifyRequestError("/context/contractId", "contract-mismatch", "contractId is not that of the contract")
    return contract["id"], contract["constraints"]["requiredCapabilities"]


def _pair(request: VerifyRequest, name: str, other: str) -> tuple[Any, Any]:
    """A document and its companion: both are members of the document by these names, or the companion is in the
    context, which then counts alone: the verifier names it, and not the signer."""
    document, of_context = request.document, request.context.get(other)
    if of_context is None and isinstance(document, dict) and set(document) == {name, other}:
        return document[name], document[other]
    return document, of_context


def _contract_output(request: VerifyRequest) -> DocumentVerdict:
    """A contract and an output."""
    contract, output = _pair(request, "contract", "output")
    return verify_contract_output(contract, output, trusted_principals(request.keys), request.now)


def _attestation(request: VerifyRequest) -> DocumentVerdict:
    """An attestation, and its contract if any."""
    attestation, contract = _pair(request, "attestation", "contract")
    return verify_attestation(attestation, contract, trusted_principals(request.keys))


def _envelope(request: VerifyRequest) -> DocumentVerdict:
    rules = EnvelopeRules(
        keys=mrp_keys(request.keys or []),
        now=request.now,
        seen=request.seen,
        is_strict=request.member("strict", BOOLEAN, False),
        must_be_signed=request.member("signed", BOOLEAN, True),
    )
    return verify_envelope(request.document, rules)


def _card(request: VerifyRequest) -> DocumentVerdict:
    """An A2A card, by the keys of a JWK Set or a list of JSON Web Keys."""
    keys = request.keys.get("keys") if isinstance(request.keys, dict) else request.keys or []
    if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
        raise VerifyRequestError("/keys", "wrong-type", "keys is a JWK Set, or a list of JSON Web Keys")
    if not isinstance(request.document, dict):
        raise DocumentError("malformed", "a card is a JSON object")
    check = card_signature.verify(request.document, keys[:MAX_KEYS])
    if not check.verified:
        return refused(DocumentError(check.code, _CARD_DETAILS[check.code]))
    members = {name: getattr(check, name) for name in ("algorithm", "kid", "form")}
    members["coversPricing"] = check.covers_pricing
    return DocumentVerdict(integrity="verified", binding="pinned", members=members)


_CARD_DETAILS = {
    "unsigned": "the card has no signatures",
    "malformed-signature": "no signature of the card is a detached JWS by a supported algorithm",
    "unknown-key": "no given key is that of a signature",
    "bad-signature": "no signature of the card verifies by the given keys",
}

_RECEIPT = frozenset(("seen", "relayTaskId"))
_DELEGATION = frozenset(("checkExpiry", "seen"))
KINDS: dict[str, DocumentKind] = {
    "receipt": DocumentKind(lambda request: verify_receipt(request.document, _receipt_rules(request)), _RECEIPT),
    "receipt-chain": DocumentKind(
        lambda request: verify_receipt_chain(request.document, _receipt_rules(request)), _RECEIPT
    ),
    "receipt-sequence": DocumentKind(
        lambda request: verify_receipt_sequence(request.document, _receipt_rules(request)), _RECEIPT
    ),
    "delegation": DocumentKind(_delegation, _DELEGATION | {"grant", "revocations"}),
    "delegation-chain": DocumentKind(
        lambda request: verify_delegation_chain(request.document, _delegation_rules(request)), _DELEGATION
    ),
    "token": DocumentKind(_token, frozenset(("audience", "seen")), is_json=False),
    "identity": DocumentKind(
        lambda request: verify_identity(request.document, key_ring(request.keys or {})), is_json=False
    ),
    "dct": DocumentKind(
        _dct,
        frozenset((
            "operation", "namespace", "resource", "spentMicrocents", "maxChainDepth", "contractId", "contract",
            "revocationIds", "revocations", "seen", "rootPublicKey", "now",
        )),
    ),
    "contract-output": DocumentKind(_contract_output, frozenset(("output",))),
    "attestation": DocumentKind(_attestation, frozenset(("contract",))),
    "mrp-envelope": DocumentKind(_envelope, frozenset(("seen", "strict", "signed"))),
    "card-signature": DocumentKind(_card),
}  # fmt: skip
"""The kinds of `POST /v1/verify/{kind}`."""

MEMBERS = ("document", "keys", "now", "context")


def verify_document(kind: str, body: bytes, now: int) -> DocumentVerdict:
    """The verdict on the document in a JSON body with the members of MEMBERS. `now` (nanoseconds since 1970) is the
    time where the body has none. Raises VerifyRequestError."""
    try:
        request = _request(read(body), KINDS[kind], now)
        return KINDS[kind].verify(request)
    except DocumentError as error:
        if error.code == "bad-keys":
            raise VerifyRequestError("/keys", error.code, error.detail) from None
        return refused(error)


def _request(body: Any, kind: DocumentKind, now: int) -> VerifyRequest:
    if not isinstance(body, dict) or "document" not in body:
        detail = f"the body is a JSON object with a document, and with {', '.join(MEMBERS[1:])} if need be"
        raise VerifyRequestError("/document", "missing", detail)
    _check_members(body, MEMBERS, "")
    document, context = body["document"], body.get("context")
    if kind.is_json and isinstance(document, str) and document[:1] in ("{", "["):
        document = read(document.encode("utf-8", "surrogatepass"))
    members = _context(context, kind)
    own_time = _time(members.get("now"), now, "/context/now")
    return VerifyRequest(document, body.get("keys"), _time(body.get("now"), own_time), members)


def _context(context: Any, kind: DocumentKind) -> dict[str, Any]:
    if context is None:
        return {}
    if not isinstance(context, dict):
        raise VerifyRequestError("/context", "wrong-type", "context is an object")
    _check_members(context, sorted(kind.context), "/context")
    return {name: value for name, value in context.items() if value is not None}


def _check_members(value: Mapping[str, Any], allowed: Sequence[str], pointer: str) -> None:
    strange = next((name for name in value if name not in allowed), None)
    if strange is not None:
        names = f"the members are {', '.join(allowed)}" if allowed else "there are no members"
        detail = f"the member {strange[:100]!a} is unknown: {names}"
        raise VerifyRequestError(f"{pointer}/{strange[:100]}", "unknown-member", detail)


def _time(value: Any, now: int, member: str = "/now") -> int:
    """A time in milliseconds since 1970, or by RFC 3339, in nanoseconds."""
    if value is None:
        return now
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 10**15
    time = int(value) * _MILLISECOND if is_number else instant(value)
    if time is None:
        raise VerifyRequestError(member, "wrong-type", "now is in milliseconds since 1970, or a time by RFC 3339")
    return time
