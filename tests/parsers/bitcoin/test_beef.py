"""BEEF: what the vectors of others say, the laws, a slow judge beside them, and faults of others that are none here."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from parsers.bitcoin import beef, bump
from parsers.bitcoin.beef import Beef, BeefTransaction
from parsers.bitcoin.bump import MerklePath, PathLeaf
from parsers.bitcoin.tx import Outpoint, Transaction, TxInput, TxOutput, serialise, varint
from parsers.bitcoin.tx import read as read_tx
from parsers.errors import ParseError, ProofError
from tests.oracles import beef as oracle
from tests.oracles import merkle
from tests.oracles.wire import Tape
from tests.oracles.wire import read_tx as slow_tx
from tests.parsers.writers import from_branch

OUTSIDE = sha256(b"a transaction elsewhere").digest()


def raw_tx(spends: list[Outpoint], values: list[int], script: bytes = b"\x51") -> bytes:
    return serialise(
        tuple(TxInput(spend, b"", 0xFFFFFFFF) for spend in spends), tuple(TxOutput(value, script) for value in values)
    )


def block_of(raws: list[bytes], height: int) -> dict[bytes, MerklePath]:
    """A block that holds these and one other transaction before them: the path of each by txid."""
    txids = [sha256(b"coinbase %d" % height).digest(), *(read_tx(raw).txid for raw in raws)]
    whole = MerklePath(height, (tuple(PathLeaf(index, txid) for index, txid in enumerate(txids)),))
    return {txid: bump.extract(whole, [txid]) for txid in txids[1:]}


def roots_of(data: Beef) -> oracle.Roots:
    return {(path.height, path.merkle_root) for path in data.paths}


def accepts(roots: oracle.Roots):  # type: ignore[no-untyped-def]
    return lambda height, root: (height, root) in roots


FUND = raw_tx([Outpoint(OUTSIDE, 0)], [1_000, 500])
FUND_ID = read_tx(FUND).txid
FUND_PATH = block_of([FUND], 10)[FUND_ID]
CHILD = raw_tx([Outpoint(FUND_ID, 0)], [1, 900])
CHILD_ID = read_tx(CHILD).txid
ROOTS = {(10, FUND_PATH.merkle_root)}

# -- the vectors of others --------------------------------------------------------------------------------------------

REFUSED = {
    "ts_wrongBumpTxid": "does not hold transaction",
    "py_test_transaction.py": "runs past the end",
}


def test_every_vector_is_read_written_again_and_verified_or_refused_for_its_fault(shared: Path) -> None:
    vectors = json.loads((shared / "vectors/overlay/beef/beef_hex_collection.json").read_text())["vectors"]
    data = {vector["name"]: bytes.fromhex(vector["hex"]) for vector in vectors}
    assert len(data) == 17
    for name, raw in data.items():
        if name in REFUSED:
            with pytest.raises(ParseError, match=REFUSED[name]):
                beef.read(raw)
            continue
        parsed = beef.read(raw)
        roots = roots_of(parsed)
        assert parsed.to_bytes() == (raw if name != "ts_incorrect" else data["ts_correct"])
        left = beef.verify(parsed, accepts(roots))
        assert oracle.judge(raw, roots) == {member.txid[::-1].hex() for member in parsed.members}
        assert len(left) == sum(len(member.tx.inputs) for member in parsed.members if member.tx and member.path is None)
        for missing in roots:
            with pytest.raises(ProofError, match="is not that of the chain's block"):
                beef.verify(parsed, accepts(roots - {missing}))


def test_the_conformance_suite_gets_what_it_expects(shared: Path) -> None:
    text = (shared / "vectors/overlay/ts-stack-conformance/sdk/serialization.json").read_text()
    vectors = {vector["id"]: (vector["input"], vector["expected"]) for vector in json.loads(text)["vectors"]}
    query, expected = vectors["tx-003"]
    parsed = beef.read(bytes.fromhex(query["beef_hex"]))
    assert parsed.paths[0].merkle_root[::-1].hex() == expected["merkle_root"]
    query, expected = vectors["tx-006"]
    assert expected["throws"]
    assert beef.read(bytes.fromhex(query["beef_hex"])).subject is None


def test_the_bodies_that_the_suite_submits_are_no_beef(shared: Path) -> None:
    """The suite compares their shapes only; the reference SDK cannot read them either."""
    vectors = json.loads((shared / "vectors/overlay/ts-stack-conformance/overlay/submit.json").read_text())["vectors"]
    bodies = [vector["input"]["body_hex"] for vector in vectors if vector["input"].get("body_hex")]
    assert len(bodies) == 10
    for body in bodies:
        with pytest.raises(ParseError):
            beef.read(bytes.fromhex(body))


# -- laws -------------------------------------------------------------------------------------------------------------


@st.composite
def bundles(draw: st.DrawFn) -> list[tuple[bytes, MerklePath | None]]:
    """A few transactions, parents first: some mined in one of two blocks, the others spending those before them."""
    created: list[tuple[bytes, int | None]] = []
    free: list[tuple[Outpoint, int]] = []
    for number in range(draw(st.integers(1, 6))):
        mined = draw(st.sampled_from([None, 10, 11])) if free else draw(st.sampled_from([10, 11]))
        takes = [free.pop(draw(st.integers(0, len(free) - 1))) for _ in range(draw(st.integers(0, 2))) if free]
        if mined is None and not takes:
            takes = [free.pop()]
        budget = sum(value for _, value in takes) if mined is None else 1_000
        spends = [spent for spent, _ in takes] or [Outpoint(OUTSIDE, number)]
        values = draw(st.lists(st.integers(0, budget // 3), min_size=1, max_size=3))
        raw = raw_tx(spends, values, b"\x51" * draw(st.integers(5, 9)))
        created.append((raw, mined))
        free += [(Outpoint(read_tx(raw).txid, vout), value) for vout, value in enumerate(values)]
    paths: dict[bytes, MerklePath] = {}
    for height in (10, 11):
        paths |= block_of([raw for raw, mined in created if mined == height], height)
    return [(raw, paths.get(read_tx(raw).txid)) for raw, _ in created]


@given(bundles(), st.sampled_from([1, 2]))
def test_what_is_written_reads_the_same_and_is_proved(
    bundle: list[tuple[bytes, MerklePath | None]], version: int
) -> None:
    data = beef.write(bundle, version=version)
    parsed = beef.read(data)
    assert parsed.version == version
    assert parsed.to_bytes() == data
    assert [member.raw for member in parsed.members] == [raw for raw, _ in bundle]
    assert parsed.newest.raw == bundle[-1][0]
    assert len(parsed.paths) == len({path.height for _, path in bundle if path})
    roots = {(path.height, path.merkle_root) for _, path in bundle if path}
    left = beef.verify(parsed, accepts(roots))
    assert oracle.judge(data, roots) == {member.txid[::-1].hex() for member in parsed.members}
    for spend in left:
        spent = spend.tx.inputs[spend.vin].prevout
        parent = parsed.member(spent.txid)
        assert parent is not None
        assert parent.tx is not None
        assert parent.tx.outputs[spent.vout] == spend.spent


@st.composite
def tampered(draw: st.DrawFn) -> tuple[bytes, oracle.Roots]:
    """A BEEF to which something was done, as bytes, and the roots of the chain."""
    bundle = draw(bundles())
    version = draw(st.sampled_from([1, 2]))
    parsed = beef.read(beef.write(bundle, version=version))
    roots = roots_of(parsed)
    members = list(parsed.members)
    subject = draw(st.sampled_from([None, None, *(member.txid for member in members), OUTSIDE]))
    for _ in range(draw(st.integers(0, 2))):
        drawn = draw(st.integers(0, len(members) - 1))
        match draw(st.sampled_from(["omit", "repeat", "no path", "path", "bare", "root", "swap"])):
            case "omit" if len(members) > 1:
                del members[drawn]
            case "repeat":
                members.insert(draw(st.integers(0, len(members))), members[drawn])
            case "no path":
                members[drawn] = members[drawn]._replace(path=None)
            case "path":
                members[drawn] = members[drawn]._replace(path=draw(st.integers(0, 2)))
            case "bare":
                members[drawn] = BeefTransaction(members[drawn].txid, None, None)
            case "root":
                roots = set(draw(st.sets(st.sampled_from(sorted(roots))))) if roots else roots
            case "swap":
                members[0], members[drawn] = members[drawn], members[0]
    data = as_bytes(parsed, version, members, subject)
    if draw(st.booleans()):
        drawn = draw(st.integers(0, len(data) - 1))
        data = data[:drawn] + bytes((draw(st.integers(0, 255)),)) + data[drawn + 1 :]
    return data, roots


def as_bytes(result: Beef, version: int, members: list[BeefTransaction], subject: bytes | None) -> bytes:
    """The bytes of a BEEF that could not be made."""
    parts = [beef.ATOMIC + subject] if subject is not None else []
    parts += [beef.V1 if version == 1 else beef.V2, varint(len(result.paths))]
    parts += [path.to_bytes() for path in result.paths]
    parts.append(varint(len(members)))
    for member in members:
        proof = b"\0" if member.path is None else b"\1" + varint(member.path)
        if member.raw is None and version == 2:
            parts.append(b"\2" + member.txid)
        else:
            parts += [member.raw or b"", proof] if version == 1 else [proof, member.raw or b""]
    return b"".join(parts)


@given(tampered())
def test_a_beef_that_was_tampered_with_is_judged_as_the_slow_judge_does(case: tuple[bytes, oracle.Roots]) -> None:
    data, roots = case
    try:
        parsed = beef.read(data)
        beef.verify(parsed, accepts(roots))
    except ParseError:
        assert oracle.judge(data, roots) is None
    else:
        assert oracle.judge(data, roots) == {member.txid[::-1].hex() for member in parsed.members}


@given(st.binary(max_size=120), st.sampled_from([b"", beef.V1, beef.V2, beef.ATOMIC + bytes(32) + beef.V2]))
def test_any_bytes_are_a_beef_or_a_parse_error(data: bytes, start: bytes) -> None:
    try:
        parsed = beef.read(start + data)
    except ParseError:
        return
    assert beef.read(parsed.to_bytes()) == parsed


# -- stories ----------------------------------------------------------------------------------------------------------


def pair(**more: object) -> bytes:
    return beef.write([(FUND, FUND_PATH), (CHILD, None)], **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [1, 2])
def test_a_child_is_left_to_its_scripts_and_its_parent_is_proved(version: int) -> None:
    left = beef.verify(beef.read(pair(version=version)), accepts(ROOTS))
    assert [(spend.tx.txid, spend.vin, spend.spent.satoshis) for spend in left] == [(CHILD_ID, 0, 1_000)]


def test_a_forged_path_is_refused_though_nobody_asks_for_its_transaction() -> None:
    """A path without the txid flag, and one that no transaction names: both are asked about."""
    forged = replace_flags(block_of([CHILD], 10)[CHILD_ID])
    for bundle in ([(FUND, FUND_PATH), (CHILD, forged)],):
        with pytest.raises(ProofError, match="is not that of the chain's block 10"):
            beef.verify(beef.read(beef.write(bundle)), accepts(ROOTS))
    unused = Beef(2, (FUND_PATH, forged), beef.read(pair()).members)
    with pytest.raises(ProofError, match="is not that of the chain's block 10"):
        beef.verify(unused, accepts(ROOTS))


def replace_flags(path: MerklePath) -> MerklePath:
    return MerklePath(path.height, tuple(tuple(leaf._replace(txid=False) for leaf in level) for level in path.levels))


def test_a_path_that_is_not_of_the_transaction_is_refused() -> None:
    other = block_of([FUND], 10)[FUND_ID]
    with pytest.raises(ParseError, match="does not hold transaction"):
        beef.write([(CHILD, other)])
    with pytest.raises(ParseError, match="does not hold transaction"):
        Beef(2, (other,), (BeefTransaction(CHILD_ID, CHILD, read_tx(CHILD), 0),))
    with pytest.raises(ParseError, match="names merkle path 1 of 1"):
        Beef(2, (other,), (BeefTransaction(FUND_ID, FUND, read_tx(FUND), 1),))


def test_a_bare_txid_is_refused_unless_its_transaction_is_held_here() -> None:
    bare = Beef(2, (), (BeefTransaction(FUND_ID, None, None), BeefTransaction(CHILD_ID, CHILD, read_tx(CHILD))))
    parsed = beef.read(bare.to_bytes())
    assert parsed == bare
    with pytest.raises(ProofError, match="is only a bare txid"):
        beef.verify(parsed, accepts(ROOTS))
    left = beef.verify(parsed, accepts(ROOTS), {FUND_ID: read_tx(FUND)})
    assert left[0].spent.satoshis == 1_000
    held = {FUND_ID[::-1].hex(): slow_tx(Tape(FUND))}
    assert oracle.judge(bare.to_bytes(), ROOTS, held) is not None
    with pytest.raises(ParseError, match="version 1 holds"):
        replace(bare, version=1)


def test_a_single_transaction_block_proves_its_transaction() -> None:
    alone = from_branch(10, 0, FUND_ID, [])
    data = beef.write([(FUND, alone), (CHILD, None)])
    assert len(beef.verify(beef.read(data), accepts({(10, FUND_ID)}))) == 1


def test_satoshis_do_not_come_from_nowhere() -> None:
    rich = raw_tx([Outpoint(FUND_ID, 0)], [1_001])
    with pytest.raises(ProofError, match="sends 1,001 satoshis and spends 1,000"):
        beef.verify(beef.read(beef.write([(FUND, FUND_PATH), (rich, None)])), accepts(ROOTS))
    negative = raw_tx([Outpoint(FUND_ID, 0)], [2_000, -1_500])
    with pytest.raises(ProofError, match="which cannot exist"):
        beef.verify(beef.read(beef.write([(FUND, FUND_PATH), (negative, None)])), accepts(ROOTS))


def test_an_output_is_spent_once_in_a_beef() -> None:
    twice = raw_tx([Outpoint(FUND_ID, 0), Outpoint(FUND_ID, 0)], [1_500])
    with pytest.raises(ProofError, match="is spent twice"):
        beef.verify(beef.read(beef.write([(FUND, FUND_PATH), (twice, None)])), accepts(ROOTS))
    rival = raw_tx([Outpoint(FUND_ID, 0)], [7])
    with pytest.raises(ProofError, match="is spent twice"):
        beef.verify(beef.read(beef.write([(FUND, FUND_PATH), (CHILD, None), (rival, None)])), accepts(ROOTS))


def test_coinbases_of_two_blocks_spend_the_same_nothing() -> None:
    nothing = Outpoint(bytes(32), 0xFFFFFFFF)
    mints = [raw_tx([nothing], [50], b"\x51" * count) for count in (9, 10)]
    paths = [from_branch(height, 0, read_tx(raw).txid, []) for height, raw in enumerate(mints, 10)]
    child = raw_tx([Outpoint(read_tx(raw).txid, 0) for raw in mints], [100])
    data = beef.write([*zip(mints, paths, strict=True), (child, None)])
    roots = {(path.height, path.merkle_root) for path in paths}
    assert len(beef.verify(beef.read(data), accepts(roots))) == 2
    assert oracle.judge(data, roots) is not None
    with pytest.raises(ProofError, match="is missing"):
        beef.verify(beef.read(beef.write([(mints[0], None)])), accepts(roots))


def test_a_parent_must_be_there_and_have_the_output() -> None:
    with pytest.raises(ProofError, match=r"its parent .* is missing"):
        beef.verify(beef.read(beef.write([(CHILD, None)])), accepts(ROOTS))
    beyond = raw_tx([Outpoint(FUND_ID, 2)], [1])
    with pytest.raises(ProofError, match="which does not exist"):
        beef.verify(beef.read(beef.write([(FUND, FUND_PATH), (beyond, None)])), accepts(ROOTS))


def test_a_transaction_without_inputs_is_refused_whatever_proof_it_has() -> None:
    nothing = raw_tx([], [10])
    with pytest.raises(ParseError, match="no inputs"):
        beef.write([(nothing, None)])
    with pytest.raises(ParseError, match="no inputs"):
        beef.write([(nothing, block_of([nothing], 10)[read_tx(nothing).txid])])


def test_a_transaction_of_64_bytes_has_no_proof() -> None:
    short = raw_tx([Outpoint(OUTSIDE, 0)], [5], b"\x51" * 4)
    assert len(short) == 64
    assert read_tx(short).txid in block_of([short], 10)
    with pytest.raises(ProofError, match="has 64 bytes"):
        beef.write([(short, block_of([short], 10)[read_tx(short).txid])])


def test_an_atomic_beef_is_about_its_subject_and_nothing_else() -> None:
    data = pair(subject=CHILD_ID)
    assert data.startswith(beef.ATOMIC + CHILD_ID + beef.V1)
    parsed = beef.read(data)
    assert parsed.subject == CHILD_ID
    assert parsed.newest.txid == CHILD_ID
    assert parsed.to_bytes() == data
    with pytest.raises(ParseError, match="does not descend from"):
        pair(subject=FUND_ID)
    with pytest.raises(ParseError, match="lacks its subject"):
        pair(subject=OUTSIDE)


def test_a_transaction_may_stand_before_its_parent() -> None:
    parsed = beef.read(pair())
    turned = replace(parsed, members=parsed.members[::-1], subject=CHILD_ID)
    assert len(beef.verify(beef.read(turned.to_bytes()), accepts(ROOTS))) == 1


def test_what_a_writer_repeats_counts_once_and_the_last_stays_last() -> None:
    parsed = beef.read(pair())
    fund, child = parsed.members
    again = as_bytes(parsed, 1, [fund, child._replace(path=None), fund._replace(path=None)], None)
    assert [member.txid for member in beef.read(again).members] == [CHILD_ID, FUND_ID]
    assert beef.read(again).members[1].path == 0
    doubled = replace(parsed, paths=parsed.paths * 2)
    with pytest.raises(ParseError, match="names two merkle paths, 0 and 1"):
        beef.read(as_bytes(doubled, 1, [fund, fund._replace(path=1)], None))
    with pytest.raises(ParseError, match="holds a transaction twice"):
        replace(parsed, members=(fund, fund))


def test_an_empty_beef_and_unknown_marks_are_refused() -> None:
    with pytest.raises(ParseError, match="without a transaction"):
        beef.read(beef.V2 + b"\0\0")
    with pytest.raises(ParseError, match="these bytes begin 0300beef"):
        beef.read(bytes.fromhex("0300beef0000"))
    with pytest.raises(ParseError, match="version 3"):
        replace(beef.read(pair()), version=3)
    with pytest.raises(ParseError, match="1 bytes follow the BEEF"):
        beef.read(pair() + b"\0")


@pytest.mark.parametrize("version", [1, 2])
def test_flags_that_nobody_knows_are_refused(version: int) -> None:
    data = pair(version=version)
    position = data.index(CHILD) + (len(CHILD) if version == 1 else -1)
    with pytest.raises(ParseError, match="7: 0"):
        beef.read(data[:position] + b"\7" + data[position + 1 :])


def test_ancestry_that_branches_and_joins_again_takes_one_pass() -> None:
    """A reader that follows every way up would take 2**400 steps, a recursive one would run out of stack."""
    bundle: list[tuple[bytes, MerklePath | None]] = []
    first = raw_tx([Outpoint(OUTSIDE, 0)], [10**6, 10**6])
    bundle.append((first, block_of([first], 10)[read_tx(first).txid]))
    parent = read_tx(first).txid
    for step in range(1_500):
        raw = raw_tx([Outpoint(parent, 0), Outpoint(parent, 1)], [10**6 - step, 10**6 - step])
        bundle.append((raw, None))
        parent = read_tx(raw).txid
    data = beef.write(bundle, subject=parent)
    requests: list[int] = []

    def is_root(height: int, root: bytes) -> bool:
        requests.append(height)
        return bundle[0][1] is not None and root == bundle[0][1].merkle_root

    assert len(beef.verify(beef.read(data), is_root)) == 3_000
    assert requests == [10]


@given(st.integers(0, 2**32), st.integers(1, 3))
def test_counts_beyond_the_bytes_are_refused_before_anything_is_made(count: int, offset: int) -> None:
    assume(count > 3)
    heads = {1: beef.V1, 2: beef.V2 + b"\0", 3: beef.V1 + b"\1\x0a\1"}
    with pytest.raises(ParseError):
        beef.read(heads[offset] + varint(count) + b"\0\0\0")


def test_transactions_of_one_block_share_one_path() -> None:
    other = raw_tx([Outpoint(OUTSIDE, 5)], [10])
    paths = block_of([FUND, other], 10)
    parsed = beef.read(beef.write([(FUND, paths[FUND_ID]), (other, paths[read_tx(other).txid])]))
    assert [member.path for member in parsed.members] == [0, 0]
    assert parsed.paths[0].txids() == (FUND_ID, read_tx(other).txid)
    assert parsed.paths[0].merkle_root == merkle.root([sha256(b"coinbase 10").digest(), FUND_ID, read_tx(other).txid])


def test_a_member_is_found_by_its_txid() -> None:
    parsed = beef.read(pair())
    member = parsed.member(FUND_ID)
    assert member is not None
    assert isinstance(member.tx, Transaction)
    assert parsed.member(OUTSIDE) is None
