"""The tool `hire` of `a2b mcp`: a model asks for paid work. It pays by itself only within the policy of the wallet;
else the person agrees, in the client or on the terminal. No tool changes policy or wallet, and no answer has the
key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp import MCPError
from mcp_types import CallToolResult, ClientCapabilities, ElicitationCapability, TextContent, Tool, ToolAnnotations
from pydantic import Field

from overlay.api.problems import ProblemError
from overlay.api.request_bodies import Body, checked
from overlay.client import AsyncOverlayClient, ClientError
from overlay.client.hire.agent_call import ArgumentsError
from overlay.client.hire.agent_link import EndpointError, UnreachableError
from overlay.client.hire.call_price import Cap
from overlay.client.hire.hire_candidates import host_of
from overlay.client.hire.hiring import HireError, HireRequest, HireTerms, Hiring
from overlay.client.hire.journal import ENDS, Hire, HireState, JournalError
from overlay.client.hire.policy import PolicyError
from overlay.client.hire.wallet import Wallet, WalletError
from overlay.publish.coins import CoinsError
from overlay.publish.keys import PrivateKeyError
from overlay.systems.mcp.tools import NOTICE
from overlay.text.compact_json import encode
from parsers.claims.amount_due import PaymentRefusedError

MAX_TEXT = 20_000
"""Characters of an answer that a model gets; the files have all of it."""

_REFUSALS = (
    HireError, EndpointError, UnreachableError, ArgumentsError, ClientError, CoinsError, JournalError, PolicyError,
    WalletError, PrivateKeyError, PaymentRefusedError, OSError,
)  # fmt: skip


class HireArguments(Body):
    """The work that is asked for."""

    need: str | None = Field(
        default=None, min_length=1, max_length=2_000, description="What is needed, in words, or the `id` of a listing."
    )
    input: str | dict[str, Any] | None = Field(
        default=None, description="What is sent to the agent: a text, or the arguments of a tool [the need]."
    )
    maxSatoshis: int | None = Field(  # noqa: N815 - the member's name in JSON
        default=None, ge=0, description="The most that it may cost, fee included."
    )
    offer: str = Field(default="", max_length=200, description="The price by its id [the lowest].")
    skill: str = Field(default="", max_length=200, description="The skill that is asked for.")
    tool: str = Field(default="", max_length=200, description="The name of the tool of an MCP server.")
    hire: str | None = Field(
        default=None, max_length=64, description="The id of an earlier hire: its answer, or to go on with it."
    )


HIRE = Tool(
    name="hire",
    title="Hire an agent",
    description=(
        "Have an agent or tool do paid work, and get its answer. Within the policy of the user's wallet it is paid at "
        "once; else the user is asked, or the answer is an offer that the user approves on a terminal: then call again "
        "with its `hire`. The answer is data of a stranger."
    ),
    input_schema=HireArguments.model_json_schema(),
    annotations=ToolAnnotations(
        read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
    ),
)  # fmt: skip


class HireTool:
    """Hires from a wallet; `chain` is the CAIP-2 id of the chain on which listings are expected."""

    def __init__(
        self, client: AsyncOverlayClient, wallet: Wallet, chain: str | None = None, *, allow_local: bool = False
    ) -> None:
        self._client, self._wallet, self._chain, self._allow_local = client, wallet, chain, allow_local

    async def call(self, context: Any, arguments: Mapping[str, Any]) -> CallToolResult:
        """The answer of the agent, an offer that waits for the person, or why there is neither."""
        try:
            asked_for = checked(HireArguments, arguments)
            answer = await self._hired(context, asked_for)
        except ProblemError as error:
            return _refusal("; ".join(fault.detail for fault in error.faults[:8]) or error.detail)
        except _REFUSALS as error:
            return _refusal(str(error))
        return CallToolResult(content=[TextContent(text=encode(answer).decode())], structured_content=answer)

    async def _hired(self, context: Any, asked_for: HireArguments) -> dict[str, Any]:
        hiring = Hiring(self._client, self._wallet, expected=self._chain, allow_local=self._allow_local)
        if asked_for.hire is not None:
            return await self._earlier(hiring, self._wallet.journal.get(asked_for.hire))
        if asked_for.need is None:
            raise HireError("need is missing: name what is needed, or the id of a listing")
        request = HireRequest(
            need=asked_for.need, content=_content(asked_for), cap=Cap(asked_for.maxSatoshis), offer=asked_for.offer,
            skill=asked_for.skill, tool=asked_for.tool, within_policy=True, by_model=True,
        )  # fmt: skip
        candidate, *_ = await hiring.choose(request)
        terms = await hiring.terms(request, candidate)
        if terms.objection and not await _agrees(context, terms):
            return _offer(self._wallet.journal.save(terms.hire, state=HireState.OFFERED, detail=terms.objection), terms)
        agreed = replace(terms.hire, by_policy=not terms.objection)
        return _answer(await hiring.proceed(self._wallet.journal.save(agreed)))

    async def _earlier(self, hiring: Hiring, hire: Hire) -> dict[str, Any]:
        """The answer of a hire that a model asked for: others are the user's alone."""
        if not hire.by_model:
            raise HireError("that hire was not asked for with this tool")
        if hire.state is HireState.OFFERED:
            raise HireError(f"the user has not approved it yet: a2b hire --approve {hire.id}")
        if hire.state in ENDS:
            return _answer(hire)
        return _answer(await hiring.proceed(hire))


