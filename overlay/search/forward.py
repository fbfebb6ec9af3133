"""The forward index: what of a listing's text stage two of ranking looks at, as bytes that an index keeps with it.

The terms of a listing lie in three fields (`FIELDS`), in order, as 32-bit numbers; behind them those without a position
(`analysis.Tokens.extra`). Decoding the candidates of a question is a few numpy calls, however many they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from indexer.fetching.domains import registrable
from overlay.search.analysis import Tokens, tokenize

if TYPE_CHECKING:
    from overlay.document import Document

FIELDS = ("name", "keywords", "description")
MAX_TERMS = 4_096
"""Terms of a field that stage two looks at."""
GAP = 2
"""Positions between two texts of a field: their words are no neighbours."""

_HEAD = Struct("<6H???d2I")  # lengths with and without positions, name_is_compound, verified, signed, since, sources
_HEADS = np.dtype([("sizes", "<u2", 6), ("flags", "?", 3), ("since", "<f8"), ("sources", "<u4", 2)])
_SECTIONS = 2 * len(FIELDS)
_UNCONFIRMED = -1.0
_BREAK = 0  # the number at the positions of a gap

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@lru_cache(maxsize=65_536)
def number(term: str) -> int:
    """A term as a number; two terms in four billion share one."""
    return crc32(term.encode()) or 1


def field_texts(document: Document) -> tuple[list[str], list[str], list[str]]:
    """The texts of a listing by field."""
    keywords = list(document.tags)
    texts = [document.description]
    for skill in document.skills:
        keywords += dict.fromkeys((skill.name or skill.id, skill.id))
        keywords += skill.tags
        texts += (skill.description, *skill.examples)
    return [document.name], keywords, [*texts, *document.words]


class Analysed(NamedTuple):
    """The terms of a listing: those of the texts of each field, and all words before stemming, each once."""

    fields: tuple[list[Tokens], ...]
    surfaces: set[str]

    @classmethod
    def of(cls, document: Document) -> Analysed:
        """Analyse the texts of a listing."""
        fields = tuple([tokenize(text) for text in texts if text] for texts in field_texts(document))
        return cls(fields, {surface for texts in fields for tokens in texts for surface in tokens.surfaces})

    def terms(self) -> set[str]:
        """All index terms, each once."""
        return {term for field in range(len(FIELDS)) for term in self.field_terms(field)}

    def field_terms(self, field: int) -> Iterator[str]:
        """The terms of a field in order, then those without a position."""
        for tokens in self.fields[field]:
            yield from tokens.terms
        for tokens in self.fields[field]:
            yield from tokens.extra


def encode(analysed: Analysed, document: Document) -> bytes:
    """What stage two looks at: the terms, and what static rank is made of."""
    positioned, extra = [], []
    for texts in analysed.fields:
        numbers: list[int] = []
        for tokens in texts:
            numbers += [_BREAK] * (GAP if numbers else 0)
            numbers += map(number, tokens.terms)
        positioned.append(numbers[:MAX_TERMS])
        extra.append([number(term) for tokens in texts for term in tokens.extra][:MAX_TERMS])
    since = document.said_since
    head = _HEAD.pack(
        *map(len, positioned), *map(len, extra), _is_compound(analysed.fields[0]), document.verified, document.signed,
        _UNCONFIRMED if since is None else float(since), *_sources(document),
    )  # fmt: skip
    return head + np.array(list(chain.from_iterable((*positioned, *extra))), "<u4").tobytes()


def _sources(document: Document) -> tuple[int, int]:
    """The owner and the registrable domain of a listing as numbers, 0 for none; a domain that is verified is another
    one than the same without."""
    owner = number(document.owner) if document.owner else 0
    return owner, number(f"{registrable(document.domain)} {document.verified}") if document.domain else 0


def sources(blob: bytes) -> tuple[int, int]:
    """Who a listing is of (`diversity`)."""
    owner, domain = _HEAD.unpack_from(blob)[-2:]
    return owner, domain


def _is_compound(name: Sequence[Tokens]) -> bool:
    """Whether a name is one word with several parts (`Docs2Prompt`), which may be written together."""
    return len(name) == 1 and len(name[0].wholes) == 1 and name[0].surfaces[-1] == "".join(name[0].surfaces[:-1])


class Hits(NamedTuple):
    """Where candidates hold terms of a question, a row each: the place of the term among those of the question, the
    listing, its field, and the position there, -1 without one."""

    term: Ints
    listing: Ints
    field: Ints
    position: Ints


class Candidates(NamedTuple):
    """The forward indexes of some listings. The `terms` of all lie one after the other, in six sections each (fields
    with positions, then without) that end at `ends`. The rest are columns by listing: `lengths` (of each field),
    `name_is_compound`, `verified`, `signed`, `since` (seconds since 1970, negative: unconfirmed)."""

    terms: npt.NDArray[np.uint32]
    ends: Ints
    lengths: Ints
    name_is_compound: npt.NDArray[np.bool_]
    verified: npt.NDArray[np.bool_]
    signed: npt.NDArray[np.bool_]
    since: Floats

    @classmethod
    def decode(cls, blobs: Sequence[bytes]) -> Candidates:
        """From what `encode` packed."""
        heads = np.frombuffer(b"".join([blob[: _HEAD.size] for blob in blobs]), _HEADS)
        sizes = heads["sizes"].astype(np.int64)
        terms = np.frombuffer(b"".join([blob[_HEAD.size :] for blob in blobs]), "<u4")
        flags = heads["flags"]
        return cls(
            terms, np.cumsum(sizes), sizes[:, : len(FIELDS)], flags[:, 0], flags[:, 1], flags[:, 2], heads["since"]
        )

    def find(self, numbers: npt.NDArray[np.uint32]) -> Hits:
        """Where terms are, given in ascending order by their numbers."""
        held = np.zeros(len(self.terms), np.bool_)
        for each in numbers:  # a dozen comparisons cost less than one binary search in all terms
            held |= self.terms == each
        at = np.flatnonzero(held)
        section = np.searchsorted(self.ends, at, "right")
        starts = np.concatenate(([0], self.ends[:-1]))
        kind = section % _SECTIONS
        position = np.where(kind < len(FIELDS), at - starts[section], -1)
        return Hits(np.searchsorted(numbers, self.terms[at]), section // _SECTIONS, kind % len(FIELDS), position)
