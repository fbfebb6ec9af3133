"""Log lines: one object or one line each, with the request's id, without secrets, whatever strangers wrote."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st

from indexer.settings import Settings, SettingsError
from indexer.store.clients import StoredClient
from overlay.api import middleware
from overlay.api.access_log import AccessLog
from overlay.api.answers import Answer
from overlay.api.client_tokens import ClientTokens, digest
from overlay.api.counters import Counters
from overlay.api.request_id import REQUEST_ID
from overlay.api.services import AppServices
from overlay.app import logs
from overlay.app.logs import ERRORS, LONGEST, WARNINGS, JsonLines, TextLines
from tests.overlay.calls import problem
from tests.overlay.conftest import Serve
from tests.overlay.fakes import FakeEngine, changed

log = logging.getLogger("overlay.test")

SECRETS = (
    "http://user:hunter2@node:8332/", "https://rpc.example/v3/0123456789abcdef0123456789abcdef",
    "https://a.example/?api_key=hunter2&x=1", "postgresql+psycopg://me:hunter2@db/a2b",
)  # fmt: skip


def record(message: str, *arguments: object, level: int = logging.INFO, **more: Any) -> logging.LogRecord:
    log_record = logging.LogRecord("overlay.test", level, "file.py", 1, message, arguments, more.pop("exc_info", None))
    vars(log_record).update(more)
    return log_record


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """The lines that are logged as JSON while a test runs."""
    root = logging.getLogger()
    before, level, written = root.handlers[:], root.level, list[str]()
    logs.set_up_logging(written.append, as_json=True)
    yield written
    root.handlers[:] = before
    root.setLevel(level)
    logs._Lines.counters = None


def test_a_line_of_json_has_time_logger_and_message() -> None:
    body = json.loads(JsonLines().format(record("%d blocks", 3, members={"status": 200}, created=1_700_000_000.0625)))
    assert body == {
        "time": "2023-11-14T22:13:20.062Z", "level": "info", "logger": "overlay.test", "message": "3 blocks",
        "status": 200,
    }  # fmt: skip


@given(st.text(max_size=200))
def test_any_text_is_one_line_that_reads_as_an_object_and_steers_nothing(text: str) -> None:
    line = JsonLines().format(record("%s", text))
    assert isinstance(json.loads(line)["message"], str)
    for item in (line, TextLines().format(record("%s", text))):
        assert not {"\n", "\r", "\x1b", "\u202e", "\x07"} & set(item)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("form", [JsonLines(), TextLines()])
def test_no_secret_of_a_url_is_written_not_in_a_traceback_either(secret: str, form: logging.Formatter) -> None:
    try:
        raise RuntimeError(f"cannot query {secret}")
    except RuntimeError as error:
        line = form.format(record("asking %s failed", secret, exc_info=(type(error), error, error.__traceback__)))
    assert "Traceback" in line
    assert "RuntimeError: cannot query" in line
    for hidden in ("hunter2", "0123456789abcdef0123456789abcdef"):
        assert hidden not in line


def test_a_line_is_bounded() -> None:
    for form in (JsonLines(), TextLines()):
        assert len(form.format(record("%s", "://" * 1_000_000))) < LONGEST + 500


def test_warnings_and_errors_are_counted(lines: list[str]) -> None:
    counters = Counters()
    logs.count_warnings(counters)
    for level in (logging.INFO, logging.WARNING, logging.ERROR, logging.ERROR):
        log.log(level, "something")
    assert (counters.gauge(WARNINGS), counters.gauge(ERRORS)) == (1, 2)
    assert [json.loads(line)["level"] for line in lines] == ["info", "warning", "error", "error"]


class Telling(FakeEngine):
    """Logs a line for every search, in whichever thread it is asked."""

    slow = True

    def search(self, query: Any) -> Any:
        log.info("searching")
        if query.text == "mistake":
            raise RuntimeError("a mistake of ours")
        return super().search(query)


async def test_every_line_of_a_request_carries_the_id_of_its_answer(
    serve: Serve, services: AppServices, lines: list[str]
) -> None:
    assert isinstance(services.engine, FakeEngine)
    services.engine.__class__ = Telling
    client = await serve(services)

    async def ask(number: int) -> tuple[str, str]:
        async with client.get(f"/v1/search?limit={number + 1}", headers={"X-Request-Id": f"mine-{number}"}) as response:
            assert response.status == 200
            return f"mine-{number}", response.headers["X-Request-Id"]

    answered = await asyncio.gather(*map(ask, range(8)))
    assert all(sent == answer for sent, answer in answered)
    answers = [json.loads(line) for line in lines]
    assert sorted(item["request"] for item in answers if item["message"] == "searching") == [
        f"mine-{n}" for n in range(8)
    ]
    async with client.get("/v1/search?q=mistake") as response:
        problem_body = await problem(response, 500)
    mine = [line for line in map(json.loads, lines) if line.get("request") == problem_body["requestId"]]
    assert [item["level"] for item in mine] == ["info", "error"]
    assert "a mistake of ours" in mine[1]["exception"]
    assert REQUEST_ID.get() == "", "nothing is left outside of requests"


async def test_requests_are_logged_where_that_is_configured(
    serve: Serve, services: AppServices, lines: list[str]
) -> None:
    client = await serve(changed(services, access_log=AccessLog(every=True)))
    async with client.get("/v1/search?q=tower&token=hunter2") as response:
        request_id = response.headers["X-Request-Id"]
    (answer,) = [json.loads(line) for line in lines if '"target"' in line]
    assert answer["request"] == request_id
    assert answer["message"].startswith("GET /v1/search?q=tower&token=*** answered with 400 after ")
    assert (answer["method"], answer["status"], answer["client"]) == ("GET", 400, "127.0.0.0/24")
    assert answer["target"] == "/v1/search?q=tower&token=***"
    assert answer["level"] == "info"


async def test_by_default_only_slow_answers_are_logged(
    client: ClientSession, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client.get("/v1/search?q=tower"):
        pass
    assert not [line for line in lines if '"target"' in line]
    monkeypatch.setattr(middleware, "SLOW_SECONDS", 0.0)
    async with client.get("/v1/search?q=tower"):
        pass
    (answer,) = [json.loads(line) for line in lines if '"target"' in line]
    assert (answer["level"], answer["logger"]) == ("warning", "overlay.http")


COMBINED = re.compile(
    r'(\S+) - (\S+) \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000\] "((?:[^"\\]|\\.)*)" (\d{3}) (\d+|-) '
    r'"((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)"'
)
"""A line as analysers of Apache's logs read it."""


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_request_is_a_line_of_the_combined_format(agent: str, referrer: str) -> None:
    request = make_mocked_request("GET", "/v1/search?q=%22", headers={"User-Agent": agent, "Referer": referrer})
    text = AccessLog.of(("combined",)).combined(request, Answer(body=b"abc", headers={}), '/?q="', "acme", "10.1.2.3")
    line = TextLines().format(record("%s", text, bare=True))
    match = COMBINED.fullmatch(line)
    assert match
    assert match.groups()[:5] == ("10.1.2.0", "acme", 'GET /?q=\\" HTTP/1.1', "200", "3")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("requests", ("203.0.113.0/24", "2001:db8:1::/48", "203.0.113.0/24", "unknown")),
        ("requests addresses", ("203.0.113.77", "2001:db8:1:2::3", "203.0.113.77", "unknown")),
    ],
)
def test_addresses_are_networks_unless_the_setting_says_otherwise(words: str, shown: tuple[str, ...]) -> None:
    log_form = AccessLog.of(words.split())
    assert tuple(map(log_form.shown, ("203.0.113.77", "2001:db8:1:2::3", "::ffff:203.0.113.77", ""))) == shown


