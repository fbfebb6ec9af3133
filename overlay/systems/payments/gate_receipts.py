"""Receipts that a gate gives for paid work, signed with the key of its agent, and put into the answer."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple, cast

from indexer.fetcher.event_data import event_data
from overlay.systems.payments.carriers import A2A_METHODS, PaidCall, request_bytes
from overlay.systems.payments.gate_answers import GateAnswer, StreamDelivery
from overlay.systems.payments.store_records import PaidTask, StoredPayment
from overlay.text.compact_json import encode
from parsers.claims import ed25519, gate_receipts
from parsers.claims.amount_due import PaymentRefusedError
from parsers.claims.canonical_json import DocumentError
from parsers.claims.gate_receipts import A2A_METADATA, MCP_METADATA
from parsers.claims.motebit.receipts import WINDOW_MS
from parsers.claims.motebit.signing import Signer, sign_document

log = logging.getLogger(__name__)

_EVENT_ENDS = re.compile(rb"(?<=\n\n)|(?<=\r\n\r\n)")


class ReceiptSigner:
    """Gives receipts that an Ed25519 key (32 bytes) signs. Raises ValueError for another key."""

    def __init__(self, signing_key: bytes) -> None:
        if len(signing_key) != ed25519.KEY_BYTES:
            raise ValueError(f"signing_key has {len(signing_key)} bytes, and an Ed25519 key {ed25519.KEY_BYTES}")
        self._key = signing_key

    def traces(self, task: str, call: PaidCall, answer: GateAnswer, delivery: StreamDelivery) -> dict[str, str] | None:
        """The hashes of a call and its answer for a receipt, which are stored with a task; None where RFC 8785 has no
        form of them."""
        try:
            request = request_bytes(call.body) if call.rpc else call.body
            digest = _digest(call, answer, delivery)
        except (DocumentError, PaymentRefusedError, ValueError, RecursionError) as error:
            log.warning("the answer for a task gets no receipt: %s", error)
            return None
        return {"prompt": gate_receipts.prompt_hash(task, request), "result": gate_receipts.result_text(digest)}

    def receipted(self, call: PaidCall, answer: GateAnswer, task: PaidTask, payment: StoredPayment) -> GateAnswer:
        """The answer of a completed task with its receipt: the same one for each repeated call."""
        if task.traces is None:
            return answer
        completed_at = 1_000 * task.updated_at
        members = {
            "task_id": gate_receipts.hashed_task(task.id), "result": task.traces["result"],
            "prompt_hash": task.traces["prompt"], "relay_task_id": f"bsv:tx:{payment.txid[::-1].hex()}",
            "submitted_at": max(1_000 * payment.created_at, completed_at - WINDOW_MS), "completed_at": completed_at,
            "invocation_origin": "agent-to-agent",
        }  # fmt: skip
        receipt = sign_document("receipt", members, Signer(self._key, completed_at, "", ""))
        return _carrying(call, answer, cast("dict[str, Any]", receipt))


def _digest(call: PaidCall, answer: GateAnswer, delivery: StreamDelivery) -> bytes:
    """The SHA-256 of an answer's bytes. Raises DocumentError, ValueError."""
    message = _message(call, answer)
    if message is not None:
        return sha256(gate_receipts.answer_bytes(message.value["result"], message.metadata)).digest()
    if call.rpc and not _is_stream(answer):
        raise ValueError("it is not a result of JSON-RPC")
    digest = delivery.sent.copy()
    digest.update(_ended(answer.body) if _is_stream(answer) else answer.body)
    return digest.digest()


def _carrying(call: PaidCall, answer: GateAnswer, receipt: Mapping[str, Any]) -> GateAnswer:
    message = _message(call, answer)
    if message is not None:
        result = gate_receipts.with_receipt(message.value["result"], message.metadata, receipt)
        return answer._replace(body=message.before + encode(message.value | {"result": result}) + message.after)
    if _is_stream(answer):
        return answer._replace(body=_ended(answer.body) + gate_receipts.event(receipt))
    header = (gate_receipts.HEADER, gate_receipts.header_text(receipt))
    return answer if call.rpc else answer._replace(headers=(*answer.headers, header))


class _RpcMessage(NamedTuple):
    """The message of JSON-RPC in an answer that carries a receipt: what is before and after it, and the member of its
    result with the receipt."""

    before: bytes
    value: dict[str, Any]
    after: bytes
    metadata: str


def _message(call: PaidCall, answer: GateAnswer) -> _RpcMessage | None:
    """The result of a call of A2A that is not streamed, or of a call of MCP, which may be the last event of a stream;
    None for any other answer."""
    if not call.rpc:
        return None
    if not _is_stream(answer):
        value = _result(answer.body)
        metadata = A2A_METADATA if call.method in A2A_METHODS else MCP_METADATA
        return None if value is None else _RpcMessage(b"", value, b"", metadata)
    if call.method in A2A_METHODS:
        return None
    events = _EVENT_ENDS.split(_ended(answer.body))
    for number in reversed(range(len(events))):
        value = next(filter(None, map(_result, event_data(events[number]))), None)
        if value is not None:
            lines = [line for line in events[number].splitlines(keepends=True) if not line.startswith(b"data:")]
            named = b"".join(line for line in lines if line.strip())
            before = b"".join(events[:number]) + named + b"data: "
            return _RpcMessage(before, value, b"\n\n" + b"".join(events[number + 1 :]), MCP_METADATA)
    return None


def _result(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("result"), dict) else None


def _is_stream(answer: GateAnswer) -> bool:
    kinds = [value.lower() for name, value in answer.headers if name.lower() == "content-type"]
    return any(kind.startswith("text/event-stream") for kind in kinds)


def _ended(stream: bytes) -> bytes:
    """The end of a stream, with the empty line that ends its last event."""
    return stream if stream.endswith((b"\n\n", b"\r\n\r\n")) else stream + b"\n\n"
