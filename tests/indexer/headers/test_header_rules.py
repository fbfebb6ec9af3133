"""The rules of headers: bitcoinX and its own chain are the oracle of required bits; scrypt and merge-mined work."""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indexer.headers import proof_of_work
from indexer.headers.header_chain import HeaderChain, HeaderError
from indexer.headers.networks import NETWORKS, network
from indexer.headers.proof_of_work import compact, is_met, target, work
from indexer.headers.raw_tree import Branch, RawTree
from indexer.headers.required_bits import (
    RuleError,
    UncheckedHeader,
    asert,
    easiest,
    fortnightly,
    median_time,
)
from indexer.headers.rules import HeaderRules, scrypt
from indexer.headers.tree import HeaderTree
from parsers.bitcoin.tx import sha256d
from parsers.errors import ParseError
from tests.merging import merged_work

bitcoinx = pytest.importorskip("bitcoinx", reason="bitcoinX has no wheels for this Python")

# -- targets


@given(st.integers(1, (1 << 256) - 1))
def test_the_compact_form_of_a_target_is_that_of_bitcoinx(value: int) -> None:
    assert compact(value) == bitcoinx.target_to_bits(value)
    assert target(compact(value)) <= value
    assert compact(target(compact(value))) == compact(value)


# -- required bits, by bitcoinX


def unmined(prev: bytes, time: int, bits: int, root: int) -> bytes:
    return (
        bytes(4)
        + prev
        + root.to_bytes(32, "little")
        + time.to_bytes(4, "little")
        + bits.to_bytes(4, "little")
        + bytes(4)
    )


class Both:
    """Two branches with the same headers, without their work: one of ours, and one of bitcoinX'."""

    def __init__(self, coin: str, name: str, first: int, bits: int) -> None:
        self.rules: Any = bitcoinx.networks_by_name[name]
        self.ours = HeaderRules(network(coin, name))
        self.tree = RawTree(first)
        self.chain: Any = bitcoinx.Chain(None, first)
        self.branch = Branch(self.tree, None)
        self.time, self.bits = 1_400_000_000, bits

    def add(self, gap: int, bits: int) -> None:
        self.time = max(1, self.time + gap)
        number = self.branch.number_at(self.branch.height)
        raw = unmined(self.tree.hash(number) if number is not None else bytes(32), self.time, bits, len(self.tree))
        self.branch.append(self.tree.put(sha256d(raw), number, work(bits), raw))
        self.chain.append(raw)

    def go_on(self, gaps: list[int]) -> None:
        """Require bits of both for each next header, and add it."""
        for gap in gaps:
            height, time = self.branch.height + 1, max(1, self.time + gap)
            theirs = self.rules.required_bits(self.rules, self.chain, height, time)
            assert self.ours.required is not None
            header = UncheckedHeader(unmined(bytes(32), time, 0, 0), b"")
            allowed = self.ours.required(self.branch, header)
            assert (compact(allowed.start), len(allowed)) == (theirs, 1)
            assert median_time(self.branch, height - 1) == self.chain.median_time_past(height - 1)
            self.add(gap, theirs)


GAPS = st.lists(st.integers(-3_000, 20_000) | st.sampled_from([600, 1_199, 1_201, 90_000]), min_size=1, max_size=40)
STARTS = [
    ("mainnet", 0, 20),
    ("mainnet", 2_016 * 100 - 2_020, 2_010),
    ("mainnet", 478_500, 2_100),
    ("mainnet", 503_900, 200),
    ("mainnet", 800_000, 160),
    ("testnet", 2_016 * 50 - 2_020, 2_010),
    ("testnet", 1_188_600, 2_100),
    ("testnet", 1_600_000, 160),
]


