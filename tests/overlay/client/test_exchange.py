"""Requests of the client, and its handling of answers: retries, redirects, problems, pages and streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import format_datetime
from functools import partial
from itertools import islice
from typing import Any

import httpx
import pytest

from overlay.client import (
    AsyncOverlayClient,
    ClientLimits,
    NotThereError,
    OverlayClient,
    Position,
    RefusedError,
    RemoteError,
    RemoteProblemError,
    calls,
)
from overlay.client import async_client as module
from overlay.client.event_stream import MAX_EVENT_BYTES, ChangeStream
from overlay.client.exchange import base_url, pause, wait_of
from tests.overlay.client.transports import BASE, Script, answer, client, event, events, paths, seqs

CHANGES = {"changes": [], "epoch": "e", "nextSince": 4, "more": False}
BUSY = {"status": 429, "title": "Too Many Requests", "detail": "ask later", "errors": [], "requestId": "r1"}
FAULT = {"code": "unknown-parameter", "detail": "there is no color", "parameter": "color"}
BAD = {"status": 400, "title": "Bad Request", "detail": "there is no color", "errors": [FAULT], "requestId": "r2"}


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that the client makes, which end at once."""
    slept: list[float] = []
    sleep = asyncio.sleep

    async def pretend(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr(module.asyncio, "sleep", pretend)
    return slept


# -- retries


def test_an_empty_value_is_sent_so_that_the_overlay_refuses_it() -> None:
    """Without it the price would be that of the only offer, and in the currency of that."""
    assert calls.quote("a", "", currency="").parameters == (("id", "a"), ("configId", ""), ("currency", ""))
    assert calls.check(b"{}").parameters == ()


async def test_a_busy_overlay_gets_the_request_again_at_the_time_that_it_names(pauses: list[float]) -> None:
    script = Script(answer(BUSY, 429, Retry_After="3"), answer(BUSY, 503), answer(CHANGES))
    async with client(script) as overlay:
        assert (await overlay.changes()).next_since == 4
    assert pauses == [3.0, 1.0]
    assert len(set(paths(script))) == 1


async def test_after_the_last_attempt_the_problem_is_raised() -> None:
    script = Script(answer(BUSY, 429, Retry_After="0"))
    async with client(script) as overlay:
        with pytest.raises(RemoteProblemError) as caught:
            await overlay.changes()
    assert (caught.value.status, caught.value.retry_after, caught.value.request_id) == (429, 0.0, "r1")
    assert str(caught.value) == f"{BASE}/v1/changes answers 429: ask later"
    assert len(script.requests) == 3


async def test_a_longer_wait_than_the_limit_is_the_callers_to_decide(pauses: list[float]) -> None:
    script = Script(answer(BUSY, 429, Retry_After="3600"))
    async with client(script) as overlay:
        with pytest.raises(RemoteProblemError) as caught:
            await overlay.changes()
    assert (caught.value.retry_after, pauses, len(script.requests)) == (3600.0, [], 1)


async def test_a_connection_that_breaks_is_tried_again() -> None:
    script = Script(httpx.RemoteProtocolError("cut"), httpx.ReadError(""), answer(CHANGES))
    async with client(script) as overlay:
        assert (await overlay.changes()).epoch == "e"
    with pytest.raises(RemoteError, match=r"cannot query .*/v1/changes: ReadError"):
        await client(Script(httpx.ReadError(""))).changes()


async def test_an_overlay_that_is_not_there_is_not_tried_again() -> None:
    script = Script(httpx.ConnectError("refused"))
    with pytest.raises(RemoteError, match=r"cannot query .*refused"):
        await client(script).changes()
    assert len(script.requests) == 1


@pytest.mark.parametrize("text", ["", "soon", "-1", "1.5", "٣", "Mon, 99 Foo 2020 00:00:00 GMT"])
def test_a_retry_after_that_says_nothing_is_none(text: str) -> None:
    assert wait_of(httpx.Headers({"Retry-After": text.encode()})) is None


def test_a_date_says_when_to_ask_again() -> None:
    due = format_datetime(datetime.now(UTC) + timedelta(hours=2), usegmt=True)
    assert 3600 < (wait_of(httpx.Headers({"Retry-After": due})) or 0) <= 7200


def test_a_past_date_is_now() -> None:
    assert wait_of(httpx.Headers({"Retry-After": "Mon, 01 Jan 2001 00:00:00 -0000"})) == 0.0


@pytest.mark.parametrize("status", [200, 302, 400, 404, 409, 500, 501])
def test_other_answers_are_final(status: int) -> None:
    assert pause(ClientLimits(), 1, status, 0.0) is None


# -- origin and URL


@pytest.mark.parametrize(
    "target", ["https://other.example/v1/changes", "http://overlay.example/v1/changes", "//overlay.example:8443/x"]
)
async def test_the_client_is_not_led_to_another_origin(target: str) -> None:
    script = Script(answer({}, 302, Location=target), answer(CHANGES))
    async with client(script) as overlay:
        with pytest.raises(RemoteError, match="redirects to another origin, which is not followed"):
            await overlay.changes()
    assert len(script.requests) == 1


async def test_a_redirect_within_the_origin_is_followed() -> None:
    script = Script(answer({}, 307, Location=f"{BASE}:443/prefix/v1/changes"), answer(CHANGES))
    async with client(script) as overlay:
        assert (await overlay.changes()).epoch == "e"
    assert paths(script)[1] == "/prefix/v1/changes"


@pytest.mark.parametrize("url", [BASE, f"{BASE}/", f"{BASE}/v1", f" {BASE}/v1/ "])
def test_a_base_may_end_as_people_write_it(url: str) -> None:
    assert base_url(url) == BASE


@pytest.mark.parametrize(
    "url", ["", "overlay.example", "ftp://x", "https://", "https://x?y=1", "http://[", "http://x:y"]
)
def test_what_is_no_base_is_named(url: str) -> None:
    with pytest.raises(RemoteError, match="is not the URL of an overlay"):
        base_url(url)


# -- answers


async def test_a_problem_is_an_exception_with_its_members() -> None:
    async with client(Script(answer(BAD, 400))) as overlay:
        with pytest.raises(RefusedError) as caught:
            await overlay.search("x")
    assert (caught.value.status, caught.value.title, caught.value.detail) == (400, "Bad Request", "there is no color")
    assert caught.value.errors == [FAULT]
    with pytest.raises(NotThereError, match="status 404"):
        await client(Script(answer([], 404))).get("x")


async def test_a_large_answer_is_refused() -> None:
    async with client(Script(answer("x" * 2_000)), ClientLimits(answer_bytes=1_000)) as overlay:
        with pytest.raises(RemoteError, match="more than 1,000 bytes"):
            await overlay.status()


async def test_filters_are_sent_as_the_parameters_of_the_api() -> None:
    call: Any = calls.search(
        "dex", skill_id=["a", "b"], max_price=Decimal("0.10"), verified=True, type="agent", as_of_height=5
    )
    assert call.parameters == (
        ("q", "dex"), ("skillId", "a"), ("skillId", "b"), ("maxPrice", "0.10"), ("verified", "true"),
        ("type", "agent"), ("asOfHeight", "5"),
    )  # fmt: skip


def test_filters_have_their_other_names_in_the_client_too() -> None:
    call: Any = calls.search(skill="a", currency=["USD", "BSV"], facets="skillId", facet_limit=9, facet_prefix="se")
    assert call.parameters == (
        ("skill", "a"), ("currency", "USD"), ("currency", "BSV"), ("facets", "skillId"), ("facetLimit", "9"),
        ("facetPrefix", "se"),
    )  # fmt: skip


def test_an_id_is_one_segment_of_the_path() -> None:
    assert calls.get("a/b#c?d%").path == "/v1/listings/a%2Fb%23c%3Fd%25"


@pytest.mark.parametrize("token", ["", "a2b_" + "A" * 43])
async def test_every_request_to_this_overlay_alone_has_the_token(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Script(answer(CHANGES))
    script = Script(answer({}, 302, Location="/v1/changes?since=0"), answer(CHANGES), events(event("e", 1)))
    async with AsyncOverlayClient(BASE, token=token, transport=script) as overlay:
        await overlay.changes()
        async with aclosing(overlay.stream(Position("e", 0))) as stream:
            await anext(stream)
        assert [request.headers.get("A2B-Client", "") for request in script.requests] == [token] * 3
        monkeypatch.setattr(module, "AsyncOverlayClient", partial(AsyncOverlayClient, transport=other))
        await overlay.ask_at("https://other.example", calls.changes())
    assert [request.headers.get("A2B-Client") for request in other.requests] == [None]


@pytest.mark.parametrize("token", ["a2b_", "sk-" + "A" * 43, "a2b_" + "A" * 43 + "\r\nX: y", "a2b_" + "é" * 43])
def test_another_token_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(RemoteError, match=r"a2b_ and 43 letters, as `a2b clients add` prints it once$"):
        OverlayClient(BASE, token=token)


# -- the stream


async def taken(stream: AsyncIterator[tuple[Position, Any]], count: int) -> list[tuple[Position, Any]]:
    return [await anext(stream) for _ in range(count)]


async def test_a_stream_continues_where_it_broke_off_and_repeats_nothing(pauses: list[float]) -> None:
    script = Script(
        events("retry: 750", "", event("e", 1), event("e", 2), "data: {cut off"),
        answer(BUSY, 503, Retry_After="2"),
        events(event("e", 2), event("e", 3)),
    )
    async with client(script) as overlay, aclosing(overlay.stream(Position("e", 0))) as stream:
        read = await taken(stream, 3)
    assert [str(position) for position, _ in read] == ["e-1", "e-2", "e-3"]
    assert [request.headers["Last-Event-ID"] for request in script.requests] == ["e-0", "e-2", "e-2"]
    assert pauses == [0.75, 2.0]


async def test_a_reset_begins_another_epoch() -> None:
    script = Script(events(event("e", 5), event("f-1", 0, "reset", id=None), event("f-1", 1)))
    async with client(script) as overlay, aclosing(overlay.stream()) as stream:
        read = await taken(stream, 3)
    assert [(change.op, str(position)) for position, change in read] == [
        ("upsert", "e-5"), ("reset", "f-1-0"), ("upsert", "f-1-1"),
    ]  # fmt: skip
    assert Position.parse("f-1-1") == Position("f-1", 1)
    assert "Last-Event-ID" not in script.requests[0].headers


async def test_another_epoch_goes_on_and_goes_back_only_with_a_reset() -> None:
    """Each run of a server's indexer has an epoch."""
    events_of_two = Script(events(event("e", 1), event("f", 2), event("f", 2), event("f", 3)))
    async with client(events_of_two) as overlay, aclosing(overlay.stream()) as stream:
        assert [str(position) for position, _ in await taken(stream, 3)] == ["e-1", "f-2", "f-3"]
    with pytest.raises(RemoteError, match=r"went back from e-2 to f-2, of another epoch, without a reset"):
        await taken(client(Script(events(event("e", 2), event("f", 2)))).stream(), 2)


@pytest.mark.parametrize(
    "response",
    [answer({}), events("data: {}", ""), events("data: []", ""), events("data: " + "x" * (MAX_EVENT_BYTES + 1))],
)
async def test_what_is_no_stream_is_given_up(response: httpx.Response) -> None:
    script = Script(response)
    with pytest.raises(RemoteError):
        await taken(client(script).stream(), 1)
    assert len(script.requests) == 3


async def test_a_refused_stream_is_not_requested_again() -> None:
    script = Script(answer(BAD, 400))
    with pytest.raises(RefusedError):
        await taken(client(script).stream(), 1)
    assert len(script.requests) == 1


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_events_are_read_whatever_pieces_they_come_in(end: str, size: int) -> None:
    data = "".join((":", end, "retry: 10", end, *(event("e", seq).replace("\n", end) + end for seq in (1, 2)), end))
    stream, raw = ChangeStream(None), data.encode()
    read = [change for start in range(0, len(raw), size) for change in stream.feed(raw[start : start + size])]
    assert seqs(read) == [1, 2]
    assert (stream.position, stream.retry_seconds) == (Position("e", 2), 0.01)


@pytest.mark.parametrize("text", ["", "e", "e-", "-1", "e-x", "e f-1", "é-1", "e-" + "1" * 19])
def test_what_is_no_position_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not a position"):
        Position.parse(text)


# -- the synchronous client


async def test_it_works_where_an_event_loop_is_running() -> None:
    script = Script(answer(CHANGES))
    with OverlayClient(BASE, transport=script) as overlay:
        assert overlay.changes().next_since == 4


def test_a_stream_can_be_left_and_a_closed_client_says_so() -> None:
    script = Script(events(*(event("e", seq) for seq in range(1, 9))))
    overlay = OverlayClient(BASE, transport=script)
    assert [change.seq for _, change in islice(overlay.stream(), 3)] == [1, 2, 3]
    overlay.close()
    overlay.close()
    with pytest.raises(RuntimeError, match="closed"):
        overlay.changes()
