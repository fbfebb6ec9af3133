"""This server's own signing keys: Ed25519 and secp256k1, in a file of mode 0600. They sign statements about the server
and its deliveries; they never hold funds, and the private parts are never shown."""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indexer.durable_files import put
from overlay.publish.keys import PrivateKeyError, read_key_file
from parsers.bitcoin import signatures

MAX_BYTES = 64 << 10
_MEMBERS = ("ed25519", "secp256k1")


class IdentityKeyError(Exception):
    """The file of the keys cannot be used; the message names it and gives the reason."""


@dataclass(frozen=True, slots=True)
class IdentityKey:
    """The private keys, 32 bytes each."""

    ed25519: bytes = field(repr=False)
    secp256k1: bytes = field(repr=False)

    @property
    def ed25519_public(self) -> bytes:
        """The Ed25519 public key (32 bytes)."""
        return Ed25519PrivateKey.from_private_bytes(self.ed25519).public_key().public_bytes_raw()

    @property
    def secp256k1_public(self) -> bytes:
        """The secp256k1 public key (33 bytes, compressed)."""
        return signatures.public_key(self.secp256k1)

    def as_json(self) -> dict[str, str]:
        """The members of its file, as hex digits."""
        return {name: getattr(self, name).hex() for name in _MEMBERS}

    def sign_ed25519(self, message: bytes) -> bytes:
        """The signature (64 bytes, RFC 8032) of a message."""
        return Ed25519PrivateKey.from_private_bytes(self.ed25519).sign(message)


def parse(document: Any) -> IdentityKey:
    """The keys of the JSON in a file. Raises ValueError, KeyError, TypeError."""
    key = IdentityKey(*(bytes.fromhex(document[name]) for name in _MEMBERS))
    if len(key.ed25519) != 32:
        raise ValueError("ed25519 has not 32 bytes")
    signatures.public_key(key.secp256k1)
    return key


def read(file: Path) -> IdentityKey:
    """The keys of a file: a JSON object with `ed25519` and `secp256k1`, each 64 hex digits.

    Raises IdentityKeyError, also for a file that other users may read.
    """
    try:
        return parse(json.loads(read_key_file(file, MAX_BYTES)))
    except PrivateKeyError as error:
        raise IdentityKeyError(f"A2B_IDENTITY_KEY: {error}") from None
    except (ValueError, KeyError, TypeError):
        members = " and ".join(_MEMBERS)
        raise IdentityKeyError(
            f"{file} is not an identity key: a JSON object with {members}, 64 hex digits each"
        ) from None


def read_or_create(file: Path) -> IdentityKey:
    """The keys of a file, which is created with new ones where it is missing. Raises IdentityKeyError."""
    return restore(file, IdentityKey(secrets.token_bytes(32), secrets.token_bytes(32)))


def restore(file: Path, key: IdentityKey) -> IdentityKey:
    """The keys of a file, which is created with these where it is missing. Raises IdentityKeyError."""
    if not file.exists():
        try:
            with suppress(FileExistsError):  # where several workers start, the first one's keys count
                put(file, json.dumps(key.as_json()).encode(), replace=False, mode=0o600)
        except OSError as error:
            raise IdentityKeyError(f"the identity key {file} cannot be created: {error.strerror}") from None
    return read(file)
