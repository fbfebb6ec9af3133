"""Keys, coins, fees and scripts of a publisher's transactions, and what is refused."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import base58
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from indexer.errors import RefusedTransactionError, SourceError
from overlay.api import identity_key
from overlay.api.identity_key import IdentityKeyError
from overlay.commands import signing_keys
from overlay.publish import broadcast, coins, keys, scripts, transactions
from overlay.publish.coins import Coin, CoinsError
from overlay.publish.keys import PublisherKey
from parsers.bitcoin import beef
from parsers.bitcoin.tx import Outpoint, Transaction, TxOutput, read
from parsers.cards import Kind
from parsers.cards.deprecation import Deprecation, from_map, states_status
from parsers.inscriptions import output_record
from parsers.pointers import pointer
from tests.running import a2b

SECRET = sha256(b"a publisher").digest()
KEY = PublisherKey(SECRET, "testnet")


def coin(number: int, satoshis: int, script: bytes | None = None) -> Coin:
    return Coin(Outpoint(bytes((number,)) * 32, number), satoshis, script)


def wif(version: int = 0xEF, tail: bytes = b"\x01", secret: bytes = SECRET) -> str:
    return str(base58.b58encode_check(bytes((version,)) + secret + tail), "ascii")


# -- keys


@pytest.mark.parametrize(("text", "network"), [(wif(), "testnet"), (wif(0x80), "mainnet"), (SECRET.hex(), "mainnet")])
def test_keys_are_read_from_a_file_and_from_the_environment(
    text: str, network: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text(f"{text}\n")
    (tmp_path / "key").chmod(0o600)
    monkeypatch.setenv(keys.VARIABLE, text)
    assert keys.read(tmp_path / "key") == keys.read(None) == PublisherKey(SECRET, network)
    assert keys.read(None).address[0] in ("1" if network == "mainnet" else "mn")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("hunter2", "neither WIF nor 64 hex digits"), (wif(tail=b""), "uncompressed"), (wif(0x81), "not a private key"),
        ("ff" * 32, "out of range"), ("zz" * 32, "not hex"), (wif(secret=b"\xff" * 32), "out of range"), ("é", "text"),
    ],
)  # fmt: skip
def test_other_keys_are_refused_without_being_shown(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    with pytest.raises(keys.PrivateKeyError, match=why) as refused:
        keys.read(file)
    assert text not in str(refused.value)
    assert SECRET.hex() not in repr(PublisherKey(SECRET, "testnet"))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_key_file_that_others_may_use_is_refused_with_the_remedy(mode: int, tmp_path: Path) -> None:
    """Whoever reads it: publishing, signing of documents, and the server."""
    file = tmp_path / "my key.json"
    file.write_text(json.dumps({"ed25519": "11" * 32, "secp256k1": "22" * 32}))
    file.chmod(mode)
    remedy = f"its mode {mode:03o} lets other users read or write it: chmod 600 '{file}'"
    readers: list[tuple[type[Exception], Callable[[Path], object]]] = [
        (keys.PrivateKeyError, keys.read), (keys.PrivateKeyError, signing_keys.read_key),
        (IdentityKeyError, identity_key.read),
    ]  # fmt: skip
    for error, read_file in readers:
        with pytest.raises(error, match=re.escape(remedy)):
            read_file(file)
    file.chmod(0o600)
    assert signing_keys.read_key(file).hex() == "11" * 32
    assert identity_key.read(file).secp256k1.hex() == "22" * 32


def test_a_key_may_come_through_a_pipe() -> None:
    reading, writing = os.pipe()
    os.write(writing, SECRET.hex().encode())
    os.close(writing)
    os.fchmod(reading, 0o644)
    assert keys.read(Path(f"/dev/fd/{reading}")).private == SECRET
    os.close(reading)


def test_no_key_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(keys.VARIABLE, raising=False)
    with pytest.raises(keys.PrivateKeyError, match="A2B_KEY"):
        keys.read(None)


# -- coins


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({}, "not a list"), ([1], "coin 1 of .* is not an object"),
        ([{"txid": "00", "vout": 0, "satoshis": 1}], "outpoint"),
        ([{"outpoint": f"{'00' * 32}_0", "satoshis": "5"}], "satoshis is '5'"),
        ([{"outpoint": f"{'00' * 32}_0", "satoshis": -1}], "satoshis is '-1'"),
        ([{"outpoint": f"{'00' * 32}_0", "satoshis": 1.5}], "satoshis is '1.5'"),
        ([{"outpoint": f"{'00' * 32}_0", "satoshis": 1, "beef": "x"}], "beef is not hex"),
    ],
)  # fmt: skip
def test_bad_coins_are_named(value: object, why: str, tmp_path: Path) -> None:
    file = tmp_path / "coins.json"
    file.write_text(json.dumps(value))
    with pytest.raises(CoinsError, match=why):
        coins.from_file(file)


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "coins").write_text("[" * 100_000)
    with pytest.raises(CoinsError, match="is not JSON"):
        coins.from_file(tmp_path / "coins")
    with pytest.raises(CoinsError, match="cannot be read"):
        coins.from_file(tmp_path / "absent")


# -- transactions

_amounts = st.lists(st.integers(0, 3_000), max_size=12)


@given(_amounts, st.integers(1, 400), st.integers(0, 3_000), st.booleans(), st.booleans())
def test_funding_pays_the_fee_and_leaves_the_registration_first(
    amounts: list[int], rate: int, size: int, updates: bool, merge: bool
) -> None:
    available = [coin(number, satoshis) for number, satoshis in enumerate(amounts, 1)]
    first = coin(99, 1, KEY.script + b"\x6a") if updates or merge else None
    outputs = [] if merge else [TxOutput(1, KEY.script + bytes(size))]
    try:
        draft = transactions.sign(
            transactions.fund(outputs, available, KEY.script, fee_rate=rate, first=first, merge=merge), KEY
        )
    except CoinsError:
        useful = sum(satoshis - 149 * rate / 1_000 for satoshis in amounts if satoshis > 1)
        assert useful < (size + 200) * rate / 1_000 + 4 + (149 * rate / 1_000 if first else 0) + len(amounts)
        return
    tx = read(draft.raw)
    assert sum(coin.satoshis for coin in draft.coins) == sum(output.satoshis for output in tx.outputs) + draft.fee
    assert draft.fee >= tx.size * rate / 1_000
    assert tx.outputs[: len(outputs)] == tuple(outputs)
    assert all(output == TxOutput(output.satoshis, KEY.script) for output in tx.outputs[len(outputs) :])
    assert all(output.satoshis > 1 for output in tx.outputs[len(outputs) :])
    spent = [tx_input.prevout for tx_input in tx.inputs]
    assert len(set(spent)) == len(spent)
    assert not {coin.outpoint for coin in available if coin.satoshis == 1} & set(spent)
    if first is not None:
        assert spent[0] == first.outpoint


def test_a_coin_of_another_key_is_refused() -> None:
    other = PublisherKey(sha256(b"other").digest(), "testnet")
    draft = transactions.fund([], [coin(1, 9_000)], other.script, first=coin(2, 1), merge=True)
    with pytest.raises(CoinsError, match=r"belongs to .*, not to "):
        transactions.sign(draft, KEY)


def test_beef_is_joined_from_that_of_the_coins() -> None:
    parent = transactions.sign(transactions.fund([], [coin(1, 9_000)], KEY.script, merge=True), KEY)
    paid = Coin(parent.tx.outpoint(0), parent.tx.outputs[0].satoshis, None, beef.write([(parent.raw, None)]))
    child = transactions.sign(transactions.fund([], [paid], KEY.script, merge=True), KEY)
    created = transactions.beef_of(child)
    assert created is not None
    assert [member.txid for member in beef.read(created).members] == [parent.tx.txid, child.tx.txid]
    assert transactions.beef_of(parent) is None


def test_an_invalid_beef_of_a_coin_is_refused_with_its_outpoint() -> None:
    stranger = transactions.sign(transactions.fund([], [coin(2, 9_000)], KEY.script, merge=True), KEY)
    for data, why in ((b"no beef", "cannot be read"), (beef.write([(stranger.raw, None)]), "does not contain")):
        paying = coin(1, 9_000)._replace(beef=data)
        signed = transactions.sign(transactions.fund([], [paying], KEY.script, merge=True), KEY)
        with pytest.raises(CoinsError, match=f"the BEEF of .* {why}"):
            transactions.beef_of(signed)


# -- scripts


@given(st.binary(max_size=400), st.sampled_from(Kind), st.text(min_size=1, max_size=40))
def test_inscriptions_are_read_back(card: bytes, kind: Kind, app: str) -> None:
    try:
        script = scripts.inscription(KEY.script, card, kind, app)
    except ValueError:
        return
    draft = transactions.fund([TxOutput(1, script)], [coin(1, 10**6)], KEY.script)
    record = output_record.read(draft.tx, 0)
    assert record.inscription is not None
    assert (record.inscription.body, record.kind, record.fields["app"]) == (card, kind, app)


@pytest.mark.parametrize("app", ["", " ", "|", "a\x00b"])
def test_an_app_that_map_cannot_hold_is_refused(app: str) -> None:
    with pytest.raises(ValueError, match="app"):
        scripts.metadata(KEY.script, Kind.AGENT, app)


@given(st.sampled_from(Kind), st.text(max_size=40), st.none() | st.builds(Deprecation, st.text(), st.text()))
def test_notices_are_read_back(kind: Kind, app: str, deprecation: Deprecation | None) -> None:
    try:
        script = scripts.notice(KEY.script, kind, app, deprecation)
    except ValueError:
        return
    record = output_record.read(transactions.fund([TxOutput(1, script)], [coin(1, 10**6)], KEY.script).tx, 0)
    assert (record.inscription, record.kind, record.fields.get("app", "")) == (None, kind, app)
    assert states_status(record.fields)
    assert from_map(record.fields) == deprecation


_domains = st.integers(1, 200).map(lambda size: ".".join("abcdefghij" * (size // 11 + 1))[: 2 * size] + "x.example")


@given(_domains, st.sampled_from(["bsv", "btc", "bch", "ltc", "doge"]))
def test_pointers_are_read_back(domain: str, coin_name: str) -> None:
    try:
        created = scripts.pointers(domain, b"{}", coin_name)
    except ValueError:
        return
    pointed = pointer.read(created[0]) if len(created) == 1 else (pointer.read_split(created) or (0, None))[1]
    assert pointed is not None
    assert (pointed.domain, pointed.digest) == (domain, sha256(b"{}").digest())
    if coin_name == "doge":
        assert all(len(script) <= scripts.RELAYED_BYTES for script in created)


# -- sending


async def answering(status: int, answer: Any, *later: tuple[int, Any]) -> TestServer:
    """An ARC that answers a transaction, and then each question about it, the last one again and again."""

    async def tx(request: web.Request) -> web.Response:
        assert (await request.json())["rawTx"] == "ef"
        return web.json_response(answer, status=status)

    answers = list(later)

    async def state(_: web.Request) -> web.Response:
        status, answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return web.json_response(answer, status=status)

    app = web.Application()
    app.router.add_post("/v1/tx", tx)
    app.router.add_get("/v1/tx/ab", state)
    server = TestServer(app)
    await server.start_server()
    return server


def arc(status: str) -> dict[str, str]:
    return {"txid": "ab", "txStatus": status}


@pytest.mark.parametrize("status", ["SEEN_ON_NETWORK", "MINED", "ACCEPTED_BY_NETWORK"])
async def test_arc_accepts(status: str) -> None:
    server = await answering(200, arc(status))
    assert await broadcast.to_arc(str(server.make_url("")), b"\xef", "ab") == "ab"
    await server.close()


async def test_arc_is_waited_for_until_the_network_has_the_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "PAUSE", 0.001)
    later = [(404, {}), (200, arc("ANNOUNCED_TO_NETWORK")), (200, arc("SEEN_ON_NETWORK"))]
    server = await answering(200, arc("STORED"), *later)
    assert await broadcast.to_arc(str(server.make_url("")), b"\xef", "ab") == "ab"
    await server.close()


async def test_what_arc_only_holds_is_not_called_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "PAUSE", 0.001)
    monkeypatch.setattr(broadcast, "SECONDS", 2.0)
    server = await answering(200, arc("STORED"), (200, arc("STORED")))
    with pytest.raises(
        SourceError, match=r"has transaction ab as STORED 2 seconds after it took it.* send it again later"
    ):
        await broadcast.to_arc(str(server.make_url("")), b"\xef", "ab")
    await server.close()


@pytest.mark.parametrize("whole", [0.25, 5.0])
async def test_the_wait_for_arc_is_bounded_by_time_however_slowly_it_answers(
    whole: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look takes a large part of the wait, or does not end within it."""
    monkeypatch.setattr(broadcast, "PAUSE", 0.001)
    monkeypatch.setattr(broadcast, "SECONDS", 1.0)
    looks: list[str] = []

    async def tx(request: web.Request) -> web.Response:
        if request.method == "GET":
            looks.append(request.path)
            await asyncio.sleep(whole)
        return web.json_response(arc("STORED"))

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", tx)
    async with TestServer(app) as server:
        with pytest.raises(SourceError, match=r"as STORED 1 seconds after it took it.* send it again later"):
            await broadcast.to_arc(str(server.make_url("")), b"\xef", "ab")
    assert 1 <= len(looks) <= 4


