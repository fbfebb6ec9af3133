"""The forward index: the terms of a listing as the ranker reads them, packed into bytes and stored with the
document.

Terms are 32-bit numbers in three fields (`FIELDS`): those with a position in order, then those without one
(`analysis.Tokens.extra`). All candidates of a query are decoded by a few numpy calls.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import Protocol
from zlib import crc32

import numpy as np

from overlay.search.analysis import Tokens, compounds, compounds_of_joined, joined, stem, tokens_of
from overlay.search.lexicon import ENDS, FIELD_END, TEXT_END, Hashes, Lexicon, lexicon
from overlay.search.ranker import (
    COMPOUND_FLAG,
    DEPRECATED_FLAG,
    LOST_FLAG,
    NAME_WORDS,
    NOT_RUNNABLE_FLAG,
    SIGNED_FLAG,
    VERIFIED_FLAG,
    Forwards,
)
from parsers.cards import Skill


class Described(Protocol):
    """An object with the texts of a listing: an agent, a server, a document."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def tags(self) -> tuple[str, ...]: ...
    @property
    def skills(self) -> tuple[Skill, ...]: ...


class Indexed(Described, Protocol):
    """The members of a document (`overlay.search.document.Document`) that are needed here."""

    @property
    def words(self) -> tuple[str, ...]: ...
    @property
    def analysed(self) -> Analysed | None: ...
    @property
    def source(self) -> int: ...
    @property
    def verified(self) -> bool: ...
    @property
    def signed(self) -> bool: ...
    @property
    def deprecated(self) -> bool: ...
    @property
    def lost(self) -> bool: ...
    @property
    def not_runnable(self) -> bool: ...
    @property
    def text_since(self) -> int | None: ...


FIELDS = ("name", "keywords", "description")
MAX_TERMS = 4_096
"""Terms of a field that the re-ranker reads."""
GAP = 2
"""Positions between two texts of a field: their words are not neighbours."""

_HEAD = Struct("<6H6?dQ")
"""Lengths with and without positions, name_is_compound, verified, signed, deprecated, lost, not_runnable, since,
source."""
_HEADS = np.dtype([("sizes", "<u2", 6), ("flags", "?", 6), ("since", "<f8"), ("source", "<u8")])
_FLAGS = (COMPOUND_FLAG, VERIFIED_FLAG, SIGNED_FLAG, DEPRECATED_FLAG, LOST_FLAG, NOT_RUNNABLE_FLAG)
_UNCONFIRMED = -1.0
_OWNED_NAME = re.compile(r"@?(?P<owner>[\w.~-]+)/(?P<name>[\w.~-]+)")
"""`owner/repo`, `@scope/name` and `io.github.owner/name`: the owner does not say what a listing does."""
_BREAK = 0  # the number at the positions of a gap


@lru_cache(maxsize=16_384)
def number(term: str) -> int:
    """A term as a 32-bit number (CRC-32, never 0)."""
    return crc32(term.encode()) or 1


