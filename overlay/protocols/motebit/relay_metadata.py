"""What this registry is to Motebit agents: the signed metadata of a relay (discovery@1.0). It lists agents only: there
is no fee, no federation, and the capability is `discovery`."""

from __future__ import annotations

from typing import Any

from overlay.api.identity_key import IdentityKey
from parsers.claims.canonical_json import jcs
from parsers.claims.motebit.identifiers import HEX_SUITE, sovereign_id

PROTOCOL_VERSION = "1.0"


def relay_id(identity: IdentityKey | None) -> str:
    """The identity that commits to this registry's key, "" without one."""
    return sovereign_id(identity.ed25519_public) if identity else ""


def signed(identity: IdentityKey, base: str, agent_count: int) -> dict[str, Any]:
    """The metadata, with an Ed25519 signature over its other members by RFC 8785."""
    body = {
        "protocol_version": PROTOCOL_VERSION,
        "relay_id": relay_id(identity),
        "public_key": identity.ed25519_public.hex(),
        "endpoint_url": base,
        "capabilities": ["discovery"],
        "fee_rate": 0,
        "federation_peers": [],
        "agent_count": agent_count,
        "suite": HEX_SUITE,
    }
    return body | {"signature": identity.sign_ed25519(jcs(body)).hex()}
