"""From a card to a listing in one command: the coins file follows what is sent, and the trace follows the transaction.

The chain is a stand-in for a node, and a real Bitcoin SV node where `BITCOIND` names one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer import durable_files
from overlay.commands import diagnose
from overlay.publish import coins
from overlay.publish.coins import Coin, CoinsError
from overlay.publish.trace import is_settled, tone
from overlay.publish.transactions import change_of
from parsers.bitcoin.tx import Outpoint, read
from tests.bitcoind import Bitcoind, installed
from tests.chainkit import agent
from tests.overlay.publish.test_publish_story import KEY, OTHER, Live, Publisher, Served
from tests.running import Running, a2b_here


@pytest.fixture(params=["a stand-in for a node", "a real node"])
def publisher(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Publisher]:
    home = tmp_path / "home"
    home.mkdir()
    if request.param == "a real node":
        installed()
        with Bitcoind(tmp_path / "node") as node:
            world = Live(node)
            with Running("up", "--port", "0", cwd=home, A2B_CHAINS=world.chains) as running:
                yield Publisher(world, running, home)
    else:
        with Served() as served, Running("up", "--port", "0", cwd=home, A2B_CHAINS=served.chains) as running:
            yield Publisher(served, running, home)


def broadcast(publisher: Publisher, *arguments: str, node: bool = True) -> str:
    """The output of a command that sends."""
    publisher.number += 1
    done = a2b_here(
        *arguments, "--coins", str(publisher.coins), "--url", publisher.running.url, "--broadcast",
        "--out", str(publisher.home / f"{publisher.number}.json"), "--key-file", str(publisher.home / "key"),
        *(("--node", publisher.world.node.url) if node else ()), cwd=publisher.home,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Miner:
    """Mines every tenth of a second."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher, self._over = publisher, Event()
        self._thread = Thread(target=self._run)

    def _run(self) -> None:
        while not self._over.wait(0.3):
            self._publisher.world.mine()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def test_a_card_is_listed_by_one_command_and_the_next_commands_need_no_editing(publisher: Publisher) -> None:
    url, before = publisher.running.url, json.loads(publisher.coins.read_text())
    publisher.coins.write_text(json.dumps([{**coin, "label": "mine"} for coin in before]))
    with Miner(publisher):
        out = broadcast(publisher, "inscribe", publisher.card(agent("Alpha")), "--app", "test", "--wait")
    [id_] = [line.split()[1] for line in out.splitlines() if line.startswith("listing ")]
    assert f"page    {url}/listings/{id_}" in out.splitlines()
    assert out.splitlines()[-1] == f"listed as {id_}"
    shown = publisher.running.get(f"/v1/listings/{id_}")
    assert (shown["name"], shown["status"]) == ("Alpha", "live")
    done = a2b_here("diagnose", id_[:64], "--follow", "--url", url, cwd=publisher.home)
    assert (done.returncode, "NO " in done.stdout) == (0, False), done.stdout
    assert "ok  mined" in done.stdout

    saved = json.loads((publisher.home / "1.json").read_text())
    left = json.loads(publisher.coins.read_text())
    assert [coin.get("label") for coin in left] == ["mine"] * 8 + [None]
    spent = {str(item.prevout) for item in read(bytes.fromhex(saved["rawTx"])).inputs}
    assert not spent & {f"{coin['txid']}_{coin['vout']}" for coin in left}
    assert (left[-1]["txid"], left[-1]["vout"]) == (id_[:64], 1)

    broadcast(publisher, "inscribe", publisher.card(agent("Beta")), "--update", id_, node=True)
    publisher.world.mine()
    publisher.until(id_, name="Beta", pending=None)
    broadcast(publisher, "transfer", id_, OTHER.address)
    publisher.running.until(lambda: "pending" in publisher.running.get(f"/v1/listings/{id_}"))
    shown_text = a2b_here("show", id_, "--url", url, cwd=publisher.home).stdout
    assert "a transfer waits to be mined" in shown_text
    assert f"owner: {KEY.address} -> {OTHER.address}" in shown_text
    publisher.world.mine()
    publisher.until(id_, owner=OTHER.address)
    remaining = sum(coin["satoshis"] for coin in json.loads(publisher.coins.read_text()))
    assert 0 < sum(coin["satoshis"] for coin in before) - remaining < 1_000  # fees, and the satoshi


def test_a_spent_coin_is_passed_over_where_a_node_knows_it(publisher: Publisher) -> None:
    stale = publisher.coins.read_text()
    broadcast(publisher, "point", "a.example")
    fresh = json.loads(publisher.coins.read_text())
    publisher.coins.write_text(stale)
    out = broadcast(publisher, "point", "b.example")
    assert "is spent" in out
    [gone] = [coin for coin in json.loads(stale) if coin not in fresh]
    assert gone in json.loads(publisher.coins.read_text())  # a node that lags would not know it either


def test_a_saved_transaction_that_is_sent_later_changes_the_coins_once(publisher: Publisher) -> None:
    publisher.run("point", "a.example")  # built, saved, and sent by another command
    raw, url = publisher.home / "1.json", publisher.world.node.url
    tx = read(bytes.fromhex(json.loads(raw.read_text())["rawTx"]))
    [spent] = [str(item.prevout) for item in tx.inputs]
    publisher.coins.write_text(json.dumps([{"outpoint": spent, "satoshis": 100_000}]))
    for _ in range(2):
        done = a2b_here("broadcast", str(raw), "--node", url, "--coins", str(publisher.coins), cwd=publisher.home)
        assert done.returncode == 0, done.stderr
        assert json.loads(publisher.coins.read_text()) == [
            {"txid": tx.hex_id, "vout": 1, "satoshis": tx.outputs[1].satoshis}
        ]
    done = a2b_here("diagnose", "--raw", f"@{raw}", "--url", publisher.running.url, cwd=publisher.home)
    assert "pointer" in done.stdout


