"""Answers of another overlay about its anchors (BRC-136): strangers' JSON, into records.

Hashes are hex in display order there, and internal byte order here. Functions raise ParseError naming what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

from parsers.bitcoin import basm
from parsers.bitcoin.basm import AdmittedTransaction, TopicAnchor
from parsers.bitcoin.tx import sha256d
from parsers.errors import ParseError
from parsers.json_records import JsonObject, convert, internal, sized, unhex, whole

TOPIC = "tm_agent_registry"
ANCHORS_AT_ONCE, TXIDS_AT_ONCE = 1_024, 1_000
"""Anchors, and txids, in one request, at most."""

MAX_HEIGHT = 2**31 - 2
_Height = Annotated[int, whole(0, MAX_HEIGHT)]


class AnchorTip(NamedTuple):
    """The newest anchor: its height (-1 for none) and chained hash; the height of the first one and the CAIP-2 id of
    the chain, None where the overlay does not state it; whether it states that it read everything; and the height from
    which on it may lack the records after an undecided update, None without one."""

    height: int
    tac: bytes
    genesis: int | None
    chain: str | None
    complete: bool
    undecided_from: int | None


class AdmittedPage(NamedTuple):
    """Some admitted transactions of a block, and the offset of the next page, None after the last."""

    transactions: tuple[AdmittedTransaction, ...]
    next_offset: int | None


class _TipJson(JsonObject):
    block_height: Annotated[int, whole(-1, MAX_HEIGHT)]
    tac: str
    genesis_height: _Height | None = None
    undecided_from: _Height | None = None
    chain: Any = None
    complete: Any = None


class _AnchorJson(JsonObject):
    block_height: _Height
    block_hash: str
    basm_root: str
    admitted_count: _Height
    tac: str


class _AnchorsJson(JsonObject):
    anchors: Annotated[list[_AnchorJson], sized(ANCHORS_AT_ONCE)]


class _AdmittedJson(JsonObject):
    txid: str
    block_index: _Height


class _AdmittedListJson(JsonObject):
    block_height: _Height
    admitted: list[_AdmittedJson]
    next_offset: _Height | None = None


class _MerklePathJson(JsonObject):
    merkle_path: str


class _RawTransactionJson(JsonObject):
    txid: str
    raw_tx: str


class _TransactionsJson(JsonObject):
    transactions: list[_RawTransactionJson]


def tip(answer: Any) -> AnchorTip:
    """The newest anchor."""
    read = convert(answer, _TipJson)
    chain = read.chain if isinstance(read.chain, str) else None
    is_complete = read.complete is not False
    return AnchorTip(
        read.block_height, internal(read.tac, "tac"), read.genesis_height, chain, is_complete, read.undecided_from
    )


def anchors(answer: Any, first: int, last: int) -> list[TopicAnchor]:
    """The anchors of consecutive heights from `first` on, up to `last` at most, each chained to the one before."""
    read = [_anchor(entry) for entry in convert(answer, _AnchorsJson).anchors]
    if [anchor.height for anchor in read] != [*range(first, first + len(read))] or len(read) > last - first + 1:
        raise ParseError(f"the anchors are not those from height {first:,} to {last:,}")
    for before, anchor in pairwise(read):
        check_chained(before.tac, anchor)
    return read


def check_chained(previous: bytes, anchor: TopicAnchor) -> None:
    """Raise ParseError unless an anchor is chained to the hash before it."""
    if basm.chained(previous, anchor.block_hash, anchor.root) != anchor.tac:
        raise ParseError(f"the anchor at height {anchor.height:,} is not chained to the one before it")


def _anchor(entry: _AnchorJson) -> TopicAnchor:
    anchor = TopicAnchor(
        entry.block_height, internal(entry.block_hash, "blockHash"), internal(entry.basm_root, "basmRoot"),
        entry.admitted_count, internal(entry.tac, "tac"),
    )  # fmt: skip
    if (anchor.root == basm.NO_HASH) != (anchor.admitted == 0):
        raise ParseError(f"the anchor at height {anchor.height:,} counts {anchor.admitted:,} and has another root")
    return anchor


def admitted(answer: Any, anchor: TopicAnchor) -> AdmittedPage:
    """A page of the transactions that the block of an anchor admits."""
    page = convert(answer, _AdmittedListJson)
    if page.block_height != anchor.height:
        raise ParseError(f"the admitted list is not that of height {anchor.height:,}")
    if len(page.admitted) > anchor.admitted:
        raise ParseError(f"the admitted list of height {anchor.height:,} is longer than its anchor counts")
    listed = tuple(AdmittedTransaction(internal(entry.txid, "txid"), entry.block_index) for entry in page.admitted)
    return AdmittedPage(listed, page.next_offset)


class AdmittedListReader:
    """The transactions under an anchor, page by page: send `question` and `add` its answer until it is None; then read
    `whole`."""

    def __init__(self, anchor: TopicAnchor) -> None:
        self._anchor, self._listed = anchor, list[AdmittedTransaction]()
        self.question: dict[str, Any] | None = {
            "blockHeight": anchor.height, "blockHash": anchor.block_hash[::-1].hex(),
        }  # fmt: skip

    def add(self, answer: Any) -> None:
        """Take the answer to the question. Raises ParseError."""
        page = admitted(answer, self._anchor)
        self._listed += page.transactions
        is_more = page.transactions and page.next_offset == len(self._listed)
        self.question = (self.question or {}) | {"offset": page.next_offset} if is_more else None

    def whole(self) -> Sequence[AdmittedTransaction]:
        """The whole list, in block order. Raises ParseError for another list than that of the anchor."""
        check_admitted(self._anchor, self._listed)
        return self._listed


def check_admitted(anchor: TopicAnchor, listed: Sequence[AdmittedTransaction]) -> None:
    """Raise ParseError unless these are all transactions that an anchor covers, in block order."""
    if any(transaction.number >= following.number for transaction, following in pairwise(listed)):
        raise ParseError(f"the admitted list of height {anchor.height:,} is not in block order")
    if len(listed) != anchor.admitted or basm.root([transaction.txid for transaction in listed]) != anchor.root:
        raise ParseError(f"the admitted list of height {anchor.height:,} is not the one that its anchor is over")


def merkle_path(answer: Any) -> bytes:
    """The bytes of a merkle path (BRC-74)."""
    return unhex(convert(answer, _MerklePathJson).merkle_path, "merklePath")


def transactions(answer: Any, txids: Iterable[bytes]) -> dict[bytes, bytes]:
    """The delivered raw transactions by txid, to which their bytes hash."""
    requested, raws = set(txids), dict[bytes, bytes]()
    delivered = convert(answer, _TransactionsJson).transactions
    if len(delivered) > len(requested):
        raise ParseError(f"{len(delivered):,} transactions are delivered, and {len(requested):,} were requested")
    for entry in delivered:
        txid, raw = internal(entry.txid, "txid"), unhex(entry.raw_tx, "rawTx")
        if txid not in requested or sha256d(raw) != txid:
            raise ParseError(f"{entry.txid} is delivered with bytes of another transaction, or unasked")
        raws[txid] = raw
    return raws
