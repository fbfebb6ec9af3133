"""Motebit's relay as a market: agents register, tasks lock funds, receipts settle them. Closed unless
`A2B_RELAY` is on."""

from __future__ import annotations

import json
import logging
from asyncio import to_thread
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from aiohttp import web
from pydantic import BeforeValidator, Field

from indexer.errors import SourceError
from overlay.answers.schema_parts import BOOL, COUNT, TEXT, array_of, maybe, record
from overlay.api import request_bodies
from overlay.api.answers import body, json_answer
from overlay.api.parameters import parameter
from overlay.api.problems import NotFoundError, ProblemError
from overlay.api.protocol_requests import find
from overlay.api.request_bodies import OpenBody, RawTransaction
from overlay.api.request_context import CONTEXT
from overlay.api.routes import Route
from overlay.api.shared_services import RECEIPTS
from overlay.api.signed_requests import signed_request
from overlay.api.systems import SystemApi
from overlay.systems.relay import accounts, agent_registration, tasks
from overlay.systems.relay.agent_registration import MAX_NAME, MAX_NAMES, MAX_TEXT, AgentRegistration
from overlay.systems.relay.bank import MAX_RAW
from overlay.systems.relay.own_relay import RELAY, bring
from overlay.systems.relay.task_relay import Relay, RelayRefusedError
from overlay.systems.relay.tasks import TaskRequest
from parsers.cards.identity_statement import MAX_ID
from parsers.claims.canonical_json import MAX_BYTES, DocumentError
from parsers.claims.canonical_json import read as read_document
from parsers.claims.motebit.bearer_token import stated_identity
from parsers.claims.motebit.identifiers import VERIFIED, id_fact
from parsers.claims.motebit.settlement import MAX_PRICE
from parsers.claims.motebit.succession import MAX_RECORDS
from parsers.local_hosts import shared_url

if TYPE_CHECKING:
    from overlay.api.shared_services import Intake

log = logging.getLogger(__name__)

MAX_BODY = 64 << 10
MAX_SUBMITTED = 256 << 10
MAX_KEY = 200
"""Characters of an Idempotency-Key."""


class AgentMetadata(OpenBody):
    """Texts about an agent for people."""

    name: str = Field(default="", max_length=MAX_NAME)
    description: str = Field(default="", max_length=MAX_TEXT)


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, dict) else value


Succession = Annotated[list[Any], BeforeValidator(_listed), Field(json_schema_extra={"type": ["object", "array"]})]
"""The form of records; a single record may come without a list."""


class NewAgent(OpenBody):
    """A registration: the address of an agent, its work and its price; succession records where the key is another one
    than before."""

    motebit_id: str | None = Field(default=None, max_length=MAX_ID)
    public_key: str | None = Field(default=None, max_length=64)
    endpoint_url: str = Field(max_length=MAX_TEXT, pattern="^https?://")
    capabilities: list[str] = Field(max_length=MAX_NAMES)
    pricing: list[dict[str, Any]] = Field(default=[], max_length=MAX_NAMES)
    succession: Succession = Field(default=[], max_length=MAX_RECORDS)
    metadata: AgentMetadata = AgentMetadata()


class NewTask(OpenBody):
    """A task. Only the price in the request concerns the relay."""

    prompt: str
    submitted_by: str | None = Field(default=None, max_length=MAX_ID)
    required_capabilities: list[str] = Field(default=[], max_length=MAX_NAMES)
    max_budget: int | None = Field(default=None, ge=0, le=MAX_PRICE)


class NewWithdrawal(OpenBody):
    """An amount in satoshis, and the address to pay it to."""

    amount: int
    destination: str = Field(max_length=MAX_NAME)


class _RelayProblemError(ProblemError):
    """A refusal with the relay's code and more members."""

    def __init__(self, refused: RelayRefusedError) -> None:
        headers = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else {}
        super().__init__(refused.status, refused.detail, headers=headers)
        self.members = {"code": refused.code, **refused.members}


Handler = Callable[[web.Request, Relay], Awaitable[web.Response]]


