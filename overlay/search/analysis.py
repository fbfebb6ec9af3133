"""The analyser: text in any script to index terms, the same for listings and for questions.

Words are compared after Unicode compatibility folding (NFKD: full-width and ligatures), without accents, vowel points,
tatweel and invisible characters, case folded. `web_search`, `node.js` and `getDexChart` give their parts and also the
whole, written together. Han, kana and hangul, written without spaces, give single characters and pairs. The
forms of an English word meet in a stem (Snowball's English stemmer, after Porter, Program 14(3), 1980), and so do a few
short forms of the trade and what they stand for (`k8s`, `db`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from Stemmer import Stemmer

MAX_WORD = 64  # characters; longer words are cut, on both sides alike
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
    """A word of a question: as typed, its parts, and (if it has several) the whole written together, all folded."""

    written: str
    parts: tuple[str, ...]
    whole: str | None


class Tokens(NamedTuple):
    """The index terms of a text. `terms` are in order, one a position: the stems of words, single CJK characters.
    `pairs` (of neighbouring CJK characters) and `wholes` (compounds written together) have no position. `surfaces` are
    all of them before stemming, as they are completed and corrected."""

    terms: tuple[str, ...]
    pairs: tuple[str, ...]
    wholes: tuple[str, ...]
    surfaces: tuple[str, ...]

    def sequences(self) -> list[str]:
        """The terms in order, separated by spaces, as phrases are compared; after it each compound written together.
        Empty for a text without words."""
        return [" ".join(self.terms), *self.wholes] if self.terms else []

    @property
    def extra(self) -> tuple[str, ...]:
        """The terms without a position."""
        return self.pairs + self.wholes


def tokenize(text: str) -> Tokens:
    """The index terms of a text, in order, with repeats."""
    compounds = list(map(_tokens_of, _compounds(text)))
    if len(compounds) == 1:
        return compounds[0]
    terms: list[str] = []
    pairs: list[str] = []
    wholes: list[str] = []
    surfaces: list[str] = []
    for each in compounds:
        terms += each.terms
        pairs += each.pairs
        wholes += each.wholes
        surfaces += each.surfaces
    return Tokens(tuple(terms), tuple(pairs), tuple(wholes), tuple(surfaces))


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
                pairs += (part[at : at + 2] for at in range(len(part) - 1))
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
    return not word.isalpha() and bool(_DIGIT.search(word))


def sequences(text: str) -> list[str]:
    """The terms of a text in order, separated by spaces, as phrases are compared; after it each compound written
    together. Empty for a text without words."""
    return tokenize(text).sequences()


def query_words(text: str) -> list[Compound]:
    """The words of a question, in order, each once.

    A CJK run of up to four characters is one word whose parts are its pairs; every pair of a longer one is a word.
    """
    found: dict[tuple[str, ...], Compound] = {}
    for compound in _compounds(text):
        for word in _query_words_of(compound):
            found.setdefault(word.parts, word)
    return list(found.values())


@lru_cache(maxsize=16_384)
def _query_words_of(compound: str) -> tuple[Compound, ...]:
    if compound.isascii() and compound.isalpha() and compound.islower():
        return (Compound(compound, (compound[:MAX_WORD],), None),)
    found: list[Compound] = []
    parts: list[str] = []
    segments = JOINER.split(compound)
    for segment in segments:
        for part, is_cjk in _parts(segment):
            if is_cjk:
                found += (Compound("".join(grams), grams, None) for grams in _grams(part))
            else:
                parts.append(part)
    if len(parts) > MAX_PARTS:
        found += (Compound(part, (part,), None) for part in parts)
    elif parts:
        whole = "".join(parts)[:MAX_WORD] if len(parts) > 1 else None
        found.append(Compound(".".join(segments), tuple(parts), whole))
    return tuple(found)


def allowed_edits(written: str, word: str) -> int:
    """How many typing errors are corrected in a word, given as typed and folded: 1 from five letters, 2 from nine; none
    in an id or a ticker.

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
    """Whether a typing error may be looked for in a word: it consists of letters of an alphabet, maybe with digits."""
    return is_spelt(word) or (word.isascii() and word.isalnum() and not word.isdigit())


