"""Text analysis: text in any script to index terms, the same for listings and for queries.

Words are compared after Unicode compatibility folding (NFKD: full-width and ligatures), without accents, vowel points,
tatweel and invisible characters, case folded, traditional Chinese as simplified. `web_search`, `getDexChart`, `GPT 4`
and `1,000,000` yield their parts and also the joined whole, `l'avion` the word without its article. The symbols of
`C++`, `C#` and `.NET` belong to the word. An emoji is a word. Scripts without spaces (Han, kana, hangul; Thai, Lao,
Khmer, Burmese by clusters of a letter and its signs) yield characters and pairs. English words are stemmed (Snowball's
English stemmer, after Porter, Program 14(3), 1980), Arabic ones lose their article, and a few abbreviations are
expanded (`k8s`, `db`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

from Stemmer import Stemmer

from overlay.search.memo import memoized

MAX_WORD = 64  # characters; longer words are truncated, in listings and queries alike
MAX_PARTS = 8  # a compound of more parts is a sentence or an id, not a name

_CJK = "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3040-\u30fa\u30fc-\u30ff\u3105-\u312f\u3131-\u318e"
_CJK += (
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Python's \w leaves out the vowel signs of Indic and South-East Asian scripts, which are parts of their words.
_SIGNS = "\u0900-\u0963\u0966-\u0dff\u0e31\u0e34-\u0e4e\u0eb1\u0eb4-\u0ece\u0f71-\u0f87\u102b-\u103e"
_SIGNS += "\u1056-\u108f\u17b4-\u17d3"
_UNSPACED = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u1780-\u17d3\u17dc\u17dd"
_LETTER = rf"(?:[^\W_]|[{_SIGNS}])"
EMOJI = "\u231a\u231b\u23e9-\u23fa\u25b6\u25c0\u2600-\u27bf\u2b05-\u2b55\U0001f000-\U0001f3fa\U0001f400-\U0001faff"
"""The symbols that are words, as the inside of a character class."""
QUOTES = '"\u201c\u201d\u201e\u201f\uff02'
_EMOJI = f"[\U0001f1e6-\U0001f1ff]{{2}}|[{EMOJI}]"  # a flag is a pair of letters
_GROUP = r"(?=\d{3}(?!\d))"
_NUMBER = rf"(?=\d{{1,5}}(?!\d|[,._ ]{_GROUP}))"
_SHORT = "|".join(rf"(?<=(?<![\w./:-])[A-Za-z]{{{letters}}}.)" for letters in (1, 2, 3))
_SHORT = rf"(?:{_SHORT})(?=[A-Za-z]{{1,3}}(?![\w/]|\.\w))"


def _compound(letter: str, joiners: str) -> str:
    """The pattern of words with joiners between them, of a word and a number (`GPT 4`), of groups of digits (`10,000`),
    of two short words (`CI/CD`, `Q&A`), and of a word with its symbols (`C++`, `C#`)."""
    space = rf" (?=\d)(?:(?<={letter} )(?<!\d ){_NUMBER}|(?<=\d ){_GROUP})"
    joined = rf"[{joiners}]|{space}|,(?<=\d,){_GROUP}|[/&]{_SHORT}"
    return rf"{letter}+(?:(?:{joined}){letter}+)*(?:[+#](?<=[A-Za-z].)(?:(?<=\+)\+|(?!\w)))?"


_DOT = r"\.(?<![\w.]\.)(?=[A-Za-z])"
_DOTTED = re.compile(_DOT)
_JOINERS = r"-_.'\u2010\u2011·"
_JOINER = re.compile(rf"(?<!^)[{_JOINERS} ,/&]")
_ASCII_COMPOUND = re.compile(_compound("[A-Za-z0-9]", "-_.'"))
_COMPOUND = re.compile(rf"{_compound(_LETTER, _JOINERS)}|{_EMOJI}")
_ASCII_WITH_DOT = re.compile(f"(?:{_DOT})?{_ASCII_COMPOUND.pattern}")
_JOINED = re.compile(f"{_ASCII_COMPOUND.pattern}|[\0\1]")
_JOINED_WITH_DOT = re.compile(f"{_ASCII_WITH_DOT.pattern}|[\0\1]")
_WITH_DOT = re.compile(f"(?:{_DOT})?{_COMPOUND.pattern}")
_SYMBOLS = ".+#"
_RUN = re.compile(f"([{_CJK}{_UNSPACED}]+)")
_CLUSTER = re.compile(  # a leading vowel, a letter, and the signs and stacked letters that belong to it
    "[\u0e40-\u0e44\u0ec0-\u0ec4]?.(?:[\u0e30-\u0e3a\u0e45\u0e47-\u0e4e\u0eb0-\u0ebd\u0ec8-\u0ece\u102b-\u1038\u103a-\u103e"
    "\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u17b4-\u17d1\u17d3\u17dd]|[\u1039\u17d2].){0,8}",
    re.DOTALL,
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?<!^[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s\b)[a-z])")  # `iPhone` is one word
_APOSTROPHE = re.compile(  # in a group with what is elided in French, Italian, Catalan and Portuguese before vowels
    rf"((?<![\w/&{_JOINERS[1:]}-])(?:[cdjlmnst]|(?:jus|lors|puis|quel)?qu|[dn]?all|[dn]ell|[cs][ou]ll|quell|un|gl)'"
    r"(?=[aeiouyh]))|'",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")
_LONGEST_CAMEL = 40
_SHORTEST_ID = 16
_LETTERS_OF_PART = 3
"""Characters of a part of a long name on average, at least: those of ids have some two."""
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SHORT_CODE = 4  # letters: `A2A`, `K8S` and `B2B` have no humps
_LONGEST_PLAIN = 24
_FEWEST_LETTERS = 5
_HEXADECIMAL = "abcdef0123456789"

_SPECIAL = str.maketrans(
    {
        "ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "ħ": "h", "Ħ": "H", "ı": "i",
        "þ": "th", "Þ": "Th", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ŧ": "t", "Ŧ": "T",
        "ـ": None, "ى": "ي", "ة": "ه", "ی": "ي", "ک": "ك", "ٱ": "ا", "™": " ", "℠": " ", "♯": "#",
        "’": "'", "ʼ": "'", "‘": "'", "＇": "'",
    }
    | dict.fromkeys(map(chr, (*range(0xFE00, 0xFE10), *range(0x1F3FB, 0x1F400))))  # variants and skin tones of emoji
)  # fmt: skip


class Compound(NamedTuple):
    """A word of a query: as typed, its parts, and the parts joined if there are two or more, else the word without its
    symbols (`.net`: `net`); all folded."""

    written: str
    parts: tuple[str, ...]
    whole: str | None


class Tokens(NamedTuple):
    """The index terms of a text. `terms` are in order, one per position: the stems of words, single characters of
    scripts without spaces. `pairs` (of neighbours of these) and `wholes` (joined compounds, words without their
    symbols, emoji) have no position. `surfaces` are all of them before stemming: the words that completions and
    corrections propose."""

    terms: tuple[str, ...]
    pairs: tuple[str, ...]
    wholes: tuple[str, ...]
    surfaces: tuple[str, ...]

    def sequences(self) -> list[str]:
        """The terms in order, separated by spaces, for phrase search; then each of `wholes`. Empty for a text
        without words."""
        return [*filter(None, [" ".join(self.terms)]), *self.wholes]

    @property
    def extra(self) -> tuple[str, ...]:
        """The terms without a position."""
        return self.pairs + self.wholes


NO_TOKENS = Tokens((), (), (), ())


def tokenize(text: str) -> Tokens:
    """The index terms of a text, in order, with repeats."""
    return joined(compounds(text))


def joined(compounds: Iterable[str]) -> Tokens:
    """The index terms of compounds in order, with repeats."""
    analysed = list(map(tokens_of, compounds))
    if len(analysed) == 1:
        return analysed[0]
    return Tokens(*map(tuple, map(chain.from_iterable, zip(*analysed, strict=True)))) if analysed else NO_TOKENS


@memoized
def tokens_of(compound: str) -> Tokens:
    """The index terms of a compound."""
    if compound.isascii() and compound.isalnum() and (compound.islower() or compound[1:].islower()):
        word = compound.lower()[:MAX_WORD]
        return Tokens((stem(word),), (), (), (word,))
    if _is_emoji(compound):
        return Tokens((), (), (compound,), (compound,))
    terms: list[str] = []
    characters: list[str] = []
    pairs: list[str] = []
    parts: list[str] = []
    for _, piece, is_run in pieces(compound):
        if is_run:
            clusters = clusters_of(piece)
            characters += clusters
            pairs += map("".join, pairwise(clusters))
            terms += clusters
        else:
            parts.append(piece.casefold()[:MAX_WORD])
            terms.append(stem(parts[-1]))
    wholes = [plain for part in parts if (plain := without_symbols(part))]
    if whole := whole_of(compound, parts):
        wholes.append(whole)
    return Tokens(tuple(terms), tuple(pairs), tuple(map(stem, wholes)), (*characters, *pairs, *parts, *wholes))


def whole_of(compound: str, parts: Sequence[str]) -> str:
    """The parts of a compound joined, where there are two or more but not too many, and a word with what is elided
    before it (`l'oreal`: `loreal`); else ""."""
    if len(parts) == 1 and (elided := elided_in(compound)):
        return (compound[: elided - 1].casefold() + parts[0])[:MAX_WORD]
    return "".join(parts)[:MAX_WORD] if 1 < len(parts) <= MAX_PARTS else ""


def words(text: str) -> Iterator[str]:
    """The words of a text before stemming, with repeats."""
    return chain.from_iterable(tokens_of(compound).surfaces for compound in compounds(text))


@lru_cache(maxsize=16_384)
def has_digit(word: str) -> bool:
    """Whether a word contains a digit of any script."""
    return not word.isalpha() and _DIGIT.search(word) is not None


def sequences(text: str) -> list[str]:
    """The terms of a text in order, separated by spaces, for phrase search; then each of `wholes`. Empty for a text
    without words."""
    return tokenize(text).sequences()


def query_words(text: str) -> list[Compound]:
    """The distinct words of a query, in order.

    A run of a script without spaces of up to four characters is one word with its pairs as parts; every pair of a
    longer one is a word.
    """
    by_parts: dict[tuple[str, ...], Compound] = {}
    for compound in compounds(text):
        for word in _query_words_of(compound):
            by_parts.setdefault(word.parts, word)
    return list(by_parts.values())


@memoized
def _query_words_of(compound: str) -> tuple[Compound, ...]:
    if compound.isascii() and compound.isalpha() and compound.islower():
        return (Compound(compound, (compound[:MAX_WORD],), None),)
    if _is_emoji(compound):
        return (Compound(compound, (compound,), None),)
    query_compounds: list[Compound] = []
    parts: list[str] = []
    for _, piece, is_run in pieces(compound):
        if is_run:
            query_compounds += (Compound("".join(grams), grams, None) for grams in _grams(clusters_of(piece)))
        else:
            parts.append(piece.casefold()[:MAX_WORD])
    if len(parts) > MAX_PARTS:
        query_compounds += (Compound(part, (part,), None) for part in parts)
    elif parts:
        plain = None if parts[0] in _ABBREVIATIONS else without_symbols(parts[0])
        whole = whole_of(compound, parts) or plain
        query_compounds.append(Compound(compound, tuple(parts), whole))
    return tuple(query_compounds)


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


@memoized
def stem(word: str) -> str:
    """The stem of an English word of four letters or more (`integrate`, `integrations`: `integr`); an Arabic word
    without article. Other words are returned unchanged."""
    fixed = _FIXED_STEMS.get(word)
    if fixed is not None:
        return fixed
    if word.isascii():
        return _STEMMER.stemWord(word) if len(word) > 3 and word.isalpha() else word
    return _ARTICLE.sub("", word)


_ARTICLE = re.compile("^(?:[وبكف]?ال|لل)(?=[\u0621-\u064a]{3})")
_STEMMER = Stemmer("english", 0)  # without a cache: ours is enough
_OVERSTEMMED = ("businesses", "conversion", "conversions", "customer", "customers", "direction", "directions",
                "general", "generic", "listing", "listings", "organization", "organizations", "production",
                "productivity", "transportation", "universal")  # fmt: skip
"""Words that Snowball conflates with words of another meaning: busy, conversation, custom, direct, generate, list."""
_ABBREVIATIONS = {
    ".net": "dotnet", "k8s": "kubernetes", "db": "database", "dbs": "database", "repo": "repository",
    "repos": "repository", "js": "javascript", "img": "image", "docs": "documents", "auth": "authentication",
    "config": "configuration", "configs": "configuration", "postgresql": "postgres", "analysis": "analyze",
    "analyses": "analyze",
}  # fmt: skip
_FIXED_STEMS = {
    word: word.removesuffix("es") if word.endswith("sses") else word.removesuffix("s") for word in _OVERSTEMMED
}
_FIXED_STEMS["business"] = "business"
_FIXED_STEMS |= {word: _STEMMER.stemWord(word_in_full) for word, word_in_full in _ABBREVIATIONS.items()}


def fold(text: str) -> str:
    """Text without accents, invisible characters and apostrophes, but for those of elision (`l'avion`). Case is
    preserved: camelCase is split later."""
    folded = fold_letters(text)
    return _APOSTROPHE.sub(r"\1", folded) if "'" in folded else folded


def fold_letters(text: str) -> str:
    """Text without accents and invisible characters, with all apostrophes."""
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text.translate(_SPECIAL)).translate(_SPECIAL)
    letters = "".join(filter(_is_distinctive, decomposed))
    return unicodedata.normalize("NFC", letters).translate(_LETTERS)


def dropped_apostrophes(folded: str) -> frozenset[int]:
    """The positions of the apostrophes that `fold` leaves out of what `fold_letters` returned."""
    return frozenset(match.start() for match in _APOSTROPHE.finditer(folded) if match[1] is None)


@lru_cache(maxsize=8_192)
def _is_distinctive(letter: str) -> bool:
    """False for invisible format characters, and for accents and vowel points (by canonical combining class).

    Class 8 (kana voicing), 7 and 9 (nukta, virama) and those of Thai and Lao vowels stay: there they change the word.
    """
    if letter.isascii():
        return True
    kind = unicodedata.combining(letter)
    return not (10 <= kind <= 36 or kind >= 200 or kind == 1) and unicodedata.category(letter) != "Cf"


class _Letters(dict[int, int]):
    """Decimal digits of every script to ASCII, memoised, and traditional characters to simplified ones."""

    def __missing__(self, code: int) -> int:
        letter = chr(code)
        self[code] = digit = ord(str(unicodedata.decimal(letter))) if letter.isdecimal() else code
        return digit


_LETTERS = _Letters(
    (ord(traditional), ord(group[0]))
    for line in Path(__file__).with_name("han_variants.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
    for group in line.split()
    for traditional in group[1:]
)


def compounds(text: str) -> list[str]:
    """The compounds of a text in order, folded but for case."""
    folded = fold(text)
    return compounds_of(folded).findall(folded)


def compounds_of_joined(text: str) -> list[str]:
    """The compounds of ASCII texts that are joined by the characters 0 and 1, and these characters. Takes two thirds of
    the time that the texts take one by one."""
    folded = fold(text)
    return (_JOINED_WITH_DOT if _DOTTED.search(folded) else _JOINED).findall(folded)


def compounds_of(folded: str) -> re.Pattern[str]:
    """The pattern of compounds in a folded text."""
    if _DOTTED.search(folded):
        return _ASCII_WITH_DOT if folded.isascii() else _WITH_DOT
    return _ASCII_COMPOUND if folded.isascii() else _COMPOUND


def pieces(compound: str) -> Iterator[tuple[int, str, bool]]:
    """The words of a compound, case unchanged, with their offsets, and whether each is a run of a script without
    spaces. What is elided at its beginning is none."""
    offset = elided_in(compound)
    for segment in _JOINER.split(compound[offset:]):
        for piece, is_run in _pieces(segment):
            yield offset, piece, is_run
            offset += len(piece)
        offset += 1


def elided_in(compound: str) -> int:
    """The characters that are elided at the beginning of a compound, with the apostrophe."""
    before, apostrophe, _ = compound.partition("'")
    return len(before) + 1 if apostrophe and before.isalpha() else 0


def _pieces(segment: str) -> Iterator[tuple[str, bool]]:
    if not segment.isascii():
        for part in filter(None, _RUN.split(segment)):
            if part.isascii():  # beside a script without spaces the same words as alone
                yield from _pieces(part)
            else:
                yield part, bool(_RUN.match(part))
    elif segment.islower() or segment.isdigit() or _is_id(segment):
        yield segment, False
    else:
        for hump in _HUMP.split(segment):
            yield hump, False


def _is_id(segment: str) -> bool:
    """True for base58, base64 and hexadecimal, which only look like camelCase, and for short codes in capitals. Of 34
    random characters of base58 one text in 200 has parts as long as those of names (`getERC20TokenBalance`)."""
    if len(segment) <= _SHORT_CODE:
        return segment.isupper()
    if len(segment) <= _LONGEST_CAMEL and (len(segment) < _SHORTEST_ID or not any(map(str.isdigit, segment))):
        return False
    return segment.isupper() or len(segment) < _LETTERS_OF_PART * len(_PART.findall(segment))


def _is_emoji(compound: str) -> bool:
    return compound[0] > "\u2300" and not compound[0].isalnum()


def without_symbols(word: str) -> str | None:
    """A word of two letters or more without its symbols, if it has any: `net` for `.net`; None for `c++`, as `c` is
    another language."""
    plain = word.strip(_SYMBOLS)
    return plain if 1 < len(plain) < len(word) else None


def clusters_of(run: str) -> list[str]:
    """The characters of a run of a script without spaces, each with the signs that belong to it."""
    return _CLUSTER.findall(run)


def _grams(characters: Sequence[str]) -> list[tuple[str, ...]]:
    pairs = tuple(map("".join, pairwise(characters))) or tuple(characters)
    return [pairs] if len(pairs) <= 3 else [(pair,) for pair in pairs]