def _answered(handler: Handler) -> Callable[[web.Request], Awaitable[web.Response]]:
    """The handler with this server's relay; refusals become problems."""

    async def answer(request: web.Request) -> web.Response:
        relay = request.app.get(RELAY)
        if relay is None:
            raise NotFoundError("this server is not a relay: its operator has not set A2B_RELAY")
        try:
            return await handler(request, relay)
        except RelayRefusedError as refused:
            raise _RelayProblemError(refused) from None
        except SourceError as error:
            log.warning("the relay cannot answer: %s", error)
            raise ProblemError(503, "the chain's node does not answer", headers={"Retry-After": "60"}) from None

    answer.__doc__ = handler.__doc__
    return answer


@_answered
async def register(request: web.Request, relay: Relay) -> web.Response:
    """Register an agent with a token that its key signed, or renew its registration."""
    new_agent = request_bodies.read_strictly(NewAgent, await body(request, MAX_BODY))
    stated = AgentRegistration(
        motebit_id=new_agent.motebit_id, public_key=new_agent.public_key, endpoint_url=new_agent.endpoint_url,
        capabilities=_names(new_agent.capabilities), pricing=new_agent.pricing, succession=new_agent.succession,
        name=new_agent.metadata.name, description=new_agent.metadata.description,
        client=request.app[CONTEXT].clients.of(request),
    )  # fmt: skip
    signed = await signed_request(request, MAX_BODY)
    pinned = await _pinned(request, stated_identity(signed.authorization))
    agent = await to_thread(agent_registration.register, relay, signed, stated, pinned)
    expires_at = agent.expires_at * 1_000
    return json_answer({"registered": True, "motebit_id": agent.motebit_id, "expires_at": expires_at})


async def _pinned(request: web.Request, mid: str) -> bytes | None:
    """The key of the verified identity file of an agent that is listed here."""
    pairs = [("type", "agent"), ("status", "live"), ("sort", "-created"), ("limit", "1")]
    items = (await find(request, pairs, with_duplicates=True, facts=((VERIFIED,), (id_fact(mid),)))).items
    return bytes.fromhex(items[0]["motebit"]["publicKey"]) if items else None


@_answered
async def heartbeat(request: web.Request, relay: Relay) -> web.Response:
    """Report to the relay that an agent is online."""
    await to_thread(agent_registration.heartbeat, relay, await signed_request(request, MAX_BODY))
    return json_answer({"ok": True})


@_answered
async def deregister(request: web.Request, relay: Relay) -> web.Response:
    """End an agent's registration; its key, tasks and account stay."""
    await to_thread(agent_registration.deregister, relay, await signed_request(request, MAX_BODY))
    return json_answer({"ok": True})


@_answered
async def registered(request: web.Request, relay: Relay) -> web.Response:
    """A registered agent: its key, address and capabilities."""
    agent = await to_thread(agent_registration.registered, relay, request.match_info["agent"])
    return json_answer({
        "motebit_id": agent.motebit_id, "public_key": agent.public_key.hex(),
        "endpoint_url": shared_url(agent.endpoint), "capabilities": list(agent.capabilities),
        "metadata": {"name": agent.name, "description": agent.description},
        "expires_at": agent.expires_at * 1_000, **agent.terms,
    })  # fmt: skip


@_answered
async def verify_receipt(request: web.Request, relay: Relay) -> web.Response:
    """Whether a receipt is valid under an agent's registered key; it settles nothing."""
    agent = await to_thread(agent_registration.registered, relay, request.match_info["agent"])
    return json_answer(await to_thread(tasks.judged_receipt, relay, agent, await body(request, MAX_BYTES)))


@_answered
async def submit(request: web.Request, relay: Relay) -> web.Response:
    """Submit a task for an agent: its price and a buffer are locked."""
    raw = await body(request, MAX_SUBMITTED)
    task = request_bodies.read_strictly(NewTask, raw)
    task_request = TaskRequest(
        worker=request.match_info["agent"], submitted_by=task.submitted_by, max_budget=task.max_budget,
        required_capabilities=_names(task.required_capabilities), idempotency_key=_idempotency_key(request),
        sha256=_digest(raw),
    )  # fmt: skip
    submitted = await to_thread(tasks.submit, relay, await signed_request(request, MAX_SUBMITTED), task_request)
    headers = {
        "Location": f"/agent/{quote(task_request.worker, safe='')}/task/{submitted.task.id}",
        "Cache-Control": "no-store",
    }
    return json_answer(tasks.task_json(submitted), status=201, headers=headers)


