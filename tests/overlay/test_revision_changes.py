"""A history says of each revision what it changed: prices, addresses, URLs, commands, skills and owners."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from overlay.listings import lookup
from tests.chainkit import agent, tool
from tests.overlay.test_unconfirmed import UnconfirmedRegistry


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[UnconfirmedRegistry]:
    with UnconfirmedRegistry(tmp_path, "native") as created:
        yield created


def changes(registry: UnconfirmedRegistry, id_: str) -> list[Any]:
    """The changes of each revision, the newest first."""
    return [revision.get("changes") for revision in lookup.history(registry.catalogue, id_)["revisions"]]


def priced(amount: int, **members: Any) -> dict[str, Any]:
    return agent("Echo", **{"x-payment-config": {"id": "p", "currency": "USD", "amount": amount}}, **members)


async def test_each_revision_says_what_it_changed(registry: UnconfirmedRegistry) -> None:
    echo = registry.kit.inscribe(priced(1))
    registry.mine(echo)
    dearer = registry.kit.update(echo, priced(9, url="https://b.example/"))
    registry.mine(dearer)
    words = registry.kit.update(dearer, priced(9, url="https://b.example/", description="In other words."))
    registry.mine(words)
    registry.announce(registry.kit.move(words, "bob"))
    await registry.look()
    moved, reworded, updated, first = changes(registry, str(echo))
    assert first is reworded is None
    assert [(change["what"], change["from"], change["to"]) for change in updated] == [
        ("url", agent("Echo")["url"], "https://b.example/"), ("price", "1 USD", "9 USD"),
    ]  # fmt: skip
    assert [change["what"] for change in moved] == ["owner"]
    assert moved[0]["from"] != moved[0]["to"]


async def test_a_revision_that_does_not_count_changes_nothing(registry: UnconfirmedRegistry) -> None:
    echo = registry.kit.inscribe(priced(1))
    registry.mine(echo)
    broken = registry.kit.update(echo, {"name": ""})
    registry.mine(broken)
    registry.mine(registry.kit.update(broken, priced(2)))
    await registry.look()
    newest, invalid, first = changes(registry, str(echo))
    assert invalid is first is None
    assert newest == [{"what": "price", "from": "1 USD", "to": "2 USD"}]


async def test_servers_are_compared_by_their_keys(registry: UnconfirmedRegistry) -> None:
    config = tool("clock")
    config["mcpServers"]["calendar"] = config["mcpServers"]["clock"] | {"command": "calendar"}
    clock = registry.kit.inscribe(config, "a2b-mcp")
    registry.mine(clock)
    servers = config["mcpServers"]
    later = {
        "clock": servers["clock"] | {"command": "evil"},
        "calendar": servers["calendar"],
        "new": {"command": "more"},
    }
    registry.mine(registry.kit.update(clock, {"mcpServers": later}))
    await registry.look()
    newest, _ = changes(registry, str(clock))
    assert [change["what"] for change in newest] == ["command", "command"]
    assert newest[0]["to"].startswith("evil")
    assert newest[1] == {"what": "command", "from": None, "to": "more"}
