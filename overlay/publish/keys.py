"""The publisher's private key: from a file or the environment, never from the command line, never shown."""

from __future__ import annotations

import os
import shlex
import stat
from dataclasses import dataclass, field
from pathlib import Path

from parsers.bitcoin import address, base58, signatures
from parsers.bitcoin.script import p2pkh

VARIABLE = "A2B_KEY"
MAX_BYTES = 1_024
_WIF = {0x80: "mainnet", 0xEF: "testnet"}


class PrivateKeyError(Exception):
    """A private key that cannot be used; the message names its source, and never repeats the key."""


@dataclass(frozen=True, slots=True)
class PublisherKey:
    """A private key of secp256k1 (32 bytes) and the network of its addresses."""

    private: bytes = field(repr=False)
    network: str

    @property
    def script(self) -> bytes:
        """The P2PKH script of its compressed public key."""
        return p2pkh(signatures.hash160(signatures.public_key(self.private)))

    @property
    def address(self) -> str:
        """The address of its compressed public key."""
        return address.owner(self.script, "bsv", self.network) or ""


def read(file: Path | None) -> PublisherKey:
    """The key in a file, else in `A2B_KEY`: WIF (compressed), or 64 hex digits for mainnet. Raises PrivateKeyError."""
    if file is None:
        source, text = VARIABLE, os.environ.get(VARIABLE, "")
        if not text:
            raise PrivateKeyError(f"no key: give --key-file FILE, or set {VARIABLE} (WIF, or 64 hex digits)")
    else:
        source = str(file)
        try:
            text = read_key_file(file, MAX_BYTES).decode("ascii")
        except UnicodeDecodeError:
            raise PrivateKeyError(f"the key file {file} is not text") from None
    return _parse(text.strip(), source)


def read_key_file(file: Path, most: int) -> bytes:
    """At most so many bytes of a file with a private key. Raises PrivateKeyError, also for a regular file that other
    users may read or write, as `ssh` refuses one."""
    try:
        with file.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            body = opened.read(most)
    except OSError as error:
        raise PrivateKeyError(f"the key file {file} cannot be read: {error.strerror}") from None
    if stat.S_ISREG(mode) and mode & 0o077:
        raise PrivateKeyError(
            f"{file} holds a private key, and its mode {mode & 0o777:03o} lets other users read or write it: chmod 600 "
            f"{shlex.quote(str(file))}"
        )
    return body


def _parse(text: str, source: str) -> PublisherKey:
    if len(text) == 64:
        try:
            return _checked(bytes.fromhex(text), "mainnet", source)
        except ValueError:
            raise PrivateKeyError(f"the key in {source} is not hex") from None
    raw = base58.decode(text, checksum=True)
    if raw is None:
        raise PrivateKeyError(f"the key in {source} is neither WIF nor 64 hex digits")
    if len(raw) == 33 and raw[0] in _WIF:
        raise PrivateKeyError(f"the key in {source} is for an uncompressed public key, whose address is another one")
    if len(raw) != 34 or raw[0] not in _WIF or raw[33] != 1:
        raise PrivateKeyError(f"the key in {source} is not a private key in WIF")
    return _checked(raw[1:33], _WIF[raw[0]], source)


def _checked(private: bytes, network: str, source: str) -> PublisherKey:
    try:
        signatures.public_key(private)
    except ValueError:
        raise PrivateKeyError(f"the key in {source} is out of range") from None
    return PublisherKey(private, network)
