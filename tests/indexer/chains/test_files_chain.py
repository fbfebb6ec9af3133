"""A folder of block files read as a chain: what nodes and accidents leave in it, and how it grows."""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexer import chains
from indexer.chains.files import FilesChain, block_folder, create
from indexer.errors import SourceError, SourceUnavailableError
from indexer.headers.networks import NETWORKS, by_magic, network
from indexer.headers.proof_of_work import is_met, target, work
from indexer.headers.tree import BlockLocation, LocatedTree
from parsers.bitcoin import block as blocks
from parsers.bitcoin.tx import Outpoint, sha256d
from tests.chainkit import ChainKit
from tests.chainkit_blocks import Block, frame
from tests.indexing import Indexing
from tests.merging import merge_mined

MAGIC = bytes.fromhex("fabfb5da")

Open = Callable[..., Awaitable[FilesChain]]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Open]:
    """Opens the folder `tmp_path` as a chain, and closes it at the end."""
    created: list[FilesChain] = []

    async def open_(query: str = "?chain=bsv&network=regtest", name: str = "bsv") -> FilesChain:
        chain = create(name, f"files:{tmp_path}{query}")
        created.append(chain)
        await chain.open()
        return chain

    yield open_
    for chain in created:
        await chain.close()


@pytest.fixture(scope="module")
def kit() -> ChainKit:
    """Blocks 0 to 6, and a fork 4a, 5a, 6a, 7a on block 3."""
    mint = ChainKit()
    mint.mine_empty(5)
    mint.mine_empty(4, parent=mint["3"])
    return mint


def trunk(kit: ChainKit, last: int = 6) -> list[Block]:
    return [kit[str(height)] for height in range(last + 1)]


async def tip_of(chain: FilesChain) -> bytes | None:
    tip = await chain.tip()
    return tip.hash if tip else None