@pytest.mark.parametrize(("name", "first", "before"), STARTS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_required_bits_are_those_of_bitcoinx(name: str, first: int, before: int, data: st.DataObject) -> None:
    both = Both("bsv", name, first, 0x1B0404CB)
    pace = data.draw(st.sampled_from([300, 600, 1_500]))
    for number in range(before):
        both.add(pace + number % 7, 0x1D00FFFF if first == 0 else 0x1B0404CB)
    both.go_on(data.draw(GAPS))


@settings(max_examples=15, deadline=None)
@given(st.integers(-(10**7), 10**8), st.sampled_from([0x1B0404CB, 0x1D00FFFF, 0x1D00D86A, 0x170C3A2B]))
def test_bitcoin_asks_for_new_bits_every_fortnight_as_bitcoinx_says(gap: int, bits: int) -> None:
    both = Both("bsv", "mainnet", 2_016 * 99, bits)
    for _ in range(2_015):
        both.add(600, bits)
    both.add(gap, bits)
    from bitcoinx.headers import _required_bits_fortnightly

    for _ in range(2):
        height = both.branch.height + 1
        theirs = _required_bits_fortnightly(both.rules, both.chain, height)
        allowed = fortnightly(both.branch, UncheckedHeader(bytes(80), b""))
        assert (compact(allowed.start), len(allowed)) == (theirs, 1)
        both.add(600, theirs)
    assert HeaderRules(network("btc", "mainnet")).required is fortnightly


def test_bits_that_cannot_be_known_are_reported_as_unknown() -> None:
    both = Both("bsv", "mainnet", 800_000, 0x1B0404CB)
    for _ in range(100):
        both.add(600, 0x1B0404CB)
    with pytest.raises(RuleError, match="cannot be known without the header at 799,95"):
        both.ours.check(both.branch, UncheckedHeader(unmined(bytes(32), both.time + 600, 0x1B0404CB, 0), bytes(32)))


# -- bits of the other coins

PUBLISHED = [
    # published vectors of aserti3-2d: bits of the anchor, the time of its parent, its height; then of some blocks
    # their height, their time, and the bits that are required of the next
    (0x1802AEE8, 0, 1, (2, 1_200, 0x1802AEE8), (3, 1_310, 0x1802AD91), (9, 7_099, 0x1802B39C), (10, 7_099, 0x1802B1F2)),
    (0x1802AEE8, 0, 1, (101, 20_372, 0x18024899), (638, 31_020, 0x1800A788), (460, 29_068, 0x1800FF18)),
    (0x1D00FFFF, 0, 1, (2, 0, 0x1D00FEC5), (290, 0, 0x1C7F62C0), (2_018, 0, 0x1C01FD8B), (11_810, 0, 0x177F62C0)),
    (0x1D00FFFF, 0, 1, (60_194, 0, 0x027F6200), (62_210, 0, 0x0200FE00), (64_514, 0, 0x01010000)),
    (0x01010000, 0, 1, (2, 174_000, 0x01020000), (8, 1_214_400, 0x02008000), (224, 38_668_800, 0x1D008000)),
    (0x01010000, 0, 1, (225, 38_842_200, 0x1D00FFFF), (226, 39_015_600, 0x1D00FFFF)),
    (0x1802AEE8, 2_147_483_047, 2**63 - 6, (2**63 - 5, 2_147_484_547, 0x1802AFBB)),
    (0x1802AEE8, 2_147_483_047, 2**63 - 6, (2**63 + 4, 2_147_492_647, 0x1802B73D)),
]  # fmt: skip


@pytest.mark.parametrize("run", PUBLISHED, ids=lambda run: f"{run[0]:08x}-{run[3][0]}")
def test_bitcoin_cash_requires_the_published_bits(run: tuple[Any, ...]) -> None:
    bits, parent_time, anchor, *blocks = run
    for height, time, expected in blocks:
        assert asert(bits, time - parent_time, height - anchor) == expected


@given(st.integers(-(10**12), 10**12), st.integers(0, 10**7))
def test_bitcoin_cash_always_requires_some_work(seconds: int, blocks: int) -> None:
    bits = asert(0x1804DAFE, seconds, blocks)
    assert 0 < target(bits) <= target(0x1D00FFFF)
    assert target(bits) <= target(asert(0x1804DAFE, seconds + 3_600, blocks)), "the later, the easier"


def test_bitcoin_cash_counts_from_its_anchor() -> None:
    tree, rules = RawTree(661_647), HeaderRules(network("bch", "mainnet"))
    anchor = unmined(bytes(32), 1_605_447_844 + 600, 0x1804DAFE, 0)
    branch = Branch(tree, tree.put(sha256d(anchor), None, 1, anchor))
    for bits, message in ((0x1804DB00, "where 1804dafe is required"), (0x1804DAFE, "work does not meet")):
        raw = unmined(sha256d(anchor), 1_605_449_900, bits, 0)
        with pytest.raises(RuleError, match=message):
            rules.check(branch, UncheckedHeader(raw, b"\xff" * 32))
    before = Branch(earlier := RawTree(661_000), earlier.put(sha256d(anchor), None, 1, anchor))
    with pytest.raises(RuleError, match="proof of work does not meet"):
        rules.check(before, UncheckedHeader(unmined(sha256d(anchor), 1_605_449_900, 0x1B0404CB, 0), b"\xff" * 32))


def judged(coin: str, height: int, before: int, bits: int) -> str | None:
    """The fault of a header with these bits at a height, on one with the bits `before`."""
    tree, rules = RawTree(height - 1), HeaderRules(network(coin, "mainnet"))
    raw = unmined(bytes(32), 1, before, 0)
    branch = Branch(tree, tree.put(sha256d(raw), None, work(before), raw))
    try:
        rules.check(branch, UncheckedHeader(unmined(sha256d(raw), 9, bits, 0), bytes(32), buried=True))
    except RuleError as error:
        return str(error)
    return None


SAME, QUARTER, FOURFOLD = 0x1A040000, 0x1A010000, 0x1A100000


@pytest.mark.parametrize(
    ("height", "bits", "why"),
    [
        (2_016 * 9 + 1, SAME, None),
        (2_016 * 9 + 1, SAME + 1, "where 1a040000 is required"),
        (2_016 * 9, SAME + 1, None),
        (2_016 * 9, QUARTER, None),
        (2_016 * 9, FOURFOLD, None),
        (2_016 * 9, QUARTER - 1, "not between 1a010000 and 1a100000"),
        (2_016 * 9, FOURFOLD + 1, "not between 1a010000 and 1a100000"),
    ],
)
def test_litecoin_changes_its_bits_at_a_retarget_and_fourfold_at_most(height: int, bits: int, why: str | None) -> None:
    result = judged("ltc", height, SAME, bits)
    assert result == why or (why is not None and result is not None and why in result)


@pytest.mark.parametrize(
    ("bits", "is_allowed"),
    [(SAME, True), (0x1A030000, True), (0x1A060000, True), (0x1A02FFFF, False), (0x1A060001, False)],
)
def test_dogecoin_changes_its_bits_by_half_at_most(bits: int, is_allowed: bool) -> None:
    assert (judged("doge", 5_500_000, SAME, bits) is None) == is_allowed
    assert judged("doge", 1_000, SAME, bits) is None, "before DigiShield"


@pytest.mark.parametrize("existing", NETWORKS, ids=str)
def test_no_network_takes_less_work_than_its_easiest(existing: Any) -> None:
    bits = easiest(existing)
    harder, easier = bits - 1, bits + 0x010000 if bits & 0x7F0000 < 0x7E0000 else bits + 0x01000000
    rules = HeaderRules(existing)
    for item in (bits, harder):
        without = next(raw for root in range(99) if not is_met(scrypt(raw := unmined(bytes(32), 1, item, root)), item))
        with pytest.raises(RuleError, match="proof of work does not meet"):
            rules.check_work(UncheckedHeader(without, b"\xff" * 32))
    with pytest.raises(RuleError, match="less work than"):
        rules.check_work(UncheckedHeader(unmined(bytes(32), 1, easier, 0), bytes(31) + b"\1"))


@pytest.mark.parametrize("existing", NETWORKS, ids=str)
def test_every_network_says_what_is_checked(existing: Any) -> None:
    checked = HeaderChain("demo", existing).checked
    assert checked.startswith("linkage, proof of work, median time past")
    assert ("no proof of work up to" in checked) == (
        (existing.coin in ("ltc", "doge") and existing.name == "mainnet") or str(existing) == "ltc testnet"
    )


# -- scrypt


def test_litecoin_proves_its_work_over_scrypt() -> None:
    chain = HeaderChain("ltc", network("ltc", "regtest"))
    top = bytes(4) + bytes(64) + (1).to_bytes(4, "little") + (0x207FFFFF).to_bytes(4, "little")
    tried = [top + nonce.to_bytes(4, "little") for nonce in range(40)]
    by_scrypt = [raw for raw in tried if is_met(hashlib.scrypt(raw, salt=raw, n=1024, r=1, p=1, dklen=32), 0x207FFFFF)]
    only_sha = [raw for raw in tried if is_met(sha256d(raw), 0x207FFFFF) and raw not in by_scrypt]
    assert by_scrypt
    with pytest.raises(HeaderError, match="proof of work does not meet"):
        chain.add(only_sha[:1])
    chain.add(by_scrypt[:1])
    assert chain.anchored


def test_scrypt_is_not_required_below_a_checkpoint() -> None:
    rules = HeaderRules(network("ltc", "mainnet"))
    buried = UncheckedHeader(unmined(bytes(32), 1, 0x1A040000, 0), bytes(32), buried=True)
    rules.check_work(buried)
    with pytest.raises(RuleError, match="proof of work does not meet"):
        rules.check_work(buried._replace(buried=False))


def test_work_over_sha256_is_required_below_a_checkpoint_too() -> None:
    rules = HeaderRules(network("bsv", "mainnet"))
    with pytest.raises(RuleError, match="proof of work does not meet"):
        rules.check_work(UncheckedHeader(unmined(bytes(32), 1, 0x1B0404CB, 0), b"\xff" * 32, buried=True))


# -- merge-mined work

DOGE = (
    "04016200c4554161067da8781dea838444895b681cc5e6b31f0a9ae61a4d10c88f18dcdf603f781b32b6ed90fa9c3ebca7a3e94f4519"
    "2094fc2165d436d3cee45e9e46e7c015a6654195011a00000000"
)
DOGE_WORK = (
    "01000000010000000000000000000000000000000000000000000000000000000000000000ffffffff5603cfea2702002f42696e616e"
    "63652f343032fabe6d6de7d4577405223918491477db725a393bcfc349d8ee63b0a4fde23cbfbfd81dea0100000000000000fc7ce3c4"
    "1bdf3e1074221e7bc5fdfd370200920e22000000ffffffff02088a4125000000001976a91499ce4c0a552c646353cc9e0df4c824ba2d"
    "978de588ac0000000000000000266a24aa21a9edaaecbf83657eaa3aa1d21756bff9a3ab27fd2efc00e7474348a5d6b898b749960000"
    "00004d1171f4f76689e0cb8e75db3b2339239a168bb047396adb465662bc783f43fc051dc092ee378742ffd407c416cea5e253e4c82f"
    "6da8c540c71fd9c2926ad48e7517dbc2900e8ffd7a6e4e34698cf20760e0175a2f30f1bb4a8941df988611f477b7d8cf14f437b7fd2b"
    "55f10f6ecf34331a51607719f9304bbe5a80e14b48896867baea51b2512f4af86db0a473619b4aa4a0e4e24fb551c95cdfe6aa226b5d"
    "797ed359ed1202edb80f0b2ee15e29a1a8c981328d805932c58f9285d2d2f7885e0000000000000000000000002053e7f451130dfdb5"
    "f2a8f01755312e796ae2af09b067135e331cbab36ea846ae41da1a341f4c355d82e9ef0d99a2f50052c38bcab349cf4a8dbb45d33e40"
    "2c74c115a6659387001a4a962d82"
)
"""Block 5,050,000 of Dogecoin, a checkpoint: its header, and the work on a Litecoin header that proves it."""


def test_a_real_merge_mined_block_has_its_work() -> None:
    raw, aux = bytes.fromhex(DOGE), bytes.fromhex(DOGE_WORK)
    assert sha256d(raw)[::-1].hex() == "e7d4577405223918491477db725a393bcfc349d8ee63b0a4fde23cbfbfd81dea"
    rules = HeaderRules(network("doge", "mainnet"))
    rules.check_work(UncheckedHeader(raw, sha256d(raw), aux))
    assert proof_of_work.auxpow_fault(raw, proof_of_work.read_auxpow(aux)) is None
    with pytest.raises(RuleError, match="does not name it"):
        rules.check_work(UncheckedHeader(raw[:79] + b"\1", b"", aux))
    harder = raw[:72] + (0x19019541).to_bytes(4, "little") + raw[76:]
    with pytest.raises(RuleError, match="does not meet its bits 19019541"):
        rules.check_work(UncheckedHeader(harder, b"", merged_work(harder)))
    with pytest.raises(RuleError, match=r"followed only with \?auxpow=unchecked"):
        rules.check_work(UncheckedHeader(raw, b"", None))
    HeaderRules(network("doge", "mainnet"), auxpow_unchecked=True).check_work(UncheckedHeader(raw, b"", None))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_no_byte_of_real_work_can_be_changed(data: st.DataObject) -> None:
    """But for the hash of the other chain's block, which says nothing, and high bits of indexes."""
    raw, aux = bytes.fromhex(DOGE), bytearray.fromhex(DOGE_WORK)
    drawn = data.draw(st.integers(0, len(aux) - 1))
    aux[drawn] ^= 1 << data.draw(st.integers(0, 7))
    size = proof_of_work.read_auxpow(bytes.fromhex(DOGE_WORK)).coinbase.size
    rules = HeaderRules(network("doge", "mainnet"))
    if size <= drawn < size + 32:
        rules.check_work(UncheckedHeader(raw, b"", bytes(aux)))
        return
    with pytest.raises(RuleError):
        rules.check_work(UncheckedHeader(raw, b"", bytes(aux)))


@given(st.binary(max_size=400))
@example(bytes.fromhex(DOGE_WORK)[:-1])
@example(bytes.fromhex(DOGE_WORK) + b"\0")
def test_any_bytes_are_work_or_a_parse_error(data: bytes) -> None:
    try:
        result = proof_of_work.read_auxpow(data)
    except ParseError:
        return
    assert isinstance(proof_of_work.auxpow_fault(bytes.fromhex(DOGE), result), str)


HEADER = bytes.fromhex("04016200") + bytes(68) + (0x207FFFFF).to_bytes(4, "little") + bytes(4)
SIBLINGS = (bytes([1]) * 32, bytes([2]) * 32)


def why(**changes: Any) -> str | None:
    header = changes.pop("header", HEADER)
    return proof_of_work.auxpow_fault(header, proof_of_work.read_auxpow(merged_work(header, **changes)))


def test_several_chains_may_be_mined_together() -> None:
    for nonce in range(8):
        index = proof_of_work.auxpow_chain_index(nonce, 2)
        assert why(chains=SIBLINGS, index=index, nonce=nonce) is None
        assert why(chains=SIBLINGS, index=(index + 1) % 4, nonce=nonce) == (
            "its index among the merge-mined chains is wrong"
        )
    assert {proof_of_work.auxpow_chain_index(nonce, 2) for nonce in range(99)} == {0, 1, 2, 3}
    assert proof_of_work.auxpow_chain_index(0, 1) == 0


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"script": b"\xfa\xbemmROOT"}, None),
        ({"script": b"0123456789ROOT"}, None),
        ({"script": b"x" * 20 + b"ROOT"}, None),
        ({"script": b"x" * 21 + b"ROOT"}, "where it must"),
        ({"script": b"\xfa\xbemmROOT\xfa\xbemm"}, "where it must"),
        ({"script": b"\xfa\xbemm?ROOT"}, "where it must"),
        ({"script": b"nothing"}, "does not name it"),
        ({"branch_index": 1}, "is not a coinbase"),
        ({"parent_version": 0x00620001}, "its own chain"),
        ({"header": b"\4\1\x63\0" + HEADER[4:]}, "names chain 0x63"),
    ],
)
def test_work_that_was_not_done_on_this_block_is_refused(changes: dict[str, Any], text: str | None) -> None:
    result = why(**changes)
    assert result == text or (text is not None and result is not None and text in result)


