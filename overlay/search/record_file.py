"""The records of documents: the bytes that an engine with candidates (`search.candidates`) stores for each."""

from __future__ import annotations

from itertools import accumulate
from struct import Struct
from typing import TYPE_CHECKING

from overlay.search import prices
from overlay.search.facts import is_listed
from overlay.search.forward import Analysed, encode
from overlay.search.term_dictionary import TermCounts

if TYPE_CHECKING:
    from overlay.search.document import Document

_HEAD = Struct("<4I?")  # ends of id, forward index, offers and item in the record; is_listed
LARGEST = (1 << 24) - 1


def pack(id_: str, forward: bytes, offers: bytes, item: bytes, *, is_listed: bool, words: bytes = b"") -> bytes:
    """The bytes of a record. `forward` is from `forward.encode`, `offers` from `prices.pack`; `words` are the surfaces
    of a listed document (`analysis.Tokens`), each once, separated by spaces. Raises ValueError above 16 MiB."""
    parts = (id_.encode(), forward, offers, item)
    ends = accumulate(map(len, parts), initial=_HEAD.size)
    data = b"".join((_HEAD.pack(*list(ends)[1:], is_listed), *parts, words))
    if len(data) > LARGEST:
        raise ValueError(f"the document of {id_} takes {len(data):,} bytes, more than an index holds")
    return data


def pack_document(document: Document, analysed: Analysed, changes: TermCounts) -> bytes:
    """The record of a document that is added to an index. The words of a listed one are counted in `changes`. Raises
    ValueError above 16 MiB."""
    listed = is_listed(document)
    if listed:
        changes.add(analysed.surfaces)
    words = " ".join(sorted(analysed.surfaces)).encode() if listed else b""
    forward, offers = encode(analysed, document), prices.pack(document)
    return pack(document.id, forward, offers, document.item, is_listed=listed, words=words)


class IndexRecord:
    """One stored document, as `pack` made it. Its `id` is decoded at once, the other members when they are read: most
    candidates of a search are not shown."""

    __slots__ = ("_data", "_head", "id")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._head: tuple[int, int, int, int, bool] = _HEAD.unpack_from(data)
        self.id: str = data[_HEAD.size : self._head[0]].decode()

    @property
    def is_listed(self) -> bool:
        """Whether its words are counted in the term dictionary."""
        return self._head[4]

    @property
    def forward(self) -> bytes:
        """The encoded forward index."""
        return self._data[self._head[0] : self._head[1]]

    @property
    def offers(self) -> bytes:
        """The packed offers."""
        return self._data[self._head[1] : self._head[2]]

    @property
    def item(self) -> bytes:
        """The item (UTF-8 JSON object)."""
        return self._data[self._head[2] : self._head[3]]

    @property
    def words(self) -> list[str]:
        """The words of a listed document, each once."""
        return self._data[self._head[3] :].decode().split()