class Analysed:
    """The texts of a listing as numbers of compounds (`analysis.compounds`): the compounds of each text of each field,
    with `TEXT_END` between texts and `FIELD_END` after each field."""

    def __init__(self, by_compound: Lexicon, compounds: Iterable[str]) -> None:
        """The compounds and `ENDS` of the texts in order."""
        self._lexicon, self._numbers = by_compound, array("I", map(by_compound.__getitem__, compounds))

    def numbers(self, by_compound: Lexicon) -> array[int]:
        """The numbers in a lexicon."""
        if by_compound is self._lexicon:
            return self._numbers
        return array("I", map(by_compound.__getitem__, map(self._lexicon.compounds.__getitem__, self._numbers)))

    @property
    def compounds(self) -> list[list[list[str]]]:
        """The compounds of each text of each field. A field without texts has one that is empty."""
        fields: list[list[list[str]]] = [[[]]]
        for number in self._numbers:
            if number == FIELD_END:
                fields.append([[]])
            elif number == TEXT_END:
                fields[-1].append([])
            else:
                fields[-1][-1].append(self._lexicon.compounds[number])
        return fields[:-1]

    @property
    def surfaces(self) -> set[str]:
        """The distinct words before stemming."""
        texts = chain.from_iterable(self.compounds)
        return set(chain.from_iterable(tokens_of(compound).surfaces for compound in chain.from_iterable(texts)))

    def plain_words(self) -> tuple[list[str], Hashes]:
        """The distinct words without digits, and their hashes (`lexicon.word_hash`)."""
        return self._lexicon.plain_words(self._numbers)

    def _name(self) -> list[str]:
        name = self._numbers[: self._numbers.index(FIELD_END)]
        return list(map(self._lexicon.compounds.__getitem__, name))

    @property
    def name_is_compound(self) -> bool:
        """Whether the name is one compound (`Docs2Prompt`), which a query may write as one word."""
        name = self._name()
        if len(name) != 1:
            return False
        tokens = tokens_of(name[0])
        return len(tokens.wholes) == 1 and tokens.surfaces[-1] == "".join(tokens.surfaces[:-1])

    def field(self, number: int) -> list[Tokens]:
        """The index terms of each text of a field."""
        return list(map(joined, self.compounds[number]))

    @property
    def fields(self) -> tuple[list[Tokens], ...]:
        """The index terms of each text by field."""
        return tuple(map(self.field, range(len(FIELDS))))

    @classmethod
    def of(cls, document: Indexed) -> Analysed:
        """The analysed texts of a document."""
        return document.analysed or cls.read(document, document.words)

    @classmethod
    def read(cls, card: Described, more: Iterable[str]) -> Analysed:
        """Analyse the texts of a listing; `more` are texts besides name, description, tags and skills. Of equal texts
        of a field one counts: repeated skills add nothing. The owner in a name is a keyword."""
        owned = _OWNED_NAME.fullmatch(card.name)
        name = owned["name"] if owned else card.name
        keywords = [*([owned["owner"]] if owned else ()), *card.tags]
        texts = [card.description]
        for skill in card.skills:
            keywords += (skill.name, skill.id, *skill.tags)
            texts += (skill.description, *skill.examples)
        texts += (*more, *([card.name] if owned else ()))  # as a phrase
        fields = [list(dict.fromkeys(filter(None, group))) for group in ([name], keywords, texts)]
        return cls(lexicon(), _joined_compounds(fields))

    def terms(self) -> set[str]:
        """The distinct index terms."""
        return set(map(stem, self.surfaces))

    def field_terms(self, field: int) -> list[str]:
        """The terms of a field in order, then its terms without a position: the form in which engines select candidates
        by them. Terms of the name come once, and only the first `NAME_WORDS` of them; the others are in the
        description."""
        texts = self.field(field)
        terms = [term for tokens in texts for term in tokens.terms]
        extra = [term for tokens in texts for term in tokens.extra]
        if FIELDS[field] == "name":
            return list(dict.fromkeys(terms[:NAME_WORDS] + extra[:NAME_WORDS]))
        if FIELDS[field] == "description":
            (name,) = self.field(0)
            extra += name.terms[NAME_WORDS:] + name.extra[NAME_WORDS:]
        return terms + extra

    def sequences(self) -> list[str]:
        """The term sequences of each text for phrase search (`analysis.Tokens.sequences`)."""
        return [sequence for texts in self.fields for tokens in texts for sequence in tokens.sequences()]


def _joined_compounds(fields: Sequence[Sequence[str]]) -> list[str]:
    """The compounds of the texts of each field, with `ENDS`."""
    text_end, field_end = ENDS
    joined_text = "".join(text_end.join(texts) + field_end for texts in fields)
    ends = sum(max(0, len(texts) - 1) for texts in fields)
    if joined_text.isascii() and (joined_text.count(text_end), joined_text.count(field_end)) == (ends, len(fields)):
        return compounds_of_joined(joined_text)
    results: list[str] = []
    for texts in fields:
        for number, text in enumerate(texts):
            results += [text_end] * (number > 0) + compounds(text)
        results.append(field_end)
    return results


def encode(analysed: Analysed, document: Indexed) -> bytes:
    """The forward index of a document: its terms, and the inputs of static rank and diversity."""
    positioned, extra = [], []
    for texts in analysed.fields:
        numbers: list[int] = []
        for tokens in texts:
            numbers += [_BREAK] * (GAP if numbers else 0)
            numbers += map(number, tokens.terms)
        positioned.append(numbers[:MAX_TERMS])
        extra.append([number(term) for tokens in texts for term in tokens.extra][:MAX_TERMS])
    since = document.text_since
    head = _HEAD.pack(
        *map(len, positioned), *map(len, extra), analysed.name_is_compound, document.verified, document.signed,
        document.deprecated, document.lost, document.not_runnable,
        _UNCONFIRMED if since is None else float(since), document.source,
    )  # fmt: skip
    return head + Struct(f"<{sum(map(len, positioned)) + sum(map(len, extra))}I").pack(*chain(*positioned, *extra))


def source_of(blob: bytes) -> int:
    """The number of the source in an encoded forward index, 0 for none."""
    *_, source = _HEAD.unpack_from(blob)
    return int(source)


def decoded(blobs: Sequence[bytes]) -> Forwards:
    """The arrays of blobs that `encode` returned, as `ranker.rank` reads them."""
    heads = np.frombuffer(b"".join([blob[: _HEAD.size] for blob in blobs]), _HEADS)
    ends = heads["sizes"].cumsum(1, np.uint32)
    return Forwards.of(
        np.concatenate(([0], ends[:, -1].cumsum(dtype=np.int64))),
        ends.reshape(-1),
        np.frombuffer(b"".join([blob[_HEAD.size :] for blob in blobs]), "<u4"),
        heads["flags"] @ np.array(_FLAGS, np.uint8),
        heads["since"].astype(np.float64),
    )
