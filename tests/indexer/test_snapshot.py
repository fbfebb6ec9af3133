"""Snapshots: the same facts give the same bytes, and nothing that was tampered with is taken over."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from types import NoneType
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from indexer import snapshot
from indexer.snapshot import Counts, export, lines, take_over, written
from indexer.snapshot_fields import SnapshotError
from indexer.snapshot_lines import (
    FORMAT,
    block_line,
    dump,
    event_line,
    load,
    read_block,
    read_card,
    read_event,
    read_heads,
)
from indexer.store import Store, StoreError, Writer, adopt, connect
from tests.chainkit import ChainKit, agent
from tests.conftest import ROOT
from tests.databases import Cluster, database_url, postgresql
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.oracles.wire import frames
from tests.proved import check_proofs

__all__ = ["Cluster", "database_url", "postgresql"]

Line = dict[str, Any]


def exported(store: Store) -> bytes:
    file = io.BytesIO()
    export(store, file)
    return file.getvalue()


def parsed(text: bytes) -> list[Line]:
    return [json.loads(line) for line in text.splitlines()]


def rewritten(told: list[Line]) -> list[bytes]:
    return [dump(line) for line in told]


class Empty:
    """A new database, ready to take over a snapshot."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = connect(url, importing=True)
        self.writer = Writer(self.engine)

    @property
    def store(self) -> Store:
        return Store(self.engine)

    def take(self, source: list[bytes] | Iterator[bytes]) -> Counts:
        return take_over(source, self.store, self.writer)

    def refuses(self, source: list[bytes]) -> str:
        with pytest.raises(SnapshotError) as caught:
            self.take(source)
        assert self.is_empty(), "something was left behind"
        return str(caught.value)

    def is_empty(self) -> bool:
        store = self.store
        return not store.chains() and not list(store.ids(None, 10)) and not store.newest_seq()

    def close(self) -> None:
        self.writer.close()
        self.engine.dispose()


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Empty]:
    found = Empty(f"sqlite:///{tmp_path}/copy.db")
    yield found
    found.close()


