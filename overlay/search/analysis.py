"""Text analysis: text in any script to index terms, the same for listings and for queries.

Words are compared after Unicode compatibility folding (NFKD: full-width and ligatures), without accents, vowel points,
tatweel and invisible characters, case folded. `web_search`, `node.js` and `getDexChart` yield their parts and also the
joined whole. Han, kana and hangul, written without spaces, yield single characters and pairs. English words are stemmed
(Snowball's English stemmer, after Porter, Program 14(3), 1980), and a few abbreviations are expanded (`k8s`, `db`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from Stemmer import Stemmer

MAX_WORD = 64  # characters; longer words are truncated, in listings and queries alike
MAX_PARTS = 8  # a compound of more parts is a sentence or an id, not a name

_CJK = "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3040-\u30fa\u30fc-\u30ff\u3105-\u312f\u3131-\u318e"
_CJK += (
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Python's \w leaves out the vowel signs of Indic and South-East Asian scripts, which are parts of their words.
_SIGNS = "\u0900-\u0963\u0966-\u0dff\u0e31\u0e34-\u0e4e\u0eb1\u0eb4-\u0ece\u0f71-\u0f87\u102b-\u103e\u17b4-\u17d3"
_LETTER = rf"(?:[^\W_]|[{_SIGNS}])"
_COMPOUND = re.compile(rf"{_LETTER}+(?:[-_.\u2010\u2011·]{_LETTER}+)*")
_ASCII_COMPOUND = re.compile(r"[A-Za-z0-9]+(?:[-_.][A-Za-z0-9]+)*")
JOINER = re.compile(r"[-_.\u2010\u2011·]")
"""The separators between the segments of a compound."""
_RUN = re.compile(f"([{_CJK}]+)")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s\b)[a-z])")
_DIGIT = re.compile(r"\d")
_LONGEST_CAMEL = 40
_SHORTEST_ID = 16
_LONGEST_PLAIN = 24
_FEWEST_LETTERS = 5
_HEXADECIMAL = "abcdef0123456789"

_SPECIAL = str.maketrans(
    {
        "ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "ħ": "h", "Ħ": "H", "ı": "i",
        "þ": "th", "Þ": "Th", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ŧ": "t", "Ŧ": "T",
        "ـ": None, "ى": "ي", "ة": "ه", "ی": "ي", "ک": "ك", "ٱ": "ا",
        "'": None, "’": None, "ʼ": None, "‘": None, "＇": None,
    }
)  # fmt: skip


class Compound(NamedTuple):
    """A word of a query: as typed, its parts, and (if there are two or more) the parts joined, all folded."""

    written: str
    parts: tuple[str, ...]
    whole: str | None


class Tokens(NamedTuple):
    """The index terms of a text. `terms` are in order, one per position: the stems of words, single CJK characters.
    `pairs` (of neighbouring CJK characters) and `wholes` (joined compounds) have no position. `surfaces` are all of
    them before stemming: the words that completions and corrections propose."""

    terms: tuple[str, ...]
    pairs: tuple[str, ...]
    wholes: tuple[str, ...]
    surfaces: tuple[str, ...]

    def sequences(self) -> list[str]:
        """The terms in order, separated by spaces, for phrase search; then each joined compound. Empty for a text
        without words."""
        return [" ".join(self.terms), *self.wholes] if self.terms else []

    @property
    def extra(self) -> tuple[str, ...]:
        """The terms without a position."""
        return self.pairs + self.wholes


_NO_TOKENS = Tokens((), (), (), ())


def tokenize(text: str) -> Tokens:
    """The index terms of a text, in order, with repeats."""
    compounds = list(map(_tokens_of, _compounds(text)))
    if len(compounds) == 1:
        return compounds[0]
    return Tokens(*map(tuple, map(chain.from_iterable, zip(*compounds, strict=True)))) if compounds else _NO_TOKENS


@lru_cache(maxsize=16_384)  # nine words in ten are among the commonest
def _tokens_of(compound: str) -> Tokens:
    if compound.isascii() and compound.isalnum() and (compound.islower() or compound[1:].islower()):
        word = compound.lower()[:MAX_WORD]
        return Tokens((stem(word),), (), (), (word,))
    terms: list[str] = []
    characters: list[str] = []
    pairs: list[str] = []
    parts: list[str] = []
    for segment in JOINER.split(compound):
        for part, is_cjk in _parts(segment):
            if is_cjk:
                characters += part
                pairs += (part[start : start + 2] for start in range(len(part) - 1))
                terms += part
            else:
                parts.append(part)
                terms.append(stem(part))
    whole = ["".join(parts)[:MAX_WORD]] if 1 < len(parts) <= MAX_PARTS else []
    return Tokens(tuple(terms), tuple(pairs), tuple(map(stem, whole)), (*characters, *pairs, *parts, *whole))


def words(text: str) -> Iterator[str]:
    """The words of a text before stemming, with repeats."""
    return chain.from_iterable(_tokens_of(compound).surfaces for compound in _compounds(text))


def has_digit(word: str) -> bool:
    """Whether a word contains a digit of any script."""
    return not word.isalpha() and _DIGIT.search(word) is not None


def sequences(text: str) -> list[str]:
    """The terms of a text in order, separated by spaces, for phrase search; then each joined compound. Empty for a text
    without words."""
    return tokenize(text).sequences()


def query_words(text: str) -> list[Compound]:
    """The distinct words of a query, in order.

    A CJK run of up to four characters is one word whose parts are its pairs; every pair of a longer one is a word.
    """
    by_parts: dict[tuple[str, ...], Compound] = {}
    for compound in _compounds(text):
        for word in _query_words_of(compound):
            by_parts.setdefault(word.parts, word)
    return list(by_parts.values())


@lru_cache(maxsize=16_384)
def _query_words_of(compound: str) -> tuple[Compound, ...]:
    if compound.isascii() and compound.isalpha() and compound.islower():
        return (Compound(compound, (compound[:MAX_WORD],), None),)
    compounds: list[Compound] = []
    parts: list[str] = []
    segments = JOINER.split(compound)
    for segment in segments:
        for part, is_cjk in _parts(segment):
            if is_cjk:
                compounds += (Compound("".join(grams), grams, None) for grams in _grams(part))
            else:
                parts.append(part)
    if len(parts) > MAX_PARTS:
        compounds += (Compound(part, (part,), None) for part in parts)
    elif parts:
        whole = "".join(parts)[:MAX_WORD] if len(parts) > 1 else None
        compounds.append(Compound(".".join(segments), tuple(parts), whole))
    return tuple(compounds)


def allowed_edits(written: str, word: str) -> int:
    """The number of typing errors that are corrected in a word, which is passed as typed and folded: 1 from five
    letters, 2 from nine; none in an id or a ticker.

    Ids and tickers are: up to six capitals, eight or more hexadecimal digits, more than 24 characters, and CJK. A name
    with fewer digits than letters (`things3`) is corrected by 1, in its letters alone.
    """
    is_ticker = written.isupper() and len(written) <= 6 and written.lower() != written
    if is_ticker or len(word) > _LONGEST_PLAIN or (len(word) >= 8 and not word.strip(_HEXADECIMAL)):
        return 0
    if is_spelt(word):
        return 2 if len(word) >= 9 else 1 if len(word) >= 5 else 0
    digits = len(digits_of(word))
    letters = len(word) - digits
    return int(is_correctable(word) and letters >= max(digits, _FEWEST_LETTERS))


def digits_of(word: str) -> str:
    """The digits of a word, in order."""
    return "".join(filter(str.isdigit, word))


def is_correctable(word: str) -> bool:
    """Whether typing errors are corrected in a word: it consists of letters of an alphabet, maybe with digits."""
    return is_spelt(word) or (word.isascii() and word.isalnum() and not word.isdigit())


def is_spelt(word: str) -> bool:
    """True for a word spelt in the letters of an alphabet: no digits, no CJK."""
    return word.isalpha() and (word.isascii() or not _RUN.search(word))


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """The stem of an English word (`integrate`, `integrations`: `integr`). Other words, and those of up to three
    letters, are returned unchanged."""
    fixed = _FIXED_STEMS.get(word)
    if fixed is not None:
        return fixed
    return _STEMMER.stemWord(word) if len(word) > 3 and word.isascii() and word.isalpha() else word


_STEMMER = Stemmer("english", 0)  # no cache of its own: ours is enough
_OVERSTEMMED = ("businesses", "conversion", "conversions", "customer", "customers", "general", "generic",
                "organization", "organizations", "production", "productivity", "transportation",
                "universal")  # fmt: skip
"""Words that Snowball conflates with words of another meaning: busy, conversation, custom, generate."""
_ABBREVIATIONS = {
    "k8s": "kubernetes", "db": "database", "dbs": "database", "repo": "repository", "repos": "repository",
    "js": "javascript", "img": "image", "docs": "documents", "auth": "authentication", "config": "configuration",
    "configs": "configuration", "postgresql": "postgres", "analysis": "analyze", "analyses": "analyze",
}  # fmt: skip
_FIXED_STEMS = {
    word: word.removesuffix("es") if word.endswith("sses") else word.removesuffix("s") for word in _OVERSTEMMED
}
_FIXED_STEMS["business"] = "business"
_FIXED_STEMS |= {word: _STEMMER.stemWord(word_in_full) for word, word_in_full in _ABBREVIATIONS.items()}


def fold(text: str) -> str:
    """Text without accents, invisible characters and apostrophes. Case is preserved: camelCase is split later."""
    if text.isascii():
        return text.replace("'", "")
    decomposed = unicodedata.normalize("NFKD", text.translate(_SPECIAL)).translate(_SPECIAL)
    letters = "".join(filter(_is_distinctive, decomposed))
    return unicodedata.normalize("NFC", letters).translate(_DIGITS)


@lru_cache(maxsize=8_192)
def _is_distinctive(letter: str) -> bool:
    """False for invisible format characters, and for accents and vowel points (by canonical combining class).

    Class 8 (kana voicing), 7 and 9 (nukta, virama) and those of Thai and Lao vowels stay: there they change the word.
    """
    if letter.isascii():
        return True
    kind = unicodedata.combining(letter)
    return not (10 <= kind <= 36 or kind >= 200 or kind == 1) and unicodedata.category(letter) != "Cf"


class _Digits(dict[int, int]):
    """Decimal digits of every script to ASCII, memoised."""

    def __missing__(self, code: int) -> int:
        letter = chr(code)
        self[code] = digit = ord(str(unicodedata.decimal(letter))) if letter.isdecimal() else code
        return digit


_DIGITS = _Digits()


def _compounds(text: str) -> list[str]:
    folded = fold(text)
    return compounds_of(folded).findall(folded)


def compounds_of(folded: str) -> re.Pattern[str]:
    """The pattern of compounds in a folded text."""
    return _ASCII_COMPOUND if folded.isascii() else _COMPOUND


def _parts(segment: str) -> Iterator[tuple[str, bool]]:
    """The case-folded words in a run of letters and digits, and whether each is a run of CJK."""
    for piece, cjk in pieces(segment):
        yield piece if cjk else piece.casefold()[:MAX_WORD], cjk


def pieces(segment: str) -> Iterator[tuple[str, bool]]:
    """A run of letters and digits split into words, case unchanged, and whether each is a run of CJK."""
    if not segment.isascii():
        for run in _RUN.split(segment):
            if run:
                yield run, bool(_RUN.match(run))
    elif segment.islower() or segment.isdigit() or _is_id(segment):
        yield segment, False
    else:
        for hump in _HUMP.split(segment):
            yield hump, False


def _is_id(segment: str) -> bool:
    """True for base58, base64 and hexadecimal, which only look like camelCase."""
    return len(segment) > _LONGEST_CAMEL or (len(segment) >= _SHORTEST_ID and any(map(str.isdigit, segment)))


def _grams(run: str) -> list[tuple[str, ...]]:
    pairs = [run[start : start + 2] for start in range(len(run) - 1)]
    if not pairs:
        return [(run,)]
    return [tuple(pairs)] if len(pairs) <= 3 else [(pair,) for pair in pairs]
