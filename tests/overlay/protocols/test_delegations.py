"""Spent units, revocations and delegations in every database: races and restarts keep them right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest
from sqlalchemy import Engine

from indexer.store import unchecked
from indexer.store.nonces import CLOCK_SECONDS
from overlay.systems.delegateos import store as module
from overlay.systems.delegateos.store import (
    BlockBudget,
    DelegationRecords,
    NonceUse,
    RecordsFullError,
    SpentBudgetError,
    StoredDelegation,
    UsedNonceError,
)
from tests.token_kit import AGENT, HELPER, ISSUER, STRANGER, issued, narrowed, revocation

RACERS, ROUNDS = 6, 5
DELEGATION = StoredDelegation(
    block="b1", id="del_1", parent_id="del_0", delegator="x", delegatee="y", depth=0, dct="t", contract="{}",
    expires_at=100,
)  # fmt: skip


Open = Callable[[], DelegationRecords]


@pytest.fixture
def time() -> list[int]:
    """The clock of the database."""
    return [10]


@pytest.fixture
def opened(database_url: str, time: list[int]) -> Iterator[Open]:
    """Opens the ledger as another process has it."""
    engines: list[Engine] = []

    def another() -> DelegationRecords:
        engines.append(unchecked(database_url))
        return DelegationRecords(engines[-1], lambda _: time[0])

    yield another
    for engine in engines:
        engine.dispose()


def raced(opened: Open, work: Callable[[DelegationRecords], None]) -> int:
    """How many of many calls, made at once by several processes, are not refused."""
    barrier = Barrier(RACERS)

    def run(_: int) -> int:
        records, done = opened(), 0
        barrier.wait()
        for _ in range(ROUNDS):
            try:
                work(records)
                done += 1
            except (SpentBudgetError, UsedNonceError):
                continue
        return done

    with ThreadPoolExecutor(RACERS) as threads:
        return sum(threads.map(run, range(RACERS)))


def test_a_race_spends_no_unit_more_than_there_are(opened: Open) -> None:
    opened()
    budgets = [BlockBudget("root", 1_000, 100), BlockBudget("leaf", 7, 100)]
    assert raced(opened, lambda records: records.charge(budgets, None)) == 7
    assert (opened().spent("root"), opened().spent("leaf")) == (7, 7)


def test_siblings_share_the_units_of_their_parent(opened: Open) -> None:
    records, parent = opened(), BlockBudget("parent", 3, 100)
    for name in ("a", "b", "a"):
        records.charge([parent, BlockBudget(name, 2, 100)], None)
    with pytest.raises(SpentBudgetError) as raised:
        records.charge([parent, BlockBudget("c", 2, 100)], None)
    assert raised.value.budget == parent
    assert records.spent("c") == 0


def test_a_nonce_is_used_once_and_only_with_a_unit(opened: Open) -> None:
    records, nonce = opened(), NonceUse("dct:x", "n1", 100)
    with pytest.raises(SpentBudgetError):
        records.charge([BlockBudget("empty", 0, 100)], nonce)
    assert raced(opened, lambda one: one.charge([BlockBudget("root", 1_000, 100)], nonce)) == 1
    assert records.spent("root") == 1


def test_units_of_blocks_that_expired_long_ago_are_deleted_and_there_are_no_more(opened: Open, time: list[int]) -> None:
    records, old = opened(), BlockBudget("old", 5, 20)
    records.charge([old, BlockBudget("longer", 5, 20)], None)
    records.charge([BlockBudget("longer", 5, 90)], None)
    time[0] = 20 + CLOCK_SECONDS
    records.charge([BlockBudget("new", 5, 90)], None)
    assert records.spent("old") == 1
    time[0] += 1
    records.charge([BlockBudget("new", 5, 90)], None)
    with pytest.raises(SpentBudgetError):  # by a server whose clock is slow
        records.charge([old], None)
    assert [records.spent(name) for name in ("old", "longer", "new")] == [0, 2, 2]


def test_revocations_stay_and_are_read_by_block_and_signer(opened: Open) -> None:
    token = narrowed(issued())
    entries = [revocation(AGENT, token, 1), revocation(STRANGER, token, 1), revocation(HELPER, token, 1, "chain")]
    records = opened()
    for entry in (*entries, entries[0]):
        records.revoke(entry, is_proven=False)
    again = opened()
    assert [entry for _, entry in again.revocations(0, 10)] == entries
    assert [entry for _, entry in again.revocations(1, 1)] == entries[1:2]
    id_ = entries[0]["revocationId"]
    assert again.revocations_of([id_, "other"], [entries[0]["revokedBy"]]) == entries[:1]
    assert again.revocations_of(["other"], [entries[0]["revokedBy"]]) == []


def test_strangers_cannot_fill_the_room_of_the_proven(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STRANGERS", 2)
    records, tokens = opened(), [issued(delegationId=f"del_{number}") for number in range(4)]
    for token in tokens[:2]:
        records.revoke(revocation(STRANGER, token), is_proven=False)
    with pytest.raises(RecordsFullError, match="send the token"):
        records.revoke(revocation(STRANGER, tokens[2]), is_proven=False)
    records.revoke(revocation(AGENT, tokens[2]), is_proven=True)
    records.revoke(revocation(STRANGER, tokens[0]), is_proven=True)
    records.revoke(revocation(STRANGER, tokens[3]), is_proven=False)
    assert len(records.revocations(0, 10)) == 4


def test_nobody_can_fill_the_room_of_trusted_issuers(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PROVEN", 1)
    records, tokens = opened(), [issued(delegationId=f"del_{number}") for number in range(2)]
    records.revoke(revocation(AGENT, tokens[0]), is_proven=True)
    with pytest.raises(RecordsFullError, match="1 revocations are stored"):
        records.revoke(revocation(AGENT, tokens[1]), is_proven=True)
    records.revoke(revocation(ISSUER, tokens[1]), is_proven=True, is_trusted=True)
    assert len(records.revocations(0, 10)) == 2


def test_a_delegation_ends_once(opened: Open) -> None:
    records = opened()
    records.add_delegation(DELEGATION, 10)
    records.add_delegation(replace(DELEGATION, contract="changed"), 10)
    assert records.delegations("del_1", "y") == [DELEGATION]
    assert records.delegations("del_1", "x") == []
    assert records.finish("b1", "completed", "{}")
    assert not records.finish("b1", "failed", "")
    assert opened().delegations("del_1", "y") == [replace(DELEGATION, status="completed", attestation="{}")]


def test_delegations_are_bounded_and_expire(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DELEGATIONS", 1)
    records, other = opened(), replace(DELEGATION, block="b2")
    records.add_delegation(DELEGATION, 10)
    with pytest.raises(RecordsFullError):
        records.add_delegation(other, 101)
    records.add_delegation(other, 101 + module.DELEGATION_SECONDS)
    assert [one.block for one in records.delegations("del_1", "y")] == ["b2"]