def story() -> ChainKit:
    """A chain on which everything happens at least once."""
    kit = ChainKit()
    first, second, third = kit.inscribe(agent("One")), kit.inscribe(agent("Two")), kit.inscribe(agent("Three"))
    kit.mine(first, second, third, kit.inscribe(agent("Two sats"), satoshis=2), kit.inscribe(b"{broken"))
    better = kit.update(first, agent("One, better"))
    moved = kit.move(second)
    kit.mine(better, moved, kit.point("agents.example"))
    broken = kit.update(better, b"{}")
    mapped = kit.map_only(moved, {"note": "new"})
    kit.mine(broken, mapped)
    kit.mine(kit.burn(third), kit.burn(mapped, to="fee"))
    kit.mine_empty(2)
    return kit


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def told(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The story's snapshot."""
    with Indexing(f"sqlite:///{tmp_path_factory.mktemp('story')}/a2b.db", MemoryChain(*story().blocks)) as indexing:
        return exported((await indexing.catch_up()).store)


async def test_a_snapshot_taken_over_holds_the_same_facts(database_url: str, tmp_path: Path) -> None:
    with Indexing(f"sqlite:///{tmp_path}/source.db", MemoryChain(*story().blocks)) as source:
        text = exported((await source.catch_up()).store)
        copy = Empty(database_url)
        counts = copy.take(text.splitlines(keepends=True))
        copy.close()
        with Indexing(database_url) as target:
            assert target.facts() == source.facts()
            assert target.store.chains() == source.store.chains()
            assert exported(target.store) == text
            assert check_proofs(target.store, "demo") == 12
        assert counts == Counts(cards=5, blocks=8, events=12, proofs=12)


async def test_the_sample_chain_goes_through_a_snapshot_unchanged(sample: Path, tmp_path: Path, empty: Empty) -> None:
    blocks = frames((sample / "blk00000.dat").read_bytes())
    with Indexing(f"sqlite:///{tmp_path}/source.db", MemoryChain(*blocks)) as source:
        text = exported((await source.catch_up()).store)
        empty.take(text.splitlines(keepends=True))
        with Indexing(f"sqlite:///{tmp_path}/other.db", MemoryChain(*reversed(blocks))) as other:
            assert exported((await other.catch_up()).store) == text, "the order of arrival shows"
        assert exported(empty.store) == text
    stated = json.loads((sample / "expected.json").read_text())["stateHashes"]
    assert json.loads(text.splitlines()[0])["chains"][0]["stateHash"] == stated["125"]


async def test_following_goes_on_where_a_snapshot_ends(tmp_path: Path, told: bytes, empty: Empty) -> None:
    empty.take(told.splitlines(keepends=True))
    empty.close()
    kit = story()
    kit.mine(kit.inscribe(agent("Four")))
    with (
        Indexing(empty.url, MemoryChain(*kit.blocks)) as copy,
        Indexing(f"sqlite:///{tmp_path}/whole.db", MemoryChain(*kit.blocks)) as whole,
    ):
        await copy.catch_up()
        await whole.catch_up()
        assert copy.facts() == whole.facts()


async def test_several_chains_stand_in_one_snapshot(tmp_path: Path, empty: Empty) -> None:
    kit = story()
    chains = (MemoryChain(*kit.blocks, name="b"), MemoryChain(*kit.blocks, name="a", coin="bch"))
    with Indexing(f"sqlite:///{tmp_path}/source.db", *chains) as source:
        text = exported((await source.catch_up()).store)
    heads = json.loads(text.splitlines()[0])["chains"]
    assert [(head["name"], head["caip2"]) for head in heads] == [("a", "bch:regtest"), ("b", "bsv:regtest")]
    empty.take(text.splitlines(keepends=True))
    assert exported(empty.store) == text


def test_a_database_without_blocks_is_a_snapshot_too(empty: Empty, tmp_path: Path) -> None:
    text = exported(empty.store)
    assert [*parsed(text)[0]] == ["chains", "format"]
    assert empty.take(text.splitlines(keepends=True)) == Counts(0, 0, 0, 0)


async def test_a_chain_read_from_excerpts_stays_one(tmp_path: Path, empty: Empty) -> None:
    kit = ChainKit()
    kit.mine(kit.inscribe(agent()))
    with Indexing(f"sqlite:///{tmp_path}/whole.db", MemoryChain(*kit.blocks)) as whole:
        await whole.catch_up()
        whole.writer.mark_partial("demo")
        told = exported(whole.store)
    (head,) = parsed(told)[0]["chains"]
    assert (head["stateHash"], head["partial"]) == (None, True)
    empty.take(told.splitlines(keepends=True))
    assert empty.store.is_partial("demo")
    assert exported(empty.store) == told


def test_compressed_files_hold_neither_name_nor_time(told: bytes, tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        with written(tmp_path / name) as file:
            file.write(told)
    packed = (tmp_path / "a.jsonl.gz").read_bytes()
    assert packed == (tmp_path / "b.jsonl.gz").read_bytes()
    assert packed[3:8] == bytes(5), "flags and time of the gzip header"
    assert b"".join(lines(tmp_path / "a.jsonl.gz")) == told


def test_a_snapshot_that_could_not_be_finished_is_not_there(tmp_path: Path) -> None:
    def fill() -> None:
        with written(tmp_path / "a.jsonl") as file:
            file.write(b"half")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk"):
        fill()
    assert not list(tmp_path.iterdir())


def test_a_database_that_holds_blocks_is_left_alone(empty: Empty, told: bytes) -> None:
    source = told.splitlines(keepends=True)
    empty.take(source)
    before = exported(empty.store)
    with pytest.raises(StoreError, match="holds blocks already"):
        empty.take(source)
    assert exported(empty.store) == before


async def test_a_reorg_during_an_export_is_noticed(tmp_path: Path) -> None:
    kit = story()
    chain = MemoryChain(*kit.blocks)
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", chain) as indexing:
        await indexing.catch_up()

        class Interrupting(io.BytesIO):
            def write(self, line: Any) -> int:
                if b'"block"' in bytes(line)[:10] and not self.tell() > 10_000_000:
                    indexing.writer.forget("demo", 2)
                return super().write(line)

        with pytest.raises(SnapshotError, match="export again"):
            export(indexing.store, Interrupting())


# -- what is tampered with


def change(told: list[Line], key: str, number: int, edit: Callable[[Line], object]) -> list[bytes]:
    """The lines, with one of a kind edited."""
    found = [line for line in told if key in line][number]
    edit(found[key])
    return rewritten(told)


def events_of(told: list[Line], kind: str) -> list[Line]:
    return [line["event"] for line in told if "event" in line and line["event"]["kind"] == kind]


def test_a_card_that_was_changed_is_missed(told: bytes, empty: Empty) -> None:
    changed = parsed(told)
    cards = [line for line in changed if "card" in line]
    cards[-1]["card"] = "e30="
    assert "out of order" in empty.refuses(rewritten(changed))
    changed = [line for line in parsed(told) if "card" not in line]
    changed[-1]["end"]["cards"] = 0
    assert "is missing" in empty.refuses(rewritten(changed))


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("hash", "00" * 32, "does not hash to"),
        ("header", "00" * 80, "does not hash to"),
        ("prev", "00" * 32, "another parent or time"),
        ("time", 5, "another parent or time"),
        ("height", 7, "does not continue the chain"),
        ("chain", "other", "does not name the chain 'other'"),
    ],
)
def test_a_block_that_was_changed_is_refused(name: str, value: Any, complaint: str, told: bytes, empty: Empty) -> None:
    assert complaint in empty.refuses(change(parsed(told), "block", 3, lambda block: block.update({name: value})))


