"""Laws of EVM chains: any answer is read or refused, blooms are those of others, any history ends the same."""

from __future__ import annotations

import asyncio
import tempfile
from itertools import pairwise
from typing import Any

import pytest
from Cryptodome.Hash import keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.chains import create
from indexer.chains.evm import EvmChain, responses
from indexer.chains.evm.chain_ids import NUMBERS, by_number
from indexer.chains.evm.endpoint import MAX_WIDTH, RangeWidth
from indexer.chains.evm.responses import BloomFilter, keccak256
from indexer.errors import SourceUnavailableError
from indexer.model import EventKind
from parsers.errors import ParseError
from parsers.pointers.pointer import TOPIC
from tests import chain_records
from tests.evm_server import CONTRACT, EvmServer, says
from tests.indexing import Indexing

ADDRESS = bytes.fromhex(CONTRACT[2:])

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
HEX = st.binary(max_size=40).map(lambda raw: "0x" + raw.hex()) | st.sampled_from(
    ["0x", "0x0", "0X1", "0x 1", "0xé", "1"]
)
MEMBERS = st.sampled_from(
    ["address", "topics", "data", "blockNumber", "blockHash", "transactionHash", "transactionIndex", "logIndex",
     "removed", "number", "hash", "parentHash", "timestamp", "logsBloom"]
)  # fmt: skip


def good_log() -> dict[str, Any]:
    server = EvmServer()
    return dict(server.mine(says("https://shop.example/card.json")).logs[0])


# -- answers


@given(JSON | st.lists(st.dictionaries(MEMBERS, JSON | HEX, max_size=12), max_size=3))
def test_any_json_is_logs_or_is_refused(rows: Any) -> None:
    try:
        read = responses.logs(rows, ADDRESS, (TOPIC,), 0, 100)
    except ParseError:
        return
    assert read == []  # no generated one has the topic


@given(MEMBERS, JSON | HEX)
def test_a_log_of_which_one_member_is_anything_is_read_or_refused(member: str, value: Any) -> None:
    rows = [good_log() | {member: value}]
    try:
        (log,) = responses.logs(rows, ADDRESS, (TOPIC,), 0, 100)
    except ParseError:
        return
    assert (log.address, log.topics[0]) == (ADDRESS, TOPIC)
    assert 0 <= log.block <= 100
    assert len(log.txid) == len(log.block_hash) == 32


@given(JSON | st.dictionaries(MEMBERS, JSON | HEX, max_size=8))
def test_any_json_is_a_header_or_is_refused(row: Any) -> None:
    try:
        header = responses.header(row)
    except ParseError:
        return
    assert len(header.hash) == len(header.parent) == 32


@given(st.integers(0, 2**31 - 2), st.binary(max_size=100))
def test_what_is_written_as_nodes_write_it_is_read(value: int, raw: bytes) -> None:
    assert responses.number(hex(value)) == value
    assert responses.data("0x" + raw.hex()) == raw


@given(st.permutations(range(5)))
def test_logs_are_sorted_in_the_order_of_the_chain(order: list[int]) -> None:
    server = EvmServer()
    rows = [
        row for _ in range(2) for row in server.mine(*[says(f"https://{index}.example") for index in range(3)]).logs
    ][:5]
    read = responses.logs([rows[position] for position in order], ADDRESS, (TOPIC,), 0, 100)
    assert [(log.block, log.log_index) for log in read] == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]


# -- blooms


@given(st.binary(max_size=500))
def test_the_hash_is_that_of_another_implementation(message: bytes) -> None:
    assert keccak256(message) == keccak.new(digest_bits=256, data=message).digest()


def test_the_hash_is_that_of_what_is_known_everywhere() -> None:
    assert keccak256(b"").hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert keccak256(b"A2BPointer(string,bytes32)") == TOPIC


@given(st.lists(st.binary(min_size=20, max_size=20), max_size=20), st.booleans())
def test_a_bloom_never_denies_what_the_block_holds(others: list[bytes], holds: bool) -> None:
    server = EvmServer()
    logs = [{**says(""), "address": "0x" + other.hex(), "topics": ["0x" + "07" * 32]} for other in others]
    row = server.mine(*logs, *([says("https://shop.example")] if holds else [])).row
    looking = BloomFilter(ADDRESS, (bytes(32), TOPIC))
    assert looking.may_hold(bytes.fromhex(row["logsBloom"][2:])) or not holds
    assert not looking.may_hold(bytes(256))


# -- ranges