LISTS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(2, 10**6)), max_size=12, unique_by=lambda pair: pair[0]
)  # fmt: skip


def _outpoint(number: int) -> Outpoint:
    return Outpoint(bytes((number,)) * 32, number)


@given(LISTS, st.sets(st.integers(0, 40)), LISTS)
def test_coins_are_replaced_by_their_change_once_and_none_is_lost(
    tmp_path_factory: pytest.TempPathFactory, before: list[tuple[int, int]], spent: set[int], new: list[tuple[int, int]]
) -> None:
    file = tmp_path_factory.mktemp("coins") / "coins.json"
    file.write_text(json.dumps([{"outpoint": str(_outpoint(number)), "satoshis": value} for number, value in before]))
    change = [Coin(_outpoint(100 + number), value) for number, value in new]
    for _ in range(2):
        coins.record_spent(file, {_outpoint(number) for number in spent}, change)
    left = [Coin(_outpoint(number), value) for number, value in before if number not in spent]
    assert coins.from_file(file) == left + (change if len(left) < len(before) else [])


@pytest.mark.parametrize("call", ["fsync", "replace", "write"])
def test_coins_that_cannot_be_written_are_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    file = tmp_path / "coins.json"
    file.write_text(json.dumps([{"outpoint": str(_outpoint(1)), "satoshis": 5_000, "note": "ü"}]))
    file.chmod(0o600)
    before = file.read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space"):
        coins.record_spent(file, {_outpoint(1)}, [])
    assert (file.read_bytes(), os.listdir(tmp_path)) == (before, ["coins.json"])  # noqa: PTH208
    monkeypatch.undo()
    coins.record_spent(file, {_outpoint(1)}, [Coin(_outpoint(2), 7)])
    assert [coin.satoshis for coin in coins.from_file(file)] == [7]
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("{}")
    with pytest.raises(CoinsError, match="is not a list"):
        coins.record_spent(file, {_outpoint(1)}, [])


def test_an_existing_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    durable_files.put(file, b"one", replace=False)
    with pytest.raises(FileExistsError):
        durable_files.put(file, b"two", replace=False)
    assert file.read_bytes() == b"one"


def test_where_nothing_can_be_sent_nothing_is_saved(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY.private.hex())
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "card.json").write_text(json.dumps(agent("Alpha")))
    (tmp_path / "coins.json").write_text(json.dumps([{"outpoint": str(_outpoint(1)), "satoshis": 50_000}]))
    done = a2b_here(
        "inscribe", "card.json", "--app", "test", "--coins", "coins.json", "--key-file", "key", "--broadcast", "--out",
        "tx.json", cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, "give --node URL or --arc URL" in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "tx.json").exists()


def test_a_process_with_the_number_of_a_killed_one_leaves_its_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    durable_files.put(file, b"one", replace=False)
    os.link(file, tmp_path / f".out.json.{os.getpid()}")  # killed before it was removed: the same file by two names
    with pytest.raises(FileExistsError) as refused:
        durable_files.put(file, b"two", replace=False)
    assert file.read_bytes() == b"one"
    assert refused.value.filename == str(file)


def test_only_outputs_of_the_signing_key_are_change() -> None:
    from overlay.publish.transactions import fund, sign
    from parsers.bitcoin.tx import TxOutput

    outputs = [TxOutput(1, KEY.script), TxOutput(900, OTHER.script)]
    draft = sign(fund(outputs, [Coin(_outpoint(1), 90_000)], KEY.script), KEY)
    [change] = change_of(draft.tx)
    assert (change.outpoint.vout, change.satoshis) == (2, 90_000 - 901 - draft.fee)


def test_following_ends_when_nothing_more_is_to_come() -> None:
    def trace(where: str, *steps: dict[str, Any], **members: Any) -> dict[str, Any]:
        return {"where": where, "steps": steps, "records": [], "listed": [], **members}

    seen, waits = {"step": "seen", "ok": True}, {"step": "mined", "ok": False}
    assert [tone(step) for step in (seen, waits, {"step": "card", "ok": False})] == ["good", "open", "bad"]
    assert not is_settled(trace("nowhere", {"step": "seen", "ok": False}))
    assert is_settled(trace("nowhere", {"step": "requested", "ok": False, "code": "given-up"}))
    assert not is_settled(trace("mempool", seen, waits))
    assert is_settled(trace("mempool", seen, waits, {"step": "json", "ok": False}))
    assert not is_settled(trace("block", seen))  # a source has it in a block that is not indexed yet
    assert is_settled(trace("block", seen, height=3))
    assert not is_settled(trace("block", seen, {"step": "fetched", "ok": False}, height=3))
    assert is_settled(trace("block", seen, {"step": "fetched", "ok": False, "code": "fetch-dns"}, height=3))


def test_a_file_of_hex_and_one_of_out_are_raw_transactions(tmp_path: Path) -> None:
    file = tmp_path / "raw"
    for text in ("00ff", " 00ff\n", '{"txid": "…", "rawTx": "00ff", "extended": "00"}'):
        file.write_text(text)
        assert diagnose.raw_bytes(f"@{file}") == b"\x00\xff"
    for text in ('{"rawTx": 5}', "{}", "{"):
        file.write_text(text)
        with pytest.raises(diagnose.UsageError):
            diagnose.raw_bytes(f"@{file}")
