"""The lines of the status page: what they show and say in words, and that memory and page stay small."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from hypothesis import given
from hypothesis import strategies as st

from overlay.api.height_history import DAY_SECONDS, MAX_SAMPLES, HeightHistory, HeightSample
from overlay.api.services import AppServices
from overlay.web import status_page
from overlay.web.rendering import PAGE_BYTES
from tests.chainkit import ChainKit
from tests.fakes import MemoryChain
from tests.overlay.conftest import Serve
from tests.overlay.fakes import changed, status
from tests.overlay.web.test_search_page import Page, page
from tests.serving import new_app, running
from tests.waiting import until

NOON = 1_788_264_000
"""2026-09-01 12:00 UTC, in seconds since 1970."""


@pytest.fixture
def two_hours_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_page, "time", lambda: NOON + 7_200.5)


async def shown(serve: Serve, services: AppServices, samples: Sequence[HeightSample], *chains: dict[str, Any]) -> Page:
    """The page of chains that had these samples; these members of a chain differ from those of the sample chain."""
    history, (sample_chain,) = HeightHistory(), status()["chains"]
    members = [sample_chain | chain for chain in chains or ({"height": 140, "tip": 140, "lag": 0},)]
    for chain in members:
        for sample in samples:
            history.add(chain["name"], sample)
    client = await serve(changed(services, history=history, status=lambda: status() | {"chains": members}))
    return await page(client, "/status")


async def test_the_page_is_read_in_the_one_thread_of_reports(serve: Serve, services: AppServices) -> None:
    names: list[str] = []

    def noted() -> dict[str, Any]:
        names.append(threading.current_thread().name)
        return status()

    await page(await serve(changed(services, status=noted)), "/status")
    assert names[0].startswith("report")


@pytest.mark.usefixtures("two_hours_later")
async def test_heights_and_lag_are_drawn_and_described_in_words(serve: Serve, services: AppServices) -> None:
    samples = [HeightSample(NOON, 100, 40), HeightSample(NOON + 3_600, 139, 1)]
    html = await shown(serve, services, samples)
    height, lag = html.all("svg")[1:]
    assert height["role"] == lag["role"] == "img"
    assert [path["d"] for path in html.all("path")[-2:]] == ["M0 96H80V6H160V4H160", "M0 4H80V94H160V96H160"]
    for words in (
        "Height of bsv-regtest since 2026-09-01 12:00 UTC From 100 to 140 blocks; the least was 100, the greatest 140.",
        "Lag of bsv-regtest since 2026-09-01 12:00 UTC From 40 to 0 blocks; the least was 0, the greatest 40.",
    ):
        assert words in html.text


async def test_degraded_parts_are_named_in_words(serve: Serve, services: AppServices) -> None:
    (sample_chain,) = status()["chains"]
    members = {"state": "silent", "followerSeenAt": "2026-09-01T12:00:00Z", "lastBlockAt": "2026-09-01T11:58:00Z"}
    members |= {"sourcesDisagree": "two is elsewhere", "warnings": ["two is elsewhere", "three is behind"]}
    degraded = ["database", "index-behind", "follower:<b>", "sources-disagree:<b>"]
    answer = {"chains": [sample_chain | members], "degraded": degraded}
    html = await page(await serve(changed(services, status=lambda: status() | answer)), "/status")
    away = "the database does not answer or cannot be written, and counts may be old"
    chain = "the chain <b> is not followed; the sources of the chain <b> disagree"
    for words in (
        f"Degraded: {away}; new listings cannot be searched yet; {chain}.",
        "seen 2026-09-01 12:00 UTC", "last block 2026-09-01 11:58 UTC", "Three is behind",
    ):  # fmt: skip
        assert words in html.text
    assert html.text.lower().count("two is elsewhere") == 1
    assert "Degraded" not in (await page(await serve(services), "/status")).text


@pytest.mark.usefixtures("two_hours_later")
async def test_what_is_not_known_is_not_drawn(serve: Serve, services: AppServices) -> None:
    html = await shown(serve, services, [HeightSample(NOON, 125, None)], {"height": 125, "tip": None, "lag": None})
    assert "Height of bsv-regtest since 2026-09-01 12:00 UTC 125 blocks all the time." in html.text
    assert "Lag of" not in html.text
    assert "Height of" not in (await shown(serve, services, [], {})).text


@pytest.mark.usefixtures("two_hours_later")
async def test_the_page_of_many_chains_stays_small(serve: Serve, services: AppServices) -> None:
    jagged = [HeightSample(NOON - 60 * n, n % 7 * 10**9 + n, n % 5 * 10**9) for n in range(MAX_SAMPLES, 0, -1)]
    chains = [{"name": f"chain{number:020}", "lag": 7} for number in range(30)]
    html = await shown(serve, services, jagged, *chains)
    assert len(html.all("svg")) == 1 + 2 * status_page.MAX_CHAINS
    assert html.size <= PAGE_BYTES
    assert f"Drawn for the first {status_page.MAX_CHAINS} chains." in html.text


@given(st.lists(st.integers(0, 3 * DAY_SECONDS), max_size=50), st.integers(0, 2 * MAX_SAMPLES))
def test_the_history_has_a_day_at_most_in_order(jumps: list[int], steady: int) -> None:
    history, last = HeightHistory(), 0
    times = [*jumps, *(DAY_SECONDS + 60 * number for number in range(steady))]
    for last in times:
        history.add("live", HeightSample(last, 1, 0))
    sampled = [sample.time for sample in history.samples("live")]
    assert sampled == sorted(set(sampled))
    assert len(sampled) <= MAX_SAMPLES
    assert sampled[-1:] == times[-1:]
    assert all(last - DAY_SECONDS <= time <= last for time in sampled)
    assert history.samples("other") == ()


async def test_a_server_samples_its_chains_from_the_start(tmp_path: Path) -> None:
    kit = ChainKit()
    kit.mine()
    async with running(new_app(tmp_path, MemoryChain(*kit.blocks, name="live"))) as (runner, _):
        await until(lambda: runner.status.history.samples("live"))
        await until(lambda: runner.status.ready() is None)
        async with ClientSession(runner.url) as client:
            html = await page(client, "/status")
        assert "Height of live since" in html.text
        assert any(job.name == "heights" for job in runner.status.jobs())
