"""Private keys that sign Bitcoin Signed Messages, for tests that must run where bitcoinX is not installed."""

from __future__ import annotations

from typing import NamedTuple

import base58
import wallycore

from parsers.bitcoin.signatures import hash160, signed_message_digest


class MessageKey(NamedTuple):
    """A private key, as a number."""

    secret: int

    def public(self, *, compressed: bool = True) -> bytes:
        """The public key, serialised by SEC 1."""
        key = bytes(wallycore.ec_public_key_from_private_key(self.secret.to_bytes(32, "big")))
        return key if compressed else bytes(wallycore.ec_public_key_decompress(key))

    def address(self, *, compressed: bool = True, version: int = 0) -> str:
        """Its P2PKH address; version 0 is the main network's, 0x6f the test networks'."""
        digest = hash160(self.public(compressed=compressed))
        return str(base58.b58encode_check(bytes([version]) + digest).decode())

    def sign_message(self, message: bytes, *, compressed: bool = True) -> bytes:
        """A compact signature of 65 bytes."""
        flags = wallycore.EC_FLAG_ECDSA | wallycore.EC_FLAG_RECOVERABLE
        secret, digest = self.secret.to_bytes(32, "big"), signed_message_digest(message)
        signature = bytes(wallycore.ec_sig_from_bytes(secret, digest, flags))
        return signature if compressed else bytes([signature[0] - 4]) + signature[1:]
