"""Refunds of deposits: an unsigned transaction for the operator's wallet, as no key is ever on the server (A2B §8)."""

from __future__ import annotations

from collections.abc import Sequence

from overlay.publish.coins import Coin
from overlay.publish.relay_policy import OUTPUT, RELAYED, REST, SIGNED_INPUT
from overlay.publish.transactions import Draft
from overlay.systems.payments.store_records import PaidTask, StoredPayment
from parsers.bitcoin import address
from parsers.bitcoin.script import p2pkh
from parsers.bitcoin.tx import Transaction, TxInput, TxOutput, read_exactly, serialise
from parsers.claims.payment import UtxoChain, has_segwit

_SEQUENCE = 0xFFFFFFFF


def refund(tx: Transaction, pay_to: str, refund_address: str, chain: UtxoChain) -> bytes | None:
    """An unsigned transaction that spends what `tx` pays to `pay_to` and pays it, less the fee, to a P2PKH address of
    the same chain. None without a P2PKH address, or where too little would remain."""
    prefixes = address.PREFIXES[chain.coin][chain.network]
    payee, payer = (address.p2pkh_hash(text.strip(), prefixes) for text in (pay_to, refund_address))
    if payee is None or payer is None:
        return None
    deposits = [
        (tx.outpoint(vout), output.satoshis) for vout, output in enumerate(tx.outputs) if output.script == p2pkh(payee)
    ]
    fee_rate, dust = RELAYED[chain.coin]
    amount = sum(satoshis for _, satoshis in deposits) - fee_rate * (REST + OUTPUT + SIGNED_INPUT * len(deposits))
    if amount < dust:
        return None
    inputs = tuple(TxInput(outpoint, b"", _SEQUENCE) for outpoint, _ in deposits)
    return serialise(inputs, (TxOutput(amount, p2pkh(payer)),))


def chain_of(payment: StoredPayment) -> UtxoChain:
    """The chain of a payment."""
    coin, _, network = payment.chain.partition(":")
    return UtxoChain(coin, network)


def transaction_of(payment: StoredPayment) -> Transaction:
    """The transaction of a payment."""
    return read_exactly(payment.raw, segwit=has_segwit(chain_of(payment)))


def refund_due(task: PaidTask, paid: Sequence[StoredPayment]) -> tuple[str, Draft]:
    """The chain of the refund of a task, like `bsv:mainnet`, and its transaction with the outputs that it spends.
    `paid` are the payments of the task. Raises ValueError when none of these is refunded."""
    tx = read_exactly(task.refund or b"")
    payment = next((received for received in paid if received.txid == tx.inputs[0].prevout.txid), None)
    if payment is None:
        raise ValueError(f"the refund of the task {task.id} does not spend its payments")
    outputs = transaction_of(payment).outputs
    spent = [(tx_input.prevout, outputs[tx_input.prevout.vout]) for tx_input in tx.inputs]
    return payment.chain, Draft.of(tx, [Coin(outpoint, output.satoshis, output.script) for outpoint, output in spent])
