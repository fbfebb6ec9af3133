"""Identity files of Motebit, `motebit.md` (identity@1.0): YAML between `---` lines, and its signature in a comment.

The signature is over the bytes of the YAML; text around it is not signed. A file with the comment from before suites,
or with `public_key` at the top instead of in `identity`, as the delegation specification names it, has the profile
`legacy`: every other rule is checked, and it never counts.

Codes: malformed, legacy-profile, too-large, weak-key, bad-signature, key-mismatch, bad-guardian, broken-succession.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from parsers.claims import ed25519, plain_yaml
from parsers.claims.canonical_json import DocumentError, jcs
from parsers.claims.motebit.identifiers import (
    HEX_SUITE,
    KeyRing,
    binding,
    check_key,
    check_signature,
    did_key,
    hex_bytes,
    without_suite,
)
from parsers.claims.motebit.succession import SuccessionCheck, check_succession
from parsers.claims.record_shape import NAME, OBJECT, OBJECTS, TEXT, TEXTS, RecordShape
from parsers.claims.verdict import LEGACY, DocumentVerdict, refused

MAX_BYTES = 128 << 10
_OPEN, _CLOSE = "---\n", "\n---"
_COMMENT, _COMMENT_END = f"<!-- motebit:sig:{HEX_SUITE}:", " -->"
_LEGACY_COMMENT = "<!-- motebit:sig:Ed25519:"

SHAPE = RecordShape(
    "an identity file",
    {"motebit_id": NAME, "identity": OBJECT},
    {
        **dict.fromkeys(("spec", "owner_id", "type", "service_name", "service_description", "service_url"), TEXT),
        "capabilities": TEXTS,
        "guardian": OBJECT,
        "succession": OBJECTS,
    },
    is_open=True,
)
_LEGACY_SHAPE = RecordShape(
    SHAPE.noun, {"motebit_id": NAME, "public_key": NAME}, {**SHAPE.optional, "identity": OBJECT}, is_open=True
)


class IdentityFile(NamedTuple):
    """The signed text of a file, its content, its key and signature as they are written. `missing`: the members that
    the profile `legacy` does not have; `is_base64url`: the signature is of the form before suites."""

    signed_text: str
    content: dict[str, Any]
    public_key: Any
    signature: str
    is_base64url: bool
    missing: tuple[str, ...] = ()


def signed_file(seed: bytes, text: str) -> str:
    """The identity file of a YAML text, signed by the key with this seed."""
    return f"{_OPEN}{text}{_CLOSE}\n{_COMMENT}{ed25519.sign(seed, text.encode()).hex()}{_COMMENT_END}\n"


def parse_identity(text: Any) -> IdentityFile:
    """The parts of an identity file, unverified. Raises DocumentError."""
    if not isinstance(text, str) or len(text) > MAX_BYTES:
        code = "too-large" if isinstance(text, str) else "malformed"
        raise DocumentError(code, f"an identity file is a text of at most {MAX_BYTES:,} characters")
    start = text.find(_OPEN)
    if start == -1:
        raise DocumentError("malformed", "Missing frontmatter opening ---")
    start += len(_OPEN)
    end = text.find(_CLOSE, start)
    if end == -1:
        raise DocumentError("malformed", "Missing frontmatter closing ---")
    content = plain_yaml.load(text[start:end])
    is_flat = isinstance(content, dict) and "identity" not in content and "public_key" in content
    (_LEGACY_SHAPE if is_flat else SHAPE).check(content)
    missing: tuple[str, ...] = ("identity.public_key",) if is_flat else ()
    signature, is_base64url = _signature(text, missing)
    public_key = content["public_key"] if is_flat else content["identity"].get("public_key")
    missing += (_COMMENT,) if is_base64url else ()
    return IdentityFile(text[start:end], content, public_key, signature, is_base64url, missing)


def _signature(text: str, missing: tuple[str, ...]) -> tuple[str, bool]:
    """The text of the first signature comment, and whether it is of the form before suites."""
    comment = next((comment for comment in (_COMMENT, _LEGACY_COMMENT) if comment in text), None)
    if comment is None:
        detail = f"Missing signature comment (expected {_COMMENT}…{_COMMENT_END})"
        raise DocumentError("malformed", detail, (*missing, _COMMENT))
    start = text.index(comment) + len(comment)
    end = text.find(_COMMENT_END, start)
    if end == -1:
        raise DocumentError("malformed", "Malformed signature")
    return text[start:end], comment == _LEGACY_COMMENT


def verify_identity(text: Any, keys: KeyRing) -> DocumentVerdict:
    """The verdict on an identity file: its signature, its guardian's attestation and the succession of its keys."""
    try:
        file = parse_identity(text)
        key = _check_file(file)
    except DocumentError as error:
        return refused(error, profile="unknown")
    succession = _succession(file.content, key)
    identity = file.content["motebit_id"]
    bound = binding(identity, key, keys)
    if bound == "unverified" and succession is not None and succession.valid:
        bound = binding(identity, bytes.fromhex(succession.genesis), keys)
    code, detail = "", ""
    if bound == "invalid":
        code, detail = "key-mismatch", "the key is not the one that you trust"
    if succession is not None and not succession.valid:
        code, detail = "broken-succession", succession.error
    if file.missing:
        code, detail = (code, detail) if code else (LEGACY, _legacy_detail(file))
        return refused(DocumentError(code, detail, file.missing), profile="legacy")
    members: dict[str, Any] = {"profile": "current", "did": did_key(key), "identity": file.content}
    if succession is not None:
        members["succession"] = succession.as_json()
    return DocumentVerdict(error=code, detail=detail, integrity="verified", binding=bound, members=members)


