"""The Ed25519 key that a command signs with, from a file or the environment, never from the command line; and the
members of the document that it signs."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from overlay.commands.options import UsageError

VARIABLE = "A2B_DCT_KEY"
MAX_FILE = 64 << 10
"""Bytes of a file."""


def add_key(parser: ArgumentParser) -> None:
    """Add the option that names a key file."""
    parser.add_argument("--key-file", metavar="FILE", type=Path, help=f"the key, or an identity.json [{VARIABLE}]")


def signing_key(args: Namespace) -> bytes:
    """The key, 32 bytes. Raises UsageError, which never repeats it, and PrivateKeyError."""
    return read_key(args.key_file)


def read_key(file: Path | None) -> bytes:
    """The key in a file, by default that of the environment, 32 bytes. Raises UsageError, which never repeats it, and
    PrivateKeyError for a file that cannot be read, or that other users can."""
    from overlay.publish.keys import read_key_file

    text = read_key_file(file, MAX_FILE).decode(errors="replace").strip() if file else os.environ.get(VARIABLE, "")
    if text.startswith("{"):
        try:
            text = str(json.loads(text)["ed25519"])
        except (ValueError, KeyError):
            text = "an object without a key"
    try:
        seed = bytes.fromhex(text)
    except ValueError:
        seed = b""
    if len(seed) != 32:
        source = file or VARIABLE
        raise UsageError(f"{source} is not a key: give --key-file FILE, or set {VARIABLE}, to 64 hex digits")
    return seed


def add_members(parser: ArgumentParser) -> None:
    """Add the argument that names the file of a document's members."""
    parser.add_argument("file", metavar="FILE", help="its members as a JSON object, - for standard input")


def members_of(args: Namespace) -> Any:
    """The JSON of that file. Raises DocumentError."""
    from parsers.claims.canonical_json import MAX_BYTES, read

    if args.file == "-":
        return read(sys.stdin.buffer.read(MAX_BYTES + 1))
    with Path(args.file).open("rb") as opened:
        return read(opened.read(MAX_BYTES + 1))
