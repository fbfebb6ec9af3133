"""A separate program that runs scripts of strangers with bitcoinX: JSON on standard input, the first failure on output.

The interpreter allocates what a script requests before it compares it with a limit, and has no limit of time: an
OP_NUM2BIN of 7 bytes took 1 GiB. Here it has a few seconds of one core, little memory, no environment, and no file to
write. `indexer.admission.scripts` runs it as `python -I script_interpreter.py`.

Input: `{"transactions": [hex], "inputs": [[transaction, vin, satoshis, locking script in hex]]}`. Output: `null`, or
`[input, code, sentence]` of the first input that fails.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

CPU_SECONDS, MEMORY = 3, 1 << 30

MAX_SCRIPT_BYTES, MAX_NUMBER_BYTES, MAX_STACK_BYTES, MAX_OPS, MAX_KEYS = 1 << 20, 256, 1 << 20, 1_000, 20
"""Limits of a script."""

FAILED, NOT_CHECKABLE = "script-failed", "script-not-checkable"


def confine() -> None:
    """Limit CPU seconds, memory and files of this process for good."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def first_failure(question: dict[str, Any]) -> tuple[int, str, str] | None:
    """The number, code and reason of the first input that fails, None where all may spend."""
    from bitcoinx import InterpreterLimits, MinerPolicy, Tx

    policy = MinerPolicy(MAX_SCRIPT_BYTES, MAX_NUMBER_BYTES, MAX_STACK_BYTES, MAX_OPS, MAX_KEYS)
    limits = InterpreterLimits(policy, is_genesis_enabled=True, is_consensus=False)
    transactions = [Tx.from_bytes(bytes.fromhex(raw)) for raw in question["transactions"]]
    for number, (which, vin, satoshis, script) in enumerate(question["inputs"]):
        failure = _failure(transactions[which], vin, satoshis, bytes.fromhex(script), limits)
        if failure is not None:
            return number, *failure
    return None


def _failure(tx: Any, vin: int, satoshis: int, script: bytes, limits: Any) -> tuple[str, str] | None:
    from bitcoinx import Script, TxInputContext, TxOutput
    from bitcoinx.errors import ScriptError

    try:
        is_valid = TxInputContext(tx, vin, TxOutput(satoshis, Script(script))).verify_input(limits, True)
    except ScriptError as error:  # those of the interpreter, and of a script that ends within a push
        return FAILED, str(error)[:200] or type(error).__name__
    except Exception as error:  # a fault of the interpreter, which the scripts of strangers provoke
        return NOT_CHECKABLE, f"the interpreter cannot run it ({type(error).__name__})"
    return None if is_valid else (FAILED, "the script ends with false")


if __name__ == "__main__":
    confine()
    sys.stdout.write(json.dumps(first_failure(json.loads(sys.stdin.buffer.read()))))
