"""Claims that race for one coin, each through connections of its own as another process has: one of them gets it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from overlay.systems.payments.store import PaymentStore
from overlay.systems.payments.store_records import (
    DuplicatePaymentError,
    PaidTask,
    PaymentState,
    StoredPayment,
    TaskState,
    TaskStateError,
)
from parsers.bitcoin.tx import Outpoint

RACERS = 6
COIN = Outpoint(b"c" * 32, 0)


def entry(number: int, *, txid: bytes, stage: str = "full", task: str = "") -> tuple[StoredPayment, PaidTask]:
    id_ = task or f"task-{number}"
    payment = StoredPayment(
        chain="bsv:regtest", txid=txid, task=id_, config="p", stage=stage, needed=5, paid=5, raw=b"raw",
        created_at=1, updated_at=1,
    )  # fmt: skip
    return payment, PaidTask(id=id_, state=TaskState.RUNNING, config="p", updated_at=1, deadline=9)


def race(url: str, entries: list[tuple[StoredPayment, PaidTask]], spends: list[Outpoint]) -> list[bool]:
    """Whether each of these payments was reserved, all tried at once."""
    barrier = Barrier(len(entries))

    def reserve(number: int) -> bool:
        payment_store = PaymentStore.open(url)
        try:
            barrier.wait()
            payment_store.reserve(entries[number][0], [spends[number]], entries[number][1])
        except (DuplicatePaymentError, TaskStateError):
            return False
        else:
            return True
        finally:
            payment_store.close()

    with ThreadPoolExecutor(len(entries)) as threads:
        return list(threads.map(reserve, range(len(entries))))


def test_one_of_many_gets_a_transaction(database_url: str) -> None:
    entries = [entry(number, txid=b"t" * 32) for number in range(RACERS)]
    assert sum(race(database_url, entries, [COIN] * RACERS)) == 1


def test_one_of_many_transactions_gets_a_coin(database_url: str) -> None:
    entries = [entry(number, txid=bytes([number]) * 32) for number in range(RACERS)]
    assert sum(race(database_url, entries, [COIN] * RACERS)) == 1


def test_one_of_many_payments_gets_a_task(database_url: str) -> None:
    entries = [entry(number, txid=bytes([number]) * 32, task="the-task") for number in range(RACERS)]
    coins = [Outpoint(bytes([number]) * 32, 1) for number in range(RACERS)]
    assert sum(race(database_url, entries, coins)) == 1


def test_one_of_many_processes_takes_up_a_payment(database_url: str) -> None:
    payment_store = PaymentStore.open(database_url)
    payment, task = entry(0, txid=b"t" * 32)
    payment_store.reserve(payment, [COIN], task)
    barrier = Barrier(RACERS)

    def take_up(_: int) -> bool:
        barrier.wait()
        return payment_store.move(payment, PaymentState.SENDING, 100)

    try:
        with ThreadPoolExecutor(RACERS) as threads:
            assert sum(threads.map(take_up, range(RACERS))) == 1
    finally:
        payment_store.close()
