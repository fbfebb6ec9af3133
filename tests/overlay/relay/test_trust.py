"""How the trust between registered agents grows with the tasks that the relay settles (multi-hop delegation)."""

from __future__ import annotations

from collections.abc import Sequence
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.store import connect
from parsers.claims.motebit.trust_graph import TrustEdge
from tests.overlay.relay.kit import World
from tests.parsers.claims.motebit.signers import ALICE, BOB, CAROL, Agent

MEMBERS = [agent.id for agent in (ALICE, BOB, CAROL)]


def work(world: World, submitter: Agent, worker: Agent, status: str = "completed") -> None:
    task = world.task(submitter, worker)
    world.settle(worker, worker, task, worker.receipt(task, relay_task_id=task, status=status))


def trust_between(world: World, submitter: Agent, worker: Agent) -> TrustEdge | None:
    return world.store.tasks.trust(MEMBERS).get((submitter.id, worker.id))


def test_each_hop_of_a_chain_is_trusted_by_the_submitter_of_its_task(world: World) -> None:
    top, sub = world.task(ALICE, BOB), world.task(BOB, CAROL)
    nested = CAROL.receipt(relay_task_id=sub, status="failed")
    receipt = BOB.receipt(nested=[nested], relay_task_id=top)
    for _ in range(2):
        world.settle(ALICE, BOB, top, receipt)
    assert trust_between(world, ALICE, BOB) == TrustEdge("first_contact", 1, 0), "a receipt counts once"
    assert trust_between(world, BOB, CAROL) == TrustEdge("first_contact", 0, 1)
    assert world.store.tasks.trust(MEMBERS).keys() == {(ALICE.id, BOB.id), (BOB.id, CAROL.id)}


def test_nobody_observes_himself_and_expired_tasks_are_no_work(world: World) -> None:
    world.register(ALICE, BOB, price=0)
    work(world, ALICE, ALICE)
    world.task(ALICE, BOB)
    world.time += 10_000
    assert world.store.tasks.expire(int(world.time)) == 1
    assert world.store.tasks.trust(MEMBERS) == {}


def slowly(outcomes: Sequence[str]) -> tuple[str, int, int]:
    """The level by the table of the specification's reference, and the counts."""
    level, done, failed = 0, 0, 0
    for outcome in outcomes:
        if outcome == "denied":
            continue
        done, failed = done + (outcome == "completed"), failed + (outcome == "failed")
        share = done / (done + failed)
        if done + failed >= 3 and share < 0.5:
            level = max(level - 1, 1) if level else 0
        elif level == 0 or (level == 1 and done >= 5 and share >= 0.8) or (level == 2 and done >= 20 and share >= 0.9):
            level += 1
    return ("unknown", "first_contact", "verified", "trusted")[level], done, failed


@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from(["completed"] * 6 + ["failed", "denied"]), min_size=1, max_size=30))
def test_the_level_moves_one_step_with_each_task(outcomes: list[str]) -> None:
    with TemporaryDirectory() as folder:
        world = World(connect(f"sqlite:///{folder}/relay.db"))
        world.register(ALICE, BOB, price=0)
        for outcome in outcomes:
            work(world, ALICE, BOB, outcome)
        stored = trust_between(world, ALICE, BOB) or TrustEdge()
        world.engine.dispose()
    assert (stored.level, stored.successes, stored.failures) == slowly(outcomes)