def unusable(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The logged messages about unusable bytes of block files."""
    return [record.getMessage().partition("not usable at ")[2] for record in caplog.records if "usable" in record.msg]


async def hashes(chain: FilesChain, first: int = 0, last: int = 10**6) -> list[bytes]:
    results = []
    async for ref, data in chain.blocks(first, last):
        assert sha256d(bytes(data[:80])) == ref.hash
        assert ref.header == bytes(data[:80])
        assert ref.prev == ref.header[4:36]
        assert blocks.merkle_root(data, segwit=chain.rules.segwit) == ref.header[36:68]
        assert ref.height == first + len(results)
        results.append(ref.hash)
    return results


# --- the sample chain


async def test_the_sample_chain_ends_where_its_tip_says(sample: Path) -> None:
    body = json.loads((sample / "tip.json").read_text())
    chain = create("demo", f"files:{sample}")
    await chain.open()
    tip = await chain.tip()
    assert tip is not None
    assert (tip.height, tip.hash[::-1].hex()) == (body["height"], body["hash"])
    assert (chain.caip2, chain.network, chain.finality, chain.first) == ("bsv:regtest", "regtest", None, 0)
    assert chain.rules.envelope == "output"
    results = await hashes(chain)
    assert len(results) == 126
    assert results[0][::-1].hex() == body["genesis"]
    assert (await chain.ref(60)).hash == results[60]  # type: ignore[union-attr]
    assert await chain.ref(126) is None
    assert await chain.ref(-1) is None
    assert (chain.violation_count, chain.block_folder.waiting) == (0, 0)
    stale = {item["hash"] for item in json.loads((sample / "expected.json").read_text())["staleBlocks"]}
    assert len(stale) == 3
    assert not stale & {digest[::-1].hex() for digest in results}
    await chain.close()


async def test_times_and_heights_are_those_of_the_headers(sample: Path) -> None:
    chain = create("demo", f"files:{sample}")
    await chain.open()
    async for ref, data in chain.blocks(3, 5):
        assert ref.time == int.from_bytes(data[68:72], "little")
        assert 3 <= ref.height <= 5
    await chain.close()


# --- how blocks are laid out in files


async def test_blocks_may_come_in_any_order_across_files(kit: ChainKit, tmp_path: Path, opened: Open) -> None:
    mixed = list(kit.blocks)
    random.Random(4).shuffle(mixed)
    kit.write(tmp_path, mixed, per_file=3, zeros=100)
    chain = await opened("")
    assert await tip_of(chain) == kit["7a"].hash
    assert await hashes(chain) == [block.hash for block in kit.branch(kit["7a"])]
    assert chain.block_folder.waiting == 0


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_order_and_any_cuts_give_the_heaviest_chain(data: st.DataObject, kit: ChainKit, tmp_path: Path) -> None:
    """Blocks in any order, in up to three files read at any moments, end in the same tip."""
    order = data.draw(st.permutations(kit.blocks))
    for path in tmp_path.glob("*.dat"):
        path.unlink()
    folder = block_folder.BlockFolder("bsv", tmp_path, network("bsv", "regtest"))
    for block in order:
        path = tmp_path / f"blk0000{data.draw(st.integers(0, 2))}.dat"
        raw = frame(block.raw)
        cut = data.draw(st.integers(0, len(raw)) | st.just(len(raw)))
        with path.open("ab") as file:
            file.write(raw[:cut])
        if data.draw(st.booleans()):
            attempt(folder)
        with path.open("ab") as file:
            file.write(raw[cut:])
    attempt(folder)
    assert folder.ref().hash == kit["7a"].hash  # type: ignore[union-attr]
    assert (folder.refused, folder.waiting, len(folder.tree)) == (0, 0, len(kit.blocks))


def attempt(folder: block_folder.BlockFolder) -> None:
    """Read what is there; a folder without genesis is not usable yet."""
    try:
        folder.refresh(threading.Event())
    except SourceUnavailableError as error:
        if "leads back to the genesis block" not in str(error):
            raise


async def test_zeros_between_and_behind_blocks_are_skipped(kit: ChainKit, tmp_path: Path, opened: Open) -> None:
    raw = b"".join(
        frame(block.raw) + bytes(gap) for gap, block in zip((0, 5, 3 << 20, 1, 7, 70, 9), trunk(kit), strict=True)
    )
    (tmp_path / "blk00000.dat").write_bytes(raw)
    chain = await opened()
    assert await hashes(chain) == [block.hash for block in trunk(kit)]
    assert chain.violation_count == 0


async def test_garbage_between_blocks_is_skipped_and_recorded(
    kit: ChainKit, tmp_path: Path, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = b"garbage" * 999, MAGIC + b"\x50\0\0\0" + b"too small to be a block"
    raw = [frame(block.raw) for block in trunk(kit)]
    (tmp_path / "blk00000.dat").write_bytes(b"".join([*raw[:2], first, *raw[2:4], second, *raw[4:], b"a torn end"]))
    chain = await opened()
    assert await hashes(chain) == [block.hash for block in trunk(kit)]
    starts = [len(b"".join(raw[:2])), len(first) + len(b"".join(raw[:4])), len(first + second) + len(b"".join(raw))]
    reasons = [
        "6,993 bytes that are not a block of bsv regtest",
        "a block with a wrong size or proof of work",
        "10 bytes that are not a block of bsv regtest",
    ]
    assert unusable(caplog) == [f"byte {start:,}: {reason}" for start, reason in zip(starts, reasons, strict=True)]
    await chain.tip()
    (tmp_path / "blk00000.dat").touch()
    await chain.tip()
    assert chain.violation_count == 3, "the same bytes are recorded once"


async def test_blocks_over_four_gigabytes_have_their_size_in_eight_more_bytes(
    kit: ChainKit, tmp_path: Path, opened: Open
) -> None:
    raw = [frame(block.raw, long=block.height % 2 == 1) for block in trunk(kit)]
    (tmp_path / "blk00000.dat").write_bytes(b"".join(raw))
    assert await hashes(await opened()) == [block.hash for block in trunk(kit)]


async def test_a_hole_of_five_gigabytes_between_blocks_is_a_block(kit: ChainKit, tmp_path: Path, opened: Open) -> None:
    """A sparse file: the frame of block 2 claims 5 GB; its header is real, its transactions are zeros."""
    path = tmp_path / "blk00000.dat"
    with path.open("wb") as file:
        file.write(frame(kit["0"].raw) + frame(kit["1"].raw))
        start = file.tell() + 16
        file.write(MAGIC + b"\xff" * 4 + (5 << 30).to_bytes(8, "little") + kit["2"].header)
        file.seek(start + (5 << 30))
        file.write(frame(kit["3"].raw))
    chain = await opened()
    assert (await chain.tip()).height == 3  # type: ignore[union-attr]
    sizes = [len(data) async for _, data in chain.blocks(1, 3)]
    assert sizes == [len(kit["1"].raw), 5 << 30, len(kit["3"].raw)]
    async for _, data in chain.blocks(2, 2):
        with pytest.raises(blocks.BlockError):
            blocks.tx_offsets(data)


async def test_an_obfuscated_folder_is_read_with_its_key(kit: ChainKit, tmp_path: Path, opened: Open) -> None:
    key = bytes.fromhex("a1b2c3d4e5f60718")
    paths = kit.write(tmp_path, per_file=4)
    for path in paths:
        plain = path.read_bytes()
        path.write_bytes(bytes(byte ^ key[index % 8] for index, byte in enumerate(plain)) + bytes(999))
    with pytest.raises(SourceError, match=r"begins with the magic .* xor\.dat"):
        await opened()
    (tmp_path / "xor.dat").write_bytes(key)
    chain = await opened()
    assert await hashes(chain) == [block.hash for block in kit.branch(kit["7a"])]
    assert chain.violation_count == 0
    (tmp_path / "xor.dat").write_bytes(key[:5])
    with pytest.raises(SourceError, match="holds 5 bytes where a key of 8 is expected"):
        await opened()


# --- bad blocks


def spoiled_header(block: Block) -> bytes:
    """The block with another time, and a header hash that misses the target."""
    for time in range(256):
        raw = block.raw[:68] + bytes((time,)) + block.raw[69:]
        if not is_met(sha256d(raw[:80]), 0x207FFFFF):
            return raw
    raise AssertionError("all meet the target")


async def test_a_header_without_proof_of_work_is_refused_and_the_rest_is_read(
    kit: ChainKit, tmp_path: Path, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    raw = [frame(block.raw) for block in trunk(kit)]
    (tmp_path / "blk00000.dat").write_bytes(b"".join([*raw[:4], frame(spoiled_header(kit["4"])), *raw[4:]]))
    chain = await opened()
    assert await hashes(chain) == [block.hash for block in trunk(kit)]
    assert [line.partition(": ")[2] for line in unusable(caplog)] == ["a block with a wrong size or proof of work"]


async def test_a_wrong_size_costs_only_its_block(kit: ChainKit, tmp_path: Path, opened: Open) -> None:
    raw = [frame(block.raw) for block in trunk(kit)]
    torn = MAGIC + b"\xff\xff\xff\x7f" + spoiled_header(kit["4"])
    (tmp_path / "blk00000.dat").write_bytes(b"".join([*raw[:4], torn, *raw[4:]]))
    chain = await opened()
    assert await hashes(chain) == [block.hash for block in trunk(kit)]
    assert chain.violation_count == 1


async def test_a_refused_block_and_its_children_are_left_out_until_another_copy_comes(
    kit: ChainKit, tmp_path: Path, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    path = kit.write(tmp_path)[0]
    chain = await opened()
    bad = await chain.ref(5)
    assert bad is not None
    assert bad.hash == kit["5a"].hash
    await chain.refuse(bad, "its transactions are nonsense")
    assert await tip_of(chain) == kit["6"].hash
    assert unusable(caplog)[-1].endswith(": block 5: its transactions are nonsense")
    kit.append(path, kit["5a"])
    assert await tip_of(chain) == kit["7a"].hash
    assert await hashes(chain) == [block.hash for block in kit.branch(kit["7a"])]


def damaged(block: Block) -> bytes:
    """A block with a changed byte in its last transaction, framed."""
    return frame(block.raw[:-9] + bytes([block.raw[-9] ^ 1]) + block.raw[-8:])


@pytest.mark.parametrize("one_file", [True, False])
@pytest.mark.parametrize("damaged_first", [True, False])
@pytest.mark.parametrize("waits", [True, False])
async def test_a_damaged_copy_of_a_block_does_not_win_over_a_good_one(
    one_file: bool, damaged_first: bool, waits: bool, kit: ChainKit, tmp_path: Path, opened: Open
) -> None:
    """`waits`: both copies come before the parent of their block."""
    copies = [damaged(kit["4"]), frame(kit["4"].raw)]
    before, after = ([frame(block.raw) for block in part] for part in (trunk(kit)[:4], trunk(kit)[5:]))
    first, second = copies if damaged_first else copies[::-1]
    parts = [[first, second], before, after] if waits else [before, [first], after, [second]]
    raw = [b"".join(part) for part in parts]
    raw = [b"".join(raw)] if one_file else raw
    for number, content in enumerate(raw):
        (tmp_path / f"blk{number:05}.dat").write_bytes(content)
    chain = await opened()
    results: list[bytes] = []
    for _ in range(2):  # reading ends at a damaged copy, and continues with another one
        results += await hashes(chain, len(results), 6)
    assert results == [block.hash for block in trunk(kit)]
    assert chain.blocked is None


async def test_a_block_of_which_every_copy_is_damaged_is_reported_until_a_good_one_comes(
    kit: ChainKit, tmp_path: Path
) -> None:
    blocks = [*trunk(kit)[:4], *trunk(kit)[5:]]
    (tmp_path / "blk00000.dat").write_bytes(b"".join(frame(block.raw) for block in blocks[:4]) + 2 * damaged(kit["4"]))
    kit.append(tmp_path / "blk00000.dat", *blocks[4:])
    chain = create("bsv", f"files:{tmp_path}?chain=bsv&network=regtest")
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", chain) as indexing:
        (follower,) = await indexing.open()
        progress = follower.progress
        for _ in range(3):
            await follower.catch_up()
        assert (progress.state, progress.height, progress.tip, progress.lag) == ("unreachable", 3, 6, 3)
        assert "block 4 is damaged in " in progress.error
        assert "blk00000.dat (its transactions do not match its merkle root" in progress.error
        kit.append(tmp_path / "blk00000.dat", kit["4"])
        await follower.catch_up()
        assert (progress.state, progress.height, progress.lag, progress.error) == ("following", 6, 0, "")
        await chain.close()


async def test_a_block_found_inside_other_bytes_must_match_its_merkle_root(
    kit: ChainKit, tmp_path: Path, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    forged = kit["2"].raw[:-10] + bytes(10)
    raw = [frame(block.raw) for block in trunk(kit)]
    (tmp_path / "blk00000.dat").write_bytes(b"".join([*raw[:2], b"rubbish", frame(forged), b"rubbish", *raw[2:]]))
    chain = await opened()
    assert await hashes(chain) == [block.hash for block in trunk(kit)]
    assert any(line.endswith("its transactions do not match its merkle root") for line in unusable(caplog))


# --- a folder that grows


async def test_an_empty_folder_is_opened_and_waited_for(kit: ChainKit, tmp_path: Path, opened: Open) -> None:
    chain = await opened()
    assert await chain.tip() is None
    assert await hashes(chain) == []

    async def later() -> None:
        await asyncio.sleep(0.05)
        kit.write(tmp_path, trunk(kit, 2))

    writing = asyncio.create_task(later())
    await asyncio.wait_for(chain.wait(300), timeout=60)
    await writing
    assert await tip_of(chain) == kit["2"].hash


async def test_waiting_ends_in_time_when_nothing_happens(kit: ChainKit, tmp_path: Path, opened: Open) -> None:
    kit.write(tmp_path)
    chain = await opened()
    loop = asyncio.get_running_loop()
    start = loop.time()
    await chain.wait(0.05)
    assert loop.time() - start >= 0.05


async def test_a_growing_file_is_read_on(kit: ChainKit, tmp_path: Path, opened: Open) -> None:
    path = kit.write(tmp_path, trunk(kit, 1))[0]
    chain = await opened()
    for height in range(2, 7):
        kit.append(path, kit[str(height)])
        assert await tip_of(chain) == kit[str(height)].hash
    kit.append(tmp_path / "blk00001.dat", kit["4a"], kit["5a"])
    assert await tip_of(chain) == kit["6"].hash
    kit.append(tmp_path / "blk00001.dat", kit["6a"])
    assert await tip_of(chain) == kit["6"].hash, "of two chains with the same work, the first seen stays"
    kit.append(tmp_path / "blk00001.dat", kit["7a"])
    assert await tip_of(chain) == kit["7a"].hash
    assert await hashes(chain) == [block.hash for block in kit.branch(kit["7a"])]


@pytest.mark.parametrize("preallocated", [0, 4096])
async def test_a_block_in_writing_is_waited_for_wherever_it_is_cut(
    kit: ChainKit, tmp_path: Path, opened: Open, preallocated: int
) -> None:
    done = b"".join(frame(block.raw) for block in trunk(kit, 5))
    last = frame(kit["6"].raw)
    path = tmp_path / "blk00000.dat"
    for cut in [*range(0, len(last), 7), len(last) - 1]:
        if (last[:cut] + bytes(preallocated)).startswith(last):
            continue  # the block ends in zeros
        path.write_bytes(done + last[:cut] + bytes(preallocated))
        chain = await opened()
        assert await tip_of(chain) == kit["5"].hash
        path.write_bytes(done + last + bytes(preallocated - preallocated // 2))
        assert await tip_of(chain) == kit["6"].hash
        assert chain.violation_count == 0 or cut < 16


async def test_a_stale_block_that_a_stranger_put_into_a_block_in_writing_changes_nothing(
    kit: ChainKit, tmp_path: Path, opened: Open
) -> None:
    mint = ChainKit()
    mint.mine_empty(2)
    carried = frame(mint["2"].raw)
    sneaky = mint.spend([mint.fund()], [(0, b"\x6a\x4e" + len(carried).to_bytes(4, "little") + carried)])
    late = mint.mine(sneaky, parent=mint["2"])
    done = b"".join(frame(mint[label].raw) for label in ("0", "1"))
    path = tmp_path / "blk00000.dat"
    path.write_bytes(done + frame(late.raw)[:-50])
    chain = await opened()
    assert await tip_of(chain) == mint["1"].hash
    path.write_bytes(done + frame(late.raw) + frame(mint["2"].raw))
    assert await tip_of(chain) == late.hash
    assert await hashes(chain) == [block.hash for block in mint.branch(late)]


async def test_a_file_that_was_replaced_is_read_again(kit: ChainKit, tmp_path: Path, opened: Open) -> None:
    kit.write(tmp_path)
    chain = await opened()
    assert await tip_of(chain) == kit["7a"].hash
    other = tmp_path / "other"
    other.write_bytes(b"".join(frame(block.raw) for block in reversed(kit.blocks)))
    other.rename(tmp_path / "blk00000.dat")
    assert await tip_of(chain) == kit["7a"].hash
    assert await hashes(chain) == [block.hash for block in kit.branch(kit["7a"])]


async def test_a_file_that_was_cut_loses_its_blocks_and_gets_them_back(
    kit: ChainKit, tmp_path: Path, opened: Open
) -> None:
    path = kit.write(tmp_path, trunk(kit))[0]
    chain = await opened()
    whole = path.read_bytes()
    keep = len(b"".join(frame(block.raw) for block in trunk(kit, 3)))
    path.write_bytes(whole[:keep])
    with pytest.raises(SourceUnavailableError, match="block 6 cannot be read"):
        await chain.tip()
    path.write_bytes(whole[:keep] + bytes(len(whole)))
    assert await tip_of(chain) == kit["3"].hash, "what stands in its place are zeros"
    path.write_bytes(whole)
    assert await tip_of(chain) == kit["6"].hash
    assert await hashes(chain) == [block.hash for block in trunk(kit)]


async def test_reading_ends_early_when_the_chain_changes_underneath(
    kit: ChainKit, tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_folder, "BATCH_BLOCKS", 2)
    path = kit.write(tmp_path, trunk(kit))[0]
    chain = await opened()
    seen = []
    async for ref, _ in chain.blocks(0, 100):
        seen.append(ref.hash)
        if ref.height == 5:
            kit.append(path, *(kit[label] for label in ("4a", "5a", "6a", "7a")))
            await chain.tip()
    assert seen == [block.hash for block in trunk(kit, 5)]


async def test_a_disk_error_is_retried(
    kit: ChainKit, tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.write(tmp_path)
    chain = await opened()

    def failing(*_: Any) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "preadv", failing)
        with pytest.raises(SourceUnavailableError, match=r"block 7 cannot be read .*Input/output error"):
            await chain.tip()
        with pytest.raises(SourceUnavailableError, match="block 0 cannot be read"):
            await hashes(chain)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", failing)
        (tmp_path / "blk00000.dat").touch()
        with pytest.raises(SourceUnavailableError, match="cannot be read now"):
            await chain.tip()
    assert await hashes(chain) == [block.hash for block in kit.branch(kit["7a"])]


async def test_a_folder_that_vanishes_is_waited_for(kit: ChainKit, tmp_path: Path, opened: Open) -> None:
    kit.write(tmp_path)
    chain = await opened()
    away = tmp_path.with_name("away")
    os.rename(tmp_path, away)  # noqa: PTH104 - pathlib is not for coroutines, says ASYNC240
    with pytest.raises(SourceUnavailableError, match="cannot be read now"):
        await chain.tip()
    os.rename(away, tmp_path)  # noqa: PTH104
    assert await tip_of(chain) == kit["7a"].hash


async def test_reading_headers_can_be_stopped_and_taken_up_again(kit: ChainKit, tmp_path: Path, opened: Open) -> None:
    kit.write(tmp_path)
    folder = block_folder.BlockFolder("bsv", tmp_path, network("bsv", "regtest"))
    stop = threading.Event()
    stop.set()
    folder.refresh(stop)
    assert folder.ref() is None
    folder.refresh(threading.Event())
    assert folder.ref().hash == kit["7a"].hash  # type: ignore[union-attr]


async def test_large_blocks_are_mapped(
    kit: ChainKit, tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_folder, "MAPPED_BYTES", 100)
    monkeypatch.setattr(block_folder, "BATCH_BYTES", 100)
    monkeypatch.setattr("indexer.chains.files.MAPPED_BYTES", 100)
    monkeypatch.setattr("indexer.chains.files.BATCH_BYTES", 100)
    kit.write(tmp_path)
    assert await hashes(await opened()) == [block.hash for block in kit.branch(kit["7a"])]


async def test_a_file_that_is_gone_is_missed_only_when_it_is_needed(
    kit: ChainKit, tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a node prunes: the files go, the newest stays."""
    paths = kit.write(tmp_path, trunk(kit), per_file=3)
    chain = await opened()
    paths[0].unlink()
    assert await tip_of(chain) == kit["6"].hash
    loop = asyncio.get_running_loop()
    start = loop.time()
    await chain.wait(0.05)
    assert loop.time() - start >= 0.05, "what is gone is not news"
    assert await hashes(chain, 3) == [block.hash for block in trunk(kit)[3:]]
    monkeypatch.setattr(block_folder, "MAPPED_BYTES", 100)
    for buffer in (bytearray(100_000), bytearray()):
        with pytest.raises(SourceUnavailableError, match=r"block 2 cannot be read .*No such file"):
            chain.block_folder.read(chain.block_folder.branch(2, 2), buffer)


async def test_long_work_stops_when_nobody_waits_for_it(kit: ChainKit, tmp_path: Path, opened: Open) -> None:
    kit.write(tmp_path)
    chain = await opened()
    begun, ended = threading.Event(), threading.Event()

    def work_(stop: threading.Event) -> None:
        begun.set()
        if stop.wait(60):
            ended.set()

    waiting = asyncio.create_task(chain.run_in_thread(work_))
    await asyncio.to_thread(begun.wait, 60)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await asyncio.to_thread(ended.wait, 60)


# --- values


async def test_values_are_found_backwards_as_far_as_allowed(tmp_path: Path, opened: Open) -> None:
    mint = ChainKit()
    paid = mint.pay("bob", 4321)
    early = mint.mine(paid)
    moved = mint.spend([paid], [(4000, b"\x51"), (300, b"\x52")])
    here = mint.mine(moved)
    mint.mine_empty(3)
    mint.write(tmp_path)
    chain = await opened("")
    position = await chain.ref(here.height)
    assert position is not None
    unknown = Outpoint(bytes(range(32)), 0)
    requests = [paid, moved.outpoint(1), moved.outpoint(7), unknown]
    assert await chain.values(requests, position) == {paid: 4321, moved.outpoint(1): 300}
    before = await chain.ref(early.height)
    assert before is not None
    assert await chain.values(requests, before) == {paid: 4321}, "only in that block and before it"
    short = await opened(f"?chain=bsv&network=regtest&lookback={len(here.raw)}")
    assert await short.values(requests, position) == {moved.outpoint(1): 300}
    none = await opened("?chain=bsv&network=regtest&lookback=0")
    assert await none.values(requests, position) == {}
    assert await chain.values(requests, replace(position, hash=bytes(32))) == {}
    path = tmp_path / "blk00000.dat"
    raw = bytearray(path.read_bytes())
    offset = raw.index(here.raw)
    raw[offset + 80] = 0xFE
    raw[raw.index(mint["4"].raw) + 5] ^= 1
    path.write_bytes(raw)
    top = await chain.ref(5)
    assert top is not None
    assert await chain.values(requests, top) == {paid: 4321}, "blocks that cannot be read are passed over"


# --- other coins


@pytest.mark.parametrize("coin", ["btc", "ltc", "bch", "doge"])
async def test_other_coins_are_read_by_their_rules(coin: str, tmp_path: Path, opened: Open) -> None:
    mint = ChainKit(coin)
    mint.mine(mint.pay("bob", 4321))
    mint.mine_empty(2)
    mint.write(tmp_path, zeros=50)
    chain = await opened("", coin)
    assert await hashes(chain) == [block.hash for block in mint.branch()]
    assert chain.caip2 == f"{coin}:regtest"
    assert chain.rules.segwit == (coin in ("btc", "ltc"))


async def test_dogecoin_blocks_with_the_work_of_another_chain_are_read_without_it(
    tmp_path: Path, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    mint = ChainKit("doge")
    raw = merge_mined(mint["1"])
    path = tmp_path / "blk00000.dat"
    path.write_bytes(frame(mint["0"].raw) + frame(raw))
    chain = await opened("?network=regtest", "doge")
    results = [(ref, bytes(data)) async for ref, data in chain.blocks(0, 9)]
    assert [ref.hash for ref, _ in results] == [mint["0"].hash, sha256d(raw[:80])]
    assert results[1][1] == raw[:80] + mint["1"].raw[80:]
    assert await chain.values([mint.funds(0)], results[1][0]) == {mint.funds(0): mint.satoshis(mint.funds(0))}
    position = raw.index(b"\x02" + bytes(64))
    path.write_bytes(
        frame(mint["0"].raw) + frame(raw[:position] + b"\xff" + raw[position + 1 :]) + frame(mint["0"].raw)
    )
    again = await opened("?network=regtest", "doge")
    assert [ref.height async for ref, _ in again.blocks(0, 9)] == [0]
    assert "merkle branch" in unusable(caplog)[-1]
    assert (await again.tip()).height == 0  # type: ignore[union-attr]


async def test_dogecoin_work_of_another_chain_that_is_not_its_own_is_refused(
    tmp_path: Path, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    mint = ChainKit("doge")
    mint.mine_empty(1)
    other = merge_mined(mint["1"])
    header = other[:4] + mint["2"].raw[4:80]
    borrowed = header + other[80 : len(other) - len(mint["1"].raw[80:])] + mint["2"].raw[80:]
    (tmp_path / "blk00000.dat").write_bytes(b"".join(frame(raw) for raw in (mint["0"].raw, mint["1"].raw, borrowed)))
    chain = await opened("?network=regtest", "doge")
    assert [ref.height async for ref, _ in chain.blocks(0, 9)] == [0, 1]
    assert "the other chain's coinbase does not name it" in unusable(caplog)[-1]
    assert "linkage; proof of work" in chain.checked


async def test_dogecoin_work_of_another_chain_that_is_cut_short_is_refused(
    tmp_path: Path, opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    mint = ChainKit("doge")
    raw = merge_mined(mint["1"])
    cut = raw[: raw.index(b"\x02" + bytes(64)) + 90]
    (tmp_path / "blk00000.dat").write_bytes(frame(mint["0"].raw) + frame(cut) + frame(mint["0"].raw))
    chain = await opened("?network=regtest", "doge")
    assert [ref.height async for ref, _ in chain.blocks(0, 9)] == [0]
    assert "runs past the end" in unusable(caplog)[-1]


@pytest.mark.parametrize("coin", ["ltc", "doge"])
async def test_behind_garbage_scrypt_work_is_required(coin: str, tmp_path: Path, opened: Open) -> None:
    """Expected blocks of scrypt coins are believed, found ones are not: a stranger could have written them."""
    mint = ChainKit(coin)
    mint.mine_empty(1)
    lazy = next(
        raw
        for nonce in range(1000)
        if not is_met(
            mint.coin.pow((raw := mint["2"].raw[:76] + nonce.to_bytes(4, "little") + mint["2"].raw[80:])[:80]),
            0x207FFFFF,
        )
    )
    raws = [frame(mint["0"].raw), frame(mint["1"].raw), b"rubbish", frame(lazy), b"rubbish", frame(mint["2"].raw)]
    (tmp_path / "blk00000.dat").write_bytes(b"".join(raws))
    chain = await opened("?network=regtest", coin)
    assert await hashes(chain) == [block.hash for block in mint.branch()]
    assert chain.violation_count == 1


# --- what the folder is


async def test_blocks_of_another_network_are_recognised_by_their_magic(
    kit: ChainKit, tmp_path: Path, opened: Open
) -> None:
    kit.write(tmp_path)
    with pytest.raises(SourceError, match=r"magic fabfb5da, where bsv mainnet has f9beb4d9: that is bsv regtest"):
        await opened("?network=mainnet")
    (tmp_path / "blk00000.dat").write_bytes(b"\x01\x02\x03\x04" + bytes(300))
    with pytest.raises(SourceError, match=r"magic 01020304, .*: supported are f9beb4d9 \(bsv mainnet\)"):
        await opened("?network=mainnet")


async def test_a_folder_without_its_beginning_says_that_files_are_missing(
    kit: ChainKit, tmp_path: Path, opened: Open
) -> None:
    kit.write(tmp_path, trunk(kit)[2:])
    with pytest.raises(SourceUnavailableError, match=r"none of the 5 blocks .* leads back to the genesis block"):
        await opened()


async def test_another_genesis_is_not_taken_for_the_networks(kit: ChainKit, tmp_path: Path, opened: Open) -> None:
    mainnet = network("bsv", "mainnet")
    strange = b"".join(frame(block.raw, magic=mainnet.magic) for block in trunk(kit))
    (tmp_path / "blk00000.dat").write_bytes(strange)
    with pytest.raises(SourceUnavailableError, match="leads back to the genesis block of bsv mainnet"):
        await opened("?network=mainnet")


def test_a_chain_that_parted_is_noticed_where_it_parted(kit: ChainKit, tmp_path: Path) -> None:
    kit.write(tmp_path)
    regtest = network("bsv", "regtest")
    right = replace(regtest, split_blocks=((5, kit["5a"].hex),))
    block_folder.BlockFolder("bsv", tmp_path, right).refresh(threading.Event())
    wrong = replace(regtest, split_blocks=((5, kit["5"].hex),))
    with pytest.raises(SourceError, match=f"its block 5 is {kit['5a'].hex}"):
        block_folder.BlockFolder("bsv", tmp_path, wrong).refresh(threading.Event())


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("?zmq=tcp://x", "unknown option 'zmq'; files: takes chain, network, from, finality, lookback"),
        ("?from=-1", "from='-1' is not a number of blocks"),
        ("?lookback=2GB", "lookback='2GB' is not a number of bytes"),
        ("?finality=", "finality='' is not a number of blocks"),
        ("?finality=٣", "is not a number of blocks"),
        ("?chain=eth", "chain='eth' is not available from files; use bsv, btc, ltc, bch, doge"),
        ("?from=1&from=2", "an option appears twice"),
    ],
)
def test_bad_options_are_named(query: str, text: str) -> None:
    with pytest.raises(SourceError, match=r"^bsv: ") as refused:
        create("bsv", f"files:/blocks{query}")
    assert text in str(refused.value)


async def test_chain_and_network_come_from_options_file_or_name(kit: ChainKit, tmp_path: Path, opened: Open) -> None:
    kit.write(tmp_path)
    (tmp_path / "tip.json").unlink()
    with pytest.raises(SourceError, match=r"which network is in .*\?network=mainnet\|testnet\|regtest"):
        await opened("")
    with pytest.raises(SourceError, match=r"demo: which chain is in .*\?chain=bsv\|btc"):
        await opened("?network=regtest", "demo")
    with pytest.raises(SourceError, match=r"bsv has no network 'moon': use network=mainnet\|testnet\|regtest"):
        await opened("?network=moon")
    assert (await opened("?network=regtest")).caip2 == "bsv:regtest"
    assert (await opened("?chain=bch&network=regtest&from=7&finality=3", "demo")).finality == 3
    kit.write_tip(tmp_path)
    assert (await opened("", "demo")).caip2 == "bsv:regtest"
    assert (await opened("?chain=btc", "demo")).caip2 == "btc:regtest"
    (tmp_path / "tip.json").write_text('["bsv"]')
    with pytest.raises(SourceError, match=r"tip\.json does not name the chain"):
        await opened("")


async def test_a_folder_that_is_not_there_says_what_to_do(kit: ChainKit, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"cannot be read \(No such file or directory\); create or mount it"):
        await create("bsv", f"files:{tmp_path}/nowhere?network=regtest").open()
    inner = tmp_path / "blocks"
    inner.mkdir()
    kit.write(inner)
    with pytest.raises(SourceError, match=r"holds no blk\*\.dat, but .*blocks does"):
        await create("bsv", f"files:{tmp_path}?network=regtest").open()
    with pytest.raises(SourceError, match="names no folder"):
        create("bsv", "files:")
    with pytest.raises(SourceError, match="is not open"):
        await create("bsv", f"files:{inner}").tip()


def test_the_kind_of_source_is_looked_up_by_its_scheme() -> None:
    assert isinstance(chains.create("bsv", "files:/blocks?network=regtest"), FilesChain)
    with pytest.raises(SourceError, match="'gopher' is not a known kind of source; there are files"):
        chains.create("bsv", "gopher://x")


# --- proof of work, networks, the tree


def test_targets_are_read_from_bits() -> None:
    assert target(0x1D00FFFF) == 0xFFFF << 208
    assert work(0x1D00FFFF) == 0x100010001
    assert work(0x207FFFFF) == 2
    for nothing in (0, 0x01000000, 0x1D80FFFF, 0xFF123456, 0x02000000, 0x00123456):
        assert (target(nothing), work(nothing)) == (0, 0)
        assert not is_met(bytes(32), nothing)
    assert target(0x03123456) == 0x123456
    assert target(0x02123456) == 0x1234
    assert work(0x01010000) == (1 << 128) - 1
    assert not is_met(bytes(32), 0x207FFFFF), "no hash is zero"


def test_two_thousand_real_headers_meet_their_targets(shared: Path) -> None:
    raw = (shared / "vectors" / "bsv" / "blocks" / "886001_888000_headers.bin").read_bytes()
    headers = [raw[index : index + 80] for index in range(0, len(raw), 80)]
    assert len(headers) == 2000
    for before, after in pairwise(headers):
        assert after[4:36] == sha256d(before)
    assert all(is_met(sha256d(header), int.from_bytes(header[72:76], "little")) for header in headers)
    assert not any(is_met(sha256d(header), 0x17000001) for header in headers)


def test_networks_have_their_own_names() -> None:
    names = [existing.caip2 for existing in NETWORKS]
    assert len(names) == len(set(names))
    assert network("btc", "mainnet").caip2 == "bip122:000000000019d6689c085ae165831e93"
    assert network("bch", "mainnet").caip2 == "bip122:000000000000000000651ef99cb9fcbe"
    assert network("doge", "mainnet").caip2 == "bip122:1a91e3dace36e2be3bf030a65679fe82"
    assert {str(existing) for existing in by_magic(bytes.fromhex("fbc0b6db"))} == {"ltc mainnet"}
    assert network("bsv", "mainnet").finality == 100
    with pytest.raises(SourceError, match="'xrp' is not a supported coin"):
        network("xrp", "mainnet")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 5), st.booleans()), max_size=60))
