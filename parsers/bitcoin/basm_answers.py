"""Answers of another overlay about its anchors (BRC-136): strangers' JSON, into records.

Hashes are hex in display order there, and internal byte order here. Functions raise ParseError naming what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from parsers.bitcoin import basm
from parsers.bitcoin.basm import AdmittedTransaction, TopicAnchor
from parsers.bitcoin.tx import sha256d
from parsers.errors import ParseError

TOPIC = "tm_agent_registry"
ANCHORS_AT_ONCE, TXIDS_AT_ONCE = 1_024, 1_000
"""Anchors, and txids, in one request, at most."""

MAX_HEIGHT = 2**31 - 2
_DIGITS = frozenset("0123456789abcdef")


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


def tip(answer: Any) -> AnchorTip:
    """The newest anchor."""
    height = _whole(answer, "blockHeight", lowest=-1)
    chain, more = answer.get("chain"), {}
    for name in ("genesisHeight", "undecidedFrom"):
        more[name] = _whole(answer, name) if answer.get(name) is not None else None
    return AnchorTip(
        height, _hash(answer, "tac"), more["genesisHeight"], chain if isinstance(chain, str) else None,
        answer.get("complete") is not False, more["undecidedFrom"],
    )  # fmt: skip


def anchors(answer: Any, first: int, last: int) -> list[TopicAnchor]:
    """The anchors of consecutive heights from `first` on, up to `last` at most, each chained to the one before."""
    read = [_anchor(entry) for entry in _list(answer, "anchors", ANCHORS_AT_ONCE)]
    if [anchor.height for anchor in read] != [*range(first, first + len(read))] or len(read) > last - first + 1:
        raise ParseError(f"the anchors are not those from height {first:,} to {last:,}")
    for before, anchor in pairwise(read):
        check_chained(before.tac, anchor)
    return read


def check_chained(previous: bytes, anchor: TopicAnchor) -> None:
    """Raise ParseError unless an anchor is chained to the hash before it."""
    if basm.chained(previous, anchor.block_hash, anchor.root) != anchor.tac:
        raise ParseError(f"the anchor at height {anchor.height:,} is not chained to the one before it")


def _anchor(entry: Any) -> TopicAnchor:
    anchor = TopicAnchor(
        _whole(entry, "blockHeight"), _hash(entry, "blockHash"), _hash(entry, "basmRoot"),
        _whole(entry, "admittedCount"), _hash(entry, "tac"),
    )  # fmt: skip
    if (anchor.root == basm.NO_HASH) != (anchor.admitted == 0):
        raise ParseError(f"the anchor at height {anchor.height:,} counts {anchor.admitted:,} and has another root")
    return anchor


def admitted(answer: Any, anchor: TopicAnchor) -> AdmittedPage:
    """A page of the transactions that the block of an anchor admits."""
    if _whole(answer, "blockHeight") != anchor.height:
        raise ParseError(f"the admitted list is not that of height {anchor.height:,}")
    listed = tuple(
        AdmittedTransaction(_hash(entry, "txid"), _whole(entry, "blockIndex"))
        for entry in _list(answer, "admitted", anchor.admitted)
    )
    offset = _whole(answer, "nextOffset") if answer.get("nextOffset") is not None else None
    return AdmittedPage(listed, offset)


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
    return _bytes(answer, "merklePath")


def transactions(answer: Any, txids: Iterable[bytes]) -> dict[bytes, bytes]:
    """The delivered raw transactions by txid, to which their bytes hash."""
    requested, raws = set(txids), {}
    for entry in _list(answer, "transactions", len(requested)):
        txid, raw = _hash(entry, "txid"), _bytes(entry, "rawTx")
        if txid not in requested or sha256d(raw) != txid:
            raise ParseError(f"{txid[::-1].hex()} is delivered with bytes of another transaction, or unasked")
        raws[txid] = raw
    return raws


def _whole(answer: Any, name: str, lowest: int = 0) -> int:
    value = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= MAX_HEIGHT:
        raise _unreadable(name)
    return value


def _text(answer: Any, name: str) -> str:
    value = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(value, str) or len(value) % 2 or not _DIGITS.issuperset(value):
        raise _unreadable(name)
    return value


def _hash(answer: Any, name: str) -> bytes:
    digest = bytes.fromhex(_text(answer, name))[::-1]
    if len(digest) != 32:
        raise _unreadable(name)
    return digest


def _bytes(answer: Any, name: str) -> bytes:
    return bytes.fromhex(_text(answer, name))


def _list(answer: Any, name: str, limit: int) -> list[Any]:
    value = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(value, list) or len(value) > limit:
        raise _unreadable(name)
    return value


def _unreadable(name: str) -> ParseError:
    return ParseError(f"the answer's {name} is missing or cannot be read")