@_answered
async def task(request: web.Request, relay: Relay) -> web.Response:
    """A task and its receipt, for its submitter or worker."""
    worker, id_ = request.match_info["agent"], request.match_info["task"]
    signed = await signed_request(request, MAX_BODY)
    submitted, receipt = await to_thread(tasks.task_of, relay, signed, worker, id_)
    return json_answer({"task": tasks.task_json(submitted), "receipt": receipt})


@_answered
async def result(request: web.Request, relay: Relay) -> web.Response:
    """Settle a task by its worker's receipt, and the tasks of the receipts that this nests."""
    worker, id_ = request.match_info["agent"], request.match_info["task"]
    signed = await signed_request(request, MAX_BYTES)
    answer = await to_thread(tasks.result, relay, signed, worker, id_)
    if answer["status"] == "settled":
        await to_thread(_hand_in, request.app.get(RECEIPTS), signed.body)
    return json_answer(answer)


def _hand_in(receipts: Intake | None, document: bytes) -> None:
    """Take the receipt for ratings, too: it proves work of listed agents."""
    try:
        if receipts is not None:
            receipts.submit("receipt", read_document(document))
    except DocumentError as refused:
        log.debug("a settled receipt does not count for ratings: %s, %s", refused.code, refused.detail)


@_answered
async def balance(request: web.Request, relay: Relay) -> web.Response:
    """The balance of an agent's account, for the agent itself."""
    signed = await signed_request(request, MAX_BODY)
    return json_answer(await to_thread(accounts.balance, relay, signed, request.match_info["agent"]))


@_answered
async def deposit(request: web.Request, relay: Relay) -> web.Response:
    """Announce a transaction that pays into an agent's account."""
    signed = await signed_request(request, 2 * MAX_RAW + MAX_BODY)
    raw = request_bodies.read_strictly(RawTransaction, signed.body).rawTx
    answer = await accounts.deposit(relay, signed, request.match_info["agent"], bytes.fromhex(raw))
    return json_answer(answer, status=202)


@_answered
async def withdraw(request: web.Request, relay: Relay) -> web.Response:
    """Withdraw an amount: it is locked until the operator's transaction is mined."""
    withdrawal = request_bodies.read_strictly(NewWithdrawal, await body(request, MAX_BODY))
    answer = await accounts.withdraw(
        relay, await signed_request(request, MAX_BODY), request.match_info["agent"], withdrawal.amount,
        withdrawal.destination, _idempotency_key(request),
    )  # fmt: skip
    return json_answer(answer, status=202)


@_answered
async def cancel_withdrawal(request: web.Request, relay: Relay) -> web.Response:
    """Cancel a withdrawal that is not signed yet."""
    mid, id_ = request.match_info["agent"], request.match_info["withdrawal"]
    signed = await signed_request(request, MAX_BODY)
    return json_answer(await to_thread(accounts.cancel, relay, signed, mid, id_))


def _idempotency_key(request: web.Request) -> str | None:
    key = request.headers.get("Idempotency-Key")
    if key is not None and len(key) > MAX_KEY:
        raise RelayRefusedError(400, "bad-request", f"the Idempotency-Key has more than {MAX_KEY} characters")
    return key or None


def _digest(raw: bytes) -> str:
    """The SHA-256 of a JSON body that was read, the same in every order of members and spacing. Numbers count as they
    are written."""
    value = json.loads(raw, parse_int="int {}".format, parse_float="float {}".format)
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _names(names: list[str]) -> tuple[str, ...]:
    for name in names:
        if not 0 < len(name) <= MAX_NAME:
            raise RelayRefusedError(400, "bad-request", f"a capability has from 1 to {MAX_NAME} characters")
    return tuple(dict.fromkeys(names))


def error_response(_request: web.Request, problem: ProblemError, _request_id: str) -> web.Response:
    """The relay's error: a text in `error`, and a `code` where the relay has one."""
    members = problem.members if isinstance(problem, _RelayProblemError) else {}
    headers = {"Cache-Control": "no-store", **problem.headers}
    return json_answer({"error": problem.detail, "status": problem.status, **members}, status=problem.status,
                       headers=headers)  # fmt: skip


