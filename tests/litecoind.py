"""A real litecoind on a regtest of its own, with a wallet that inscribes; always stopped when the tests end."""

from __future__ import annotations

import base64
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from parsers.bitcoin.tx import Outpoint, Transaction, TxInput, TxOutput, serialise, sha256d
from parsers.bitcoin.tx import read as read_tx
from tests.chainkit_scripts import Json, body_of, map_tape, pointer_script, tapscript
from tests.conftest import missing
from tests.ports import free_port
from tests.taproot import commit, reveal
from tests.waiting import PATIENCE

FEE, OUTPUT_VALUE = 100_000, 200_000
"""Litoshis left to the miner, and held by an output that carries a registration."""

AGENT_MAP = {"app": "test", "type": "a2b-agent"}

MWEB_HEIGHT = 432


class RpcError(Exception):
    """The node refuses a call, in its words."""


def binary() -> str | None:
    """Where litecoind is installed."""
    return shutil.which("litecoind")


class Litecoind:
    """One node; `folder` keeps its chain over `stop`, `kill` and `start`. Blocks are mined to its own wallet.

    Debian's build publishes nothing over ZeroMQ: tests that want news beside a real node publish them for it.
    """

    switches: tuple[str, ...] = ("-dbcache=16", "-maxmempool=50", "-fallbackfee=0.001")

    def __init__(self, folder: Path, *, rest: bool = True, txindex: bool = True, more: Sequence[str] = ()) -> None:
        self.folder, self.rest, self.txindex, self.more = folder, rest, txindex, tuple(more)
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""
        self._secrets = iter(range(1_000, 10**9))

    # -- its life

    def binary(self) -> str | None:
        """The program to start."""
        return binary()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        path = self.binary()
        assert path is not None, "the node is not installed"
        switches = [f"-rest={int(self.rest)}", f"-txindex={int(self.txindex)}", f"-rpcport={self.port}", *self.more]
        fixed = ["-regtest", f"-datadir={self.folder}", "-server", "-listen=0", "-discover=0", "-dnsseed=0",
                 "-printtoconsole=0", *self.switches]  # fmt: skip
        self.folder.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [path, *fixed, *switches], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self.rpc("getblockcount")
                break
            except (RpcError, OSError):
                assert self._process.poll() is None, f"the node ended: {self._log()}"
                assert time.monotonic() < end, f"the node does not answer: {self._log()}"
                time.sleep(0.05)
        if self._address:
            self._load()

    def _load(self) -> None:
        try:
            self.rpc("loadwallet", "w")
        except RpcError as error:
            if "already loaded" not in str(error):
                raise

    def _log(self) -> str:
        log = self.folder / "regtest" / "debug.log"
        return log.read_text(errors="replace")[-2_000:] if log.exists() else "no log"

    def fund(self, blocks: int = 110) -> None:
        """Make the wallet and mine it some coins."""
        self.rpc("createwallet", "w")
        self._address = self.rpc("getnewaddress", "", "bech32")
        self.mine(blocks)
        self.flush()

    def flush(self) -> None:
        """Have it write its chain to the disk, so that a kill takes back nothing before this."""
        self.rpc("gettxoutsetinfo")

    def stop(self) -> None:
        """End it as its operator would."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()

    def __enter__(self) -> Litecoind:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    # -- asking it

    @property
    def cookie(self) -> Path:
        """The file with its login."""
        return self.folder / "regtest" / ".cookie"

    @property
    def url(self) -> str:
        """Its URL as a setting has it, with the login that it has written by now."""
        return f"http://{self.cookie.read_text().strip()}@127.0.0.1:{self.port}"

    @property
    def cookie_url(self) -> str:
        """Its URL with the cookie file."""
        return f"http://127.0.0.1:{self.port}?cookie={self.cookie}"

    def rpc(self, method: str, *params: Any) -> Any:
        """The result of a call. Raises RpcError, OSError."""
        login = base64.b64encode(self.cookie.read_bytes().strip()).decode()
        body = json.dumps({"jsonrpc": "1.0", "id": 0, "method": method, "params": params}).encode()
        request = Request(f"http://127.0.0.1:{self.port}/", body, {"Authorization": f"Basic {login}"})
        try:
            with urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310 - http only
                return json.load(answer)["result"]
        except HTTPError as error:
            with error:
                raise RpcError(error.read().decode(errors="replace")) from None
        except URLError as error:
            raise OSError(str(error.reason)) from None

    def block(self, height: int) -> bytes:
        """The raw block at a height of its best chain."""
        return bytes.fromhex(self.rpc("getblock", self.rpc("getblockhash", height), 0))

    @property
    def blocks(self) -> list[bytes]:
        """The raw blocks of its best chain, genesis first."""
        return [self.block(height) for height in range(self.rpc("getblockcount") + 1)]

    # -- mining

    def mine(self, count: int = 1) -> str:
        """Mine blocks with what the mempool holds; the hash of the last."""
        return str(self.rpc("generatetoaddress", count, self._address)[-1])

    def mine_empty(self, count: int = 1) -> str:
        """Mine blocks with nothing but their coinbase; the hash of the last."""
        address = self.rpc("getnewaddress", "", "bech32")  # or it would mine again what it had taken back
        return [str(self.rpc("generateblock", address, [])["hash"]) for _ in range(count)][-1]

    def undo(self, depth: int) -> None:
        """Take back its newest blocks, as a reorganisation to a shorter branch would; what they held is unconfirmed.

        By itself the node gives back only what stood in the ten newest.
        """
        first = self.rpc("getblockcount") - depth + 1
        held = [tx for index in range(first, first + depth) for tx in self._transactions(index)]
        self.rpc("invalidateblock", self.rpc("getblockhash", first))
        waiting = set(self.rpc("getrawmempool"))
        for tx in held:
            if tx["txid"] not in waiting:
                self.rpc("sendrawtransaction", tx["hex"])

    def _transactions(self, height: int) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = self.rpc("getblock", self.rpc("getblockhash", height), 2)["tx"]
        return results[1:]

    def activate_mweb(self) -> None:
        """Mine until blocks carry a MWEB part, which needs a peg-in in the first that does."""
        self.mine(MWEB_HEIGHT - 1 - self.rpc("getblockcount"))
        self.peg_in()
        self.mine()

    def peg_in(self) -> None:
        """Send coins into the MWEB."""
        self.rpc("sendtoaddress", self.rpc("getnewaddress", "", "mweb"), 1)

    # -- inscribing

    def script(self) -> bytes:
        """A new locking script of the wallet."""
        return self._script_of(self.rpc("getnewaddress", "", "bech32"))

    def _script_of(self, address: str) -> bytes:
        return bytes.fromhex(self.rpc("getaddressinfo", address)["scriptPubKey"])

    def inscribe(self, card: Json | bytes, *, map_in: str = "tape", chunk: int = 520) -> Outpoint:
        """Register a card by commit and reveal; where the satoshi is then, which is the registration's id."""
        return self._inscribe(None, card, map_in, chunk)

    def update(self, outpoint: Outpoint, card: Json | bytes, *, map_in: str = "tape") -> Outpoint:
        """Re-inscribe the satoshi of `outpoint`."""
        return self._inscribe(outpoint, card, map_in, 520)

    def _inscribe(self, outpoint: Outpoint | None, card: Json | bytes, map_in: str, chunk: int) -> Outpoint:
        raw = self.prepare(card, outpoint, map_in=map_in, chunk=chunk)
        return self.broadcast(raw)

    def broadcast(self, raw: bytes) -> Outpoint:
        """Send a transaction; its first output."""
        self.rpc("sendrawtransaction", raw.hex())
        return Outpoint(read_tx(raw, segwit=True).txid, 0)

    def prepare(
        self, card: Json | bytes, outpoint: Outpoint | None = None, *, map_in: str = "tape", chunk: int = 520
    ) -> bytes:
        """The raw transaction that reveals a card, not sent yet, after the one that commits to it."""
        script = tapscript(body_of(card), map=AGENT_MAP if map_in == "envelope" else None, chunk=chunk)
        created = commit(next(self._secrets), script[34:])  # behind the mint's own dummy key and OP_CHECKSIG
        held = OUTPUT_VALUE + FEE
        committed = self.send([outpoint] if outpoint else [], [(held, created.locking)])
        outputs = [(OUTPUT_VALUE, self.script())]
        if map_in == "tape":
            outputs.append((0, map_tape(AGENT_MAP)))
        return reveal(created, committed.outpoint(0), held, outputs)

    def move(self, outpoint: Outpoint, script: bytes | None = None) -> Outpoint:
        """Send the satoshi of `outpoint` to another output."""
        return self.send([outpoint], [(OUTPUT_VALUE, script or self.script())]).outpoint(0)

    def move_behind_a_coin(self, outpoint: Outpoint) -> None:
        """Send the satoshi of `outpoint` somewhere that only the value of the input before it determines."""
        self.send([outpoint], [(OUTPUT_VALUE, self.script())], coin_first=True)

    def burn(self, outpoint: Outpoint) -> None:
        """Send the satoshi of `outpoint` into an output that cannot be spent."""
        self.send([outpoint], [(OUTPUT_VALUE, b"\x6a\x04dead")])

    def point(self, domain: str, digest: bytes | None = None) -> Outpoint:
        """Write a pointer."""
        return self.send([], [(0, pointer_script(domain, digest, false=False))]).outpoint(0)

    def send(
        self, outpoints: Sequence[Outpoint], outputs: Sequence[tuple[int, bytes]], *, coin_first: bool = False
    ) -> Transaction:
        """Sign and send a transaction that spends these outpoints and a coin, with the change in a last output."""
        coins = [item for item in self.rpc("listunspent", 1) if item["amount"] > 1]
        # the oldest was mined: that of a later transaction might be known from how a registration came about
        coin = max(coins, key=lambda item: item["confirmations"])
        held = round(coin["amount"] * 10**8) + sum(self._value(outpoint) for outpoint in outpoints)
        change = held - sum(satoshis for satoshis, _ in outputs) - FEE
        paying = Outpoint(bytes.fromhex(coin["txid"])[::-1], coin["vout"])
        spent = [paying, *outpoints] if coin_first else [*outpoints, paying]
        ins = tuple(TxInput(item, b"", 0xFFFFFFFF) for item in spent)
        outs = tuple(TxOutput(*output) for output in [*outputs, (change, self.script())])
        signed = self.rpc("signrawtransactionwithwallet", serialise(ins, outs, 2).hex())
        assert signed["complete"], signed
        self.rpc("sendrawtransaction", signed["hex"])
        return read_tx(bytes.fromhex(signed["hex"]), segwit=True)

    def _value(self, outpoint: Outpoint) -> int:
        raw = self.rpc("getrawtransaction", outpoint.txid[::-1].hex())
        return read_tx(bytes.fromhex(raw), segwit=True).outputs[outpoint.vout].satoshis


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Litecoind]:
    """A running node with coins."""
    if binary() is None:
        missing("litecoind")
    with Litecoind(tmp_path / "node") as node:
        node.fund()
        yield node


def hash_of(raw: bytes) -> str:
    """A block's hash as the node tells it."""
    return sha256d(raw[:80])[::-1].hex()