def test_a_block_that_was_left_out_is_missed(told: bytes, empty: Empty) -> None:
    changed = parsed(told)
    at = [number for number, line in enumerate(changed) if "block" in line][1]
    assert "does not continue the chain" in empty.refuses(rewritten(changed[:at] + changed[at + 1 :]))


STATE_EDITS: list[tuple[str, str, Any, str]] = [
    ("inscribed", "createdHeight", 1, "created_height is"),
    ("inscribed", "updatedHeight", 1, "updated_height is"),
    ("inscribed", "id", "00" * 32 + "_0", "id is"),
    ("inscribed", "status", "burned", "status is"),
    ("inscribed", "owner", "1Bitcoin", "owner is"),
    ("reinscribed", "winner", "00" * 32 + "_0", "winner is"),
    ("reinscribed", "card", "00" * 32, "card is"),
    ("reinscribed", "kind", "tool", "kind is"),
    ("reinscribed", "map", [], "keys of the MAP are lost"),
    ("moved", "outpoint", None, "outpoint is"),
    ("moved", "updatedHeight", 3, "updated_height is"),
    ("moved", "map", [["type", "a2b"]], "map is"),
    ("invalid", "card", "00" * 32, "card is"),
    ("burned", "status", "live", "status is"),
    ("burned", "owner", "1Bitcoin", "owner is"),
    ("map_only", "id", "00" * 32 + "_0", "not known"),
]


@pytest.mark.parametrize(("kind", "name", "value", "complaint"), STATE_EDITS)
def test_a_state_that_cannot_have_followed_is_refused(
    kind: str, name: str, value: Any, complaint: str, told: bytes, empty: Empty
) -> None:
    changed = parsed(told)
    events_of(changed, kind)[0]["state"][name] = value
    assert complaint in empty.refuses(rewritten(changed))


EVENT_EDITS: list[tuple[str, str, Any, str]] = [
    ("reinscribed", "spent", "00" * 32 + "_0", "spent is"),
    ("reinscribed", "card", None, "without a card"),
    ("reinscribed", "kind", "inscribed", "is inscribed a second time"),
    ("inscribed", "spent", "00" * 32 + "_0", "spent is"),
    ("reinscribed", "vout", 9, "outpoint is"),
    ("inscribed", "valid", False, "without output or card"),
    ("inscribed", "state", None, "without the state after it"),
    ("invalid", "valid", True, "is never valid"),
    ("invalid", "kind", "reinscribed", "card is"),
    ("rejected", "spent", "00" * 32 + "_0", "spent is"),
    ("moved", "vout", None, "into no output"),
    ("moved", "kind", "flown", "which is not a EventKind"),
    ("moved", "position", 99, "stands after event"),
    ("moved", "txid", "zz", "must be 32 bytes of hex"),
    ("moved", "reasons", [["a"]], "must be 3 strings"),
    ("moved", "surprise", 1, "'surprise' that is not known"),
    ("moved", "owner", 5, "owner of an event is 5, and must be a str"),
]


