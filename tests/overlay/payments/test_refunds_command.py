"""`a2b refunds`: the operator lists what is owed, signs it with `a2b sign`, and removes what was paid."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import base58
import pytest

from indexer.store import connect
from overlay import cli
from overlay.systems.payments.store import PaymentStore
from parsers.bitcoin.tx import read_exactly
from tests.overlay.payments.fake_node import PAYER, SERVER, address_of, claim_of, price, script_of
from tests.overlay.payments.paid_server import TASK, PaidServer


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/a2b.db"


async def fail_after_deposit(url: str) -> PaidServer:
    """A task failed after its deposit of 10,000 satoshis was sent."""
    payment_store = PaymentStore.open(url)
    server = PaidServer(payment_store).with_prices(price(depositPct="0.2"))
    server.fails = 500
    claim = claim_of(server.pays(10_000), stage="deposit", refundAddress=address_of(PAYER))
    assert (await server.call(claim, A2B_Task=TASK)).status == 500
    payment_store.close()
    return server


def test_a_refund_is_listed_signed_accepted_and_removed(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def a2b(*arguments: str) -> tuple[Any, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main([*arguments])
        return ended.value.code, capsys.readouterr().out

    connect(url).dispose()
    assert a2b("refunds", "--database", url, "--json") == (0, "[]\n")
    server = asyncio.run(fail_after_deposit(url))
    code, text = a2b("refunds", "--database", url, "--json")
    (row,) = json.loads(text)
    assert (code, row["taskId"], row["chain"], row["refundAddress"]) == (0, TASK, "bsv:regtest", address_of(PAYER))
    code, shown = a2b("refunds", "--database", url)
    assert code == 0
    assert TASK in shown
    assert row["rawTx"] in shown

    unsigned, key, signed = tmp_path / "refund.json", tmp_path / "key", tmp_path / "signed.json"
    unsigned.write_text(json.dumps(row))
    key.write_text(base58.b58encode_check(b"\xef" + SERVER + b"\x01").decode())
    key.chmod(0o600)
    assert a2b("sign", str(unsigned), "--key-file", str(key), "--out", str(signed))[0] == 0
    tx = read_exactly(bytes.fromhex(json.loads(signed.read_text())["rawTx"]))
    asyncio.run(server.node.send(bytes.fromhex(json.loads(signed.read_text())["rawTx"])))  # which checks its signature
    assert [(output.satoshis, output.script) for output in tx.outputs] == [(row["satoshis"], script_of(PAYER))]

    assert a2b("refunds", "--database", url, "--done", "another")[0] == 1
    assert a2b("refunds", "--database", url, "--done", TASK)[0] == 0
    assert a2b("refunds", "--database", url, "--json") == (0, "[]\n")
    assert a2b("refunds", "--database", url) == (0, "no refund is due\n")
    assert a2b("refunds", "--database", url, "--done", TASK)[0] == 1
