"""The highest cost of verifying one document, and receipts a second: `python -m tests.bench.bench_claims`.

Each line is the median of some runs in milliseconds, of a document near a limit; the bar for one is 50 ms.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

from parsers.claims.delegateos import token_issue
from parsers.claims.delegateos.capability_token import read_dct, serialize_dct
from parsers.claims.delegateos.signed_objects import principal_of, sign_object
from parsers.claims.motebit.receipts import ReceiptRules
from parsers.claims.verification import verify_document
from parsers.claims.work_receipts import receipt_records
from tests.parsers.claims.motebit.signers import ALICE, BOB, CAROL, NOW

BAR_MS, RUNS, TREES = 50, 5, 300
SEED = bytes([7]) * 32
PRINCIPAL = principal_of(SEED)


def token(parents: list[str], parts: list[str]) -> dict[str, str]:
    """A token with these resources, attenuated to those."""
    named = {"namespace": "n", "action": "a"}
    parties = {"delegatee": PRINCIPAL, "contractId": "ct", "delegationId": "del_1"}
    times = {"expiresAt": "2100-01-01T00:00:00Z", "issuedAt": "2020-01-01T00:00:00Z"}
    root = {"capabilities": [{**named, "resource": one} for one in parents], "maxChainDepth": 5}
    whole = read_dct(token_issue.create_dct(SEED, {**parties, **times, **root, "maxBudgetMicrocents": 1}))
    attenuation = {
        **parties,
        "attenuator": PRINCIPAL,
        "allowedCapabilities": [{**named, "resource": one} for one in parts],
    }
    payload = {"authority": whole["authority"], "attenuations": [attenuation]}
    signature = {"signer": PRINCIPAL, "signature": sign_object(SEED, payload), "covers": 0}
    signatures = [*whole["signatures"], signature]
    return serialize_dct({**whole, "attenuations": [attenuation], "signatures": signatures})


def output(schema: Any, value: Any) -> dict[str, Any]:
    """A contract that a value has to meet, and the value."""
    limits = {"maxBudgetMicrocents": 1, "deadline": "2100-01-01T00:00:00Z", "maxChainDepth": 1}
    contract = {
        "id": "ct", "version": "0.1", "issuer": PRINCIPAL, "createdAt": "2020-01-01T00:00:00Z", "task": {},
        "verification": {"method": "schema_match", "schema": schema},
        "constraints": {**limits, "requiredCapabilities": []},
    }  # fmt: skip
    return {"contract": {**contract, "signature": sign_object(SEED, contract)}, "output": value}


def documents() -> dict[str, tuple[str, Any]]:
    """Documents near the limits, by name: their kind, and themselves."""
    stars = "/".join(["*"] * 13)
    folders = [f"/{number}/**" for number in range(60)]
    patterns = {f"z{number}": True for number in range(300)}
    tree = ALICE.receipt(nested=[BOB.receipt(f"{number}", result="r" * 3_000) for number in range(60)])
    return {
        "token, 200 × 3 patterns": (
            "dct", token([f"**/x/{stars}/*/{n}" for n in range(200)], [f"**/x/{stars}/y/{n}" for n in range(3)])),
        "token, 60 × 60 folders": ("dct", token(folders, [f"{one[:-2]}a/**" for one in reversed(folders)])),
        "pattern over 200 KB": ("contract-output", output({"pattern": "(a|b|ab){1,1000}$"}, "ab" * 100_000)),
        "pattern over 11 KB": ("contract-output", output({"pattern": "a[abx]{100}q"}, "abx" * 3_700)),
        "300 patternProperties": (
            "contract-output", output({"patternProperties": patterns}, {f"n{n}": 1 for n in range(3_500)})),
        "250 × uniqueItems": ("contract-output", output({"allOf": [{"uniqueItems": True}] * 250}, list(range(4_000)))),
        "receipt tree of 61": ("receipt-chain", tree),
    }  # fmt: skip


def milliseconds(action: Callable[[], Any]) -> float:
    """The median time of an action."""
    times = []
    for _ in range(RUNS):
        start = perf_counter()
        action()
        times.append(perf_counter() - start)
    return median(times) * 1_000


def main() -> int:
    """Print a line for each document, and receipts a second; 1 where one misses the bar."""
    slow = 0
    for name, (kind, document) in documents().items():
        body = json.dumps({"document": document, "keys": [PRINCIPAL] if kind == "dct" else None}).encode()
        taken = milliseconds(lambda kind=kind, body=body: verify_document(kind, body, NOW * 1_000_000))
        error = verify_document(kind, body, NOW * 1_000_000).error or "verified"
        print(f"{name:26} {len(body):9,} bytes {taken:7.1f} ms  {error}")
        slow += taken > BAR_MS
    trees = [ALICE.receipt(f"{n}", [BOB.receipt(f"{n}", [CAROL.receipt(f"{n}")])]) for n in range(TREES)]
    start = perf_counter()
    receipts = sum(len(receipt_records(tree, ReceiptRules(keys={}))) for tree in trees)
    print(f"{receipts / (perf_counter() - start):,.0f} receipts verified a second and core")
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
