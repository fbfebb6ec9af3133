"""A reader of HTML gets errors of pages in HTML; all others get problem details."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from aiohttp import ClientSession

from indexer.setting_values import Quota
from indexer.store import StoreUnavailableError
from overlay.api.problems import ProblemError
from overlay.api.services import AppServices
from tests.overlay.calls import problem
from tests.overlay.conftest import Serve
from tests.overlay.fakes import changed
from tests.overlay.web.test_search_page import BROWSER, Page, page

TXID = "ab" * 32


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: object) -> Any:
        raise error

    return fail


async def test_a_body_that_is_refused_is_a_page_in_a_browser(client: ClientSession) -> None:
    for body, status, words in (
        (b"what=%ff", 400, "The body is not a form in UTF-8"),
        (b"what=" + b"x" * (5 << 20), 413, "The body is larger than 5,242,880 bytes."),
    ):
        async with client.post("/publish", data=BytesIO(body), headers=BROWSER) as answer:
            assert answer.status == status
            assert answer.content_type == "text/html"
            assert "Content-Security-Policy" in answer.headers
            assert words in Page(await answer.text()).text
        async with client.post("/publish", data=BytesIO(body)) as answer:
            await problem(answer, status)


@pytest.mark.parametrize(
    "error",
    [
        ProblemError(503, "no chain is indexed yet", headers={"Retry-After": "1"}),
        StoreUnavailableError("the server is gone: password=secret"),
    ],
)
async def test_what_cannot_be_answered_for_now_is_a_page_in_a_browser(
    serve: Serve, services: AppServices, error: Exception
) -> None:
    client = await serve(changed(services, diagnose=failing(error), status=failing(error)))
    for path in (f"/publish?tx={TXID}", "/status"):
        async with client.get(path, headers=BROWSER) as answer:
            assert answer.status == 503
            assert answer.headers["Retry-After"] == "1"
            text = Page(await answer.text()).text
        assert "Service unavailable" in text
        assert "secret" not in text
        for accept in ("*/*", "application/json", "application/json, text/html;q=0.5"):
            async with client.get(path, headers={"Accept": accept}) as answer:
                await problem(answer, 503)


async def test_an_unknown_listing_is_a_page_unless_json_is_preferred(client: ClientSession) -> None:
    assert "No listing has the id" in (await page(client, "/listings/nobody", 404)).text
    async with client.get("/listings/nobody", headers={"Accept": "application/json"}) as answer:
        await problem(answer, 404)


async def test_paths_that_lead_nowhere_and_limits_are_pages_in_a_browser_but_not_in_the_api(
    serve: Serve, services: AppServices
) -> None:
    client = await serve(changed(services, limits={"read": Quota(3, 60)}))
    for path, status, words in (
        ("/nowhere", 404, "There is nothing at '/nowhere'"),
        ("/status", 200, "Chains"),
        ("/status", 200, "Chains"),
        ("/status", 200, "Chains"),
        ("/status", 429, "Too many requests from your address"),
    ):
        async with client.get(path, headers=BROWSER) as answer:
            assert (answer.status, answer.content_type) == (status, "text/html")
            assert words in Page(await answer.text()).text
            assert status != 429 or int(answer.headers["Retry-After"]) > 0
    async with client.get("/nowhere") as answer:
        await problem(answer, 404)
    async with client.get("/v1/status", headers=BROWSER) as answer:
        await problem(answer, 429)


async def test_what_the_server_did_wrong_is_a_page_with_the_id_it_is_found_under(
    serve: Serve, services: AppServices
) -> None:
    client = await serve(changed(services, status=failing(RuntimeError("secret"))))
    async with client.get("/status", headers=BROWSER | {"X-Request-Id": "here-it-is"}) as answer:
        assert (answer.status, answer.headers["X-Request-Id"]) == (500, "here-it-is")
        text = Page(await answer.text()).text
    assert "Request id: here-it-is" in text
    assert "secret" not in text
