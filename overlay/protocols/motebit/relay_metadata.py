"""What this registry is to Motebit agents: the signed metadata of a relay (discovery@1.0). There is no federation, and
where it lists agents only, no fee."""

from __future__ import annotations

from typing import Any

from overlay.api.identity_key import IdentityKey
from parsers.claims.canonical_json import jcs
from parsers.claims.motebit.identifiers import HEX_SUITE, sovereign_id
from parsers.claims.motebit.settlement import FEE_PERCENT

PROTOCOL_VERSION = "1.0"


def relay_id(identity: IdentityKey | None) -> str:
    """The identity that commits to this registry's key, "" without one."""
    return sovereign_id(identity.ed25519_public) if identity else ""


def signed(identity: IdentityKey, base: str, agent_count: int, *, settles: bool) -> dict[str, Any]:
    """The metadata, of a relay that settles tasks or of one that only lists agents, with an Ed25519 signature over its
    other members by RFC 8785."""
    body = {
        "protocol_version": PROTOCOL_VERSION,
        "relay_id": relay_id(identity),
        "public_key": identity.ed25519_public.hex(),
        "endpoint_url": base,
        "capabilities": ["discovery", *(("task_routing", "settlement") if settles else ())],
        "fee_rate": FEE_PERCENT / 100 if settles else 0,
        "federation_peers": [],
        "agent_count": agent_count,
        "suite": HEX_SUITE,
    }
    return body | {"signature": identity.sign_ed25519(jcs(body)).hex()}
