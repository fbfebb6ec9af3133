"""A registry for a browser to look at: the sample's cards, cards that attack in every field, a chain with witnesses."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from indexer.store import visits
from indexer.store.logos import Logos
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import ChainKit, agent
from tests.conftest import SAMPLE
from tests.fakes import MemoryChain
from tests.pointer_facts import card, digest, serves
from tests.rate_server import RateServer
from tests.serving import new_app, running
from tests.waiting import until, until_told

POINTED = "pointed.example"
POINTED_CARD = card("Pointed at")
LOGO = "https://stories.example/logo.png"

MARKUP = (
    "<script>window.hacked=1</script>\"'><img src=x onerror=window.hacked=1><svg onload=window.hacked=1>"
    "</title></textarea></code></pre><script>window.hacked=1</script>"
)
TEMPLATES = (
    "{{7*7}}${7*7}<%= 7*7 %>&lt;script&gt;window.hacked=1&lt;/script&gt;<a href=javascript:window.hacked=1>x</a>"
    "<iframe srcdoc='<script>parent.hacked=1</script>'>\u202egnp.exe\u202c\u200b\x07\x1b[31m"
)
ATTRIBUTES = (
    "' autofocus onfocus=window.hacked=1 x='<style>*{display:none}</style><base href=//evil.example>"
    "<meta http-equiv=refresh content=0;url=//evil.example><b onmouseover=window.hacked=1>"
)
ATTACKS = (
    MARKUP, TEMPLATES, ATTRIBUTES, "javascript:window.hacked=1", "data:text/html,<script>window.hacked=1</script>",
)  # fmt: skip
"""Texts that a stranger may write into a card or search for: markup in every context, schemes that run, templates,
direction."""


WIDE = f"a {50 * chr(0x3000)}x"
"""Spaces between which no line may end."""


def attack_agent(text: str) -> dict[str, Any]:
    """An agent's card that says the same everywhere."""
    return {
        "name": f"Attack {text}", "description": text, "version": text, "url": text if ":" in text[:12] else "https://a.b",
        "iconUrl": text, "documentationUrl": text, "tags": [text, f"tag {text}"],
        "provider": {"organization": text, "url": text},
        "skills": [{"id": text, "name": text, "description": text, "tags": [text], "examples": [text]}],
        "x-payment-config": [{
            "id": text, "name": text, "currency": "USD", "amount": 1, "interval": text, "description": text,
            "skillIds": [text], "address": text, "acceptedCurrencies": ["USD", text[:16]], "priceFeedUrl": text,
        }],
    }  # fmt: skip


def attack_tool(text: str) -> dict[str, Any]:
    """A config that says the same everywhere."""
    server = {
        "command": text, "args": [text, text], "env": {text: text}, "description": text, "title": text,
        "tools": [{"name": text, "description": text}], "keywords": [text], "version": text, "icon": text,
        "prompts": [text], "resources": [text],
    }  # fmt: skip
    return {"mcpServers": {f"Attack {text}": server}}


class World:
    """A registry that is served at `url`. `kit` mints blocks of `chain`; `other` has witnesses."""

    def __init__(self) -> None:
        self.kit, self.ids = ChainKit(funds=160), dict[str, Outpoint]()
        self._fill()
        self.chain = MemoryChain(*self.kit.blocks, name="bsv")
        other = ChainKit("btc")
        self.ids["witness"] = other.reveal(agent("Witness", description="x" * 1_300, iconUrl=""))
        other.mine(self.ids["witness"])
        self.other = MemoryChain(*other.blocks, name="btc", coin="btc")
        self.url = ""
        self.logos: Logos

    def _fill(self) -> None:
        stated = json.loads((SAMPLE / "expected.json").read_text())["registrations"]
        created = [
            (item["card"], item["kind"] if "kind" in item else item["type"])
            for item in stated
            if item["status"] == "live"
        ]
        minted = [self.kit.inscribe(card, "a2b-mcp" if kind == "tool" else "a2b-agent") for card, kind in created]
        self.kit.mine(*minted)
        for number, text in enumerate(ATTACKS):
            self.ids[f"agent {number}"] = self.kit.inscribe(attack_agent(text), owner="mallory")
            self.ids[f"tool {number}"] = self.kit.inscribe(attack_tool(text), "a2b-mcp", owner="mallory")
        self.ids["wide agent"] = self.kit.inscribe(attack_agent(WIDE), owner="mallory")
        self.ids["wide tool"] = self.kit.inscribe(attack_tool(WIDE), "a2b-mcp", owner="mallory")
        self.kit.mine(*list(self.ids.values()))
        self.ids["story"] = story = self.kit.inscribe(_story(1, "0.002"))
        self.kit.mine(story)
        newer = self.kit.update(story, _story(2, "0.005", description="Now with weather."))
        self.kit.mine(newer)
        self.kit.mine(self.kit.update(newer, b"{broken"))
        self.ids["tool"] = self.kit.inscribe(
            {"mcpServers": {"clock": {"command": "npx", "args": ["-y", "@example/clock"], "env": {"ZONE": "A zone"}}}},
            "a2b-mcp",
        )
        self.kit.mine(self.ids["tool"])
        self.kit.mine(self.kit.point(POINTED, digest(POINTED_CARD)))

    def page(self, name: str) -> str:
        """The path of the page of one of `ids`."""
        return f"/listings/{self.ids[name]}"

    def mine(self, *what: Outpoint) -> None:
        """A block with these transactions arrives."""
        for item in what:
            self.chain.unconfirmed.pop(item.txid, None)
        self.chain.arrive(self.kit.mine(*what))

    def announce(self, what: Outpoint) -> None:
        """A transaction is seen in the mempool."""
        self.chain.unconfirmed[what.txid] = self.kit.raw(what)


def _story(number: int, amount: str, **more: Any) -> dict[str, Any]:
    price = {"id": "call", "currency": "BSV", "amount": amount, "acceptedCurrencies": ["BSV", "USD"], "depositPct": 0.2}
    skill = {"id": "tellStories", "name": "Tell stories", "description": "Any length.", "tags": ["stories"]}
    return {
        "name": "Storyteller", "description": "Tells stories. One a day.", "version": f"{number}.0",
        "url": "https://stories.example", "iconUrl": LOGO, "skills": [skill], "x-payment-config": [price], **more,
    }  # fmt: skip


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[World]:
    """A world, served with exchange rates until the end."""
    world = World()
    async with RateServer() as rates:
        rates.tell("/bsv", {"USD": 50, "EUR": 45, "BTC": "0.0005"})
        feed = f"BSV=http://127.0.0.1:{rates.port}/bsv"
        setup = new_app(folder, world.chain, world.other, rates=feed, rates_every=1)
        world.logos = Logos(setup.store.engine)
        assert setup.writer is not None
        async with running(setup) as (runner, task):
            usable = runner.status.exchange.usable
            await until(lambda: task.done() or (runner.url and runner.status.ready() is None and usable()))
            assert not task.done(), task.exception()
            world.url = runner.url
            begun = int(time.time() * 1000)
            await asyncio.to_thread(visits.record_fetch, setup.writer, POINTED, serves(begun, POINTED_CARD))
            async with ClientSession(world.url) as session:
                for name in ("Witness", "Pointed at"):
                    await until_told(session, f"/v1/search?q={name}", lambda page: page["items"])
            yield world
