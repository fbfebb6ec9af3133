"""Money in and out: deposits count once the chain has them deep enough, and go back where a reorganisation takes them;
a withdrawal is a transaction that the operator signs, and that is sent, booked once it is mined, and watched as deeply.

The node needs an index of all transactions (`txindex`): without it a spent deposit looks like one that never was.
"""

from __future__ import annotations

import logging
from asyncio import to_thread
from collections.abc import Callable, Sequence

from indexer.chains.node.payment_node import Broadcaster
from indexer.errors import RefusedTransactionError, SourceError
from overlay.api.shared_services import Reservations
from overlay.publish.relay_policy import OUTPUT, RELAYED, REST, SIGNED_INPUT
from overlay.systems.relay.store_cash import RelayCash
from overlay.systems.relay.store_coins import (
    Deposit,
    DepositState,
    OperatorCoin,
    Withdrawal,
    WithdrawalState,
    transaction_of,
)
from parsers.bitcoin import address
from parsers.bitcoin.script import OP_RETURN, is_unspendable, ops, p2pkh
from parsers.bitcoin.tx import Transaction, TxInput, TxOutput, read_exactly, serialise
from parsers.claims.payment import UtxoChain, has_segwit
from parsers.errors import ParseError

log = logging.getLogger(__name__)

DEPTH = 6
"""Blocks that have a deposit or withdrawal before it counts."""

FINAL_DEPTH = 100
"""Blocks from which on a deposit or withdrawal is no longer watched."""

WORTH = 4
"""How many times its own fee a deposited coin is worth at least."""

LAPSE_SECONDS = 14 * 86_400
MAX_RAW = 100_000
MAX_OUTPUT = 10**15
"""Satoshis of an output that is a deposit: all of a transaction add up to less than an integer of the database."""

_SEQUENCE = 0xFFFFFFFF


