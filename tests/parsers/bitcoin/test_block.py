"""The compiled walker against the slow one, on made-up, broken, hostile and real blocks."""

from __future__ import annotations

import json
import mmap
import os
import random
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.bitcoin import block
from parsers.bitcoin.tx import Outpoint, Transaction, TxInput, TxOutput, serialise, sha256d, varint
from parsers.bitcoin.tx import read as read_tx
from parsers.errors import BlockError
from parsers.inscriptions import envelope as envelopes_
from parsers.inscriptions import output_record, tapscript
from tests.bench.synthetic import COINBASE, MAP_PREFIX, Maker, envelope, push
from tests.conftest import ROOT
from tests.oracles import walker

# --- made-up blocks

WATCHED = [Outpoint(bytes([7]) * 32, 0), Outpoint(bytes([8]) * 32, 1)]


def big_push(data: bytes, form: int) -> bytes:
    """A push in one of the four forms."""
    sizes = {1: b"\x4c" + bytes((len(data) & 255,)), 2: b"\x4d" + struct.pack("<H", len(data) & 0xFFFF)}
    return (push(data) if not form else sizes.get(form, b"\x4e" + struct.pack("<I", len(data)))) + data * bool(form)


forms = st.integers(0, 3)
words = st.sampled_from(
    [b"a2b", b"a2b-agent", b"a2b-mcp", b"bsv-mcp", b"ord", b"word order", b"0a2b0", b"json", b"MAP", MAP_PREFIX, b"|"]
) | st.binary(max_size=80)
pushes = st.builds(big_push, words, forms)
hex_text = st.binary(max_size=200).map(lambda data: push(data.hex().encode()))
opcodes = st.sampled_from([b"\x00", b"\x51", b"\x63", b"\x68", b"\x6a", b"\x76", b"\xac", b"\xff"])
tags = st.sampled_from([b"\x51", b"\x01\x01", b"\x4c\x01\x01", b"\x53", b"\x00", b"\x01\x00", b"\x05other"])
types = st.sampled_from(
    [b"application/json", b"APPLICATION/JSON;x=1", b"text/plain", b"image/png", b"application/bsv-20"]
)
fields = st.lists(st.builds(lambda tag, form, text: tag + big_push(text, form), tags, forms, types | words), max_size=4)
envelopes = st.builds(
    lambda form, inside, body: b"\x00\x63" + big_push(b"ord", form) + b"".join(inside) + b"\x00" + push(body) + b"\x68",
    forms, fields, words,
)  # fmt: skip
nested = st.builds(lambda parts: push(b"".join(parts)), st.lists(pushes | envelopes, max_size=3))
locks = st.binary(min_size=20, max_size=20).map(lambda h: b"\x76\xa9\x14" + h + b"\x88\xac") | st.binary(
    min_size=32, max_size=32
).map(lambda key: b"\x51\x20" + key)
scripts = st.lists(pushes | opcodes | envelopes | nested | hex_text | locks, max_size=6).map(b"".join) | st.binary(
    max_size=300
)
spends = st.sampled_from(WATCHED) | st.builds(Outpoint, st.binary(min_size=32, max_size=32), st.integers(0, 3))


@st.composite
def serialised(draw: st.DrawFn) -> bytes:
    """A transaction, with or without marker and witness."""
    inputs = draw(st.lists(st.tuples(spends, st.binary(max_size=120)), max_size=3))
    outputs = draw(st.lists(scripts, max_size=3))
    flag = draw(st.sampled_from([0, 0, 1, 1, 8, 9]))
    parts = [b"\x01\0\0\0", bytes((0, flag)) if flag else b"", varint(len(inputs))]
    parts += [spent.pack() + varint(len(unlock)) + unlock + b"\xff" * 4 for spent, unlock in inputs]
    parts += [varint(len(outputs)), *(bytes(8) + varint(len(script)) + script for script in outputs)]
    if flag & 1:
        for _ in inputs:
            items = draw(st.lists(scripts, max_size=2))
            parts += [varint(len(items)), *(varint(len(item)) + item for item in items)]
    return b"".join([*parts, b"\0" if flag & 8 else b"", bytes(4)])


