"""The user's own source, a file of headers or a node. Its answers are trusted."""

from __future__ import annotations

import asyncio
import mmap
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from overlay.verify.server_answer import HEADER
from parsers.bitcoin.tx import Outpoint, read, sha256d

if TYPE_CHECKING:
    from indexer.chains.node.client import NodeClient

UNKNOWN, OUT_OF_RANGE = -5, -8
_HASH = re.compile("[0-9a-f]{64}")
_T = TypeVar("_T")


class TrustedSource(Protocol):
    """A source that the user trusts. Its methods raise SourceError when it does not answer. `knows_heights`: `holds`
    also checks the height."""

    name: str
    knows_heights: bool

    def holds(self, header: bytes, height: int) -> bool | None:
        """Whether its best chain has this header (80 bytes) at that height; None when it does not have the block."""
        ...

    def height(self) -> int | None:
        """The height of its best chain; None when unknown."""
        ...

    def block_hash(self, height: int) -> bytes | None:
        """The hash (internal byte order) of its best chain's block at a height; None where it has none."""
        ...

    def unspent(self, outpoint: Outpoint) -> bool | None:
        """Whether an output is unspent in its blocks; None when unknown."""
        ...

    def satoshis(self, outpoint: Outpoint) -> int | None:
        """The value of an output; None when unknown."""
        ...


def open_source(where: str) -> TrustedSource:
    """The user's own source: `http://user:password@host:port` (a node's RPC, with `?cookie=FILE` if it writes one) or
    the path of a file of headers. Raises OSError, SourceError."""
    return Node(where) if where.startswith(("http://", "https://")) else HeaderFile(Path(where))


class HeaderFile:
    """A file of headers of 80 bytes, one after another, or of their hex, one a line. It has no heights."""

    knows_heights = False

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        with path.open("rb") as file:
            self._size = file.seek(0, 2)

    def holds(self, header: bytes, height: int) -> bool | None:  # noqa: ARG002 - a file does not say heights
        """Whether the header is in the file; None when it is not: the file may be older."""
        if not self._size:
            return None
        with Path(self.name).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            digits = header.hex().encode()
            return True if _contains(data, header, _between_headers) or _contains(data, digits, _on_a_line) else None

    def height(self) -> int | None:
        """Unknown: a file has no heights."""
        return None

    def block_hash(self, height: int) -> bytes | None:  # noqa: ARG002 - a file does not say heights
        """Unknown: a file has no heights."""
        return None

    def unspent(self, outpoint: Outpoint) -> bool | None:  # noqa: ARG002 - headers say nothing of outputs
        """Headers do not show it."""
        return None

    def satoshis(self, outpoint: Outpoint) -> int | None:  # noqa: ARG002 - nor of these
        """Headers do not show it."""
        return None


def _contains(data: mmap.mmap, digest: bytes, good: Callable[[mmap.mmap, int, int], bool]) -> bool:
    position = data.find(digest)
    while position >= 0 and not good(data, position, position + len(digest)):
        position = data.find(digest, position + 1)
    return position >= 0


def _between_headers(_data: mmap.mmap, start: int, _end: int) -> bool:
    return start % HEADER == 0


def _on_a_line(data: mmap.mmap, start: int, end: int) -> bool:
    return not data[max(start - 1, 0) : start].strip() and not data[end : end + 1].strip()


class Node:
    """A node's RPC. Its name is the URL without the login."""

    knows_heights = True

    def __init__(self, url: str) -> None:
        from indexer.chains.node import address

        bare, _, query = url.partition("?")
        cookie = query.removeprefix("cookie=") if query.startswith("cookie=") else None
        self._address = address.read("your own node", bare, cookie)
        self.name = self._address.base

    def holds(self, header: bytes, height: int) -> bool | None:
        """Whether its best chain has the block there; None when it does not have the block."""
        from indexer.chains.node.client import RpcError

        digest = sha256d(header)[::-1].hex()

        async def ask(client: NodeClient) -> bool | None:
            try:
                answer: Any = await client.call("getblockheader", digest, True)
            except RpcError as error:
                if error.code == UNKNOWN:
                    return None
                raise
            if not isinstance(answer, dict):
                return None
            confirmations, answer_height = answer.get("confirmations"), answer.get("height")
            return bool(isinstance(confirmations, int) and confirmations > 0 and answer_height == height)

        return self._run(ask)

    def height(self) -> int | None:
        """The height of its best chain."""

        async def ask(client: NodeClient) -> int | None:
            answer: Any = await client.call("getblockcount")
            return answer if isinstance(answer, int) else None

        return self._run(ask)

    def block_hash(self, height: int) -> bytes | None:
        """The hash of its best chain's block at a height; None above its tip."""
        from indexer.chains.node.client import RpcError

        async def ask(client: NodeClient) -> bytes | None:
            try:
                answer: Any = await client.call("getblockhash", height)
            except RpcError as error:
                if error.code == OUT_OF_RANGE:
                    return None
                raise
            return bytes.fromhex(answer)[::-1] if isinstance(answer, str) and _HASH.fullmatch(answer) else None

        return self._run(ask)

    def unspent(self, outpoint: Outpoint) -> bool | None:
        """Whether it is unspent in blocks; unconfirmed transactions do not count."""

        async def ask(client: NodeClient) -> bool:
            output: Any = await client.call("gettxout", outpoint.txid[::-1].hex(), outpoint.vout, False)
            return output is not None

        return self._run(ask)

    def satoshis(self, outpoint: Outpoint) -> int | None:
        """From the transaction, which a node with a transaction index has; the bytes must hash to the txid."""
        from indexer.chains.node.client import RpcError

        async def ask(client: NodeClient) -> Any:
            try:
                return await client.call("getrawtransaction", outpoint.txid[::-1].hex(), False)
            except RpcError as error:
                if error.code == UNKNOWN:
                    return None
                raise

        return _value(self._run(ask), outpoint)

    def _run(self, ask: Callable[[NodeClient], Awaitable[_T]]) -> _T:
        from indexer.chains.node.client import NodeClient

        async def once() -> _T:
            client = NodeClient(self._address)
            try:
                return await ask(client)
            finally:
                await client.close()

        return asyncio.run(once())


def _value(answer: object, outpoint: Outpoint) -> int | None:
    """An output's value in a transaction's hex, with a witness or without; None when it is not there."""
    try:
        raw = bytes.fromhex(answer) if isinstance(answer, str) else b""
        parsed = next((tx for tx in (read(raw), read(raw, segwit=True)) if tx.txid == outpoint.txid), None)
    except ValueError:
        return None
    return parsed.outputs[outpoint.vout].satoshis if parsed and outpoint.vout < len(parsed.outputs) else None
