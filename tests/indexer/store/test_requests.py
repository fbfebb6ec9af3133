"""Publishers' requests: stored before they are answered, bounded, worked off with doubling delay, never lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from indexer.client_networks import SITE_FACTOR
from indexer.errors import SourceUnavailableError
from indexer.store import Store, Writer, connect
from indexer.store.requests import (
    ENDED_SECONDS,
    OPEN_PER_CLIENT,
    Requests,
    RequestState,
    TooManyRequestsError,
    TransactionRequest,
)
from indexer.sync.request_loop import BATCH, TRIED_FOR, UNREACHED, RequestLoop, TransactionSource
from parsers.bitcoin import block
from tests.chainkit import ChainKit, agent
from tests.chainkit_blocks import Block
from tests.clocks import Clock
from tests.fakes import MemoryChain
from tests.indexing import Indexing

START = 1_800_000_000


class Worked:
    """A loop over one chain in memory, and what it offered."""

    def __init__(self, store: Store, chain: MemoryChain) -> None:
        self.requests, self.chain, self.clock = Requests(store.engine), chain, Clock(START)
        self.offered: list[bytes] = []
        self.usable = True
        source = TransactionSource(chain, lambda: self.usable, self.offered.append)
        self.loop = RequestLoop(self.requests, [source], self.clock)

    def ask(self, txid: bytes, client: str = "192.0.2.1") -> TransactionRequest:
        return self.requests.add(txid, client, self.clock.now)

    async def until_nothing_is_due(self, last: int) -> list[int]:
        """Let time pass until `last` (seconds after the start), looking before and at each time said to be next: when
        something was tried."""
        tried = []
        while waiting := [item.next_at for item in self.requests.due(START + last, 10)]:
            for self.clock.now in (min(waiting) - 1, min(waiting)):
                if await self.loop.step():
                    tried.append(self.clock.now - START)
        self.clock.now = START + last
        return tried

    def got(self, txid: bytes) -> TransactionRequest:
        answer = self.requests.get(txid)
        assert answer is not None
        return answer


@pytest.fixture
def worked(store: Store) -> Worked:
    return Worked(store, MemoryChain())


def names(count: int, of: int = 0) -> Iterable[bytes]:
    return (bytes([of]) + number.to_bytes(31, "big") for number in range(count))


def last_of(mined: Block) -> tuple[bytes, bytes]:
    """The txid and raw bytes of a block's last transaction."""
    starts = block.tx_offsets(mined.raw, segwit=False)
    return mined.txids[-1], mined.raw[starts[-2] : starts[-1]]


def transaction() -> tuple[bytes, bytes]:
    """A txid and its raw bytes."""
    kit = ChainKit()
    return last_of(kit.mine(kit.inscribe(agent("Router"))))


async def test_what_was_found_makes_room_for_another(worked: Worked) -> None:
    txid, raw = transaction()
    for other in (txid, *names(OPEN_PER_CLIENT - 1)):
        worked.ask(other)
    with pytest.raises(TooManyRequestsError):
        worked.ask(b"\2" * 32)
    worked.chain.unconfirmed[txid] = raw
    await worked.loop.step()
    assert worked.ask(b"\2" * 32).state is RequestState.WAITING


def test_asking_again_is_the_same_request(worked: Worked) -> None:
    first = worked.ask(b"\1" * 32)
    worked.clock.now += 5
    assert worked.ask(b"\1" * 32, "192.0.2.2") == first == worked.got(b"\1" * 32)
    assert worked.requests.counts() == {"waiting": 1, "found": 0, "indexed": 0, "given-up": 0}


def test_a_client_may_wait_for_twenty_and_no_more_but_others_still_may_ask(worked: Worked) -> None:
    requests = list(names(OPEN_PER_CLIENT))
    for txid in requests:
        worked.ask(txid)
    with pytest.raises(TooManyRequestsError, match="20 transactions that this client requested"):
        worked.ask(b"\2" * 32)
    assert worked.requests.get(b"\2" * 32) is None
    worked.ask(requests[0])
    worked.ask(b"\2" * 32, "192.0.2.2")


