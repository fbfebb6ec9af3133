"""A deprecated listing says so with its successor, is below others, and is found by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.store import FetchState, Store, Writer, block_writer, chain_marks, connect, visits
from overlay.listings import lookup
from overlay.listings.repository import ListingRepository
from parsers.cards.deprecation import Deprecation, map_fields
from tests.chainkit import agent, tool
from tests.facts import says
from tests.overlay.test_unconfirmed import UnconfirmedRegistry
from tests.pointer_facts import NOW, Clock, card, points, serves

NEW = "ab" * 32 + "_0"
NOTICE = map_fields(Deprecation(NEW, "Use the new one."))


@pytest.fixture(params=["native", "whoosh"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[UnconfirmedRegistry]:
    with UnconfirmedRegistry(tmp_path, request.param) as created:
        yield created


async def test_an_owner_deprecates_a_listing_and_takes_it_back(registry: UnconfirmedRegistry) -> None:
    old = registry.kit.inscribe(agent("Echo"))
    other = registry.kit.inscribe(agent("Echo of others", url="https://b.example/"))
    registry.mine(old, other)
    await registry.look()
    assert [item["id"] for item in registry.ask(text="echo")] == [str(old), str(other)]
    noticed = registry.kit.map_only(old, NOTICE)
    registry.announce(noticed)
    await registry.look()
    assert [item for item in registry.ask() if "deprecated" in item] == []
    [pending] = [item["pending"] for item in registry.ask() if "pending" in item]
    text = f"use {NEW}: Use the new one."
    assert pending["changes"] == [{"what": "deprecated", "from": None, "to": text}]
    assert pending["summary"] == f"It adds the deprecation {text}."
    registry.mine(noticed)
    await registry.look()
    first, second = registry.ask(text="echo")
    assert (first["id"], second["id"]) == (str(other), str(old))
    since = second["deprecated"].pop("since")
    assert second["deprecated"] == {"successor": NEW, "message": "Use the new one."}
    assert since > second["timestamp"]
    assert second["updatedHeight"] == 2
    assert [item["id"] for item in registry.ask(deprecated=True)] == [str(old)]
    assert [item["id"] for item in registry.ask(updated_since=registry.kit.tip.time)] == [str(old)]
    assert [item["id"] for item in registry.ask(deprecated=False)] == [str(other)]
    assert ["deprecated" in item for height in (2, 3) for item in registry.as_of(height) if item["id"] == str(old)] == [
        False, True,
    ]  # fmt: skip
    updated = registry.kit.update(noticed, agent("Echo", description="Once more."))
    registry.mine(updated)
    await registry.look()
    [item] = registry.ask(deprecated=True)
    assert (item["updatedHeight"], item["deprecated"]["since"]) == (4, since)
    taken_back = registry.kit.map_only(updated, map_fields(None))
    registry.announce(taken_back)
    await registry.look()
    [item] = registry.ask(deprecated=True)
    assert [change["what"] for change in item["pending"]["changes"]] == ["deprecated"]
    registry.mine(taken_back)
    await registry.look()
    assert [item["id"] for item in registry.ask(updated_since=registry.kit.tip.time)] == [str(old)]
    assert [item["id"] for item in registry.ask(deprecated=False)] == [str(old), str(other)]
    revisions = lookup.history(registry.catalogue, str(old))["revisions"]
    notices = [[row for row in revision.get("changes", ()) if row["what"] == "deprecated"] for revision in revisions]
    assert notices == [
        [{"what": "deprecated", "from": text, "to": None}], [], [{"what": "deprecated", "from": None, "to": text}], [],
    ]  # fmt: skip


async def test_a_newcomer_may_be_deprecated_from_the_beginning(registry: UnconfirmedRegistry) -> None:
    registry.announce(registry.kit.inscribe(agent("Echo"), map=map_fields(Deprecation())))
    await registry.look()
    [item] = registry.ask(deprecated=True)
    assert item["deprecated"] == {"since": None}


async def test_all_servers_of_a_config_are_deprecated_and_its_map_counts_more(registry: UnconfirmedRegistry) -> None:
    config = tool("clock")
    config["mcpServers"]["calendar"] = config["mcpServers"]["clock"]
    config["x-a2b-deprecated"] = {"successor": NEW}
    clock = registry.kit.inscribe(config, "a2b-mcp")
    registry.mine(clock)
    await registry.look()
    assert {item["deprecated"]["successor"] for item in registry.ask()} == {NEW}
    answer = lookup.listing(registry.catalogue, str(clock))
    assert answer["deprecated"]["since"] == answer["timestamp"]
    registry.mine(registry.kit.map_only(clock, map_fields(None)))
    await registry.look()
    assert registry.ask(deprecated=True) == []


@pytest.mark.parametrize("is_hashed", [True, False])
def test_a_pointer_is_deprecated_by_the_card_that_is_served(tmp_path: Path, *, is_hashed: bool) -> None:
    body = card("Echo", **{"x-a2b-deprecated": {"message": "Gone in May."}})
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    store, writer = Store(engine), Writer(engine, Clock(NOW))
    chain_marks.name_chain(writer, "demo", "bsv:regtest")
    block_writer.append(writer, "demo", [says("1", points("a.example", body if is_hashed else None))])
    state = FetchState.MET if is_hashed else FetchState.UNHASHED
    visits.record_fetch(writer, "a.example", serves(NOW + 1_000, body, state=state))
    item = lookup.listing(ListingRepository(store), "a.example")
    assert item["deprecated"]["message"] == "Gone in May."
    assert item["deprecated"]["since"] == (item["timestamp"] if is_hashed else "2027-01-15T08:00:01Z")
    writer.close()
    engine.dispose()