blocks = st.lists(serialised(), min_size=1, max_size=5).map(lambda txs: bytes(80) + varint(len(txs)) + b"".join(txs))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A block, whole, cut short, or with some bytes overwritten."""
    data = bytearray(draw(blocks))
    del data[draw(st.integers(0, len(data)) | st.just(len(data))) :]
    for _ in range(draw(st.integers(0, 3)) if data else 0):
        drawn = draw(st.integers(0, len(data) - 1))
        spoiled = draw(st.sampled_from([b"\xff", b"\xfe", b"\xfd", b"\0", b"\xff" * 9]) | st.binary(max_size=4))
        data[drawn : drawn + len(spoiled)] = spoiled
    return bytes(data)


def agree(data: bytes, *, segwit: bool, witness: bool = True) -> None:
    """Both walkers see the same transactions or both refuse; the fast one flags all that the slow one does."""
    watched = block.WatchedOutpoints(WATCHED)
    try:
        expected = walker.transactions(data, segwit=segwit)
    except walker.RefusedError:
        for ask in (block.tx_offsets, lambda d, segwit: block.worth_reading(d, watched, segwit=segwit)):
            with pytest.raises(BlockError) as refused:
                ask(data, segwit=segwit)
            assert refused.value.offset is not None
            assert 0 <= refused.value.offset <= len(data)
        return
    block.tx_offsets(data, segwit=segwit)
    assert block.first_transaction(data)[0] == len(expected)
    assert block.tx_offsets(data, segwit=segwit).tolist() == [tx.start for tx in expected] + [expected[-1].stop]
    assert list(block.txids(data, segwit=segwit)) == [sha256d(tx.bare) for tx in expected]
    candidates = list(block.worth_reading(data, watched, segwit=segwit, witness=witness))
    for offset, size, index in candidates:
        assert (expected[index].start, expected[index].stop) == (offset, offset + size)
    outpoints = {outpoint.pack() for outpoint in WATCHED}
    relevant = {number for number, tx in enumerate(expected) if walker.relevant(tx, outpoints, witness=witness)}
    assert relevant <= {candidate.tx_index for candidate in candidates}
    # a fingerprint knows half of the txid and the output number
    halves = {outpoint[:16] + outpoint[32:] for outpoint in outpoints}
    spending = [n for n, tx in enumerate(expected) if halves & {spent[:16] + spent[32:] for spent in tx.spends}]
    index = block.spenders(data, block.tx_offsets(data, segwit=segwit), watched, segwit=segwit)
    assert index.direct_spenders.tolist() == spending
    assert index.spending(WATCHED).tolist() == spending
    assert index.offsets.tolist() == [tx.start for tx in expected] + [expected[-1].stop]


@settings(max_examples=400, deadline=None)
@given(blocks, st.booleans(), st.booleans())
def test_both_walkers_agree_on_any_block(data: bytes, segwit: bool, witness: bool) -> None:
    agree(data, segwit=segwit, witness=witness)


@settings(max_examples=400, deadline=None)
@given(damaged(), st.booleans())
def test_both_walkers_agree_on_damaged_blocks(data: bytes, segwit: bool) -> None:
    agree(data, segwit=segwit)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_are_walked_or_refused(data: bytes, segwit: bool) -> None:
    agree(data, segwit=segwit)


def test_a_block_cut_at_any_byte_is_refused_naming_the_byte() -> None:
    maker = Maker(3)
    data = assembled(maker.payment(), maker.registration(), maker.token())
    for size in range(len(data)):
        with pytest.raises(BlockError) as refused:
            block.tx_offsets(data[:size])
        assert refused.value.offset is not None
        assert refused.value.offset <= size
        assert f"{refused.value.offset:,}" in str(refused.value)


def assembled(*transactions: bytes) -> bytes:
    """A block of a coinbase and these, with the merkle root in its header."""
    every = (COINBASE, *transactions)
    body = varint(len(every)) + b"".join(every)
    return bytes(36) + block.merkle_root(bytes(80) + body) + bytes(12) + body


def flagged(script: bytes, **options: bool) -> bool:
    """Whether an output with this script makes its transaction worth reading."""
    result = block.worth_reading(assembled(Maker(5).transaction(script)), block.WatchedOutpoints(), **options)
    assert all(candidate.tx_index == 1 for candidate in result)
    return len(result) == 1


# --- what is worth reading


@pytest.mark.parametrize("form", range(4))
@pytest.mark.parametrize(
    "content_type", [b"application/json", b"Application/JSON; charset=utf-8", b"application/ld+json"]
)
def test_an_envelope_with_json_is_worth_reading_however_it_is_pushed(form: int, content_type: bytes) -> None:
    for tag in (b"\x51", b"\x01\x01", b"\x4c\x01\x01"):
        message = (
            b"\x00\x63" + big_push(b"ord", form) + tag + big_push(content_type, form) + b"\x00" + push(b"{}") + b"\x68"
        )
        assert flagged(message)
        assert flagged(Maker().p2pkh() + b"\xab" + message)
        assert flagged(push(message)), "an envelope inside a push is a near miss that is recorded"
        assert flagged(message[:-3]), "a body cut short is a near miss too"


@pytest.mark.parametrize("form", range(4))
@pytest.mark.parametrize("word", [b"a2b", b"a2b-agent", b"a2b-mcp", b"a2b-" + b"x" * 50, b"bsv-mcp"])
def test_an_a2b_word_is_worth_reading_wherever_it_is_pushed(form: int, word: bytes) -> None:
    message = big_push(word, form)
    assert flagged(b"\x6a" + message)
    assert flagged(b"\x00\x6a" + push(bytes(range(256)) * 300) + message)
    assert flagged(b"\x00\x63\x03ord" + push(MAP_PREFIX) + push(push(b"type") + message) + b"\x00\x00\x68")
    for size in range(130):
        assert flagged(b"\x6a" + push(b"." * size) + message), "whatever place in a chunk it has"


def test_a_word_in_the_last_bytes_of_a_block_is_found() -> None:
    for size in range(70):
        tx = b"\x01\0\0\0" + b"\x01" + bytes(36) + b"\0" + bytes(4)
        script = b"\x6a" + b"\x51" * size + push(b"a2b") + b"\x51"
        tx += b"\x01" + bytes(8) + varint(len(script)) + script + bytes(4)
        assert len(block.worth_reading(assembled(tx), block.WatchedOutpoints())) == 1


def test_ordinary_text_data_and_tokens_are_not_worth_reading() -> None:
    maker = Maker(11)
    ordinary = [getattr(maker, kind)() for kind in ("payment", "data", "token", "text", "picture") for _ in range(40)]
    assert len(block.worth_reading(assembled(*ordinary), block.WatchedOutpoints())) == 0
    assert not flagged(b"\x6a" + push(b"the order of words: a2b or not a2b, json or -mcp, ord and order"))
    digits = b"".join(b"%sa2b%x" % (b"0123456789abcdef"[n % 16 : n % 16 + 1], n) for n in range(5000))
    assert not flagged(b"\x00\x6a" + push(digits)), "hexadecimal text is distinguished"
    assert not flagged(envelope(b"text/plain", b'{"json": true}'))
    assert not flagged(b"\x76\xa9\x14" + b"\x03a2b".ljust(20) + b"\x88\xac")


def test_a_witness_is_searched_where_the_chain_has_envelopes_there() -> None:
    inside = push(bytes(32)) + b"\xac" + envelope(b"application/json", b"{}")
    tx = b"\x01\0\0\0\0\1" + b"\x01" + bytes(36) + b"\0" + bytes(4)
    tx += (
        b"\x01" + bytes(8) + b"\x22\x51\x20" + bytes(32) + b"\x02" + varint(len(inside)) + inside + b"\x21" + bytes(33)
    )
    data = bytes(80) + b"\x01" + tx + bytes(4)
    assert len(block.worth_reading(data, block.WatchedOutpoints(), segwit=True, witness=True)) == 1
    assert len(block.worth_reading(data, block.WatchedOutpoints(), segwit=True)) == 0
    assert block.tx_offsets(data + b"\x01MWEB", segwit=True).tolist() == [81, len(data)]
    with pytest.raises(BlockError):
        block.tx_offsets(data)


def test_more_candidates_than_one_batch_come_in_block_order() -> None:
    maker = Maker(2)
    many = [maker.transaction(b"\x6a" + push(b"a2b")) for _ in range(9001)]
    result = block.worth_reading(assembled(*many), block.WatchedOutpoints())
    assert [candidate.tx_index for candidate in result] == list(range(1, 9002))
    assert [candidate.size for candidate in result] == [len(tx) for tx in many]
    assert result[-1].offset + result[-1].size == len(assembled(*many))
    assert list(result[5:7]) == [result[5], result[6]]
    assert list(result[5:6]) == [result[5]]


a2b_types = st.sampled_from([b"a2b", b"a2b-agent", b"agent", b"a2b" + b"9" * 50, b"post"]) | words


def map_tape(app: bytes, named: bytes, form: int) -> bytes:
    """MAP SET of an app and a type, the type pushed in one of four forms."""
    return b"".join(map(push, (MAP_PREFIX, b"SET", b"app", app, b"type"))) + big_push(named, form)


maps = st.builds(map_tape, words, a2b_types, forms)
script_bytes = st.lists(maps | envelopes | nested | pushes | locks | opcodes, max_size=6).map(b"".join)
claims = st.builds(lambda before, inside: before + b"\x6a" + inside, script_bytes, script_bytes) | script_bytes


@settings(max_examples=500, deadline=None)
@given(claims, st.booleans())
def test_whatever_the_parsers_take_notice_of_is_flagged(script: bytes, cut: bool) -> None:
    """The parsers proper are the second judge: a pointer, an A2B claim, JSON in an envelope or in a broken one."""
    script = script[:-2] if cut else script
    parsed = output_record.read(Transaction(bytes(32), 1, (), (TxOutput(1, script),), 0, 0), 0)
    is_for_registry = parsed.map is not None and (
        output_record.is_for_registry(parsed.map.fields) or "bsv-mcp" in parsed.map.fields.values()
    )
    is_json = parsed.inscription is not None and envelopes_.is_json(parsed.inscription.content_type)
    if parsed.pointer or is_for_registry or is_json or parsed.near_json:
        assert flagged(script)


@settings(max_examples=200, deadline=None)
@given(st.lists(script_bytes, min_size=2, max_size=3))
def test_whatever_the_parsers_find_in_a_witness_is_flagged(stack: list[bytes]) -> None:
    tx = b"\x01\0\0\0\0\1\x01" + bytes(36) + b"\0" + bytes(4) + b"\x01" + bytes(8) + b"\0" + varint(len(stack))
    tx += b"".join(varint(len(item)) + item for item in stack) + bytes(4)
    result = block.worth_reading(bytes(80) + b"\1" + tx, block.WatchedOutpoints(), segwit=True, witness=True)
    if any(envelopes_.is_json(item.inscription.content_type) for item in tapscript.read(tuple(stack))):
        assert len(result) == 1


# --- hostile blocks


def hostile_counts() -> Iterator[bytes]:
    for claimed in (0xFE, 0xFFFF, 0xFFFFFFFF, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1):
        number = b"\xff" + struct.pack("<Q", claimed)
        yield bytes(80) + number + COINBASE
        yield bytes(80) + b"\x01" + COINBASE[:4] + number + COINBASE[5:]
        yield bytes(80) + b"\x01" + COINBASE[:41] + number + COINBASE[42:]
        yield bytes(80) + b"\x01" + COINBASE[:50] + number + COINBASE[51:]
        yield bytes(80) + b"\x01" + COINBASE[:59] + number + COINBASE[60:]
        yield bytes(80) + b"\x01" + COINBASE[:4] + b"\0\1" + COINBASE[4:-4] + number
        yield bytes(80) + b"\x01" + COINBASE[:4] + b"\0\1" + COINBASE[4:-4] + b"\x01" + number


def test_claims_beyond_the_data_are_refused() -> None:
    for data in hostile_counts():
        for segwit in (False, True):
            with pytest.raises(BlockError):
                block.worth_reading(data, block.WatchedOutpoints(), segwit=segwit, witness=segwit)
            agree(data, segwit=segwit)


def test_a_push_that_claims_four_gigabytes_ends_the_script_only() -> None:
    assert not flagged(b"\x00\x63\x4e\xff\xff\xff\xff" + b"x" * 50)
    assert flagged(b"\x6a" + push(b"a2b") + b"\x4e\xff\xff\xff\xffrest")
    assert flagged(b"\x00\x63\x03ord\x51" + push(b"application/json") + b"\x00\x4e\xff\xff\xff\xff{}")


def test_a_million_outputs_are_walked() -> None:
    tx = b"\x01\0\0\0\x01" + bytes(36) + b"\0" + bytes(4) + varint(10**6) + (bytes(8) + b"\x01\x51") * 10**6 + bytes(4)
    assert block.tx_offsets(assembled(tx)).tolist()[-1] == len(assembled(tx))
    assert len(block.worth_reading(assembled(tx), block.WatchedOutpoints())) == 0


def test_envelopes_within_envelopes_take_linear_time_and_are_read_to_be_safe() -> None:
    """400,000 envelopes, each with all the others in its fields: 10^11 steps if each were read to its end."""
    assert flagged(b"\x00\x63\x03ord" + b"\x06\x00\x63\x03ord" * 400_000)
    assert not flagged(b"\x63" * 10**6 + b"\x6a")


# --- merkle roots


def test_a_repeated_tail_that_keeps_the_root_is_refused() -> None:
    maker = Maker(8)
    one, two = maker.payment(), maker.payment()
    honest = assembled(one, two)
    forged = honest[:80] + varint(4) + honest[81:] + two
    assert block.merkle_root(honest) == honest[36:68]
    with pytest.raises(BlockError, match="CVE-2012-2459"):
        block.merkle_root(forged)


def plain_root(hashes: list[bytes]) -> bytes:
    """The tree as the white paper draws it, recursively."""
    if len(hashes) == 1:
        return hashes[0]
    padded = hashes + hashes[-1:] * (len(hashes) % 2)
    return plain_root([sha256d(padded[n] + padded[n + 1]) for n in range(0, len(padded), 2)])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 20), st.integers(0, 9))
def test_the_merkle_root_is_that_of_the_plain_tree(count: int, seed: int) -> None:
    maker = Maker(seed)
    data = assembled(*(maker.payment() for _ in range(count)))
    assert block.merkle_root(data, block.tx_offsets(data)) == plain_root(list(block.txids(data)))


# --- the watched set

outpoints = st.builds(Outpoint, st.integers(0, 40).map(lambda n: bytes([n]) * 32), st.integers(0, 3)) | st.builds(
    Outpoint, st.binary(min_size=32, max_size=32), st.integers(0, 2**32 - 1)
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.lists(outpoints, max_size=60)), max_size=20))
def test_watched_is_a_set(history: list[tuple[bool, list[Outpoint]]]) -> None:
    watched, expected, seen = block.WatchedOutpoints(), set[Outpoint](), set[Outpoint]()
    for adding, some in history:
        seen.update(some)
        if adding:
            watched.add(some)
            expected.update(some)
        else:
            watched.discard(some)
            expected.difference_update(some)
        assert len(watched) == len(expected)
    # a false positive among so few has a chance of 10^-15
    assert {outpoint for outpoint in seen if outpoint in watched} == expected


def test_a_hundred_thousand_watched_are_found_and_forgotten() -> None:
    many = [Outpoint(sha256d(struct.pack("<I", n)), n % 5) for n in range(100_000)]
    watched = block.WatchedOutpoints(many)
    assert len(watched) == 100_000
    assert sum(array.nbytes for array in watched.arrays[1:]) < 40 * len(watched)
    assert all(outpoint in watched for outpoint in many[::97])
    watched.discard(many[::2])
    assert len(watched) == 50_000
    assert all((outpoint in watched) == (number % 2 == 1) for number, outpoint in enumerate(many[:2000]))
    assert sum(Outpoint(sha256d(bytes([n, 1])), 0) in watched for n in range(256)) == 0


def test_a_set_that_loses_most_of_its_members_still_finds_the_rest() -> None:
    many = [Outpoint(sha256d(struct.pack("<I", n)), 0) for n in range(10_000)]
    watched = block.WatchedOutpoints(many)
    for start in range(0, 9_900, 100):
        watched.discard(many[start : start + 100])
    assert len(watched) == 100
    assert [outpoint in watched for outpoint in many] == [False] * 9_900 + [True] * 100


def test_outputs_of_one_transaction_have_different_fingerprints() -> None:
    txid = random.Random(1).randbytes(32)
    watched = block.WatchedOutpoints(Outpoint(txid, vout) for vout in range(0, 20_000, 2))
    assert sum(Outpoint(txid, vout) in watched for vout in range(20_000)) == 10_000


def test_every_outpoint_that_is_spent_is_noted_with_its_transaction() -> None:
    watched, maker = block.WatchedOutpoints(key=7), Maker(3)
    for segwit in (False, True):
        data = assembled(*(maker.payment() for _ in range(50)), maker.registration())
        offsets = block.tx_offsets(data, segwit=segwit)
        marks, owners = block.inputs(data, offsets, watched, segwit=segwit)
        read = [read_tx(data, start, segwit=segwit) for start in offsets.tolist()[:-1]]
        assert owners.tolist() == [number for number, item in enumerate(read) for _ in item.inputs]
        outpoints = [spent.prevout for item in read[::3] for spent in item.inputs]
        query = block.WatchedOutpoints(outpoints, key=7)
        assert set(owners[query.contains(marks)].tolist()) == set(range(0, len(read), 3))
        assert not block.WatchedOutpoints(key=7).contains(marks).any()


def test_outpoints_are_noted_behind_a_segwit_marker_and_no_further_than_the_data() -> None:
    bare = serialise((TxInput(Outpoint(b"a" * 32, 3), b"", 0),), (TxOutput(1, b"\x51"),), 1, 0)
    marked = bare[:4] + b"\0\1" + bare[4:-4] + b"\1\1w" + bare[-4:]
    data = bytes(80) + b"\2" + COINBASE + marked
    watched = block.WatchedOutpoints([Outpoint(b"a" * 32, 3)])
    marks, owners = block.inputs(data, block.tx_offsets(data, segwit=True), watched, segwit=True)
    assert owners[watched.contains(marks)].tolist() == [1]
    wild = np.array([0, 90, len(data), len(data) - 3], np.int64)
    assert len(block.inputs(data, wild, watched)[0]) <= len(data) // 41 + 1


# --- real blocks


def sample_blocks(sample: Path) -> Iterator[bytes]:
    data, position = (sample / "blk00000.dat").read_bytes(), 0
    while data[position : position + 4] == bytes.fromhex("fabfb5da"):
        size = struct.unpack("<I", data[position + 4 : position + 8])[0]
        yield data[position + 8 : position + 8 + size]
        position += 8 + size


def test_everything_the_sample_chain_has_to_say_is_flagged(sample: Path) -> None:
    expected = json.loads((sample / "expected.json").read_text())
    txids = {bytes.fromhex(item["txid"])[::-1] for key in ("rejected", "pointers") for item in expected[key]}
    revisions = [revision for item in expected["registrations"] for revision in item["revisions"]]
    txids |= {bytes.fromhex(revision["txid"])[::-1] for revision in revisions}
    watched = block.WatchedOutpoints(
        Outpoint.parse(revision["outpoint"]) for revision in revisions if revision["outpoint"]
    )
    results, count = set(), 0
    for data in sample_blocks(sample):
        agree(data, segwit=False)
        assert block.merkle_root(data) == data[36:68]
        ids = list(block.txids(data))
        results |= {ids[candidate.tx_index] for candidate in block.worth_reading(data, watched)}
        count += 1
    assert count == 129
    assert txids <= results


def test_real_blocks_are_walked_to_their_merkle_root(shared: Path) -> None:
    seen = 0
    for path in sorted((shared / "vectors" / "bsv" / "blocks").glob("0*.bin")):
        data = path.read_bytes()
        agree(data, segwit=False)
        assert block.merkle_root(data) == block.header(data)[36:68]
        assert sha256d(block.header(data))[::-1].hex() == path.stem
        seen += 1
    assert seen >= 2


def test_real_transactions_are_flagged_as_the_slow_walker_finds_them(shared: Path) -> None:
    with (shared / "vectors" / "bsv" / "real_transactions.jsonl").open() as lines:
        real = [json.loads(line) for line in lines]
    data = assembled(*(bytes.fromhex(item["hex"]) for item in real))
    agree(data, segwit=False)
    ids = [item["txid"] for item in real]
    flagged_ids = {ids[result.tx_index - 1] for result in block.worth_reading(data, block.WatchedOutpoints())}
    assert "b08538c963d2b88c7d26600a1c3c925a3388e942cdc5f903ecf0009f18c41ff3" in flagged_ids
    assert len(flagged_ids) < len(ids)


# --- processes


def child(code: str, **environment: str) -> str:
    """The text that a fresh Python prints."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


