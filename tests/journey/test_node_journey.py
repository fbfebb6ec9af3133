"""From a real node to the answers of the `a2b` command: published, found, reorganised away, the node gone and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import missing
from tests.litecoind import Litecoind, binary
from tests.running import Running

CARD = {
    "name": "Lighthouse Keeper",
    "description": "Watches a light. Tells when it goes out.",
    "url": "https://light.example/a2a",
    "version": "1.0.0",
    "capabilities": {},
    "skills": [{"id": "watch", "name": "Watch"}],
}


def test_what_is_published_on_a_real_node_is_found_over_http(tmp_path: Path) -> None:
    if binary() is None:
        missing("litecoind")
    home = tmp_path / "home"
    home.mkdir()
    with Litecoind(tmp_path / "node") as node:
        node.fund()
        chains = f"ltc={node.cookie_url}"
        more = {"A2B_CHAINS": chains, "A2B_PORT": "0"}
        with Running("up", cwd=home, **more) as running:
            running.until_ready()
            first = node.inscribe(CARD)
            node.mine()
            running.until(lambda: ids(running, "lighthouse") == [str(first)])
            node.update(first, {**CARD, "name": "Lantern Keeper"})
            node.mine()
            running.until(lambda: ids(running, "lantern") == [str(first)])
            node.undo(1)
            node.mine_empty(2)
            running.until(lambda: (chain(running)["height"], chain(running)["reorgs"]) == (113, 1))
            running.until(lambda: ids(running, "keeper", status="live") == [str(first)])
            assert running.get(f"/v1/listings/{first}")["name"] == "Lighthouse Keeper"
            node.flush()
            node.kill()
            running.until(lambda: chain(running)["state"] == "unreachable")
            assert "does not answer" in chain(running)["error"]
            assert ids(running, "lighthouse") == [str(first)], "what is known is served all the while"
            node.start()
            node.mine()
            running.until(lambda: chain(running)["height"] == node.rpc("getblockcount"))
            assert chain(running)["state"] == "following"
            code, _ = running.stop()
            assert code == 0
            assert "Traceback" not in running.err


def ids(running: Running, words: str, **more: str) -> list[str]:
    """The ids that a search finds."""
    query = "".join(f"&{name}={value}" for name, value in more.items())
    return [item["id"] for item in running.get(f"/v1/search?q={words}{query}")["items"]]


def chain(running: Running) -> dict[str, object]:
    """Where the chain stands."""
    result: dict[str, object] = running.get("/v1/status")["chains"][0]
    return result


@pytest.mark.parametrize("url", ["ltc=http://u:p@127.0.0.1:{port}/", "ltc=http://127.0.0.1:{port}"])
def test_a_wrong_login_is_logged_with_advice_and_tried_again(url: str, tmp_path: Path) -> None:
    if binary() is None:
        missing("litecoind")
    home = tmp_path / "home"
    home.mkdir()
    with Litecoind(tmp_path / "node") as node:
        more = {"A2B_CHAINS": url.format(port=node.port), "A2B_PORT": "0"}
        with Running("index", cwd=home, **more) as running:
            running.until(lambda: "refuses the login (401)" in running.err or "requires a login" in running.err)
            assert running.stop()[0] == 0, "a refusal does not end the command"
            assert "u:p@" not in running.err
