"""The relay over HTTP: what agents send and get, and that it is closed by itself."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft7Validator

from indexer.store import connect
from overlay import cli
from overlay.systems.rating.store import KeyBind, ReceiptQueries, StoredReceipt
from overlay.systems.relay.store import RelayStore
from overlay.systems.relay.store_coins import OperatorCoin, Withdrawal, add_coins
from overlay.systems.relay.store_ledger import CHAIN, agent_account, booking, post
from parsers.bitcoin.tx import Outpoint
from tests.overlay.calls import local_http, read_json
from tests.parsers.claims.motebit.signers import ALICE, BOB, CAROL, Agent
from tests.running import Running
from tests.waiting import PATIENCE

PRICING = [{"capability": "web_search", "unit_cost": 1_000, "currency": "SAT", "per": "task"}]


def record(number: int, observer: Agent, worker: Agent, outcome: str = "completed") -> StoredReceipt:
    digest = bytes([number]) * 32
    return StoredReceipt(
        digest=digest, document=digest, counter_signer=observer.key.hex(), worker=worker.key.hex(), listing="x",
        task=str(number), outcome=outcome, completed_at=number, received_at=number,
    )  # fmt: skip


EVIDENCE = [
    *(record(number, ALICE, BOB) for number in range(20)),
    *(record(number, BOB, CAROL) for number in range(20, 40)),
    record(40, CAROL, CAROL),
]
"""Alice trusts Bob, and Bob Carol."""


class Client:
    """Agents that send requests to a running relay."""

    def __init__(self, url: str) -> None:
        self.url, self.count, self.database = url, 0, ""

    def send(self, agent: Agent, audience: str, method: str, path: str, **more: Any) -> httpx.Response:
        self.count += 1
        now = int(time.time() * 1_000)
        token = agent.token(aud=audience, iat=now, exp=now + 300_000, jti=f"jti-{self.count}")
        headers = {"Authorization": f"Bearer motebit:{token}", **more.pop("headers", {})}
        return local_http.request(method, self.url + path, headers=headers, timeout=PATIENCE, **more)

    def register(self, agent: Agent, **more: Any) -> httpx.Response:
        registration = {
            "motebit_id": agent.id, "public_key": agent.key.hex(), "endpoint_url": "https://a.example/mcp",
            "capabilities": ["web_search"], "pricing": PRICING, "metadata": {"name": "A", "version": "ignored"},
        }  # fmt: skip
        return self.send(agent, "register-device", "POST", "/api/v1/agents/register", json=registration | more)

    def submit(self, submitter: Agent, worker: Agent, **more: Any) -> httpx.Response:
        body = {"prompt": "?", "submitted_by": submitter.id, "required_capabilities": ["web_search"]}
        return self.send(submitter, "task:submit", "POST", f"/agent/{worker.id}/task", json=body, **more)

    def balance(self, agent: Agent) -> dict[str, Any]:
        response = self.send(agent, "account:balance", "GET", f"/api/v1/agents/{agent.id}/balance")
        assert response.status_code == 200, response.text
        shown: dict[str, Any] = response.json()
        return shown


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("relay")
    with Running("up", "--port", "0", "--limits", "off", "--relay", "on", cwd=folder) as running:
        running.until_ready()
        client = Client(running.url)
        for agent in (ALICE, BOB, CAROL):
            assert client.register(agent).status_code == 200
        engine = connect(f"sqlite:///{folder}/a2b-demo/a2b.db")
        with booking(engine) as connection:
            amounts = {CHAIN: -20_000, agent_account(ALICE.id): 10_000, agent_account(BOB.id): 10_000}
            post(connection, "deposit", "test", 1, amounts)
        ReceiptQueries(engine).submit([], EVIDENCE)
        ReceiptQueries(engine).bind(KeyBind(CAROL.key.hex(), "carols-listing", None, 1), None)
        engine.dispose()
        client.database = f"sqlite:///{folder}/a2b-demo/a2b.db"
        yield client


def receipt(agent: Agent, task: str, nested: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    now = int(time.time() * 1_000)
    times = {"submitted_at": now - 2_000, "completed_at": now - 1_000}
    return agent.receipt(task, nested, relay_task_id=task, **times | more)


def test_a_chain_of_delegations_over_http(client: Client) -> None:
    top = client.submit(ALICE, BOB)
    assert (top.status_code, top.json()["price"], top.json()["locked"]) == (201, 1_000, 1_200)
    sub = client.submit(BOB, CAROL).json()["task_id"]
    assert client.balance(ALICE)["pending_allocations"] == 1_200
    task = top.json()["task_id"]
    signed = receipt(BOB, task, [receipt(CAROL, sub)])
    path = f"/agent/{BOB.id}/task/{task}"
    first = client.send(ALICE, "task:result", "POST", f"{path}/result", json=signed)
    assert first.status_code == 200, first.text
    assert [hop["status"] for hop in first.json()["hops"]] == ["settled", "settled"]
    again = client.send(ALICE, "task:result", "POST", f"{path}/result", json=signed)
    assert again.json()["status"] == "already_settled"
    assert [client.balance(agent)["balance"] for agent in (ALICE, BOB, CAROL)] == [9_000, 9_950, 950]
    engine = connect(client.database)
    rows = ReceiptQueries(engine).page("carols-listing", None, 100)
    engine.dispose()
    listed = [row for row in rows if row.listing == "carols-listing"]
    assert [(row.worker, row.outcome) for row in listed] == [(CAROL.key.hex(), "completed")]
    poll = client.send(ALICE, "task:query", "GET", path).json()
    assert (poll["task"]["status"], poll["receipt"]) == ("settled", signed)


def test_refusals_have_the_relays_form(client: Client) -> None:
    poor = client.submit(CAROL, BOB)
    assert poor.status_code == 402
    assert poor.json()["code"] == "insufficient-funds"
    assert (poor.json()["required"], poor.json()["status"]) == (1_200, 402)
    nobody = local_http.post(f"{client.url}/agent/{BOB.id}/task", json={"prompt": "?"})
    assert (nobody.status_code, nobody.json()["code"]) == (401, "unauthorized")
    assert nobody.headers["WWW-Authenticate"] == "Bearer"
    unknown = client.send(ALICE, "task:submit", "POST", "/agent/nobody/task", json={"prompt": "?"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not-registered")
    for body in (b"", b"[]", b"{", b'{"prompt": 1}', b'{"prompt": "?", "required_capabilities": [""]}',
                 b'{"prompt": "?", "max_budget": 9, "max_budget": 1}', b'{"prompt": "?", "x": NaN}'):  # fmt: skip
        response = client.send(ALICE, "task:submit", "POST", f"/agent/{BOB.id}/task", content=body)
        assert response.status_code == 400, response.text
        assert response.json()["error"]
    closed = client.send(ALICE, "account:deposit", "POST", f"/api/v1/agents/{ALICE.id}/deposit", json={"rawTx": "00"})
    assert (closed.status_code, closed.json()["code"]) == (404, "no-deposits")
    forged = client.register(ALICE, public_key=BOB.key.hex())
    assert (forged.status_code, forged.json()["code"]) == (401, "bad-signature")
    assert client.register(ALICE, endpoint_url="ftp://x").status_code == 400


@pytest.mark.parametrize("succession", ["x", 5, None, [{}] * 65])
def test_what_is_no_succession_is_refused_by_its_pointer(client: Client, succession: Any) -> None:
    refused = client.register(ALICE, succession=succession)
    assert (refused.status_code, refused.json()["error"].partition(":")[0]) == (400, "'/succession'"), refused.text


def test_a_single_record_is_taken_for_a_list_of_it(client: Client) -> None:
    assert client.register(ALICE, succession={"old_public_key": "00"}).status_code == 200
    api = read_json(f"{client.url}/openapi.json")
    documented = api["components"]["schemas"]["RelayNewAgent"]["properties"]["succession"]
    assert (documented["type"], documented["maxItems"]) == (["object", "array"], 64)


def test_an_unsigned_withdrawal_is_cancelled_over_http(client: Client) -> None:
    before, id_ = client.balance(ALICE)["balance"], "11111111-2222-4333-8444-555555555555"
    engine = connect(client.database)
    withdrawal = Withdrawal(
        id=id_, motebit_id=ALICE.id, idempotency_key="x", destination="x", amount=1_000, requested_at=1
    )
    with booking(engine) as connection:
        add_coins(connection, [OperatorCoin(Outpoint(b"\1" * 32, 0), 5_000)])
    RelayStore(engine).cash.withdraw(withdrawal, lambda _: b"unsigned")
    engine.dispose()
    assert client.balance(ALICE)["pending_withdrawals"] == 1_000
    path = f"/api/v1/agents/{ALICE.id}/withdraw/{id_}/cancel"
    answer = client.send(ALICE, "account:withdraw", "POST", path)
    assert (answer.status_code, answer.json()["withdrawal"]["status"]) == (200, "failed"), answer.text
    assert (client.balance(ALICE)["balance"], client.balance(ALICE)["pending_withdrawals"]) == (before, 0)
    assert client.send(BOB, "account:withdraw", "POST", path).status_code == 403
    foreign = client.send(BOB, "account:withdraw", "POST", path.replace(ALICE.id, BOB.id))
    assert (foreign.status_code, foreign.json()["code"]) == (404, "unknown-withdrawal")


def test_a_key_makes_a_submission_repeatable(client: Client) -> None:
    headers = {"Idempotency-Key": "once"}
    first, again = (client.submit(BOB, ALICE, headers=headers).json() for _ in range(2))
    assert first == again
    assert client.submit(BOB, ALICE, headers={"Idempotency-Key": "x" * 201}).status_code == 400


def test_a_key_with_another_body_is_a_conflict(client: Client) -> None:
    body = {"submitted_by": BOB.id, "prompt": "?", "more": {"b": 1, "a": [1, 2]}}
    path, headers = f"/agent/{ALICE.id}/task", {"Idempotency-Key": "twice"}

    def send(text: str) -> tuple[int, dict[str, Any]]:
        more = headers | {"Content-Type": "application/json"}
        answer = client.send(BOB, "task:submit", "POST", path, content=text.encode(), headers=more)
        return answer.status_code, answer.json()

    status, task = send(json.dumps(body))
    assert status == 201
    reordered = json.dumps(dict(reversed(body.items())), indent=1)
    assert send(reordered) == (201, task), "the same JSON, written in another way"
    for other in ({"prompt": "another"}, {"max_budget": 5_000}, {"more": None}, {"required_capabilities": ["x"]}):
        status, refusal = send(json.dumps(body | other))
        assert (status, refusal["code"]) == (409, "bad-request")
        assert "with another body" in refusal["error"]


def test_heartbeats_and_metadata(client: Client) -> None:
    beat = client.send(ALICE, "agent:heartbeat", "POST", "/api/v1/agents/heartbeat")
    assert beat.json() == {"ok": True}
    metadata = read_json(f"{client.url}/.well-known/motebit.json")
    assert metadata["fee_rate"] == 0.05
    assert metadata["capabilities"] == ["discovery", "task_routing", "settlement"]


def test_an_agent_is_read_and_its_receipts_are_judged_by_anyone(client: Client) -> None:
    path = f"{client.url}/api/v1/agents/{BOB.id}"
    row = read_json(path)
    assert (row["motebit_id"], row["public_key"], row["metadata"]["name"]) == (BOB.id, BOB.key.hex(), "A")
    assert (row["endpoint_url"], row["capabilities"]) == ("https://a.example/mcp", ["web_search"])
    assert row["pricing"] == PRICING
    assert row["last_seen_at"] <= time.time() * 1_000 < row["expires_at"]
    local = Agent(33)
    assert client.register(local, endpoint_url="http://127.0.0.1:6379/", capabilities=[], pricing=[]).status_code == 200
    shown = read_json(f"{client.url}/api/v1/agents/{local.id}")
    assert (shown["endpoint_url"], shown["pricing"]) == ("", None)
    unknown = local_http.get(f"{client.url}/api/v1/agents/nobody")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not-registered")

    def judged(document: Any, agent: str = BOB.id) -> tuple[bool, str]:
        answer = local_http.post(f"{client.url}/agent/{agent}/verify-receipt", json=document).json()
        return answer["valid"], answer.get("reason", "")

    signed = receipt(BOB, "any")
    assert judged(signed) == (True, "")
    assert judged(signed | {"result": "other"}) == (False, "bad-signature")
    assert judged(receipt(CAROL, "any")) == (False, "wrong-worker")
    assert judged(CAROL.sign(signed)) == (False, "bad-signature")
    assert judged([]) == (False, "malformed")
    assert local_http.post(f"{client.url}/agent/nobody/verify-receipt", json=signed).status_code == 404


def test_an_agent_that_deregistered_gets_no_tasks_until_it_registers_again(client: Client) -> None:
    agent = Agent(31)
    assert client.register(agent, pricing=[]).status_code == 200
    assert client.submit(ALICE, agent).status_code == 201
    assert client.send(agent, "register-device", "DELETE", "/api/v1/agents/deregister").json() == {"ok": True}
    refused = client.submit(ALICE, agent)
    assert (refused.status_code, refused.json()["code"]) == (410, "expired")
    listed = read_json(f"{client.url}/api/v1/agents/discover?motebit_id={agent.id}")["agents"]
    assert listed == []
    assert client.register(agent, pricing=[]).status_code == 200
    assert client.submit(ALICE, agent).status_code == 201
    assert client.send(agent, "task:submit", "DELETE", "/api/v1/agents/deregister").status_code == 401
    assert client.send(agent, "agent:deregister", "DELETE", "/api/v1/agents/deregister").status_code == 200


def test_the_operator_credits_an_account(client: Client) -> None:
    agent, arguments = Agent(32), ["relay", "--database", client.database, "--credit"]
    assert command(*arguments, agent.id, "5000") == 1, "not registered"
    assert client.register(agent, capabilities=[], pricing=[]).status_code == 200
    assert [
        command(*arguments, agent.id, amount) for amount in ("0", "-1", "1.5", "x", "9" * 30, f"{1:020}{10**18}")
    ] == [2] * 6
    assert [command(*arguments, agent.id, "5000"), command(*arguments, agent.id, "1")] == [0, 0]
    assert client.submit(agent, ALICE).status_code == 201
    shown = client.balance(agent)
    assert (shown["balance"], shown["pending_allocations"]) == (3_801, 1_200)
    assert sorted(row["type"] for row in shown["transactions"]) == ["credit", "credit", "lock"]
    engine = connect(client.database)
    ledger = RelayStore(engine).ledger
    assert (ledger.faults(), sum(ledger.balances().values())) == ([], 0)
    engine.dispose()


def test_no_relay_is_there_unless_it_is_switched_on(tmp_path: Any) -> None:
    with Running("up", "--port", "0", "--limits", "off", cwd=tmp_path) as running:
        running.until_ready()
        client = Client(running.url)
        assert client.register(ALICE).status_code == 404
        assert client.submit(ALICE, BOB).status_code == 404
        metadata = read_json(f"{running.url}/.well-known/motebit.json")
        assert (metadata["fee_rate"], metadata["capabilities"]) == (0, ["discovery"])


def test_a_token_of_the_command_line_is_taken_at_its_host_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def authorization(host: str, audience: str, file: Path | None = None) -> dict[str, str]:
        files = [str(file)] if file else []
        assert command("motebit-token", audience, f"https://{host}/api", *files) == 0
        return {"Authorization": capsys.readouterr().out.strip()}

    monkeypatch.setenv("A2B_DCT_KEY", ALICE.seed.hex())
    with Running("up", "--port", "0", "--limits", "off", "--relay", "on", "--public-url", "https://relay.example",
                 cwd=tmp_path) as running:  # fmt: skip
        running.until_ready()
        file = tmp_path / "body.json"
        registration = {"public_key": ALICE.key.hex(), "endpoint_url": "https://a.example/mcp", "capabilities": []}
        file.write_text(json.dumps(registration))
        path = f"{running.url}/api/v1/agents/register"
        signed = authorization("RELAY.example", "register-device", file)
        assert local_http.post(path, headers=signed, content=file.read_bytes() + b" ").json()["code"] == "hash-mismatch"
        assert local_http.post(path, headers=signed, content=file.read_bytes()).json()["motebit_id"] == ALICE.id
        balance, market = f"{running.url}/api/v1/agents/{ALICE.id}/balance", f"{running.url}/api/v1/market/candidates"
        for url, audience in ((balance, "account:balance"), (f"{market}?capability=x", "market:query")):
            here, elsewhere = authorization("relay.example", audience), authorization("other.example", audience)
            assert [local_http.get(url, headers=here).status_code for _ in range(2)] == [200, 200]
            assert "the token is for the host" in local_http.get(url, headers=elsewhere).json()["error"]
            now = int(time.time() * 1_000)
            unbound = {
                "Authorization": f"Bearer motebit:{ALICE.token(aud=audience, jti=audience, iat=now, exp=now + 9_000)}"
            }
            assert [local_http.get(url, headers=unbound).status_code for _ in range(2)] == [200, 401]
    assert command("motebit-token", "account:balance", "https://") == 2


def test_registered_agents_are_discovered_as_such(client: Client) -> None:
    def rows(query: str) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = read_json(f"{client.url}/api/v1/agents/discover?{query}")["agents"]
        return listed

    assert {row["motebit_id"] for row in rows("capability=web_search")} == {ALICE.id, BOB.id, CAROL.id}
    (row,) = rows(f"motebit_id={BOB.id}&unverified=true")
    assert (row["public_key"], row["endpoint_url"]) == (BOB.key.hex(), "https://a.example/mcp")
    assert (row["identity"], row["listing"], row["capabilities"]) == ("registered", None, ["web_search"])
    assert (row["pricing"], row["last_seen_at"] <= time.time() * 1_000) == (PRICING, True)
    assert rows("capability=fly") == rows("motebit_id=nobody") == rows("motebit_id=%00") == []
    assert len(rows("limit=2")) == 2
    answer = read_json(f"{client.url}/api/v1/discover/{BOB.id}")
    assert (answer["found"], answer["ttl"], answer["listing"], answer["identity"]) == (True, 300, None, "registered")
    assert {name: answer[name] for name in ("public_key", "endpoint_url", "capabilities")}.items() <= row.items()
    assert read_json(f"{client.url}/api/v1/discover/nobody")["found"] is False


def market(client: Client, agent: Agent | None, query: str = "capability=web_search") -> dict[str, Any]:
    path = f"/api/v1/market/candidates?{query}"
    response = client.send(agent, "market:query", "GET", path) if agent else local_http.get(client.url + path)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_candidates_are_ranked_by_the_trust_of_the_observer(client: Client, shared: Path) -> None:
    schema = json.loads((shared / "vectors/trust/motebit-schemas/route-score-v1.json").read_text())
    alice = market(client, ALICE)
    for score in alice["candidates"]:
        Draft7Validator(schema).validate(score)
    assert [one["motebit_id"] for one in alice["candidates"]] == [BOB.id, CAROL.id, ALICE.id]
    assert [one["selected"] for one in alice["candidates"]] == [True, False, False]
    assert [one["trust_level"] for one in alice["candidates"]] == ["trusted", "unknown", "unknown"]
    trust = [one["sub_scores"]["trust"] for one in alice["candidates"]]
    assert trust == pytest.approx([0.9, 0.81, 0.1]), "Carol by way of Bob"
    assert alice["observer"] == ALICE.key.hex()
    anybody = market(client, None)
    assert anybody["observer"] is None
    assert {one["trust_level"] for one in anybody["candidates"]} == {"unknown"}
    assert market(client, ALICE) == alice


def test_candidates_are_within_budget_and_limit(client: Client) -> None:
    assert market(client, None, "capability=web_search&max_budget=999")["candidates"] == []
    assert len(market(client, None, "capability=web_search&max_budget=1000&limit=2")["candidates"]) == 2
    assert market(client, None, "capability=fly")["candidates"] == []
    for query in ("", "capability=", "capability=x&max_budget=many", "capability=x&limit=a", "capability=x&nonsense=1"):
        response = local_http.get(f"{client.url}/api/v1/market/candidates?{query}")
        assert response.status_code == 400, query
    for header in ("Bearer x", "Bearer motebit:", "Bearer motebit:e30.e30"):
        response = local_http.get(
            f"{client.url}/api/v1/market/candidates?capability=x", headers={"Authorization": header}
        )
        assert response.status_code == 401, header
    wrong = client.send(ALICE, "task:submit", "GET", "/api/v1/market/candidates?capability=x")
    assert wrong.status_code == 401
    assert "audience-mismatch" in wrong.json()["error"]


def command(*arguments: str) -> object:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    return ended.value.code


def test_a_blocked_worker_is_no_candidate(client: Client) -> None:
    arguments = ["block", "--database", client.database, BOB.key.hex()]
    assert command(*arguments) == 0
    assert [one["motebit_id"] for one in market(client, ALICE)["candidates"]] == [ALICE.id, CAROL.id]
    assert [command(*arguments, "--undo") for _ in range(2)] == [0, 1]
    assert command("block", "--database", client.database, "x") == 2
    assert len(market(client, ALICE)["candidates"]) == 3


def test_an_agent_that_only_registered_is_trusted_for_the_tasks_that_were_settled(client: Client) -> None:
    worker, submitter = Agent(21), Agent(22)
    free = [{"capability": "translate", "unit_cost": 0, "currency": "SAT", "per": "task"}]
    for agent in (worker, submitter):
        assert client.register(agent, capabilities=["translate"], pricing=free).status_code == 200
    body = {"prompt": "?", "required_capabilities": ["translate"]}
    for _ in range(5):
        path = f"/agent/{worker.id}/task"
        task = client.send(submitter, "task:submit", "POST", path, json=body).json()["task_id"]
        signed = receipt(worker, task)
        assert client.send(worker, "task:result", "POST", f"{path}/{task}/result", json=signed).status_code == 200
    first = market(client, submitter, "capability=translate")["candidates"][0]
    assert (first["motebit_id"], first["trust_level"], first["successful_tasks"]) == (worker.id, "verified", 5)
    assert first["sub_scores"]["trust"] == 0.6
    assert {one["trust_level"] for one in market(client, ALICE, "capability=translate")["candidates"]} == {"unknown"}
