"""The chain of headers: any tree in any order gives the best chain of a slow oracle, and nothing false is taken."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.headers import header_chain as module
from indexer.headers.header_chain import HeaderChain, HeaderError
from indexer.headers.networks import NETWORKS, Checkpoint, checkpoints, network
from indexer.headers.proof_of_work import is_met, work
from indexer.headers.rules import scrypt
from parsers.bitcoin.tx import sha256d
from tests.headers import EASY, GENESIS_TIME, MemoryRows, Oracle, check_linked, hashes, header, line

REGTEST = network("bsv", "regtest")
MAINNET = network("bsv", "mainnet")


def regtest(rows: MemoryRows | None = None) -> HeaderChain:
    return HeaderChain("demo", REGTEST, rows)


def split(raw: bytes) -> list[bytes]:
    return [raw[index : index + 80] for index in range(0, len(raw), 80)]


# -- the best chain


def test_an_empty_chain_knows_nothing() -> None:
    chain = regtest()
    assert (chain.tip(), chain.newest(), chain.first, chain.ref(0), chain.find(bytes(32))) == (None,) * 5
    assert (chain.locator(), chain.anchored, chain.is_best(bytes(32))) == ([], False, False)
    chain.save()
    chain.load()


def test_a_header_is_a_block_with_its_80_bytes() -> None:
    chain, answer = regtest(), line(3)
    chain.add(answer)
    tip = chain.tip()
    assert tip is not None
    assert (tip.chain, tip.height, tip.hash, tip.prev) == ("demo", 2, sha256d(answer[2]), sha256d(answer[1]))
    assert (tip.time, tip.header) == (GENESIS_TIME + 1200, answer[2])
    assert chain.ref(0) is not None
    assert [chain.ref(height) for height in (-1, 3)] == [None, None]
    assert chain.first == 0


TREES = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 3)), min_size=1, max_size=40)


@settings(max_examples=60, deadline=None)
@given(TREES, st.data())
def test_any_tree_in_any_order_gives_the_chain_with_most_work(
    shape: list[tuple[int, int]], data: st.DataObject
) -> None:
    tree = [header(bytes(32))]
    heights = {sha256d(tree[0]): 0}
    for pick, near in shape:
        parent = sha256d(tree[max(0, len(tree) - 1 - near) if pick % 3 else pick % len(tree)])
        heights[parent] = heights.get(parent, 0)
        raw = header(parent, root=len(tree), time=GENESIS_TIME + 600 * (heights[parent] + 1))
        heights[sha256d(raw)] = heights[parent] + 1
        tree.append(raw)
    oracle, rows = Oracle(), MemoryRows()
    chain = regtest(rows)
    waiting = data.draw(st.permutations(tree[1:]))
    arrived = {sha256d(tree[0])}
    chain.add(tree[:1])
    oracle.add(tree[0], work(EASY))
    while waiting:
        ready = [raw for raw in waiting if raw[4:36] in arrived][: data.draw(st.integers(1, 8))]
        waiting = [raw for raw in waiting if raw not in ready]
        arrived |= {sha256d(raw) for raw in ready}
        chain.add(ready + ready[:1])
        for raw in ready:
            oracle.add(raw, work(EASY))
        check(chain, oracle)
        if data.draw(st.booleans()):
            chain.save()
            again = regtest(rows)
            again.load()
            assert hashes(again) == hashes(chain)


def check(chain: HeaderChain, oracle: Oracle) -> None:
    """Check that the chain answers as the oracle."""
    best = [sha256d(raw) for raw in oracle.best()]
    assert hashes(chain) == best
    for digest, (raw, height, _) in oracle.seen.items():
        assert chain.find(digest) == height
        assert chain.is_best(digest) == (digest in best)
        branch = [chain.ref(index, under=digest) for index in range(height + 1)]
        assert [ref.header for ref in branch if ref] == oracle.branch(digest)
        assert chain.ref(height + 1, under=digest) is None
        assert raw == oracle.branch(digest)[-1]
    assert chain.ref(0, under=bytes(32)) is None


def test_the_locator_thins_out_towards_genesis() -> None:
    chain = regtest()
    answer = line(200)
    chain.add(answer)
    heights = [chain.find(digest) for digest in chain.locator()]
    assert heights[:10] == list(range(199, 189, -1))
    assert heights[10:] == [188, 184, 176, 160, 128, 64, 0]


def test_one_thread_may_ask_while_another_adds() -> None:
    chain, answer = regtest(), line(3_000)
    digests = [sha256d(raw) for raw in answer]
    done = threading.Event()

    def add() -> None:
        try:
            for index in range(0, len(answer), 50):
                chain.add(answer[index : index + 50])
        finally:
            done.set()

    adding = threading.Thread(target=add)
    adding.start()
    try:
        seen = 0
        while not done.is_set() or seen < 2_999:
            tip = chain.tip()
            if tip is not None:
                assert tip.height >= seen
                seen = tip.height
                assert (tip.hash, tip.header) == (digests[seen], answer[seen])
                assert chain.ref(seen // 2, under=tip.hash) == chain.ref(seen // 2)
            assert not done.is_set() or tip is not None
            if done.is_set():
                assert chain.find(digests[-1]) == 2_999
    finally:
        adding.join()


def test_slow_checks_say_how_far_they_are(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(module, "LOG_EVERY", 2)
    chain = HeaderChain("ltc", network("ltc", "regtest"))
    answers: list[bytes] = []
    for height in range(5):
        prev = sha256d(answers[-1]) if answers else bytes(32)
        tried = (header(prev, root=root, time=GENESIS_TIME + height) for root in count())
        answers.append(next(raw for raw in tried if is_met(scrypt(raw), EASY)))
    with caplog.at_level(logging.INFO):
        chain.add(answers)
    assert [record.getMessage() for record in caplog.records] == [
        "ltc: proof of work checked of 2 headers, up to 1",
        "ltc: proof of work checked of 4 headers, up to 3",
    ]


# -- what is refused


def refused(chain: HeaderChain, headers: Sequence[bytes]) -> str:
    before = chain.tip()
    with pytest.raises(HeaderError) as caught:
        chain.add(headers)
    assert chain.tip() == before
    return str(caught.value)


def test_a_header_that_breaks_a_rule_is_refused_with_its_height_and_the_rule() -> None:
    chain, answer = regtest(), line(12)
    chain.add(answer)
    tip, now = sha256d(answer[-1]), GENESIS_TIME + 600 * 12
    unmined = header(tip, time=now, mined=False)
    why = "its proof of work does not meet its bits 207fffff"
    assert refused(chain, [unmined]) == f"demo: header 12 ({sha256d(unmined)[::-1].hex()}) is refused: {why}"
    assert "its bits are 207ffffe where 207fffff is required" in refused(
        chain, [header(tip, time=now, bits=0x207FFFFE)]
    )
    median = GENESIS_TIME + 600 * 6
    assert f"its time {median} is not after {median}" in refused(chain, [header(tip, time=median)])
    chain.add([header(tip, time=median + 1)])


def test_a_header_on_nothing_known_or_of_another_length_is_refused() -> None:
    chain, answer = regtest(), line(3)
    chain.add(answer)
    assert "which is not known" in refused(chain, [header(bytes(range(32)))])
    assert "which is not known" in refused(chain, [header(bytes(32), root=5)]), "a second genesis"
    assert "has 79 bytes" in refused(chain, [answer[0][:79]])
    assert "has 0 bytes" in refused(chain, [b""])


def test_the_first_header_is_a_genesis_block() -> None:
    assert "is not a genesis block" in refused(regtest(), [header(bytes(range(32)))])
    assert "bsv mainnet has 000000000019d668" in refused(HeaderChain("m", MAINNET), line(1))


@pytest.mark.parametrize(
    "bits", [0, 1, 0x00FFFFFF, 0x207FFFFE, 0x20800000, 0x21008000, 0xFF7FFFFF, 0xFFFFFFFF, 0x03000001]
)
def test_bits_that_mean_nothing_or_too_much_are_refused(bits: int) -> None:
    chain, answer = regtest(), line(1)
    chain.add(answer)
    raw = (
        answer[0][:4] + sha256d(answer[0]) + bytes(32) + (2**32 - 1).to_bytes(4, "little") + bits.to_bytes(4, "little")
    )
    assert f"its bits are {bits:08x} where 207fffff is required" in refused(chain, [raw + bytes(4)])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=200) | st.binary(min_size=80, max_size=80), max_size=4), st.booleans())
def test_any_bytes_are_taken_or_refused_as_a_header(supplied: list[bytes], on_top: bool) -> None:
    chain = regtest()
    if on_top:
        chain.add(line(2))
        supplied = [raw[:4] + sha256d(line(2)[1]) + raw[36:] if len(raw) == 80 else raw for raw in supplied]
    try:
        chain.add(supplied)
    except HeaderError:
        return
    assert all(chain.find(sha256d(raw)) is not None for raw in supplied)


def test_headers_before_a_bad_one_are_kept() -> None:
    chain, answer = regtest(), line(5)
    with pytest.raises(HeaderError):
        chain.add([*answer[:3], b"", *answer[3:]])
    assert hashes(chain) == [sha256d(raw) for raw in answer[:3]]
    chain.add(answer)
    assert len(hashes(chain)) == 5


# -- what is kept beside the best chain


def test_branches_beside_the_best_chain_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SIDE_HEADERS", 12)
    chain, answer = regtest(), line(30)
    chain.add(answer)
    branches = [header(sha256d(answer[20]), root=100 + number, time=GENESIS_TIME + 600 * 21) for number in range(20)]
    for raw in branches:
        chain.add([raw])
        assert sum(chain.find(sha256d(raw)) is not None for raw in branches) <= 12
    assert hashes(chain) == [sha256d(raw) for raw in answer]
    assert chain.find(sha256d(branches[-1])) == 21, "the newest branch is still there"
    longer = line(12, prev=sha256d(answer[20]), first=21, root=500)
    chain.add(longer)
    assert hashes(chain)[21:] == [sha256d(raw) for raw in longer], "a branch that wins is followed all the same"
    check_linked(chain)


def test_one_branch_without_enough_work_is_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SIDE_HEADERS", 5)
    chain, answer = regtest(), line(30)
    chain.add(answer)
    branch = line(10, prev=sha256d(answer[2]), first=3, root=7)
    message = refused(chain, branch)
    assert "5 headers have less work than the best chain" in message
    assert sum(chain.find(sha256d(raw)) is not None for raw in branch) == 5


def test_a_fork_far_below_the_tip_is_refused_but_on_regtest(monkeypatch: pytest.MonkeyPatch) -> None:
    chain, answer = regtest(), line(30)
    chain.add(answer)
    chain.side_depth = 10
    assert "forks from the best chain 15 blocks below its tip" in refused(
        chain, line(1, prev=sha256d(answer[14]), first=15, root=7)
    )
    chain.add(line(12, prev=sha256d(answer[20]), first=21, root=7))
    check_linked(chain)
    assert regtest().side_depth is None
    assert HeaderChain("m", MAINNET).side_depth == module.SIDE_DEPTH


# -- checkpoints


@pytest.fixture
def pointed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """A line of 60 headers whose blocks 20 and 40 are checkpoints of regtest, as genesis is."""
    answer = line(60)
    points = tuple(Checkpoint(height, sha256d(answer[height])) for height in (0, 20, 40))
    monkeypatch.setattr(module, "checkpoints", lambda _network: points)
    monkeypatch.setattr(module, "LEAD", 5)
    return answer


def test_a_chain_that_begins_below_a_checkpoint_tells_nothing_until_it_is_reached(pointed: list[bytes]) -> None:
    chain = regtest()
    chain.begin(15, pointed[15:18])
    assert (chain.tip(), chain.ref(16), chain.is_best(sha256d(pointed[16])), chain.anchored) == (
        None,
        None,
        False,
        False,
    )
    newest = chain.newest()
    assert newest is not None
    assert (newest.height, chain.first, chain.find(newest.hash)) == (17, 15, 17)
    chain.add(pointed[18:])
    tip = chain.tip()
    assert tip is not None
    assert (tip.height, chain.first) == (59, 15)
    assert chain.ref(14) is None
    assert "up to 20 only linkage and work, to a checkpoint" in chain.checked
    assert [chain.find(digest) for digest in chain.locator()][-1] == 15


def test_what_does_not_lead_to_the_checkpoint_is_forgotten(pointed: list[bytes]) -> None:
    chain = regtest()
    chain.begin(15, pointed[15:17])
    false = line(4, prev=sha256d(pointed[16]), first=17, root=3)
    chain.add(false[:3])
    with pytest.raises(HeaderError, match="there; the headers that led up to it are dropped"):
        chain.add(false[3:])
    assert (chain.newest(), chain.first) == (None, None)
    with pytest.raises(HeaderError, match="there; the headers that led up to it are dropped"):
        chain.begin(15, pointed[15:17] + false)
    chain.begin(15, pointed[15:])
    assert chain.anchored


def test_a_chain_from_genesis_goes_back_to_the_last_checkpoint_when_it_misses_the_next(pointed: list[bytes]) -> None:
    rows = MemoryRows()
    chain = regtest(rows)
    chain.add(pointed[:31])
    chain.save()
    with pytest.raises(HeaderError):
        chain.add(line(15, prev=sha256d(pointed[30]), first=31, root=3))
    tip = chain.tip()
    assert tip is not None
    assert tip.height == 20
    chain.save()
    again = regtest(rows)
    again.load()
    assert hashes(again) == [sha256d(raw) for raw in pointed[:21]]
    chain.add(pointed[21:])
    assert len(hashes(chain)) == 60


def test_a_fork_before_a_checkpoint_that_was_reached_is_refused(pointed: list[bytes]) -> None:
    chain = regtest()
    chain.add(pointed[:30])
    assert "forks from the best chain before the checkpoint at 20" in refused(
        chain, line(1, prev=sha256d(pointed[10]), first=11, root=3)
    )
    chain.add(line(1, prev=sha256d(pointed[20]), first=21, root=3))


def test_a_bad_start_leaves_all_as_it_was(pointed: list[bytes]) -> None:
    rows = MemoryRows()
    chain = regtest(rows)
    chain.add(pointed[:30])
    chain.save()
    with pytest.raises(HeaderError, match="no checkpoint is above height 41"):
        chain.begin(41, pointed[41:])
    with pytest.raises(HeaderError):
        chain.begin(12, line(30, prev=sha256d(pointed[11]), first=12, root=3))
    assert hashes(chain) == [sha256d(raw) for raw in pointed[:30]]
    chain.save()
    assert b"".join(raw for _, raw in rows.load_headers("demo")) == b"".join(pointed[:30])


def test_a_start_asks_for_the_fewest_headers(pointed: list[bytes]) -> None:
    chain = regtest()
    assert [chain.span(count, 59) for count in (0, 10, 15, 17, 30, 50)] == [
        (0, 40), (10, 40), (15, 40), (17, 40), (30, 40), (35, 40),
    ]  # fmt: skip
    assert chain.span(38, 59) == (35, 40), "the rules above the checkpoint look back"
    assert chain.span(30, 39) == (15, 20), "a node that has not reached 40"
    assert chain.span(30, 10) == (0, 0)


@pytest.mark.parametrize("existing", [item for item in NETWORKS if item.kind != "regtest"], ids=str)
def test_checkpoints_of_a_network_begin_with_genesis(existing: object) -> None:
    results = checkpoints(existing)  # type: ignore[arg-type]
    assert results[0] == Checkpoint(0, bytes.fromhex(existing.genesis)[::-1])  # type: ignore[attr-defined]
    assert [item.height for item in results] == sorted({item.height for item in results})
    if existing.coin not in ("ltc", "doge"):  # type: ignore[attr-defined]
        assert all(item.hash.endswith(bytes(3)) for item in results), "their hashes show their work"


# -- kept between starts


def test_a_start_that_was_cut_short_goes_on(pointed: list[bytes]) -> None:
    rows = MemoryRows()
    chain = regtest(rows)
    chain.begin(15, pointed[15:18])
    chain.save()
    again = regtest(rows)
    again.load()
    newest = again.newest()
    assert newest is not None
    assert (again.tip(), newest.height) == (None, 17)
    again.add(pointed[18:22])
    assert again.anchored


@pytest.mark.parametrize("fault", ["unlinked", "gap", "odd", "network", "nowhere"])
def test_kept_headers_that_cannot_be_right_are_had_again(
    fault: str, pointed: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    joined = b"".join(pointed)
    pieces = {
        "unlinked": [(0, joined[:800]), (10, joined[800:900] + b"?" + joined[901:1600])],
        "gap": [(0, joined[:800]), (11, joined[880:])],
        "odd": [(0, joined[:800]), (10, joined[800:850])],
        "network": [
            (0, joined[:800]),
            (10, joined[800:1200] + b"".join(line(20, prev=sha256d(pointed[14]), first=15, root=2))),
        ],
        "nowhere": [(50, joined[4000:])],
    }[fault]
    rows = MemoryRows(*pieces)
    chain = regtest(rows)
    with caplog.at_level(logging.WARNING):
        chain.load()
    assert "are skipped" in caplog.text
    stored = 0 if fault == "nowhere" else 10
    assert len(hashes(chain)) == stored
    chain.add(pointed)
    chain.save()
    again = regtest(rows)
    again.load()
    assert hashes(again) == [sha256d(raw) for raw in pointed]


# -- real headers


def test_the_first_headers_of_bitcoin_are_taken(shared: Path) -> None:
    answer = split((shared / "vectors/overlay/headers/mainnet-headers-2016.raw").read_bytes())
    for coin in ("bsv", "btc", "bch"):
        chain = HeaderChain(coin, network(coin, "mainnet"))
        chain.add(answer)
        assert len(hashes(chain)) == 2_017
    forged = bytearray(answer[2016])
    forged[72:76] = bytes.fromhex("feff001d")
    for coin in ("bsv", "btc"):
        chain = HeaderChain(coin, network(coin, "mainnet"))
        chain.add(answer[:2016])
        assert "its bits are 1d00fffe where 1d00ffff is required" in refused(chain, [bytes(forged)])


def test_real_headers_lead_up_to_the_packaged_checkpoint(shared: Path) -> None:
    answer = split((shared / "vectors/bsv/blocks/886001_888000_headers.bin").read_bytes())
    chain = HeaderChain("bsv", MAINNET)
    chain.begin(886_001, answer[:-1])
    assert not chain.anchored
    chain.add(answer[-1:])
    tip = chain.tip()
    assert tip is not None
    assert (tip.height, tip.hash[::-1].hex()) == (888_000, MAINNET_888_000)
    assert chain.ref(886_001) is not None


MAINNET_888_000 = "000000000000000004026d10802cf1132fc67cc7a0c340eb4686869edaf48f38"


@pytest.mark.parametrize(
    ("name", "path", "first"),
    [
        ("mainnet", "886001_888000_headers.bin", 886_001),
        ("testnet", "testnet_headers_1602530_1602710.bin", 1_602_530),
    ],
)
def test_real_headers_above_a_checkpoint_have_the_required_bits(
    shared: Path, monkeypatch: pytest.MonkeyPatch, name: str, path: str, first: int
) -> None:
    answer = split((shared / "vectors/bsv/blocks" / path).read_bytes())
    points = (Checkpoint(first + 149, sha256d(answer[149])),)
    monkeypatch.setattr(module, "checkpoints", lambda _network: points)
    chain = HeaderChain("bsv", network("bsv", name))
    chain.begin(first, answer[:150])
    chain.add(answer[150:])
    assert chain.ref(first + len(answer) - 1) == chain.tip()
    short = HeaderChain("bsv", network("bsv", name))
    short.begin(first + 100, answer[100:150])
    assert "its required bits cannot be known without the header at" in refused(short, answer[150:])


def test_the_sample_chain_of_a_real_node_is_taken(sample: Path) -> None:
    data = (sample / "blk00000.dat").read_bytes()
    waiting, position = [], 0
    while data[position : position + 4] == REGTEST.magic:
        waiting.append(data[position + 8 : position + 88])
        position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
    chain = regtest()
    while waiting:
        existing = [raw for raw in waiting if not any(raw[4:36]) or chain.find(raw[4:36]) is not None]
        assert existing
        chain.add(existing)
        waiting = [raw for raw in waiting if raw not in existing]
    tip = chain.tip()
    assert tip is not None
    assert tip.hash[::-1].hex() == "76e6fabe1c356d8d2f991cd14e4b910fb01c5842921b97d5ab70ef698dc8a3cc"