def test_the_testnet_of_dogecoin_asks_for_no_chain_in_versions() -> None:
    other = b"\4\1\7\0" + HEADER[4:]
    work = proof_of_work.read_auxpow(merged_work(other, parent_version=0x00070001))
    assert proof_of_work.auxpow_fault(other, work) is not None
    assert proof_of_work.auxpow_fault(other, work, strict=False) is None
    assert (proof_of_work.auxpow_chain_index(0, 1, 7), proof_of_work.auxpow_chain_index(0, 1, 98)) == (1, 0)


def test_work_with_other_numbers_than_its_branch_is_refused() -> None:
    aux = merged_work(HEADER)
    root = sha256d(HEADER)[::-1]
    cut = merged_work(HEADER, script=root + b"\1\0\0\0")
    assert why() is None
    for data, script in ((cut, root + b"\1\0\0\0"), (merged_work(HEADER, script=root + b"\2" + bytes(7)), None)):
        result = proof_of_work.auxpow_fault(HEADER, proof_of_work.read_auxpow(data))
        assert result is not None
        assert "another number of chains" in result, script
    moved = proof_of_work.read_auxpow(aux)._replace(branch=())
    assert proof_of_work.auxpow_fault(HEADER, moved) == "the coinbase that names it is not in the other chain's block"


