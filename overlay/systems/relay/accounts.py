"""Accounts of agents: their balance, deposits, and withdrawals that wait for the operator's signature."""

from __future__ import annotations

from asyncio import to_thread
from dataclasses import replace
from typing import Any
from uuid import uuid4

from overlay.systems.relay.bank import DEPTH, Bank
from overlay.systems.relay.store_coins import CashRefusedError, Deposit, Withdrawal, WithdrawalState
from overlay.systems.relay.store_ledger import InsufficientFundsError, agent_account
from overlay.systems.relay.task_relay import Relay, RelayRefusedError, insufficient_funds, key_conflict, request_key
from parsers.claims.motebit.bearer_token import SignedRequest
from parsers.claims.motebit.settlement import MAX_PRICE, UNIT

BALANCE_AUDIENCES = ("account:balance",)
DEPOSIT_AUDIENCES = ("account:deposit",)
WITHDRAW_AUDIENCES = ("account:withdraw",)
_STATUS = {WithdrawalState.FINAL: "completed", WithdrawalState.CANCELLED: "failed"}
"""States that Motebit's AccountWithdrawalRecord does not have."""

MAX_SHOWN = 50
"""The newest movements that a balance comes with."""


def balance(relay: Relay, request: SignedRequest, motebit_id: str) -> dict[str, Any]:
    """The balance of an agent, for the agent itself. Raises RelayRefusedError."""
    motebit_id = _account_id(relay, relay.caller(request, BALANCE_AUDIENCES, once=False), motebit_id)
    account = agent_account(motebit_id)
    amount = relay.ledger.balance(account)
    withdrawals = relay.cash.open_withdrawals(motebit_id)
    return {
        "motebit_id": motebit_id,
        "balance": amount,
        "currency": UNIT,
        "frozen": amount < 0,
        "pending_allocations": relay.tasks.locked_by(motebit_id),
        "pending_withdrawals": sum(withdrawal.amount for withdrawal in withdrawals),
        "dispute_window_hold": 0,
        "available_for_withdrawal": max(0, amount),
        "deposit_address": relay.bank.pay_to if relay.bank else None,
        "withdrawals": [withdrawal_json(relay, withdrawal) for withdrawal in withdrawals],
        "transactions": [
            {
                "transaction_id": f"{row['kind']}:{row['ref']}",
                "type": row["kind"],
                "amount": row["amount"],
                "created_at": row["at"] * 1_000,
            }
            for row in relay.ledger.entries_of(account, MAX_SHOWN)
        ],
    }


async def deposit(relay: Relay, request: SignedRequest, motebit_id: str, raw: bytes) -> dict[str, Any]:
    """Watch a transaction that pays the operator for an agent's account. Raises RelayRefusedError, SourceError."""
    bank = _bank(relay)
    mid = await to_thread(relay.caller, request, DEPOSIT_AUDIENCES, once=True)
    _account_id(relay, mid, motebit_id)
    try:
        announced = await bank.deposit_of(raw)
        if relay.identity(announced.motebit_id) != mid:
            raise ValueError(f"it names the account {announced.motebit_id[:200]!a}")
        stored = await to_thread(relay.cash.announce, replace(announced, motebit_id=mid))
    except ValueError as error:
        raise RelayRefusedError(422, "not-a-deposit", str(error)) from None
    except CashRefusedError as error:
        raise RelayRefusedError(429, "too-many", str(error)) from None
    return _deposit_json(stored)