def test_all_clients_together_are_bounded(worked: Worked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.store.requests.OPEN_IN_ALL", 3)
    for number, txid in enumerate(names(3)):
        worked.ask(txid, f"192.0.2.{number}")
    with pytest.raises(TooManyRequestsError, match="3 transactions are still"):
        worked.ask(b"\2" * 32, "192.0.2.9")


async def test_what_nobody_knows_is_tried_with_doubling_delay_for_an_hour(worked: Worked) -> None:
    worked.ask(b"\1" * 32)
    tried = await worked.until_nothing_is_due(TRIED_FOR + 100)
    assert tried == [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047, 3600]
    ended = worked.got(b"\1" * 32)
    assert (ended.state, ended.tries, ended.ended) == (RequestState.GIVEN_UP, 13, True)
    assert ended.detail == "not known to demo"
    assert ended.client == "", "who asked is forgotten"


async def test_an_ended_request_may_be_repeated(worked: Worked) -> None:
    worked.ask(b"\1" * 32)
    await worked.until_nothing_is_due(TRIED_FOR)
    again = worked.ask(b"\1" * 32)
    assert (again.state, again.tries, again.requested_at) == (RequestState.WAITING, 0, START + TRIED_FOR)


async def test_what_appears_late_is_found_and_offered(worked: Worked) -> None:
    txid, raw = transaction()
    worked.ask(txid)
    await worked.until_nothing_is_due(5)
    assert worked.offered == []
    worked.chain.unconfirmed[txid] = raw
    await worked.until_nothing_is_due(7)
    assert worked.offered == [txid]
    result = worked.got(txid)
    assert (result.state, result.tries, result.detail) == (RequestState.LOCATED, 4, "known to demo")


async def test_found_is_looked_at_again_until_a_block_has_it(worked: Worked, store: Store) -> None:
    kit = ChainKit()
    mined = kit.mine(kit.inscribe(agent("Router")))
    txid, raw = last_of(mined)
    worked.chain.unconfirmed[txid] = raw
    worked.ask(txid)
    await worked.loop.step()
    assert worked.got(txid).state is RequestState.LOCATED
    with Indexing(store.engine.url.render_as_string(hide_password=False), MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
    worked.clock.now += 1
    await worked.loop.step()
    ended = worked.got(txid)
    assert (ended.state, ended.ended) == (RequestState.INDEXED, True)
    assert ended.detail == f"in block {mined.height} of demo"


async def test_what_is_indexed_already_needs_no_source(worked: Worked, store: Store) -> None:
    kit = ChainKit()
    txid, _ = last_of(kit.mine(kit.inscribe(agent("Router"))))
    with Indexing(store.engine.url.render_as_string(hide_password=False), MemoryChain(*kit.blocks)) as indexing:
        await indexing.catch_up()
    worked.chain.down = "gone"
    worked.ask(txid)
    await worked.loop.step()
    assert worked.got(txid).state is RequestState.INDEXED


async def test_a_request_that_reaches_no_source_does_not_count_as_a_try(worked: Worked) -> None:
    txid, raw = transaction()
    worked.chain.down = "no route"
    worked.ask(txid)
    await worked.until_nothing_is_due(TRIED_FOR + 50)
    waiting = worked.got(txid)
    assert (waiting.state, waiting.tries, waiting.detail) == (RequestState.WAITING, 0, "no source could be reached")
    worked.chain.down = ""
    worked.chain.unconfirmed[txid] = raw
    worked.clock.now += 10
    await worked.loop.step()
    assert worked.got(txid).state is RequestState.LOCATED


async def test_a_source_that_never_comes_back_ends_the_waiting_after_a_day(worked: Worked) -> None:
    worked.usable = False
    worked.ask(b"\1" * 32)
    worked.clock.now += UNREACHED
    await worked.loop.step()
    assert worked.got(b"\1" * 32).state is RequestState.GIVEN_UP


async def test_a_source_that_answers_with_something_else_is_not_believed(worked: Worked) -> None:
    txid, raw = transaction()
    worked.ask(txid)
    worked.ask(b"\3" * 32)

    async def forgery(txids: Iterable[bytes]) -> dict[bytes, bytes]:
        return {b"\3" * 32: raw, txid: raw[:-1]}

    worked.chain.transactions = forgery  # type: ignore[method-assign]
    await worked.loop.step()
    assert worked.offered == []
    assert worked.got(txid).state is worked.got(b"\3" * 32).state is RequestState.WAITING


async def test_a_restart_in_the_middle_loses_nothing(database_url: str) -> None:
    txid, raw = transaction()
    engine = connect(database_url)
    before = Worked(Store(engine), MemoryChain())
    before.chain.unconfirmed[txid] = raw
    before.ask(txid)
    before.ask(b"\4" * 32)
    for _ in range(3):
        await before.loop.step()
    engine.dispose()
    engine = connect(database_url)
    after = Worked(Store(engine), before.chain)
    assert await after.loop.run() is None
    assert after.offered == [txid]
    assert after.got(b"\4" * 32).state is RequestState.WAITING
    engine.dispose()


async def test_what_is_new_is_looked_for_before_what_nobody_knew(worked: Worked) -> None:
    for txid in names(3):
        worked.ask(txid)
    await worked.loop.step()
    worked.clock.now += 500
    new = worked.ask(b"\6" * 32)
    assert worked.requests.due(worked.clock.now, 10)[0] == new
    assert len(worked.requests.due(worked.clock.now, 10)) == 4


async def test_many_are_requested_at_once(worked: Worked) -> None:
    calls: list[int] = []

    async def count(txids: Iterable[bytes]) -> dict[bytes, bytes]:
        calls.append(len(list(txids)))
        raise SourceUnavailableError("later")

    worked.chain.transactions = count  # type: ignore[method-assign]
    for number, txid in enumerate(names(BATCH + 1)):
        worked.ask(txid, f"2001:db8:{number:x}::/64")
    assert await worked.loop.step() == BATCH
    assert await worked.loop.step() == 1
    assert calls == [BATCH, 1]


async def test_ended_requests_are_forgotten_after_a_day_or_when_they_are_too_many(worked: Worked) -> None:
    for txid in names(5):
        worked.ask(txid)
        worked.clock.now += 1
    worked.clock.now = START + TRIED_FOR + 10
    await worked.loop.step()
    worked.ask(b"\5" * 32)
    assert worked.requests.trim(worked.clock.now, keep=3) == 2
    assert worked.requests.counts() == {"waiting": 1, "found": 0, "indexed": 0, "given-up": 3}
    worked.requests.trim(START + ENDED_SECONDS + 100)
    assert worked.requests.counts() == {"waiting": 1, "found": 0, "indexed": 0, "given-up": 0}


def test_a_customer_of_ipv6_may_wait_for_as_many_as_sixteen_clients_however_many_addresses_it_uses(
    worked: Worked,
) -> None:
    for number, txid in enumerate(names(OPEN_PER_CLIENT * SITE_FACTOR)):
        worked.ask(txid, f"2001:db8:1:{number:x}::/64" if number else "2001:db8:1::/64")
    with pytest.raises(TooManyRequestsError, match=r"320 transactions that the network 2001:db8:1::/48 requested"):
        worked.ask(b"\2" * 32, "2001:db8:1:ffff::/64")
    worked.ask(b"\2" * 32, "2001:db8:2:ffff::/64")


async def test_several_processes_ask_at_once_and_none_is_one_too_many(database_url: str, writer: Writer) -> None:
    engines = [connect(database_url) for _ in range(3)]

    def ask(number: int) -> bool:
        try:
            Requests(engines[number % 3]).add(bytes([number]) * 32, "192.0.2.1", START)
        except TooManyRequestsError:
            return False
        return True

    supplied = await asyncio.gather(*(asyncio.to_thread(ask, number) for number in range(30)))
    assert sum(supplied) == OPEN_PER_CLIENT
    assert Requests(engines[0]).counts()["waiting"] == OPEN_PER_CLIENT
    for engine in engines:
        engine.dispose()
