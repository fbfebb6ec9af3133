"""What a listing claims to be, and since when: its card, its name, its URL, and where payments to it go. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from overlay.search.analysis import fold
from overlay.texts import wording
from parsers.cards import AgentCard, Server
from parsers.hosts import url_host

if TYPE_CHECKING:
    from overlay.items import Subject

CARD, NAME, URL, ADDRESS = "card", "name", "url", "address"
UNCONFIRMED = 2**62
"""The time of what is in no block yet: later than all that is."""

MOST_ADDRESSES = 16
"""Addresses of a card that are compared with those of others."""


class Since(NamedTuple):
    """When something was said: block time (seconds since 1970), and within it the chain and the place there."""

    time: int
    chain: str
    place: int


class Claim(NamedTuple):
    """`value` is a digest of what is claimed, so that claims compare as they should: names without case and width."""

    kind: str
    value: bytes
    since: Since


class Likeness(NamedTuple):
    """All that is claimed for a listing. `rank` is 0 where the domain of the card's URL speaks for it, 1 where it is
    verified otherwise, 2 where it is not; `named`: a domain names its very id, so that it is no copy (law 11). It
    has been `worded` as it is since then (`texts.wording`)."""

    claims: tuple[Claim, ...]
    rank: int = 2
    named: bool = False
    owner: str = ""
    worded: Since | None = None


NOTHING = Likeness(())


def unconfirmed(chain: str, id_: str) -> Since:
    """The moment of what is in no block yet; which of several of those is first means nothing, and stays the same."""
    return Since(UNCONFIRMED, chain, int.from_bytes(digest(id_)[:6]))


class Tenure:
    """Since when a registration has claimed what it claims now: told its revisions, the oldest first.

    Who takes up a name again that others had meanwhile begins anew. A card is the same bytes, which nobody can have
    said before its author: there the first time counts.
    """

    def __init__(self) -> None:
        self._now: dict[str, dict[tuple[str, bytes], Since]] = {}
        self._cards: dict[tuple[str, bytes], Since] = {}
        self._wordings: dict[str, tuple[AgentCard | Server, Since]] = {}

    def say(self, subjects: Iterable[Subject], since: Since) -> None:
        """These are its listings from then on."""
        now: dict[str, dict[tuple[str, bytes], Since]] = {}
        wordings: dict[str, tuple[AgentCard | Server, Since]] = {}
        for subject in subjects:
            id_ = subject.id
            before, claims = self._now.get(id_, {}), now.setdefault(id_, {})
            for key in claimed(subject):
                is_card = key[0] == CARD
                claims[key] = self._cards.setdefault((id_, key[1]), since) if is_card else before.get(key, since)
            card, worded = self._wordings.get(id_, (subject.card, since))
            same = card is subject.card or wording(card) == wording(subject.card)
            wordings[id_] = subject.card, worded if same else since
        self._now, self._wordings = now, wordings

    def likeness(self, subject: Subject) -> Likeness:
        """What one of its listings claims now."""
        id_ = subject.id
        mine = tuple([Claim(kind, value, since) for (kind, value), since in self._now.get(id_, {}).items()])
        named = subject.badge is not None and subject.badge.by in ("name", "dns") and subject.verified
        _, worded = self._wordings.get(id_, (None, None))
        return Likeness(mine, rank(subject), named, subject.state.owner or "", worded)


def rank(subject: Subject) -> int:
    """Which of identical cards goes first: see `Likeness`."""
    if not subject.verified:
        return 2
    at_home = subject.host and f".{url_host(subject.card.url)}".endswith(f".{subject.host}")
    return 0 if at_home else 1


def claimed(subject: Subject) -> Iterator[tuple[str, bytes]]:
    """What a listing claims, each once."""
    card = subject.card
    key = card.key if isinstance(card, Server) else ""
    # the same bytes are read otherwise for each entry of a registry, and as another kind
    yield CARD, digest(subject.state.card.hex(), subject.state.kind.value, key, card.name)
    if name := fold(card.name).casefold().split():
        yield NAME, digest(*name)
    if url := same_url(card.url):
        yield URL, digest(url)
    addresses = dict.fromkeys(map(same_address, (offer.address for offer in card.offers)))
    for address in [each for each in addresses if each][:MOST_ADDRESSES]:
        yield ADDRESS, digest(address)


def same_url(url: str) -> str:
    """A URL as it compares: scheme and host without regard to case, no fragment, no slash at its end; "" for none."""
    try:
        parts = urlsplit(url.strip())
        return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}?{parts.query}" if parts.netloc else ""
    except ValueError:
        return ""


def same_address(address: str) -> str:
    """An address as it compares: those in hexadecimal and in Bech32 have no case."""
    text = address.strip()
    return text.lower() if text[:2].lower() == "0x" or text.isupper() else text


def digest(*parts: str) -> bytes:
    """128 bits of BLAKE2b: what compares equal."""
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()
