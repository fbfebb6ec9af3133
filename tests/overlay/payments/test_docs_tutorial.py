"""docs/payments.md runs as it is written, but for the node, the address and the location of the database."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import base58
import pytest
from aiohttp import ClientSession, web

from indexer.chains.node import payment_node
from parsers.claims.amount_due import CODES
from tests.conftest import ROOT
from tests.overlay.payments.fake_node import PAYER, SERVER, FakeNode, address_of

PAGE = (ROOT / "docs" / "payments.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
TASK = "a-task-that-is-hard-to-guess"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNode:
    """A node in place of the tutorial's, and the files that it reads."""
    fake = FakeNode()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(payment_node, "PaymentNode", lambda _name, _url: fake)
    wallet = [{"outpoint": str(fake.mint(60_000)), "satoshis": 60_000} for _ in range(2)]
    (key_file := tmp_path / "key.txt").write_bytes(base58.b58encode_check(b"\xef" + PAYER + b"\x01"))
    key_file.chmod(0o600)
    (tmp_path / "coins.json").write_text(json.dumps(wallet))
    return fake


async def test_the_steps_of_the_specification_run_in_order(fake: FakeNode) -> None:
    names: dict[str, Any] = {}
    for number, block in enumerate(BLOCKS, 1):
        here = block.replace("1WatchtowerAddr", address_of(SERVER))
        exec(compile(here, f"docs/payments.md, example {number}", "exec"), names)  # noqa: S102
    assert (await names["dry_run"](names["deposit"].value))["ok"]
    assert not fake.sent
    runner = web.AppRunner(names["app"])
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        async with ClientSession(f"http://{host}:{port}") as session:
            await names["work_with_a_deposit"](session, TASK)
            assert await names["pay_the_rest"](session, TASK) == "watched channel 7"
    finally:
        await runner.cleanup()
    await names["gate"].maintain()
    assert names["final"].payment.tx.hex_id in fake.mempool


def test_every_name_of_an_error_is_documented() -> None:
    for name, code in CODES.items():
        assert re.search(rf"^\| −{-code} \| .*{name}", PAGE, re.MULTILINE), name