@pytest.mark.parametrize(("kind", "name", "value", "complaint"), EVENT_EDITS)
def test_an_event_that_cannot_be_is_refused(
    kind: str, name: str, value: Any, complaint: str, told: bytes, empty: Empty
) -> None:
    changed = parsed(told)
    events_of(changed, kind)[0][name] = value
    assert complaint in empty.refuses(rewritten(changed))


def proofs_of(told: list[Line]) -> list[Line]:
    return [line["proof"] for line in told if "proof" in line]


def other_node(path: str) -> str:
    """A path with its last byte changed: that of the highest node."""
    return path[:-2] + f"{int(path[-2:], 16) ^ 1:02x}"


PROOF_EDITS: list[tuple[str, Callable[[list[Line]], object], str]] = [
    ("another node", lambda told: told[0].update(bump=other_node(told[0]["bump"])), "not to the block's header"),
    ("another height", lambda told: told[0].update(bump="03" + told[0]["bump"][2:]), "at height 3"),
    ("another transaction", lambda told: told[0].update(raw=told[1]["raw"]), "holds another transaction"),
    ("another path", lambda told: told[0].update(bump=told[1]["bump"]), "does not hold"),
    ("a cut path", lambda told: told[0].update(bump=told[0]["bump"][:-2]), "does not hold"),
    ("a path that is no hex", lambda told: told[0].update(bump="zz"), "not base64, or bump not hex"),
    ("a transaction that is no base64", lambda told: told[0].update(raw="!"), "not base64, or bump not hex"),
    ("a transaction cut short", lambda told: told[0].update(raw=told[0]["raw"][:-4]), "does not hold"),
    ("another order", lambda told: swap(told[0], told[1]), "is out of order"),
    ("a proof twice", lambda told: told[1].update(told[0]), "is out of order"),
    (
        "another block's",
        lambda told: told[-1].update(max(told[:5], key=by_txid)),
        "of a transaction that says nothing there",
    ),
    ("a surprise", lambda told: told[0].update(note=""), "'note' that is not known"),
]


def by_txid(proof: Line) -> bytes:
    return bytes.fromhex(proof["txid"])[::-1]


def swap(one: Line, other: Line) -> None:
    held = dict(one)
    one.update(other)
    other.update(held)


@pytest.mark.parametrize(("edit", "complaint"), [pytest.param(*each[1:], id=each[0]) for each in PROOF_EDITS])
def test_a_proof_that_does_not_hold_is_refused(
    edit: Callable[[list[Line]], object], complaint: str, told: bytes, empty: Empty
) -> None:
    changed = parsed(told)
    edit(proofs_of(changed))
    assert complaint in empty.refuses(rewritten(changed))


def test_a_proof_stands_behind_the_events_of_its_block(told: bytes, empty: Empty) -> None:
    changed = parsed(told)
    at = next(number for number, line in enumerate(changed) if "proof" in line)
    moved = [*changed[: at - 1], changed[at], changed[at - 1], *changed[at + 1 :]]
    assert "stands behind the proofs" in empty.refuses(rewritten(moved))
    first = next(number for number, line in enumerate(changed) if "block" in line)
    assert "before the first block" in empty.refuses(rewritten([*changed[:first], changed[at], *changed[first:]]))


def test_a_card_that_breaks_a_rule_cannot_be_called_valid(told: bytes, empty: Empty) -> None:
    changed = parsed(told)
    [invalid] = events_of(changed, "invalid")
    invalid.update(kind="reinscribed", valid=True, reasons=[])
    invalid["state"].update(
        card=invalid["card"], winner=invalid["state"]["outpoint"], updatedHeight=invalid["state"]["updatedHeight"] + 1
    )
    assert "breaks a rule" in empty.refuses(rewritten(changed))


def test_a_good_card_cannot_be_called_invalid(told: bytes, empty: Empty) -> None:
    changed = parsed(told)
    [update] = events_of(changed, "reinscribed")
    [first, *_] = [event for event in events_of(changed, "inscribed") if event["state"]["id"] == update["state"]["id"]]
    update.update(kind="invalid", valid=False)
    kept = ("card", "winner", "updatedHeight", "map")
    update["state"].update({name: first["state"][name] for name in kept})
    assert "is called invalid and is not" in empty.refuses(rewritten(changed))


