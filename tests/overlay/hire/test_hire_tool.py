"""The tool `hire` of `a2b mcp` with the official client: paid within the policy, else once the person agrees."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import ElicitResult

from overlay.client import AsyncOverlayClient
from overlay.client.hire.journal import HireState
from overlay.client.hire.wallet import Wallet
from overlay.systems.mcp.hire_tool import HIRE, HireTool
from overlay.systems.mcp.mcp_server import server
from overlay.systems.mcp.remote_source import RemoteSource
from tests.overlay.hire.test_hiring import POLICY, hired
from tests.overlay.hire.world import World
from tests.running import a2b_here

DAY = "mcp_satoshis_per_day = 60000\n"


async def called(world: World, wallet: Wallet, answer: ElicitResult | None = None, **arguments: Any) -> Any:
    """The result of the tool; a client with an `answer` can ask its user."""
    questions = list[str]()

    async def ask(_context: Any, params: Any) -> ElicitResult:
        questions.append(params.message)
        assert answer is not None
        return answer

    async with AsyncOverlayClient(world.overlay) as overlay:
        source, tool = RemoteSource(overlay), HireTool(overlay, wallet, "bsv:regtest", allow_local=True)
        served = server("1", lambda _context: source, more=[(HIRE, tool.call)])
        more: dict[str, Any] = {} if answer is None else {"elicitation_callback": ask, "mode": "legacy"}
        async with Client(served, **more) as client:
            assert [tool.name for tool in (await client.list_tools()).tools][-1] == "hire"
            return await client.call_tool("hire", arguments), questions


async def test_a_model_pays_within_its_part_of_the_policy(world: World, tmp_path: Path) -> None:
    wallet = world.wallet(tmp_path / "wallet", POLICY + DAY)
    result, _ = await called(world, wallet, need="echo full", input="hello", maxSatoshis=60_000)
    answer = result.structured_content
    assert (answer["state"], answer["answer"], answer["satoshis"]) == ("done", ["echo: hello"], 50_000)
    assert "written by strangers" in answer["notice"]
    again, _ = await called(world, wallet, need="echo full", input="hello")
    assert (again.structured_content["state"], len(world.agent.calls)) == ("offered", 1), "the day's satoshis are spent"


async def test_beyond_the_policy_the_user_decides(world: World, tmp_path: Path) -> None:
    wallet = world.wallet(tmp_path / "wallet")
    accepted = ElicitResult(action="accept", content={"pay": True})
    for refusal in (ElicitResult(action="decline"), ElicitResult(action="accept", content={"pay": False})):
        result, questions = await called(world, wallet, refusal, need="echo full")
        assert result.structured_content["state"] == "offered"
        assert "50,000 satoshis of BSV" in questions[0]
    assert not world.agent.calls
    result, _ = await called(world, wallet, accepted, need="echo full")
    assert (result.structured_content["state"], len(world.agent.calls)) == ("done", 1)


async def test_an_offer_is_approved_on_the_terminal_and_never_by_the_model(world: World, tmp_path: Path) -> None:
    wallet = world.wallet(tmp_path / "wallet")
    offered, _ = await called(world, wallet, need="echo full", input="hello")
    code = offered.structured_content["hire"]
    assert offered.structured_content["approve"] == f"a2b hire --approve {code}"
    refused, _ = await called(world, wallet, hire=code)
    assert (refused.is_error, "has not approved" in refused.content[0].text) == (True, True)
    approve = ("hire", "--approve", code, "--wallet", str(wallet.folder), "--allow-local")
    done = await asyncio.to_thread(a2b_here, *approve, cwd=tmp_path)
    assert (done.returncode, "not agreed to" in done.stderr) == (1, True), "a terminal is needed"
    assert wallet.journal.get(code).state is HireState.OFFERED
    wallet.journal.save(wallet.journal.get(code), state=HireState.AGREED, by_policy=False)
    result, _ = await called(world, wallet, hire=code)
    assert not result.is_error, result.content
    assert result.structured_content["answer"] == ["echo: hello"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "need is missing"),
        ({"need": "echo full", "maxSatoshis": 10}, "at most 10 may be paid"),
        ({"hire": "unknown"}, "no hire unknown"),
        ({"need": "echo full", "policy": "x"}, "policy"),
    ],
)
async def test_wrong_calls_are_refused_in_a_sentence(
    world: World, tmp_path: Path, arguments: dict[str, Any], sentence: str
) -> None:
    result, _ = await called(world, world.wallet(tmp_path / "wallet"), **arguments)
    assert (result.is_error, sentence in result.content[0].text) == (True, True), result.content


async def test_hires_of_the_user_are_not_shown_to_a_model(world: World, tmp_path: Path) -> None:
    hire, wallet = await hired(world, tmp_path, "echo full")
    result, _ = await called(world, wallet, hire=hire.id)
    assert (result.is_error, "not asked for with this tool" in result.content[0].text) == (True, True)
