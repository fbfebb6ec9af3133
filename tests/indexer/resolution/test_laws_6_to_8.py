"""Laws 6 to 8 on BSV as stories: several servers, near misses, pointers. An oracle reads every story too."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from tests.chain_records import anchors
from tests.chainkit import ChainKit, agent
from tests.chainkit_scripts import MAP_PREFIX, body_of, inscription, map_tape, p2pkh, pointer_script, pushes
from tests.fakes import MemoryChain
from tests.indexer.conftest import Look
from tests.indexing import Indexing

AGENT, TOOL = {"app": "test", "type": "a2b-agent"}, {"app": "test", "type": "a2b-mcp"}
BROKEN = b'{"name":"Echo",'


# -- law 6: one body of several servers is one registration ----------------------------------------------------------


async def test_several_servers_are_one_registration_and_65_are_invalid(kit: ChainKit, look: Look) -> None:
    def servers(count: int) -> dict[str, Any]:
        return {"mcpServers": {f"server {number}": {"command": "x"} for number in range(count)}}

    fits, exceeds = kit.inscribe(servers(64), type="a2b-mcp"), kit.inscribe(servers(65), type="a2b-mcp")
    kit.mine(fits, exceeds)
    indexing = await look(kit)
    assert indexing.live() == {str(fits)}
    assert indexing.rejections() == [(str(exceeds), "mcpServers has more than 64 entries")]


# -- law 7: near misses -----------------------------------------------------------------------------------------------


async def test_map_in_another_output_is_one_near_miss(kit: ChainKit, look: Look) -> None:
    tx = kit.spend([kit.fund()], [(1, inscription(body_of(agent()), {}, "alice")), (0, b"\x00" + map_tape(AGENT))])
    kit.mine(tx)
    assert (await look(kit)).rejections() == [(str(tx.outpoint(0)), "MAP is in another output")]


async def test_map_alone_is_a_near_miss_also_beside_a_registration(kit: ChainKit, look: Look) -> None:
    script = inscription(body_of(agent()), AGENT, "alice")
    tx = kit.spend([kit.fund()], [(1, script), (1, p2pkh("bob") + map_tape(AGENT))])
    kit.mine(tx)
    indexing = await look(kit)
    assert indexing.rejections() == [(str(tx.outpoint(1)), "no ord envelope")]
    assert indexing.live() == {str(tx.outpoint(0))}


async def test_other_peoples_inscriptions_are_nothing_to_us(kit: ChainKit, look: Look) -> None:
    coin = kit.pay(satoshis=1)
    kit.mine(
        kit.inscribe(b"\x89PNG", type=None, content_type="image/png"),
        kit.inscribe({"p": "bsv-20", "op": "mint"}, type=None),
        kit.inscribe(agent(), type="post"),
        kit.inscribe(b"not json", type=None),
        kit.inscribe({"half": "of it"}, type=None, close=False),
        coin,
        kit.map_only(coin, {"app": "blog", "type": "post"}),
    )
    indexing = await look(kit)
    assert (indexing.records(), indexing.store.registrations.counts("demo")["rejected"]) == (
        {"registrations": [], "pointers": [], "rejected": []},
        0,
    )


# -- law 8: pointers --------------------------------------------------------------------------------------------------


async def test_pointers_of_every_form_are_recorded_also_twice_for_one_domain(kit: ChainKit, look: Look) -> None:
    kit.mine(
        kit.point("agents.example"),
        kit.point("agents.example", b"\x07" * 32, false=False),
        kit.point("agents.example", "ab" * 32),
        kit.point("", "cd" * 32, uri="https://agents.example/card.json"),
        kit.point("no domain"),
    )
    indexing = await look(kit)
    pointers = indexing.records()["pointers"]
    assert [item["form"] for item in pointers] == ["none", "raw32", "hex64", "map", "none"]
    assert [item["valid"] for item in pointers] == [True] * 4 + [False]
    assert len(anchors(indexing.store, "agents.example")) == 3


async def test_a_pointer_beside_a_card_is_a_pointer_too(kit: ChainKit, look: Look) -> None:
    tx = kit.spend(
        [kit.fund()],
        [(1, inscription(body_of(agent()), AGENT, "alice")), (0, pointer_script("agents.example", bytes(32)))],
    )
    kit.mine(tx)
    indexing = await look(kit)
    assert indexing.live() == {str(tx.outpoint(0))}
    assert [pointer["outpoint"] for pointer in indexing.records()["pointers"]] == [str(tx.outpoint(1))]


async def test_a_split_pointer_is_one_pointer_at_its_first_output(tmp_path: Path) -> None:
    kit = ChainKit("doge", funds=4)
    whole = b"agents.example " + b"\x07" * 32
    parts = [(0, b"\x6a" + pushes("a2b", f"{number}/2", part)) for number, part in ((1, whole[:20]), (2, whole[20:]))]
    good = kit.spend([kit.fund()], [(9, p2pkh("bob")), *parts])
    bad = kit.spend([kit.fund()], [(9, p2pkh("bob")), *parts[:1]])
    kit.mine(good, bad)
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", MemoryChain(*kit.blocks, coin="doge")) as indexing:
        await indexing.catch_up()
        pointers = indexing.records()["pointers"]
    assert [(item["outpoint"], item["domain"], item["form"], item["valid"]) for item in pointers] == [
        (str(good.outpoint(1)), "agents.example", "split", True),
        (str(bad.outpoint(1)), "", "split", False),
    ]
    assert pointers[0]["hash"] == "07" * 32
    assert pointers[1]["reason"] == "the parts of the split pointer do not make one pointer: found 1/2"


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity"])
async def test_a_card_with_a_content_encoding_is_a_near_miss_that_names_it(encoding: str, look: Look) -> None:
    kit = ChainKit()
    encoded = b"\x59" + pushes(encoding) + b"\x51"
    body = gzip.compress(body_of(agent("Packed")), mtime=0)
    packed = kit.inscribe(body, tag=encoded)
    silent = kit.inscribe(body, type=None, tag=encoded)
    listed = kit.inscribe(agent("One"))
    update = kit.update(listed, agent("Two"), tag=encoded)
    kit.mine(packed, silent, listed, update)
    indexing = await look(kit)
    why = f"the envelope declares the content encoding {encoding}, which is not read: inscribe the card uncompressed"
    assert indexing.rejections() == [(str(packed), why)]
    assert indexing.kinds(listed) == ["inscribed", "invalid"]
    assert indexing.registration(listed)["card"]["name"] == "One"
    assert indexing.registration(listed)["revisions"][1]["reason"] == why


async def test_minus_one_is_a_push_wherever_pushes_are_read(look: Look) -> None:
    kit = ChainKit()
    rest = pushes("app", "test", "type", "a2b-agent")
    first = kit.inscribe(agent(), tag=b"\x57\x4f\x51")
    second = kit.inscribe(agent(), type=None, tail=b"\x6a" + pushes(MAP_PREFIX, "SET", "x") + b"\x4f" + rest)
    kit.mine(first, second)
    assert (await look(kit)).live() == {str(first), str(second)}
