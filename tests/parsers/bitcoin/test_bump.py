"""BUMPs: what the vectors of others say, the laws, and a slow judge beside them."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.bitcoin import bump
from parsers.bitcoin.bump import MerklePath, PathLeaf
from parsers.bitcoin.tx import varint
from parsers.errors import ParseError
from tests.oracles import merkle
from tests.parsers.writers import from_branch


def txid(number: int) -> bytes:
    return sha256(b"tx %d" % number).digest()


def block(count: int) -> list[bytes]:
    return [txid(number) for number in range(count)]


def whole(txids: list[bytes], height: int = 7) -> MerklePath:
    return MerklePath(height, (tuple(PathLeaf(index, item, True) for index, item in enumerate(txids)),))


def shown(text: str) -> bytes:
    return bytes.fromhex(text)[::-1]


# -- the vectors of others ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["go-sdk", "ts-sdk"])
def test_the_vectors_of_the_sdks_are_read_and_written_again_or_refused(shared: Path, name: str) -> None:
    vectors = json.loads((shared / f"vectors/overlay/bump/{name}_bump_vectors.json").read_text())
    assert len(vectors["valid"]) == 2
    assert len(vectors["invalid"]) >= 5
    for text in vectors["valid"]:
        path = bump.read(bytes.fromhex(text))
        assert path.to_bytes().hex() == text
        assert merkle.judge(bytes.fromhex(text)) == path.merkle_root
    for vector in vectors["invalid"]:
        with pytest.raises(ParseError):
            bump.read(bytes.fromhex(vector["bump"]))


def conformance(shared: Path) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    vectors = json.loads((shared / "vectors/overlay/ts-stack-conformance/sdk/merkle-path.json").read_text())["vectors"]
    return {vector["id"]: (vector["input"], vector["expected"]) for vector in vectors}


def test_every_hex_of_the_conformance_suite_leads_to_its_root(shared: Path) -> None:
    seen = 0
    for query, expected in conformance(shared).values():
        text = query.get("bump_hex") or query.get("combined_bump_hex")
        if text is None:
            continue
        seen += 1
        path = bump.read(bytes.fromhex(text))
        assert path.to_bytes().hex() == text
        assert expected.get("toHex", text) == expected.get("serialized_bump_hex", text) == text
        assert path.height == expected.get("block_height", path.height)
        assert len(path.levels) == expected.get("path_levels", len(path.levels))
        assert len(path.levels[0]) == expected.get("path_level0_length", len(path.levels[0]))
        named = [shown(value) for key, value in query.items() if key.startswith("txid") and isinstance(value, str)]
        roots = {value for key, value in expected.items() if key.startswith("merkle_root")}
        assert {path.root(item)[::-1].hex() for item in named} | {path.merkle_root[::-1].hex()} >= roots
        assert len(roots) <= 1
    assert seen == 8


def test_the_blocks_of_the_conformance_suite_lead_to_their_roots(shared: Path) -> None:
    vectors = conformance(shared)
    query, expected = vectors["mp-coinbase-001"]
    alone = from_branch(query["height"], 0, shown(query["txid"]), [])
    assert alone.to_bytes().hex() == expected["bump_hex"]
    assert alone.merkle_root == shown(expected["merkle_root"])
    query, expected = vectors["mp-block125632-001"]
    txids = [shown(text) for text in query["txids"]]
    every = whole(txids, query["block_height"])
    assert every.merkle_root == shown(expected["merkle_root"]) == merkle.root(txids)
    for name in ("mp-block125632-002", "mp-block125632-003"):
        query, expected = vectors[name]
        one = bump.extract(every, [shown(query["txid"])])
        assert one.root(shown(query["txid"])) == shown(expected["merkle_root"])
        assert [leaf.offset for leaf in one.levels[0]] in ([2, 3], [8, 9])
    # what the suite says the node beside them is has 65 digits and so is not a hash; its root is right
    beside = vectors["mp-block125632-002"][0]["proof_level1_hash"]
    assert len(beside) == 65
    assert bump.extract(every, [txids[2]]).levels[1] == (PathLeaf(0, merkle.rows(txids)[1][0]),)


def test_extracting_and_combining_do_what_the_conformance_suite_says(shared: Path) -> None:
    vectors = conformance(shared)
    query, expected = vectors["mp-extract-001"]
    every = whole([shown(text) for text in query["full_block_txids"]], query["block_height"])
    one = bump.extract(every, [shown(query["extract_txid"])])
    assert one.merkle_root == shown(expected["merkle_root"])
    assert len(one.to_bytes()) < len(every.to_bytes())
    with pytest.raises(ValueError, match="at least one transaction"):
        bump.extract(every, vectors["mp-extract-002"][0]["txids_to_extract"])
    with pytest.raises(ParseError, match="does not hold"):
        bump.extract(every, [shown(vectors["mp-extract-003"][0]["txid"])])
    query, expected = vectors["mp-combine-001"]
    three = [shown(query[name]) for name in ("txid_tx2", "txid_tx5", "txid_tx8")]
    combined = bump.combine([bump.extract(every, [item]) for item in three])
    assert combined.to_bytes().hex() == expected["serialized_bump_hex"]


def test_a_leaf_that_says_it_is_a_copy_counts_as_one_whatever_it_holds(shared: Path) -> None:
    query, expected = conformance(shared)["mp-findleaf-001"]
    left, copied = shown(query["leaf0_hash"]), shown(expected["computed_hash"])
    path = MerklePath(query["block_height"], ((PathLeaf(0, left, True), PathLeaf(1, None)),))
    assert path.merkle_root == copied
    # the binary form has no room for a hash beside the flag, so both at once are not BUMP
    both = bytes((1, 1, 2, 0, 2)) + left + bytes((1, 1)) + shown(query["leaf1_hash"])
    with pytest.raises(ParseError):
        bump.read(both)


def test_of_the_paths_in_callbacks_only_the_complete_one_is_a_path(shared: Path) -> None:
    """The suite checks these for shape only: but one of them are cut short, not hex, or hold no leaf."""
    vectors = json.loads(
        (shared / "vectors/overlay/ts-stack-conformance/broadcast/merkle-path-validation.json").read_text()
    )["vectors"]
    read = []
    for vector in vectors:
        body = vector["input"]["body"]
        if "merklePath" not in body:
            continue
        try:
            path = bump.read(bytes.fromhex(body["merklePath"]))
        except ValueError:
            continue
        assert path.height == body["blockHeight"]
        assert path.root(shown(body["txid"])) == path.merkle_root
        read.append(vector["id"])
    assert read == ["broadcast.merklepath.9"]


def test_the_nodes_of_another_format_lead_to_one_root_once_the_copies_are_named(shared: Path) -> None:
    """bitcoinX leaves copies out, and so needs the last transaction; BRC-74 says where they are."""
    body = json.loads((shared / "vectors/overlay/bump/bitcoinx_bump.json").read_text())
    levels = [[PathLeaf(leaf["offset"], shown(leaf["hash"])) for leaf in level] for level in body["path"]]
    with pytest.raises(ParseError, match="lacks the hash at offset 13 of level 0"):
        MerklePath(body["blockHeight"], tuple(map(tuple, levels)))
    levels[0].append(PathLeaf(13, None))
    levels[1].append(PathLeaf(7, None))
    path = MerklePath(body["blockHeight"], tuple(map(tuple, levels)))
    assert merkle.judge(path.to_bytes()) == path.merkle_root


# -- laws -----------------------------------------------------------------------------------------------------------

counts = st.integers(1, 40)


@given(counts, st.data(), st.integers(0, 2**32 - 1))
def test_a_branch_leads_to_the_root_of_the_block(count: int, data: st.DataObject, height: int) -> None:
    txids = block(count)
    index = data.draw(st.integers(0, count - 1))
    path = from_branch(height, index, txids[index], merkle.branch(txids, index))
    assert path.root(txids[index]) == path.merkle_root == merkle.root(txids)
    assert path.txids() == (txids[index],)
    assert bump.read(path.to_bytes()) == path
    assert merkle.judge(path.to_bytes()) == path.merkle_root
    assert path == bump.extract(whole(txids, height), [txids[index]])


@given(counts, st.data())
def test_paths_of_parts_of_a_block_combine_to_the_path_of_all_of_them(count: int, data: st.DataObject) -> None:
    txids = block(count)
    every = whole(txids)
    parts = data.draw(st.lists(st.sets(st.sampled_from(txids), min_size=1), min_size=1, max_size=4))
    combined = bump.combine([bump.extract(every, part) for part in parts])
    assert combined == bump.extract(every, set().union(*parts))
    assert set(combined.txids()) == set().union(*parts)
    assert combined.merkle_root == merkle.root(txids)
    assert merkle.judge(combined.to_bytes()) == merkle.root(txids)
    if count > 1:
        # no node is given that those below it already say
        given_nodes = sum(map(len, combined.levels))
        assert given_nodes <= len(set().union(*parts)) * (1 + len(combined.levels))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_path_or_a_parse_error(data: bytes) -> None:
    try:
        path = bump.read(data)
    except ParseError:
        assert merkle.judge(data) is None
    else:
        assert merkle.judge(data) == path.merkle_root


leaves = st.tuples(st.integers(0, 20), st.sampled_from([0, 1, 2]), st.integers(0, 12))


@st.composite
def tampered(draw: st.DrawFn) -> bytes:
    """A path of some of a block's transactions, to which something was done: a node left out, doubled, put in,
    exchanged; or a byte changed."""
    count = draw(st.integers(1, 12))
    txids = block(count)
    every = whole(txids)
    leaves = draw(st.sets(st.sampled_from(txids), min_size=1))
    path = draw(st.sampled_from([every, bump.extract(every, leaves)]))
    nodes = [node for row in merkle.rows(txids) for node in row]
    levels = [
        [(leaf.offset, 1 if leaf.hash is None else 2 * leaf.txid, leaf.hash) for leaf in level] for level in path.levels
    ]
    if draw(st.booleans()):
        levels = [written_out(level, row) for level, row in zip(levels, merkle.rows(txids), strict=False)]
    for _ in range(draw(st.integers(0, 3))):
        level = levels[draw(st.integers(0, len(levels) - 1))]
        drawn = draw(st.integers(0, len(level)))
        match draw(st.sampled_from(["out", "in", "exchange", "move"])):
            case "out":
                del level[drawn : drawn + 1]
            case "in":
                level.insert(
                    drawn, (draw(st.integers(0, 20)), draw(st.sampled_from([0, 1, 2])), draw(st.sampled_from(nodes)))
                )
            case "exchange":
                level[drawn : drawn + 1] = [
                    (offset, flags, draw(st.sampled_from(nodes))) for offset, flags, _ in level[drawn : drawn + 1]
                ]
            case "move":
                level[drawn : drawn + 1] = [
                    (offset ^ 1, flags, digest) for offset, flags, digest in level[drawn : drawn + 1]
                ]
    if draw(st.booleans()):
        levels += [[]] * draw(st.integers(0, 1))
    return encoded(levels)


Raw = list[tuple[int, int, bytes | None]]


def written_out(level: Raw, row: list[bytes]) -> Raw:
    """The level with its copy written in full, as some writers do."""
    return [(offset, 0, row[-1]) if flags == 1 else (offset, flags, digest) for offset, flags, digest in level]


def encoded(levels: list[Raw]) -> bytes:
    parts = [b"\x07", bytes((len(levels),))]
    for level in levels:
        parts.append(varint(len(level)))
        for offset, flags, digest in level:
            parts.append(varint(offset) + bytes((flags,)) + (b"" if flags == 1 else digest or bytes(32)))
    return b"".join(parts)


@given(tampered())
def test_a_path_that_was_tampered_with_is_judged_as_the_slow_judge_does(data: bytes) -> None:
    expected = merkle.judge(data)
    try:
        path = bump.read(data)
    except ParseError:
        assert expected is None
    else:
        assert expected == path.merkle_root
        assert path.to_bytes() == data


# -- faults of other readers that are none here -----------------------------------------------------------------------


def test_the_first_transaction_of_a_block_is_proved_like_any_other() -> None:
    txids = block(3)
    path = bump.read(from_branch(9, 0, txids[0], merkle.branch(txids, 0)).to_bytes())
    assert path.root(txids[0]) == merkle.root(txids)


def test_a_block_of_one_transaction_has_its_txid_as_root() -> None:
    path = bump.read(from_branch(9, 0, txid(1), []).to_bytes())
    assert path.root(txid(1)) == txid(1)
    with pytest.raises(ParseError, match="does not end in a root"):
        from_branch(9, 1, txid(1), [])


def test_a_path_does_not_prove_a_transaction_that_it_does_not_hold() -> None:
    txids = block(8)
    path = from_branch(9, 2, txids[2], merkle.branch(txids, 2))
    with pytest.raises(ParseError, match="does not hold transaction"):
        path.root(txids[5])
    inner = merkle.rows(txids)[1][0]
    with pytest.raises(ParseError, match="does not hold transaction"):
        path.root(inner)


def test_a_transaction_is_proved_whether_the_path_marks_it_or_not() -> None:
    txids = block(4)
    path = from_branch(9, 2, txids[2], merkle.branch(txids, 2))
    assert path.root(txids[3]) == merkle.root(txids)
    assert path.txids() == (txids[2],)


def test_a_block_doubled_by_hand_is_refused() -> None:
    """CVE-2012-2459: a list with its end repeated has the same root as one without."""
    txids = block(6)
    doubled = txids + txids[4:]
    assert merkle.root(doubled) == merkle.root(txids)
    with pytest.raises(ParseError, match="the same hash twice"):
        whole(doubled)
    with pytest.raises(ParseError, match="the same hash twice"):
        from_branch(9, 6, txids[4], merkle.branch(doubled, 6))
    with pytest.raises(ParseError, match="the same hash twice"):
        from_branch(9, 1, txids[0], [txids[0]])


def test_a_copy_may_be_written_out_in_full() -> None:
    txids = block(5)
    flagged = from_branch(9, 4, txids[4], merkle.branch(txids, 4))
    first, second = merkle.rows(txids)[0][4], merkle.rows(txids)[1][2]
    full = from_branch(9, 4, txids[4], [first, second, merkle.rows(txids)[2][0]])
    assert full.merkle_root == flagged.merkle_root == merkle.root(txids)
    assert full.levels != flagged.levels
    assert bump.extract(full, [txids[4]]) == flagged
    assert bump.read(full.to_bytes()) == full
    with pytest.raises(ParseError, match="not the level's end"):
        MerklePath(
            9, ((PathLeaf(0, txids[0], True), PathLeaf(1, txids[0]), PathLeaf(2, txids[2]), PathLeaf(3, txids[3])),)
        )


def test_a_copy_is_only_at_the_end_of_a_level() -> None:
    left, right = txid(0), txid(1)
    with pytest.raises(ParseError, match="not the level's end"):
        MerklePath(1, ((PathLeaf(0, None), PathLeaf(1, right, True)),))
    with pytest.raises(ParseError, match="not the level's end"):
        MerklePath(1, ((PathLeaf(0, left, True), PathLeaf(1, None), PathLeaf(2, right), PathLeaf(3, txid(3))),))
    with pytest.raises(ParseError, match="not the level's end"):
        MerklePath(1, ((PathLeaf(1, None),),))
    three = (PathLeaf(0, left), PathLeaf(1, right), PathLeaf(2, txid(2), True), PathLeaf(3, None))
    with pytest.raises(ParseError, match="not the level's end"):
        MerklePath(1, (three, (PathLeaf(1, None),)))


def test_a_path_may_be_as_deep_as_any_block_and_no_deeper() -> None:
    siblings: list[bytes | None] = [txid(number) for number in range(1, 65)]
    path = from_branch(9, 2**64 - 1, txid(0), siblings)
    assert bump.read(path.to_bytes()) == path
    with pytest.raises(ParseError, match="65 levels"):
        from_branch(9, 0, txid(0), [*siblings, txid(65)])


@pytest.mark.parametrize("shorter", [-1, 2**32])
def test_a_height_that_no_chain_has_is_refused(shorter: int) -> None:
    with pytest.raises(ParseError, match="block height"):
        from_branch(shorter, 0, txid(0), [])


def test_flags_that_nobody_knows_are_refused() -> None:
    for flags in range(3, 256):
        with pytest.raises(ParseError, match="flags"):
            bump.read(bytes((1, 1, 1, 0, flags)) + txid(0))


def test_bytes_that_follow_are_refused() -> None:
    with pytest.raises(ParseError, match="1 bytes follow"):
        bump.read(from_branch(9, 0, txid(0), []).to_bytes() + b"\0")


def test_a_hash_of_another_size_is_refused() -> None:
    with pytest.raises(ParseError, match="a hash of 31 bytes"):
        from_branch(9, 0, txid(0), [txid(1)[:31]])
    with pytest.raises(ParseError, match="a hash of 33 bytes"):
        from_branch(9, 0, txid(0), [txid(1), txid(2) + b"x"])
    with pytest.raises(ParseError, match="a hash of 31 bytes"):
        from_branch(9, 0, txid(0)[1:], [txid(1), txid(2)])


def test_two_leaves_that_are_no_pair_lead_nowhere() -> None:
    for offsets in ((1, 2), (0, 2), (1, 3)):
        with pytest.raises(ParseError, match="lacks the hash"):
            MerklePath(1, (tuple(PathLeaf(offset, txid(offset)) for offset in offsets), (PathLeaf(0, txid(9)),)))


def test_paths_of_different_blocks_do_not_combine() -> None:
    with pytest.raises(ParseError, match="different blocks"):
        bump.combine([whole(block(3)), whole(block(4))])
    with pytest.raises(ParseError, match="different blocks"):
        bump.combine([whole(block(3), 1), whole(block(3), 2)])
    with pytest.raises(ParseError, match="different blocks"):
        bump.combine([])
