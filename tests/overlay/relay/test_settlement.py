"""Settlement hop by hop, and the adversarial properties of the specification."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from overlay.systems.relay.agent_registration import REGISTERED_SECONDS
from overlay.systems.relay.store_ledger import agent_account
from overlay.systems.relay.task_relay import RelayRefusedError
from overlay.systems.relay.tasks import LOCK_SECONDS
from parsers.claims.canonical_json import jcs, without
from parsers.claims.motebit.identifiers import check_signature
from parsers.claims.motebit.receipts import MAX_DEPTH
from parsers.claims.motebit.settlement import fee_of, lock_of
from tests.overlay.relay.kit import SEED, World
from tests.parsers.claims.motebit.signers import ALICE, BOB, CAROL, DAVE, Agent, ed25519


def refusal(call: Any, *arguments: Any, **more: Any) -> tuple[int, str]:
    with pytest.raises(RelayRefusedError) as caught:
        call(*arguments, **more)
    return caught.value.status, caught.value.code


def statuses(answer: dict[str, Any]) -> list[str]:
    return [hop.get("reason") or hop["status"] for hop in answer["hops"]]


def test_lock_and_fee_are_rounded_down() -> None:
    assert [lock_of(price) for price in (0, 1, 4, 5, 1_000)] == [0, 1, 4, 6, 1_200]
    assert [fee_of(price) for price in (0, 19, 20, 39, 1_000)] == [0, 0, 1, 1, 50]


def test_a_chain_of_two_settles_hop_by_hop(world: World) -> None:
    top, sub = world.task(ALICE, BOB), world.task(BOB, CAROL)
    assert world.balances(ALICE, BOB, CAROL) == [8_800, 8_800, 0]
    nested = CAROL.receipt(relay_task_id=sub)
    answer = world.settle(ALICE, BOB, top, BOB.receipt(nested=[nested], relay_task_id=top))
    assert (answer["status"], statuses(answer)) == ("settled", ["settled", "settled"])
    assert world.balances(ALICE, BOB, CAROL) == [9_000, 9_000 + 950, 950]
    assert world.store.ledger.balance("fees") == 100
    world.check()


def test_settlement_records_are_signed_and_meet_their_schema(world: World, shared: Path) -> None:
    task = world.task(ALICE, BOB)
    receipt = BOB.receipt(relay_task_id=task)
    record = world.settle(BOB, BOB, task, receipt)["settlement"]
    schema = json.loads((shared / "vectors/trust/motebit-schemas/settlement-record-v1.json").read_text())
    Draft7Validator(schema).validate(record)
    key = ed25519.public_key_of(SEED)
    assert check_signature(record["signature"], jcs(without(record, "signature")), key)
    assert (record["amount_settled"], record["platform_fee"], record["status"]) == (950, 50, "completed")
    assert (record["allocation_id"], record["motebit_id"]) == (task, BOB.id)


@pytest.mark.parametrize("status", ["failed", "denied"])
def test_work_that_was_not_done_costs_nothing(world: World, status: str) -> None:
    top, sub = world.task(ALICE, BOB), world.task(BOB, CAROL)
    nested = CAROL.receipt(relay_task_id=sub)
    answer = world.settle(ALICE, BOB, top, BOB.receipt(nested=[nested], relay_task_id=top, status=status))
    assert answer["settlement"]["status"] == "refunded"
    assert answer["settlement"]["amount_settled"] == answer["settlement"]["platform_fee"] == 0
    assert world.balances(ALICE, BOB, CAROL) == [10_000, 9_000, 950]


# -- the five adversarial properties


def test_a_receipt_of_one_task_does_not_settle_another(world: World) -> None:
    first, second = world.task(ALICE, BOB), world.task(ALICE, BOB)
    receipt = BOB.receipt(relay_task_id=first)
    assert refusal(world.settle, ALICE, BOB, second, receipt) == (403, "task-mismatch")
    unbound = BOB.receipt()
    assert refusal(world.settle, ALICE, BOB, second, unbound) == (403, "task-mismatch")
    world.settle(ALICE, BOB, first, receipt)
    assert world.balance(BOB) == 10_950


@pytest.mark.parametrize("member", ["result", "relay_task_id", "status", "completed_at", "signature", "nested"])
def test_a_mutated_receipt_is_refused(world: World, member: str) -> None:
    top, sub = world.task(ALICE, BOB), world.task(BOB, CAROL)
    receipt = BOB.receipt(nested=[CAROL.receipt(relay_task_id=sub)], relay_task_id=top)
    if member == "nested":
        receipt["delegation_receipts"][0]["result"] = "other"
    elif member == "completed_at":
        receipt[member] += 1
    else:
        receipt[member] = {"status": "denied"}.get(member, "BA"[receipt[member][0] == "B"] + receipt[member][1:])
    status, code = refusal(world.settle, ALICE, BOB, top, receipt)
    assert (status, code) == (403, "bad-signature")
    assert world.balances(ALICE, BOB, CAROL) == [8_800, 8_800, 0]


def test_a_second_submission_is_already_settled(world: World) -> None:
    top, sub = world.task(ALICE, BOB), world.task(BOB, CAROL)
    receipt = BOB.receipt(nested=[CAROL.receipt(relay_task_id=sub)], relay_task_id=top)
    first = world.settle(ALICE, BOB, top, receipt)
    again = [world.settle(agent, BOB, top, receipt) for agent in (ALICE, BOB)]
    assert {answer["status"] for answer in again} == {"already_settled"}
    assert all(answer["settlement"] == first["settlement"] for answer in again)
    assert world.settle(BOB, CAROL, sub, CAROL.receipt(relay_task_id=sub))["status"] == "already_settled"
    assert world.balances(ALICE, BOB, CAROL) == [9_000, 9_950, 950]


def test_another_receipt_for_a_settled_task_pays_nothing(world: World) -> None:
    task = world.task(ALICE, BOB)
    world.settle(ALICE, BOB, task, BOB.receipt(relay_task_id=task, status="denied"))
    assert world.settle(BOB, BOB, task, BOB.receipt(relay_task_id=task))["status"] == "already_settled"
    assert world.balances(ALICE, BOB) == [10_000, 10_000]


def test_a_forged_nested_receipt_skips_that_hop_only(world: World) -> None:
    top, sub, other = world.task(ALICE, BOB), world.task(BOB, CAROL), world.task(BOB, DAVE)
    forged = DAVE.receipt(relay_task_id=sub, motebit_id=CAROL.id, public_key=DAVE.key.hex())
    genuine = DAVE.receipt("other", relay_task_id=other)
    answer = world.settle(ALICE, BOB, top, BOB.receipt(nested=[forged, genuine], relay_task_id=top))
    assert statuses(answer) == ["settled", "bad-signature", "settled"]
    assert world.balances(BOB, CAROL, DAVE) == [10_000 - 1_200 - 1_000 + 950, 0, 950]
    assert world.settle(BOB, CAROL, sub, CAROL.receipt(relay_task_id=sub))["status"] == "settled"


def test_a_budget_that_is_spent_is_refused_with_402(world: World) -> None:
    for _ in range(8):
        world.task(BOB, CAROL)
    assert refusal(world.task, BOB, CAROL) == (402, "insufficient-funds")
    assert refusal(world.task, CAROL, DAVE) == (402, "insufficient-funds")
    assert world.balance(BOB) == 10_000 - 8 * 1_200
    world.check()


# -- trees that somebody bends


def test_a_repeated_submission_is_answered_whatever_has_become_of_the_worker(world: World) -> None:
    first = world.submit(ALICE, BOB, "key", max_budget=1_000)
    world.register(BOB, price=5_000)
    assert world.submit(ALICE, BOB, "key", max_budget=1_000) == first
    world.time += REGISTERED_SECONDS + 1
    assert world.submit(ALICE, BOB, "key", max_budget=1_000) == first
    assert refusal(world.submit, ALICE, CAROL, "key") == (409, "bad-request")
    assert world.balance(ALICE) == 8_800


def test_below_an_invalid_receipt_only_tasks_of_the_nearest_valid_signer_count(world: World) -> None:
    world.fund(CAROL, 5_000)
    top, sub, low, apart = (world.task(*pair) for pair in ((ALICE, BOB), (BOB, CAROL), (CAROL, DAVE), (BOB, DAVE)))
    below = [DAVE.receipt("low", relay_task_id=low), DAVE.receipt("own", relay_task_id=apart)]
    forged = DAVE.receipt("sub", nested=below, relay_task_id=sub, motebit_id=CAROL.id)
    answer = world.settle(ALICE, BOB, top, BOB.receipt(nested=[forged], relay_task_id=top))
    assert statuses(answer) == ["settled", "bad-signature", "wrong-submitter", "settled"]
    assert world.settle(DAVE, DAVE, low, below[0])["status"] == "settled", "its own route is open to it"


def test_a_receipt_of_a_third_partys_task_is_skipped(world: World) -> None:
    stolen, top = world.task(ALICE, CAROL), world.task(ALICE, BOB)
    nested = CAROL.receipt(relay_task_id=stolen, status="denied")
    answer = world.settle(BOB, BOB, top, BOB.receipt(nested=[nested], relay_task_id=top))
    assert statuses(answer) == ["settled", "wrong-submitter"]
    assert world.settle(CAROL, CAROL, stolen, CAROL.receipt(relay_task_id=stolen))["status"] == "settled"


def test_a_receipt_of_another_worker_is_not_the_tasks(world: World) -> None:
    task = world.task(ALICE, BOB)
    assert refusal(world.settle, ALICE, BOB, task, CAROL.receipt(relay_task_id=task)) == (403, "wrong-worker")
    assert refusal(world.settle, CAROL, BOB, task, BOB.receipt(relay_task_id=task)) == (403, "forbidden")
    assert refusal(world.settle, ALICE, CAROL, task, BOB.receipt(relay_task_id=task)) == (404, "unknown-task")


def test_a_key_that_is_not_registered_proves_nothing(world: World) -> None:
    eve = Agent(9)
    top = world.task(ALICE, BOB)
    answer = world.settle(ALICE, BOB, top, BOB.receipt(nested=[eve.receipt(relay_task_id=top)], relay_task_id=top))
    assert statuses(answer) == ["settled", "unregistered"]


def test_tasks_in_a_circle_settle_each_once(world: World) -> None:
    there, back = world.task(ALICE, BOB), world.task(BOB, ALICE)
    inner = BOB.receipt("inner", relay_task_id=there)
    nested = ALICE.receipt("back", nested=[inner], relay_task_id=back)
    answer = world.settle(ALICE, BOB, there, BOB.receipt(nested=[nested, nested], relay_task_id=there))
    assert statuses(answer) == ["settled", "settled", "replayed", "repeated", "replayed"]
    assert world.balances(ALICE, BOB) == [10_000 - 50, 10_000 - 50]
    world.check()


def test_ten_delegations_settle_and_those_below_are_skipped(world: World) -> None:
    agents = [ALICE, BOB, *(Agent(number) for number in range(20, 31))]
    world.register(*agents[2:])
    for agent in agents[2:]:
        world.fund(agent, 1_200)
    ids = [world.task(*pair) for pair in pairwise(agents)]
    receipt: dict[str, Any] | None = None
    for agent, id_ in reversed(list(zip(agents[1:], ids, strict=True))):
        receipt = agent.receipt(nested=[receipt] if receipt else None, relay_task_id=id_)
    assert receipt is not None
    answer = world.settle(ALICE, BOB, ids[0], receipt)
    assert statuses(answer) == ["settled"] * (MAX_DEPTH + 1)
    assert len(ids) == MAX_DEPTH + 2
    assert world.balance(agents[-1]) == 1_200
    world.check()


def test_too_many_receipts_are_refused(world: World) -> None:
    task = world.task(ALICE, BOB)
    nested = [CAROL.receipt(f"task-{number}") for number in range(64)]
    receipt = BOB.receipt(nested=nested, relay_task_id=task)
    assert refusal(world.settle, ALICE, BOB, task, receipt) == (400, "too-many-receipts")


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b"{", b'{"a":1,"a":2}', b"\xff", b"{}", b'{"motebit_id": 3}'])
def test_a_body_that_is_no_receipt_is_refused(world: World, body: bytes) -> None:
    from overlay.systems.relay import tasks

    task = world.task(ALICE, BOB)
    status, _ = refusal(tasks.result, world.relay, world.token(BOB, "task:result", body), BOB.id, task)
    assert status in (400, 403)


# -- time


def test_a_lock_expires_after_an_hour(world: World) -> None:
    task = world.task(ALICE, BOB)
    world.time += LOCK_SECONDS - 1
    assert world.store.tasks.expire(int(world.time)) == 0
    world.time += 1
    receipt = BOB.receipt(relay_task_id=task)
    assert refusal(world.settle, ALICE, BOB, task, receipt) == (410, "expired")
    assert (world.store.tasks.expire(int(world.time)), world.store.tasks.expire(int(world.time))) == (1, 0)
    assert refusal(world.settle, ALICE, BOB, task, receipt) == (410, "expired")
    assert world.balances(ALICE, BOB) == [10_000, 10_000]
    world.check()


# -- races


def test_of_fifty_clients_eight_share_a_balance_for_eight_tasks(world: World) -> None:
    def lock(_: int) -> str:
        try:
            world.task(ALICE, BOB)
        except RelayRefusedError as error:
            return error.code
        return "locked"

    with ThreadPoolExecutor(50) as clients:
        results = list(clients.map(lock, range(50)))
    assert sorted(results) == ["insufficient-funds"] * 42 + ["locked"] * 8
    assert world.balance(ALICE) == 10_000 - 8 * 1_200
    world.check()


def test_of_fifty_submissions_of_a_receipt_one_settles(world: World) -> None:
    top, sub = world.task(ALICE, BOB), world.task(BOB, CAROL)
    nested = CAROL.receipt(relay_task_id=sub)
    whole = BOB.receipt(nested=[nested], relay_task_id=top)

    def submit(number: int) -> str:
        worker, task, receipt = (BOB, top, whole) if number % 2 else (CAROL, sub, nested)
        return str(world.settle(BOB, worker, task, receipt)["status"])

    with ThreadPoolExecutor(50) as clients:
        results = list(clients.map(submit, range(50)))
    assert sorted(set(results)) == ["already_settled", "settled"]
    assert world.balances(ALICE, BOB, CAROL) == [9_000, 9_950, 950]
    world.check()


def test_old_tasks_that_locked_nothing_are_deleted_and_all_others_stay(world: World) -> None:
    paid = world.task(ALICE, BOB)
    world.register(BOB, price=0)
    settled, unanswered, pending = (world.task(ALICE, BOB) for _ in range(3))
    world.settle(BOB, BOB, settled, BOB.receipt(relay_task_id=settled))
    tasks, now = world.store.tasks, int(world.time)
    assert tasks.trim(now + LOCK_SECONDS) == 0
    world.time += LOCK_SECONDS
    later = world.task(ALICE, BOB)
    tasks.expire(int(world.time))
    assert tasks.trim(int(world.time) + 1) == 3
    assert [id_ for id_ in (paid, settled, unanswered, pending, later) if tasks.submitted(id_)] == [paid, later]
    assert tasks.settlement(settled) is None
    entries = world.store.ledger.entries_of(agent_account(ALICE.id), 10)
    assert {row["ref"] for row in entries} >= {paid}
    world.check()
    tasks.expire(int(world.time) + LOCK_SECONDS)
    assert tasks.trim(int(world.time) + LOCK_SECONDS + 1) == 1
