"""`a2b motebit key`: the member of an agent card that names the key of its receipts. The key itself is never shown."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from overlay.commands.options import command
from overlay.commands.signing_keys import add_key, signing_key
from overlay.text.terminal import say_json

if TYPE_CHECKING:
    from overlay.commands.options import Commands

SPEC = "motebit/identity@1.0"


def add(commands: Commands) -> None:
    """Add `a2b motebit key`."""
    parser = command(
        commands, "motebit key", motebit_key,
        "Print the member of an agent card that names the key by which it signs receipts of its work.",
        more="Put it into the card before it is inscribed; receipts then count for the listing (see docs/rating.md).",
    )  # fmt: skip
    add_key(parser)


def motebit_key(args: Namespace) -> int:
    """Print the member, with the identity that follows from the key."""
    from parsers.claims import ed25519
    from parsers.claims.motebit.identifiers import did_key, sovereign_id

    key = ed25519.public_key_of(signing_key(args))
    member = {"motebit_id": sovereign_id(key), "did": did_key(key), "public_key": key.hex(), "spec": SPEC}
    say_json({"x-motebit": member})
    return 0