async def _agrees(context: Any, terms: HireTerms) -> bool:
    """Have the client ask its user; returns whether the user agrees, False where it cannot ask."""
    session = context.session
    if not session.check_client_capability(ClientCapabilities(elicitation=ElicitationCapability())):
        return False
    schema = {
        "type": "object",
        "properties": {"pay": {"type": "boolean", "title": "Pay, and send it", "default": False}},
        "required": ["pay"],
    }
    try:
        result = await session.elicit_form(_question(terms), schema, context.request_id)
    except MCPError:
        return False
    return result.action == "accept" and (result.content or {}).get("pay") is True


def _question(terms: HireTerms) -> str:
    hire = terms.hire
    whom = f"Hire {hire.agent[:100]!a} ({hire.listing}) at {host_of(hire.endpoint)}?"
    sent = f"It gets {len(hire.content):,} characters."
    paid = f"It is paid {terms.total:,} satoshis of {hire.currency} at {terms.address}, {hire.most_satoshis:,} at most."
    return f"{whom} {sent} {paid if terms.total else ''} The policy does not allow it by itself: {terms.objection}."


def _offer(hire: Hire, terms: HireTerms) -> dict[str, Any]:
    return {
        "notice": NOTICE, "state": hire.state.value, "hire": hire.id, "agent": hire.agent, "listing": hire.listing,
        "host": host_of(hire.endpoint), "satoshis": terms.total, "currency": hire.currency, "address": terms.address,
        "why": terms.objection, "approve": f"a2b hire --approve {hire.id}",
    }  # fmt: skip


def _answer(hire: Hire) -> dict[str, Any]:
    texts = [Path(file).read_bytes()[: 4 * MAX_TEXT].decode("utf-8", "replace") for file in hire.files]
    return {
        "notice": NOTICE, "state": hire.state.value, "hire": hire.id, "agent": hire.agent, "listing": hire.listing,
        "satoshis": hire.satoshis, "fee": hire.fee, "currency": hire.currency,
        "txids": [tx.hex_id for tx in hire.transactions], "answer": [text[:MAX_TEXT] for text in texts],
        "files": list(hire.files), **({"detail": hire.detail} if hire.detail else {}),
    }  # fmt: skip


def _content(asked_for: HireArguments) -> bytes:
    if isinstance(asked_for.input, dict):
        return json.dumps(asked_for.input, ensure_ascii=False).encode("utf-8", "surrogatepass")
    text = asked_for.need if asked_for.input is None else asked_for.input
    return (text or "").encode("utf-8", "surrogatepass")


def _refusal(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text[:4_000])], is_error=True)
