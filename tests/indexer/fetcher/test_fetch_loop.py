"""The loop that fetches: pointers become cards, failures are tried again, drift is seen, floods harm nobody else."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from ipaddress import ip_address
from itertools import pairwise

import pytest

from indexer.fetcher import schedule
from indexer.fetcher.card_fetcher import Attempt, CardFetch, CardFetcher, CardRequest, CardState
from indexer.fetcher.connections import Admit
from indexer.fetcher.dns import TxtRecords
from indexer.fetcher.fetch_loop import HELD_SECONDS, NEWS_SECONDS, POLL_SECONDS, FetchLoop, visited_host
from indexer.fetcher.host_names import DomainVerifier, HostNames
from indexer.fetcher.http_fetcher import open_admit
from indexer.fetcher.outcomes import BACKOFF, TRIED_FOR, WATCH
from indexer.fetcher.reasons import FetchError, Refusal
from indexer.store import (
    FetchOutcome,
    FetchState,
    LocatorStatus,
    Store,
    StoreError,
    Writer,
    block_writer,
    connect,
    visits,
)
from indexer.store.requests import Rechecks
from tests.databases import store
from tests.facts import born, outpoint_of, says
from tests.hostile import QUICK, Hostile, Net, answer, authority, net, ok, raw, redirect, server, silent
from tests.names import NameServer, names
from tests.pointer_facts import NOW, Clock, card, clock, digest, points, writer
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("often_collected")

FIRST, SECOND = "/.well-known/agent.json", "/.well-known/agent-card.json"
ALPHA, BETA = card("Alpha"), card("Beta")
HOST = "agent.example"

__all__ = ["authority", "clock", "names", "net", "server", "store", "writer"]


class Fetching:
    """A loop whose clock stands still unless a test says otherwise."""

    def __init__(self, store: Store, writer: Writer, clock: Clock, cards: CardFetcher, badger: DomainVerifier) -> None:
        self.store, self.writer, self.clock, self.cards, self.badger = store, writer, clock, cards, badger
        self.height = 0
        self.notified = 0
        self.restart()

    def restart(self, ended: Callable[[], None] = lambda: None) -> None:
        """As if the process had ended and begun again."""
        self.loop = FetchLoop(
            self.store,
            self.writer,
            self.cards,
            self.badger,
            changed=self._tell,
            clock=self.clock,
            ended=ended,
            ticking=self.clock,
        )

    def _tell(self) -> None:
        self.notified += 1

    def mine(self, *messages: object) -> None:
        """A block with these pointers."""
        block_writer.append(self.writer, "demo", [says(str(self.height), *messages)])  # type: ignore[arg-type]
        self.height += 1

    async def round(self, milliseconds: int = 0) -> None:
        """Let some time pass, and fetch everything that is due then."""
        self.clock.tick(milliseconds)
        await self.loop.look()
        self.loop.start()
        await self.loop.settle()

    async def until_quiet(self, until: int) -> None:
        """Let time pass to then, from one thing that is due to the next."""
        while True:
            await self.round()
            wait = self.loop.schedule.wait()
            later = self.store.fetches.queued(10**16, 1, (self.clock.now, "\uffff"))
            times = [until] + [item.next_at for item in later]
            if wait is not None:
                times.append(self.clock.now + int(wait * 1000) + 1)
            if min(times) <= self.clock.now:
                return
            self.clock.now = min(times)

    def fetch_status(self, locator: str = HOST) -> LocatorStatus:
        return self.store.fetches.statuses([locator])[locator]


@pytest.fixture
def fetching(store: Store, writer: Writer, clock: Clock, net: Net, names: NameServer) -> Fetching:
    # these hosts are heard, however busy the machine is
    fetcher = net.fetcher(replace(QUICK, first_byte=4.0, total=20.0), clock=clock)
    badger = DomainVerifier(fetcher, TxtRecords([names.address]))
    return Fetching(store, writer, clock, CardFetcher(fetcher, clock=clock), badger)


# -- one pointer


async def test_a_pointer_is_fetched_and_met(server: Hostile, fetching: Fetching) -> None:
    server.say(FIRST, ok(ALPHA, 'ETag: "1"'))
    fetching.mine(points(HOST, ALPHA))
    await fetching.round()
    result = fetching.fetch_status()
    assert (result.state, result.reason, result.tries, result.serving) == (FetchState.MET, "", 0, digest(ALPHA))
    assert (result.last_at, result.next_at) == (NOW, NOW + WATCH)
    assert fetching.store.content.cards([digest(ALPHA)]) == {digest(ALPHA): ALPHA}
    assert fetching.notified == 1
    [change] = fetching.store.outbox.after(fetching.store.outbox.newest_seq() - 1, 10)
    assert (change.id, change.reason) == (HOST, "fetched")
    await fetching.round(WATCH - 1)
    assert server.paths() == [FIRST]


async def test_other_bytes_are_recorded_with_their_reason_and_never_kept(server: Hostile, fetching: Fetching) -> None:
    server.say(FIRST, ok(BETA))
    fetching.mine(points(HOST, ALPHA))
    await fetching.round()
    result = fetching.fetch_status()
    difference = f"{digest(BETA).hex()}, and the newest pointer names {digest(ALPHA).hex()}"
    assert (result.state, result.reason, result.detail) == (FetchState.MISMATCH, "fetch-mismatch", difference)
    assert (result.tries, result.next_at) == (1, NOW + BACKOFF.pause_ms(1))
    assert fetching.store.content.cards([digest(BETA)]) == {}
    assert server.paths() == [FIRST, SECOND]


async def test_only_a_url_itself_is_requested(server: Hostile, fetching: Fetching) -> None:
    uri = "https://agent.example/cards/1.json"
    server.say("/cards/1.json", ok(ALPHA))
    fetching.mine(points(uri, ALPHA, "uri"))
    await fetching.round()
    assert fetching.fetch_status(uri).state is FetchState.MET


async def test_without_a_gateway_ipfs_waits_for_the_operator(fetching: Fetching) -> None:
    uri = "ipfs://QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG"
    fetching.mine(points(uri, None, "cid"))
    await fetching.round()
    assert (fetching.fetch_status(uri).state, fetching.fetch_status(uri).reason) == (
        FetchState.FAILED,
        "fetch-no-gateway",
    )
    await fetching.until_quiet(NOW + 2 * TRIED_FOR)
    assert fetching.fetch_status(uri).state is FetchState.FAILED
    assert fetching.fetch_status(uri).next_at is not None


async def test_retries_come_later_and_later_for_seven_days_and_then_only_on_demand(
    server: Hostile, fetching: Fetching
) -> None:
    fetching.mine(points(HOST, ALPHA))
    times = []
    for _ in range(100):
        result = fetching.fetch_status()
        if result.next_at is None:
            break
        fetching.clock.now = result.next_at
        await fetching.round()
        if fetching.fetch_status().last_at == result.next_at:
            times.append(result.next_at - NOW)
        else:  # its host's budget is used up for now
            fetching.clock.tick(30_000)
    result = fetching.fetch_status()
    assert (result.state, result.reason, result.next_at) == (FetchState.GIVEN_UP, "fetch-missing", None)
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert times[0] == 0
    assert pauses[:4] == [60_000, 120_000, 240_000, 480_000]
    assert max(pauses) == BACKOFF.longest * 1_000
    assert times[-1] == TRIED_FOR
    server.say(FIRST, ok(ALPHA))
    assert Rechecks(fetching.store.engine).request(HOST, fetching.clock.tick(60_000))
    await fetching.round()
    assert fetching.fetch_status().state is FetchState.MET


async def test_a_restart_forgets_nothing_that_is_due(server: Hostile, fetching: Fetching) -> None:
    server.say(FIRST, raw(answer("500 Oops")))
    fetching.mine(points(HOST, ALPHA))
    await fetching.round()
    assert fetching.fetch_status().reason == "fetch-server"
    fetching.restart()
    server.say(FIRST, ok(ALPHA))
    await fetching.round(BACKOFF.pause_ms(1) - 1)
    assert fetching.fetch_status().state is FetchState.FAILED
    await fetching.round(1)
    assert fetching.fetch_status().state is FetchState.MET


async def test_a_name_that_can_never_be_fetched_is_given_up_at_once(server: Hostile, fetching: Fetching) -> None:
    uri = "https://agent.example:8443/card.json"
    fetching.mine(points(uri, ALPHA, "port"))
    await fetching.round()
    result = fetching.fetch_status(uri)
    assert (result.state, result.reason, result.next_at) == (FetchState.GIVEN_UP, "fetch-port", None)
    assert server.connections == 0


@pytest.mark.parametrize(
    "location", ["http://agent.example/", "https://agent.example:8443/", "https://a:b@agent.example/"]
)
async def test_a_redirect_to_what_is_never_fetched_is_of_one_answer(
    location: str, server: Hostile, fetching: Fetching
) -> None:
    server.say(FIRST, redirect(location))
    fetching.mine(points(HOST, ALPHA))
    await fetching.round()
    result = fetching.fetch_status()
    assert (result.state, result.reason) == (FetchState.FAILED, "fetch-redirect")
    server.say(FIRST, ok(ALPHA))
    await fetching.round(BACKOFF.pause_ms(1))
    assert fetching.fetch_status().state is FetchState.MET


async def test_an_anchor_seen_while_a_fetch_is_under_way_has_it_fetched_once_more(
    server: Hostile, fetching: Fetching
) -> None:
    """Law 9: met only by a fetch that began after the anchor was seen."""
    arrived, go = asyncio.Event(), asyncio.Event()

    async def late(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await go.wait()
        writer.write(answer("200 OK", ALPHA))

    server.say(FIRST, late)
    fetching.mine(points(HOST, ALPHA))
    await fetching.loop.look()
    fetching.loop.start()
    await arrived.wait()
    fetching.clock.tick(10)
    fetching.mine(points(HOST, BETA, "second"))
    go.set()
    await fetching.loop.settle()
    assert fetching.fetch_status().state is FetchState.MET
    server.say(FIRST, ok(BETA))
    await fetching.round(1_000)
    assert fetching.fetch_status().serving == digest(BETA)


async def test_of_many_wrong_hashes_by_strangers_the_owners_is_met_all_the_same(
    server: Hostile, fetching: Fetching
) -> None:
    server.say(FIRST, ok(ALPHA))
    fetching.mine(points(HOST, ALPHA))
    for number in range(40):
        fetching.clock.tick(1)
        fetching.mine(points(HOST, b"%d" % number, f"stranger {number}"))
    await fetching.round()
    assert fetching.fetch_status().state is FetchState.MET


# -- drift


async def test_drift_is_seen_on_schedule_and_what_was_met_stays(server: Hostile, fetching: Fetching) -> None:
    server.say(FIRST, ok(ALPHA, 'ETag: "1"'))
    fetching.mine(points(HOST, ALPHA))
    await fetching.round(1)
    server.say(FIRST, raw(b"HTTP/1.1 304 Not Modified\r\n\r\n"))
    await fetching.round(WATCH)
    assert server.requests[-1].headers["if-none-match"] == '"1"'
    result = fetching.fetch_status()
    assert (result.state, result.serving, result.serving_since) == (FetchState.MET, digest(ALPHA), NOW + 1)
    server.say(FIRST, ok(BETA, 'ETag: "2"'))
    await fetching.round(WATCH)
    result = fetching.fetch_status()
    assert (result.state, result.reason) == (FetchState.MISMATCH, "fetch-mismatch")
    assert (result.serving, result.serving_since) == (digest(BETA), NOW + 1 + 2 * WATCH)
    assert fetching.store.content.cards([digest(ALPHA)]) == {digest(ALPHA): ALPHA}
    assert result.next_at is not None
    server.say(FIRST, ok(ALPHA, 'ETag: "1"'))
    await fetching.round(result.next_at - fetching.clock.now)
    assert (fetching.fetch_status().state, fetching.fetch_status().serving) == (FetchState.MET, digest(ALPHA))


async def test_what_was_met_once_is_watched_for_ever(server: Hostile, fetching: Fetching) -> None:
    server.say(FIRST, ok(ALPHA))
    fetching.mine(points(HOST, ALPHA))
    await fetching.round()
    server.say(FIRST, raw(answer("500 Oops")))
    await fetching.until_quiet(NOW + 3 * TRIED_FOR)
    result = fetching.fetch_status()
    assert (result.state, result.reason) == (FetchState.FAILED, "fetch-server")
    assert result.next_at is not None
    assert result.next_at - fetching.clock.now <= WATCH


async def test_after_a_new_anchor_the_fetch_is_not_conditional(server: Hostile, fetching: Fetching) -> None:
    server.say(FIRST, ok(ALPHA, 'ETag: "1"'))
    fetching.mine(points(HOST, ALPHA))
    await fetching.round()
    fetching.clock.tick(60_000)
    fetching.mine(points(HOST, ALPHA, "again"))
    await fetching.round()
    assert "if-none-match" not in server.requests[-1].headers
    assert server.paths() == [FIRST, FIRST]


# -- what goes wrong here


async def test_a_fault_of_our_own_is_recorded_and_the_loop_goes_on(
    server: Hostile, fetching: Fetching, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(CardFetcher):
        async def fetch_card(self, locator: str, *more: object, **named: object) -> CardFetch:  # type: ignore[override]
            if locator == HOST:
                raise RuntimeError("a mistake")
            return await super().fetch_card(locator, *more, **named)  # type: ignore[arg-type]

    fetching.cards.__class__ = Broken
    server.say(FIRST, ok(ALPHA))
    fetching.mine(points(HOST, ALPHA), points("other.example", ALPHA, position=1))
    await fetching.round()
    assert (fetching.fetch_status().reason, fetching.fetch_status().detail) == (
        "fetch-fault",
        "RuntimeError: a mistake",
    )
    assert fetching.fetch_status("other.example").state is FetchState.MET
    assert "a mistake" in caplog.text


async def test_a_locator_with_an_outcome_that_cannot_be_stored_is_left_out_for_an_hour(
    server: Hostile, fetching: Fetching, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    record = visits.record_fetch
    is_failing = True

    def recording(writer: Writer, locator: str, outcome: FetchOutcome) -> int:
        if locator == HOST and is_failing:
            raise OverflowError("too large")
        return record(writer, locator, outcome)

    monkeypatch.setattr(visits, "record_fetch", recording)
    server.say(FIRST, ok(ALPHA))
    fetching.mine(points(HOST, ALPHA), points("other.example", ALPHA, position=1))
    for _ in range(5):
        await fetching.round(11 * 60_000)
    assert fetching.fetch_status("other.example").state is FetchState.MET
    assert server.paths().count(FIRST) == 2
    assert caplog.text.count("fetch of agent.example failed, and is left out") == 1
    is_failing = False
    for _ in range(2):
        await fetching.round(11 * 60_000)
    assert fetching.fetch_status().state is FetchState.MET


async def test_a_database_that_refuses_ends_the_loop(
    server: Hostile, fetching: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise StoreError("cannot write")

    server.say(FIRST, ok(ALPHA))
    fetching.mine(points(HOST, ALPHA))
    monkeypatch.setattr("indexer.store.visits.record_fetch", refuse)
    await fetching.loop.run()
    with pytest.raises(StoreError, match="cannot write"):
        await fetching.loop.settle()


async def test_what_the_database_did_not_take_is_fetched_again_at_the_next_look(
    server: Hostile, fetching: Fetching, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise StoreError("cannot write")

    server.say(FIRST, ok(ALPHA))
    fetching.mine(points(HOST, ALPHA))
    with monkeypatch.context() as patch:
        patch.setattr("indexer.store.visits.record_fetch", refuse)
        with pytest.raises(StoreError, match="cannot write"):
            await fetching.round()
    await fetching.round(int(POLL_SECONDS * 1_000))
    await fetching.round(20_000)
    assert fetching.fetch_status().state is FetchState.MET


async def test_a_run_says_when_the_next_is_due_and_news_and_ends_of_fetches_bring_it_forward(
    server: Hostile, fetching: Fetching
) -> None:
    ended: list[int] = []
    fetching.restart(ended=lambda: ended.append(1))
    server.say(FIRST, ok(ALPHA))
    assert await fetching.loop.run() == POLL_SECONDS
    fetching.mine(points(HOST, ALPHA))
    assert await fetching.loop.run() == POLL_SECONDS, "nobody has said that anything has changed"
    fetching.loop.news.set()
    fetching.clock.tick(int(NEWS_SECONDS * 1_000))
    assert await fetching.loop.run() <= POLL_SECONDS
    await fetching.loop.settle()
    assert fetching.fetch_status().state is FetchState.MET
    assert ended == [1]


async def test_while_blocks_are_caught_up_with_few_fetches_are_started_and_none_is_lost(
    flooded: tuple[Fetching, HostTally],
) -> None:
    fetching, resolution = flooded
    resolution.address = lambda host: f"93.184.{len(host)}.{sum(host.encode()) % 200}"
    held = [True]
    fetching.loop.is_held = lambda: held[0]
    fetching.mine(*(points(f"name{number}.test{number}", ALPHA, f"n{number}", number) for number in range(20)))
    fetching.loop.news.set()
    for started in range(1, 4):
        wait = await fetching.loop.run()
        await fetching.loop.settle()
        assert len(resolution.visits) == started
        assert wait == pytest.approx(HELD_SECONDS)
        assert await fetching.loop.run() == pytest.approx(HELD_SECONDS), "an end brings none forward"
        await fetching.loop.settle()
        assert len(resolution.visits) == started
        fetching.clock.tick(int(HELD_SECONDS * 1_000))
    held[0] = False
    await fetching.until_quiet(fetching.clock.now + 60_000)
    assert {locator for _, locator in resolution.visits} == {f"name{number}.test{number}" for number in range(20)}


async def test_closing_leaves_nothing_behind(server: Hostile, fetching: Fetching) -> None:
    server.say(SECOND, silent)
    fetching.mine(points("other.example", BETA, "silent"))
    await fetching.loop.run()
    await until(lambda: SECOND in server.paths())
    await fetching.loop.close()
    assert fetching.fetch_status("other.example").state is FetchState.NEW
    assert fetching.loop.tasks
    assert all(task.done() for task in fetching.loop.tasks)


# -- badges


async def test_badges_are_requested_of_hosts_beside_the_pointers(
    server: Hostile, names: NameServer, fetching: Fetching
) -> None:
    body = json.dumps({"name": "x", "url": f"https://{HOST}/a2a", "skills": [{"id": "a"}]}).encode()
    event = replace(born("a", card=digest(body)), card=digest(body))
    block_writer.append(fetching.writer, "demo", [says("0", event, cards={digest(body): body})])
    server.say(FIRST, ok(body))
    await fetching.round()
    badge = fetching.store.badges.get([str(outpoint_of("a"))])[str(outpoint_of("a"))]
    assert (badge.by, badge.verdict.checked_at) == ("hash", NOW)
    assert server.paths() == [FIRST, SECOND]
    assert names.requests == [f"_a2b.{HOST}"]
    assert fetching.notified == 1


# -- floods, with a clock of the test's own


class HostTally(CardFetcher):
    """A fetcher that answers at once, as `says` says of a locator; `visits` are those made and when."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.visits: list[tuple[int, str]] = []
        self.address: Callable[[str], str] = lambda _: "93.184.216.34"
        self.says: Callable[[str], Refusal | None] = lambda _: None

    async def fetch_card(  # type: ignore[override]
        self, locator: str, request: CardRequest, _existing: object = None, *, admit: Admit
    ) -> CardFetch:
        host = visited_host(locator)
        try:
            admit(host, ip_address(self.address(host)), 443)
        except FetchError as error:
            refused = Attempt(locator, self.clock(), refusal=error.refusal, retry_after=error.retry_after)
            return CardFetch(locator, (refused,), request)
        self.visits.append((self.clock.now, locator))
        refusal = self.says(locator)
        if refusal is not None:
            return CardFetch(locator, (Attempt(locator, self.clock(), refusal=refusal),), request)
        met = Attempt(locator, self.clock(), digest=request.digests[0], state=CardState.UNCHANGED, by="sha256")
        return CardFetch(locator, (met,), request)


