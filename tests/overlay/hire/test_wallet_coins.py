"""Coins come into a wallet from a BEEF, from a node, and from a service that lists them: each once, unspent, and none
that a claim spends."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import segno
from aiohttp import web

from indexer.chains import http_client, httpx_session
from indexer.errors import SourceError
from indexer.settings import NOT_SETTINGS
from overlay.client.hire import wallet as wallets
from overlay.client.hire import whatsonchain
from overlay.client.hire.journal import Hire, HireState
from overlay.client.hire.wallet import Wallet, new_wallet
from overlay.client.hire.whatsonchain import WhatsOnChainCoins
from overlay.publish import coins
from overlay.publish.coins import Coin, CoinsError
from parsers.bitcoin import beef
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, read, serialise
from tests.conftest import missing
from tests.litecoind import Litecoind, binary
from tests.running import a2b_here, environment


@pytest.fixture
def held(tmp_path: Path) -> Wallet:
    return new_wallet(tmp_path / "wallet", "testnet")


def outpoint(number: int, vout: int = 0) -> Outpoint:
    return Outpoint(bytes([number]) * 32, vout)


def run(held: Wallet, *arguments: str, **more: str) -> Any:
    """The JSON that a command prints of a wallet, or the exit code and complaint."""
    done = a2b_here("wallet", *arguments, "--wallet", str(held.folder), "--json", cwd=held.folder, **more)
    return json.loads(done.stdout) if done.returncode == 0 else (done.returncode, done.stderr)


# -- from a BEEF


def paying(held: Wallet) -> tuple[str, bytes]:
    """The txid and BEEF of a transaction whose outputs are a coin, one satoshi and the coin of another key."""
    scripts = (held.key.script, held.key.script, b"\x51")
    outputs = tuple(TxOutput(satoshis, script) for satoshis, script in zip((5_000, 1, 3_000), scripts, strict=True))
    raw = serialise((TxInput(outpoint(7), b"", 0xFFFFFFFF),), outputs)
    return read(raw).hex_id, beef.write([(raw, None)])


@pytest.mark.parametrize("is_hex", [True, False])
def test_the_coin_of_a_beef_is_added_once_with_its_value_and_beef(held: Wallet, is_hex: bool) -> None:
    txid, proof = paying(held)
    (held.folder / "beef").write_bytes(f"{proof.hex()}\n".encode() if is_hex else proof)
    answers = [run(held, "add", f"{txid}_0", "--beef", "beef") for _ in range(2)]
    assert [(answer["added"], answer["coins"], answer["satoshis"]) for answer in answers] == [
        (1, 1, 5_000), (0, 1, 5_000),
    ]  # fmt: skip
    assert held.coins() == [Coin(Outpoint(bytes.fromhex(txid)[::-1], 0), 5_000, None, proof)]


@pytest.mark.parametrize(
    ("output", "proof", "code", "sentence"),
    [
        ("{}_1", None, 1, "may carry an inscription"),
        ("{}_2", None, 1, "is not a plain payment to"),
        ("{}_3", None, 1, "the BEEF has no output"),
        (f"{'00' * 32}_0", None, 1, "the BEEF has no output"),
        ("{}_0", b"0102", 1, "the BEEF cannot be read"),
        ("{}_0", b"", 1, "the BEEF cannot be read"),
        ("{}_0", bytes(wallets.MAX_BEEF_BYTES + 1), 2, "more than 1,048,576 bytes"),
        ("abc", None, 2, "is not an outpoint"),
    ],
)
def test_outputs_that_are_no_coins_of_the_wallet_are_refused(
    held: Wallet, output: str, proof: bytes | None, code: int, sentence: str
) -> None:
    txid, right = paying(held)
    (held.folder / "beef").write_bytes(right if proof is None else proof)
    status, complaint = run(held, "add", output.format(txid), "--beef", "beef")
    assert (status, sentence in complaint, held.coins()) == (code, True, []), complaint


@pytest.mark.parametrize(
    "arguments", [("add",), ("add", "x_0"), ("add", "--beef", "f"), ("coins", "x_0"), ("--beef", "f")]
)
def test_a_coin_is_added_by_its_output_and_beef(held: Wallet, arguments: tuple[str, ...]) -> None:
    status, complaint = run(held, *arguments)
    assert (status, "a2b wallet add TXID_OUTPUT --beef FILE" in complaint) == (2, True)


# -- what is never added


@pytest.mark.parametrize("state", [HireState.SIGNED, HireState.DONE, HireState.FAILED, HireState.CANCELLED])
def test_a_coin_that_a_claim_spends_is_not_added(held: Wallet, state: HireState) -> None:
    raw = serialise((TxInput(outpoint(1), b"", 0xFFFFFFFF),), (TxOutput(900, b"\x51"),))
    texts = dict.fromkeys(("need", "url", "listing", "agent", "card_sha256", "protocol", "endpoint", "task"), "")
    held.journal.save(Hire(id="h", **texts, claims=({"rawTx": raw.hex()},), state=state))
    offered = [Coin(outpoint(1), 1_000), Coin(outpoint(2), 1), Coin(outpoint(3), 2), Coin(outpoint(3), 2)]
    assert held.add_coins(offered) == [Coin(outpoint(3), 2)]
    assert held.coins() == [Coin(outpoint(3), 2)]


def test_more_coins_than_can_be_read_again_are_refused(held: Wallet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coins, "MAX_COINS", 1)
    held.add_coins([Coin(outpoint(1), 1_000)])
    with pytest.raises(CoinsError, match="would have more than 1 coins"):
        held.add_coins([Coin(outpoint(2), 1_000)])
    assert held.coins() == [Coin(outpoint(1), 1_000)]


def test_a_wallet_of_a_key_file_alone_gets_a_file_of_coins(tmp_path: Path, held: Wallet) -> None:
    other = Wallet(tmp_path / "other", key_file=held.folder / "key.txt")
    assert other.add_coins([Coin(outpoint(1), 1_000)]) == other.coins() == [Coin(outpoint(1), 1_000)]
    assert other.coins_path().stat().st_mode & 0o777 == 0o600


# -- from a node


def test_coins_of_a_nodes_wallet_are_merged(held: Wallet) -> None:
    if binary() is None:
        missing("litecoind")
    held.add_coins([Coin(outpoint(1), 1_000)])
    with Litecoind(held.folder / "node") as node:
        node.fund()
        node.rpc("importaddress", held.address())
        paid = node.send([], [(70_000, held.key.script)])
        answers = [run(held, "coins", "--node", node.url, A2B_COINS="whatsonchain:http://127.0.0.1:1") for _ in "12"]
    assert [(answer["added"], answer["satoshis"]) for answer in answers] == [(1, 71_000), (0, 71_000)]
    assert Coin(paid.outpoint(0), 70_000) in held.coins()


# -- from WhatsOnChain


class Explorer:
    """Answers as WhatsOnChain documents: `pages` are the lists of coins, `spent` the outputs that are spent."""

    def __init__(self) -> None:
        self.pages: list[list[dict[str, Any]]] = [[]]
        self.spent: set[Outpoint] = set()
        self.instead: web.Response | None = None
        self.requests: list[str] = []

    async def unspent(self, request: web.Request) -> web.Response:
        self.requests.append(request.path_qs)
        if self.instead is not None:
            return self.instead
        number = int(request.query.get("token", "a+b/&=0").removeprefix("a+b/&="))
        if not self.pages[number]:
            return web.Response(status=404, text="Not Found")
        answer = {"address": request.match_info["address"], "script": "b3" * 32, "result": self.pages[number]}
        if number + 1 < len(self.pages):
            answer["nextPageToken"] = f"a+b/&={number + 1}"
        return web.json_response({**answer, "error": ""})

    async def is_spent(self, request: web.Request) -> web.Response:
        self.requests.append(request.path_qs)
        if Outpoint.parse("{txid}_{vout}".format(**request.match_info)) not in self.spent:
            return web.Response(status=404, text="Not Found")
        return web.json_response({"txid": "ab" * 32, "vin": 0, "status": "confirmed"})

    def list(self, *listed: Coin, **more: Any) -> None:
        """Put coins on the last page."""
        self.pages[-1] += [
            {
                "height": 861_499, "tx_pos": coin.outpoint.vout, "tx_hash": coin.outpoint.txid[::-1].hex(),
                "value": coin.satoshis, "isSpentInMempoolTx": False, "status": "confirmed", **more,
            }
            for coin in listed
        ]  # fmt: skip


@pytest.fixture
async def explorer(aiohttp_server: Any) -> tuple[Explorer, str]:
    answers, app = Explorer(), web.Application()
    app.router.add_get("/v1/bsv/test/address/{address}/unspent/all", answers.unspent)
    app.router.add_get("/v1/bsv/test/tx/{txid}/{vout}/spent", answers.is_spent)
    server = await aiohttp_server(app)
    return answers, str(server.make_url("/v1/bsv/test"))


async def new_coins(url: str, *excluded: Outpoint) -> list[Coin]:
    return await WhatsOnChainCoins(url, pause_seconds=0).new_coins("address", excluded)


@pytest.mark.parametrize("library", ["aiohttp", "httpx"])
async def test_unspent_coins_of_all_pages_are_taken_the_largest_first(
    explorer: tuple[Explorer, str], monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    answers, url = explorer
    if library == "httpx":  # as in an installation without the server
        monkeypatch.setattr(http_client, "aiohttp", httpx_session)
    small, large, listed, one, late, spent, there = (
        Coin(outpoint(number, number), satoshis)
        for number, satoshis in enumerate((500, 900, 800, 1, 2_000, 700, 600), 1)
    )
    answers.list(small, listed, one, spent)
    answers.list(Coin(outpoint(9), 4_000), isSpentInMempoolTx=True)
    answers.list(there, status="unconfirmed", height=0)
    answers.pages.append([])
    answers.list(late, large)
    answers.spent = {spent.outpoint}
    assert await new_coins(url, listed.outpoint) == [late, large, there, small]
    assert len([path for path in answers.requests if "address" in path]) == 2
    assert not [path for path in answers.requests if outpoint(3).txid.hex() in path or outpoint(4).txid.hex() in path]


async def test_an_address_without_coins_is_not_found(explorer: tuple[Explorer, str]) -> None:
    assert await new_coins(explorer[1]) == []


async def test_pages_and_checks_are_bounded(explorer: tuple[Explorer, str], monkeypatch: pytest.MonkeyPatch) -> None:
    answers, url = explorer
    monkeypatch.setattr(whatsonchain, "MAX_PAGES", 2)
    monkeypatch.setattr(whatsonchain, "MAX_NEW_COINS", 1)
    answers.list(Coin(outpoint(1), 1_000))
    answers.pages *= 3
    assert await new_coins(url) == [Coin(outpoint(1), 1_000)]
    assert len(answers.requests) == 3


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"status": 500}, "answers 500"),
        ({"status": 302, "headers": {"Location": "/"}}, "answers 302"),
        ({"text": "no JSON"}, "answers no list of coins"),
        ({"text": '{"result": [{"tx_hash": "ab", "tx_pos": 0, "value": 5}]}'}, "answers no list of coins"),
        ({"text": f'{{"result": [{{"tx_hash": "{"ab" * 32}", "tx_pos": 0, "value": -5}}]}}'}, "no list of coins"),
        ({"text": '{"result": null, "error": "busy"}'}, "answers an error: 'busy'"),
        ({"body": bytes((4 << 20) + 1)}, "more than 4,194,304 bytes"),
    ],
)
async def test_other_answers_are_errors(explorer: tuple[Explorer, str], answer: dict[str, Any], sentence: str) -> None:
    answers, url = explorer
    answers.instead = web.Response(**answer)
    with pytest.raises(SourceError, match=sentence):
        await new_coins(url)


async def test_without_a_named_service_nothing_is_sent(explorer: tuple[Explorer, str], held: Wallet) -> None:
    answers, url = explorer
    answers.list(Coin(outpoint(1), 1_000), Coin(outpoint(2), 1_000))
    answers.spent = {outpoint(2)}
    held.add_coins([Coin(outpoint(3), 500)])
    refused = [await asyncio.to_thread(run, held, "coins", **more) for more in ({}, {"A2B_COINS": url})]
    assert [(code, "which sees" in why or "then sees" in why) for code, why in refused] == [(2, True)] * 2, refused
    assert not answers.requests
    added = await asyncio.to_thread(run, held, "coins", A2B_COINS=f"whatsonchain:{url}/")
    assert (added["added"], added["coins"], added["satoshis"]) == (1, 2, 1_500)
    assert answers.requests[0] == f"/v1/bsv/test/address/{held.address()}/unspent/all"


def test_the_variables_of_a_wallet_are_no_unknown_settings() -> None:
    assert {wallets.VARIABLE, whatsonchain.VARIABLE} <= NOT_SETTINGS


def test_a_terminal_shows_the_address_as_a_code(held: Wallet) -> None:
    reader, writer = pty.openpty()
    command = [sys.executable, "-m", "overlay", "wallet", "--wallet", str(held.folder)]
    subprocess.run(command, stdout=writer, env=environment(PYTHONIOENCODING="utf-8"), check=True)
    os.close(writer)
    with os.fdopen(reader, "rb", buffering=0) as terminal:
        shown = terminal.read(1 << 16).decode().replace("\r\n", "\n")
    code = StringIO()
    segno.make_qr(held.address()).terminal(code, compact=True, border=2)
    assert code.getvalue() in shown
