"""The pieces of following a node, each by itself: hex decoded as it comes, blocks spooled and fetched ahead, caches."""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer import spill
from indexer.chains import prefetch
from indexer.chains.node.address import read as read_address
from indexer.chains.node.client import NodeClient
from indexer.chains.node.coin_parameters import COIN_PARAMETERS
from indexer.chains.node.hex_stream import HexDecoder, HexError
from indexer.chains.node.transactions import Transactions
from indexer.chains.prefetch import blocks
from indexer.chains.spool import Spool
from indexer.headers import proof_of_work
from indexer.model import BlockRef
from parsers.bitcoin.tx import sha256d
from parsers.errors import ParseError
from tests.chainkit import ChainKit
from tests.waiting import until

Room = Callable[[int], Awaitable[None]]


def cuts(raw: bytes, positions: Sequence[int]) -> list[bytes]:
    edges = sorted({0, len(raw), *(position % (len(raw) + 1) for position in positions)})
    return [raw[start:end] for start, end in pairwise(edges)] or [b""]


# --- hex


@given(raw=st.binary(max_size=300), positions=st.lists(st.integers(0, 1_000), max_size=8), spaced=st.booleans())
def test_hex_is_decoded_whatever_its_cuts(raw: bytes, positions: list[int], spaced: bool) -> None:
    separators = None if spaced else (",", ":")
    answer = json.dumps({"result": raw.hex(), "error": None, "id": 0}, separators=separators).encode()
    digits = HexDecoder()
    assert b"".join(map(digits.feed, cuts(answer, positions))) == raw
    assert digits.is_whole


PIECES = st.sampled_from(
    [b'{"result":"', b'"result" : "', b"00", b"aF3", b"7", b'"', b"zz", b',"error":null}', b" " * 1_020]
) | st.binary(max_size=40)  # fmt: skip


def hex_result(whole: bytes) -> tuple[bytes, bool] | None:
    """The bytes that an answer says in hex so far, and whether that is all; None where it does not: read at once."""
    opening = re.search(rb'"result"\s*:\s*"', whole[:1_024])
    if opening is None:
        return None if len(whole) >= 1_024 else (b"", False)
    digits, closing, _ = whole[opening.end() :].partition(b'"')
    even = digits if len(digits) % 2 == 0 else digits[:-1]
    is_hex = re.fullmatch(rb"[0-9a-fA-F]*", even) is not None
    return (bytes.fromhex(even.decode()), bool(closing)) if is_hex and (even == digits or not closing) else None


@given(pieces=st.lists(PIECES, max_size=8), is_opened=st.booleans())
def test_any_bytes_give_the_bytes_they_say_or_a_refusal(pieces: list[bytes], is_opened: bool) -> None:
    pieces, digits = [b'{"result":"'] * is_opened + pieces, HexDecoder()
    try:
        result = b"".join(map(digits.feed, pieces))
    except HexError:
        assert hex_result(b"".join(pieces)) is None
        return
    assert (result, digits.is_whole) == hex_result(b"".join(pieces))


# --- headers with the work of others


@settings(max_examples=50)
@given(tail=st.binary(max_size=400), merged=st.booleans())
def test_any_bytes_behind_a_header_give_its_end_or_a_refusal(tail: bytes, merged: bool) -> None:
    raw = (0x00620104 if merged else 4).to_bytes(4, "little") + bytes(76) + tail
    try:
        end = proof_of_work.header_end(raw)
        bare = proof_of_work.strip_auxpow(memoryview(raw))
    except ParseError:
        assert merged
        return
    assert 80 <= end <= len(raw)
    assert bytes(bare) == raw[:80] + raw[end:]


def test_a_header_may_stand_anywhere_and_a_short_one_is_refused() -> None:
    assert proof_of_work.header_end(bytes(200), 100) == 180
    with pytest.raises(ParseError, match="runs past the end"):
        proof_of_work.header_end(bytes(79))


# --- spools


@pytest.mark.parametrize("in_memory", [0, 10, 1_000])
async def test_bytes_come_out_as_they_went_in_also_a_second_time(in_memory: int) -> None:
    spool = Spool(in_memory)
    for turn in range(2):
        for piece in (b"abc", b"", bytes(500), b"end" + bytes((turn,))):
            await spool.add(piece)
        view = await spool.view()
        assert bytes(view) == b"abc" + bytes(500) + b"end" + bytes((turn,))
        spool.clear()
        assert view[-1] == turn, "a view outlives its spool"
        del view


async def test_bytes_given_up_in_the_middle_of_a_write_leave_no_file() -> None:
    before = open_files()
    for _ in range(20):
        spool = Spool(0)
        await spool.add(bytes(1 << 20))
        await spool.add(bytes(9 << 20))
        spool.clear()
        await spool.add(b"anew")
        assert bytes(await spool.view()) == b"anew"
        spool.clear()
    await until(lambda: open_files() == before)
    assert asyncio.all_tasks() == {asyncio.current_task()}


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_large_block_is_in_a_file_without_a_name_and_not_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    before = open_files()
    spool = Spool()
    for _ in range(40):
        await spool.add(bytes(1 << 20))
    assert open_files() > before
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - a look
    assert spool.size <= 8 << 20
    view = await spool.view()
    assert len(view) == 40 << 20
    spool.clear()
    assert view[-1] == 0
    del view
    assert open_files() == before


