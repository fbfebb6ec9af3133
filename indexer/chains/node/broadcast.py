"""Send a transaction through a node. Sending it again is not an error."""

from __future__ import annotations

from indexer.chains.jsonrpc import RpcError
from indexer.chains.node.client import NodeClient
from indexer.errors import RefusedTransactionError

_SENT_BEFORE = ("already known", "already in", "txn-already-", "transaction already in block chain")


async def send(client: NodeClient, raw: bytes) -> None:
    """Send a serialised transaction. Raises RefusedTransactionError, SourceError."""
    try:
        await client.call("sendrawtransaction", raw.hex())
    except RpcError as error:
        if not any(word in str(error).lower() for word in _SENT_BEFORE):
            raise RefusedTransactionError(f"the node refuses the transaction: {error}") from None
