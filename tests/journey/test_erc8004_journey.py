"""From the logs of an identity registry to HTTP answers: files on chain, files fetched, other agents beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import trustme

from parsers.pointers.erc8004 import entry_id
from tests import registry_kit as kit
from tests.evm_server import CONTRACT, EvmServer, says
from tests.hostile import Hostile, answer, raw
from tests.overlay.calls import get
from tests.pointer_facts import card
from tests.registry_kit import data_uri, file
from tests.serving import built, serving
from tests.waiting import until_told

ALICE, BOB = "0x" + "a1" * 20, "0x" + "b0" * 20
HOST = "weather.example"
OTHERS = "0x" + "0a2b" * 10
"""The contract that pointers stand in."""


def row(log: kit.Log) -> dict[str, Any]:
    return {"address": CONTRACT, "topics": [f"0x{topic.hex()}" for topic in log.topics], "data": f"0x{log.data.hex()}"}


def ids(page: Any) -> list[str]:
    return sorted(item["id"] for item in page["items"])


def listing(id_: str) -> str:
    return f"/v1/listings/{quote(id_, safe='')}"


async def test_a_file_on_chain_is_found_revised_sold_and_burned(tmp_path: Path) -> None:
    tool = file("Sky Tool", services=[{"name": "MCP", "endpoint": "https://sky.example/mcp", "mcpTools": ["get_sky"]}])
    async with EvmServer(number=31337) as server:
        entry, other = (entry_id("eip155:31337", CONTRACT, agent) for agent in (22, 23))
        server.mine(row(kit.registered(22, data_uri(file()), ALICE)), row(kit.registered(23, data_uri(tool), ALICE)))
        async with serving(built(tmp_path, f"erc8004={server.base}?contract={CONTRACT}")) as session:
            page = await until_told(session, "/v1/search?q=weather", lambda page: page["items"])
            assert ids(page) == [entry]
            (item,) = page["items"]
            answers = ("type", "status", "integrity", "owner", "chain", "caip2", "protocol", "updatedHeight")
            assert [item[key] for key in answers] == [
                "agent", "live", "inscribed", ALICE, "erc8004", "eip155:31337", "ERC-8004", 1,
            ]  # fmt: skip
            assert [skill["id"] for skill in item["skills"]] == ["forecast", "get_forecast"]
            (item,) = (await until_told(session, "/v1/search?type=tool&skillId=get_sky", lambda page: page["items"]))[
                "items"
            ]
            assert (item["id"], item["url"], item["tools"]) == (other, "https://sky.example/mcp", ["get_sky"])
            assert await get(session, f"{listing(entry)}/card") == file()
            # as others spell it, with the checksum in the letters' case
            spelt = entry.replace("c0de", "C0dE")
            assert (await get(session, listing(spelt)))["id"] == entry
            assert ids(await get(session, f"/v1/search?owner={ALICE.replace('a1', 'A1')}")) == [entry, other]
            server.mine(row(kit.uri_updated(22, data_uri(file("Storm Agent")), ALICE)))
            server.mine(row(kit.transfer(22, ALICE, BOB)))
            await until_told(session, f"/v1/search?q=storm&owner={BOB}", lambda page: ids(page) == [entry])
            assert (await get(session, "/v1/search?q=weather"))["total"] == 0
            history = await until_told(
                session, f"{listing(entry)}/history", lambda reported: len(reported["revisions"]) == 3
            )
            assert [revision["kind"] for revision in history["revisions"]] == ["moved", "reinscribed", "inscribed"]
            server.mine(row(kit.transfer(22, BOB, kit.NOBODY)))
            await until_told(session, listing(entry), lambda item: item["status"] == "burned")
            await until_told(session, "/v1/search?q=storm", lambda page: entry not in ids(page))


async def test_a_file_elsewhere_is_fetched_and_one_search_spans_both_worlds(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with EvmServer(number=31337) as server, Hostile(authority, [HOST]) as web:
        server.contracts[OTHERS] = "0x6001"
        entry = entry_id("eip155:31337", CONTRACT, 22)
        web.say("/robots.txt", raw(answer("404 Not Found")))
        web.say("/registration.json", raw(answer("200 OK", json.dumps(file()).encode())))
        web.say("/.well-known/agent.json", raw(answer("200 OK", card("Weather Pointer"))))
        server.mine(
            row(kit.registered(22, f"https://{HOST}/registration.json", ALICE)),
            {**says(f"https://{HOST}/.well-known/agent.json"), "address": OTHERS},
            row(kit.registered(23, "http://not.example/", ALICE)),
        )
        chains = f"erc8004={server.base}?contract={CONTRACT} evm={server.base}?contract={OTHERS}"
        more = {"fetch_resolve": f"{HOST}:443=127.0.0.1:{web.port}", "fetch_ca_file": str(tmp_path / "ca.pem")}
        async with serving(built(tmp_path, chains, **more)) as session:
            page = await until_told(session, "/v1/search?q=weather", lambda page: len(page["items"]) == 2)
            assert ids(page) == [entry, HOST]
            item = await get(session, listing(entry))
            assert (item["name"], item["integrity"], item["owner"]) == ("Weather Agent", "unhashed", ALICE)
            assert item["fetchedFrom"] == f"https://{HOST}/registration.json"
            assert ids(await get(session, "/v1/search?chain=evm")) == [HOST]
            server.mine(row(kit.uri_updated(22, data_uri(file("Cloud Agent")), ALICE)))
            await until_told(session, "/v1/search?q=cloud", lambda page: ids(page) == [entry])
            item = await until_told(session, listing(entry), lambda item: item["name"] == "Cloud Agent")
            assert item["integrity"] == "inscribed"
            server.mine(row(kit.uri_updated(22, f"https://{HOST}/registration.json", ALICE)))
            item = await until_told(session, listing(entry), lambda item: item["name"] == "Weather Agent")
            assert (item["integrity"], item["updatedHeight"]) == ("unhashed", 3)
            await until_told(session, "/v1/search?q=cloud", lambda page: ids(page) == [])
            server.mine(row(kit.uri_updated(22, data_uri(file("Fog Agent")), ALICE)))
            server.mine(row(kit.uri_updated(22, f"https://{HOST}/nothing-there", ALICE)))
            await until_told(
                session, f"{listing(entry)}/history", lambda reported: reported["revisions"][0]["height"] == 5
            )
            item = await until_told(session, listing(entry), lambda item: item["name"] == "Fog Agent")
            assert (item["integrity"], item["updatedHeight"]) == ("inscribed", 4), "what is not served silences nothing"