async def test_a_client_with_a_token_is_named_in_combined_lines(serve: Serve, services: AppServices) -> None:
    tokens, token = ClientTokens([StoredClient("acme", digest("a2b_x"), "read=9/9", 1)]), {"A2B-Client": "a2b_x"}
    client = await serve(changed(services, access_log=AccessLog(every=True, is_combined=True), tokens=tokens))
    root, written = logging.getLogger(), list[str]()
    before, level = root.handlers[:], root.level
    logs.set_up_logging(written.append)
    try:
        async with client.get("/v1/search?q=tower", headers=token) as response:
            size = int(response.headers["Content-Length"])
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    (match,) = filter(None, map(COMBINED.fullmatch, written))
    assert match.groups()[:4] == ("127.0.0.0", "acme", "GET /v1/search?q=tower HTTP/1.1", "200")
    assert int(match[5]) == size


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ()),
        ("json  requests", ("json", "requests")),
        ("text", ("text",)),
        ("text combined addresses", ("text", "combined", "addresses")),
    ],
)
def test_what_the_setting_may_say(text: str, words: tuple[str, ...]) -> None:
    assert Settings.load({"log": text}).log == words


@pytest.mark.parametrize("text", ["loud", "text json", "json,requests", "json combined", "combined requests"])
def test_what_the_setting_may_not_say(text: str) -> None:
    with pytest.raises(SettingsError, match=r"log is .*: write text or json"):
        Settings.load({"log": text})
