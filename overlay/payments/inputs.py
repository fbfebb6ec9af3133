"""The inputs of a payment: whether what they spend exists, is unspent, and may be spent by them."""

from __future__ import annotations

from collections.abc import Sequence

from indexer.admission.refusal import NotAdmittedError
from indexer.admission.scripts import check_scripts
from parsers.bitcoin.beef import UnprovenInput
from parsers.bitcoin.script import is_p2pkh
from parsers.bitcoin.sighash import SharedHashes, p2pkh_error
from parsers.bitcoin.tx import TxOutput
from parsers.claims.amount_due import PaymentRefusedError
from parsers.claims.payment import Payment


def check_inputs(payment: Payment, spent: Sequence[TxOutput | None]) -> None:
    """Check the inputs of a payment against the outputs that they spend, in their order; None for one that does not
    exist or is spent. Raises PaymentRefusedError: `input-spent`, `values`, `script-failed`, and `script-not-checkable`
    for a script other than P2PKH that nothing here can check."""
    tx = payment.tx
    unproven = []
    for vin, (tx_input, output) in enumerate(zip(tx.inputs, spent, strict=True)):
        if output is None:
            detail = f"input {vin} spends {tx_input.prevout}, which does not exist or is spent"
            raise PaymentRefusedError("PaymentInvalid", "input-spent", detail)
        unproven.append(UnprovenInput(tx, vin, output))
    fee = sum(one.spent.satoshis for one in unproven) - sum(output.satoshis for output in tx.outputs)
    if fee < 0:
        detail = f"the outputs hold {-fee:,} satoshis more than the inputs"
        raise PaymentRefusedError("PaymentInvalid", "values", detail)
    try:
        if payment.chain.coin == "bsv":
            check_scripts(unproven)
        else:
            _check_p2pkh(unproven, forkid=payment.chain.coin == "bch")
    except NotAdmittedError as error:
        raise PaymentRefusedError("PaymentInvalid", error.code, str(error)) from None


def _check_p2pkh(inputs: Sequence[UnprovenInput], *, forkid: bool) -> None:
    """On chains whose other scripts nothing here runs; inputs are of one transaction. Raises NotAdmittedError."""
    shared = SharedHashes(inputs[0].tx) if inputs else None
    for tx, vin, spent in inputs:
        if not is_p2pkh(spent.script):
            detail = f"input {vin} spends a script other than P2PKH, which cannot be checked here"
            raise NotAdmittedError("script-not-checkable", detail)
        error = p2pkh_error(tx, vin, spent, forkid=forkid, shared=shared)
        if error is not None:
            raise NotAdmittedError("script-failed", error)