class Deaf(DomainVerifier):
    def __init__(self) -> None:
        pass

    async def fetch_names(self, _host: str, _admit: Admit = open_admit) -> HostNames:
        return HostNames()


@pytest.fixture
def flooded(tmp_path: object, clock: Clock) -> Iterator[tuple[Fetching, HostTally]]:
    engine = connect(f"sqlite:///{tmp_path}/flood.db")
    store, writer = Store(engine), Writer(engine, clock)
    host_tally = HostTally(clock)
    yield Fetching(store, writer, clock, host_tally, Deaf()), host_tally
    writer.close()
    engine.dispose()


FLOOD = 10_000
"""A block of so many pointers; the first test under a flood also measures its memory."""


def flood(fetching: Fetching, uri: Callable[[int], str], count: int = FLOOD) -> None:
    """A block that points so often."""
    fetching.mine(*(points(uri(number), ALPHA, f"flood {number}", number) for number in range(count)))


async def test_ten_thousand_pointers_to_one_host_do_not_delay_others(
    flooded: tuple[Fetching, HostTally],
) -> None:
    fetching, resolution = flooded
    flood(fetching, lambda number: f"https://victim.example/{number}.json")
    tracemalloc.start()
    await fetching.round(1_000)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 40_000_000
    fetching.mine(points("good.test", ALPHA), points("victim.example", ALPHA, position=1))
    await fetching.until_quiet(NOW + 300_000)
    visits = {locator: when for when, locator in resolution.visits}
    assert visits["good.test"] <= NOW + 5_000
    assert visits["victim.example"] <= NOW + 60_000, "its owner's own pointer goes before a stranger's"
    victim = [when for when, locator in resolution.visits if "victim" in locator]
    assert len(victim) <= 6 + 300 / 15 + 2, "the victim is asked within its budget"


