"""The query syntax: words, and the operators that other search engines have.

`"web search"` requires a phrase; `-word` and `-"a phrase"` exclude one; `tag:`, `owner:` and `skill:` with a word or a
phrase are filters, or exclusions after a hyphen. An operator is recognised only at the start of a word, so quotes,
hyphens and colons inside a word, and double hyphens, are plain text. An unpaired quote, a lone hyphen and a filter
without a value are ignored, and so is `*` alone. In texts of more than eight words quotes and hyphens are
punctuation, as in any sentence.
Every text is a valid query, of which 96 words and 2 kB are read; stop words of longer texts are not counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from overlay.search.analysis import EMOJI, QUOTES, query_words, sequences, stem
from overlay.search.query import Operators
from overlay.search.stop_words import content_words

MAX_WORDS, MAX_BYTES = 96, 2_048
OPERATOR_WORDS = 8
"""Words of the longest text in which quotation marks and hyphens are operators."""

_HINT = re.compile(f"[-:{QUOTES}]")  # a text without one of these has no operator: the fast path for most texts
_UNFINISHED = re.compile(rf"[-\s{QUOTES}]*")
_BEGINS = rf"(?:[^\W_]|[{EMOJI}{QUOTES}])"
_OPERATOR = re.compile(rf"(?:^|\s)(?:-{_BEGINS}|-?[{QUOTES}]|-?(?ai:tag|owner|skill):)")
# A missing closing quote is searched for at most once, so matching takes linear time.
_TOKEN = re.compile(
    rf"(?P<no>-(?={_BEGINS}))?(?:(?P<field>(?ai:tag|owner|skill)):)?"
    rf"(?:[{QUOTES}](?P<phrase>[^{QUOTES}]*)[{QUOTES}]|(?P<word>\S*))"
)


class ParsedText(NamedTuple):
    """A parsed query text. `text` contains the words to rank by, those of `phrases` included; the other members are
    texts and values as typed, in order. `left_out` follows the words that are read; `is_sentence` where quotation marks
    or hyphens were not operators because the text is long."""

    text: str
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    not_tags: tuple[str, ...] = ()
    not_owners: tuple[str, ...] = ()
    not_skills: tuple[str, ...] = ()
    left_out: str = ""
    is_sentence: bool = False

    @property
    def has_operators(self) -> bool:
        """Whether the text has operators."""
        return any(self[1:9])


def read(text: str) -> ParsedText:
    """Parse the part of a text that is read; without operators it is returned unchanged. Takes linear time."""
    text, left_out = _cut(text)
    if text.strip() == "*":
        return ParsedText("", left_out=left_out)
    if not _HINT.search(text):
        return ParsedText(text, left_out=left_out)
    if _UNFINISHED.fullmatch(text):  # as when the user starts typing a phrase
        return ParsedText("", left_out=left_out)
    if not _OPERATOR.search(text):
        return ParsedText(text, left_out=left_out)
    matches = list(_TOKEN.finditer(text))
    is_long = sum(len(match[0].split()) for match in matches if match["field"] is None) > OPERATOR_WORDS
    values: dict[str, list[str]] = {}
    words: list[str] = []
    is_sentence = False
    for match in matches:
        kind, value = _token(match)
        if is_long and match["field"] is None:
            is_sentence |= match["phrase"] is not None or kind == "excluded"
            words.append(match[0])
            continue
        if kind == "phrases" and not _UNFINISHED.fullmatch(value):
            words.append(value)
        if value and (match["phrase"] is not None or kind != "phrases"):
            values.setdefault(kind, []).append(value)
    return ParsedText(
        " ".join(filter(None, words)),
        **{kind: tuple(texts) for kind, texts in values.items()},
        left_out=left_out,
        is_sentence=is_sentence,
    )


def _cut(text: str) -> tuple[str, str]:
    """The part of a text that is read, and the remainder, which is empty for most texts. With a remainder, stop words
    are missing in both."""
    words = text.split(None, MAX_WORDS)
    if len(words) <= MAX_WORDS and len(text.encode("utf-8", "surrogatepass")) <= MAX_BYTES:
        return text, ""
    content = content_words(text.split())
    count, size = 0, 0
    for word in content[:MAX_WORDS]:
        size += len(word.encode("utf-8", "surrogatepass")) + 1
        if size > MAX_BYTES:
            break
        count += 1
    head, remainder = content[:count], content[count:]
    if not head:  # a script without spaces
        whole = remainder[0]
        part = whole.encode("utf-8", "surrogatepass")[:MAX_BYTES].decode("utf-8", "ignore")
        head, remainder = [part], [whole[len(part) :], *remainder[1:]]
    return " ".join(head), " ".join(filter(None, remainder))


def without(text: str, kind: str, value: str) -> str:
    """A text without its filters of a kind, `tags` or `skills`, that have a value."""
    if not _OPERATOR.search(text):
        return text
    tokens = [match[0] for match in _TOKEN.finditer(text) if not _asks_for(match, kind, value)]
    return " ".join(filter(None, map(str.strip, tokens)))


def _asks_for(match: re.Match[str], kind: str, value: str) -> bool:
    token_kind, token_value = _token(match)
    return token_kind == kind and (
        token_value.casefold() == value.casefold() if kind in ("tags", "skills") else token_value == value
    )


def _token(match: re.Match[str]) -> tuple[str, str]:
    """The kind of a token (`phrases`, `excluded`, `tags`, `not_tags`, …) and its value."""
    value = (match["word"] if match["phrase"] is None else match["phrase"]).strip()
    if match["field"] is None:
        return ("excluded" if match["no"] else "phrases"), value
    kind = f"{match['field'].lower()}s"
    return (f"not_{kind}" if match["no"] else kind), value.strip(QUOTES)


def operators(understood: ParsedText) -> Operators | None:
    """The operators that an engine evaluates besides words and filters; None without any. Tags are case-folded, owners
    and skills are as typed."""
    more = understood.phrases, understood.excluded, understood.not_tags, understood.not_owners, understood.not_skills
    if not any(more):
        return None
    required = Operators(
        phrases=_once(sequence for text in understood.phrases for sequence in sequences(text)[:1]),
        excluded=_once(sequence for text in understood.excluded for sequence in _every_spelling(text)),
        not_tags=_once(tag.casefold() for tag in understood.not_tags),
        not_owners=_once(understood.not_owners),
        not_skills=_once(skill.casefold() for skill in understood.not_skills),
    )
    return None if required == _NONE else required


_NONE = Operators()


def _once(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _every_spelling(text: str) -> list[str]:
    """A text as a phrase; a single compound also as its joined whole, which is indexed too."""
    spellings, words = sequences(text)[:1], query_words(text)
    if len(words) == 1 and words[0].whole:
        spellings.append(stem(words[0].whole))
    return spellings
