"""Proofs of `gettxoutproof`: every transaction of blocks of any size, and any other bytes."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.bitcoin import bump
from parsers.bitcoin.partial_merkle_tree import read
from parsers.errors import ParseError
from tests.oracles import merkle


def block(count: int) -> tuple[list[bytes], bytes]:
    txids = [sha256(b"%d" % number).digest() for number in range(count)]
    return txids, bytes(36) + merkle.root(txids) + bytes(12)


@given(st.integers(1, 70), st.data())
def test_the_path_of_each_transaction_leads_to_the_root(count: int, data: st.DataObject) -> None:
    txids, header = block(count)
    index = data.draw(st.integers(0, count - 1))
    leaf = read(merkle.merkle_block(header, txids, index), txids[index])
    assert (leaf.header, leaf.number, leaf.siblings) == (header, index, merkle.branch(txids, index))
    path = bump.read(bump.branch_bytes(7, leaf.number, txids[index], leaf.siblings))
    assert path.root(txids[index]) == header[36:68]


@given(st.binary(max_size=300), st.binary(min_size=32, max_size=32))
def test_other_bytes_prove_nothing(data: bytes, txid: bytes) -> None:
    with pytest.raises(ParseError):
        read(data, txid)


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_changed_byte_proves_nothing_else(position: int, value: int) -> None:
    txids, header = block(11)
    proof = bytearray(merkle.merkle_block(header, txids, 6))
    proof[position % len(proof)] = value
    try:
        leaf = read(bytes(proof), txids[6])
    except ParseError:
        return
    assert (leaf.number, leaf.siblings, leaf.header[36:68]) == (6, merkle.branch(txids, 6), header[36:68])


def test_the_proof_of_another_transaction_is_refused() -> None:
    txids, header = block(5)
    for wrong in (txids[3], bytes(32)):
        with pytest.raises(ParseError, match="does not lead from the transaction"):
            read(merkle.merkle_block(header, txids, 2), wrong)
    with pytest.raises(ParseError, match="without transactions"):
        read(header + bytes(4) + bytes(2), txids[0])
