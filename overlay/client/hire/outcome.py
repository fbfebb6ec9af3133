"""The outcome of a hire: whether its receipt and payment hold, its rating, and a complaint where nothing came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overlay.answers.verdicts import SubmittedReceipts
from overlay.client import calls, ratings
from overlay.client.errors import NotThereError
from overlay.client.hire.agent_call import request_bytes
from overlay.client.hire.journal import Hire
from overlay.client.hire.overlay_access import OverlayAccess
from overlay.client.hire.wallet import Wallet
from overlay.publish.coins import Coin, unspent
from parsers.claims.canonical_json import DocumentError
from parsers.claims.complaint_codes import WITHDRAWN
from parsers.claims.complaints import signed_complaint
from parsers.claims.gate_receipts import check_receipt
from parsers.claims.motebit.receipts import ReceiptRules, verify_receipt


def receipt_fault(hire: Hire, receipt: Mapping[str, Any], answer: bytes) -> str:
    """Why a receipt does not show that the agent's key signed this task, request, answer and payment; "" where it
    does."""
    verdict = verify_receipt(receipt, ReceiptRules(keys={}))
    if verdict.error:
        return f"its signature does not verify: {verdict.detail}"
    if receipt.get("public_key") != hire.agent_key:
        return "it is not signed by the key of the card"
    fault = "there is no payment"
    for tx in reversed(hire.transactions):
        try:
            check_receipt(receipt, hire.task, request_bytes(hire), answer, tx.hex_id)
        except DocumentError as error:
            fault = error.detail
        else:
            return ""
    return fault


async def is_sent(hire: Hire, client: OverlayAccess, node: str | None) -> bool:
    """Whether the payments of a hire are in the mempool or a block of a node where one is named, else in a block by the
    overlay. Raises SourceError, ClientError."""
    if node is not None:
        outputs = [Coin(tx.outpoint(vout), 0) for tx in hire.transactions for vout in range(len(tx.outputs))]
        seen = {coin.outpoint.txid for coin in await unspent(node, outputs)}
        return {tx.txid for tx in hire.transactions} <= seen
    try:
        for tx in hire.transactions:
            await client.payment(hire.listing, tx.hex_id)
    except NotThereError:
        return False
    return bool(hire.claims)


async def rate(hire: Hire, wallet: Wallet, client: OverlayAccess, node: str | None) -> SubmittedReceipts:
    """Submit the receipt of a hire, countersigned with the wallet's Ed25519 key: it publishes which address paid the
    agent, when and how much. Raises DocumentError, ClientError, SourceError, PrivateKeyError."""
    if not hire.receipt or hire.receipt_fault:
        raise DocumentError("no-receipt", hire.receipt_fault or f"{hire.agent} gave no receipt")
    return await client.rate(hire.listing, hire.receipt, wallet.signing_key, node=node)


async def complain(hire: Hire, wallet: Wallet, client: OverlayAccess, code: str, node: str | None) -> SubmittedReceipts:
    """Submit the complaint about the last payment of a hire, signed by the key that paid, or take it back. Raises
    DocumentError, ClientError, SourceError, PrivateKeyError."""
    if not hire.claims:
        raise DocumentError("no-payment", "nothing was paid")
    txid = hire.transactions[-1].hex_id
    document = signed_complaint(wallet.key.private, hire.listing, txid, code, 1_000 * wallet.journal.now())
    body: dict[str, Any] = {"kind": "complaint", "document": document}
    if code != WITHDRAWN:
        beef = await ratings.beef_from_node(node, txid) if node else (await client.payment(hire.listing, txid)).beef
        body["payment"] = {"beef": beef}
    return await client.send(calls.submit_evidence(body))
