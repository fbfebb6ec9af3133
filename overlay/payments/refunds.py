"""Refunds of deposits: an unsigned transaction for the operator's wallet, as no key is ever on the server (A2B §8)."""

from __future__ import annotations

from parsers.bitcoin import address
from parsers.bitcoin.script import p2pkh
from parsers.bitcoin.tx import Transaction, TxInput, TxOutput, serialise
from parsers.claims.payment import UtxoChain

FEE_RATE = 1
"""Satoshis per byte of a refund."""

DUST = 546
"""Satoshis that a refund pays at least: less is not relayed on every chain."""

_SIGNED_INPUT, _REST = 149, 44
_SEQUENCE = 0xFFFFFFFF


def refund(tx: Transaction, pay_to: str, refund_address: str, chain: UtxoChain) -> bytes | None:
    """An unsigned transaction that spends what `tx` pays to `pay_to` and pays it, less the fee, to a P2PKH address of
    the same chain. None without such an address, or where too little would be left."""
    prefixes = address.PREFIXES[chain.coin][chain.network]
    digest = address.p2pkh_hash(refund_address, prefixes)
    if digest is None:
        return None
    deposits = [
        (tx.outpoint(vout), output.satoshis)
        for vout, output in enumerate(tx.outputs)
        if address.address(output.script, prefixes) == pay_to
    ]
    amount = sum(satoshis for _, satoshis in deposits) - FEE_RATE * (_REST + _SIGNED_INPUT * len(deposits))
    if amount < DUST:
        return None
    inputs = tuple(TxInput(outpoint, b"", _SEQUENCE) for outpoint, _ in deposits)
    return serialise(inputs, (TxOutput(amount, p2pkh(digest)),))
