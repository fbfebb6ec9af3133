"""A batch of cards in one tapscript, as its publisher meets it: by HTTP, on the pages and at the command line."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

from tests.chainkit import ChainKit, agent, tool
from tests.chainkit_scripts import batch, body_of, p2pkh, tapscript
from tests.running import Running, a2b

AGENT, TOOL = {"app": "test", "type": "a2b-agent"}, {"app": "test", "type": "a2b-mcp"}
SERVERS = {"mcpServers": {name: tool(name)["mcpServers"][name] for name in ("1", "two")}}


def test_every_card_of_a_batch_is_a_listing_of_its_own_everywhere(tmp_path: Path) -> None:
    kit = ChainKit("ltc")
    scripts = [tapscript(body_of(SERVERS), map=TOOL), tapscript(body_of(agent("Shared")), map=AGENT)]
    unbound = tapscript(body_of(agent("Unbound")), map=AGENT, before=[(b"\x04", b"x")])
    witness = (b"\x51" * 64, batch(*scripts, unbound), b"\xc0" + bytes(32))
    tx = kit.spend([kit.fund()], [(10_000, p2pkh("alice"))], witnesses=[witness])
    kit.mine(tx)
    kit.mine_empty(1)
    (tmp_path / "blocks").mkdir()
    kit.write(tmp_path / "blocks")
    first = str(tx.outpoint(0))
    ids = {f"{first}#1": "Shared", f"{first}#%31": "1", f"{first}#two": "two"}
    chains = f"demo=files:{tmp_path / 'blocks'}?chain=ltc&network=regtest"
    with Running("up", cwd=tmp_path, A2B_CHAINS=chains, A2B_PORT="0", A2B_LOG="text") as up:
        up.until_ready()
        assert {item["id"] for item in up.get("/v1/search?limit=10")["items"]} == set(ids)
        assert up.get(f"/v1/listings/{first}")["servers"] == [f"{first}#%31", f"{first}#two"]
        for id_, name in ids.items():
            segment = quote(id_, safe="")
            item = up.get(f"/v1/listings/{segment}")
            assert (item["id"], item.get("serverName") or item["name"]) == (id_, name)
            assert up.get(f"/v1/listings/{segment}/history")["revisions"][0]["kind"] == "inscribed"
            assert up.get(f"/v1/listings/{segment}/proof")["outpoint"] == first
            with urlopen(f"{up.url}/listings/{segment}") as page:  # noqa: S310 - http only
                assert name in page.read().decode()
            verified = a2b("verify", id_, "--url", up.url, "--chain", "ltc:regtest", cwd=tmp_path)
            assert verified.returncode == 0, verified.stdout + verified.stderr
        diagnosis = up.get(f"/v1/diagnose/{tx.hex_id}")
        assert {record.get("id") for record in diagnosis["records"]} == {first, f"{first}#1", None}
        (miss,) = [record for record in diagnosis["records"] if record["outcome"] == "rejected"]
        assert (miss["outpoint"], miss["owner"], miss["reasons"][0]["code"]) == (None, None, "unbound")
        up.stop()
    shown = a2b("show", f"{first}#1", "--json", cwd=tmp_path)
    assert json.loads(shown.stdout)["name"] == "Shared"
