"""Rates a listing by the receipt of paid work that its agent gave: countersigned here, with a proof of the payment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from indexer.chains.node import address
from indexer.chains.node.client import NodeClient
from indexer.chains.node.mined_payment import mined_payment
from overlay.client.errors import ClientError
from parsers.claims import ed25519
from parsers.claims.canonical_json import DocumentError
from parsers.claims.motebit.receipts import ReceiptRules, verify_receipt
from parsers.claims.motebit.signing import Signer, sign_document
from parsers.claims.payment_proof import bound_txid


class NotMinedError(ClientError):
    """A payment that is in no block yet, or that the node does not find."""


def countersigned(receipt: Mapping[str, Any], signing_key: bytes) -> Any:
    """The client's own receipt, with the agent's nested in it: an Ed25519 key (32 bytes) signs that the work was its.
    Raises DocumentError where the agent's receipt does not verify under the key in it, or is the client's own."""
    verdict = verify_receipt(receipt, ReceiptRules(keys={}))
    if verdict.error:
        raise DocumentError(verdict.error, f"the receipt of the agent: {verdict.detail}", verdict.missing)
    if receipt.get("public_key") == ed25519.public_key_of(signing_key).hex():
        raise DocumentError("own-receipt", "the receipt is signed by the key that would countersign it")
    copied = ("submitted_at", "completed_at", "result", "prompt_hash")
    members = {name: receipt[name] for name in copied} | {"delegation_receipts": [receipt]}
    members |= {"task_id": f"of {receipt['task_id']}", "invocation_origin": "agent-to-agent"}
    return sign_document("receipt", members, Signer(signing_key, int(receipt["completed_at"]), "", ""))


def paid_txid(receipt: Mapping[str, Any]) -> str:
    """The txid (hex) of the payment that a receipt names, "" for none."""
    return bound_txid(receipt.get("task_id"), receipt.get("relay_task_id"))


async def beef_from_node(url: str, txid: str) -> str:
    """The BEEF (hex) of a payment in a block, by the node at `http://user:password@host:port`, which needs a
    transaction index. Raises NotMinedError, SourceError."""
    client = NodeClient(address.read("node", url))
    try:
        async with client.for_command():
            payment = await mined_payment(client, bytes.fromhex(txid)[::-1])
    finally:
        await client.close()
    if payment is None:
        raise NotMinedError(f"the node has no block with the payment {txid}: rate it later")
    return payment.beef().hex()