_TOKEN = parameter("Authorization", "`Bearer motebit:TOKEN`, signed by the registered key.")
_KEY = parameter(
    "Idempotency-Key", "A repeated request with the same key is done once; with another body it is refused (409)."
)


_read = partial(Route, tag="Motebit relay", error_response=error_response, headers=(_TOKEN,), errors=(401, 403, 404))
_write = partial(_read, method="POST", limit="ingest")
_ACCOUNT = "/api/v1/agents/{agent}"
API = SystemApi(
    bring=bring,
    routes=(
        _write("/api/v1/agents/register", register, "RelayRegistration", errors=(401, 404, 403, 409),
               body="RelayNewAgent"),
        _write("/api/v1/agents/heartbeat", heartbeat, "RelayHeartbeat", errors=(401, 404)),
        _write("/api/v1/agents/deregister", deregister, "RelayHeartbeat", method="DELETE", errors=(401, 404)),
        _read(_ACCOUNT, registered, "RelayAgent", headers=(), errors=(404,)),
        _write("/agent/{agent}/verify-receipt", verify_receipt, "RelayReceiptVerdict", body="RelayReceipt",
               headers=(), errors=(404,), limit="costly"),
        _write("/agent/{agent}/task", submit, "RelayTask", errors=(401, 404, 402, 403, 409, 410), body="RelayNewTask",
               status=201, headers=(_TOKEN, _KEY)),
        _write("/agent/{agent}/task/{task}/result", result, "RelaySettlement", errors=(401, 404, 403, 410),
               body="RelayReceipt"),
        _read("/agent/{agent}/task/{task}", task, "RelayTaskStatus"),
        _read(f"{_ACCOUNT}/balance", balance, "RelayBalance"),
        _write(f"{_ACCOUNT}/deposit", deposit, "RelayDeposit", errors=(401, 404, 403, 422), body="RawTransaction",
               status=202),
        _write(f"{_ACCOUNT}/withdraw", withdraw, "RelayWithdrawal", errors=(401, 404, 402, 403, 409, 422),
               body="RelayNewWithdrawal", status=202, headers=(_TOKEN, _KEY)),
        _write(f"{_ACCOUNT}/withdraw/{{withdrawal}}/cancel", cancel_withdrawal, "RelayWithdrawal",
               errors=(401, 404, 403, 409)),
    ),
    schemas={
        "RelayRegistration": record({"registered": BOOL, "motebit_id": TEXT, "expires_at": COUNT}),
        "RelayHeartbeat": record({"ok": BOOL}),
        "RelayAgent": record(
            {"motebit_id": TEXT, "public_key": TEXT, "endpoint_url": TEXT, "capabilities": array_of(TEXT),
             "metadata": {"type": "object"}, "expires_at": COUNT, "last_seen_at": COUNT,
             "pricing": maybe(array_of({"type": "object"}))}
        ),
        "RelayReceiptVerdict": record({"valid": BOOL}, {"reason": TEXT, "detail": TEXT}),
        "RelayTask": record(
            {"task_id": TEXT, "status": TEXT, "price": COUNT, "locked": COUNT, "currency": TEXT, "expires_at": COUNT}
        ),
        "RelayTaskStatus": record({"task": {"type": "object"}, "receipt": maybe({"type": "object"})}),
        "RelaySettlement": record(
            {"task_id": TEXT, "status": TEXT, "settlement": {"type": "object"}, "hops": array_of({"type": "object"})}
        ),
        "RelayBalance": record(
            {"motebit_id": TEXT, "balance": {"type": "integer"}, "currency": TEXT, "frozen": BOOL,
             "pending_allocations": COUNT, "pending_withdrawals": COUNT, "available_for_withdrawal": COUNT,
             "transactions": array_of({"type": "object"})}
        ),
        "RelayDeposit": record({"motebit_id": TEXT, "txid": TEXT, "amount": COUNT, "status": TEXT}),
        "RelayWithdrawal": record({"motebit_id": TEXT, "withdrawal": {"type": "object"}}),
        "RelayReceipt": {"type": "object", "description": "An ExecutionReceipt (v1)."},
        **request_bodies.body_schemas(
            {"RelayNewAgent": NewAgent, "RelayNewTask": NewTask, "RelayNewWithdrawal": NewWithdrawal}
        ),
    },
)  # fmt: skip
