"""Identities are compared in one ASCII form, however they are written."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.claims.canonical_json import DocumentError
from parsers.claims.motebit.identifiers import (
    binding,
    canonical_id,
    did_key,
    is_same_identity,
    key_of,
    key_ring,
    sovereign_id,
)
from parsers.claims.motebit.receipts import ReceiptRules, receipt_tree
from tests.parsers.claims.motebit.signers import ALICE, BOB, NOW

SPELLINGS = [str.upper, "{{{}}}".format, "urn:uuid:{}".format, lambda text: text.replace("-", "")]


@given(st.uuids(), st.sampled_from(SPELLINGS))
def test_a_uuid_has_one_form(uuid: UUID, spell: object) -> None:
    assert callable(spell)
    assert canonical_id(spell(str(uuid))) == str(uuid)


@given(st.text())
def test_the_form_is_ascii_and_its_own_form(text: str) -> None:
    form = canonical_id(text)
    assert form.isascii()
    assert canonical_id(form) == form
    assert is_same_identity(text, text)
    assert is_same_identity(text, form) or not form


def test_what_looks_like_ascii_is_another_identity() -> None:
    assert canonical_id("ALICE") == canonical_id("\uff41lice") == canonical_id(" alice") == "alice"
    assert not any(map(canonical_id, ("\u0430lice", "al\u0131ce", "ali\u200bce", "a\x1blice", "")))
    assert not is_same_identity("\u0430lice", "\u0435lice")
    assert not is_same_identity(did_key(ALICE.key), did_key(ALICE.key).swapcase())
    assert is_same_identity(did_key(ALICE.key), did_key(ALICE.key).replace("did:key", "DID:Key"))


def test_a_pinned_key_holds_for_every_spelling() -> None:
    ring = key_ring({"Alice": ALICE.key.hex()})
    assert [binding(name, ALICE.key, ring) for name in ("Alice", "alice", "ALICE")] == ["pinned"] * 3
    assert binding("ALICE", BOB.key, ring) == "invalid"
    (node,) = receipt_tree(BOB.receipt(motebit_id="ALICE"), ReceiptRules(keys=ring, now=NOW))
    assert node.error == "bad-signature", "the embedded key is not taken for a pinned identity"
    assert binding(sovereign_id(BOB.key).upper(), BOB.key, ring) == "sovereign"
    with pytest.raises(DocumentError, match="two keys"):
        key_ring({"Alice": ALICE.key.hex(), "alice": BOB.key.hex()})
    assert key_of("\u0430lice", {"": BOB.key}) is None