async def test_many_names_of_one_address_do_not_delay_others(flooded: tuple[Fetching, HostTally]) -> None:
    """Ten thousand are the schedule's own test; here each of them is read from the database."""
    fetching, resolution = flooded
    resolution.address = lambda host: "198.18.7.7" if host.startswith("name") else f"93.184.{len(host)}.34"
    flood(fetching, lambda number: f"name{number}.test{number}", 2_000)
    await fetching.round(1_000)
    fetching.mine(points("good.example", ALPHA))
    await fetching.until_quiet(NOW + 120_000)
    visits = Counter(locator.startswith("name") for _, locator in resolution.visits)
    assert visits[True] <= 30 + 120 + 2, "one address is asked within its budget"
    assert next(when for when, locator in resolution.visits if locator == "good.example") <= NOW + 60_000


async def test_a_flood_that_finds_no_room_waits_in_the_database(
    flooded: tuple[Fetching, HostTally], monkeypatch: pytest.MonkeyPatch
) -> None:
    fetching, resolution = flooded
    monkeypatch.setattr(schedule, "MAX_JOBS", 25)
    fetching.mine(*(points(f"name{number}.test{number}", ALPHA, f"n{number}", number) for number in range(300)))
    await fetching.round()
    assert len(fetching.loop.schedule) <= 50
    resolution.address = lambda host: f"93.184.{len(host)}.{sum(host.encode()) % 200}"
    for _ in range(20):
        await fetching.until_quiet(fetching.clock.now + 600_000)
    assert {locator for _, locator in resolution.visits} == {f"name{number}.test{number}" for number in range(300)}
