"""Who may register which identity, and what bearer tokens do."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from indexer.store.nonces import CLOCK_SECONDS
from overlay.systems.relay import accounts, agent_registration, store_agents
from overlay.systems.relay.agent_registration import KEPT_SECONDS, REGISTERED_SECONDS, AgentRegistration
from parsers.claims.motebit.bearer_token import UNBOUND_MS, SignedRequest, stated_identity
from tests.overlay.relay.kit import AGENTS, HOST, World, wanted_registration
from tests.overlay.relay.test_settlement import refusal
from tests.parsers.claims.motebit.signers import ALICE, BOB, CAROL, NOW, Agent

EVE, NEW, NEWER = Agent(9), Agent(10), Agent(11)


def register(world: World, signer: Agent, mid: str | None = None, *, pinned: bytes | None = None, **more: Any) -> Any:
    mid = mid or signer.id
    registration = wanted_registration(signer) | {"motebit_id": mid} | more
    token = world.token(signer, "register-device", mid=mid)
    return agent_registration.register(world.relay, token, AgentRegistration(**registration), pinned)


def test_a_new_agent_registers_and_renews_with_its_key(world: World) -> None:
    first = register(world, EVE)
    assert first.expires_at == int(world.time) + REGISTERED_SECONDS
    world.time += 100
    assert register(world, EVE, public_key=None, name="Eve").name == "Eve"
    assert world.store.agents.agent(EVE.id).public_key == EVE.key  # type: ignore[union-attr]


def test_another_key_takes_no_identity(world: World) -> None:
    assert refusal(register, world, EVE, ALICE.id) == (409, "key-mismatch")
    assert refusal(register, world, EVE, NEW.id) == (403, "not-bound"), "derived from another key"
    assert refusal(register, world, EVE, f"did:key:z{'1' * 40}") == (403, "not-bound")
    register(world, EVE, "0199c0de-0000-7000-8000-000000000001")
    assert refusal(register, world, NEW, "0199c0de-0000-7000-8000-000000000001") == (409, "key-mismatch")
    assert refusal(register, world, EVE, "listed", pinned=NEW.key) == (409, "key-mismatch")
    assert register(world, NEW, "listed", pinned=NEW.key).motebit_id == "listed"


@pytest.mark.parametrize("scheme", ["Bearer motebit:", "Bearer motebit:motebit:", "Bearer motebit:Bearer motebit:"])
def test_the_identity_that_a_key_is_looked_up_for_is_that_of_the_token(world: World, scheme: str) -> None:
    """Where no identity can be read from a header, no pinned key is looked up: the token in it must not count."""
    token = EVE.token(jti=scheme, iat=NOW, exp=NOW + 300_000, aud="register-device", mid="listed")
    request = world.request(f"{scheme}{token}")
    if stated_identity(request.authorization) != "listed":
        stated = AgentRegistration(**wanted_registration(EVE) | {"motebit_id": "listed"})
        assert refusal(agent_registration.register, world.relay, request, stated)[0] == 401


@pytest.mark.parametrize("mid", ["a\r\nb", "x" * 257, "x" * 3_000])
def test_an_identity_is_a_short_printable_text(world: World, mid: str) -> None:
    assert refusal(register, world, EVE, mid, motebit_id=None) == (400, "bad-request")


def test_a_key_changes_by_a_succession_that_both_keys_signed(world: World) -> None:
    record = ALICE.succeed(NEW)
    forged = record | {"old_key_signature": record["new_key_signature"]}
    assert refusal(register, world, NEW, ALICE.id, succession=[forged]) == (403, "broken-succession")
    assert refusal(register, world, NEW, ALICE.id, succession=[BOB.succeed(NEW)]) == (409, "key-mismatch")
    assert register(world, NEW, ALICE.id, succession=[record]).public_key == NEW.key
    assert refusal(register, world, ALICE, ALICE.id, succession=[record]) == (409, "key-mismatch")
    whole = [record, NEW.succeed(NEWER, NOW + 1)]
    assert register(world, NEWER, ALICE.id, succession=whole).public_key == NEWER.key
    assert world.balance(ALICE) == 10_000, "the account stays"


def test_an_identity_whose_key_changed_before_registers_with_all_its_records(world: World) -> None:
    assert refusal(register, world, NEW, EVE.id, succession=[BOB.succeed(NEW)]) == (403, "not-bound")
    assert register(world, NEW, EVE.id, succession=[EVE.succeed(NEW)]).motebit_id == EVE.id


@pytest.mark.parametrize(
    ("pricing", "code"),
    [
        ([{"capability": "other", "unit_cost": 1, "currency": "SAT", "per": "task"}], "bad-request"),
        ([{"capability": "web_search", "unit_cost": -1, "currency": "SAT", "per": "task"}], "bad-request"),
        ([{"capability": "web_search", "unit_cost": 1.5, "currency": "SAT", "per": "task"}], "bad-request"),
        ([{"capability": "web_search", "unit_cost": True, "currency": "SAT", "per": "task"}], "bad-request"),
        ([{"capability": "web_search", "unit_cost": 10**20, "currency": "SAT", "per": "task"}], "bad-request"),
        ([{"capability": "web_search", "unit_cost": 1, "currency": "USD", "per": "task"}], "bad-request"),
        ([{"capability": "web_search", "unit_cost": 1, "currency": "SAT", "per": "token"}], "bad-request"),
        ([{}], "bad-request"),
    ],
)
def test_prices_that_are_none_are_refused(world: World, pricing: list[dict[str, Any]], code: str) -> None:
    assert refusal(register, world, EVE, pricing=pricing) == (400, code)


def test_weak_keys_are_refused(world: World) -> None:
    weak = "01" + "00" * 31
    assert refusal(register, world, EVE, public_key=weak) == (401, "weak-key")


def test_tokens_count_once_for_their_audience_and_time(world: World) -> None:
    def heartbeat(token: SignedRequest) -> str:
        return agent_registration.heartbeat(world.relay, token)

    token = world.token(ALICE, "agent:heartbeat")
    assert heartbeat(token) == ALICE.id
    assert refusal(heartbeat, token) == (401, "replayed")
    now = int(world.time * 1_000)
    wrong = {
        "audience-mismatch": {"aud": "market:query"},
        "expired": {"exp": now},
        "future-dated": {"iat": now + 301_000},
        "malformed": {"exp": now + 2 * 3_600_000},
        "unknown-suite": {"suite": "x"},
        "unknown-key": {"mid": "nobody"},
        "bad-signature": {"mid": BOB.id},
    }
    for code, members in wrong.items():
        audience = members.pop("aud", "agent:heartbeat")
        assert refusal(heartbeat, world.token(ALICE, audience, **members)) == (401, code)  # type: ignore[arg-type]
    for text in ("", "Bearer x", "Bearer motebit:", "Bearer motebit:a.b", f"Bearer motebit:{'a' * 9_000}"):
        assert refusal(heartbeat, world.request(text))[0] == 401


@pytest.mark.parametrize("ahead", [700, 7_000])
def test_a_server_with_a_clock_ahead_lets_no_token_be_used_twice(world: World, ahead: int) -> None:
    fast = World(world.engine, node=world.node, database=world)
    fast.time += ahead
    tokens = [world.token(ALICE, "account:balance") for _ in range(6)]
    for token in tokens:
        assert accounts.balance(world.relay, token, ALICE.id)["balance"] == 10_000
    for _ in tokens:
        accounts.balance(fast.relay, fast.token(BOB, "account:balance"), BOB.id)
    for token in tokens:
        assert refusal(accounts.balance, world.relay, token, ALICE.id) == (401, "replayed")


def test_a_server_with_a_clock_that_is_slow_takes_no_token_that_may_be_forgotten(world: World) -> None:
    slow, token = World(world.engine, node=world.node, database=world), world.token(ALICE, "account:balance")
    assert accounts.balance(slow.relay, token, ALICE.id)["balance"] == 10_000
    world.time += 300 + CLOCK_SECONDS + 2
    accounts.balance(world.relay, world.token(BOB, "account:balance"), BOB.id)  # deletes what has expired
    assert refusal(accounts.balance, slow.relay, token, ALICE.id) == (401, "replayed")


def test_a_token_that_is_bound_to_no_request_counts_once_and_for_a_minute(world: World) -> None:
    """Whoever receives a token, such as another relay, could use it here."""

    def balance(request: SignedRequest) -> Any:
        return accounts.balance(world.relay, request, ALICE.id)["balance"]

    now = int(world.time * 1_000)
    token = world.token(ALICE, "account:balance")
    assert balance(token) == 10_000
    assert refusal(balance, token) == (401, "replayed"), "reads, too"
    for iat in (now - UNBOUND_MS - 1, now + UNBOUND_MS + 1):
        assert refusal(balance, world.token(ALICE, "account:balance", iat=iat)) == (401, "expired")
    again = World(world.engine, node=world.node)
    assert refusal(accounts.balance, again.relay, token, ALICE.id) == (401, "replayed"), "in another process"
    world.time += 61
    assert refusal(balance, token) == (401, "expired")


@pytest.mark.parametrize("host", [HOST, "RELAY.example", "relay.example:443", "ｒelay.example"])
def test_a_token_that_is_bound_to_its_request_counts_for_that_only(world: World, host: str) -> None:
    def balance(request: SignedRequest) -> Any:
        return accounts.balance(world.relay, request, ALICE.id)["balance"]

    def bound(body: bytes = b"", **more: Any) -> SignedRequest:
        iat = int(world.time * 1_000) - 120_000
        return world.token(ALICE, "account:balance", body, host=host, iat=iat, **more)

    token = bound()
    assert balance(token) == balance(token) == 10_000, "a read may repeat it"
    elsewhere = token._replace(host="other.example")
    assert refusal(balance, elsewhere) == (401, "audience-mismatch")
    assert refusal(balance, token._replace(is_configured=False)) == (401, "expired"), "any host can be made up"
    assert refusal(balance, token._replace(body=b"{}")) == (401, "expired"), "it does not sign the body"
    digest = sha256(b"{}").hexdigest()
    assert balance(bound(b"{}", bodySha256=digest.upper())) == 10_000
    assert refusal(balance, bound(b"[]", bodySha256=digest)) == (401, "hash-mismatch")
    for wrong in (1, "", "relay.example:8443", "rеlay.example"):
        assert refusal(balance, world.token(ALICE, "account:balance", host=wrong)) == (401, "audience-mismatch")
    assert refusal(balance, world.token(ALICE, "account:balance", bodySha256=["x"])) == (401, "hash-mismatch")


def test_a_bound_token_that_changes_something_counts_once(world: World) -> None:
    token = world.token(ALICE, "agent:heartbeat", host=HOST)
    assert agent_registration.heartbeat(world.relay, token) == ALICE.id
    assert refusal(agent_registration.heartbeat, world.relay, token) == (401, "replayed")


def test_a_silent_worker_is_gone_after_a_week_and_back_with_a_heartbeat(world: World) -> None:
    world.time += REGISTERED_SECONDS
    assert refusal(world.task, ALICE, BOB) == (410, "expired")
    agent_registration.heartbeat(world.relay, world.token(BOB, "agent:heartbeat"))
    world.task(ALICE, BOB)
    assert refusal(world.task, ALICE, EVE) == (404, "not-registered")


def test_agents_without_an_account_are_forgotten(world: World) -> None:
    world.time += REGISTERED_SECONDS + KEPT_SECONDS + 1
    world.store.agents.trim(int(world.time) - KEPT_SECONDS)
    assert world.store.agents.keys([ALICE.id, BOB.id, CAROL.id]).keys() == {ALICE.id, BOB.id}


def test_a_task_is_for_its_token_its_capabilities_and_its_budget(world: World) -> None:
    assert refusal(world.submit, ALICE, BOB, submitted_by=BOB.id) == (403, "forbidden")
    assert refusal(world.submit, ALICE, BOB, required_capabilities=("fly",)) == (409, "capability-missing")
    assert refusal(world.submit, ALICE, BOB, max_budget=999) == (409, "too-dear")
    assert world.balance(ALICE) == 10_000
    once, again = (world.submit(ALICE, BOB, "key") for _ in range(2))
    assert once == again
    assert world.balance(ALICE) == 8_800
    assert refusal(world.submit, ALICE, CAROL, "key") == (409, "bad-request")


def test_a_price_that_changes_later_is_not_that_of_the_task(world: World) -> None:
    task = world.task(ALICE, BOB)
    register(world, BOB, pricing=[{"capability": "web_search", "unit_cost": 5_000, "currency": "SAT", "per": "task"}])
    world.settle(BOB, BOB, task, BOB.receipt(relay_task_id=task))
    assert world.balances(ALICE, BOB) == [9_000, 10_950]


@pytest.mark.parametrize("text", ["\0", "\ud800"])
def test_texts_that_no_database_takes_are_refused(world: World, text: str) -> None:
    for members in ({"name": text}, {"description": text}, {"endpoint_url": f"https://{text}"}):
        assert refusal(register, world, EVE, **members) == (400, "bad-request")
    status, _ = refusal(register, world, EVE, text)
    assert status in (400, 401)
    nobody = Agent(12)
    nobody.id = text
    assert refusal(world.submit, ALICE, nobody) == (404, "not-registered")
    assert refusal(world.settle, ALICE, BOB, text, BOB.receipt()) == (404, "unknown-task")
    once, again = (world.submit(ALICE, BOB, text) for _ in range(2))
    assert once == again
    token = world.token(ALICE, "agent:heartbeat", jti="\0")
    assert agent_registration.heartbeat(world.relay, token) == ALICE.id
    task = world.task(ALICE, BOB)
    if text == "\0":
        nested = [CAROL.receipt(relay_task_id=text), CAROL.receipt("other", motebit_id=text)]
        answer = world.settle(ALICE, BOB, task, BOB.receipt(nested=nested, relay_task_id=task, result=text))
        assert answer["status"] == "settled"


def test_a_balance_is_shown_to_its_own_agent(world: World) -> None:
    world.task(ALICE, BOB)
    shown = accounts.balance(world.relay, world.token(ALICE, "account:balance"), ALICE.id)
    assert (shown["balance"], shown["pending_allocations"]) == (8_800, 1_200)
    assert [row["type"] for row in shown["transactions"]] == ["deposit", "lock"]
    token = world.token(BOB, "account:balance")
    assert refusal(accounts.balance, world.relay, token, ALICE.id) == (403, "forbidden")


SPELLINGS = [str.upper, lambda text: f" {text}", lambda text: f"{{{text}}}", lambda text: text.replace("-", "")]


@pytest.mark.parametrize("spell", SPELLINGS)
def test_spellings_of_an_identity_are_one(world: World, spell: Callable[[str], str]) -> None:
    again = register(world, ALICE, spell(ALICE.id), motebit_id=spell(ALICE.id))
    assert again.motebit_id == ALICE.id
    token = world.token(ALICE, "account:balance", mid=spell(ALICE.id))
    assert accounts.balance(world.relay, token, spell(ALICE.id))["balance"] == 10_000
    worker = Agent(2)
    worker.id = spell(BOB.id)
    task = world.submit(ALICE, worker, submitted_by=spell(ALICE.id)).task
    assert (task.submitted_by, task.worker) == (ALICE.id, BOB.id)
    receipt = worker.receipt(relay_task_id=task.id)
    assert world.settle(worker, worker, task.id, receipt)["status"] == "settled"
    assert world.balances(ALICE, BOB) == [9_000, 10_950]


def test_an_identity_that_looks_like_another_is_refused(world: World) -> None:
    register(world, EVE, "translator")
    for mid in ("TRANSLATOR", "\uff54ranslator", "translator "):
        assert refusal(register, world, NEW, mid, motebit_id=None) == (409, "key-mismatch")
    assert refusal(register, world, NEW, "tr\u0430nslator", motebit_id=None) == (400, "bad-request")


@pytest.mark.parametrize("url", ["https://a.example/<b>", 'https://a.example/"', "https://a.example/\x1b[31m",
                                 "https://a.example/ b", "https://u@a.example/", "https://b\u00fc.example/",
                                 "javascript://a.example/", "https:///x", "https://a.example:0/",
                                 "http\u017f://a.example/"])  # fmt: skip
def test_endpoint_urls_with_markup_or_control_characters_are_refused(world: World, url: str) -> None:
    assert refusal(register, world, EVE, endpoint_url=url) == (400, "bad-request")


def test_one_client_takes_few_places(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_agents, "MAX_OF_CLIENT", 2)
    one, other = {"client": "192.0.2.1"}, {"client": "192.0.2.2"}
    agents = [Agent(number) for number in range(30, 36)]
    for agent in agents[:2]:
        register(world, agent, **one)
    assert refusal(register, world, agents[2], **one) == (503, "too-many")
    register(world, agents[0], **one)
    register(world, agents[2], **other)
    world.fund(agents[0], 1)
    register(world, agents[3], **one)
    assert refusal(register, world, agents[4], **one) == (503, "too-many"), "an account needs no place"
    world.time += REGISTERED_SECONDS + KEPT_SECONDS + 1
    world.store.agents.trim(int(world.time) - KEPT_SECONDS)
    register(world, agents[4], **one)


def test_a_customer_of_ipv6_takes_the_places_of_sixteen_clients_however_many_addresses_it_uses(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_agents, "MAX_OF_CLIENT", 1)
    agents = [Agent(number) for number in range(30, 48)]
    for number, agent in enumerate(agents[:16], 1):
        register(world, agent, client=f"2001:db8:1:{number:x}::/64")
    assert refusal(register, world, agents[16], client="2001:db8:1::/64") == (503, "too-many")
    register(world, agents[16], client="2001:db8:2::/64")
    world.fund(agents[0], 1)
    register(world, agents[17], client="2001:db8:1::/64")


def test_agents_that_are_gone_give_their_places_up_when_all_are_taken(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_agents, "MAX_AGENTS", len(AGENTS))
    assert refusal(register, world, EVE) == (503, "too-many")
    world.time += REGISTERED_SECONDS + 1
    register(world, EVE)
    everyone = [agent.id for agent in (*AGENTS, EVE)]
    assert world.store.agents.keys(everyone).keys() == {ALICE.id, BOB.id, EVE.id}, "who has an account stays"


@pytest.mark.parametrize("capability", ["fly", 'say "50%_\\é"', "FLY"])
def test_agents_that_cost_nothing_hide_neither_one_with_another_capability_nor_one_with_an_account(
    world: World, capability: str
) -> None:
    def live_ids(limit: int, capability: str | None = None) -> list[str]:
        return [agent.motebit_id for agent in world.store.agents.live(int(world.time), limit, capability)]

    register(world, CAROL, capabilities=("x", capability), pricing=[])
    world.time += 100
    register(world, EVE)
    world.time += 100
    register(world, NEW, capabilities=("y", f"{capability}er"), pricing=[])
    assert live_ids(1, capability) == [CAROL.id]
    assert set(live_ids(2)) == set(live_ids(2, "web_search")) == {ALICE.id, BOB.id}
    assert live_ids(3, "web_search")[2:] == [EVE.id]
    assert live_ids(9, "nothing") == []
