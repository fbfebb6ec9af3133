"""The stories of the living chain, each by itself and with every choice: random lives reach each of them seldom.

Each was chosen because breaking the code on purpose in some place went unnoticed without it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.indexer.sync.test_living_chain import MOVED, REGISTERED, LivingChain
from tests.strategies import Dig, PlannedOutput, Spend


def told_each_way(step: str, **ways: Sequence[Any]) -> list[list[tuple[str, dict[str, Any]]]]:
    """Stories of one step, with every choice of what may be given."""
    return [[(step, dict(zip(ways, supplied, strict=True)))] for supplied in itertools.product(*ways.values())]


BOTH = (False, True)
ANNOUNCED = (
    "a_transaction_is_announced", {"number": 0, "plan": REGISTERED.spends[0], "conflicting": True, "everywhere": True}
)  # fmt: skip
RESTARTED = ("the_indexer_is_stopped_in_the_middle_and_started_again", {"steps": 0, "alone": False})


def mined(plan: Dig) -> tuple[str, dict[str, Any]]:
    """The step that mines a block, which the indexer sees."""
    return "blocks_are_mined", {"plans": [plan], "late": frozenset(), "spoiled": frozenset(), "look": True}


HISTORIES = {
    "restarted": [[mined(REGISTERED), RESTARTED, mined(MOVED)]],
    "taken back": told_each_way(
        "what_was_said_is_taken_back", back=(1, 2), otherwise=("", "mined", "unconfirmed"), evicted=BOTH,
        goes_on=(False,),
    ),
    "taken back under what goes on": told_each_way(
        "what_was_said_is_taken_back", back=(1, 2), otherwise=("", "mined"), evicted=(False,), goes_on=(True,)
    ),
    "announced, mined, taken back": told_each_way(
        "what_was_announced_is_mined_and_taken_back", listed_late=BOTH, busy=BOTH, looks=BOTH
    ),
    "failing": told_each_way("all_nodes_fail_behind_a_block_that_moves_a_registration", first=(0,), after=(1, 2)),
    "between": [[ANNOUNCED, ("a_block_arrives_between_two_questions", {"plan": MOVED, "moves": True})]],
    "alone": [
        [ANNOUNCED, ("the_indexer_looks", {}),
         ("the_indexer_is_stopped_in_the_middle_and_started_again", {"steps": 0, "alone": True})],
    ],
}  # fmt: skip


@pytest.mark.parametrize(("count", "blocks_a_write"), [(1, 1), (3, 256)])
@pytest.mark.parametrize("histories", HISTORIES.values(), ids=HISTORIES)
def test_each_story_ends_as_a_fresh_index(
    histories: list[list[tuple[str, dict[str, Any]]]], count: int, blocks_a_write: int, empty: Path
) -> None:
    """One after the other in one life."""
    LivingChain.empty = empty
    life = LivingChain()
    try:
        life.begin(count, blocks_a_write, [REGISTERED], 1_000)
        for story in histories:
            for step, supplied in story:
                getattr(life, step)(**supplied)
                life.what_is_stored_is_one_branch()
                life.what_is_pending_goes_on_from_what_is_stored()
            life.run(life.end())
    finally:
        life.teardown()


@pytest.mark.parametrize("content", ["agent", "plain"])
@pytest.mark.parametrize("number", range(4))
def test_a_transaction_read_before_its_parents_is_read_again_with_them(number: int, content: str, empty: Path) -> None:
    """One transaction a look: which comes first is chance, so it is tried with several."""
    LivingChain.empty = empty
    life = LivingChain()
    try:
        life.begin(1, 256, [REGISTERED], 1)
        for generation in range(5):
            plan = Spend((1, 0), (PlannedOutput(1, content, (number + generation) % 4),), change=True)
            life.a_transaction_is_announced(0, plan, conflicting=False, everywhere=True)
        for _ in life.nodes[0].unconfirmed:
            life.the_indexer_looks()
        life.run(life.compare())
    finally:
        life.teardown()
