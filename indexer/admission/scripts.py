"""Whether the inputs of a transaction that is in no block may spend what they spend: P2PKH, also beside an inscription,
by our own digest and signature check; other scripts by the interpreter of bitcoinX where it is installed."""

from __future__ import annotations

from collections.abc import Iterable

from indexer.admission.refusal import NotAdmittedError
from parsers.bitcoin.beef import UnprovenInput
from parsers.bitcoin.script import executed, is_p2pkh
from parsers.bitcoin.sighash import p2pkh_error
from parsers.bitcoin.tx import serialise

MAX_SCRIPT_BYTES, MAX_NUMBER_BYTES, MAX_STACK_BYTES, MAX_OPS, MAX_KEYS = 1 << 20, 256, 1 << 20, 1_000, 20
"""Limits of a script that bitcoinX runs."""

MAX_OTHER_SCRIPTS = 64
"""Inputs of one submission that bitcoinX checks, at most."""


def check_scripts(inputs: Iterable[UnprovenInput]) -> None:
    """Check that these inputs may spend what they spend. Raises NotAdmittedError: `script-failed`, or
    `script-not-checkable` for a script that nothing here can check."""
    others = 0
    for unproven in inputs:
        lock = executed(unproven.spent.script)
        if is_p2pkh(lock):
            error = p2pkh_error(unproven.tx, unproven.vin, unproven.spent, lock=lock)
            if error is not None:
                raise NotAdmittedError("script-failed", f"transaction {unproven.tx.hex_id}, {error}")
            continue
        others += 1
        if others > MAX_OTHER_SCRIPTS:
            raise NotAdmittedError(
                "script-not-checkable", f"more than {MAX_OTHER_SCRIPTS} inputs spend other than P2PKH"
            )
        _check_other(unproven)


def _check_other(unproven: UnprovenInput) -> None:
    where = f"transaction {unproven.tx.hex_id}, input {unproven.vin}"
    try:
        from bitcoinx import InterpreterLimits, MinerPolicy, Script, Tx, TxInputContext, TxOutput
        from bitcoinx.errors import InterpreterError
    except ImportError:
        detail = f"{where} spends a script other than P2PKH, which needs bitcoinX to be checked"
        raise NotAdmittedError("script-not-checkable", detail) from None
    tx, policy = unproven.tx, MinerPolicy(MAX_SCRIPT_BYTES, MAX_NUMBER_BYTES, MAX_STACK_BYTES, MAX_OPS, MAX_KEYS)
    raw = serialise(tx.inputs, tx.outputs, tx.version, tx.locktime)
    spent = TxOutput(unproven.spent.satoshis, Script(unproven.spent.script))
    limits = InterpreterLimits(policy, is_genesis_enabled=True, is_consensus=False)
    try:
        is_valid = TxInputContext(Tx.from_bytes(raw), unproven.vin, spent).verify_input(limits, True)
    except InterpreterError as error:
        raise NotAdmittedError("script-failed", f"{where}: {error}") from None
    if not is_valid:
        raise NotAdmittedError("script-failed", f"{where}: the script ends with false")