@given(st.lists(st.booleans(), max_size=200), st.integers(1, 100_000))
def test_a_width_is_always_one_that_may_be_answered_and_finds_the_limit(noise: list[bool], limit: int) -> None:
    ranges = RangeWidth()
    for answered in noise:
        if answered:
            ranges.record_success(ranges.width, 0)
        else:
            assert ranges.record_failure(ranges.width) == (ranges.width > 1) or ranges.width == 1
        assert 1 <= ranges.width <= MAX_WIDTH
    best = 0
    for _ in range(400):
        if ranges.width > limit:
            ranges.record_failure(ranges.width)
        else:
            best = max(best, ranges.width)
            ranges.record_success(ranges.width, 0)
    assert best > min(limit, MAX_WIDTH) // 2 - 1


# -- networks


@pytest.mark.parametrize("chain", NUMBERS)
def test_every_network_is_known_by_its_name_and_its_number(chain: str) -> None:
    for name, number in NUMBERS[chain].items():
        assert by_number(number).title == f"{chain} {name}"
        assert (by_number(number).kind == "mainnet") == (name == "mainnet")
        source = create(chain, f"https://node.example?contract={CONTRACT}&network={name}")
        assert isinstance(source, EvmChain)
        assert source.allowed_networks.check("demo", "", number).caip2 == f"eip155:{number}"
    numbers = [number for index in NUMBERS.values() for number in index.values()]
    assert len(set(numbers)) == len(numbers)


# -- histories

STEPS = st.one_of(
    st.tuples(st.just("mine"), st.integers(0, 3), st.integers(0, 40)),
    st.tuples(st.just("fork"), st.integers(1, 20), st.integers(0, 2)),
    st.tuples(st.just("remine"), st.integers(1, 20), st.just(0)),
    st.tuples(st.just("lag"), st.integers(0, 5), st.just(0)),
    st.tuples(st.just("limit"), st.sampled_from([1, 7, 10**9]), st.just(0)),
    st.tuples(st.just("look"), st.just(0), st.just(0)),
    st.tuples(st.just("restart"), st.just(0), st.just(0)),
)


class History:
    """A server to which things happen, and the pointers of its best chain as they were written down."""

    def __init__(self) -> None:
        self.server = EvmServer(finality=60)
        self.written: dict[str, str] = {}

    def logs(self, count: int) -> list[dict[str, Any]]:
        created = []
        for _ in range(count):
            uri = f"https://n{len(self.written)}.example/card.json"
            log = says(uri)
            self.written[log["data"]] = uri
            created.append(log)
        return created

    def happen(self, what: str, first: int, second: int) -> None:
        if what == "mine":
            self.server.mine(*self.logs(first))
            self.server.mine_empty(second)
        elif what == "fork":
            self.server.fork(max(0, len(self.server.blocks) - 1 - first), *self.logs(second))
        elif what == "remine":
            parent = max(0, len(self.server.blocks) - 1 - first)
            logs = [log for block in self.server.blocks[parent + 1 :] for log in block.logs]
            members = ("address", "topics", "data", "transactionHash")
            self.server.fork(parent, *({name: log[name] for name in members} for log in logs))
        elif what == "lag":
            self.server.lag = min(first, len(self.server.blocks) - 1)
        elif what == "limit":
            self.server.most_blocks = first

    @property
    def expected(self) -> list[tuple[int, str, str]]:
        return [
            (int(log["blockNumber"], 16), log["transactionHash"][2:], self.written[log["data"]])
            for block in self.server.blocks
            for log in block.logs
        ]


async def replay(steps: list[tuple[str, int, int]]) -> None:
    history = History()
    chain = history.server.direct()
    with tempfile.TemporaryDirectory() as folder, Indexing(f"sqlite:///{folder}/a2b.db", chain) as indexing:
        for what, first, second in steps:
            if what == "look":
                try:
                    await indexing.catch_up()
                except SourceUnavailableError:
                    continue
            elif what == "restart":
                indexing.restart()
            else:
                history.happen(what, first, second)
        history.server.lag = 0
        while (await indexing.catch_up()).followers[0].progress.height != len(history.server.blocks) - 1:
            pass
        pointers = chain_records.pointers(indexing.store, "demo")
        assert [(item["height"], item["txid"], item["uri"]) for item in pointers] == history.expected
        stored = [
            ref for height in range(len(history.server.blocks)) if (ref := indexing.store.blocks.get("demo", height))
        ]
        assert all(history.server.blocks[ref.height].hash == ref.hash for ref in stored)
        assert all(upper.prev == lower.hash for lower, upper in pairwise(stored))
        assert len(chain_records.loose(indexing.store, "demo", EventKind.REJECTED)) == 0


@settings(deadline=None, max_examples=30)
@given(st.lists(STEPS, max_size=25))
def test_whatever_happens_to_a_chain_what_is_stored_is_what_its_best_branch_says(
    steps: list[tuple[str, int, int]],
) -> None:
    asyncio.run(replay(steps))
