"""Law 26: afterwards, what is live is what a run that never met the liar has, by itself. It costs a few times what an
honest service does.

The lies are those of a service that stumbles or lags, and of a proxy before it: some answers are changed, and then
the service is honest again. Logs that an endpoint leaves out (`eth_getLogs`) come with the second reading of their
blocks; a lie that both readings meet would be believed. What JungleBus leaves out comes while its block is among the
newest six.
"""

from __future__ import annotations

import itertools
import logging
import random
from pathlib import Path

import pytest

from tests.liars.listeners import Pair, pair
from tests.liars.proxy import ALTERATIONS
from tests.liars.services import KINDS, service

REQUESTS, STORED, LOGGED, LOGGED_FOR_ANSWER = 2.0, 1.5, 2.0, 500
"""The bounds: so many times the requests of an honest run, and the characters of its database and of its log; and so
many characters of log more for an altered answer."""

LOOKS_WITHOUT_HONESTY = 3
"""Looks in a row at which a liar may alter answers: what six newer blocks are on top of is not asked for again."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A block that a node served wrongly is asked for again at the next look, and not after a minute; so is what is
    final on an EVM chain. What the program logs is counted."""
    monkeypatch.setattr("indexer.chains.refused_blocks.REFUSED_SECONDS", 0.0)
    monkeypatch.setattr("indexer.chains.evm.chain.FINAL_SECONDS", 0.0)
    caplog.set_level(logging.INFO, "indexer")


async def must_agree(listeners: Pair) -> None:
    """Once the service is honest, the listener comes to what the honest one has, and has used little more."""
    await listeners.settle()
    expected = listeners.honest.state()
    assert expected["live"] or expected["pointers"]
    assert listeners.listener.state() == expected
    usage, honest = listeners.listener.usage(), listeners.honest.usage()
    assert usage.requests <= REQUESTS * honest.requests
    assert usage.stored <= STORED * honest.stored
    assert usage.logged <= LOGGED * honest.logged + LOGGED_FOR_ANSWER * listeners.proxy.altered


@pytest.mark.parametrize(("kind", "lie"), [*itertools.product(KINDS, ALTERATIONS)])
async def test_a_lie_leaves_nothing_behind(kind: str, lie: str, tmp_path: Path) -> None:
    async with service(kind, random.Random(lie), tmp_path) as served, pair(served, tmp_path) as listeners:
        for _ in range(3):
            served.grow()
        assert await listeners.look() == ""
        for answers in (1, 2, 5):
            served.grow()
            listeners.proxy.lie(lie, answers)
            await listeners.look()
            listeners.proxy.honest()
        assert listeners.proxy.altered
        await must_agree(listeners)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
async def test_thirty_random_alterations_and_kills_leave_nothing_behind(kind: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"{kind} {seed}")
    async with service(kind, chance, tmp_path) as served, pair(served, tmp_path) as listeners:
        served.grow()
        await listeners.look()
        looks = 0
        for _ in range(30):
            chance.choice((served.grow, served.branch, lambda: None))()
            listeners.proxy.lie(chance.choice([*ALTERATIONS]), chance.randint(1, 8))
            await listeners.look()
            listeners.later(chance.choice((1, 30, 400)))
            looks += 1
            if looks == LOOKS_WITHOUT_HONESTY or chance.random() < 0.3:
                listeners.proxy.honest()
                await listeners.look()
                looks = 0
            if chance.random() < 0.2:
                await listeners.kill()
        await must_agree(listeners)
