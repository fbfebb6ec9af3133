"""The change feed as server-sent events: nothing lost and nothing twice, whatever breaks off in between."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, NoReturn

import pytest
from aiohttp import ClientConnectionResetError, ClientPayloadError, ClientSession, ClientTimeout
from aiohttp.test_utils import make_mocked_request

from indexer.retries import Backoff
from indexer.store import StoreUnavailableError
from overlay.api import change_broadcaster, changes_api
from overlay.api.change_broadcaster import BROADCASTER, ChangeBroadcaster
from overlay.api.counters import Counters
from overlay.api.services import AppServices
from overlay.app import supervision
from overlay.app.http_app import create_app
from overlay.listings.change_notifier import ChangeNotifier
from overlay.listings.records import FeedChange, FeedPage
from tests.overlay.calls import problem
from tests.overlay.conftest import Serve
from tests.overlay.fakes import FakeStore, changed
from tests.waiting import PATIENCE, until


class Outbox(FakeStore):
    """A change feed that a test writes; `asked` counts how often it was read."""

    def __init__(self, count: int = 0, epoch: str = "epoch-1") -> None:
        super().__init__([], {})
        self.epoch, self.requests = epoch, 0
        self.rows: list[FeedChange] = []
        self.write(count)

    def write(self, count: int, op: str = "upsert") -> None:
        for _ in range(count):
            seq = len(self.rows) + 1
            reason = "reorg" if op == "revert" else "inscribed"
            self.rows.append(FeedChange(seq, op, f"id-{seq}", 100 + seq, reason, self.epoch))

    def changes(self, since: int, limit: int, epoch: str | None = None, /) -> FeedPage:
        self.requests += 1
        continues = since <= len(self.rows) and epoch in (None, self.epoch)
        return FeedPage(self.epoch, tuple(self.rows[since : since + limit]), len(self.rows), continues)


class Event(NamedTuple):
    """A server-sent event."""

    id: str
    data: dict[str, Any]


def events(lines: Iterator[str]) -> Iterator[Event]:
    """Read by the rules of the HTML standard, as far as the feed uses them."""
    id_ = data = ""
    for line in lines:
        name, _, value = line.partition(":")
        if not line and data:
            yield Event(id_, json.loads(data))
            data = ""
        elif name == "id":
            id_ = value.removeprefix(" ")
        elif name == "data":
            data += value.removeprefix(" ")
        else:
            assert name in ("", "retry"), line


class Reader:
    """A client that reads a stream event by event, and keeps the last id as a browser does."""

    def __init__(self, response: Any) -> None:
        self.response, self.last = response, ""
        self._text = b""

    async def read(self, count: int) -> list[Event]:
        """The next events."""
        results: list[Event] = []
        while len(results) < count:
            while b"\n\n" not in self._text:
                chunk = await asyncio.wait_for(self.response.content.readany(), PATIENCE)
                assert chunk, f"the stream ended after {len(results)} of {count} events"
                self._text += chunk
            block, _, self._text = self._text.partition(b"\n\n")
            results += events(iter([*block.decode().split("\n"), ""]))
        self.last = results[-1].id if results else self.last
        return results

    async def raw(self, expected: bytes) -> None:
        """Wait until these bytes have come, outside events."""
        while expected not in self._text:
            chunk = await asyncio.wait_for(self.response.content.readany(), PATIENCE)
            assert chunk, f"the stream ended without {expected!r}"
            self._text += chunk

    async def ended(self) -> bool:
        """Whether the stream has ended, by the server."""
        rest = self._text + await asyncio.wait_for(self.response.content.read(), PATIENCE)
        return re.fullmatch(rb"(retry: 2000\n\n)?(retry: [1-6][0-9]{3}\n\n)?", rest) is not None


@asynccontextmanager
async def reading(client: ClientSession, query: str = "", last: str = "") -> AsyncIterator[Reader]:
    headers = {"Last-Event-ID": last} if last else {}
    timeout = ClientTimeout(total=None, sock_read=60)
    async with client.get(f"/v1/stream{query}", headers=headers, timeout=timeout) as response:
        assert response.status == 200, await response.text()
        assert response.content_type == "text/event-stream"
        yield Reader(response)


def seqs(results: list[Event]) -> list[int]:
    return [event.data["seq"] for event in results]


@pytest.fixture
def outbox() -> Outbox:
    return Outbox(3)


@pytest.fixture
def streaming(services: AppServices, outbox: Outbox) -> AppServices:
    return changed(services, store=outbox, notifier=ChangeNotifier())


async def test_a_stream_tells_what_was_and_then_what_happens(
    serve: Serve, streaming: AppServices, outbox: Outbox
) -> None:
    client = await serve(streaming)
    async with reading(client) as reader:
        first = await reader.read(3)
        outbox.write(1, "revert")
        streaming.notifier.notify()
        last = (await reader.read(1))[0]
    assert seqs(first) == [1, 2, 3]
    assert last == Event(
        "epoch-1-4",
        {"seq": 4, "epoch": "epoch-1", "op": "revert", "id": "id-4", "height": 104, "reason": "reorg"},
    )
    async with client.get("/v1/changes") as response:
        assert (await response.json())["changes"] == [event.data for event in [*first, last]]


REACHED = [("?since=2", ""), ("?since=2&epoch=epoch-1", ""), ("", "epoch-1-2"), ("?since=0", "epoch-1-2"), ("", "2")]
ELSEWHERE = [("?since=9", ""), ("?since=2&epoch=old", ""), ("", "old-2"), ("", "epoch-1-9"), ("", "7"), ("", "-" * 500)]


@pytest.mark.parametrize(("query", "last"), REACHED)
async def test_a_reader_goes_on_where_it_was(serve: Serve, streaming: AppServices, query: str, last: str) -> None:
    client = await serve(streaming)
    async with reading(client, query, last) as reader:
        assert seqs(await reader.read(1)) == [3]


@pytest.mark.parametrize(("query", "last"), ELSEWHERE)
async def test_a_cursor_of_another_database_is_reset_and_everything_sent_again(
    serve: Serve, streaming: AppServices, query: str, last: str
) -> None:
    client = await serve(streaming)
    async with reading(client, query, last) as reader:
        parsed = await reader.read(4)
    assert parsed[0].id == "epoch-1-0"
    assert (parsed[0].data["op"], parsed[0].data["id"]) == ("reset", None)
    assert seqs(parsed[1:]) == [1, 2, 3]


async def test_wrong_parameters_are_named_before_anything_is_streamed(serve: Serve, streaming: AppServices) -> None:
    client = await serve(streaming)
    for query, name in (("since=x", "since"), ("limit=5", "limit"), ("since=-1", "since")):
        async with client.get(f"/v1/stream?{query}") as response:
            assert [error["parameter"] for error in (await problem(response, 400))["errors"]] == [name]


async def test_many_changes_come_in_order_through_store_and_memory(
    serve: Serve, streaming: AppServices, outbox: Outbox
) -> None:
    client = await serve(streaming)
    outbox.write(2 * change_broadcaster.WINDOW)
    total = len(outbox.rows)
    async with reading(client) as slow, reading(client, f"?since={total}") as quick:
        for _ in range(3):
            outbox.write(change_broadcaster.BATCH + 7)
            streaming.notifier.notify()
            await asyncio.sleep(0)
        news = len(outbox.rows)
        assert seqs(await quick.read(news - total)) == list(range(total + 1, news + 1))
        assert seqs(await slow.read(news)) == list(range(1, news + 1))


async def test_streams_at_the_end_share_one_look_at_the_store(
    serve: Serve, streaming: AppServices, outbox: Outbox
) -> None:
    client = await serve(streaming)
    readers = []
    async with asyncio.TaskGroup() as group:
        ready, go = asyncio.Semaphore(0), asyncio.Event()

        async def follow() -> None:
            async with reading(client) as reader:
                await reader.read(3)
                ready.release()
                await go.wait()
                readers.append(seqs(await reader.read(5)))

        for _ in range(10):
            group.create_task(follow())
        for _ in range(10):
            await ready.acquire()
        before = outbox.requests
        outbox.write(5)
        streaming.notifier.notify()
        go.set()
    assert readers == [[4, 5, 6, 7, 8]] * 10
    assert outbox.requests - before <= 15  # one look for the news, at most one of each stream that had not settled yet


async def test_news_that_nobody_tells_are_found_all_the_same(
    serve: Serve, streaming: AppServices, outbox: Outbox
) -> None:
    client = await serve(streaming)
    async with reading(client, "?since=3") as reader:
        outbox.write(1)
        assert seqs(await reader.read(1)) == [4]


async def test_a_stream_in_which_nothing_happens_shows_that_it_lives(
    serve: Serve, streaming: AppServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes_api, "HEARTBEAT_SECONDS", 0.05)
    client = await serve(streaming)
    async with reading(client, "?since=3") as reader:
        await reader.raw(b":\n\n:\n\n")


async def test_a_client_may_have_so_many_streams_and_no_more(
    serve: Serve, streaming: AppServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_broadcaster, "A_CLIENT", 2)
    client = await serve(streaming)
    async with reading(client) as one, reading(client) as other:
        await one.read(3)
        await other.read(3)
        assert streaming.process.counters.gauge(change_broadcaster.STREAMS) == 2
        async with client.get("/v1/stream") as response:
            assert int(response.headers["Retry-After"]) > 0
            assert "2 streams are open" in (await problem(response, 429))["detail"]
    async with asyncio.timeout(PATIENCE):
        while streaming.process.counters.gauge(change_broadcaster.STREAMS):  # noqa: ASYNC110 - the server notices that a client left
            await asyncio.sleep(0.01)
    async with reading(client) as again:
        await again.read(3)


async def test_all_streams_together_are_bounded(
    serve: Serve, streaming: AppServices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_broadcaster, "IN_ALL", 1)
    client = await serve(streaming)
    async with reading(client) as one:
        await one.read(3)
        async with client.get("/v1/stream") as response:
            await problem(response, 503)


async def test_a_reader_that_takes_nothing_is_dropped(
    serve: Serve, streaming: AppServices, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes_api, "SLOW_SECONDS", 1.0)
    outbox.write(100_000)
    client = await serve(streaming)
    assert client._base_url is not None
    host, port = client._base_url.host, client._base_url.port
    _, writer = await asyncio.open_connection(host, port, limit=1)
    writer.write(b"GET /v1/stream HTTP/1.1\r\nHost: x\r\n\r\n")
    gauge = streaming.process.counters.gauge
    async with asyncio.timeout(PATIENCE):
        while not gauge(change_broadcaster.STREAMS):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        while gauge(change_broadcaster.STREAMS):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    writer.close()


async def test_streams_end_at_once_when_the_server_does(streaming: AppServices) -> None:
    from aiohttp import web

    from overlay.api.server import create_runner

    runner = create_runner(create_app(streaming))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    async with ClientSession(f"http://{host}:{port}") as client, reading(client) as reader:
        await reader.read(3)
        await asyncio.wait_for(runner.cleanup(), PATIENCE)
        assert await reader.ended()


async def test_head_says_what_there_is_and_streams_nothing(serve: Serve, streaming: AppServices) -> None:
    client = await serve(streaming)
    async with client.head("/v1/stream") as response:
        assert (response.status, response.content_type) == (200, "text/event-stream")
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        assert response.headers["X-Request-Id"]
        assert response.headers["Cache-Control"] == "no-store"


async def read_from_memory(reader: Reader, streaming: AppServices, outbox: Outbox) -> None:
    """Read until the stream needs the database no more: changes from now on come to it from memory."""
    await reader.read(3)
    outbox.write(1)
    streaming.notifier.notify()
    await reader.read(1)


async def test_a_feed_that_cannot_be_read_ends_the_stream_and_not_the_server(
    serve: Serve,
    streaming: AppServices,
    outbox: Outbox,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes_api, "LOOK_SECONDS", PATIENCE)
    client = await serve(streaming)
    async with reading(client) as reader:
        await read_from_memory(reader, streaming, outbox)
        rows, outbox.rows = outbox.rows, None  # type: ignore[assignment]
        streaming.notifier.notify()
        await until(lambda: "cannot be read" in caplog.text)
        outbox.rows = rows
        outbox.write(1)
        streaming.notifier.notify()
        assert seqs(await reader.read(1)) == [5]


async def test_an_unavailable_database_is_logged_once(
    serve: Serve,
    streaming: AppServices,
    outbox: Outbox,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervision, "BACKOFF", Backoff(0.001, PATIENCE))
    monkeypatch.setattr(changes_api, "LOOK_SECONDS", PATIENCE)
    client = await serve(streaming)
    async with reading(client) as reader:
        await read_from_memory(reader, streaming, outbox)
        tried: list[int] = []

        def away(*_: object) -> NoReturn:
            tried.append(1)
            raise StoreUnavailableError("the server is gone")

        with monkeypatch.context() as patch:
            patch.setattr(outbox, "changes", away)
            for number in (1, 2, 3):
                streaming.notifier.notify()
                await until(lambda number=number: len(tried) >= number)
        outbox.write(1)
        streaming.notifier.notify()
        assert seqs(await reader.read(1)) == [5]
    answers = [record for record in caplog.records if record.name == "overlay.app.supervision"]
    assert [(item.levelname, item.exc_info) for item in answers] == [("WARNING", None)]
    assert "waiting for the database: the server is gone" in answers[0].getMessage()


async def test_a_reader_that_comes_during_an_outage_of_the_database_ends_without_an_error_in_the_log(
    serve: Serve,
    streaming: AppServices,
    outbox: Outbox,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away(*_: object) -> NoReturn:
        raise StoreUnavailableError("the server is gone")

    client = await serve(streaming)
    monkeypatch.setattr(outbox, "changes", away)
    async with client.get("/v1/stream") as answer:
        with pytest.raises(ClientPayloadError):
            await answer.read()
    assert [record for record in caplog.records if record.exc_info] == []


async def test_a_reader_that_leaves_before_the_headers_is_no_error(outbox: Outbox) -> None:
    request = make_mocked_request("GET", "/v1/stream")
    request._payload_writer.write_headers.side_effect = ClientConnectionResetError("closing")  # type: ignore[attr-defined]
    broadcaster = ChangeBroadcaster(outbox, ChangeNotifier(), Counters())
    await changes_api.EventStream(outbox, broadcaster, "192.0.2.1", None, 0).send(request)
    assert outbox.requests == 0


async def test_a_database_that_was_restored_meanwhile_resets_its_readers(
    serve: Serve, streaming: AppServices, outbox: Outbox
) -> None:
    client = await serve(streaming)
    async with reading(client) as reader:
        await reader.read(3)
        del outbox.rows[1:]
        streaming.notifier.notify()
        parsed = await reader.read(2)
    assert [event.data["op"] for event in parsed] == ["reset", "upsert"]
    assert seqs(parsed) == [0, 1]


async def test_a_hub_that_nobody_listens_to_asks_nothing(outbox: Outbox) -> None:
    news = ChangeNotifier()
    broadcaster = ChangeBroadcaster(outbox, news, Counters())
    task = asyncio.create_task(broadcaster.run())
    await asyncio.sleep(0)
    news.notify()
    await asyncio.sleep(0.05)
    assert outbox.requests == 0
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_the_hub_is_one_an_application(services: AppServices) -> None:
    app = create_app(services)
    assert isinstance(app[BROADCASTER], ChangeBroadcaster)
