"""This server's own keys: created once, readable by nobody else, and refused where they are not."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from overlay.api.identity_key import IdentityKeyError, read, read_or_create
from parsers.bitcoin.signatures import is_signed, sign


def test_keys_are_created_once_also_by_several_workers(tmp_path: Path) -> None:
    file = tmp_path / "identity.json"
    with ThreadPoolExecutor(8) as workers:
        keys = set(workers.map(read_or_create, [file] * 8))
    assert keys == {read(file)}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_signatures_verify(tmp_path: Path) -> None:
    key = read_or_create(tmp_path / "identity.json")
    Ed25519PublicKey.from_public_bytes(key.ed25519_public).verify(key.sign_ed25519(b"hello"), b"hello")
    digest = sha256(b"hello").digest()
    assert is_signed(key.secp256k1_public, sign(key.secp256k1, digest), digest)


def test_private_keys_are_not_shown(tmp_path: Path) -> None:
    key = read_or_create(tmp_path / "identity.json")
    assert repr(key) == "IdentityKey()"


@pytest.mark.parametrize(
    "document",
    [b"", b"[]", b"{}", b'{"ed25519": "00", "secp256k1": "01"}', b'{"ed25519": 1, "secp256k1": 2}', b"\xff",
     b'{"ed25519": "%s", "secp256k1": "%s"}' % (b"11" * 32, b"ff" * 32)],
)  # fmt: skip
def test_other_files_are_refused_by_name(document: bytes, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(document)
    file.chmod(0o600)
    with pytest.raises(IdentityKeyError, match="key is not an identity key"):
        read(file)


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "identity.json"
    read_or_create(file)
    file.chmod(0o640)
    with pytest.raises(IdentityKeyError, match="chmod 600"):
        read_or_create(file)


def test_a_missing_file_and_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(IdentityKeyError, match="cannot be read"):
        read(tmp_path / "absent")
    with pytest.raises(IdentityKeyError, match="cannot be created"):
        read_or_create(tmp_path / "absent" / "key")
