"""Answers of a JungleBus server: any JSON gives records or an error with words, and a well-formed answer comes back
whole."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.chains.junglebus import responses
from indexer.chains.junglebus.retry_queue import BACKOFF, CAPACITY, RetryQueue
from parsers.bitcoin.tx import sha256d
from parsers.errors import ParseError
from tests.chainkit import ChainKit
from tests.junglebus_server import header_json

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=70)
TRANSACTION = ["id", "transaction", "block_hash", "block_height", "block_index"]
HEADER = ["hash", "height", "version", "merkleroot", "time", "bits", "nonce"]
CONTROL = ["statusCode", "code", "block", "message"]
names = st.sampled_from([*TRANSACTION, *HEADER, *CONTROL])
json = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names | st.text(max_size=5), inner, max_size=12),
    max_leaves=20,
)
hashes = st.binary(min_size=32, max_size=32)


def complaint(read: Callable[[Any], object], message: Any) -> str | None:
    """Why an answer is not read; None when it is."""
    try:
        read(message)
    except ParseError as error:
        return str(error)
    return None


@given(json)
def test_any_json_is_read_or_refused_in_a_few_words(message: Any) -> None:
    for read in (responses.page, responses.header, lambda body: responses.headers(body, 3, 5)):
        words = complaint(read, message)
        assert words is None or 0 < len(words) < 300


heights, indices = st.integers(0, (1 << 31) - 1), st.integers(0, 1 << 40)


@given(st.lists(st.tuples(hashes, hashes, heights, indices, st.binary(max_size=99))))
def test_a_page_is_parsed_as_written(answers: list[tuple[bytes, bytes, int, int, bytes]]) -> None:
    messages = [
        {
            "id": txid[::-1].hex(), "block_hash": block[::-1].hex(), "block_height": height, "block_index": index,
            "transaction": base64.b64encode(raw).decode(),
        }
        for txid, block, height, index, raw in answers
    ]  # fmt: skip
    matches, controls = responses.page(messages)
    assert controls == []
    assert [(match.txid, match.block, match.height, match.tx_index, match.raw or b"") for match in matches] == answers


@given(hashes, hashes, *[st.integers(0, (1 << 32) - 1)] * 4)
def test_a_header_that_leaves_out_its_parent_is_whole_again_with_it(
    prev: bytes, root: bytes, version: int, time: int, bits: int, nonce: int
) -> None:
    raw = (
        version.to_bytes(4, "little") + prev + root
        + b"".join(number.to_bytes(4, "little") for number in (time, bits, nonce))
    )  # fmt: skip
    messages = {
        "hash": sha256d(raw)[::-1].hex(), "coin": 1, "height": 7, "time": time, "nonce": nonce, "version": version,
        "merkleroot": root[::-1].hex(), "bits": f"{bits:08x}", "synced": 1,
    }  # fmt: skip
    assert responses.header(messages).raw(prev) == raw
    assert responses.header(messages | {"bits": bits, "version": version - ((version >> 31) << 32)}).raw(prev) == raw
    assert responses.header(messages).raw(sha256d(prev)) is None


def test_headers_are_linked_to_each_other() -> None:
    kit = ChainKit(funds=1)
    kit.mine_empty(4)
    headers = responses.headers([header_json(block) for block in kit.blocks[2:]], 2, 100)
    assert responses.linked(headers, kit.blocks[1].hash) == [block.header for block in kit.blocks[2:]]
    assert responses.linked(headers, kit.blocks[0].hash) is None
    with pytest.raises(ParseError, match="does not hash to"):
        responses.linked([headers[0], headers[2]], kit.blocks[1].hash)


def test_the_recorded_sample_is_read(shared: Any) -> None:
    import json as reader

    body = reader.loads((shared / "vectors" / "bsv" / "junglebus-sample.json").read_bytes())
    (match,), controls = responses.page([body])
    assert controls == []
    assert match.raw is not None
    assert sha256d(match.raw) == match.txid
    assert match.txid[::-1].hex() == body["id"]
    assert (match.height, match.tx_index) == (580_942, 160)


def test_unproved_transactions_are_requested_ever_more_seldom_and_are_bounded() -> None:
    now = 0.0
    retry_queue = RetryQueue("demo", clock=lambda: now)
    txid = b"\1" * 32
    pauses = []
    for _ in range(12):
        retry_queue.add(txid)
        assert retry_queue.due(5) == []
        before = now
        while not retry_queue.due(5):
            now += 1
        pauses.append(now - before)
    assert pauses == [min(10.0 * 2**turn, BACKOFF.longest) for turn in range(12)]
    retry_queue.remove(txid)
    assert len(retry_queue) == 0
    for number in range(CAPACITY + 5):
        retry_queue.add(number.to_bytes(32, "big"))
    assert len(retry_queue) == CAPACITY
    assert (0).to_bytes(32, "big") not in retry_queue
