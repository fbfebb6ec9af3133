"""Names and versions of servers: each name is of one server, and each version of one revision, now and later."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.listings import lookup
from overlay.listings.repository import ListingRepository
from overlay.systems.mcp_registry.server_json import OFFICIAL, response
from overlay.systems.mcp_registry.server_names import listings_named
from overlay.systems.mcp_registry.server_versions import (
    MAX_VERSIONS,
    CardRevision,
    ServerVersion,
    compared,
    version_texts,
    versions,
)
from parsers.cards import McpServer
from parsers.cards.deprecation import Deprecation, map_fields
from tests.chainkit import ChainKit, tool
from tests.fakes import MemoryChain
from tests.indexing import empty, fresh
from tests.overlay.protocols.official_oracle import issues
from tests.pointer_facts import digest

__all__ = ["empty"]

STATED = st.sampled_from(
    (
        "",
        "1.0",
        "0.0.2",
        "0.0.3",
        "0.0.66",
        "1.0+66",
        "1.0+66.66",
        "0.0.0+67",
        "1.x",
        "latest",
        "2.0.0-next",
        "1.0+a.65",
    )
)


def revision(number: int, stated: str) -> CardRevision:
    return CardRevision(number, McpServer(key="a", name="a", version=stated), digest(b"%d" % number), number)


@given(st.lists(STATED, max_size=10), st.lists(STATED, max_size=10), st.integers(0, 150))
def test_no_two_revisions_ever_share_a_version(first: list[str], last: list[str], between: int) -> None:
    """However many revisions follow: the version that is listed for one is that of no other and stays."""
    history = [revision(number, stated) for number, stated in enumerate([*first, *["1.0"] * between, *last], 1)]
    shown: dict[int, str] = {}
    for length in {len(history), len(history) // 2, *range(60, len(history), 7)}:
        read = compared(history[:length])
        texts = version_texts(read, pointed=False)
        assert len(set(texts)) == len(texts)
        for one, text in list(zip(read, texts, strict=True))[-MAX_VERSIONS:]:
            assert shown.setdefault(one.number, text) == text
            assert issues({"name": "a.b/ab", "version": text}) == []
    assert len(set(shown.values())) == len(shown)


def test_a_stated_version_counts_where_no_earlier_revision_has_it() -> None:
    history = [revision(number, stated) for number, stated in enumerate(["0.0.2", "", "0.0.3", "1.x", "1.0", "1.0"], 1)]
    assert version_texts(history, pointed=False) == ["0.0.2", "0.0.3", "0.0.4", "0.0.5", "1.0", "0.0.6"]


def test_cards_of_a_pointer_differ_by_their_hash() -> None:
    one, two, three = (revision(number, "1.0") for number in (1, 2, 3))
    texts = [version_texts([card], pointed=True)[0] for card in (one, two, three)]
    assert texts == ["1.0", f"1.0+{digest(b'2').hex()[:12]}", f"1.0+{digest(b'3').hex()[:12]}"]


def rows(repository: ListingRepository, id_: object) -> list[list[ServerVersion]]:
    return versions(repository, lookup.listings(repository, str(id_)))


async def test_a_revision_without_a_version_does_not_take_that_of_an_earlier_one(empty: Path) -> None:
    kit = ChainKit()
    first = kit.inscribe(tool("dup", description="one", version="0.0.2"), type="a2b-mcp")
    kit.mine(first)
    second = kit.update(first, tool("dup", description="two"))
    kit.mine(second)
    kit.mine(kit.update(second, tool("dup", description="three", version="0.0.2")))
    with fresh(empty, MemoryChain(*kit.blocks, name="demo")) as indexing:
        await indexing.catch_up()
        [listed] = rows(ListingRepository(indexing.store), first)
        assert [(row.version, row.server.description, row.latest) for row in listed] == [
            ("0.0.4", "three", True), ("0.0.3", "two", False), ("0.0.2", "one", False),
        ]  # fmt: skip


async def test_the_newest_versions_of_a_long_history_are_listed_and_stay(empty: Path) -> None:
    kit = ChainKit(funds=2 * MAX_VERSIONS)
    first = last = kit.inscribe(tool("a", version="1.0"), type="a2b-mcp")
    kit.mine(first)
    for number in range(2, MAX_VERSIONS + 3):
        last = kit.update(last, tool("a", version="1.0", description=f"{number}"))
        kit.mine(last)
    with fresh(empty, MemoryChain(*kit.blocks, name="demo")) as indexing:
        await indexing.catch_up()
        [listed] = rows(ListingRepository(indexing.store), first)
        assert len(listed) == MAX_VERSIONS
        assert [row.version for row in listed[:3]] == ["1.0+66", "1.0+65", "0.0.64"]
        assert [row.version for row in listed[-2:]] == ["0.0.4", "0.0.3"]
        assert all(one.changed == two.published for two, one in pairwise(listed))


@pytest.mark.parametrize(
    ("notice", "message"),
    [
        (Deprecation("new_0", "Use the new one."), {"statusMessage": "Use the new one."}),
        (Deprecation("new_0"), {"statusMessage": "Use new_0 instead."}), (Deprecation(), {}),
    ],
)  # fmt: skip
async def test_a_notice_is_the_status_of_every_version(
    notice: Deprecation, message: dict[str, str], empty: Path
) -> None:
    kit = ChainKit()
    first = kit.inscribe(tool("clock"), type="a2b-mcp")
    kit.mine(first)
    second = kit.update(first, tool("clock", description="two"))
    kit.mine(second)
    noticed = kit.map_only(second, map_fields(notice))
    with fresh(empty, MemoryChain(*kit.blocks, kit.mine(noticed), name="demo")) as indexing:
        await indexing.catch_up()
        [listed] = rows(ListingRepository(indexing.store), first)
        official = [response("https://a.example", row)["_meta"][OFFICIAL] for row in listed]
    assert {row["status"] for row in official} == {"deprecated"}
    assert [row.get("statusMessage") for row in official] == [message.get("statusMessage")] * 2
    since = official[0]["statusChangedAt"]
    assert since > official[0]["publishedAt"]
    assert {row["updatedAt"] for row in official} == {since}, "a mirror asks for what was updated"
    kit.mine(kit.map_only(noticed, map_fields(None)))
    with fresh(empty, MemoryChain(*kit.blocks, name="demo")) as indexing:
        await indexing.catch_up()
        [listed] = rows(ListingRepository(indexing.store), first)
        official = [response("https://a.example", row)["_meta"][OFFICIAL] for row in listed]
    assert {row["status"] for row in official} == {"active"}
    assert {row["statusChangedAt"] for row in official} == {row["updatedAt"] for row in official}
    assert official[0]["statusChangedAt"] > since


KEYS: list[list[str]] = [
    ["x"], ["_tool_"], [".hidden."], ["-"], ["天气"], ["a" * 79 + "-b"], ["Foo Bar", "Foo-Bar", "天气", "新闻"],
    ["x", "x-server", "_x", "X"], ["a.", "a", ".a", "a-"], ["a" * 90, "a" * 91],
]  # fmt: skip


@pytest.mark.parametrize("keys", KEYS, ids=[keys[0][:9] for keys in KEYS])
async def test_every_server_has_a_name_of_its_own_that_the_official_registry_takes(
    keys: list[str], empty: Path
) -> None:
    kit = ChainKit()
    card: dict[str, Any] = {"mcpServers": {key: {"command": "npx", "args": ["-y", "tool"]} for key in keys}}
    tx = kit.inscribe(card, type="a2b-mcp")
    kit.mine(tx)
    with fresh(empty, MemoryChain(*kit.blocks, name="demo")) as indexing:
        await indexing.catch_up()
        repository = ListingRepository(indexing.store)
        names = {row.name: row.server.key for of_one in rows(repository, tx) for row in of_one}
        assert sorted(names.values()) == sorted(keys)
        for name, key in names.items():
            assert issues({"name": name, "version": "1"}) == []
            [listing] = listings_named(repository, name)
            assert isinstance(listing.card, McpServer)
            assert listing.card.key == key


async def test_a_key_that_looks_like_the_name_of_another_does_not_take_it(empty: Path) -> None:
    kit = ChainKit()
    names: set[str] = set()
    for keys in (["Foo Bar", "a"], ["Foo Bar", "Foo-Bar-55282c18"]):
        tx = kit.inscribe({"mcpServers": {key: {"command": "npx", "args": ["tool"]} for key in keys}}, type="a2b-mcp")
        kit.mine(tx)
    with fresh(empty, MemoryChain(*kit.blocks, name="demo")) as indexing:
        await indexing.catch_up()
        names = {row.name for of_one in rows(ListingRepository(indexing.store), tx) for row in of_one}
    assert len(names) == 2
    assert sum(name.endswith("/Foo-Bar-55282c18") for name in names) == 1
