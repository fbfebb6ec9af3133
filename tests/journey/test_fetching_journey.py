"""From a pointer in a block to its card in the answers: the `a2b` command fetches it from a TLS server of our own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chainkit import ChainKit, agent
from tests.https import Https
from tests.pointer_facts import digest
from tests.running import Running

AGENT = "/.well-known/agent.json"


def card(name: str, host: str, **more: Any) -> bytes:
    return json.dumps(agent(name, url=f"https://{host}/a2a", **more)).encode()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Https]:
    with Https(tmp_path, "good.example", "bad.example", "own.example", "late.example") as served:
        yield served


def up(folder: Path, server: Https) -> Running:
    blocks = f"demo=files:{folder / 'blocks'}?chain=bsv&network=regtest"
    more = {"A2B_CHAINS": blocks, **server.environment}
    return Running("up", "--port", "0", cwd=folder, **more)


def test_from_a_pointer_in_a_block_to_its_card_in_the_answers(tmp_path: Path, server: Https) -> None:
    good, named = card("Beacon", "good.example"), card("Lantern", "own.example")
    server.bodies["good.example", AGENT] = good
    server.bodies["bad.example", AGENT] = card("Another", "bad.example")
    server.bodies["late.example", AGENT] = card("Early", "late.example")
    kit = ChainKit()
    met, wrong = kit.point("good.example", digest(good)), kit.point("bad.example", digest(b"other bytes"))
    inscribed = kit.inscribe(named)
    server.bodies["own.example", AGENT] = card("Anything", "own.example", **{"x-a2b-id": str(inscribed)})
    kit.mine(met, wrong, inscribed, kit.point("late.example"))
    (tmp_path / "blocks").mkdir()
    [file] = kit.write(tmp_path / "blocks")
    with up(tmp_path, server) as running:
        running.until_ready()
        running.until(lambda: running.get("/v1/listings/good.example").get("integrity") == "hash-verified")
        answer = running.get("/v1/listings/good.example")
        assert (answer["name"], answer["cardSha256"], answer["domain"]["verified"]) == (
            "Beacon",
            digest(good).hex(),
            True,
        )
        assert [(anchor["txid"], anchor["met"]) for anchor in answer["anchors"]] == [(str(met)[:64], True)]
        running.until(lambda: "another SHA-256" in running.get("/v1/listings/bad.example").get("detail", ""))
        running.until(lambda: running.get("/v1/listings/late.example").get("integrity") == "unhashed")
        running.until(lambda: running.get(f"/v1/listings/{inscribed}")["domain"]["verified"])
        assert running.get(f"/v1/listings/{inscribed}")["domain"]["by"] == "name"
        shown = {"good.example", str(inscribed)}
        running.until(lambda: {item["id"] for item in running.get("/v1/search?verified=true")["items"]} == shown)
        listed = {*shown, "late.example"}
        running.until(lambda: {item["id"] for item in running.get("/v1/search")["items"]} >= listed)
        everything = {item["id"] for item in running.get("/v1/search")["items"]}
        assert everything == listed, "a mismatch is never listed"
        assert running.get("/v1/search?q=another")["items"] == []
        assert "another SHA-256" in json.dumps(running.get(f"/v1/diagnose/{str(wrong)[:64]}"))
        # the owner serves what was pointed at, and asks for it to be looked at again
        server.bodies["bad.example", AGENT] = b"other bytes"
        body = running.get("/v1/listings/bad.example/recheck", b"{}")
        assert [(check["what"], check["name"], check["code"]) for check in body["checks"]] == [
            ("pointer", "bad.example", "fetch-mismatch")
        ]
        kit.append(file, kit.mine(kit.point("good.example", digest(b"a stranger's"))))
        kit.write_tip(tmp_path / "blocks")
        running.until(lambda: running.get("/v1/status")["chains"][0]["height"] == kit.tip.height)
        assert running.get("/v1/listings/good.example")["cardSha256"] == digest(good).hex()
        code, _ = running.stop()
        assert (code, "Traceback" in running.err) == (0, False)
    assert ("good.example", "/robots.txt") in server.requests
    with up(tmp_path, server) as running:
        running.until_ready()
        assert running.get("/v1/listings/good.example")["integrity"] == "hash-verified", "nothing is forgotten"
