"""docs/client.md runs as it is written, but for the URLs of overlays and the chain."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.overlay.client.world import PAYEE, PaidRegistry

BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "client.md").read_text(), re.MULTILINE | re.DOTALL)


def test_the_examples_run_in_order(registry: PaidRegistry, mirror: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(registry.home)
    names: dict[str, Any] = {}
    words = ("https://overlay.example", registry.url), ("https://other-overlay.example", mirror)
    blocks = list(BLOCKS)
    for word, here in (*words, ("bsv:mainnet", "bsv:regtest")):
        blocks = [block.replace(word, here) for block in blocks]
    claims = []
    for number, block in enumerate(blocks, 1):
        for _ in range(2 if "overlay.pay(" in block else 1):
            exec(compile(block, f"docs/client.md, example {number}", "exec"), names)  # noqa: S102
            claims += [names["claim"]] if "overlay.pay(" in block else []
    spent = [tx_input.prevout for claim in claims for tx_input in claim.payment.tx.inputs]
    assert len(claims) == 2
    assert len(set(spent)) == len(spent)
    assert [item.id for item in names["page"].items] == [registry.id]
    assert names["names"] == ["Alpha", "Watchtower Guard"]
    assert (names["quote"].needed_satoshis, names["quote"].address) == (50_000, PAYEE.address)
    assert names["trace"].listed == (registry.id,)
    assert names["report"].steps[0].outcome == "proved"
    assert names["claim"].payment.paid == 50_000
    assert names["message_part"]["data"]["x-payment"]["configId"] == "wt-basic"
    assert len(names["ids"]) == len(set(names["ids"])) == 3