def test_an_event_that_was_left_out_shows(told: bytes, empty: Empty) -> None:
    kinds = [line["event"]["kind"] for line in parsed(told) if "event" in line]
    for number, kind in enumerate(kinds):
        changed = parsed(told)
        left_out = [line for line in changed if "event" in line][number]
        assert empty.refuses(rewritten([line for line in changed if line is not left_out])), kind


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("stateHash", "00" * 32, "and the header says 00000"),
        ("stateHash", None, "and the header says None"),
        ("height", 6, "does not continue the chain"),
        ("hash", "00" * 32, "ends at another block"),
        ("first", 1, "does not continue the chain"),
        ("first", 99, "begins at 99"),
        ("name", "other", "does not name the chain 'demo'"),
    ],
)
def test_a_header_that_claims_something_else_is_refused(
    name: str, value: Any, complaint: str, told: bytes, empty: Empty
) -> None:
    changed = parsed(told)
    changed[0]["chains"][0][name] = value
    assert complaint in empty.refuses(rewritten(changed))


def test_a_snapshot_of_another_format_is_refused(told: bytes, empty: Empty) -> None:
    changed = parsed(told)
    changed[0]["format"] = "a2b-snapshot/3"
    assert "this version reads a2b-snapshot/2" in empty.refuses(rewritten(changed))


def test_a_snapshot_cut_off_anywhere_is_refused(told: bytes, empty: Empty) -> None:
    whole = told.splitlines(keepends=True)
    for length in range(len(whole)):
        assert empty.refuses(whole[:length])


def test_lines_after_the_end_or_before_the_header_are_refused(told: bytes, empty: Empty) -> None:
    whole = told.splitlines(keepends=True)
    assert "the end last" in empty.refuses([*whole, whole[-1]])
    assert "the header stands first" in empty.refuses(whole[1:])
    assert "the header stands first" in empty.refuses([*whole[:2], whole[0], *whole[2:]])


def test_a_file_that_breaks_off_or_has_endless_lines_is_refused(
    told: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(told)[:-20])
    with pytest.raises(SnapshotError, match="cannot be read to its end"):
        list(lines(tmp_path / "cut.jsonl.gz"))
    (tmp_path / "not.jsonl.gz").write_bytes(told)
    with pytest.raises(SnapshotError, match="Not a gzipped file"):
        list(lines(tmp_path / "not.jsonl.gz"))
    (tmp_path / "cut.jsonl").write_bytes(told[:-1])
    with pytest.raises(SnapshotError, match="cut off"):
        list(lines(tmp_path / "cut.jsonl"))
    monkeypatch.setattr(snapshot, "MAX_LINE", 1_000)
    (tmp_path / "long.jsonl").write_bytes(b"x" * 5_000)
    with pytest.raises(SnapshotError, match="longer than 1,000 bytes"):
        list(lines(tmp_path / "long.jsonl"))