def test_the_tree_agrees_with_a_dictionary_of_chains(history: list[tuple[int, int, bool]]) -> None:
    """Blocks on any parent, some refused later: the best chain is that of a plain search over all."""
    tree = LocatedTree()
    chain_of: dict[int, list[int]] = {}
    weight: dict[int, int] = {}
    bad: set[int] = set()
    for pick, worth, refuses in history:
        parent = pick % len(chain_of) if chain_of else None
        number = tree.put(sha256d(len(chain_of).to_bytes(4, "little")), parent, worth, BlockLocation(0, 8, 100))
        assert number == len(chain_of)
        chain_of[number] = [*(chain_of[parent] if parent is not None else []), number]
        weight[number] = worth + (weight[parent] if parent is not None else 0)
        if refuses and pick % 3 == 0:
            bad.add(pick % len(chain_of))
            tree.refuse(pick % len(chain_of))
        good = [n for n in chain_of if not bad & set(chain_of[n])]
        best = chain_of[max(good, key=lambda n: (weight[n], -n))] if good else []
        assert [tree.number_at(height) for height in range(tree.height + 1)] == best
        assert [tree.is_bad(n) for n in chain_of] == [bool(bad & set(chain_of[n])) for n in chain_of]
        assert tree.find(sha256d(number.to_bytes(4, "little"))) == number
        assert tree.height_of(number) == len(chain_of[number]) - 1
    assert tree.find(bytes(32)) is None


def test_the_tree_finds_each_of_thousands() -> None:
    tree = LocatedTree()
    digests = [sha256d(number.to_bytes(4, "little")) for number in range(3000)]
    for number, digest in enumerate(digests):
        assert tree.put(digest, number - 1 if number else None, 2, BlockLocation(number % 7, number, 100)) == number
    assert [tree.find(digest) for digest in digests] == list(range(3000))
    assert tree.work(2999) == 6000
    assert tree.location(2999) == BlockLocation(3, 2999, 100)
    assert (tree.height, tree.parent(0), tree.parent(2999)) == (2999, None, 2998)
