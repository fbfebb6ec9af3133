"""A server that fails for single transactions for ever, while it answers all else: its chain goes on without them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from indexer.chains.junglebus import client
from indexer.errors import SourceUnavailableError
from indexer.settings import Settings
from indexer.store.schema import unproved_transactions
from overlay.app.status_service import StatusService
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import ChainKit, agent
from tests.indexer.chains.test_junglebus import Followed
from tests.junglebus_server import silence


@pytest.fixture
async def followed(tmp_path: Path) -> AsyncIterator[Followed]:
    async with Followed(ChainKit(), tmp_path) as result:
        result.source.client.pauses = (0.0,) * 3
        yield result


def shown(outpoint: Outpoint) -> str:
    return outpoint.txid[::-1].hex()


@pytest.mark.parametrize("route", ["proof", "get"])
async def test_a_transaction_that_the_server_fails_to_deliver_is_unproved_and_named_and_counts_once_it_is(
    followed: Followed, route: str
) -> None:
    kit, server = followed.kit, followed.server
    broken, fine = kit.inscribe(agent("Broken")), kit.inscribe(agent("Fine"))
    kit.mine(kit.pay(), broken, fine)
    kit.mine_empty(9)
    server.bare.add(broken.txid)
    server.broken[route] = {shown(broken)}
    indexing = await followed.look(3)
    assert indexing.live() == {str(fine)}
    assert indexing.followers[0].progress.height == 11
    status = StatusService(Settings.load(), indexing.store, None, "0")
    status.follow(indexing.followers[0].progress, followed.source)
    (chain,) = status.status()["chains"]
    assert chain["state"] == "following"
    assert f"1 transaction waits for a proof: {shown(broken)}" in chain["note"]
    await followed.restart()
    followed.source.client.pauses = (0.0,) * 3
    assert (await followed.look()).live() == {str(fine)}, "it is requested again by the next process, too"
    server.broken.clear()
    assert (await followed.look(2)).live() == {str(fine), str(broken)}
    with followed.indexing.store.engine.connect() as connection:
        assert connection.execute(unproved_transactions.select()).all() == []
    await followed.agrees()


async def test_an_output_whose_spender_the_server_fails_to_name_stops_nothing(followed: Followed) -> None:
    kit, server = followed.kit, followed.server
    echo = kit.inscribe(agent())
    kit.mine(echo)
    kit.mine(moved := kit.move(echo, "bob"))
    kit.mine_empty(2)
    server.broken["spend"] = {str(echo)}
    await followed.look()
    followed.later()
    assert (await followed.look(2)).kinds(echo) == ["inscribed"]
    server.broken.clear()
    followed.later()
    assert (await followed.look(2)).registration(echo)["outpoint"] == str(moved)
    await followed.agrees()


async def test_a_proof_that_never_comes_stops_nothing(followed: Followed) -> None:
    followed.source.client.whole_seconds = 2.0
    kit = followed.kit
    await followed.look()
    kit.mine(kit.inscribe(agent("Silent")))
    for _ in range(client.SLOW_TRIES):
        followed.server.break_off("proof", silence)
    for _ in range(client.SLOW_TRIES - 1):
        with pytest.raises(SourceUnavailableError, match="takes more than"):
            await followed.look()
    await followed.look()
    assert len(followed.source.retries) == 1
    assert followed.indexing.followers[0].progress.height == 2


async def test_one_failure_is_met_by_another_request(followed: Followed) -> None:
    kit = followed.kit
    kit.mine(echo := kit.inscribe(agent()))
    for status in (500, 502, 503):
        followed.server.fail("proof", status)
    assert (await followed.look()).live() == {str(echo)}
    assert followed.source.violations.total == 0
    assert len(followed.source.retries) == 0


async def test_a_server_that_fails_as_a_whole_is_unavailable_and_nothing_is_left_out(followed: Followed) -> None:
    kit, server = followed.kit, followed.server
    await followed.look()
    kit.mine(echo := kit.inscribe(agent()))
    server.follow()
    await followed.source.tip()
    server.broken["proof"] = {shown(echo)}
    server.fail("tip", *[500] * 3)
    followed.source.poll_seconds = 3_600
    for _ in range(3):
        with pytest.raises(SourceUnavailableError, match="tip answers 500"):
            await followed.look()
    assert len(followed.source.retries) == 0
    server.honest()
    server.broken.clear()
    assert (await followed.look()).live() == {str(echo)}


async def test_a_server_whose_proofs_all_fail_is_waited_for(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MOST_REFUSED", 3)
    kit, server = followed.kit, followed.server
    await followed.look()
    cards = [kit.inscribe(agent(f"Agent {number}")) for number in range(5)]
    kit.mine(*cards)
    server.broken["proof"] = {shown(card) for card in cards}
    for _ in range(3):
        with pytest.raises(SourceUnavailableError, match="3 requests of other transactions fail, too"):
            await followed.look()
    server.broken["proof"] = {shown(card) for card in cards[:2]}
    assert (await followed.look()).live() == set(map(str, cards[2:]))