ASK = """
from parsers.bitcoin.watched_outpoints import *
print(Outpoint(bytes(32), 1) in WatchedOutpoints([Outpoint(bytes(32), 1)]))
"""
ASK_AT_ONCE = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from parsers.bitcoin.watched_outpoints import *
go = Barrier(4)
def ask(_):
    go.wait()
    return Outpoint(bytes(32), 1) in WatchedOutpoints([Outpoint(bytes(32), 1)])
with ThreadPoolExecutor(4) as threads:
    print(all(threads.map(ask, range(4))))
"""


def test_where_no_cache_can_be_written_the_walker_compiles_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "cache")
    assert child(ASK, NUMBA_CACHE_DIR=nowhere, HOME=nowhere) == "True"


@pytest.mark.parametrize("code", [ASK, ASK_AT_ONCE], ids=["one", "at once"])
def test_a_damaged_cache_costs_a_compile_and_no_more(tmp_path: Path, code: str) -> None:
    assert child(ASK, NUMBA_CACHE_DIR=str(tmp_path)) == "True"
    written = [path for path in tmp_path.rglob("*.nb?") if path.is_file()]
    assert written
    for spoil in (b"", b"spoiled"):
        for path in written:
            path.write_bytes(spoil)
        assert child(code, NUMBA_CACHE_DIR=str(tmp_path)) == "True"


def test_nothing_else_imports_the_compiler() -> None:
    assert child("import parsers.bitcoin.tx, sys; print('numba' in sys.modules or 'numpy' in sys.modules)") == "False"


def test_a_large_block_is_scanned_in_little_memory(tmp_path: Path) -> None:
    """96 MB through a memory map: what is not page cache stays far below the block's size."""
    path = tmp_path / "block"
    one = Maker(4).transaction(b"\x6a" + push(bytes(10_000)))
    count = 96 * 2**20 // len(one)
    with path.open("wb") as file:
        file.write(bytes(80) + varint(count))
        for _ in range(count):
            file.write(one)
    code = f"""
import mmap
from parsers.bitcoin import block
def held():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))
block.tx_offsets(bytes(80) + b"\\1" + bytes.fromhex("{COINBASE.hex()}"))
file = open({str(path)!r}, "rb")
data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
before = held()
assert len(block.worth_reading(data, block.WatchedOutpoints())) == 0
assert len(block.tx_offsets(data)) == {count} + 1
print(held() - before)
"""
    if not Path("/proc/self/status").exists():
        pytest.skip("only Linux tells the anonymous memory of a process")
    assert int(child(code)) < 30_000


def test_a_memory_map_and_a_view_are_walked_like_bytes(tmp_path: Path) -> None:
    data = assembled(Maker(1).registration())
    path = tmp_path / "block"
    path.write_bytes(b"...." + data)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        view = memoryview(whole)[4:]
        assert list(block.worth_reading(view, block.WatchedOutpoints())) == list(
            block.worth_reading(data, block.WatchedOutpoints())
        )
        assert block.merkle_root(view) == data[36:68]
        assert list(block.worth_reading(bytearray(data), block.WatchedOutpoints()))
        view.release()
