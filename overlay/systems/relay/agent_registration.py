"""Registration of agents: the key that signs for an identity, the agent's address, its work and its price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from indexer.store.queries import is_storable
from overlay.systems.relay.store_agents import KeyConflictError, TooManyAgentsError
from overlay.systems.relay.task_relay import Relay, RelayRefusedError
from parsers.cards.identity_statement import MAX_ID
from parsers.claims.canonical_json import DocumentError
from parsers.claims.motebit.bearer_token import SignedRequest
from parsers.claims.motebit.identifiers import binding, canonical_id, check_key, hex_bytes
from parsers.claims.motebit.settlement import MAX_PRICE, UNIT, RelayAgent
from parsers.claims.motebit.succession import check_succession
from parsers.pointers.locator import is_web_url

REGISTERED_SECONDS = 7 * 86_400
"""How long an agent is offered as a worker after its last request."""

KEPT_SECONDS = 90 * 86_400
"""How long one without an account is kept after that."""

AUDIENCES = ("register-device", "agent:register")
HEARTBEAT_AUDIENCES = (*AUDIENCES, "agent:heartbeat")
DEREGISTER_AUDIENCES = (*AUDIENCES, "agent:deregister")
MAX_NAMES, MAX_NAME, MAX_TEXT = 64, 200, 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRegistration:
    """An agent's statement about itself; `succession` are the records up to `public_key` (hex), `client` is the address
    that it registers from."""

    motebit_id: str | None
    public_key: str | None
    endpoint_url: str
    capabilities: Sequence[str]
    pricing: Sequence[Mapping[str, Any]]
    succession: Sequence[Any]
    name: str
    description: str
    client: str = ""


def register(
    relay: Relay, request: SignedRequest, registration: AgentRegistration, pinned: bytes | None = None
) -> RelayAgent:
    """Register an agent, or renew or change its registration. `pinned`: the key that a verified identity file has for
    it. Raises RelayRefusedError."""
    key = None
    if registration.public_key is not None:
        key = hex_bytes(registration.public_key, 32)
        if key is None:
            raise RelayRefusedError(400, "bad-request", "public_key is not 64 lower-case hex digits")
    payload = relay.payload(request, AUDIENCES, key, once=True)
    mid: str = payload["mid"]
    if len(mid) > MAX_ID or not mid.isprintable():
        raise RelayRefusedError(400, "bad-request", f"the token's mid is not a text of 1 to {MAX_ID} characters")
    if registration.motebit_id is not None and relay.identity(registration.motebit_id) != mid:
        raise RelayRefusedError(403, "forbidden", f"the token is that of {mid[:200]!a}")
    if not all(map(is_storable, (mid, registration.endpoint_url, registration.name, registration.description))):
        raise RelayRefusedError(400, "bad-request", "a text holds NUL or half a character")
    if not is_web_url(registration.endpoint_url):
        raise RelayRefusedError(400, "bad-request", f"endpoint_url is not a URL: {registration.endpoint_url[:200]!a}")
    stored = relay.agents.agent(mid)
    if stored is None and not canonical_id(mid):
        raise RelayRefusedError(
            400, "bad-request", "the token's mid has letters beyond ASCII, which may look like others"
        )
    if key is None:
        if stored is None:
            raise RelayRefusedError(400, "bad-request", "public_key is missing")
        key = stored.public_key
    _check_bound(mid, key, stored, registration.succession, pinned)
    now = relay.now()
    agent = RelayAgent(
        motebit_id=mid, public_key=key, endpoint=registration.endpoint_url,
        capabilities=tuple(registration.capabilities), name=registration.name, description=registration.description,
        prices=prices(registration.pricing, registration.capabilities), last_seen=now,
        expires_at=now + REGISTERED_SECONDS,
    )  # fmt: skip
    try:
        relay.agents.put(agent, None if stored is None else stored.public_key, registration.client)
    except KeyConflictError as error:
        raise RelayRefusedError(409, "key-mismatch", str(error)) from None
    except TooManyAgentsError as error:
        raise RelayRefusedError(503, "too-many", str(error)) from None
    return agent


def heartbeat(relay: Relay, request: SignedRequest) -> str:
    """Note that an agent is there. Raises RelayRefusedError."""
    mid = relay.caller(request, HEARTBEAT_AUDIENCES, once=True)
    now = relay.now()
    relay.agents.beat(mid, now, now + REGISTERED_SECONDS)
    return mid


def deregister(relay: Relay, request: SignedRequest) -> None:
    """End the registration of an agent: it is offered no more, and gets no tasks. Raises RelayRefusedError."""
    now = relay.now()
    relay.agents.beat(relay.caller(request, DEREGISTER_AUDIENCES, once=True), now, now)


def registered(relay: Relay, motebit_id: str) -> RelayAgent:
    """A registered agent, also one that was silent for longer than it is offered. Raises RelayRefusedError."""
    agent = relay.agents.agent(relay.identity(motebit_id))
    if agent is None:
        raise RelayRefusedError(404, "not-registered", f"no agent {motebit_id[:200]!a} is registered")
    return agent


def prices(pricing: Sequence[Mapping[str, Any]], capabilities: Sequence[str]) -> dict[str, int]:
    """The prices of one task by capability, of entries `{capability, unit_cost, currency, per}`. Raises
    RelayRefusedError."""
    priced: dict[str, int] = {}
    for number, entry in enumerate(pricing):
        capability, cost = entry.get("capability"), entry.get("unit_cost")
        if capability not in capabilities:
            raise _bad(number, "capability", "is not among capabilities")
        if not isinstance(cost, int) or isinstance(cost, bool) or not 0 <= cost <= MAX_PRICE // MAX_NAMES:
            raise _bad(number, "unit_cost", f"is not an integer from 0 to {MAX_PRICE // MAX_NAMES:,}")
        if entry.get("currency") != UNIT or entry.get("per") != "task":
            raise _bad(number, "currency", f"or per: prices here are in {UNIT} per task")
        priced[str(capability)] = cost
    return priced


def _bad(number: int, member: str, fault: str) -> RelayRefusedError:
    return RelayRefusedError(400, "bad-request", f"pricing[{number}].{member} {fault}")


def _check_bound(
    mid: str, key: bytes, stored: RelayAgent | None, succession: Sequence[Any], pinned: bytes | None
) -> None:
    """Raises RelayRefusedError for a key that is not the identity's: the first one that is registered for it, or one
    that succeeds it. An identity that is derived from a key is only taken with that key or its successors, one with a
    verified identity file only with the key of that."""
    try:
        check_key(key)
    except DocumentError as error:
        raise RelayRefusedError(400, error.code, error.detail) from None
    if stored is not None:
        if stored.public_key != key:
            _check_succeeds(stored.public_key, key, succession)
        return
    if pinned is not None and pinned != key:
        raise RelayRefusedError(409, "key-mismatch", "the identity file of this agent has another key")
    if pinned is None and _is_derived(mid) and binding(mid, key, {}) != "sovereign":
        genesis = hex_bytes(succession[0].get("old_public_key"), 32) if _has_record(succession) else None
        if genesis is None or binding(mid, genesis, {}) != "sovereign":
            raise RelayRefusedError(403, "not-bound", "the identity is derived from another key")
        _check_succeeds(genesis, key, succession)


def _is_derived(mid: str) -> bool:
    """Whether an identity has a form that commits to a key: a UUID of version 8, or a did:key."""
    try:
        return mid.startswith("did:key:") or UUID(mid).version == 8
    except ValueError:
        return False


def _has_record(succession: Sequence[Any]) -> bool:
    return bool(succession) and isinstance(succession[0], dict)


def _check_succeeds(old: bytes, new: bytes, succession: Sequence[Any]) -> None:
    """Raises RelayRefusedError where no records lead from one key to the other. Those before the old key's are left
    out."""
    first = next(
        (
            number
            for number, record in enumerate(succession)
            if isinstance(record, dict) and record.get("old_public_key") == old.hex()
        ),
        None,
    )
    if first is None:
        raise RelayRefusedError(409, "key-mismatch", "another key is registered, and no succession leads from it")
    check = check_succession(succession[first:], new.hex(), None)
    if not check.valid:
        raise RelayRefusedError(403, "broken-succession", check.error)
