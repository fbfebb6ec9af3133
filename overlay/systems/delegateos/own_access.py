"""What checks capability tokens on this server: those of the configured issuers, and of this server's key."""

from __future__ import annotations

from overlay.api.shared_services import VERIFIER
from overlay.api.systems import Parts, Services
from overlay.systems.delegateos import delegated_calls
from overlay.systems.delegateos.delegated_access import ACCESS, DelegatedAccess
from overlay.systems.delegateos.store import DelegationRecords
from parsers.claims.canonical_json import base64url_text


def bring(parts: Parts) -> Services:
    """The services."""
    own_keys = [] if parts.identity is None else [base64url_text(parts.identity.ed25519_public)]
    roots = (*parts.settings.delegation_roots, *own_keys)
    access = DelegatedAccess(roots, DelegationRecords(parts.store.primary))
    return {ACCESS: access, VERIFIER: delegated_calls}
