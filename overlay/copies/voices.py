"""What a listing says with others, as numbers that all who say it have in common. Pure.

The lower two bits of a number tell what it is about: a sample of the text, all of the text but the name, the name, or a
word of the name. Texts and names of everybody are compared with each other, words of names with those of whoever
answers for them: an owner, or a host where there is none. What a domain speaks for is compared only with what else it
speaks for, whatever others say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from indexer.fetching.domains import registrable
from overlay.copies.nearness import fingerprints, telling
from overlay.search.ranking import names
from overlay.texts import texts

if TYPE_CHECKING:
    from overlay.copies.claims import Since
    from overlay.items import Subject

MOST_NAMES = 12
"""Words of a name that are counted; longer names say each of them quietly."""

SAMPLE, REST, NAME, WORD = range(4)

_BITS = 47


class Voice(NamedTuple):
    """What a listing has said since a moment."""

    since: Since
    values: tuple[int, ...]


def said(subject: Subject) -> tuple[int, ...]:
    """All that a listing says with others, each once."""
    domain = registrable(subject.host) if subject.speaks else ""
    name, *rest = texts(subject.card)
    return spoken(name, "\n".join(rest), domain, answering(subject))


def spoken(name: str, rest: str, domain: str, answers: str) -> tuple[int, ...]:
    """The same of a name and all other text, with the domain that speaks for them and who answers for the name."""
    apart = _number(domain) if domain else 0
    others, terms = telling(rest), names(name)
    values = [(value + apart) % (1 << _BITS) << 2 | SAMPLE for value in fingerprints(others | telling(name))]
    if others:
        values.append(_number(" ".join([domain, *sorted(others)])) << 2 | REST)
    if terms:
        parts = names(name, wholes=False) or terms  # however they are joined
        values.append(_number(" ".join([domain, *sorted(parts)])) << 2 | NAME)
    if answers:
        values += [named(answers, term) for term in terms[:MOST_NAMES]]
    return tuple(dict.fromkeys(values))


def answering(subject: Subject) -> str:
    """Who answers for a listing; "" for nobody."""
    return (registrable(subject.host) if subject.speaks else "") or subject.state.owner or registrable(subject.host)


def named(answers: str, term: str) -> int:
    """That those whom somebody answers for have a term in their names."""
    return _number(f"{answers}\0{term}") << 2 | WORD


def since(moment: Since, values: Sequence[int], before: Sequence[Voice]) -> tuple[Voice, ...]:
    """What is said from a moment on, each since it has been said: who says something again begins anew."""
    if not before:
        return (Voice(moment, tuple(values)),)
    known = {value: first for first, several in before for value in several}
    moments: dict[Since, list[int]] = {}
    for value in values:
        moments.setdefault(known.get(value, moment), []).append(value)
    return tuple(Voice(first, tuple(several)) for first, several in moments.items())


def each(voices: Sequence[Voice]) -> Iterator[tuple[int, Since]]:
    """What is said, and since when."""
    for first, values in voices:
        for value in values:
            yield value, first


def _number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()) >> (64 - _BITS)