@pytest.mark.parametrize(
    ("status", "answer", "later"),
    [
        (465, {"title": "Fee too low", "txid": "ab"}, []), (200, arc("REJECTED"), []),
        (200, {"txid": "cd", "txStatus": "MINED"}, []), (200, {}, []),
        (200, arc("SEEN_IN_ORPHAN_MEMPOOL"), []),  # its parents are unknown
        (200, arc("STORED"), [(200, arc("REJECTED"))]),
        (200, arc("RECEIVED"), [(200, arc("SENT_TO_NETWORK")), (200, arc("DOUBLE_SPEND_ATTEMPTED"))]),
    ],
)  # fmt: skip
async def test_arc_refuses(
    status: int, answer: dict[str, str], later: list[tuple[int, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcast, "PAUSE", 0.001)
    server = await answering(status, answer, *later)
    with pytest.raises(RefusedTransactionError, match=f"refuses the transaction .{status}."):
        await broadcast.to_arc(str(server.make_url("")), b"\xef", "ab")
    await server.close()


async def test_other_answers_are_no_refusal() -> None:
    server = await answering(200, [])
    with pytest.raises(SourceError, match="not with a JSON object"):
        await broadcast.to_arc(str(server.make_url("")), b"\xef", "ab")
    await server.close()
    with pytest.raises(SourceError):
        await broadcast.to_arc("http://127.0.0.1:1", b"\xef", "ab")


# -- the command line


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("inscribe",), 2, "needs FILE and --app"), (("inscribe", "card.json"), 2, "--app"),
        (("inscribe", "card.json", "--app", "x"), 2, "--coins FILE"),
        (("inscribe", "card.json", "--app", "x", "--coins", "none.json"), 1, "none.json"),
        (("inscribe", "card.json", "--app", "x", "--coins", "dust.json"), 1, f"pay some satoshis to {KEY.address}"),
        (("inscribe", "card.json", "--app", "x", "--coins", "coins.json", "--broadcast"), 2, "--out FILE"),
        (("inscribe", "card.json", "--app", "x", "--coins", "coins.json", "--fee-rate", "0"), 2, "--fee-rate"),
        (("inscribe", "card.json", "--app", "x", "--coins", "coins.json", "--fee-rate", "10001"), 2, "--yes takes it"),
        (("inscribe", "card.json", "--app", "x", "--coins", "coins.json", "--fee-rate", "10001", "--yes"), 0, ""),
        (("inscribe", "card.json", "--app", "x", "--coins", "coins.json", "--broadcast", "--out", "o"), 2, "--node"),
        (("inscribe", "bad.json", "--app", "x", "--coins", "coins.json"), 1, ""),
        (("transfer", f"{'00' * 32}_0", "nobody"), 2, "P2PKH"), (("point", "no domain"), 2, "domain"),
        (("broadcast", "card.json", "--node", "http://127.0.0.1:1"), 2, "as --out saves it"),
    ],
)  # fmt: skip
def test_mistakes_are_named(arguments: tuple[str, ...], code: int, why: str, tmp_path: Path) -> None:
    card = {"name": "Alpha", "url": "https://a.example", "skills": [{"id": "s", "name": "s"}]}
    (tmp_path / "card.json").write_text(json.dumps(card))
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "dust.json").write_text(json.dumps([{"txid": "11" * 32, "vout": 0, "satoshis": 1}]))
    (tmp_path / "coins.json").write_text(json.dumps([{"txid": "11" * 32, "vout": 0, "satoshis": 90_000}]))
    done = a2b(*arguments, cwd=tmp_path, A2B_KEY=wif())
    assert (done.returncode, why in done.stderr) == (code, True), done.stderr
    assert not (tmp_path / "o").exists() or "rawTx" in (tmp_path / "o").read_text()
    assert SECRET.hex() not in done.stdout + done.stderr


