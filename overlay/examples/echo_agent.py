"""An agent that answers with what it is sent, for a price: `python -m overlay.examples.echo_agent --key-file key.txt
--node http://user:password@127.0.0.1:8332`. It prints its card, for `a2b inscribe`, and answers until it is stopped.
"""

from __future__ import annotations

import asyncio
import json
from argparse import ArgumentParser, Namespace
from decimal import Decimal
from pathlib import Path
from typing import Any

from aiohttp import web

from indexer.chains.node.payment_node import PaymentNode, nodes_of
from overlay.commands.signing_keys import read_key
from overlay.publish import keys
from overlay.systems.payments.aiohttp_gate import middleware
from overlay.systems.payments.gate import PaymentGate
from overlay.systems.payments.store import PaymentStore
from parsers.bitcoin.address import PREFIXES, address
from parsers.claims.ed25519 import public_key_of
from parsers.claims.motebit.identifiers import sovereign_id

MAINTAIN_SECONDS = 5.0
"""Seconds between two looks at what was paid."""


def main() -> None:
    """Serve until a signal."""
    parser = ArgumentParser("echo_agent", description="An agent that answers with what it is sent, for a price.")
    parser.add_argument("--port", type=int, default=8090, help="the port to serve on, 0 for any that is free [8090]")
    parser.add_argument("--key-file", type=Path, required=True, help="the key whose address is paid (WIF)")
    parser.add_argument("--node", required=True, help="the node that sends payments, as in A2B_CHAINS")
    parser.add_argument("--coin", default="bsv", choices=sorted(PREFIXES), help="the coin of the node [bsv]")
    parser.add_argument("--satoshis", type=int, default=1_000, help="the price of a call [1000]")
    parser.add_argument("--signing-key", type=Path, help="an Ed25519 key that signs receipts [none are given]")
    parser.add_argument("--url", default="", help="the public URL [http://127.0.0.1:PORT/]")
    parser.add_argument("--payments", type=Path, default=Path("payments.db"), help="the payments [payments.db]")
    asyncio.run(serve(parser.parse_args()))


async def serve(args: Namespace) -> None:
    """Print the card, and answer paid calls."""
    node = nodes_of({"node": [f"{args.node}{'&' if '?' in args.node else '?'}chain={args.coin}"]})[args.coin.upper()]
    signing_key = read_key(args.signing_key) if args.signing_key else None
    price = await _price(args, node)
    gate = PaymentGate(price, PaymentStore.open(f"sqlite:///{args.payments}"), node, signing_key=signing_key)
    paid: Any = middleware(gate, {"/": None})
    app = web.Application(middlewares=[paid])
    app.add_routes([web.post("/", echo)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", args.port).start()
    url = args.url or f"http://127.0.0.1:{runner.addresses[0][1]}/"
    print(json.dumps(card(url, price, signing_key)), flush=True)  # noqa: T201 - its card is its output
    while True:
        await gate.maintain()
        await asyncio.sleep(MAINTAIN_SECONDS)


async def _price(args: Namespace, node: PaymentNode) -> dict[str, Any]:
    key, chain = keys.read(args.key_file), await node.chain()
    return {
        "id": "call", "name": "One call", "currency": args.coin.upper(), "skillIds": ["echo"],
        "amount": format(Decimal(args.satoshis).scaleb(-8), "f"),
        "address": address(key.script, PREFIXES[chain.coin][chain.network]),
    }  # fmt: skip


def card(url: str, price: dict[str, Any], signing_key: bytes | None) -> dict[str, Any]:
    """The agent card; with a key that signs receipts, it names that."""
    stated: dict[str, Any] = {
        "name": "Echo", "description": "Answers with what it is sent.", "url": url, "version": "1.0.0",
        "protocolVersion": "0.3.0", "capabilities": {}, "x-payment-config": [price],
        "skills": [{"id": "echo", "name": "Echo", "description": "Answers with the text.", "tags": ["echo"]}],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
    }  # fmt: skip
    if signing_key is not None:
        public = public_key_of(signing_key)
        stated["x-motebit"] = {"motebit_id": sovereign_id(public), "public_key": public.hex(), "did": "", "spec": "1"}
    return stated


async def echo(request: web.Request) -> web.Response:
    """Answer a message of A2A 0.3 with its text."""
    call = await request.json()
    parts = [part for part in call["params"]["message"]["parts"] if part.get("kind") == "text"]
    message = {"kind": "message", "role": "agent", "messageId": "1", "parts": parts}
    return web.json_response({"jsonrpc": "2.0", "id": call["id"], "result": message})


if __name__ == "__main__":
    main()
