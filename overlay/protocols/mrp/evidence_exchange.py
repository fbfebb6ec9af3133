"""EVIDENCE: what an agent signed of its work is checked and taken in as evidence of it. The signed EXECUTE that it
replies to may come with it, as `provenance.request`: it makes whoever signed it the second party."""

from __future__ import annotations

from functools import partial
from typing import Any

from aiohttp import web

from overlay.api.answers import SERVICES
from overlay.api.publisher_api import run
from overlay.api.request_bodies import checked
from overlay.protocols.mrp.authentication import VERIFIED, key_of
from overlay.protocols.mrp.envelopes import Envelope, EvidencePayload, MrpError
from overlay.protocols.mrp.route_ids import parse_route
from parsers.claims.canonical_json import ClaimRefusedError, base64url_text
from parsers.claims.mrp.artifact_hashes import check_outputs
from parsers.claims.mrp.signed_envelope import AUTH

_CODES = {"not-bound": "MRP_POLICY_VIOLATION", "key-bound": "MRP_POLICY_VIOLATION", AUTH: AUTH}


async def evidence(request: web.Request, envelope: Envelope) -> tuple[str, dict[str, Any]]:
    """EVIDENCE to EVIDENCE: what was stored. Raises MrpError."""
    intake, verified = request.app[SERVICES].evidence, request.get(VERIFIED)
    if intake is None:
        raise MrpError("MRP_POLICY_VIOLATION", "this server takes no evidence")
    if verified is None:
        raise MrpError(AUTH, "EVIDENCE is signed by the agent that worked: auth.type is signed")
    payload = checked(EvidencePayload, envelope.payload)
    keys, document = {verified.key_id: verified.key}, {"envelope": verified.message}
    if isinstance(order := payload.provenance.get("request"), dict):
        signer = await key_of(request, order)
        if keys.setdefault(signer.key_id, signer.key) != signer.key:
            raise MrpError("MRP_INVALID_REQUEST", "two keys have the same key_id: name them differently")
        document["request"] = order
    shown = [{"key_id": id_, "alg": "EdDSA", "public_key": base64url_text(key)} for id_, key in keys.items()]
    route = parse_route(payload.route_id)
    listing = None if route is None else route.listing
    submit = partial(intake.submit, "mrp-evidence", document | {"keys": {"keys": shown}}, listing=listing)
    try:
        hashes = await run(request, check_outputs, payload.outputs)
        accepted = await run(request, submit)
    except ClaimRefusedError as error:
        raise MrpError(_CODES.get(error.code, "MRP_INVALID_REQUEST"), error.detail, reason=error.code) from None
    stored = accepted.as_json()
    return "EVIDENCE", {
        "route_id": payload.route_id,
        "provenance": {"evidence": stored["document"], "new": stored["new"], "listings": stored["listings"],
                       "hashes_checked": hashes},
    }  # fmt: skip
