"""Stories of a chain followed through a subscription: what matches is read, what does not is asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from sqlalchemy import select

from indexer.chains import create
from indexer.chains.junglebus.chain import JungleBusChain
from indexer.errors import SourceError, SourceUnavailableError
from indexer.headers.header_chain import HeaderChain
from indexer.headers.networks import Checkpoint, network
from indexer.model import BlockRef
from indexer.settings import Settings
from indexer.store import block_writer
from indexer.store.schema import proofs, unproved_transactions
from overlay.app.status_service import StatusService
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.indexer.chains.following import Restartable
from tests.indexing import Indexing
from tests.junglebus_server import SUBSCRIPTION, JungleBus, bump_of


class Followed(Restartable):
    """An indexer of a JungleBus server of a mint, and one that reads all bytes of the same blocks."""

    def __init__(self, kit: ChainKit, folder: Path) -> None:
        self.kit, self.folder = kit, folder
        super().__init__(JungleBus(kit), f"sqlite:///{folder}/jungle.db")

    def later(self) -> None:
        """Ten minutes pass for whoever asks where owners are."""
        owners = self.indexing.followers[0].outpoint_monitor
        assert owners is not None
        now = owners.now() + 600
        owners.now = lambda: now

    async def look(self, times: int = 1) -> Indexing:
        """The server's chain is the mint's; look at it so often, as the loop does."""
        self.server.follow()
        for _ in range(times):
            await self.indexing.catch_up()
        return self.indexing

    async def agrees(self) -> None:
        """Registrations are those of an index of all bytes; heights and blocks too."""
        chain = MemoryChain(*self.server.best)
        with Indexing(f"sqlite:///{self.folder}/whole.db", chain) as whole:
            await whole.catch_up()
            expected, result = whole.records(), self.indexing.records()
            for item in (expected, result):
                item.pop("rejected")
            assert result == expected
            assert self.indexing.store.blocks.newest("demo") == whole.store.blocks.newest("demo")
        for suffix in ("", "-wal", "-shm", ".lock"):
            (self.folder / f"whole.db{suffix}").unlink(missing_ok=True)


@pytest.fixture
async def followed(tmp_path: Path) -> AsyncIterator[Followed]:
    async with Followed(ChainKit(), tmp_path) as result:
        yield result


async def test_a_registration_is_read_from_what_the_subscription_delivers(followed: Followed) -> None:
    echo = followed.kit.inscribe(agent())
    followed.kit.mine(followed.kit.pay(), echo, followed.kit.pay())
    followed.kit.mine_empty(3)
    indexing = await followed.look()
    assert indexing.registration(echo)["outpoint"] == str(echo)
    await followed.agrees()


async def test_its_proof_is_kept_with_it(followed: Followed) -> None:
    echo = followed.kit.inscribe(agent())
    block = followed.kit.mine(followed.kit.pay(), echo)
    indexing = await followed.look()
    with indexing.store.engine.connect() as connection:
        stored = connection.execute(select(proofs.c.raw, proofs.c.bump)).all()
    assert [tuple(row) for row in stored] == [(followed.kit.raw(echo), bump_of(block, echo.txid))]


async def test_what_two_pages_lack_and_a_third_delivers_is_read(followed: Followed) -> None:
    kit, server = followed.kit, followed.server
    kit.mine(echo := kit.inscribe(agent()))
    server.unmatched.add(echo.txid)
    await followed.look()
    server.unmatched.clear()
    lacks = iter((False, False, True))  # a page that has it and the one after it, and that of the second reading
    server.alter("page", lambda rows: [] if next(lacks, False) else rows)
    await followed.look(3)
    await followed.agrees()


async def test_a_transaction_proved_late_is_read_again_in_each_branch_that_has_it_at_this_height(
    followed: Followed,
) -> None:
    kit, server = followed.kit, followed.server
    kit.mine(echo := kit.inscribe(agent()))
    for fork in (False, True):
        if fork:
            kit.mine(echo, parent=kit["1"])
            kit.mine_empty(10, parent=kit["2a"])
        server.unproved.add(echo.txid)
        await followed.look()
        server.unproved.clear()
        await followed.look(2)
        await followed.agrees()


async def test_an_update_that_is_delivered_wins(followed: Followed) -> None:
    echo = followed.kit.inscribe(agent("Echo"))
    followed.kit.mine(echo)
    await followed.look()
    followed.kit.mine(followed.kit.update(echo, agent("Echo 2")))
    indexing = await followed.look()
    assert indexing.kinds(echo) == ["inscribed", "reinscribed"]
    await followed.agrees()


async def test_moves_that_are_not_delivered_are_found_before_their_blocks_are_read(followed: Followed) -> None:
    kit = followed.kit
    echo = kit.inscribe(agent())
    kit.mine(echo)
    bob = kit.move(echo, "bob")
    carol = kit.move(bob, "carol")
    kit.mine_empty(2)
    kit.mine(bob, kit.pay(), carol)
    kit.mine(kit.pay(), kit.burn(carol))
    indexing = await followed.look()
    assert indexing.kinds(echo) == ["inscribed", "moved", "moved", "burned"]
    assert all(change.op != "revert" for change in indexing.changes()), "nothing was read twice"
    await followed.agrees()


async def test_a_move_later_on_is_found_by_asking_where_the_owner_is(followed: Followed) -> None:
    kit = followed.kit
    echo = kit.inscribe(agent())
    kit.mine(echo)
    assert (await followed.look()).kinds(echo) == ["inscribed"]
    moved = kit.move(echo, "bob")
    kit.mine(moved)
    kit.mine_empty(2)
    await followed.look()
    followed.later()
    indexing = await followed.look(2)
    assert indexing.kinds(echo) == ["inscribed", "moved"]
    assert indexing.registration(echo)["owner"] == kit.address("bob")
    await followed.agrees()


async def test_a_transaction_counts_as_read_only_when_its_block_was_read_with_it(followed: Followed) -> None:
    """Proved, and then the server fails until the program is stopped, before the block could be read again."""
    kit, server = followed.kit, followed.server
    for name in ("Echo", "Bela"):
        block = kit.mine(kit.inscribe(agent(name)))
        server.unproved |= set(block.txids)
        await followed.look()
    kit.mine_empty(10)
    await followed.look()
    server.unproved.clear()

    async def proof(_: web.Request) -> web.Response:
        return web.Response(body=bump_of(kit["2"], kit["2"].txids[1]))

    server.break_off("proof", proof)
    server.fail("proof", 429)  # one of status 500 would be left out, and not end the look
    for _ in range(2):
        with pytest.raises(SourceUnavailableError):
            await followed.look()
    await followed.restart()
    await followed.look(2)
    await followed.agrees()


async def test_what_is_unproved_is_still_waited_for_after_a_restart(followed: Followed) -> None:
    kit = followed.kit
    echo = kit.inscribe(agent())
    kit.mine(echo)
    followed.server.unproved.add(echo.txid)
    kit.mine_empty(10)
    assert (await followed.look()).records()["registrations"] == []
    await followed.restart()
    followed.server.unproved.clear()
    await followed.look(2)
    await followed.agrees()
    with followed.indexing.store.engine.connect() as connection:
        assert connection.execute(select(unproved_transactions)).all() == []


async def test_what_was_found_outlives_a_restart_and_needs_no_second_finding(followed: Followed) -> None:
    kit = followed.kit
    echo = kit.inscribe(agent())
    kit.mine(echo)
    kit.mine(kit.move(echo, "bob"))
    await followed.look()
    await followed.restart()
    indexing = await followed.look()
    block_writer.forget(indexing.writer, "demo", 1)
    followed.server.unspent |= {echo}
    assert (await followed.look()).kinds(echo) == ["inscribed", "moved"]
    await followed.agrees()


async def test_burns_are_found_too(followed: Followed) -> None:
    kit = followed.kit
    echo = kit.inscribe(agent())
    kit.mine(echo)
    await followed.look()
    kit.mine(kit.burn(echo))
    followed.later()
    assert (await followed.look(3)).kinds(echo) == ["inscribed", "burned"]
    await followed.agrees()


async def test_transactions_left_out_of_a_page_are_fetched(followed: Followed) -> None:
    echo = followed.kit.inscribe(agent())
    followed.kit.mine(echo)
    followed.server.bare.add(echo.txid)
    assert (await followed.look()).live() == {str(echo)}
    assert f"/transaction/get/{echo.txid[::-1].hex()}/bin" in followed.server.requests


async def test_many_matches_come_in_pages(followed: Followed) -> None:
    kit = followed.kit
    created = [kit.inscribe(agent(f"agent {number}")) for number in range(20)]
    kit.mine(*created[:8])
    kit.mine(*created[8:9])
    kit.mine(*created[9:])
    indexing = await followed.look()
    assert indexing.live() == set(map(str, created))
    await followed.agrees()


@pytest.mark.parametrize("depth", [1, 3, 7])
async def test_a_reorganisation_is_followed_and_transactions_are_proved_again(followed: Followed, depth: int) -> None:
    kit = followed.kit
    echo, other = kit.inscribe(agent()), kit.inscribe(agent("Other"))
    kit.mine(echo)
    fork = kit.tip
    moved = kit.move(echo, "bob")
    kit.mine(moved)
    kit.mine_empty(depth - 1)
    await followed.look()
    assert followed.indexing.kinds(echo) == ["inscribed", "moved"]
    kit.mine(other, parent=fork)
    kit.mine(moved)
    kit.mine_empty(depth)
    indexing = await followed.look(3)
    assert indexing.kinds(echo) == ["inscribed", "moved"]
    assert indexing.live() == {str(echo), str(other)}
    assert any(change.op == "revert" for change in indexing.changes())
    await followed.agrees()


async def test_matches_are_found_though_the_server_sent_the_block_first(followed: Followed) -> None:
    kit = followed.kit
    echo = kit.inscribe(agent())
    kit.mine(echo)
    kit.mine_empty(2)
    followed.server.unmatched.add(echo.txid)
    assert (await followed.look()).live() == set()
    followed.server.unmatched.clear()
    assert (await followed.look(2)).live() == {str(echo)}
    await followed.agrees()


async def test_a_transaction_without_a_proof_counts_only_once_there_is_one(followed: Followed) -> None:
    kit = followed.kit
    echo = kit.inscribe(agent())
    kit.mine(echo)
    kit.mine_empty(9)
    followed.server.unproved.add(echo.txid)
    assert (await followed.look(2)).live() == set()
    assert f"1 transaction waits for a proof: {echo.txid[::-1].hex()}" in followed.source.warning
    followed.server.unproved.clear()
    assert (await followed.look(2)).live() == {str(echo)}
    assert followed.source.violations.total == 0
    await followed.agrees()


async def test_values_of_parents_come_from_their_bytes(followed: Followed) -> None:
    kit = followed.kit
    echo = kit.inscribe(agent())
    kit.mine(echo)
    await followed.look()
    kit.mine(kit.displace(echo, agent("Elsewhere")))
    followed.later()
    assert (await followed.look(2)).kinds(echo) == ["inscribed", "burned"]
    await followed.agrees()


async def test_the_state_hash_cannot_be_known_and_never_can_again(followed: Followed) -> None:
    kit = followed.kit
    kit.mine(kit.inscribe(agent()))
    indexing = await followed.look()
    assert indexing.hashes(range(3)) == {0: None, 1: None, 2: None}
    whole = MemoryChain(*kit.blocks)
    kit.mine()
    whole.arrive(kit.tip)
    indexing.chains, indexing.followers = (whole,), []
    await indexing.catch_up()
    assert indexing.hashes([3]) == {3: None}


async def test_the_time_of_an_owner_check_is_stored_and_shown(followed: Followed) -> None:
    kit = followed.kit
    echo = kit.inscribe(agent())
    kit.mine(echo)
    indexing = await followed.look(2)
    checked = indexing.store.spend_checks.unspent_at("demo", [echo])
    assert set(checked) == {echo}
    assert [change.reason for change in indexing.changes()] == ["inscribed", "owner-checked"]
    assert await indexing.followers[0].outpoint_monitor.still_unspent(echo) is True
    kit.mine(kit.move(echo))
    followed.server.follow()
    assert await indexing.followers[0].outpoint_monitor.still_unspent(echo) is None, (
        "the header of that block is not known yet"
    )
    assert followed.source.violation_count == 0, "a block that was just mined is not a violation"
    await followed.look()
    assert await indexing.followers[0].outpoint_monitor.still_unspent(echo) is False
    assert (await followed.look()).kinds(echo) == ["inscribed", "moved"]
    assert indexing.store.spend_checks.unspent_at("demo", [echo]) == {}


async def test_status_says_in_words_what_cannot_be_known(followed: Followed) -> None:
    followed.kit.mine(followed.kit.inscribe(agent()))
    indexing = await followed.look()
    service = StatusService(Settings.load({"chains": "demo=junglebus:abc"}), indexing.store, None, "1")
    service.follow(indexing.followers[0].progress)
    for progress in service.progress.values():
        service.update_state_hash(progress.name)
    status = service.status()
    (row,) = status["chains"]
    assert (row["state"], row["complete"], row["caught"]) == ("following", False, 0)
    assert "whether any is missing cannot be known" in row["note"]
    assert "merkle path" in row["checked"]
    assert status["stateHash"] == {"demo": {"height": 2, "hash": None, "pointers": None}}


async def test_a_process_that_only_serves_says_so_too(followed: Followed) -> None:
    followed.kit.mine(followed.kit.inscribe(agent()))
    indexing = await followed.look()
    status = StatusService(Settings.load(), indexing.store, None, "1").status()
    (row,) = status["chains"]
    assert (row["state"], row["complete"]) == ("stored", False)
    assert "no state hash" in row["note"]


async def test_the_token_goes_with_every_request_and_nowhere_else(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    chain = followed.server.chain(more="&token=sesame")
    await chain.open()
    assert followed.server.tokens == {"sesame"}
    assert "sesame" not in caplog.text + chain.warning + chain.checked + repr(followed.server.requests)
    await chain.close()


async def test_reading_starts_at_the_configured_height(followed: Followed) -> None:
    kit = followed.kit
    before, after = kit.inscribe(agent("before")), kit.inscribe(agent("after"))
    kit.mine(before)
    kit.mine_empty(3)
    kit.mine(after)
    followed.server.follow()
    followed.source.first = 4
    assert (await followed.look()).live() == {str(after)}
    newest = followed.indexing.store.blocks.newest("demo")
    assert newest is not None
    assert newest.hash == kit.tip.hash


async def test_headers_begin_below_a_checkpoint_and_end_at_the_tip(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = followed.kit
    kit.mine_empty(40)
    echo = kit.inscribe(agent())
    kit.mine(echo)
    followed.server.follow()
    monkeypatch.setattr("indexer.headers.header_chain.LEAD", 3)
    existing = network("bsv", "regtest")
    chain = JungleBusChain("bsv", SUBSCRIPTION, followed.server.url, existing, {}, None)
    other = JungleBusChain("bsv", SUBSCRIPTION, followed.server.url, existing, {}, None)
    for item, block in ((chain, kit["20"]), (other, kit["21"])):
        monkeypatch.setattr(
            "indexer.headers.header_chain.checkpoints", lambda _, block=block: (Checkpoint(20, block.hash),)
        )
        item.headers = item.prover.headers = HeaderChain("bsv", existing)
        item.first, item.finality = 30, None
    try:
        await chain.open()
        assert await chain.tip() == BlockRef("bsv", 42, kit.tip.hash, kit.tip.prev, kit.tip.time, kit.tip.header)
        assert await chain.ref(16) is None
        assert not [path for path in followed.server.requests if "list/0" in path or "list/1?" in path]
        answers = [(ref.height, len(excerpt.transactions)) async for ref, excerpt in chain.blocks(30, 42)]
        assert answers == [(height, int(height == 42)) for height in range(30, 43)]
        with pytest.raises(SourceUnavailableError, match="is refused"):
            await other.open()
        assert other.violations.counts["header"] == 1
    finally:
        await chain.close()
        await other.close()


async def test_a_server_that_knows_nothing_of_an_output_does_not_call_it_unspent(followed: Followed) -> None:
    echo = followed.kit.inscribe(agent())
    followed.kit.mine(echo)
    followed.server.alter("spend", lambda _: None)  # 404
    indexing = await followed.look(3)
    assert indexing.live() == {str(echo)}
    assert indexing.store.spend_checks.unspent_at("demo", [echo]) == {}
    assert followed.source.violation_count == 0


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("junglebus:", "not a subscription id"),
        ("junglebus:a b", "not a subscription id"),
        (f"junglebus:{SUBSCRIPTION}?zmq=1", "unknown option 'zmq'"),
        (f"junglebus:{SUBSCRIPTION}?chain=btc", "use bsv"),
        (f"junglebus:{SUBSCRIPTION}?url=ftp://host/v1", "is not a server"),
        (f"junglebus:{SUBSCRIPTION}?url=https://me:secret@host/v1", "A2B_JUNGLEBUS_TOKEN"),
        (f"junglebus:{SUBSCRIPTION}?url=http://host:99999999/v1", "is not a server"),
        (f"junglebus:{SUBSCRIPTION}?url=http://[/v1", "is not a server"),
        (f"junglebus:{SUBSCRIPTION}?token=secret%0A", "the token holds characters"),
        (f"junglebus:{SUBSCRIPTION}?network=moon", "no network"),
        (f"junglebus:{SUBSCRIPTION}?from=x", "from='x'"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_with_what_to_do(url: str, text: str) -> None:
    with pytest.raises(SourceError, match=text) as caught:
        create("bsv", url)
    assert "secret" not in str(caught.value)


def test_the_defaults_are_those_of_the_main_network() -> None:
    chain = create("bsv", f"junglebus:{SUBSCRIPTION}")
    assert isinstance(chain, JungleBusChain)
    assert (chain.caip2, chain.first, chain.finality, chain.complete) == ("bsv:mainnet", 783_968, 100, False)
