"""The user's own source, a file of headers or a node. Its answers are trusted."""

from __future__ import annotations

import asyncio
import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Protocol, TypeVar

from overlay.verify.server_answer import HEADER
from parsers.bitcoin.tx import Outpoint, read, sha256d
from parsers.json_records import JsonObject, matching

UNKNOWN, OUT_OF_RANGE = -5, -8
"""Errors of nodes: for a block or transaction that it does not have, and for a height above its tip."""

_T = TypeVar("_T")
_Hash = Annotated[str, matching(r"^[0-9a-f]{64}\Z")]


class _HeaderPositionJson(JsonObject):
    height: int
    confirmations: int


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
        digest = sha256d(header)[::-1].hex()
        answer = self._call(_HeaderPositionJson, "getblockheader", digest, True, absent=UNKNOWN)
        return None if answer is None else answer.confirmations > 0 and answer.height == height

    def height(self) -> int | None:
        """The height of its best chain."""
        return self._call(int, "getblockcount")

    def block_hash(self, height: int) -> bytes | None:
        """The hash of its best chain's block at a height; None above its tip."""
        answer = self._call(_Hash, "getblockhash", height, absent=OUT_OF_RANGE)
        return None if answer is None else bytes.fromhex(answer)[::-1]

    def unspent(self, outpoint: Outpoint) -> bool | None:
        """Whether the output is unspent in blocks; unconfirmed transactions do not count."""
        return self._call(object, "gettxout", outpoint.txid[::-1].hex(), outpoint.vout, False) is not None

    def satoshis(self, outpoint: Outpoint) -> int | None:
        """The satoshis of an output, from its transaction, which a node with a transaction index has; the bytes must
        hash to the txid."""
        answer = self._call(str, "getrawtransaction", outpoint.txid[::-1].hex(), False, absent=UNKNOWN)
        try:
            parsed = read(bytes.fromhex(answer or ""), segwit=True)
        except ValueError:
            return None
        is_there = parsed.txid == outpoint.txid and outpoint.vout < len(parsed.outputs)
        return parsed.outputs[outpoint.vout].satoshis if is_there else None

    def _call(self, kind: type[_T], method: str, *params: object, absent: int | None = None) -> _T | None:
        """The node's answer; None for the error with the code `absent`. Raises SourceError."""
        from indexer.chains.node.client import NodeClient, RpcError

        async def call() -> _T | None:
            client = NodeClient(self._address)
            try:
                return await client.fetch(kind, method, *params)
            except RpcError as error:
                if error.code != absent:
                    raise
                return None
            finally:
                await client.close()

        return asyncio.run(call())
