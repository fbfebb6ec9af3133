"""A stand-in for a BRC-100 wallet on a visitor's computer: its JSON interface over HTTP, a key for each protocol and
name, one coin that pays, and baskets of outputs. Requests without an Origin are refused, as wallets do."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, NamedTuple

from aiohttp import web

from overlay.publish.coins import Coin
from overlay.publish.transactions import fund
from parsers.bitcoin import beef, signatures
from parsers.bitcoin.script import p2pkh
from parsers.bitcoin.sighash import p2pkh_error, sign_p2pkh
from parsers.bitcoin.tx import Outpoint, Transaction, TxOutput, read, serialise
from tests.browser.world import World
from tests.waiting import stop

CORS = {
    "Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "*", "Access-Control-Allow-Methods": "*",
    "Access-Control-Allow-Private-Network": "true",
}  # fmt: skip


class BadParameterError(Exception):
    """A call that a wallet refuses."""


class Action(NamedTuple):
    """A transaction that waits for the signature of its input 0, and the outputs that were asked for."""

    tx: Transaction
    spent: tuple[TxOutput, ...]
    outputs: list[dict[str, Any]]


class WalletServer:
    """The wallet; what it sends is in the mempool of a world. `calls` are the methods that were called, in order."""

    def __init__(self, world: World, port: int) -> None:
        self._world, self._port, self._root = world, port, b"the wallet's key"
        self.calls: list[str] = []
        self.basket: dict[str, dict[str, Any]] = {}
        self._actions: dict[str, Action] = {}
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> WalletServer:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/{method}", self._answer)
        app.router.add_route("OPTIONS", "/{method}", self._allow)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await stop(self._runner)

    async def _allow(self, _: web.Request) -> web.Response:
        return web.Response(status=204, headers=CORS)

    async def _answer(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        self.calls.append(method)
        args = json.loads(await request.read())
        try:
            if not request.headers.get("Origin"):
                raise BadParameterError("Origin is missing")
            answer = getattr(self, f"do_{method}")(args)
        except BadParameterError as error:
            return web.json_response({"isError": True, "code": 6, "message": str(error)}, status=400, headers=CORS)
        return web.json_response(answer, headers=CORS)

    def _key(self, args: dict[str, Any]) -> bytes:
        (level, protocol), name = args["protocolID"], args["keyID"]
        if (level, args["counterparty"]) != (2, "self") or not 5 <= len(protocol) <= 280 or not name:
            raise BadParameterError("protocolID, keyID or counterparty")
        return sha256(self._root + f"{level}-{protocol}-{name}".encode()).digest()

    def do_getVersion(self, _: dict[str, Any]) -> Any:  # noqa: N802
        return {"version": "standin-1.0.0"}

    def do_getPublicKey(self, args: dict[str, Any]) -> Any:  # noqa: N802
        return {"publicKey": signatures.public_key(self._key(args)).hex()}

    def do_listOutputs(self, args: dict[str, Any]) -> Any:  # noqa: N802
        outputs = [
            {"outpoint": outpoint, "satoshis": 1, "spendable": True, "customInstructions": output["customInstructions"]}
            for outpoint, output in self.basket.items()
            if output["basket"] == args["basket"] and args["includeCustomInstructions"]
        ]
        return {"totalOutputs": len(outputs), "outputs": outputs}

    def do_createSignature(self, args: dict[str, Any]) -> Any:  # noqa: N802
        digest = bytes(args["hashToDirectlySign"])
        return {"signature": list(signatures.sign(self._key(args), digest))}

    def do_createAction(self, args: dict[str, Any]) -> Any:  # noqa: N802
        texts = [args["description"], *(output["outputDescription"] for output in args["outputs"])]
        if any(not 5 <= len(text) <= 50 for text in texts):
            raise BadParameterError("a description")
        outputs = [TxOutput(output["satoshis"], bytes.fromhex(output["lockingScript"])) for output in args["outputs"]]
        if args["options"].get("randomizeOutputs", True):
            raise BadParameterError("outputs in any order would move the satoshi")
        lock, kit = p2pkh(signatures.hash160(signatures.public_key(self._secret))), self._world.kit
        funding = kit.spend([kit.fund()], [(90_000, lock)])
        self._world.mine(funding.outpoint(0))
        coins, first = [Coin(funding.outpoint(0), 90_000)], None
        for spent in args.get("inputs", ()):
            txid, _, vout = spent["outpoint"].partition(".")
            outpoint = Outpoint(bytes.fromhex(txid)[::-1], int(vout))
            parent = beef.read(bytes(args["inputBEEF"])).member(outpoint.txid)
            if spent["unlockingScriptLength"] != 108 or parent is None or parent.tx is None:
                raise BadParameterError("an input")
            first = Coin(outpoint, 1, parent.tx.outputs[outpoint.vout].script)
        draft = fund(outputs, coins, lock, first=first, merge=not outputs)
        action = Action(draft.tx, draft.spent, args["outputs"])
        if first is None:
            return {"txid": self._send(action, {})}
        self._actions["1"] = action
        subject = beef.BeefTransaction(draft.tx.txid, draft.raw, draft.tx)
        parents = [beef.BeefTransaction(funding.txid, kit.raw(funding.outpoint(0)), funding)]
        built = beef.Beef(2, (), (*parents, subject), draft.tx.txid).to_bytes()
        return {"signableTransaction": {"tx": list(built), "reference": "1"}}

    def do_signAction(self, args: dict[str, Any]) -> Any:  # noqa: N802
        spends = {int(vin): bytes.fromhex(spend["unlockingScript"]) for vin, spend in args["spends"].items()}
        return {"txid": self._send(self._actions.pop(args["reference"]), spends)}

    def do_abortAction(self, args: dict[str, Any]) -> Any:  # noqa: N802
        return {"aborted": self._actions.pop(args["reference"], None) is not None}

    @property
    def _secret(self) -> bytes:
        return sha256(self._root).digest()

    def _send(self, action: Action, unlocking: dict[int, bytes]) -> str:
        """Sign what is the wallet's own, check all inputs, and send."""
        inputs = tuple(
            item._replace(script=unlocking.get(vin) or sign_p2pkh(action.tx, vin, self._secret, spent.satoshis))
            for vin, (item, spent) in enumerate(zip(action.tx.inputs, action.spent, strict=True))
        )
        tx = read(raw := serialise(inputs, action.tx.outputs))
        for vin, spent in enumerate(action.spent):
            fault = p2pkh_error(tx, vin, spent, lock=spent.script[:25])
            if fault:
                raise BadParameterError(fault)
        for vout, output in enumerate(action.outputs):
            if "basket" in output:
                self.basket[f"{tx.hex_id}.{vout}"] = output
        for item in tx.inputs:
            self.basket.pop(f"{item.prevout.txid[::-1].hex()}.{item.prevout.vout}", None)
        self._world.chain.unconfirmed[tx.txid] = raw
        return tx.hex_id
