"""Listings as the rows and resolution results of a Motebit relay, and the signed metadata of this one (discovery@1.0).
There is no federation, and where it lists agents only, no fee."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from overlay.api.base_url import listing_url
from overlay.api.identity_key import IdentityKey
from parsers.claims import plain_yaml
from parsers.claims.canonical_json import jcs
from parsers.claims.motebit.identifiers import HEX_SUITE, binding, sovereign_id
from parsers.claims.motebit.identity_file import signed_file
from parsers.claims.motebit.settlement import FEE_PERCENT, RelayAgent
from parsers.local_hosts import shared_url

SECONDS_FOUND, SECONDS_MISSING = 300, 60
"""Seconds for which a resolution may be cached."""


def agent(base: str, item: dict[str, Any], relay: str) -> dict[str, Any]:
    """A row of `agents`. `identity` is what supports `motebit_id` and `public_key`: `verified` (the host of the listing
    serves the identity file), `claimed` (its card has `x-motebit`), `refused` (its MCP endpoint failed the handshake,
    which `handshake` explains), `key-changed` (its host serves another key, which `key_change` names) or `none` (both
    are null)."""
    identity = item.get("motebit")
    row: dict[str, Any] = {
        "motebit_id": identity["id"] if identity else None,
        "public_key": identity["publicKey"] if identity else None,
        "did": identity["did"] if identity else None,
        "endpoint_url": shared_url(identity["endpoint"] if identity else item["url"]),
        "capabilities": identity["capabilities"] if identity else _skills(item),
        "display_name": item["name"],
        "description": item["description"],
        "metadata": {"name": item["name"], "description": item["description"]},
        "identity": level(item),
        "listing": listing_url(base, item["id"]),
        "hop_distance": 0,
    }
    if identity and "handshake" in identity:
        row["handshake"] = identity["handshake"]
    if identity and "reason" in identity:
        row["key_change"] = {name: identity[name] for name in ("pinned", "served", "since")}
    return row | ({"source_relay": relay} if relay else {})


def registered(agent: RelayAgent, relay: str) -> dict[str, Any]:
    """A row of `agents` for an agent that registered with this relay by its key and that no listing describes."""
    row: dict[str, Any] = {
        "motebit_id": agent.motebit_id,
        "public_key": agent.public_key.hex(),
        "did": None,
        "endpoint_url": shared_url(agent.endpoint),
        "capabilities": list(agent.capabilities),
        "display_name": agent.name,
        "description": agent.description,
        "metadata": {"name": agent.name, "description": agent.description},
        "identity": "registered",
        "listing": None,
        "hop_distance": 0,
        **agent.terms,
    }
    return row | ({"source_relay": relay} if relay else {})


def level(item: dict[str, Any]) -> str:
    """`verified`, `claimed`, `refused`, `key-changed` or `none`."""
    identity = item.get("motebit")
    if identity and "reason" in identity:
        return str(identity["reason"])
    if identity and identity.get("handshake", {}).get("state") == "refused":
        return "refused"
    return "none" if not identity else "verified" if identity["verified"] else "claimed"


def _skills(item: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(skill["id"] for skill in item["skills"]))


def best(base: str, items: Sequence[dict[str, Any]], relay: str) -> list[dict[str, Any]]:
    """The row that counts among listings of one identity (the oldest first), None without any. An identity verified by
    its host counts first, then an id derived from its key, then any other statement."""
    return [agent(base, min(items, key=_proof_order), relay)] if items else []


def resolution(base: str, motebit_id: str, rows: Sequence[dict[str, Any]], relay: str) -> dict[str, Any]:
    """An AgentResolutionResult from the first of these rows, if any."""
    via = [relay or base]
    if not rows:
        return {"motebit_id": motebit_id, "found": False, "resolved_via": via, "cached": False, "ttl": SECONDS_MISSING}
    return {
        "motebit_id": motebit_id,
        "found": True,
        "relay_id": via[0],
        "relay_url": base,
        "resolved_via": via,
        "cached": False,
        "ttl": SECONDS_FOUND,
    } | {name: rows[0][name] for name in _RESOLVED if name in rows[0]}


_RESOLVED = ("capabilities", "public_key", "endpoint_url", "identity", "key_change", "listing")


def _proof_order(item: dict[str, Any]) -> int:
    """0 for the best proof of an identity."""
    identity = item["motebit"]
    if identity["verified"]:
        return 0
    return 1 if binding(identity["id"], bytes.fromhex(identity["publicKey"]), {}) == "sovereign" else 2


PROTOCOL_VERSION = "1.0"


def relay_id(identity: IdentityKey | None) -> str:
    """The identity that commits to this registry's key, "" without one."""
    return sovereign_id(identity.ed25519_public) if identity else ""


def identity_file(identity: IdentityKey, public_url: str) -> str:
    """The signed identity file of this registry (identity@1.0). The key is also a member of its own, where the
    delegation specification has it."""
    key = identity.ed25519_public.hex()
    content = {
        "spec": "motebit/identity@1.0",
        "motebit_id": relay_id(identity),
        "public_key": key,
        "type": "service",
        "service_name": "A2B registry overlay",
        **({"service_url": public_url} if public_url else {}),
        "capabilities": ["discovery"],
        "identity": {"algorithm": "Ed25519", "public_key": key},
    }
    return signed_file(identity.ed25519, plain_yaml.dump(content))


def signed(identity: IdentityKey, base: str, agent_count: int, *, settles: bool) -> dict[str, Any]:
    """The metadata of a relay, which settles tasks or only lists agents, with an Ed25519 signature over its other
    members by RFC 8785."""
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
