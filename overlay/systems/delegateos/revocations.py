"""Signed revocations of blocks of capability tokens."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from overlay.api.problems import ProblemError, bad_request
from overlay.api.request_bodies import Body, checked
from overlay.systems.delegateos.delegated_access import DelegatedAccess, denial_problem
from parsers.claims.canonical_json import DocumentError
from parsers.claims.delegateos.capability_token import TokenDeniedError, check_revocation

_REVOCATION: dict[str, Any] = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("revocationId", "revokedBy", "revokedAt", "signature")}
    | {"scope": {"enum": ["block", "chain"]}},
    "required": ["revocationId", "revokedBy", "revokedAt", "signature", "scope"],
    "additionalProperties": False,
}
"""Its form is checked with its signature."""


class RevocationBody(Body):
    """A revocation of a block of capability tokens."""

    revocation: Any = Field(json_schema_extra=_REVOCATION)
    dct: str | None = Field(None, description="A token that has the block; needed where many revocations are stored.")


def store_revocation(access: DelegatedAccess, document: Any) -> dict[str, Any]:
    """Store `{revocation, dct?}`, or an entry alone. Raises ProblemError."""
    from overlay.systems.delegateos.store import RecordsFullError

    is_alone = not (isinstance(document, dict) and "revocation" in document)
    sent = checked(RevocationBody, {"revocation": document} if is_alone else document)
    entry = sent.revocation
    try:
        check_revocation(entry)
    except DocumentError as error:
        raise bad_request(error.code, error.detail, pointer="/revocation") from None
    try:
        access.revoke(entry, sent.dct)
    except TokenDeniedError as error:
        raise denial_problem(error) from None
    except RecordsFullError as error:
        raise ProblemError(503, str(error), headers={"Retry-After": "3600"}) from None
    return {name: entry[name] for name in ("revocationId", "revokedBy", "scope")}