def test_merge_mined_headers_are_taken_with_their_work() -> None:
    chain = HeaderChain("doge", network("doge", "regtest"))
    genesis = next(
        raw
        for nonce in range(99)
        if is_met(
            scrypt(
                raw := bytes(4) + bytes(64) + (9).to_bytes(4, "little") + HEADER[72:76] + nonce.to_bytes(4, "little")
            ),
            0x207FFFFF,
        )
    )
    child = HEADER[:4] + sha256d(genesis) + bytes(32) + (10).to_bytes(4, "little") + HEADER[72:]
    with pytest.raises(HeaderError, match="runs past the end"):
        chain.add([genesis, child], aux=[None, b"\1"])
    with pytest.raises(HeaderError, match="does not name it"):
        chain.add([child], aux=[merged_work(HEADER)])
    chain.add([child], aux=[merged_work(child)])
    assert "without" not in chain.checked
    last = HEADER[:4] + sha256d(child) + bytes(32) + (11).to_bytes(4, "little") + HEADER[72:]
    with pytest.raises(HeaderError, match=r"followed only with \?auxpow=unchecked"):
        chain.add([last])
    assert chain.find(sha256d(last)) is None
    trusting = HeaderChain("doge", network("doge", "regtest"), auxpow_unchecked=True)
    trusting.add([genesis, child, last], aux=[None, merged_work(child), None])
    assert trusting.find(sha256d(last)) == 2
    assert trusting.checked.endswith("merge-mined ones also without their proof of work (auxpow=unchecked)")
    with pytest.raises(HeaderError, match="does not name it"):
        trusting.add([last[:76] + b"\1\0\0\0"], aux=[merged_work(last)])