async def test_an_announcement_that_fails_hides_not_what_was_sent(tmp_path: Path) -> None:
    (tmp_path / "coins.json").write_text(json.dumps([{"txid": "11" * 32, "vout": 0, "satoshis": 90_000}]))
    sent: list[str] = []

    async def tx(request: web.Request) -> web.Response:
        raw = read_extended((await request.json())["rawTx"])
        sent.append(raw.hex_id)
        return web.json_response({"txid": raw.hex_id, "txStatus": "SEEN_ON_NETWORK"})

    app = web.Application()
    app.router.add_post("/v1/tx", tx)
    async with TestServer(app) as server:
        command = ("point", "a.example", "--coins", "coins.json", "--arc", str(server.make_url("")), "--broadcast",
                   "--out", "sent.json", "--url", "http://127.0.0.1:1")  # fmt: skip
        done = await asyncio.to_thread(a2b, *command, cwd=tmp_path, A2B_KEY=wif())
        assert done.returncode == 3, done.stderr
        assert f"transaction {sent[0]}" in done.stdout
        assert "\nsent\n" in done.stdout
        again = await asyncio.to_thread(a2b, *command, cwd=tmp_path, A2B_KEY=wif())
    assert (again.returncode != 0, len(sent)) == (True, 1)  # never over what was sent
    assert sorted(os.listdir(tmp_path)) == ["coins.json", "sent.json"]  # noqa: PTH208


