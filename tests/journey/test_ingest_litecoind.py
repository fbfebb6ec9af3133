"""A publisher of a real node's chain tells the overlay what it broadcast, as the existing one does, and asks why."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from parsers.bitcoin.tx import read
from tests.litecoind import Litecoind, node
from tests.running import Running
from tests.waiting import PATIENCE

__all__ = ["node"]

CARD = {
    "name": "Lighthouse Keeper",
    "description": "Watches a light.",
    "url": "https://light.example/a2a",
    "version": "1.0.0",
    "capabilities": {},
    "skills": [{"id": "watch", "name": "Watch"}],
}


@pytest.fixture
def overlay(node: Litecoind, tmp_path: Path) -> Iterator[Running]:
    """The `a2b` command, which has read the node's chain to its tip."""
    home = tmp_path / "home"
    home.mkdir()
    chains = f"ltc={node.cookie_url}"
    with Running("up", cwd=home, A2B_CHAINS=chains, A2B_PORT="0") as running:
        running.until_ready()
        yield running


def ingest(overlay: Running, txid: str) -> Any:
    """Send a publisher's request, and return its answer."""
    body = json.dumps({"txid": txid}).encode()
    headers = {"Content-Type": "application/json"}
    request = Request(f"{overlay.url}/v1/ingest", data=body, headers=headers)  # noqa: S310 - http only
    with urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310 - http only
        assert answer.status == HTTPStatus.ACCEPTED
        return json.load(answer)


def diagnosis(overlay: Running, txid: str) -> Any:
    """Where a transaction stands; its step `requested` besides."""
    answer = overlay.get(f"/v1/diagnose/{txid}")
    return answer, next(step for step in answer["steps"] if step["step"] == "requested")


def test_a_transaction_broadcast_a_second_ago_is_accepted_and_followed_until_it_is_listed(
    node: Litecoind, overlay: Running
) -> None:
    tx = node.inscribe(CARD)
    txid = str(tx)[:64]
    time.sleep(1)  # as the existing publisher does
    answer = ingest(overlay, txid)
    assert (answer["txid"], answer["state"]) in [(txid, "waiting"), (txid, "found")]
    overlay.until(lambda: diagnosis(overlay, txid)[0]["listed"] == [str(tx)])
    result, _ = diagnosis(overlay, txid)
    assert (result["found"], result["where"], result["source"]) == (True, "mempool", "ltc")
    overlay.until(lambda: "known to ltc" in diagnosis(overlay, txid)[1]["detail"])
    overlay.until(lambda: [item["status"] for item in search(overlay)] == ["pending"])
    node.mine()
    overlay.until(lambda: [item["status"] for item in search(overlay)] == ["live"])
    result, requested = diagnosis(overlay, txid)
    assert (result["where"], result["height"], result["listed"]) == ("block", node.rpc("getblockcount"), [str(tx)])
    assert all(step["ok"] for step in result["steps"]), result["steps"]
    assert requested["ok"]
    again = ingest(overlay, txid.upper())  # asked twice it is one request
    assert again["askedAt"] == answer["askedAt"]


def test_a_transaction_that_the_node_does_not_have_yet_is_requested_again(node: Litecoind, overlay: Running) -> None:
    raw = node.prepare(CARD)
    txid = read(raw, segwit=True).txid[::-1].hex()
    ingest(overlay, txid)
    overlay.until(lambda: "not known to ltc" in diagnosis(overlay, txid)[1]["detail"])
    result, requested = diagnosis(overlay, txid)
    assert (result["found"], result["listed"]) == (False, [])
    assert re.search(r"next at \d\d:\d\d|next at \d{4}-", requested["detail"]), requested
    created = node.broadcast(raw)
    overlay.until(lambda: "known to ltc" in detail(overlay, txid) and "not known" not in detail(overlay, txid))
    overlay.until(lambda: diagnosis(overlay, txid)[0]["listed"] == [str(created)])


def test_a_transaction_without_a_registration_is_explained(node: Litecoind, overlay: Running) -> None:
    tx = node.inscribe({"name": "No Skills", "url": "https://x.example"})
    ingest(overlay, str(tx)[:64])
    node.mine()
    overlay.until(lambda: diagnosis(overlay, str(tx)[:64])[0]["where"] == "block")
    result, _ = diagnosis(overlay, str(tx)[:64])
    assert result["listed"] == []
    assert [step["step"] for step in result["steps"] if not step["ok"]] == ["card"]
    assert [reason["code"] for record in result["records"] for reason in record["reasons"]] == ["card-skills"]


def detail(overlay: Running, txid: str) -> str:
    """The state of a request, in words."""
    text: str = diagnosis(overlay, txid)[1]["detail"]
    return text


def search(overlay: Running) -> list[dict[str, Any]]:
    """The results of a search."""
    items: list[dict[str, Any]] = overlay.get("/v1/search?q=lighthouse")["items"]
    return items