def test_large_blocks_are_written_to_disk_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    assert spill.folder() == Path("/var/tmp")  # noqa: S108 - the point
    monkeypatch.setattr(spill, "_DISK", tmp_path / "nowhere")
    assert spill.folder() == Path(tempfile.gettempdir())


# --- fetching ahead


def ref(height: int) -> BlockRef:
    return BlockRef("demo", height, sha256d(bytes((height,))), bytes(32), 0, bytes(80))


class Source:
    """Gives blocks of set sizes when a test opens the gate; notes who asked, who has room, and who was cut short."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self.requests: list[int] = []
        self.let_in: list[int] = []
        self.done: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def fetch(self, ref: BlockRef, spool: Spool, room: Room) -> memoryview:
        self.requests.append(ref.height)
        await room(self.sizes[ref.height])
        self.let_in.append(ref.height)
        await self.gate.wait()
        await spool.add(bytes((ref.height,)) * self.sizes[ref.height])
        self.done.append(ref.height)
        return await spool.view()

    def refs(self) -> list[BlockRef]:
        return [ref(height) for height in range(len(self.sizes))]


async def test_blocks_come_in_order_whichever_download_is_fastest() -> None:
    source = Source([5] * 200)

    async def slow(ref: BlockRef, spool: Spool, room: Room) -> memoryview:
        for _ in range(ref.height % 7):
            await asyncio.sleep(0)
        return await source.fetch(ref, spool, room)

    results = [(ref.height, bytes(view)) async for ref, view in blocks(source.refs(), slow)]
    assert results == [(height, bytes((height,)) * 5) for height in range(200)]
    assert source.done != sorted(source.done), "some were quicker than those before"


async def test_the_next_blocks_come_while_one_is_used_as_far_as_their_bytes_allow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prefetch, "BYTES", 100)
    sizes = [1, 500, 40, 40, 40, 40, 500, 1]
    source = Source(sizes)
    reading = blocks(source.refs(), source.fetch)
    seen = []
    while (position := await anext(reading, None)) is not None:
        seen.append(position[0].height)
        upcoming = len(seen)
        if upcoming < len(sizes):
            await until(lambda: upcoming in source.done)  # noqa: B023 - the next may be of any size
        for _ in range(50):
            await asyncio.sleep(0)
        held = [sizes[height] for height in source.let_in if height > upcoming]
        assert sum(held) <= 100, "and what is beyond it has to fit"
    assert seen == list(range(8))


async def test_requests_under_way_are_bounded() -> None:
    source = Source([1] * 100)
    source.gate.clear()
    reading = blocks(source.refs(), source.fetch)
    waiting = asyncio.ensure_future(anext(reading))
    await until(lambda: len(source.requests) == prefetch.REQUESTS)
    for _ in range(50):
        await asyncio.sleep(0)
    assert source.requests == [0, 1, 2, 3]
    source.gate.set()
    await waiting
    await until(lambda: len(source.done) == prefetch.BLOCKS + 1)
    await reading.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_what_goes_wrong_is_raised_at_its_turn_and_ends_the_rest() -> None:
    source = Source([1] * 100)

    async def fetch(ref: BlockRef, spool: Spool, room: Room) -> memoryview:
        if ref.height == 3:
            raise ValueError("gone")
        return await source.fetch(ref, spool, room)

    seen = []

    async def read() -> None:
        async for ref, _ in blocks(source.refs(), fetch):
            seen.append(ref.height)

    with pytest.raises(ValueError, match="gone"):
        await read()
    assert seen == [0, 1, 2]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@settings(max_examples=30, deadline=None)
@given(steps=st.integers(0, 120), sizes=st.lists(st.integers(1, 90), min_size=1, max_size=20))
def test_cut_short_at_any_instant_nothing_is_left(steps: int, sizes: list[int]) -> None:
    async def story() -> None:
        source = Source(sizes)
        assert asyncio.all_tasks() == {asyncio.current_task()}

        async def read() -> None:
            async with aclosing(blocks(source.refs(), source.fetch)) as reading:
                async for _ in reading:
                    await asyncio.sleep(0)

        task = asyncio.create_task(read())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(story())


# --- transactions kept


async def test_what_is_announced_is_kept_as_far_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    kit = ChainKit()
    raws = [kit.raw(kit.pay(f"owner {number}")) for number in range(6)]
    monkeypatch.setattr("indexer.chains.node.transactions.CACHE_BYTES", 3 * len(raws[0]))
    monkeypatch.setattr("indexer.chains.node.transactions.LARGEST", 10 * len(raws[0]))
    transactions = Transactions(NodeClient(read_address("bsv", "http://127.0.0.1:1")), COIN_PARAMETERS["bsv"])
    for raw in raws[:3]:
        transactions.announce(raw)
        transactions.announce(raw)
    assert await transactions.get([sha256d(raws[0])]) == {sha256d(raws[0]): raws[0]}
    transactions.announce(raws[3])  # the second was used longest ago
    transactions.announce(bytes(11 * len(raws[0])))
    assert list(transactions.cache.values()) == [raws[2], raws[0], raws[3]]
    witness = Transactions(NodeClient(read_address("ltc", "http://127.0.0.1:1")), COIN_PARAMETERS["ltc"])
    witness.announce(b"no transaction")
    witness.announce(raws[0])
    assert list(witness.cache) == [sha256d(raws[0])]
