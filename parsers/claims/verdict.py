"""The verdict on a document: whether it is valid, why not, and what each axis establishes alone.

`verified` is true only where every rule of the kind holds; an axis that is not established never counts as a pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from parsers.claims.canonical_json import DocumentError

LEGACY = "legacy-profile"
"""The code of a document that verifies in the form from before suites, which never counts."""

SKEW_MS = 300_000
"""The milliseconds by which a signer's clock may be ahead: 5 minutes."""

UNCHECKED = frozenset((
    "unknown-key", "unknown-suite", "unsigned", "malformed-signature", "too-large", "too-deep", "too-many-values",
    "too-many-receipts",
))  # fmt: skip
"""Codes of documents whose signatures were not checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentVerdict:
    """`integrity` is verified, invalid, or unknown where no signature was checked; `binding` of the key to the identity
    is sovereign (the identity is derived from it), pinned (the caller has it), unverified or invalid; `authority` is
    valid, expired, not_yet_valid, insufficient or unknown; `revocation` is fresh, revoked or unchecked. `members` are
    those of the kind; `missing` names members that the document needs to count and does not have."""

    error: str = ""
    detail: str = ""
    integrity: str = "unknown"
    binding: str = "unverified"
    authority: str = "unknown"
    revocation: str = "unchecked"
    missing: tuple[str, ...] = ()
    members: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, fault: DocumentError | None, **axes: Any) -> DocumentVerdict:
        """The verdict with the rule that is broken first, if one is."""
        if fault is not None:
            axes |= {"error": fault.code, "detail": fault.detail, "missing": fault.missing}
        return cls(**axes)

    @property
    def verified(self) -> bool:
        """Whether every rule holds."""
        return not self.error

    def as_json(self) -> dict[str, Any]:
        """The answer of `POST /v1/verify/{kind}`."""
        why: dict[str, Any] = {"error": self.error, "detail": self.detail} if self.error else {}
        if self.missing:
            why["missing"] = list(self.missing)
        axes = {
            "integrity": self.integrity,
            "identityBinding": self.binding,
            "authority": self.authority,
            "revocation": {"status": self.revocation},
        }
        profile = {"profileVerified": True} if self.error == LEGACY else {}
        return {"verified": self.verified, **why, "axes": axes, **self.members, **profile}


def authority_by(fault: DocumentError | None) -> str:
    """The authority of a signed document by the rule that it breaks first."""
    if fault is None:
        return "valid"
    return {"expired": "expired", "not-yet-valid": "not_yet_valid"}.get(fault.code, "insufficient")


def refused(error: DocumentError, **members: Any) -> DocumentVerdict:
    """The verdict on a document that cannot be read, or breaks a rule of its kind."""
    integrity = "unknown" if error.code in UNCHECKED else "invalid"
    return DocumentVerdict.of(error, integrity=integrity, members=members)


def refused_part(error: DocumentError, integrity: str, **members: Any) -> DocumentVerdict:
    """The verdict on several documents, where one is refused with this integrity; of the later ones none was
    checked."""
    return DocumentVerdict.of(error, integrity="invalid" if integrity == "invalid" else "unknown", members=members)
