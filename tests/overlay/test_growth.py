"""Reads of systems do not grow with rows of other subjects: beside twice as many, a method takes less than a step of
SQLite more for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, Table, insert

from indexer.store import connect
from indexer.store.database import writing
from indexer.store.queries import row_of
from overlay.systems.rating.store import ReceiptQueries, ratings
from overlay.systems.relay.store_cash import RelayCash
from overlay.systems.relay.store_coins import (
    Deposit,
    OperatorCoin,
    Withdrawal,
    WithdrawalState,
    relay_coins,
    relay_deposits,
    relay_withdrawals,
)
from overlay.systems.relay.store_tasks import RelayTasks, SubmittedTask, relay_tasks
from overlay.systems.webhooks.store import StoredWebhook, StoredWebhooks, subscriptions
from parsers.bitcoin.tx import Outpoint
from parsers.claims.motebit.settlement import RelayTask, RelayTaskState
from tests import steps
from tests.facts import name

FEW, MANY = 200, 400
NOW = 1_000


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    yield engine
    engine.dispose()


def check_growth(engine: Engine, table: Table, row: Callable[[int], dict[str, Any]], act: Callable[[], object]) -> None:
    """A method takes hardly longer beside many rows of a table than beside few."""

    def fill(some: range) -> None:
        with writing(engine) as connection:
            connection.execute(insert(table), list(map(row, some)))

    steps.check_growth(engine, fill, act, FEW)


def test_the_first_due_deliveries_are_read_without_the_others(engine: Engine) -> None:
    webhooks = StoredWebhooks(engine)

    def webhook(number: int) -> dict[str, Any]:
        usual = {"client": "c", "url": "https://a.example/", "search": "q=a", "base": "", "secret_sha256": b""}
        return row_of(StoredWebhook(id=f"{number}", **usual, created_at=1, next_at=number))

    check_growth(engine, subscriptions, webhook, lambda: list(islice(webhooks.due(NOW), 32)))


@pytest.mark.parametrize(("submitter", "state"), [("alice", RelayTaskState.SETTLED), ("carol", RelayTaskState.PENDING)])
def test_a_task_is_stored_without_reading_ended_ones_and_those_of_others(
    engine: Engine, submitter: str, state: RelayTaskState
) -> None:
    tasks, numbers = RelayTasks(engine), count()

    def task(number: object, submitter: str = "alice", state: RelayTaskState = RelayTaskState.PENDING) -> SubmittedTask:
        task = RelayTask(f"{number}", submitter, "bob", 0, 0, state)
        return SubmittedTask(task=task, idempotency_key=f"{number}", created_at=1, expires_at=2)

    def other(number: int) -> dict[str, Any]:
        row = row_of(task(number, submitter, state))
        return row | row.pop("task")._asdict()

    check_growth(engine, relay_tasks, other, lambda: tasks.submit(task(f"new {next(numbers)}")))
    check_growth(engine, relay_tasks, lambda number: other(number + MANY), lambda: tasks.locked_by("alice"))


def deposit_of(agent: str) -> Deposit:
    return Deposit(txid=name(agent), motebit_id=agent, amount=100, raw=b"", created_at=1, seen_at=1)


def test_a_deposit_is_stored_without_reading_those_of_others(engine: Engine) -> None:
    cash, numbers = RelayCash(engine), count()
    check_growth(
        engine, relay_deposits, lambda number: row_of(deposit_of(f"{number}")),
        lambda: cash.announce(deposit_of(f"new {next(numbers)}")),
    )  # fmt: skip


def test_a_withdrawal_is_made_without_reading_earlier_ones_and_the_coins_that_these_spent(engine: Engine) -> None:
    cash, numbers = RelayCash(engine), count()
    cash.announce(deposit_of("alice"))
    cash.credit(deposit_of("alice"), [OperatorCoin(Outpoint(name("coin"), 0), 100)], NOW)

    def withdrawal(key: object, state: WithdrawalState = WithdrawalState.PENDING) -> Withdrawal:
        return Withdrawal(
            id=f"{key}", motebit_id="alice", idempotency_key=f"{key}", destination="", amount=60, state=state,
            requested_at=1,
        )  # fmt: skip

    def withdraw() -> None:
        assert cash.cancel(cash.withdraw(withdrawal(f"new {next(numbers)}"), lambda _: b"unsigned"), NOW)

    check_growth(engine, relay_withdrawals, lambda number: row_of(withdrawal(number, WithdrawalState.FINAL)), withdraw)
    check_growth(
        engine, relay_coins,
        lambda number: {"txid": name(f"{number}"), "vout": 0, "amount": 1, "withdrawal": f"{number}"}, withdraw,
    )  # fmt: skip


@pytest.mark.parametrize("score", [500, None])
def test_listings_to_rate_are_read_without_those_that_are_rated(engine: Engine, score: int | None) -> None:
    receipts = ReceiptQueries(engine)

    def rated(number: int) -> dict[str, Any]:
        names = ("submitted", "rated", "completed", "customers")
        numbers = dict.fromkeys(names, 1) | dict.fromkeys(("rung", "failed", "paid_tasks", "complaints", "disputed"), 0)
        return {"listing": f"{number}", "score": score, "as_of": NOW if score else 1, **numbers}

    check_growth(engine, ratings, rated, lambda: receipts.due(NOW, 100))
