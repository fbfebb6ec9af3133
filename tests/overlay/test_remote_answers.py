"""Answers of a server that is not an overlay, or a strange one: one sentence that names the server and the member."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overlay import cli
from overlay.client import AsyncOverlayClient
from overlay.client.calls import Call
from tests.overlay.calls import TOWER
from tests.overlay.test_cli import Done, alone, data, served

__all__ = ["alone", "data", "served"]

SERVER = "http://overlay.example"
Answers = Mapping[str, bytes]
COMMANDS: dict[str, list[str]] = {
    "/v1/search": ["search", "tower"],
    f"/v1/listings/{TOWER}": ["show", TOWER],
    f"/v1/listings/{TOWER}/history": ["history", TOWER],
    f"/v1/listings/{TOWER}/proof": ["verify", TOWER, "--chain", "bsv:regtest", "--offline"],
    f"/v1/diagnose/{TOWER[:64]}": ["diagnose", TOWER[:64]],
    "/v1/status": ["status"],
    "/v1/check": ["check", "card.json"],
    "/v1/pay/check": ["pay-check", "card.json", "--config", TOWER],
}
"""The path whose answer is strange, and a command that asks for it."""

POSTED = ("/v1/check", "/v1/pay/check")


def ask(arguments: list[str], answers: Answers) -> Done:
    """Run a command against a server that answers so."""

    async def fetch(_client: AsyncOverlayClient, call: Call[Any]) -> tuple[int, httpx.Headers, bytes]:
        return 200, httpx.Headers(), answers[call.path]

    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(AsyncOverlayClient, "fetch", fetch),
        patch("overlay.commands.search.can_mark", lambda: True),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        cli.main([*arguments, "--url", SERVER])
    assert isinstance(ended.value.code, int)
    return Done(ended.value.code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def answers(served: str) -> Answers:
    """The answers of a real overlay on these paths."""
    card = b'{"name": "Echo", "url": "https://echo.example", "skills": [{"id": "s"}]}'
    parameters: dict[str, dict[str, Any]] = {
        "/v1/search": {"params": [("q", "tower"), ("highlight", "true")]},
        "/v1/check": {"content": card},
        "/v1/pay/check": {"json": {"claim": {"configId": "wt-basic"}, "id": TOWER}},
        f"/v1/listings/{TOWER}/proof": {"params": [("from", "0")]},
    }
    paths = [*COMMANDS, f"/v1/listings/{TOWER}/card"]
    with httpx.Client(base_url=served) as client:
        responses = {
            path: client.request("POST" if path in POSTED else "GET", path, **parameters.get(path, {}))
            for path in paths
        }
    assert {response.status_code for response in responses.values()} == {200}
    return {path: response.content for path, response in responses.items()}


@pytest.fixture(autouse=True)
def card_file(alone: None) -> None:
    with open("card.json", "w", encoding="utf-8") as file:  # noqa: PTH123 - in the folder of `alone`
        file.write("{}")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.just(10**3_000),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def strange(draw: st.DrawFn, value: Any) -> Any:
    """A value with one member of it replaced, or taken away."""
    if isinstance(value, dict) and value and draw(st.integers(0, 9)):
        name = draw(st.sampled_from(sorted(value)))
        if draw(st.booleans()):
            return {**value, name: draw(strange(value[name]))}
        return {key: item for key, item in value.items() if key != name}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        drawn = draw(st.integers(0, len(value) - 1))
        return [*value[:drawn], draw(strange(value[drawn])), *value[drawn + 1 :]]
    return draw(JSON)


@pytest.mark.parametrize("path", COMMANDS)
def test_no_answer_ends_in_a_traceback(path: str, answers: Answers) -> None:
    value = json.loads(answers[path])

    @settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.data(), st.booleans())
    def holds(drawing: st.DataObject, as_json: bool) -> None:
        other = value
        for _ in range(drawing.draw(st.integers(1, 3))):
            other = drawing.draw(strange(other))
        arguments = [*COMMANDS[path], *(["--json"] if as_json else [])]
        ended = ask(arguments, {**answers, path: json.dumps(other).encode()})
        assert ended.code in (0, 1, 3)
        if ended.code == 3:
            beyond = "200, and not with JSON"  # as a number of more than 100 digits is
            member = "otherwise than an overlay does: "
            assert ended.err.startswith(tuple(f"a2b: {SERVER}{path} answers {message}" for message in (member, beyond)))
            assert ended.err.count("\n") == 1

    holds()


def test_what_an_overlay_answers_is_shown(answers: Answers) -> None:
    for path, arguments in COMMANDS.items():
        ended = ask(arguments, answers)
        assert (ended.code in (0, 1), ended.err) == (True, ""), path


@pytest.mark.parametrize(
    ("path", "change", "complaint"),
    [
        ("/v1/search", lambda page: page.pop("items"), "Object missing required field `items`"),
        ("/v1/search", lambda page: page["items"][0].pop("name"), "required field `name` - at `$.items[0]`"),
        ("/v1/search", lambda page: page["items"][0].update(name=7), "`str`, got `int` - at `$.items[0].name`"),
        ("/v1/search", lambda page: page.update(total=True), "Expected `int`, got `bool` - at `$.total`"),
        ("/v1/search", lambda page: page.update(total=-1), "Expected `int` >= 0 - at `$.total`"),
        ("/v1/status", lambda status: status.update(chains={}), "Expected `array`, got `object` - at `$.chains`"),
        ("/v1/status", lambda status: status["stateHash"].update(x={}), "`height` - at `$.stateHash[...]`"),
        (f"/v1/listings/{TOWER}", lambda item: item.pop("name"), "Object missing required field `name`"),
        (
            f"/v1/diagnose/{TOWER[:64]}",
            lambda result: result["steps"].append(None),
            "Expected `object`, got `null` - at `$.steps[",
        ),
    ],
)
def test_the_member_that_is_wrong_is_named(
    path: str, change: Callable[[Any], object], complaint: str, answers: Answers
) -> None:
    value = copy.deepcopy(json.loads(answers[path]))
    change(value)
    ended = ask(COMMANDS[path], {**answers, path: json.dumps(value).encode()})
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith(f"a2b: {SERVER}{path} answers otherwise than an overlay does: ")
    assert complaint in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("path", [f"/v1/listings/{TOWER}", f"/v1/listings/{TOWER}/proof"])
@pytest.mark.parametrize("value", [b"[]", b"7", b"null", b"{}"])
def test_what_proves_nothing_is_not_verified(path: str, value: bytes, answers: Answers) -> None:
    ended = ask(COMMANDS[f"/v1/listings/{TOWER}/proof"], {**answers, path: value})
    assert (ended.code, ended.err) == (1, "")
    assert ended.out.endswith("not proved: answer\n")


@pytest.mark.parametrize("value", [b"null", b"7", b'"x"', b"[]", b"[{}]"])
def test_what_is_no_object_is_refused(value: bytes, answers: Answers) -> None:
    ended = ask(COMMANDS["/v1/status"], {**answers, "/v1/status": value})
    assert (ended.code, ended.out) == (3, "")
    assert "answers otherwise than an overlay does: Expected `object`, got" in ended.err
