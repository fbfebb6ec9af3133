"""Requests to another overlay: its anchors, the transactions that they cover (BRC-136), and headers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, Any, TypeVar

from indexer.chains.http_client import RESPONSE_BYTES, SMALL_BYTES, HttpClient, parse_json
from indexer.errors import SourceUnavailableError
from parsers.bitcoin import basm_answers, bump
from parsers.bitcoin.basm import AdmittedTransaction, TopicAnchor
from parsers.bitcoin.basm_answers import ANCHORS_AT_ONCE, TXIDS_AT_ONCE, AnchorTip
from parsers.bitcoin.bump import MerklePath
from parsers.errors import ParseError
from parsers.json_records import JsonObject, convert, matching

PAGE_BYTES = 8 << 20
"""The limit of a page of headers, anchors or admitted transactions."""

WHOLE_SECONDS = 120.0

_T = TypeVar("_T")


class OverlaySourceClient(HttpClient):
    """The overlay at `base`. Answers that cannot be true raise SourceUnavailableError: another may come later."""

    def __init__(self, name: str, base: str) -> None:
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "X-BSV-Topic": basm_answers.TOPIC,
        }
        super().__init__(name, base, headers=headers, whole_seconds=WHOLE_SECONDS)
        self._base = base

    async def tip(self) -> AnchorTip:
        """The newest anchor."""
        return await self._post("/requestTopicAnchorTip", {}, SMALL_BYTES, basm_answers.tip)

    async def headers(self, caip2: str, first: int) -> list[bytes]:
        """Consecutive headers (80 bytes each) of a chain from a height on; empty at its end."""
        return await self._read("GET", f"/v1/headers?chain={caip2}&from={first}", None, PAGE_BYTES, _headers)

    async def anchors(self, first: int, last: int) -> list[TopicAnchor]:
        """Anchors of consecutive heights from `first` on, as many as one request may give."""
        last = min(last, first + ANCHORS_AT_ONCE - 1)
        heights = {"fromHeight": first, "toHeight": last}
        return await self._post(
            "/requestTopicAnchorRange", heights, PAGE_BYTES, lambda answer: basm_answers.anchors(answer, first, last)
        )

    async def admitted(self, anchor: TopicAnchor) -> Sequence[AdmittedTransaction]:
        """The transactions that an anchor covers, in block order."""
        listed = basm_answers.AdmittedListReader(anchor)
        while listed.question is not None:
            await self._post("/requestAdmittedList", listed.question, PAGE_BYTES, listed.add)
        return await self._checked("/requestAdmittedList", listed.whole)

    async def path(self, height: int, txids: Sequence[bytes]) -> MerklePath:
        """One merkle path of these transactions of a block, at most `TXIDS_AT_ONCE`."""
        question = {"blockHeight": height, "txids": [txid[::-1].hex() for txid in txids]}
        return await self._post(
            "/requestCompoundMerklePath",
            question,
            RESPONSE_BYTES,
            lambda answer: bump.read(basm_answers.merkle_path(answer)),
        )

    async def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """The raw transactions that the overlay has of those requested, by txid (internal byte order)."""
        raws: dict[bytes, bytes] = {}
        remaining = list(dict.fromkeys(txids))
        while remaining:
            batch = remaining[:TXIDS_AT_ONCE]
            delivered = await self._post(
                "/requestRawTransactions",
                {"txids": [txid[::-1].hex() for txid in batch]},
                RESPONSE_BYTES,
                partial(basm_answers.transactions, txids=batch),
            )
            raws |= delivered
            # what had no room in the answer comes first in the next one; a batch of which nothing came is not there
            missing = [txid for txid in batch if txid not in delivered] if delivered else []
            remaining = missing + remaining[len(batch) :]
        return raws

    async def _post(self, path: str, question: dict[str, Any], limit: int, read: Callable[[Any], _T]) -> _T:
        return await self._read("POST", path, json.dumps(question).encode(), limit, read)

    async def _read(self, method: str, path: str, body: bytes | None, limit: int, read: Callable[[Any], _T]) -> _T:
        response = await self.retry(lambda: self.request(method, self._base + path, limit, body, path))
        if response.status != 200:
            detail = response.body[:300].decode(errors="replace")
            raise SourceUnavailableError(f"{self.name}: {self.label}{path} answers {response.status}: {detail!a}")
        try:
            answer = await parse_json(response.body)
        except ParseError as error:
            raise SourceUnavailableError(f"{self.name}: {self.label}{path} answers with {error}") from None
        return await self._checked(path, lambda: read(answer))

    async def _checked(self, path: str, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except ParseError as error:
            raise SourceUnavailableError(f"{self.name}: {self.label}{path}: {error}") from None


class _HeadersJson(JsonObject):
    headers: list[Annotated[str, matching(r"^[0-9a-f]{160}\Z")]]


def _headers(answer: Any) -> list[bytes]:
    return list(map(bytes.fromhex, convert(answer, _HeadersJson).headers))
