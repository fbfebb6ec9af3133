"""`a2b mrp`: envelopes of MRP, completed and signed on this machine. Keys are never shown."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING
from uuid import uuid4

from overlay.commands.options import command
from overlay.commands.signing_keys import add_key, add_members, members_of, signing_key
from overlay.text.terminal import say_json
from overlay.text.timestamps import timestamp

if TYPE_CHECKING:
    from overlay.commands.options import Commands

SECONDS = 300
"""How long an envelope is valid by default."""


def add(commands: Commands) -> None:
    """Add `a2b mrp` and its subcommands."""
    nested = command(
        commands, "mrp", lambda _: 2, "Sign envelopes of MRP (see docs/rating.md)."
    ).add_subparsers(metavar="ACTION", required=True)  # fmt: skip
    parser = command(
        nested, "sign", sign, "Print a signed envelope that verifies by the strict schemas.",
        more="Version, msg_id, timestamp, nonce, expires_at and auth are added. Exit code 1 where it does not verify.",
    )  # fmt: skip
    add_members(parser)
    _add_key_id(parser)
    _add_key_id(command(nested, "keys", keys, "Print the key document, as at /.well-known/mrp-keys.json."))


def _add_key_id(parser: ArgumentParser) -> None:
    parser.add_argument("--key-id", metavar="ID", help="the id of the key [from its SHA-256]")
    add_key(parser)


def sign(args: Namespace) -> int:
    """Print the envelope."""
    from parsers.claims import ed25519
    from parsers.claims.canonical_json import DocumentError
    from parsers.claims.mrp.signed_envelope import INVALID, EnvelopeRules, key_id, sign_envelope, verify_envelope
    from parsers.claims.rfc3339 import instant

    now, members, seed = int(time.time()), members_of(args), signing_key(args)
    if not isinstance(members, dict) or not isinstance(members.get("auth", {}), dict):
        raise DocumentError(INVALID, "an envelope is a JSON object, and so is its auth")
    defaults = {
        "mrp_version": "0.1", "msg_id": str(uuid4()), "timestamp": timestamp(now), "nonce": str(uuid4()),
        "expires_at": timestamp(now + SECONDS),
    }  # fmt: skip
    name = args.key_id or key_id(seed)
    envelope = sign_envelope(seed, name, {**defaults, **members})
    time_of_it = instant(envelope["timestamp"]) or 0
    keys = {name: ed25519.public_key_of(seed)}
    verdict = verify_envelope(envelope, EnvelopeRules(keys=keys, now=time_of_it, is_strict=True))
    if verdict.error:
        raise DocumentError(verdict.error, verdict.detail, verdict.missing)
    say_json(envelope)
    return 0


def keys(args: Namespace) -> int:
    """Print the key document."""
    from parsers.claims.mrp.signed_envelope import key_document, key_id

    seed = signing_key(args)
    say_json({"keys": [key_document(seed, args.key_id or key_id(seed))]})
    return 0