# -- the tree


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 1 << 110), max_size=50), st.integers(0, 2_000), st.integers(0, 10**6))
def test_many_blocks_at_once_are_as_one_by_one(works: list[int], more: int, first: int) -> None:
    works = works + [1] * more
    digests = [sha256d(number.to_bytes(4, "little")) for number in range(len(works))]
    slow, fast = HeaderTree(first), HeaderTree(first)
    for number, (digest, worth) in enumerate(zip(digests, works, strict=True)):
        slow.add(digest, number - 1 if number else None, worth)
    for start in range(0, len(works), 700):
        fast.extend(b"".join(digests[start : start + 700]), works[start : start + 700])
    assert fast.height == slow.height == first + len(works) - 1
    assert [fast.find(digest) for digest in digests] == list(range(len(works)))
    assert [fast.work(n) for n in range(len(works))] == [slow.work(n) for n in range(len(works))]
    assert list(fast.best()) == list(slow.best())
    assert [fast.parent(n) for n in range(len(works))] == [slow.parent(n) for n in range(len(works))]
    assert fast.find(bytes(32)) is None


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=60), st.randoms())
def test_what_is_kept_of_a_tree_is_as_before(picks: list[int], choice: Any) -> None:
    tree, again = HeaderTree(5), HeaderTree(5)
    parents: list[int | None] = [None]
    tree.add(bytes(32), None, 3)
    for pick in picks:
        parents.append(pick % len(parents))
        tree.add(sha256d(pick.to_bytes(4, "little") + bytes([len(parents)])), parents[-1], 1 + pick % 5)
    branch = list(tree.ancestors(choice.randrange(len(parents))))
    stored = sorted({*tree.best(), *branch})
    digests, works = [tree.hash(n) for n in stored], [tree.work(n) for n in stored]
    best = [tree.hash(n) for n in tree.best()]
    assert tree.forget(branch) == stored
    assert [tree.hash(n) for n in range(len(tree))] == digests
    assert [tree.find(digest) for digest in digests] == list(range(len(stored)))
    assert [tree.work(n) for n in range(len(tree))] == works
    assert [tree.hash(n) for n in tree.best()] == best
    for number in range(len(tree)):
        parent = tree.parent(number)
        worth = tree.work(number) - (tree.work(parent) if parent is not None else 0)
        assert again.add(tree.hash(number), parent, worth) == number
        assert again.height_of(number) == tree.height_of(number)
    assert len(again.best()) > 0


def test_without_bitcoinx_rules_of_our_own_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitcoinx", None)
    rules = HeaderRules(network("bsv", "mainnet"))
    assert rules.requires_bits
    assert rules.checked == "linkage, proof of work, median time past, required bits"
