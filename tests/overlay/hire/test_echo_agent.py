"""The example agent earns, and a client of ten lines spends, on a real litecoind."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from overlay.client import OverlayClient
from overlay.client.hire.policy import Policy
from overlay.client.hire.wallet import Wallet, new_wallet
from tests.chainkit import ChainKit
from tests.conftest import missing
from tests.litecoind import Litecoind, binary
from tests.overlay.client.world import overlay_over
from tests.overlay.hire.test_hire_story import coins_of
from tests.running import environment

PRICE = 100_000


class Market(NamedTuple):
    node: Litecoind
    url: str
    wallet: Wallet
    earning: Wallet


@pytest.fixture
def market(tmp_path: Path) -> Iterator[Market]:
    if binary() is None:
        missing("litecoind")
    with ExitStack() as stack:
        node = stack.enter_context(Litecoind(tmp_path / "node"))
        node.fund()
        earning, wallet = (new_wallet(tmp_path / name, "testnet") for name in ("earning", "wallet"))
        (wallet.folder / "coins-ltc.json").write_text(json.dumps(coins_of(node, wallet, 1)))
        command = [
            sys.executable, "-m", "overlay.examples.echo_agent", "--port", "0", "--coin", "ltc",
            "--satoshis", str(PRICE), "--node", node.cookie_url, "--key-file", str(earning.folder / "key.txt"),
            "--signing-key", str(earning.folder / "ed25519.key"),
        ]  # fmt: skip
        agent = stack.enter_context(
            subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True)
        )
        stack.callback(agent.terminate)
        assert agent.stdout is not None
        card: dict[str, Any] = json.loads(agent.stdout.readline())
        kit, home = ChainKit(), tmp_path / "home"
        home.mkdir()
        kit.mine(kit.inscribe(card))
        yield Market(node, stack.enter_context(overlay_over(kit, home)), wallet, earning)


def test_the_example_earns_what_the_client_spends(market: Market) -> None:
    policy = Policy(
        max_satoshis_per_call=2 * PRICE, max_satoshis_per_day=2 * PRICE, max_satoshis_per_agent=2 * PRICE,
        newest_unchecked_satoshis=2 * PRICE, unverified_domains=True, currencies=("LTC",),
    )  # fmt: skip
    with OverlayClient(market.url) as overlay:
        hire = overlay.hire(
            "echo", input="hello", wallet=market.wallet, policy=policy, allow_local=True, expected="bsv:regtest"
        )
    assert Path(hire.files[0]).read_text() == "hello"
    assert (hire.satoshis, bool(hire.receipt), hire.receipt_fault) == (PRICE, True, "")
    market.node.mine()
    till = market.earning.address("ltc", "regtest")
    (tx,) = hire.transactions
    outputs = market.node.rpc("getrawtransaction", tx.hex_id, True)["vout"]
    assert [output["value"] for output in outputs if till in str(output["scriptPubKey"])] == [PRICE / 10**8]
    assert sum(coin.satoshis for coin in market.wallet.coins("LTC")) == 5_000_000 - PRICE - hire.fee