def test_a_block_of_endless_events_is_refused(told: bytes, empty: Empty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MAX_BLOCK_BYTES", 1_500)
    assert "the events of a block take more than 1,500 bytes" in empty.refuses(told.splitlines(keepends=True))


@pytest.mark.parametrize(
    ("name", "value"), [("BATCH_LINES", 1), ("BATCH_LINES", 4), ("BATCH_BYTES", 1), ("BATCH_BYTES", 999)]
)
def test_batches_of_any_size_give_the_same_facts(
    name: str, value: int, told: bytes, empty: Empty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, name, value)
    empty.take(told.splitlines(keepends=True))
    assert exported(empty.store) == told


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(JSON | st.binary(max_size=9).map(lambda body: b64encode(body).decode()))
def test_any_json_is_no_record_but_for_the_text_of_a_card(value: Any) -> None:
    for read in (read_heads, read_block, read_event):
        with pytest.raises(SnapshotError):
            read(value)
    try:
        body = read_card(value)
    except SnapshotError:
        return
    assert len(b64encode(body)) == len(value)


KEYED = st.dictionaries(st.sampled_from(["format", "event", "a"]), JSON, max_size=2)


@given(st.binary(max_size=200) | (JSON | KEYED).map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_a_line_or_a_snapshot_error(line: bytes) -> None:
    try:
        name, value = load(line)
    except SnapshotError:
        return
    whole = json.loads(line)
    assert [(name, value)] == ([("format", whole)] if "format" in whole else [*whole.items()])


WRITTEN: dict[str, Callable[[Any], bytes]] = {
    "format": lambda told: dump({"format": FORMAT, "chains": [head.as_json() for head in read_heads(told)]}),
    "block": lambda told: block_line(read_block(told)),
    "event": lambda told: event_line(read_event(told)),
}
"""How each line is read and written again."""


def parts(value: Any) -> Iterator[Line]:
    """The objects of a line."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(each)


def near(value: Any) -> list[Any]:
    """What might be taken for a value and is not."""
    if isinstance(value, str):
        return [value.upper(), value + "00", value[2:], f" {value}", [value], None]
    if isinstance(value, bool):
        return [int(value), not value, None]
    if value is None:
        return ["", "a", 0, False, []]
    return [-value, value + 1, float(value), bool(value), str(value), 2**63] if isinstance(value, int) else [[value], 0]


def says_all_or_is_refused(name: str, line: Line) -> bool:
    try:
        written = WRITTEN[name](line if name == "format" else line[name])
    except SnapshotError:
        return False
    assert written == dump(line)
    return True


@pytest.mark.parametrize("name", WRITTEN)
def test_a_line_with_a_member_nearly_right_says_all_that_is_read_of_it_or_is_refused(name: str, told: bytes) -> None:
    lines = [line for line in parsed(told) if name in line]
    types = {(member, type(value)) for line in lines for part in parts(line) for member, value in part.items()}
    types |= {(member, NoneType) for member, _ in types} | {(member, str) for member, kind in types if kind is NoneType}
    for line in lines:
        for part in parts(line if name == "format" else line[name]):
            for member, value in [*part.items()]:
                for part[member] in near(value):
                    accepted = says_all_or_is_refused(name, line)
                    assert not accepted or (member, type(part[member])) in types, f"{member}: {part[member]!r}"
                part[member] = value
            part["stranger"] = None
            assert not says_all_or_is_refused(name, line)
            del part["stranger"]
        assert says_all_or_is_refused(name, line)


@given(data=st.data())
def test_a_line_with_any_member_replaced_says_all_that_is_read_of_it_or_is_refused(
    data: st.DataObject, told: bytes
) -> None:
    name = data.draw(st.sampled_from(sorted(WRITTEN)))
    lines = [line for line in told.splitlines() if f'"{name}":'.encode() in line]
    line = json.loads(data.draw(st.sampled_from(lines)))
    part = data.draw(st.sampled_from([*parts(line if name == "format" else line[name])]))
    part[data.draw(st.sampled_from(sorted(part)))] = data.draw(JSON)
    says_all_or_is_refused(name, line)


# -- interruptions


def test_a_database_with_half_a_snapshot_is_refused_until_the_import_is_repeated(told: bytes, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/half.db"
    source = told.splitlines(keepends=True)
    (tmp_path / "first.jsonl").write_bytes(b"".join(source[:-2]))
    script = (
        "import os, signal, sys\n"
        "from indexer.snapshot import lines, take_over\n"
        "from indexer.store import Store, Writer, connect\n"
        "import indexer.snapshot as module\n"
        "module.BATCH_LINES = 3\n"
        "def source():\n"
        "    yield from lines(__import__('pathlib').Path(sys.argv[2]))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "engine = connect(sys.argv[1], importing=True)\n"
        "take_over(source(), Store(engine), Writer(engine))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, url, f"{tmp_path}/first.jsonl"], cwd=ROOT, env=os.environ)
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(StoreError, match="an import into this database was interrupted"):
        connect(url)
    again = Empty(url)
    assert again.store.newest("demo") is not None, "nothing was written before the kill: this test shows nothing"
    again.take(source)
    assert exported(again.store) == told
    again.close()
    connect(url).dispose()


def test_an_import_that_fails_gives_the_outbox_a_new_epoch(told: bytes, empty: Empty) -> None:
    before = empty.store.epoch
    empty.refuses(told.splitlines(keepends=True)[:-1])
    assert empty.store.epoch != before
    assert empty.take(told.splitlines(keepends=True)).blocks == 8
    adopt.empty(empty.engine)
    assert empty.is_empty()
