"""Unsigned registrations: a file that a wallet signs, and that `a2b sign` signs."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from time import time
from typing import Any

import base58
import pytest

from indexer.settings import Settings
from indexer.store import connect
from indexer.store.rates import Quote, Quotes
from overlay.publish.coins import Coin, CoinsError, from_node
from overlay.publish.keys import PublisherKey
from overlay.publish.registration_output import RegistrationError, RegistrationOutput
from overlay.publish.transactions import sign
from overlay.publish.wallet_file import read_draft, unsigned_change, unsigned_registration
from parsers.bitcoin.tx import Outpoint, read
from parsers.cards import Kind
from parsers.cards.rate_table import RateTable
from parsers.inscriptions import output_record
from parsers.pointers import pointer
from tests.chainkit import agent
from tests.conftest import missing
from tests.litecoind import Litecoind, binary
from tests.running import a2b

KEY = PublisherKey(sha256(b"who registers through the page").digest(), "testnet")
CARD = json.dumps(agent("Tide tables")).encode()
COINS = [Coin(Outpoint(bytes((number,)) * 32, number), 10_000 * number) for number in (1, 2)]


def unsigned() -> dict[str, Any]:
    created = unsigned_registration(CARD, Kind.AGENT, "test", KEY.address, COINS)
    file: dict[str, Any] = json.loads(json.dumps(created.as_json()))
    return file


def test_the_file_holds_what_a_signer_needs_and_no_signature() -> None:
    file = unsigned()
    draft = read_draft(file)
    assert all(tx_input.script == b"" for tx_input in draft.tx.inputs)
    assert draft.fee == file["fee"]
    assert (draft.raw.hex(), draft.extended.hex()) == (file["rawTx"], file["extended"])
    [output] = file["createAction"]["outputs"]
    assert (output["satoshis"], output["lockingScript"]) == (1, draft.tx.outputs[0].script.hex())
    signed = sign(draft, KEY)
    assert signed.tx.outputs == draft.tx.outputs
    record = output_record.read(signed.tx, 0)
    assert record.inscription is not None
    assert record.inscription.body == CARD
    assert record.fields == {"app": "test", "type": "a2b-agent"}


def test_the_signed_file_passes_an_independent_interpreter() -> None:
    bitcoinx = pytest.importorskip("bitcoinx", reason="bitcoinX has no wheel for this Python")
    bitcoinx.Tx.from_hex_extended(sign(read_draft(unsigned()), KEY).extended.hex()).verify_inputs()


def test_without_coins_the_output_and_its_cost_are_known() -> None:
    created = unsigned_registration(CARD, Kind.AGENT, "test", KEY.address, [])
    assert created.draft is None
    assert created.as_json().keys() == {"fee", "createAction"}
    one = unsigned_registration(CARD, Kind.AGENT, "test", KEY.address, COINS[:1])
    assert created.fee == one.fee


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda file: file.pop("rawTx"), "holds no unsigned transaction"),
        (lambda file: file.update(rawTx="00"), "holds no unsigned transaction"),
        (lambda file: file.update(inputs=7), "holds no unsigned transaction"),
        (lambda file: file["inputs"].reverse() or file["inputs"].append({}), "holds no unsigned transaction"),
        (lambda file: file["inputs"].clear(), "are not those of its transaction"),
        (lambda file: file["inputs"][0].update(outpoint=f"{'00' * 32}_0"), "are not those of its transaction"),
        (lambda file: file["inputs"][0].update(satoshis="1"), "have no satoshis"),
        (lambda file: file["inputs"][0].update(satoshis=1), "satoshis more than the inputs"),
    ],
)
def test_another_file_is_refused(change: Callable[[Any], object], why: str) -> None:
    file = copy.deepcopy(unsigned())
    change(file)
    with pytest.raises(CoinsError, match=why):
        read_draft(file)


@pytest.mark.parametrize(("owner", "app"), [("nobody", "test"), ("", "test"), (KEY.address, " ")])
def test_an_owner_or_app_that_is_none_is_named(owner: str, app: str) -> None:
    with pytest.raises(ValueError, match=r"is not a P2PKH address|app is empty"):
        unsigned_registration(CARD, Kind.AGENT, app, owner, COINS)


def test_the_command_shows_what_it_signs_and_what_that_costs(tmp_path: Path) -> None:
    (tmp_path / "unsigned.json").write_text(json.dumps(unsigned()))
    (tmp_path / "key").write_bytes(base58.b58encode_check(b"\xef" + KEY.private + b"\x01"))
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "a2b-data").mkdir()
    rates = RateTable(
        base="BSV", rates={"BSV": Decimal(1), "USD": Decimal(50)}, source="https://rates.example",
        quoted_at=int(time()),
        until=int(time()) + 3600,
    )  # fmt: skip
    engine = connect(Settings.load({"data": str(tmp_path / "a2b-data")}).database)
    Quotes(engine).store([Quote(feed="f", rank=0, since=0, table=rates)])
    engine.dispose()
    done = a2b("sign", "unsigned.json", "--key-file", "key", "--out", "signed.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    saved = json.loads((tmp_path / "signed.json").read_text())
    assert saved["txid"] == read(bytes.fromhex(saved["rawTx"])).hex_id
    fee = unsigned()["fee"]
    assert f"output 0: 1 satoshis to {KEY.address}\n" in done.stdout
    assert "Tide tables" in done.stdout
    assert f"costs {fee} satoshis of fee, about 0.0000{fee * 5} USD\n" in done.stdout
    done = a2b(
        "sign", "unsigned.json", "--key-file", "key", "--out", "sent.json", "--broadcast",
        "--node", "http://a:b@127.0.0.1:1", cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, "\nsent\n" in done.stdout) == (3, False), done.stderr
    for line in (f"it registers the agent “Tide tables” for {KEY.address}\n", f"costs {fee} satoshis of fee"):
        assert line in done.stdout  # before it is sent
    other = a2b("sign", "unsigned.json", cwd=tmp_path, A2B_KEY="11" * 32)
    assert (other.returncode, "does not pay to" in other.stderr) == (1, True)


@pytest.mark.parametrize("is_database", [False, True])
def test_a_change_of_a_listing_that_is_not_in_a_local_database_is_signed_and_not_sent(
    tmp_path: Path, *, is_database: bool
) -> None:
    """The remark is on standard error: with --json, standard output holds nothing else."""
    held, listing = Coin(Outpoint(b"\x07" * 32, 3), 1, KEY.script), f"{'07' * 32}_3"
    registration = RegistrationOutput(held, listing, Kind.AGENT, "test", KEY.address, "Tide tables")
    for name, outputs in (("transfer", [KEY.script]), ("update", unsigned_outputs())):
        file = unsigned_change(registration, outputs, COINS, listing=listing).as_json()
        (tmp_path / name).write_text(json.dumps(file))
    if is_database:
        (tmp_path / "a2b-data").mkdir()
        connect(Settings.load({"data": str(tmp_path / "a2b-data")}).database).dispose()
    for name in ("transfer", "update"):
        done = a2b("sign", name, "--json", cwd=tmp_path, A2B_KEY=KEY.private.hex())
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert (answer["listing"], answer["purpose"], answer["sent"]) == (listing, "", False)
        assert f"not looked up: what {listing} is, and whether {listing} holds it" in done.stderr
        assert (answer["preview"] or {}).get("name") == ("Tide tables" if name == "update" else None)
    done = a2b(
        "sign", "transfer", "--broadcast", "--out", "signed", "--node", "http://a:b@127.0.0.1:1", cwd=tmp_path,
        A2B_KEY=KEY.private.hex(),
    )  # fmt: skip
    why = "no listing has the id" if is_database else "there is no database"
    assert (done.returncode, why in done.stderr) == (1 if is_database else 3, True), done.stderr
    assert not (tmp_path / "signed").exists()


def unsigned_outputs() -> list[bytes]:
    """The script of an update."""
    created = unsigned_registration(CARD, Kind.AGENT, "test", KEY.address, [])
    return [output.script for output in created.outputs]


def test_a_nodes_wallet_funds_and_signs_a_pointer(tmp_path: Path) -> None:
    if binary() is None:
        missing("litecoind")
    (tmp_path / "card.json").write_bytes(CARD)
    done = a2b("point", "tides.example", "card.json", "--coin", "ltc", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with Litecoind(tmp_path / "node") as node:
        node.fund()
        funded = node.rpc("fundrawtransaction", json.loads(done.stdout)["rawTx"])["hex"]
        txid = node.rpc("sendrawtransaction", node.rpc("signrawtransactionwithwallet", funded)["hex"])
        node.mine()
        mined = read(bytes.fromhex(node.rpc("getrawtransaction", txid)), segwit=True)
    pointed = next(filter(None, (pointer.read(output.script) for output in mined.outputs)))
    assert (pointed.domain, pointed.digest) == ("tides.example", sha256(CARD).digest())


def test_coins_of_an_address_of_another_network_are_refused_with_a_hint(tmp_path: Path) -> None:
    if binary() is None:
        missing("litecoind")
    with Litecoind(tmp_path / "node") as node:
        node.fund()
        with pytest.raises(CoinsError, match="the key may be for another network: WIF names it"):
            asyncio.run(from_node(node.url, PublisherKey(KEY.private, "mainnet").address))


def test_a_change_of_a_listing_spends_its_satoshi_first() -> None:
    held = RegistrationOutput(
        Coin(Outpoint(b"\x07" * 32, 3), 1, KEY.script, b"\x01\x02"),
        "l_0",
        Kind.AGENT,
        "test",
        KEY.address,
        "Tide tables",
    )
    for outputs in ([KEY.script], []):
        bare = unsigned_change(held, outputs, [], listing="l_0").as_json()
        assert (bare["listing"], bare["createAction"]["options"]) == ("l_0", {"randomizeOutputs": False})
        [spent] = bare["createAction"]["inputs"]
        assert (spent["outpoint"], bare["createAction"]["inputBEEF"]) == (f"{'07' * 32}.3", "0102")
        assert [output["satoshis"] for output in bare["createAction"]["outputs"]] == [1] * len(outputs)
        draft = sign(read_draft(unsigned_change(held, outputs, COINS, listing="l_0").as_json()), KEY)
        assert draft.tx.inputs[0].prevout == held.coin.outpoint
        assert [output.satoshis == 1 for output in draft.tx.outputs] == [True] * len(outputs) + [False]
    stranger = RegistrationOutput(
        Coin(Outpoint(b"\x07" * 32, 3), 1, b"\x51"), "l_0", Kind.AGENT, "test", "", "Tide tables"
    )
    with pytest.raises(RegistrationError, match="not held by a P2PKH address"):
        unsigned_change(stranger, [], COINS, listing="l_0")
