"""Documents of Motebit, completed and signed: members that follow from the key and the time are added, and the result
is verified before it is returned, as of the time that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from parsers.claims import ed25519, plain_yaml
from parsers.claims.canonical_json import DocumentError, base64url_text, jcs, without
from parsers.claims.motebit.bearer_token import sign_token, verify_token
from parsers.claims.motebit.delegations import (
    GRANT_SHAPE,
    REVOCATION_SHAPE,
    DelegationRules,
    check_signed,
    verify_delegation,
)
from parsers.claims.motebit.identifiers import HEX_SUITE, SUITE, TOKEN_SUITE, hex_bytes, sovereign_id
from parsers.claims.motebit.identity_file import signed_file, verify_identity
from parsers.claims.motebit.receipts import ReceiptRules, verify_receipt
from parsers.claims.motebit.succession import check_record
from parsers.claims.verdict import DocumentVerdict

Members = Mapping[str, Any]
_MINUTE = 60_000
TOKEN_MS, DELEGATION_MS, GRANT_MS = 5 * _MINUTE, 60 * _MINUTE, 30 * 24 * 60 * _MINUTE
"""How long documents are valid by default."""


class Signer(NamedTuple):
    """The Ed25519 key (32 bytes) that signs, the time (milliseconds since 1970, and by RFC 3339), the id of a new
    document; for a succession also the next key."""

    seed: bytes
    now: int
    time: str
    new_id: str
    new_seed: bytes | None = None

    @property
    def key(self) -> bytes:
        """The public key."""
        return ed25519.public_key_of(self.seed)

    def sign(self, body: dict[str, Any]) -> dict[str, Any]:
        """A record with the signature of its RFC 8785 form."""
        return {**body, "signature": base64url_text(ed25519.sign(self.seed, jcs(body)))}


def sign_document(kind: str, members: Any, signer: Signer) -> dict[str, Any] | str:
    """The signed document of a kind of KINDS with these members, a text for tokens and identity files. Raises
    DocumentError for members that give no document that verifies."""
    if not isinstance(members, dict):
        raise DocumentError("malformed", "the members of a document are a JSON object")
    return KINDS[kind](without(members, "signature"), signer)


def _whole(members: Members, defaults: Members, fixed: Members) -> dict[str, Any]:
    """The members with those that follow from the key, which no others replace."""
    different = next((name for name, value in fixed.items() if members.get(name, value) != value), None)
    if different is not None:
        raise DocumentError("key-mismatch", f"{different} is not {fixed[different]!r}, which the signature needs")
    return {**defaults, **members, **fixed}


def _require(verdict: DocumentVerdict) -> None:
    if verdict.error:
        raise DocumentError(verdict.error, verdict.detail, verdict.missing)


def _receipt(members: Members, signer: Signer) -> dict[str, Any]:
    """A member `prompt` is replaced by its hash."""
    key = signer.key
    texts = {f"{name}_hash": members.get(name) for name in ("result", "prompt")}
    hashes = {name: sha256(text.encode()).hexdigest() for name, text in texts.items() if isinstance(text, str)}
    defaults = {
        "task_id": signer.new_id, "motebit_id": sovereign_id(key), "device_id": "a2b", "submitted_at": signer.now,
        "completed_at": signer.now, "status": "completed", "tools_used": [], "memories_formed": 0,
    }  # fmt: skip
    fixed = {**hashes, "public_key": key.hex(), "suite": SUITE}
    document = signer.sign(_whole(without(members, "prompt"), defaults, fixed))
    rules = ReceiptRules(keys={str(document["motebit_id"]): key}, now=signer.now)
    _require(verify_receipt(document, rules))
    return document


def _delegator(signer: Signer) -> dict[str, Any]:
    return {"delegator_public_key": signer.key.hex(), "suite": SUITE}


def _parties(members: Members, signer: Signer) -> dict[str, Any]:
    delegate = hex_bytes(members.get("delegate_public_key"), ed25519.KEY_BYTES)
    ids = {} if delegate is None else {"delegate_id": sovereign_id(delegate)}
    return {"delegator_id": sovereign_id(signer.key), **ids, "issued_at": signer.now}


def _delegation(members: Members, signer: Signer) -> dict[str, Any]:
    defaults = {**_parties(members, signer), "expires_at": signer.now + DELEGATION_MS}
    document = signer.sign(_whole(members, defaults, _delegator(signer)))
    _require(verify_delegation(document, DelegationRules(keys={})))
    if document["expires_at"] <= document["issued_at"]:
        raise DocumentError("expired", "expires_at is not after issued_at")
    return document


def _grant(members: Members, signer: Signer) -> dict[str, Any]:
    defaults = {
        **_parties(members, signer), "grant_id": signer.new_id, "subject": "", "not_before": None,
        "expires_at": signer.now + GRANT_MS, "max_token_ttl_ms": DELEGATION_MS,
    }  # fmt: skip
    document = signer.sign(_whole(members, defaults, _delegator(signer)))
    check_signed(document, GRANT_SHAPE)
    return document


def _revocation(members: Members, signer: Signer) -> dict[str, Any]:
    defaults = {"delegator_id": sovereign_id(signer.key), "revoked_at": signer.now}
    document = signer.sign(_whole(members, defaults, _delegator(signer)))
    check_signed(document, REVOCATION_SHAPE)
    return document


def _token(members: Members, signer: Signer) -> str:
    issued = members.get("iat")
    issued = issued if isinstance(issued, int) else signer.now
    defaults = {
        "mid": sovereign_id(signer.key), "did": "a2b", "jti": signer.new_id, "iat": issued, "exp": issued + TOKEN_MS,
    }  # fmt: skip
    payload = _whole(members, defaults, {"suite": TOKEN_SUITE})
    token = sign_token(signer.seed, payload)
    _require(verify_token(token, {str(payload["mid"]): signer.key}, issued))
    return token


def _identity(members: Members, signer: Signer) -> str:
    defaults = {
        "spec": "motebit/identity@1.0", "motebit_id": sovereign_id(signer.key), "created_at": signer.time,
        "type": "service",
    }  # fmt: skip
    key = {"algorithm": "Ed25519", "public_key": signer.key.hex()}
    content = _whole(members, defaults, {"identity": key})
    text = signed_file(signer.seed, plain_yaml.dump(content))
    _require(verify_identity(text, {str(content["motebit_id"]): signer.key}))
    return text


def _succession(members: Members, signer: Signer) -> dict[str, Any]:
    if signer.new_seed is None:
        raise DocumentError("malformed", "a succession is signed by the new key, too", ["new_public_key"])
    keys = {"old_public_key": signer.key.hex(), "new_public_key": ed25519.public_key_of(signer.new_seed).hex()}
    body = _whole(members, {"timestamp": signer.now}, {**keys, "suite": HEX_SUITE})
    message = jcs(body)
    signatures = {"old_key_signature": signer.seed, "new_key_signature": signer.new_seed}
    document = {**body, **{name: ed25519.sign(seed, message).hex() for name, seed in signatures.items()}}
    check_record(document, None)
    return document


KINDS: dict[str, Callable[[Members, Signer], dict[str, Any] | str]] = {
    "receipt": _receipt,
    "delegation": _delegation,
    "grant": _grant,
    "revocation": _revocation,
    "token": _token,
    "identity": _identity,
    "succession": _succession,
}
"""The kinds of documents that are signed."""