async def withdraw(
    relay: Relay, request: SignedRequest, motebit_id: str, amount: int, destination: str, idempotency_key: str | None
) -> dict[str, Any]:
    """Lock an amount, and make the unsigned transaction that pays it out. Raises RelayRefusedError, SourceError."""
    bank = _bank(relay)
    payload = await to_thread(relay.payload, request, WITHDRAW_AUDIENCES, None, once=True)
    motebit_id = _account_id(relay, payload["mid"], motebit_id)
    if not 0 < amount <= MAX_PRICE:
        raise RelayRefusedError(400, "bad-request", f"amount is not an integer from 1 to {MAX_PRICE:,}")
    withdrawal = Withdrawal(
        id=str(uuid4()), motebit_id=motebit_id, idempotency_key=request_key(idempotency_key, payload),
        destination=destination, amount=amount, requested_at=relay.now(),
    )  # fmt: skip
    try:
        build = await bank.unsigned(amount, destination)
        stored = await to_thread(relay.cash.withdraw, withdrawal, build)
    except ValueError as error:
        raise RelayRefusedError(422, "bad-destination", str(error)) from None
    except InsufficientFundsError as error:
        raise insufficient_funds(error, "to be withdrawn") from None
    except CashRefusedError as error:
        raise RelayRefusedError(503, "no-coins", str(error)) from None
    if (stored.amount, stored.destination) != (amount, destination):
        raise key_conflict("a withdrawal of another amount or to another address")
    answer = {"motebit_id": motebit_id, "withdrawal": withdrawal_json(relay, stored)}
    return answer | ({"idempotent": True} if stored.id != withdrawal.id else {})


def cancel(relay: Relay, request: SignedRequest, motebit_id: str, id_: str) -> dict[str, Any]:
    """Give the amount of an unsigned withdrawal back; a repeated request gives the same answer. Raises
    RelayRefusedError."""
    motebit_id = _account_id(relay, relay.caller(request, WITHDRAW_AUDIENCES, once=True), motebit_id)
    stored = relay.cash.withdrawal(id_)
    if stored is None or stored.motebit_id != motebit_id:
        raise RelayRefusedError(404, "unknown-withdrawal", f"the account has no withdrawal {id_[:100]!a}")
    relay.cash.cancel(stored, relay.now())
    now_stored = relay.cash.withdrawal(id_) or stored
    if now_stored.state is not WithdrawalState.CANCELLED:
        raise RelayRefusedError(409, "signed", f"the withdrawal {id_} is signed: it may be mined at any time")
    return {"motebit_id": motebit_id, "withdrawal": withdrawal_json(relay, now_stored)}


def withdrawal_json(relay: Relay, withdrawal: Withdrawal) -> dict[str, Any]:
    """A withdrawal as AccountWithdrawalRecord, with its unsigned transaction."""
    return {
        "withdrawal_id": withdrawal.id,
        "motebit_id": withdrawal.motebit_id,
        "amount": withdrawal.amount,
        "currency": UNIT,
        "destination": withdrawal.destination,
        "status": _STATUS.get(withdrawal.state, withdrawal.state.value),
        "payout_reference": None,
        "requested_at": withdrawal.requested_at * 1_000,
        "completed_at": None if withdrawal.completed_at is None else withdrawal.completed_at * 1_000,
        "failure_reason": "cancelled" if withdrawal.state is WithdrawalState.CANCELLED else None,
        "relay_id": relay.id,
        "relay_signature": None,
        "relay_public_key": None,
        "unsigned_tx": withdrawal.unsigned.hex(),
    }


def _deposit_json(stored: Deposit) -> dict[str, Any]:
    return {
        "motebit_id": stored.motebit_id,
        "txid": stored.txid[::-1].hex(),
        "amount": stored.amount,
        "currency": UNIT,
        "status": stored.state.value,
        "confirmations_needed": DEPTH,
    }


def _bank(relay: Relay) -> Bank:
    if relay.bank is None:
        raise RelayRefusedError(404, "no-deposits", "this relay takes no deposits: its operator has set no address")
    return relay.bank


def _account_id(relay: Relay, mid: str, motebit_id: str) -> str:
    """The identity of a token that matches the account in the route. Raises RelayRefusedError."""
    if mid != relay.identity(motebit_id):
        raise RelayRefusedError(403, "forbidden", f"the account is not that of the token's agent, {mid[:200]!a}")
    return mid