def is_spelt(word: str) -> bool:
    """True for a word spelt in the letters of an alphabet: no digits, no CJK."""
    return word.isalpha() and (word.isascii() or not _RUN.search(word))


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The form under which those of an English word meet (`integrate`, `integrations`); all others stand for
    themselves, and so do those of up to three letters."""
    known = _KNOWN.get(word)
    if known is not None:
        return known
    return _STEMMER.stemWord(word) if len(word) > 3 and word.isascii() and word.isalpha() else word


_STEMMER = Stemmer("english", 0)  # its own cache is of no use beside ours
_APART = ("businesses", "conversion", "conversions", "customer", "customers", "general", "generic", "organization",
          "organizations", "production", "productivity", "transportation", "universal")  # fmt: skip
"""Words that Snowball brings together with others that mean something else: busy, conversation, custom, generate."""
_MEANT = {
    "k8s": "kubernetes", "db": "database", "dbs": "database", "repo": "repository", "repos": "repository",
    "js": "javascript", "img": "image", "docs": "documents", "auth": "authentication", "config": "configuration",
    "configs": "configuration", "postgresql": "postgres", "analysis": "analyze", "analyses": "analyze",
}  # fmt: skip
_KNOWN = {word: word.removesuffix("es") if word.endswith("sses") else word.removesuffix("s") for word in _APART}
_KNOWN["business"] = "business"
_KNOWN |= {word: _STEMMER.stemWord(meant) for word, meant in _MEANT.items()}


def fold(text: str) -> str:
    """Text without what does not tell words apart, apart from case, which still has to show the humps of camelCase."""
    if text.isascii():
        return text.replace("'", "")
    decomposed = unicodedata.normalize("NFKD", text.translate(_SPECIAL)).translate(_SPECIAL)
    kept = "".join(filter(_told_apart, decomposed))
    return unicodedata.normalize("NFC", kept).translate(_DIGITS)


@lru_cache(maxsize=8_192)
def _told_apart(letter: str) -> bool:
    """False for invisible format characters, and for accents and vowel points (by canonical combining class).

    Class 8 (kana voicing), 7 and 9 (nukta, virama) and those of Thai and Lao vowels stay: there they change the word.
    """
    if letter.isascii():
        return True
    kind = unicodedata.combining(letter)
    return not (10 <= kind <= 36 or kind >= 200 or kind == 1) and unicodedata.category(letter) != "Cf"


class _Digits(dict[int, int]):
    """Decimal digits of every script to ASCII, looked up once each."""

    def __missing__(self, code: int) -> int:
        letter = chr(code)
        self[code] = found = ord(str(unicodedata.decimal(letter))) if letter.isdecimal() else code
        return found


_DIGITS = _Digits()


def _compounds(text: str) -> list[str]:
    folded = fold(text)
    return compounds_of(folded).findall(folded)


def compounds_of(folded: str) -> re.Pattern[str]:
    """What finds the compounds of a folded text."""
    return _ASCII_COMPOUND if folded.isascii() else _COMPOUND


def _parts(segment: str) -> Iterator[tuple[str, bool]]:
    """The case-folded words in a run of letters and digits, and whether each is a run of CJK."""
    for piece, cjk in pieces(segment):
        yield piece if cjk else piece.casefold()[:MAX_WORD], cjk


def pieces(segment: str) -> Iterator[tuple[str, bool]]:
    """A run of letters and digits cut into words as they stand, and whether each is a run of CJK."""
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
    """True for what only looks like camelCase: base58, base64, hexadecimal."""
    return len(segment) > _LONGEST_CAMEL or (len(segment) >= _SHORTEST_ID and any(map(str.isdigit, segment)))


def _grams(run: str) -> list[tuple[str, ...]]:
    pairs = [run[at : at + 2] for at in range(len(run) - 1)]
    if not pairs:
        return [(run,)]
    return [tuple(pairs)] if len(pairs) <= 3 else [(pair,) for pair in pairs]