def _check_file(file: IdentityFile) -> bytes:
    """The key of a file that it signed. Raises DocumentError."""
    if not file.public_key:
        raise DocumentError("malformed", "No public key in frontmatter", ["identity.public_key"])
    key = hex_bytes(file.public_key, ed25519.KEY_BYTES)
    if key is None:
        raise DocumentError("malformed", "Public key must be 32 bytes")
    message = file.signed_text.encode("utf-8", "surrogatepass")
    if file.is_base64url:
        check_signature(file.signature, message, key)
    else:
        signature = hex_bytes(file.signature, ed25519.SIGNATURE_BYTES)
        if signature is None:
            raise DocumentError("bad-signature", "Signature must be 64 bytes")
        check_key(key)
        if not ed25519.verifies(key, signature, message):
            raise DocumentError("bad-signature", "Signature verification failed")
    _check_guardian(file.content)
    return key


def _legacy_detail(file: IdentityFile) -> str:
    if not file.is_base64url:
        return f"{without_suite(HEX_SUITE)}, and the key as identity.public_key"
    return (
        "Legacy identity-file signature format detected (motebit:sig:Ed25519:). "
        f"Re-sign under {HEX_SUITE} — no legacy fallback."
    )


def _check_guardian(content: dict[str, Any]) -> None:
    guardian = content.get("guardian") or {}
    if not guardian.get("attestation") or not guardian.get("public_key"):
        return
    key = hex_bytes(guardian["public_key"], ed25519.KEY_BYTES)
    if key is None:
        raise DocumentError("bad-guardian", "Guardian public key must be 32 bytes")
    attestation = hex_bytes(guardian["attestation"], ed25519.SIGNATURE_BYTES) or b""
    statement = {
        "action": "guardian_attestation",
        "guardian_public_key": guardian["public_key"],
        "motebit_id": content["motebit_id"],
    }
    if not ed25519.verifies(key, attestation, jcs(statement)):
        raise DocumentError("bad-guardian", "Guardian attestation signature verification failed")


def _succession(content: dict[str, Any], key: bytes) -> SuccessionCheck | None:
    records = content.get("succession")
    if not records:
        return None
    guardian = (content.get("guardian") or {}).get("public_key")
    return check_succession(records, key.hex(), guardian if isinstance(guardian, str) else None)


def verify_relay_metadata(metadata: Any) -> DocumentVerdict:
    """The verdict on the metadata of a relay (discovery@1.0): signed by the key that it names."""
    shape = RecordShape("relay metadata", {"relay_id": NAME, "public_key": NAME, "signature": NAME}, {}, is_open=True)
    try:
        shape.check(metadata)
        if metadata.get("suite") != HEX_SUITE:
            raise DocumentError("unknown-suite", f"suite is not {HEX_SUITE}")
        key, signature = hex_bytes(metadata["public_key"], 32), hex_bytes(metadata["signature"], 64)
        body = jcs({name: member for name, member in metadata.items() if name != "signature"})
        if key is None or signature is None or not ed25519.verifies(key, signature, body):
            raise DocumentError("bad-signature", "the signature does not verify")
    except DocumentError as error:
        return refused(error)
    return DocumentVerdict(integrity="verified", binding=binding(metadata["relay_id"], key, {}))