async def test_the_loser_of_a_coin_keeps_its_other_coins(tmp_path: Path) -> None:
    """Two processes spent the same coin; ARC takes both transactions and learns later that one is refused."""
    entries = [{"txid": "11" * 32, "vout": 0, "satoshis": 300}, {"txid": "22" * 32, "vout": 0, "satoshis": 290}]
    (tmp_path / "coins.json").write_text(json.dumps(entries))
    txids: list[str] = []

    async def tx(request: web.Request) -> web.Response:
        text = (await request.json())["rawTx"] if request.method == "POST" else ""
        txids.append(json.loads((tmp_path / "sent.json").read_text())["txid"])
        return web.json_response({"txid": txids[-1], "txStatus": "STORED" if text else "REJECTED"})

    app = web.Application()
    app.router.add_post("/v1/tx", tx)
    app.router.add_get("/v1/tx/{txid}", tx)
    async with TestServer(app) as server:
        command = ("point", "a.example", "--coins", "coins.json", "--arc", str(server.make_url("")), "--broadcast",
                   "--out", "sent.json", "--fee-rate", "1700")  # fmt: skip
        done = await asyncio.to_thread(a2b, *command, cwd=tmp_path, A2B_KEY=wif())
    assert (done.returncode, "ARC refuses the transaction" in done.stderr) == (1, True), done.stderr
    assert len(read(bytes.fromhex(json.loads((tmp_path / "sent.json").read_text())["rawTx"])).inputs) == 2
    assert json.loads((tmp_path / "coins.json").read_text()) == entries


def read_extended(text: str) -> Transaction:
    """The transaction in an extended one (BRC-30) of a single input, by its size before the spent output."""
    raw = bytes.fromhex(text)
    assert raw[4:10] == bytes(5) + b"\xef"
    start = 11 + 36
    end = start + 1 + raw[start] + 4
    return read(raw[:4] + raw[10:end] + raw[end + 8 + 1 + raw[end + 8] :])


def test_pointers_of_other_coins_are_shown_as_scripts(tmp_path: Path) -> None:
    done = a2b("point", "a.example", "--coin", "ltc", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [output] = json.loads(done.stdout)["outputs"]
    assert output["satoshis"] == 0
    assert pointer.read(bytes.fromhex(output["script"])) is not None
