"""Unsigned registrations: a file that a wallet signs, and that `a2b sign` signs."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Sequence
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
from overlay.publish import scripts
from overlay.publish.coins import Coin, CoinsError, from_node
from overlay.publish.keys import PublisherKey
from overlay.publish.registration_output import RegistrationError, RegistrationOutput
from overlay.publish.transactions import Draft, sign
from overlay.publish.wallet_file import (
    digest_to_sign,
    draft_json,
    read_draft,
    unsigned_change,
    unsigned_registration,
)
from parsers.bitcoin.beef import Beef, BeefTransaction
from parsers.bitcoin.script import pushes
from parsers.bitcoin.sighash import forkid_digest
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, read, serialise
from parsers.cards import Kind
from parsers.cards.rate_table import RateTable
from parsers.inscriptions import output_record
from parsers.pointers import pointer
from tests.chainkit import agent
from tests.conftest import missing
from tests.litecoind import Litecoind, binary
from tests.running import a2b_here

KEY = PublisherKey(sha256(b"who registers through the page").digest(), "testnet")
WIF = base58.b58encode_check(b"\xef" + KEY.private + b"\x01").decode()
STRANGER = PublisherKey(sha256(b"a stranger").digest(), "testnet")
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
        (lambda file: file["inputs"][0].update(satoshis=2**64), "have no satoshis"),
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
    (tmp_path / "key").write_text(WIF)
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "a2b-data").mkdir()
    rates = RateTable(
        base="BSV", rates={"BSV": Decimal(1), "USD": Decimal(50)}, source="https://rates.example",
        quoted_at=int(time()),
        until=int(time()) + 3600,
    )  # fmt: skip
    engine = connect(Settings.load({"data": str(tmp_path / "a2b-data")}).database)
    Quotes(engine).store([Quote(feed="f!alone", rank=0, since=0, table=rates)])
    engine.dispose()
    done = a2b_here("sign", "unsigned.json", "--key-file", "key", "--out", "signed.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    saved = json.loads((tmp_path / "signed.json").read_text())
    assert saved["txid"] == read(bytes.fromhex(saved["rawTx"])).hex_id
    fee = unsigned()["fee"]
    assert f"output 0: 1 satoshis to {KEY.address}\n" in done.stdout
    assert "Tide tables" in done.stdout
    assert f"costs {fee} satoshis of fee, about 0.0000{fee * 5} USD\n" in done.stdout
    done = a2b_here(
        "sign", "unsigned.json", "--key-file", "key", "--out", "sent.json", "--broadcast",
        "--node", "http://a:b@127.0.0.1:1", cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, "\nsent\n" in done.stdout) == (3, False), done.stderr
    for line in (f"it registers the agent “Tide tables” for {KEY.address}\n", f"costs {fee} satoshis of fee"):
        assert line in done.stdout  # before it is sent
    other = a2b_here("sign", "unsigned.json", cwd=tmp_path, A2B_KEY="11" * 32)
    assert (other.returncode, " belongs to 1" in other.stderr) == (1, True)


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
        done = a2b_here("sign", name, "--json", cwd=tmp_path, A2B_KEY=WIF)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert (answer["listing"], answer["purpose"], answer["sent"]) == (listing, "", False)
        assert f"not looked up: what {listing} is, and whether {listing} holds it (--url does)" in done.stderr
        assert f"the satoshi of input 0 goes to {KEY.address}\n" in done.stderr
        assert (answer["preview"] or {}).get("name") == ("Tide tables" if name == "update" else None)
    done = a2b_here(
        "sign", "transfer", "--broadcast", "--out", "signed", "--node", "http://a:b@127.0.0.1:1", cwd=tmp_path,
        A2B_KEY=WIF,
    )  # fmt: skip
    why = "no listing has the id" if is_database else "there is no database"
    assert (done.returncode, why in done.stderr) == (1 if is_database else 3, True), done.stderr
    assert not (tmp_path / "signed").exists()


def sign_file(folder: Path, draft: Draft, listing: str = "") -> tuple[int, dict[str, Any], str]:
    """The exit code, answer and standard error of `a2b sign` for a file of this draft."""
    (folder / "unsigned.json").write_text(json.dumps(draft_json(draft) | {"listing": listing}))
    done = a2b_here("sign", "unsigned.json", "--json", cwd=folder, A2B_KEY=WIF)
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def drafted(coins: Sequence[Coin], *outputs: tuple[int, bytes]) -> Draft:
    """A transaction of these coins of the key, and outputs."""
    tx = serialise([TxInput(coin.outpoint, b"", 0) for coin in coins], [TxOutput(*output) for output in outputs])
    return Draft.of(read(tx), coins, KEY.script)


ONE = Coin(Outpoint(b"\x07" * 32, 3), 1)


@pytest.mark.parametrize(
    ("output", "location"),
    [
        ((1, STRANGER.script), STRANGER.address),
        ((1, b"\x51"), "a script without an address"),
        ((9_000, STRANGER.script), f"{STRANGER.address}, in an output of 9,000, which delists a listing"),
        ((0, b"\x51"), "the fee, which delists a listing"),
    ],
)
def test_of_a_change_that_is_not_looked_up_it_is_shown_where_the_satoshi_goes(
    tmp_path: Path, output: tuple[int, bytes], location: str
) -> None:
    code, answer, remark = sign_file(tmp_path, drafted([ONE, *COINS], output), f"{'ff' * 32}_0")
    assert (code, answer["purpose"]) == (0, ""), remark
    assert f"the satoshi of input 0 goes to {location}\n" in remark


@pytest.mark.parametrize("coins", [[Coin(Outpoint(b"\x09" * 32, 0), 0), ONE, *COINS], [*COINS, ONE], [ONE, ONE], COINS])
def test_a_change_that_does_not_spend_its_satoshi_first_is_not_signed(tmp_path: Path, coins: list[Coin]) -> None:
    """No signature of the key commits to the value of an input before it, which is of somebody else, so the file could
    hide where the satoshi goes."""
    code, _, why = sign_file(tmp_path, drafted(coins, (1, KEY.script), (1, STRANGER.script)), str(ONE.outpoint))
    assert (code, "by input 0 and no other output" in why) == (1, True), why


NOTE = KEY.script + b"\x00\x63" + pushes(b"ord", b"\x01", b"text/plain", b"", b"hello") + b"\x68"


@pytest.mark.parametrize("first", [(1, NOTE), (2_000, KEY.script), (0, NOTE)])
def test_a_registration_in_another_output_than_the_first_is_named_and_checked(
    tmp_path: Path, first: tuple[int, bytes]
) -> None:
    [script] = unsigned_outputs()
    code, answer, why = sign_file(tmp_path, drafted(COINS, first, (1, script), (4_000, KEY.script)))
    assert code == 0, why
    assert answer["purpose"] == f"registers the agent “Tide tables” for {KEY.address}"
    assert answer["listing"] == answer["outpoint"] == f"{answer['txid']}_1"
    assert answer["preview"]["name"] == "Tide tables"
    assert answer["warnings"]


def test_a_card_that_registers_nothing_is_checked_and_names_no_listing(tmp_path: Path) -> None:
    script = scripts.inscription(KEY.script, b'{"name": 7}', Kind.AGENT, "test")
    (tmp_path / "file").write_text(json.dumps(draft_json(drafted(COINS, (1, script), (4_000, KEY.script)))))
    done = a2b_here("sign", "file", cwd=tmp_path, A2B_KEY=WIF)
    assert (done.returncode, "error: " in done.stdout, "it registers" in done.stdout) == (0, True, False), done


def unsigned_outputs() -> list[bytes]:
    """The script of an update."""
    created = unsigned_registration(CARD, Kind.AGENT, "test", KEY.address, [])
    return [output.script for output in created.outputs]


def test_a_nodes_wallet_funds_and_signs_a_pointer(tmp_path: Path) -> None:
    if binary() is None:
        missing("litecoind")
    (tmp_path / "card.json").write_bytes(CARD)
    done = a2b_here("point", "tides.example", "card.json", "--coin", "ltc", "--json", cwd=tmp_path)
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
        assert (spent["outpoint"], bare["createAction"]["inputBEEF"]) == (f"{'07' * 32}.3", [1, 2])
        assert [output["satoshis"] for output in bare["createAction"]["outputs"]] == [1] * len(outputs)
        draft = sign(read_draft(unsigned_change(held, outputs, COINS, listing="l_0").as_json()), KEY)
        assert draft.tx.inputs[0].prevout == held.coin.outpoint
        assert [output.satoshis == 1 for output in draft.tx.outputs] == [True] * len(outputs) + [False]
    stranger = RegistrationOutput(
        Coin(Outpoint(b"\x07" * 32, 3), 1, b"\x51"), "l_0", Kind.AGENT, "test", "", "Tide tables"
    )
    with pytest.raises(RegistrationError, match="not held by a P2PKH address"):
        unsigned_change(stranger, [], COINS, listing="l_0")


def test_what_registers_nothing_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(WIF)
    (tmp_path / "key").chmod(0o600)
    document = unsigned()
    script = scripts.inscription(KEY.script, CARD, Kind.AGENT, "test").replace(b"a2b-agent", b"A2B-agent")
    tx = read(bytes.fromhex(document["rawTx"]))
    outputs = (TxOutput(1, script), *tx.outputs[1:])
    (tmp_path / "unsigned.json").write_text(json.dumps(document | {"rawTx": serialise(tx.inputs, outputs).hex()}))
    command = ("sign", "unsigned.json", "--key-file", "key", "--out", "sent.json")
    done = a2b_here(*command, "--broadcast", "--node", "http://a:b@127.0.0.1:1", cwd=tmp_path)
    assert (done.returncode, "registers nothing, and is not sent: " in done.stderr) == (1, True), done.stderr
    assert "a2b-agent" in done.stderr
    assert not (tmp_path / "sent.json").exists()
    assert a2b_here(*command, cwd=tmp_path).returncode == 0, "it is shown"


def test_a_wallet_signs_only_what_was_prepared() -> None:
    held = RegistrationOutput(
        Coin(Outpoint(b"\x07" * 32, 3), 1, KEY.script), "l_0", Kind.AGENT, "test", KEY.address, "X"
    )

    def whole(draft: Draft) -> str:
        """The transaction of a wallet as BEEF."""
        return Beef(2, (), (BeefTransaction(draft.tx.txid, draft.raw, draft.tx),)).to_bytes().hex()

    moved, merged = (unsigned_change(held, outputs, COINS, listing="l_0") for outputs in ([STRANGER.script], []))
    other = unsigned_change(held._replace(coin=Coin(Outpoint(b"\x08" * 32, 3), 1, KEY.script)), [], COINS, listing="x")
    for built in (moved, merged):
        assert built.draft is not None
        digest = digest_to_sign(built, whole(built.draft))
        assert digest == forkid_digest(built.draft.tx, 0, KEY.script, 1)
    assert moved.draft is not None
    assert merged.draft is not None
    assert other.draft is not None
    for built, draft, why in (
        (moved, merged.draft, "begin with the outputs"), (merged, moved.draft, "does not merge"),
        (merged, other.draft, "does not spend the listing by input 0"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            digest_to_sign(built, whole(draft))
    with pytest.raises(ValueError, match="cannot be read"):
        digest_to_sign(moved, "0100")