class Bank:
    """The operator's address on the chain of a node. `clock` gives seconds since 1970; `reservations` keeps a deposit
    from paying for something else."""

    def __init__(
        self, cash: RelayCash, node: Broadcaster, pay_to: str, clock: Callable[[], float],
        reservations: Reservations | None = None,
    ) -> None:  # fmt: skip
        self.cash, self.pay_to, self._node, self._clock = cash, pay_to, node, clock
        self._reservations = reservations

    def now(self) -> int:
        """Seconds since 1970."""
        return int(self._clock())

    async def deposit_of(self, raw: bytes) -> Deposit:
        """The deposit that a raw transaction is, sent to the node where the node does not have it yet: a transaction
        that no node takes is not watched. Raises ValueError naming its fault, SourceError."""
        chain = await self._node.chain()
        if len(raw) > MAX_RAW:
            raise ValueError(f"the transaction has more than {MAX_RAW:,} bytes")
        try:
            tx = read_exactly(raw, segwit=has_segwit(chain))
        except ParseError as error:
            raise ValueError(f"the bytes are not a transaction: {error}") from None
        amounts = [coin.amount for coin in self._coins(tx, chain)]
        if not all(0 <= satoshis <= MAX_OUTPUT for satoshis in amounts):
            raise ValueError(f"an output has less than 0 or more than {MAX_OUTPUT:,} satoshis")
        amount = sum(amounts)
        name = named_account(tx)
        if name is None:
            raise ValueError("the first OP_RETURN output does not push the motebit_id first")
        fee_rate, dust = RELAYED[chain.coin]
        least = max(dust, WORTH * SIGNED_INPUT * fee_rate)
        if amount < least:
            raise ValueError(f"it pays {amount:,} satoshis to {self.pay_to}, and at least {least:,} count")
        if self._reservations is not None and not await to_thread(self._reservations.hold, chain.name, tx):
            raise ValueError("the transaction, or an output that it spends, has paid for something else here")
        if await self._node.confirmations(tx) is None:
            try:
                await self._node.send(raw)
            except RefusedTransactionError as error:
                await self._release(chain, tx)
                raise ValueError(str(error)) from None
        now = self.now()
        return Deposit(txid=tx.txid, motebit_id=name, amount=amount, raw=raw, created_at=now, seen_at=now)

    async def output_to(self, destination: str) -> bytes:
        """The script of a P2PKH address of the chain. Raises ValueError, SourceError."""
        chain = await self._node.chain()
        digest = address.p2pkh_hash(destination, address.PREFIXES[chain.coin][chain.network])
        if digest is None:
            raise ValueError(f"{destination[:100]!a} is not a P2PKH address of {chain.coin} {chain.network}")
        return p2pkh(digest)

    async def unsigned(self, amount: int, destination: str) -> Callable[[Sequence[OperatorCoin]], bytes | None]:
        """The builder of a transaction from coins that pays an amount, less the fee, to an address; it returns None
        where the coins do not suffice. Raises ValueError, SourceError."""
        script, change_script = await self.output_to(destination), await self.output_to(self.pay_to)
        if script == change_script:
            raise ValueError("the destination is the operator's own address")
        fee_rate, dust = RELAYED[(await self._node.chain()).coin]

        def build(coins: Sequence[OperatorCoin]) -> bytes | None:
            change = sum(coin.amount for coin in coins) - amount
            size = REST + OUTPUT + SIGNED_INPUT * len(coins) + (OUTPUT if change else 0)
            paid = amount - fee_rate * size
            if change < 0 or 0 < change < dust or paid < dust:
                return None
            outputs = (TxOutput(paid, script), *((TxOutput(change, change_script),) if change else ()))
            return serialise(tuple(TxInput(coin.outpoint, b"", _SEQUENCE) for coin in coins), outputs)

        return build

    async def watch(self) -> None:
        """Look at deposits and signed withdrawals: credit, reverse, send and book them. Raises SourceError, after all
        withdrawals were looked at."""
        chain, error = await self._node.chain(), None
        for withdrawal in await to_thread(self.cash.watched_withdrawals):
            try:
                await self._look_at_withdrawal(withdrawal)
            except SourceError as unanswered:
                error = unanswered
        for deposit in await to_thread(self.cash.watched):
            tx = read_exactly(deposit.raw, segwit=has_segwit(chain))
            try:
                depth = await self._node.confirmations(tx)
            except SourceError:
                # the next look begins with others: one that the node cannot answer for must not hold them up
                await to_thread(self.cash.note, deposit, deposit.state, self.now())
                raise
            await self._look(deposit, tx, depth, chain)
        if error is not None:
            raise error

    async def _look_at_withdrawal(self, withdrawal: Withdrawal) -> None:
        raw, now = withdrawal.signed or b"", self.now()
        tx = transaction_of(raw)
        depth = await self._node.confirmations(tx)
        is_completed, blocks = withdrawal.state is WithdrawalState.COMPLETED, depth or 0
        if is_completed and not blocks:
            if await to_thread(self.cash.reopen, withdrawal, now):
                log.warning("the withdrawal %s is in no block any more: %d satoshis", withdrawal.id, withdrawal.amount)
        elif not is_completed and blocks >= DEPTH:
            if await to_thread(self.cash.complete, withdrawal, change_of(tx), now):
                log.info("the withdrawal %s is mined: %d satoshis", withdrawal.id, withdrawal.amount)
        elif blocks >= FINAL_DEPTH:
            await to_thread(self.cash.finish, withdrawal)
        if depth is not None:
            return
        try:
            await self._node.send(raw)
        except RefusedTransactionError as error:
            if await to_thread(self.cash.drop_change, tx.txid, now):
                log.warning("the node refuses the transaction of the withdrawal %s: %s", withdrawal.id, error)

    async def _look(self, deposit: Deposit, tx: Transaction, depth: int | None, chain: UtxoChain) -> None:
        now, blocks = self.now(), depth or 0
        if deposit.state is DepositState.CREDITED and not blocks:
            if await to_thread(self.cash.reverse, deposit, now):
                log.warning("the deposit %s is in no block any more: %d satoshis", tx.hex_id, deposit.amount)
        elif deposit.state is DepositState.WAITING and blocks >= DEPTH:
            if await to_thread(self.cash.credit, deposit, self._coins(tx, chain), now):
                log.info("the deposit %s is credited: %d satoshis", tx.hex_id, deposit.amount)
        elif deposit.state is DepositState.CREDITED and blocks >= FINAL_DEPTH:
            await to_thread(self.cash.note, deposit, DepositState.FINAL, now)
        elif deposit.state is DepositState.WAITING and not blocks and deposit.created_at < now - LAPSE_SECONDS:
            await to_thread(self.cash.note, deposit, DepositState.LAPSED, now)
            await self._release(chain, tx)
        else:
            await to_thread(self.cash.note, deposit, deposit.state, now)

    async def _release(self, chain: UtxoChain, tx: Transaction) -> None:
        if self._reservations is not None:
            await to_thread(self._reservations.release, chain.name, tx.txid)

    def _coins(self, tx: Transaction, chain: UtxoChain) -> list[OperatorCoin]:
        """The outputs of a transaction that pay the operator."""
        prefixes = address.PREFIXES[chain.coin][chain.network]
        digest = address.p2pkh_hash(self.pay_to, prefixes)
        script = None if digest is None else p2pkh(digest)
        return [
            OperatorCoin(tx.outpoint(vout), output.satoshis)
            for vout, output in enumerate(tx.outputs)
            if output.script == script
        ]


def named_account(tx: Transaction) -> str | None:
    """The account that a deposit names: the first push, as UTF-8, of the first data output."""
    script = next((output.script for output in tx.outputs if is_unspendable(output.script)), b"")
    is_after = False
    for op in ops(script):
        if is_after:
            try:
                return op.data.decode() if op.data else None
            except UnicodeDecodeError:
                return None
        is_after = op.opcode == OP_RETURN
    return None


def change_of(tx: Transaction) -> list[OperatorCoin]:
    """The change of a withdrawal's transaction: all outputs but the first."""
    return [OperatorCoin(tx.outpoint(vout), output.satoshis) for vout, output in enumerate(tx.outputs)][1:]


def is_signed_form(withdrawal: Withdrawal, tx: Transaction) -> bool:
    """Whether a transaction spends and pays the same as the unsigned one of a withdrawal, and has signatures."""
    unsigned = read_exactly(withdrawal.unsigned)
    same_inputs = [tx_input.prevout for tx_input in unsigned.inputs] == [tx_input.prevout for tx_input in tx.inputs]
    return same_inputs and unsigned.outputs == tx.outputs and all(tx_input.script for tx_input in tx.inputs)
