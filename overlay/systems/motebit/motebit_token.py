"""`a2b motebit-token`: a signed bearer token of Motebit, bound to one request. The key is never shown."""

from __future__ import annotations

import secrets
import time
from argparse import Namespace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from overlay.commands.options import UsageError, command
from overlay.commands.signing_keys import add_key, signing_key
from overlay.text.safe_text import on_one_line
from overlay.text.terminal import say

if TYPE_CHECKING:
    from overlay.commands.options import Commands

SECONDS = 300
"""The lifetime of a token, as of the tokens of Motebit's clients."""


def add(commands: Commands) -> None:
    """Add `a2b motebit-token`."""
    parser = command(
        commands, "motebit-token", motebit_token, "Print the header Authorization for one request to a Motebit relay.",
        more="The token is bound to the host of the URL and to the body, and counts for five minutes.",
    )  # fmt: skip
    parser.add_argument("audience", metavar="AUDIENCE", help="such as task:submit or account:balance")
    parser.add_argument("url", metavar="URL", help="the URL of the request, of which the host counts")
    parser.add_argument("body", metavar="FILE", type=Path, nargs="?", help="the body [none]")
    parser.add_argument("--mid", metavar="ID", help="the motebit_id [the one that is derived from the key]")
    add_key(parser)


def motebit_token(args: Namespace) -> int:
    """Print `Bearer motebit:TOKEN`."""
    from parsers.claims import ed25519
    from parsers.claims.motebit.bearer_token import PREFIX, canonical_host, sign_token
    from parsers.claims.motebit.identifiers import sovereign_id

    host = canonical_host(urlsplit(args.url).netloc)
    if not host:
        raise UsageError(f"{on_one_line(args.url)} is not a URL with a host")
    seed, now = signing_key(args), int(time.time() * 1_000)
    payload = {
        "mid": args.mid or sovereign_id(ed25519.public_key_of(seed)), "did": "a2b", "aud": args.audience, "iat": now,
        "exp": now + SECONDS * 1_000, "jti": secrets.token_urlsafe(16), "host": host,
        "bodySha256": sha256(args.body.read_bytes() if args.body else b"").hexdigest(),
    }  # fmt: skip
    say(f"{PREFIX}{sign_token(seed, payload)}")
    return 0
