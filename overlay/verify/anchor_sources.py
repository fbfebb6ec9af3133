"""Where anchors of the registry's topic (BRC-136) are read from: another overlay over HTTP, or the local store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from parsers.bitcoin import basm_answers, bump
from parsers.bitcoin.basm import AdmittedTransaction, TopicAnchor
from parsers.bitcoin.basm_answers import TXIDS_AT_ONCE, AnchorTip
from parsers.errors import ParseError

if TYPE_CHECKING:
    from overlay.listings.topic_records import TopicRecords

MAX_RAW_BYTES = 64 << 20
"""Bytes of transactions of the local store in memory at a time."""

_T = TypeVar("_T")


class ContradictionError(Exception):
    """An overlay's answers contradict themselves or the chain; the message names it and the contradiction."""

    def __init__(self, source: AnchorSource, message: str) -> None:
        super().__init__(f"{source.name}: {message}")
        self.source = source


class AnchorSource(Protocol):
    """The anchors of one overlay. Methods raise ContradictionError."""

    name: str

    def tip(self) -> AnchorTip:
        """The newest anchor."""
        ...

    def between(self, first: int, last: int) -> Sequence[TopicAnchor]:
        """The anchors of consecutive heights from `first` on, each chained to the one before; fewer than up to `last`
        where there are no more blocks. At most `basm_answers.ANCHORS_AT_ONCE` at once."""
        ...

    def admitted(self, anchor: TopicAnchor) -> Sequence[AdmittedTransaction]:
        """The transactions that an anchor covers, in block order."""
        ...

    def path(self, height: int, txid: bytes) -> bytes:
        """The merkle path (BRC-74) of a transaction that the block at a height admits."""
        ...

    def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """The delivered bytes of these transactions: not of all, but of one at least where the source has any."""
        ...


class RemoteAnchors:
    """The anchors of an overlay: `post` sends a JSON object to one of its routes and gives the answer."""

    def __init__(self, name: str, post: Callable[[str, Mapping[str, Any]], Any]) -> None:
        self.name, self._post = name, post

    def tip(self) -> AnchorTip:
        """The newest anchor."""
        return self._read("/requestTopicAnchorTip", {}, basm_answers.tip)

    def between(self, first: int, last: int) -> Sequence[TopicAnchor]:
        """A page of anchors."""
        question = {"fromHeight": first, "toHeight": last}
        return self._read(
            "/requestTopicAnchorRange", question, lambda answer: basm_answers.anchors(answer, first, last)
        )

    def admitted(self, anchor: TopicAnchor) -> Sequence[AdmittedTransaction]:
        """The transactions that an anchor covers, read page by page."""
        listed = basm_answers.AdmittedListReader(anchor)
        while listed.question is not None:
            self._read("/requestAdmittedList", listed.question, listed.add)
        return self._checked(listed.whole)

    def path(self, height: int, txid: bytes) -> bytes:
        """The merkle path of a transaction."""
        question = {"blockHeight": height, "txids": [txid[::-1].hex()]}
        return self._read("/requestCompoundMerklePath", question, basm_answers.merkle_path)

    def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Transactions, as many as one request may name."""
        requested = list(txids)[:TXIDS_AT_ONCE]
        question = {"txids": [txid[::-1].hex() for txid in requested]}
        return self._read(
            "/requestRawTransactions", question, lambda answer: basm_answers.transactions(answer, requested)
        )

    def _read(self, path: str, question: Mapping[str, Any], read: Callable[[Any], _T]) -> _T:
        answer = self._post(path, question)
        return self._checked(lambda: read(answer))

    def _checked(self, read: Callable[[], _T]) -> _T:
        try:
            return read()
        except ParseError as error:
            raise ContradictionError(self, str(error)) from None


class StoreAnchors:
    """The anchors of the local store."""

    name = "the local index"

    def __init__(self, topic: TopicRecords, chain: str, caip2: str) -> None:
        self._topic, self._chain, self._caip2 = topic, chain, caip2

    def tip(self) -> AnchorTip:
        """The newest anchor."""
        return self._topic.anchor_tip(self._chain, self._caip2)

    def between(self, first: int, last: int) -> Sequence[TopicAnchor]:
        """A page of anchors."""
        return self._topic.anchors.between(self._chain, first, last)

    def admitted(self, anchor: TopicAnchor) -> Sequence[AdmittedTransaction]:
        """The transactions that an anchor covers."""
        of_block = self._topic.anchors.admitted(self._chain, anchor.height)
        if of_block is None or of_block.block_hash != anchor.block_hash:
            raise ContradictionError(self, f"at height {anchor.height:,} there is another block now")
        return of_block.transactions

    def path(self, height: int, txid: bytes) -> bytes:
        """The merkle path of a transaction."""
        path = self._topic.merkle_paths(self._chain, height, [txid]).get(txid)
        if path is None:
            raise ContradictionError(self, f"there is no merkle path of {txid[::-1].hex()}")
        return path

    def transactions(self, txids: Iterable[bytes]) -> dict[bytes, bytes]:
        """Transactions, as many as have room."""
        mined = self._topic.mined(self._chain, txids, MAX_RAW_BYTES)
        return {txid: proof.raw for txid, proof in mined.items()}


def merkle_root(source: AnchorSource, height: int, txid: bytes) -> bytes:
    """The root of a merkle path from a transaction of the block at a height. Raises ContradictionError."""
    try:
        path = bump.read(source.path(height, txid))
        root = path.root(txid)
    except ParseError as error:
        raise ContradictionError(source, f"the merkle path of {txid[::-1].hex()}: {error}") from None
    if path.height != height:
        raise ContradictionError(source, f"the merkle path of {txid[::-1].hex()} is of height {path.height:,}")
    return root
