"""A registry with prices that can be paid, served by a process of its own, and a payer's key and coins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import base58

from overlay.publish.keys import PublisherKey
from tests.chainkit import ChainKit, agent, tool
from tests.running import Running

PAYER = PublisherKey(sha256(b"the payer's key").digest(), "testnet")
PAYEE = PublisherKey(sha256(b"the agent's key").digest(), "testnet")
BUYER = PublisherKey(sha256(b"the key of whom the agent is sold to").digest(), "testnet")

BASIC = {"id": "wt-basic", "name": "Basic", "currency": "BSV", "amount": 0.0005, "address": PAYEE.address,
         "acceptedCurrencies": ["BSV"], "skillIds": ["echo"]}  # fmt: skip
MONTH = BASIC | {"id": "wt-month", "amount": 0.002, "depositPct": 0.2, "interval": "month"}
DOLLARS = BASIC | {"id": "wt-usd", "currency": "USD", "amount": 0.05, "acceptedCurrencies": ["USD", "BSV"]}
PLACEHOLDER = BASIC | {"id": "wt-placeholder", "address": "1WatchtowerAddr"}


class PaidRegistry(NamedTuple):
    """The URL of the overlay, the listing with prices, the folder with `key.txt`, `coins.json`, `headers.bin`, and the
    chain."""

    url: str
    id: str
    home: Path
    kit: ChainKit


@contextmanager
def paid_registry(home: Path) -> Iterator[PaidRegistry]:
    kit = ChainKit()
    funding = kit.spend([kit.fund()], [(100_000, PAYER.script)] * 4)
    prices = [BASIC, MONTH, DOLLARS, PLACEHOLDER]
    listed = kit.inscribe(agent("Watchtower Guard", **{"x-payment-config": prices}))
    kit.mine(
        kit.raw(funding.outpoint(0)), listed, kit.inscribe(agent("Alpha")), kit.inscribe(tool("clock"), type="a2b-mcp")
    )
    (home / "headers.bin").write_bytes(b"".join(block.raw[:80] for block in kit.blocks))
    (home / "key.txt").write_bytes(base58.b58encode_check(b"\xef" + PAYER.private + b"\x01"))
    (home / "key.txt").chmod(0o600)
    coins = [{"txid": funding.hex_id, "vout": vout, "satoshis": 100_000} for vout in range(4)]
    (home / "coins.json").write_text(json.dumps(coins))
    with overlay_over(kit, home) as url:
        yield PaidRegistry(url, str(listed), home, kit)


@contextmanager
def overlay_over(kit: ChainKit, home: Path) -> Iterator[str]:
    """The URL of an overlay, in a process of its own, that follows the blocks mined up to now."""
    (home / "blocks").mkdir()
    kit.write(home / "blocks")
    with Running(
        "up", "--port", "0", "--limits", "off", cwd=home,
        A2B_CHAINS=f"live=files:{home / 'blocks'}?chain=bsv&network=regtest",
    ) as running:  # fmt: skip
        running.until_ready()
        yield running.url
