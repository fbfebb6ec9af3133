"""`a2b motebit sign`: documents of Motebit, completed and signed on this machine. Keys are never shown."""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from overlay.commands.options import UsageError, command
from overlay.commands.signing_keys import add_key, add_members, members_of, read_key, signing_key
from overlay.text.terminal import say, say_json
from overlay.text.timestamps import timestamp

if TYPE_CHECKING:
    from overlay.commands.options import Commands

_KINDS = ("receipt", "delegation", "grant", "revocation", "token", "identity", "succession")


def add(commands: Commands) -> None:
    """Add `a2b motebit sign`."""
    parser = command(
        commands, "motebit sign", motebit_sign,
        "Print a signed document of Motebit that verifies. Exit code 1 where the members make none.",
        more="What follows from the key and the time is added (see docs/claims.md).",
    )  # fmt: skip
    parser.add_argument("kind", metavar="KIND", choices=_KINDS, help=f"one of {', '.join(_KINDS)}")
    add_members(parser)
    add_key(parser)
    parser.add_argument("--new-key-file", metavar="FILE", type=Path, help="of a succession, the key that follows")


def motebit_sign(args: Namespace) -> int:
    """Print the document."""
    from parsers.claims.motebit.signing import Signer, sign_document

    if args.kind == "succession" and args.new_key_file is None:
        raise UsageError("a succession needs --new-key-file FILE, the key that follows")
    new_seed = None if args.new_key_file is None else read_key(args.new_key_file)
    now = time.time()
    signer = Signer(signing_key(args), int(now * 1_000), timestamp(int(now)), str(uuid4()), new_seed)
    document = sign_document(args.kind, members_of(args), signer)
    if isinstance(document, str):
        say(document.removesuffix("\n"))
    else:
        say_json(document)
    return 0
