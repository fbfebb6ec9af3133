"""The overlay's own agent card, with the members of A2A 1.0 and of 0.3. Readers of one version skip the members of the
other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from overlay.api.base_url import NO_PUBLIC_URL
from overlay.api.identity_key import IdentityKey
from parsers.claims.canonical_json import base64url_text
from parsers.claims.card_forms import canonical_forms

KEYS_PATH = "/.well-known/jwks.json"
PRICES_EXTENSION = "https://github.com/b-open-io/bsv-mcp/blob/master/docs/a2b.md"
"""The extension of A2A that prices are: the specification of A2B."""

_MODES = ["text/plain", "application/json"]
_SKILL = {
    "id": "search",
    "name": "Search the A2B registry",
    "description": "Finds AI agents and MCP tools that are registered on chain, by words, skill, price, currency and "
    "more. Send a question as a text part, or the parameters of GET /v1/search as an object in a data part (such as "
    '{"q": "watchtower", "type": "agent", "maxPrice": "5", "priceCurrency": "USD"}), or both. The answer is a message '
    "with a text part and a data part: items, total, nextCursor (send it as cursor for the next page). Names and "
    "descriptions in it are strangers' texts.",
    "tags": ["search", "registry", "discovery", "agents", "mcp", "a2b"],
    "examples": ["lightning watchtower", "translate documents from Japanese", "MCP server for PostgreSQL"],
    "inputModes": _MODES,
    "outputModes": _MODES,
}


def own_card(base: str, version: str, *, is_configured: bool, prices: Sequence[Any] = ()) -> dict[str, Any]:
    """The card of the overlay at the URL `base`, which is the public one where `is_configured`. `prices` are also in
    the parameters of an extension, as signatures of A2A do not cover members that it does not define."""
    endpoint = f"{base}/a2a"
    capabilities: dict[str, Any] = {"streaming": False, "pushNotifications": False}
    if prices:
        extension = {"uri": PRICES_EXTENSION, "required": False, "params": {"x-payment-config": list(prices)}}
        capabilities["extensions"] = [extension]
    priced = {"x-payment-config": list(prices)} if prices else {}
    return priced | {
        "name": "A2B registry overlay",
        "description": "Search over AI agents and MCP tools that are registered on Bitcoin SV and other chains.",
        "version": version,
        "documentationUrl": f"{base}/docs",
        "supportedInterfaces": [
            {"url": endpoint, "protocolBinding": "JSONRPC", "protocolVersion": number} for number in ("1.0", "0.3")
        ],
        "protocolVersion": "0.3.0",
        "url": endpoint,
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [{"url": endpoint, "transport": "JSONRPC"}],
        "supportsAuthenticatedExtendedCard": False,
        "capabilities": capabilities,
        "defaultInputModes": _MODES,
        "defaultOutputModes": _MODES,
        "skills": [_SKILL],
        "metadata": {"publicUrl": base} if is_configured else {"publicUrl": None, "note": NO_PUBLIC_URL},
    }


def signed(card: dict[str, Any], base: str, identity: IdentityKey) -> dict[str, Any]:
    """The card with a signature by the server's Ed25519 key over the form that A2A 1.0 §8.4 defines."""
    header = {"alg": "EdDSA", "typ": "JOSE", "kid": public_jwk(identity)["kid"], "jku": f"{base}{KEYS_PATH}"}
    protected = base64url_text(json.dumps(header, separators=(",", ":")).encode())
    [payload] = [form.payload for form in canonical_forms(card) if form.name == "a2a-jcs"]
    signature = identity.sign_ed25519(f"{protected}.{base64url_text(payload)}".encode())
    return card | {"signatures": [{"protected": protected, "signature": base64url_text(signature)}]}


def public_jwk(identity: IdentityKey) -> dict[str, str]:
    """The server's Ed25519 key as a JSON Web Key (RFC 8037); its id is the key's thumbprint (RFC 7638)."""
    key = {"crv": "Ed25519", "kty": "OKP", "x": base64url_text(identity.ed25519_public)}
    thumbprint = sha256(json.dumps(key, sort_keys=True, separators=(",", ":")).encode()).digest()
    return key | {"kid": base64url_text(thumbprint), "use": "sig", "alg": "EdDSA"}
