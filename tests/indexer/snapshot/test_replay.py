"""Importing verifies what a snapshot says: nothing that is not so is taken, and nothing that is not proved."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indexer.model import RULES
from indexer.snapshot import importer
from indexer.snapshot.codec import parent_line, parse
from indexer.store import block_writer, imports
from indexer.store.full_scan import FullScan
from indexer.store.source_store import SourceStore
from parsers.bitcoin.tx import sha256d
from tests.chainkit import ChainKit, agent
from tests.chainkit_scripts import inscription, p2pkh
from tests.fakes import MemoryChain
from tests.headers import GENESIS_TIME
from tests.headers import header as header_of
from tests.headers import line as headers_of
from tests.indexing import Indexing
from tests.snapshots import (
    Empty,
    Line,
    change,
    empty,
    events_of,
    exported,
    parsed,
    proofs_of,
    rewritten,
    snapshot,
    story,
)

__all__ = ["empty", "snapshot"]

BLOCK_EDITS: list[tuple[str, Any, str]] = [
    ("hash", "00" * 32, "is not what its header says"),
    ("header", "00" * 80, "which is not known"),
    ("prev", "00" * 32, "is not what its header says"),
    ("time", 5, "is not what its header says"),
    ("height", 7, "comes where block 3 is expected"),
    ("chain", "other", "does not name the chain other"),
]


@pytest.mark.parametrize(("name", "value", "complaint"), BLOCK_EDITS)
def test_a_block_that_was_changed_is_refused(
    name: str, value: Any, complaint: str, snapshot: bytes, empty: Empty
) -> None:
    assert complaint in empty.refuses(change(parsed(snapshot), "block", 3, lambda block: block.update({name: value})))


def test_a_block_that_was_left_out_is_missed(snapshot: bytes, empty: Empty) -> None:
    changed = parsed(snapshot)
    position = [number for number, line in enumerate(changed) if "block" in line][1]
    assert "comes where block 1 is expected" in empty.refuses(rewritten(changed[:position] + changed[position + 1 :]))


def test_a_block_that_comes_twice_is_refused(snapshot: bytes, empty: Empty) -> None:
    changed = parsed(snapshot)
    position = [number for number, line in enumerate(changed) if "block" in line][1]
    assert "comes where block 2 is expected" in empty.refuses(
        rewritten([*changed[: position + 1], *changed[position:]])
    )


STATE_EDITS: list[tuple[str, str, Any, str]] = [
    ("inscribed", "createdHeight", 1, "created_height is '1', and '2' by its transaction"),
    ("inscribed", "updatedHeight", 1, "updated_height is"),
    ("inscribed", "id", "00" * 32 + "_0", "id is"),
    ("inscribed", "status", "burned", "status is"),
    ("inscribed", "owner", "1Bitcoin", "owner is"),
    ("inscribed", "map", [["app", "evil"], ["type", "a2b"]], "map is"),
    ("reinscribed", "winner", "00" * 32 + "_0", "winner is"),
    ("reinscribed", "card", "00" * 32, "card is"),
    ("reinscribed", "kind", "tool", "kind is"),
    ("moved", "outpoint", "00" * 32 + "_0", "outpoint is"),
    ("moved", "satoshis", 5, "satoshis is"),
    ("moved", "updatedHeight", 3, "updated_height is"),
    ("invalid", "card", "00" * 32, "card is"),
    ("burned", "status", "live", "status is"),
    ("map_only", "id", "00" * 32 + "_0", "id is"),
]


@pytest.mark.parametrize(("kind", "name", "value", "complaint"), STATE_EDITS)
def test_a_state_that_its_transaction_does_not_give_is_refused(
    kind: str, name: str, value: Any, complaint: str, snapshot: bytes, empty: Empty
) -> None:
    changed = parsed(snapshot)
    events_of(changed, kind)[0]["state"][name] = value
    assert complaint in empty.refuses(rewritten(changed))


EVENT_EDITS: list[tuple[str, str, Any, str]] = [
    ("reinscribed", "spent", "00" * 32 + "_0", "spent is"),
    ("reinscribed", "kind", "inscribed", "kind is 'inscribed', and 'reinscribed' by its transaction"),
    ("reinscribed", "txIndex", 9, "tx_index is"),
    ("reinscribed", "vout", 9, "outpoint is"),
    ("inscribed", "valid", False, "valid is"),
    ("inscribed", "card", "00" * 32, "card is"),
    ("invalid", "valid", True, "valid is"),
    ("invalid", "reasons", [["no-map", "", ""]], "reasons is"),
    ("moved", "kind", "flown", "not a line of a snapshot"),
    ("moved", "position", 99, "follows event 99 of its block"),
    ("moved", "txid", "zz", "not a line of a snapshot"),
    ("moved", "reasons", [["a"]], "not a line of a snapshot"),
    ("rejected", "reasons", [["a", "b", "c"]], "'a' is an unknown reason code"),
    ("moved", "surprise", 1, "unknown field `surprise`"),
    ("moved", "owner", 5, "not a line of a snapshot"),
    ("moved", "owner", "1Bitcoin", "owner is"),
    ("pointed", "pointer", {"domain": "a.example", "form": "op_return"}, "pointer is"),
]


@pytest.mark.parametrize(("kind", "name", "value", "complaint"), EVENT_EDITS)
def test_an_event_that_its_transaction_does_not_say_is_refused(
    kind: str, name: str, value: Any, complaint: str, snapshot: bytes, empty: Empty
) -> None:
    changed = parsed(snapshot)
    events_of(changed, kind)[0][name] = value
    assert complaint in empty.refuses(rewritten(changed))


def test_a_registration_that_nobody_inscribed_is_refused(snapshot: bytes, empty: Empty) -> None:
    """Its own proof holds: the transaction is in the block, and says nothing of the kind."""
    changed = parsed(snapshot)
    [pointed] = events_of(changed, "pointed")
    [inscribed, *_] = events_of(changed, "inscribed")
    name = f"{pointed['txid']}_0"
    state = inscribed["state"] | {"id": name, "outpoint": name, "winner": name, "createdHeight": 3, "updatedHeight": 3}
    invented = inscribed | {"txid": pointed["txid"], "txIndex": pointed["txIndex"], "position": 9, "state": state}
    position = next(number for number, line in enumerate(changed) if line.get("event") is pointed)
    changed.insert(position + 1, {"event": invented})
    changed[-1]["end"]["events"] += 1
    assert "its transaction does not make this event" in empty.refuses(rewritten(changed))


@pytest.mark.parametrize("kind", ["inscribed", "reinscribed", "moved", "map_only", "invalid", "burned", "pointed"])
def test_an_event_that_was_left_out_shows(kind: str, snapshot: bytes, empty: Empty) -> None:
    changed = parsed(snapshot)
    left_out = events_of(changed, kind)[0]
    changed[-1]["end"]["events"] -= 1
    assert f"{kind} in {left_out['txid']}" in empty.refuses(
        rewritten([line for line in changed if line.get("event") is not left_out])
    )


def test_near_misses_may_be_left_out_since_only_the_newest_are_kept(
    tmp_path: Path, snapshot: bytes, empty: Empty
) -> None:
    changed = [line for line in parsed(snapshot) if line.get("event", {}).get("kind") != "rejected"]
    silent = {event["txid"] for event in events_of(parsed(snapshot), "rejected")}
    changed = [line for line in changed if line.get("proof", {}).get("txid") not in silent]
    changed[-1]["end"].update(events=10, proofs=10)
    text = rewritten(changed)
    empty.take(text)
    assert exported(empty.store) == b"".join(text)


async def test_a_database_that_dropped_near_misses_is_exported_and_imported(tmp_path: Path, empty: Empty) -> None:
    kit = ChainKit()
    kit.mine(kit.inscribe(b"{broken"), kit.inscribe(agent("One")), kit.inscribe(b"{broken too"))
    with Indexing(f"sqlite:///{tmp_path}/source.db", MemoryChain(*kit.blocks)) as source:
        await source.catch_up()
        block_writer.trim(source.writer, "demo", 1)
        text = exported(source.store)
    assert [event["position"] for line in parsed(text) if (event := line.get("event"))] == [1, 2]
    empty.take(text.splitlines(keepends=True))
    assert exported(empty.store) == text


# -- proofs


def other_node(path: str) -> str:
    """A path with its last byte changed: that of the highest node."""
    return path[:-4] + ("A" if path[-4] != "A" else "B") + path[-3:]


def by_txid(proof: Line) -> bytes:
    return bytes.fromhex(proof["txid"])[::-1]


def swap(one: Line, other: Line) -> None:
    held = dict(one)
    one.update(other)
    other.update(held)


PROOF_EDITS: list[tuple[str, Callable[[list[Line]], object], str]] = [
    ("another node", lambda answer: answer[0].update(bump=other_node(answer[0]["bump"])), "not to the block's header"),
    ("another height", lambda answer: answer[0].update(bump="Aw" + answer[0]["bump"][2:]), "at height 3"),
    ("another transaction", lambda answer: answer[0].update(raw=answer[1]["raw"]), "holds another transaction"),
    ("another path", lambda answer: answer[0].update(bump=answer[1]["bump"]), "does not hold"),
    ("a cut path", lambda answer: answer[0].update(bump=answer[0]["bump"][:-4]), "does not hold"),
    ("a path that is not base64", lambda answer: answer[0].update(bump="!"), "not a line of a snapshot"),
    ("a transaction cut short", lambda answer: answer[0].update(raw=answer[0]["raw"][:-4]), "does not hold"),
    ("another order", lambda answer: swap(answer[0], answer[1]), "is out of order"),
    ("a proof twice", lambda answer: answer[1].update(answer[0]), "is out of order"),
    ("another block's", lambda answer: answer[-1].update(max(answer[:5], key=by_txid)), "not to the block's header"),
    ("a surprise", lambda answer: answer[0].update(note=""), "unknown field `note`"),
]


@pytest.mark.parametrize(("edit", "complaint"), [pytest.param(*edit[1:], id=edit[0]) for edit in PROOF_EDITS])
def test_a_proof_that_does_not_hold_is_refused(
    edit: Callable[[list[Line]], object], complaint: str, snapshot: bytes, empty: Empty
) -> None:
    changed = parsed(snapshot)
    edit(proofs_of(changed))
    assert complaint in empty.refuses(rewritten(changed))


def test_proofs_come_between_a_block_and_its_events(snapshot: bytes, empty: Empty) -> None:
    changed = parsed(snapshot)
    position = next(number for number, line in enumerate(changed) if "event" in line)
    moved = [*changed[: position - 1], changed[position], changed[position - 1], *changed[position + 1 :]]
    assert "out of order" in empty.refuses(rewritten(moved))
    first = next(number for number, line in enumerate(changed) if "block" in line)
    assert "follow a block line" in empty.refuses(
        rewritten([*changed[:first], changed[position - 1], *changed[first:]])
    )


def without_proof(raw: bytes, kind: str) -> list[bytes]:
    """The snapshot without the proof of the first event of a kind."""
    changed = parsed(raw)
    txid = events_of(changed, kind)[0]["txid"]
    changed[-1]["end"]["proofs"] -= 1
    return rewritten([line for line in changed if line.get("proof", {}).get("txid") != txid])


def test_a_chain_is_imported_up_to_the_first_block_that_is_not_proved(
    snapshot: bytes, empty: Empty, caplog: pytest.LogCaptureFixture
) -> None:
    report = empty.take(without_proof(snapshot, "invalid"))
    [chain] = report.chains
    newest = empty.store.blocks.newest("demo")
    assert newest is not None
    assert (chain.height, chain.newest, newest.height) == (3, 7, 3)
    assert "is not in the file" in chain.gap
    assert "demo is imported up to block 3, as the file proves no more" in caplog.text


async def test_the_follower_reads_what_an_import_could_not_prove(snapshot: bytes, empty: Empty, tmp_path: Path) -> None:
    empty.take(without_proof(snapshot, "reinscribed"))
    empty.close()
    with Indexing(empty.url, MemoryChain(*story().blocks)) as copy:
        await copy.catch_up()
        assert exported(copy.store) == snapshot


def test_headers_after_the_gap_are_checked_all_the_same(snapshot: bytes, empty: Empty) -> None:
    changed = [json.loads(line) for line in without_proof(snapshot, "invalid")]
    assert "is not what its header says" in empty.refuses(
        change(changed, "block", 6, lambda block: block.update(time=5))
    )


async def test_a_value_without_its_transaction_is_not_believed(snapshot: bytes, empty: Empty) -> None:
    lines = [line for line in snapshot.splitlines(keepends=True) if not line.startswith(b'{"parent"')]
    assert len(lines) < len(snapshot.splitlines()), "the story needs no value: this test shows nothing"
    [chain] = empty.take(lines).chains
    assert chain.height == 4
    assert "depends on values that the file does not prove" in chain.gap


async def test_a_silent_parent_in_the_same_block_is_proved_too(empty: Empty, tmp_path: Path) -> None:
    """Its output stands before the registration, so that its value decides where that goes."""
    kit = ChainKit()
    body = json.dumps(agent("One")).encode()
    message = inscription(body, {"app": "x", "type": "a2b"}, "alice")
    first = kit.spend([kit.fund()], [(1, message), (1, p2pkh("alice")), (9_000, p2pkh("bob"))])
    silent = kit.spend([first.outpoint(1), first.outpoint(2)], [(7, p2pkh("bob"))])
    moved = kit.spend([silent.outpoint(0), first.outpoint(0)], [(7, p2pkh("bob")), (1, p2pkh("carol"))])
    kit.mine(first, silent, moved)
    with Indexing(f"sqlite:///{tmp_path}/source.db", MemoryChain(*kit.blocks)) as source:
        text = exported((await source.catch_up()).store)
    lines = parsed(text)
    assert {proof["txid"] for proof in proofs_of(lines)} == {item.hex_id for item in (first, silent, moved)}
    assert events_of(lines, "moved")[0]["state"]["outpoint"] == str(moved.outpoint(1))
    empty.take(text.splitlines(keepends=True))
    assert exported(empty.store) == text


def test_a_parent_with_another_value_is_another_transaction(snapshot: bytes, empty: Empty) -> None:
    lines = snapshot.splitlines(keepends=True)
    position = next(number for number, line in enumerate(lines) if line.startswith(b'{"parent"'))
    raw = parse(lines[position])[1]
    assert raw.count((1_000_000).to_bytes(8, "little")) > 0
    lines[position] = parent_line(raw.replace((1_000_000).to_bytes(8, "little"), (1_000_001).to_bytes(8, "little")))
    [chain] = empty.take(lines).chains
    assert chain.height == 4
    assert list(FullScan(empty.engine).parents()) == [], "an unused transaction is kept"


# -- the network


def test_regtest_begins_with_its_genesis(empty: Empty) -> None:
    raws = headers_of(1)
    header = raws[0].hex()
    digest = sha256d(raws[0])[::-1].hex()
    head = {"name": "demo", "caip2": "bsv:regtest", "first": 0, "height": 0, "hash": digest, "rules": RULES}
    block = {"chain": "demo", "height": 0, "hash": digest, "prev": "00" * 32, "time": 1_600_000_000, "header": header}
    lines = [{"format": "a2b-snapshot/3", "chains": [head]}, {"block": block}]
    assert "is not the genesis block of bsv regtest" in empty.refuses(rewritten(lines))


def named(raw: bytes, **members: Any) -> list[bytes]:
    changed = parsed(raw)
    changed[0]["chains"][0].update(members)
    return rewritten(changed)


def test_blocks_of_regtest_are_not_those_of_the_main_network(snapshot: bytes, empty: Empty) -> None:
    assert "is not the genesis block of bsv mainnet" in empty.refuses(named(snapshot, caip2="bsv:mainnet"))


async def test_headers_that_lead_to_no_checkpoint_prove_nothing(empty: Empty, tmp_path: Path) -> None:
    kit = story()
    with Indexing(f"sqlite:///{tmp_path}/late.db", MemoryChain(*kit.blocks, first=2)) as late:
        text = exported((await late.catch_up()).store)
    assert "hold neither genesis nor a packaged checkpoint of bsv regtest" in empty.refuses(text.splitlines(True))


async def test_headers_before_the_first_block_lead_to_it(empty: Empty, tmp_path: Path) -> None:
    kit = story()
    with Indexing(f"sqlite:///{tmp_path}/late.db", MemoryChain(*kit.blocks, first=1)) as late:
        SourceStore(late.writer).save_headers("demo", 0, b"".join(block.raw[:80] for block in kit.blocks))
        text = exported((await late.catch_up()).store)
    assert text.count(b'{"headers"') == 1
    empty.take(text.splitlines(keepends=True))
    assert exported(empty.store) == text
    changed = [line for line in parsed(text) if "headers" not in line]
    assert "hold neither genesis" in empty_again(empty, rewritten(changed))


async def test_a_card_is_no_proved_first_record_where_reading_began_late(empty: Empty, tmp_path: Path) -> None:
    kit = ChainKit()
    first = kit.inscribe(agent("One"))
    kit.mine(first)
    kit.mine_empty(1)
    kit.mine(kit.update(first, agent("Two")), kit.inscribe(agent("New")))
    with Indexing(f"sqlite:///{tmp_path}/late.db", MemoryChain(*kit.blocks, first=3)) as late:
        SourceStore(late.writer).save_headers("demo", 0, b"".join(block.raw[:80] for block in kit.blocks))
        text = exported((await late.catch_up()).store)
    [chain] = empty.take(text.splitlines(keepends=True)).chains
    assert chain.gap.endswith("depends on blocks before those that were read")
    newest = empty.store.blocks.newest("demo")
    assert newest is not None
    assert newest.height == 3


def empty_again(empty: Empty, lines: list[bytes]) -> str:
    imports.empty(empty.engine)
    return empty.refuses(lines)


def test_work_of_less_than_the_required_bits_is_refused(snapshot: bytes, empty: Empty) -> None:
    changed = parsed(snapshot)
    block = [line["block"] for line in changed if "block" in line][1]
    raw = bytes.fromhex(block["header"])
    block["header"] = (raw[:72] + (0x207FFFFE).to_bytes(4, "little") + raw[76:]).hex()
    assert "its bits are 207ffffe where 207fffff is required" in empty.refuses(rewritten(changed))


async def test_merge_mined_headers_are_not_believed_without_their_work(empty: Empty, tmp_path: Path) -> None:
    kit = ChainKit("doge")
    kit.mine(kit.point("agents.example"))
    with Indexing(f"sqlite:///{tmp_path}/doge.db", MemoryChain(*kit.blocks, coin="doge")) as doge:
        changed = parsed(exported((await doge.catch_up()).store))
    raw = header_of(kit.tip.hash, version=0x620102)
    digest = sha256d(raw)[::-1].hex()
    block = {"chain": "demo", "height": 3, "hash": digest, "prev": kit.tip.hash[::-1].hex(), "time": GENESIS_TIME}
    changed.insert(-1, {"block": block | {"header": raw.hex()}})
    changed[-1]["end"]["blocks"] = 4
    changed[0]["chains"][0].update(height=3, hash=digest)
    [chain] = empty.take(rewritten(changed)).chains
    assert (chain.height, chain.newest) == (2, 3)
    assert "the merge-mined proof of work (AuxPoW) of block 3 is not in the file" in chain.gap


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("stateHash", "00" * 32, "and the file says 00000"),
        ("stateHash", None, "not in canonical form"),
        ("pointers", {"count": 1, "hash": "00" * 32}, "the hash over pointers at block 7"),
        ("pointers", {"count": -1, "hash": "00" * 32}, "not a line of a snapshot"),
        ("height", 6, "block 7 of demo comes where no more is expected"),
        ("hash", "00" * 32, "do not lead to the block that the first line names"),
        ("first", 1, "comes where block 1 is expected"),
        ("first", 99, "ends before it begins"),
        ("name", "other", "does not name the chain demo"),
        ("name", "\x1b[2J", "not a line of a snapshot"),
        ("caip2", "bsv", "not a line of a snapshot"),
    ],
)
def test_a_first_line_that_claims_something_else_is_refused(
    name: str, value: Any, complaint: str, snapshot: bytes, empty: Empty
) -> None:
    assert complaint in empty.refuses(named(snapshot, **{name: value}))


def test_a_snapshot_of_another_format_is_refused(snapshot: bytes, empty: Empty) -> None:
    changed = parsed(snapshot)
    changed[0]["format"] = "a2b-snapshot/2"
    assert "the format is 'a2b-snapshot/2', and this version reads a2b-snapshot/4" in empty.refuses(rewritten(changed))


def test_a_snapshot_of_version_0_2_0_has_no_hash_over_pointers(snapshot: bytes, empty: Empty) -> None:
    changed = parsed(snapshot)
    changed[0]["format"] = "a2b-snapshot/3"
    del changed[0]["chains"][0]["pointers"]
    [chain] = empty.take(rewritten(changed)).chains
    assert chain.height == chain.newest == 7


def test_a_snapshot_cut_off_anywhere_is_refused(snapshot: bytes, empty: Empty) -> None:
    whole = snapshot.splitlines(keepends=True)
    for length in range(len(whole)):
        assert empty.refuses(whole[:length])


def test_lines_out_of_order_are_refused(snapshot: bytes, empty: Empty) -> None:
    whole = snapshot.splitlines(keepends=True)
    assert "the end last" in empty.refuses([*whole, whole[-1]])
    assert "the chains come first" in empty.refuses(whole[1:])
    assert "the chains come first" in empty.refuses([*whole[:2], whole[0], *whole[2:]])
    assert "out of order" in empty.refuses([whole[0], whole[2], whole[1], *whole[3:]])
    assert "out of order" in empty.refuses([*whole[:2], whole[1], *whole[2:]])
    assert "out of order" in empty.refuses([*whole[:-1], whole[1], whole[-1]])


def test_a_block_of_endless_lines_is_refused(snapshot: bytes, empty: Empty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "MAX_BLOCK_BYTES", 1_500)
    assert "the lines of one block have more than 1,500 bytes" in empty.refuses(snapshot.splitlines(keepends=True))


# -- on trust


def test_on_trust_only_the_state_hash_is_compared(
    snapshot: bytes, empty: Empty, caplog: pytest.LogCaptureFixture
) -> None:
    changed = parsed(snapshot)
    events_of(changed, "rejected")[0]["owner"] = "1Bitcoin"
    empty.take(rewritten(changed), trust=True)
    assert exported(empty.store) == b"".join(rewritten(changed))
    assert "imported on trust: nothing in it is verified" in caplog.text


def test_on_trust_the_state_hash_must_agree(snapshot: bytes, empty: Empty) -> None:
    changed = parsed(snapshot)
    events_of(changed, "invalid")[0]["state"]["owner"] = "1Bitcoin"
    assert "the state hash at block 7" in empty.refuses(rewritten(changed), trust=True)


def test_on_trust_blocks_must_be_linked(snapshot: bytes, empty: Empty) -> None:
    changed = change(parsed(snapshot), "block", 3, lambda block: block.update(prev="00" * 32))
    assert "does not continue the stored chain" in empty.refuses(changed, trust=True)
