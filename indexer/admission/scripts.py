"""Whether the inputs of a transaction that is in no block may spend their outputs: P2PKH, also beside an inscription,
by our own digest and signature check; other scripts by the interpreter of bitcoinX where it is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib.util import find_spec

from indexer.admission import script_interpreter
from indexer.errors import NotAdmittedError
from parsers.bitcoin.beef import UnprovenInput
from parsers.bitcoin.script import executed, is_p2pkh
from parsers.bitcoin.sighash import SharedHashes, p2pkh_error
from parsers.bitcoin.tx import serialise

MAX_OTHER_SCRIPTS = 64
"""Inputs of one submission that bitcoinX checks, at most."""

SECONDS = 30.0
"""Wall-clock limit of the interpreter; its CPU time is limited by `script_interpreter.CPU_SECONDS`."""


def check_scripts(inputs: Iterable[UnprovenInput]) -> None:
    """Check that these inputs may spend their outputs. Raises NotAdmittedError: `script-failed`, or
    `script-not-checkable` for a script that this program cannot check."""
    others: list[UnprovenInput] = []
    hashes: dict[bytes, SharedHashes] = {}
    for unproven in inputs:
        tx, lock = unproven.tx, executed(unproven.spent.script)
        if is_p2pkh(lock):
            shared = hashes.setdefault(tx.txid, SharedHashes(tx))
            error = p2pkh_error(tx, unproven.vin, unproven.spent, lock=lock, shared=shared)
            if error is not None:
                raise NotAdmittedError("script-failed", f"transaction {tx.hex_id}, {error}")
            continue
        others.append(unproven)
        if len(others) > MAX_OTHER_SCRIPTS:
            raise NotAdmittedError(
                "script-not-checkable", f"more than {MAX_OTHER_SCRIPTS} inputs spend other than P2PKH"
            )
    if others:
        _check_others(others)


def _check_others(inputs: Sequence[UnprovenInput]) -> None:
    """Run the scripts of these inputs in a separate process, each transaction parsed once."""
    if find_spec("bitcoinx") is None:
        detail = f"{_input_name(inputs[0])} spends a script other than P2PKH, which needs bitcoinX to be checked"
        raise NotAdmittedError("script-not-checkable", detail)
    numbers: dict[bytes, int] = {}
    transactions: list[str] = []
    for tx, *_ in inputs:
        if tx.txid not in numbers:
            numbers[tx.txid] = len(transactions)
            transactions.append(serialise(tx.inputs, tx.outputs, tx.version, tx.locktime).hex())
    spends = [[numbers[tx.txid], vin, spent.satoshis, spent.script.hex()] for tx, vin, spent in inputs]
    failure = _answer(json.dumps({"transactions": transactions, "inputs": spends}).encode())
    if failure == "":
        detail = f"the scripts of transaction {inputs[0].tx.hex_id} do not end within their limits of time and memory"
        raise NotAdmittedError("script-not-checkable", detail)
    result = json.loads(failure)
    if result is not None:
        number, code, reason = result
        raise NotAdmittedError(code, f"{_input_name(inputs[number])}: {reason}")


def _answer(question: bytes) -> str:
    """The text that the interpreter prints; empty where it ends before its answer."""
    program = [sys.executable, "-I", script_interpreter.__file__]
    try:
        child = subprocess.run(program, input=question, capture_output=True, timeout=SECONDS, env={}, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return ""
    return child.stdout.decode() if child.returncode == 0 else ""


def _input_name(unproven: UnprovenInput) -> str:
    return f"transaction {unproven.tx.hex_id}, input {unproven.vin}"
