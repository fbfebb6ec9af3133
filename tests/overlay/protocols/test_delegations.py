"""Spent units, revocations and delegations in every database: races and restarts keep them right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest
from sqlalchemy import Engine

from indexer.store import unchecked
from overlay.systems.delegateos import store as module
from overlay.systems.delegateos.store import (
    BlockBudget,
    DelegationLedger,
    LedgerFullError,
    NonceUse,
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


Open = Callable[[], DelegationLedger]


@pytest.fixture
def opened(database_url: str) -> Iterator[Open]:
    """Opens the ledger as another process has it."""
    engines: list[Engine] = []

    def another() -> DelegationLedger:
        engines.append(unchecked(database_url))
        return DelegationLedger(engines[-1])

    yield another
    for engine in engines:
        engine.dispose()


def raced(opened: Open, work: Callable[[DelegationLedger], None]) -> int:
    """How many of many calls, made at once by several processes, are not refused."""
    barrier = Barrier(RACERS)

    def run(_: int) -> int:
        ledger, done = opened(), 0
        barrier.wait()
        for _ in range(ROUNDS):
            try:
                work(ledger)
                done += 1
            except (SpentBudgetError, UsedNonceError):
                continue
        return done

    with ThreadPoolExecutor(RACERS) as threads:
        return sum(threads.map(run, range(RACERS)))


def test_a_race_spends_no_unit_more_than_there_are(opened: Open) -> None:
    opened()
    budgets = [BlockBudget("root", 1_000, 100), BlockBudget("leaf", 7, 100)]
    assert raced(opened, lambda ledger: ledger.charge(budgets, None, 10)) == 7
    assert (opened().spent("root"), opened().spent("leaf")) == (7, 7)


def test_siblings_share_the_units_of_their_parent(opened: Open) -> None:
    ledger, parent = opened(), BlockBudget("parent", 3, 100)
    for name in ("a", "b", "a"):
        ledger.charge([parent, BlockBudget(name, 2, 100)], None, 10)
    with pytest.raises(SpentBudgetError) as raised:
        ledger.charge([parent, BlockBudget("c", 2, 100)], None, 10)
    assert raised.value.budget == parent
    assert ledger.spent("c") == 0


def test_a_nonce_is_used_once_and_only_with_a_unit(opened: Open) -> None:
    ledger, nonce = opened(), NonceUse("dct:x", "n1", 100)
    with pytest.raises(SpentBudgetError):
        ledger.charge([BlockBudget("empty", 0, 100)], nonce, 10)
    assert raced(opened, lambda one: one.charge([BlockBudget("root", 1_000, 100)], nonce, 10)) == 1
    assert ledger.spent("root") == 1


def test_units_of_expired_blocks_are_deleted(opened: Open) -> None:
    ledger = opened()
    ledger.charge([BlockBudget("old", 5, 20), BlockBudget("longer", 5, 20)], None, 10)
    ledger.charge([BlockBudget("longer", 5, 90)], None, 15)
    ledger.charge([BlockBudget("new", 5, 90)], None, 21)
    assert [ledger.spent(name) for name in ("old", "longer", "new")] == [0, 2, 1]


def test_revocations_stay_and_are_read_by_block_and_signer(opened: Open) -> None:
    token = narrowed(issued())
    entries = [revocation(AGENT, token, 1), revocation(STRANGER, token, 1), revocation(HELPER, token, 1, "chain")]
    ledger = opened()
    for entry in (*entries, entries[0]):
        ledger.revoke(entry, is_proven=False)
    again = opened()
    assert [entry for _, entry in again.revocations(0, 10)] == entries
    assert [entry for _, entry in again.revocations(1, 1)] == entries[1:2]
    id_ = entries[0]["revocationId"]
    assert again.revocations_of([id_, "other"], [entries[0]["revokedBy"]]) == entries[:1]
    assert again.revocations_of(["other"], [entries[0]["revokedBy"]]) == []


def test_strangers_cannot_fill_the_room_of_the_proven(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STRANGERS", 2)
    ledger, tokens = opened(), [issued(delegationId=f"del_{number}") for number in range(4)]
    for token in tokens[:2]:
        ledger.revoke(revocation(STRANGER, token), is_proven=False)
    with pytest.raises(LedgerFullError, match="send the token"):
        ledger.revoke(revocation(STRANGER, tokens[2]), is_proven=False)
    ledger.revoke(revocation(AGENT, tokens[2]), is_proven=True)
    ledger.revoke(revocation(STRANGER, tokens[0]), is_proven=True)
    ledger.revoke(revocation(STRANGER, tokens[3]), is_proven=False)
    assert len(ledger.revocations(0, 10)) == 4


def test_nobody_can_fill_the_room_of_trusted_issuers(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PROVEN", 1)
    ledger, tokens = opened(), [issued(delegationId=f"del_{number}") for number in range(2)]
    ledger.revoke(revocation(AGENT, tokens[0]), is_proven=True)
    with pytest.raises(LedgerFullError, match="1 revocations are stored"):
        ledger.revoke(revocation(AGENT, tokens[1]), is_proven=True)
    ledger.revoke(revocation(ISSUER, tokens[1]), is_proven=True, is_trusted=True)
    assert len(ledger.revocations(0, 10)) == 2


def test_a_delegation_ends_once(opened: Open) -> None:
    ledger = opened()
    ledger.add_delegation(DELEGATION, 10)
    ledger.add_delegation(replace(DELEGATION, contract="changed"), 10)
    assert ledger.delegations("del_1", "y") == [DELEGATION]
    assert ledger.delegations("del_1", "x") == []
    assert ledger.finish("b1", "completed", "{}")
    assert not ledger.finish("b1", "failed", "")
    assert opened().delegations("del_1", "y") == [replace(DELEGATION, status="completed", attestation="{}")]


def test_delegations_are_bounded_and_expire(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DELEGATIONS", 1)
    ledger, other = opened(), replace(DELEGATION, block="b2")
    ledger.add_delegation(DELEGATION, 10)
    with pytest.raises(LedgerFullError):
        ledger.add_delegation(other, 101)
    ledger.add_delegation(other, 101 + module.DELEGATION_SECONDS)
    assert [one.block for one in ledger.delegations("del_1", "y")] == ["b2"]
