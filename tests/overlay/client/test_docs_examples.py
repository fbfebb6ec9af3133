"""docs/client.md runs as it is written, but for the overlay's URL and the chain."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.overlay.client.world import PAYEE, PaidRegistry

BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "client.md").read_text(), re.MULTILINE | re.DOTALL)


def test_the_examples_run_in_order(registry: PaidRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(registry.home)
    names: dict[str, Any] = {}
    for number, block in enumerate(BLOCKS, 1):
        here = block.replace("https://overlay.example", registry.url).replace("bsv:mainnet", "bsv:regtest")
        exec(compile(here, f"docs/client.md, example {number}", "exec"), names)  # noqa: S102
    assert [item.id for item in names["page"].items] == [registry.id]
    assert names["names"] == ["Alpha", "Watchtower Guard"]
    assert (names["quote"].needed_satoshis, names["quote"].address) == (50_000, PAYEE.address)
    assert names["trace"].listed == (registry.id,)
    assert names["report"].steps[0].outcome == "proved"
    assert names["claim"].payment.paid == 50_000
    assert names["message_part"]["data"]["x-payment"]["configId"] == "wt-basic"
    assert len(names["ids"]) == len(set(names["ids"])) == 3
