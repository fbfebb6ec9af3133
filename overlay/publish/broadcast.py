"""Send a transaction: to a node by JSON-RPC, or to ARC. Sending it again is not an error."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from indexer.chains.http_client import CutError, HttpClient, Response
from indexer.chains.node import address as node_address
from indexer.chains.node.client import NodeClient
from indexer.errors import RefusedTransactionError, SourceError
from parsers.bitcoin.tx import sha256d
from parsers.cards import strict_json
from parsers.errors import ParseError
from parsers.json_records import JsonObject, convert

ARC_TOKEN = "A2B_ARC_TOKEN"  # noqa: S105 - the name of a variable
RESPONSE_BYTES = 1 << 20
SECONDS = 60.0
"""Seconds for one request at most, and from the answer of ARC that it has a transaction until the network has it."""

PAUSE = 2.0
"""Seconds between two looks at a transaction that ARC has and the network may not have."""

_ON_NETWORK = frozenset({"ACCEPTED_BY_NETWORK", "SEEN_ON_NETWORK", "MINED"})
_UNDECIDED = frozenset({"QUEUED", "RECEIVED", "STORED", "ANNOUNCED_TO_NETWORK", "REQUESTED_BY_NETWORK",
                        "SENT_TO_NETWORK"})  # fmt: skip


class _ArcJson(JsonObject):
    txid: Any = None
    tx_status: Any = None
    detail: Any = None
    extra_info: Any = None
    title: Any = None


async def to_node(url: str, raw: bytes) -> str:
    """Send a serialised transaction through the node at `http://user:password@host:port`. Returns the txid (hex).

    Raises RefusedTransactionError, SourceError.
    """
    client = NodeClient(node_address.read("node", url))
    try:
        async with client.for_command():
            await client.send_transaction(raw)
    finally:
        await client.close()
    return sha256d(raw)[::-1].hex()


async def to_arc(url: str, extended: bytes, txid: str) -> str:
    """Send a transaction in extended format through the ARC at a base URL (its `POST /v1/tx`; the token in
    `A2B_ARC_TOKEN`), and wait until ARC reports that the network has it: before, another transaction may have spent the
    same coins. Returns the txid. Raises RefusedTransactionError, SourceError."""
    token = os.environ.get(ARC_TOKEN, "")
    headers = {"Content-Type": "application/json", "X-WaitFor": "SEEN_ON_NETWORK"}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    client = HttpClient(
        "ARC", f"ARC at {url}", headers=headers, secrets=[token] if token else [], whole_seconds=SECONDS
    )
    address, body = f"{url.rstrip('/')}/v1/tx", json.dumps({"rawTx": extended.hex()}).encode()
    try:
        status = _status(url, await client.request("POST", address, RESPONSE_BYTES, body, "the transaction"), txid)
        async with asyncio.timeout(SECONDS):
            while status not in _ON_NETWORK:
                await asyncio.sleep(PAUSE)
                look = await client.request(
                    "GET", f"{address}/{txid}", RESPONSE_BYTES, None, "the transaction's status"
                )
                status = _status(url, look, txid) if look.status < 400 else status
        return txid
    except TimeoutError:
        raise SourceError(
            f"ARC at {url} has transaction {txid} as {status} {SECONDS:g} seconds after it took it, and does not say "
            "that the network has it: send it again later"
        ) from None
    except CutError as error:
        raise SourceError(f"ARC at {url} cannot be reached: {error}") from None
    finally:
        await client.close()


def _status(url: str, response: Response, txid: str) -> str:
    """The status of a transaction that the network has, or may have yet. Raises RefusedTransactionError,
    SourceError."""
    try:
        answer = convert(strict_json.answer(response.body), _ArcJson)
    except ParseError:
        raise SourceError(f"ARC at {url} answers {response.status}, and not with a JSON object") from None
    status = str(answer.tx_status or "")
    detail = str(answer.detail or answer.extra_info or answer.title or status)[:500]
    if response.status >= 400 or status not in _ON_NETWORK | _UNDECIDED or answer.txid != txid:
        raise RefusedTransactionError(f"ARC refuses the transaction ({response.status}): {detail}")
    return status
