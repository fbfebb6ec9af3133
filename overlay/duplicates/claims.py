"""What a listing claims, and since when: its text, its name, its URL, and where payments to it go. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from struct import pack
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from overlay.duplicates.minhash import bands, word_set
from overlay.duplicates.skeleton import skeletons
from overlay.texts import texts, wording
from parsers.cards import AgentCard, Server
from parsers.hosts import url_host

if TYPE_CHECKING:
    from overlay.items import Subject

TEXT, CLUSTER, NAME, URL, ADDRESS = "text", "cluster", "name", "url", "address"
"""Kinds of claims. Listings with the same `TEXT` meet the same filters by what their cards say; those that share a
`CLUSTER` have nearly the same text."""

UNCONFIRMED = 2**62
"""The time, and the height, of what is in no block yet: later than all that is."""

MOST_ADDRESSES = 16
"""Addresses of a card that are compared with those of others."""

NAMED, AT_HOME, VERIFIED, UNVERIFIED = range(4)
"""Which of several is shown: the one that its domain names by id, one that the domain of its URL serves, one that is
verified otherwise, any other."""

_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
Key = tuple[str, bytes]


class Since(NamedTuple):
    """When a claim was made: block time (seconds since 1970), chain, height, and, at equal heights, where its
    registration was first recorded (`rows.place`)."""

    time: int
    chain: str
    height: int
    registered: int

    def ordering(self, rank: int, id_: str) -> bytes:
        """Bytes that sort as claims do: by rank, then the older, then the older registration."""
        chain = self.chain.encode() + b"\0"
        return pack(">BQ", rank, self.time) + chain + pack(">QQ", self.height, self.registered) + id_.encode()


class Claim(NamedTuple):
    """`value` is a digest of what is claimed, so that claims compare as they should."""

    kind: str
    value: bytes
    since: Since


class Likeness(NamedTuple):
    """All that is claimed for a listing. `named`: a domain names its very id, so that it is no copy (law 11). It has
    been `worded` as it is since then (`texts.wording`)."""

    claims: tuple[Claim, ...]
    rank: int = UNVERIFIED
    owner: str = ""
    worded: Since | None = None


NOTHING = Likeness(())


def unconfirmed(chain: str, id_: str) -> Since:
    """The moment of what is in no block yet; the order of several of those means nothing, but does not change."""
    return Since(UNCONFIRMED, chain, UNCONFIRMED, int.from_bytes(digest(id_)[:6]))


class ClaimHistory:
    """Since when a registration has claimed what it claims now, from its revisions, the oldest first.

    A claim that is given up and made again counts from then. A text keeps its seniority through updates that are
    near-identical to the text by which the seniority began, so that no row of small updates leads to another text.
    """

    def __init__(self) -> None:
        self._claims: dict[str, dict[Key, Since]] = {}
        self._texts: dict[str, tuple[set[Key], Since]] = {}
        self._wordings: dict[str, tuple[AgentCard | Server, Since]] = {}

    def add(self, subjects: Iterable[Subject], since: Since) -> None:
        """These are its listings from then on."""
        claims: dict[str, dict[Key, Since]] = {}
        texts_: dict[str, tuple[set[Key], Since]] = {}
        wordings: dict[str, tuple[AgentCard | Server, Since]] = {}
        for subject in subjects:
            id_ = subject.id
            before = self._claims.get(id_, {})
            keys = set(text_keys(subject))
            first = self._texts.get(id_)
            texts_[id_] = first if first and first[0] & keys else (keys, since)
            held = texts_[id_][1]
            claims[id_] = dict.fromkeys(sorted(keys), held)
            claims[id_] |= {key: before.get(key, since) for key in other_keys(subject)}
            card, worded = self._wordings.get(id_, (subject.card, since))
            same = card is subject.card or wording(card) == wording(subject.card)
            wordings[id_] = subject.card, worded if same else since
        self._claims, self._texts, self._wordings = claims, texts_, wordings

    def likeness(self, subject: Subject) -> Likeness:
        """What one of its listings claims now."""
        id_ = subject.id
        claims = tuple([Claim(kind, value, since) for (kind, value), since in self._claims.get(id_, {}).items()])
        _, worded = self._wordings.get(id_, (None, None))
        return Likeness(claims, rank(subject), subject.state.owner or "", worded)


def rank(subject: Subject) -> int:
    """Which of near-identical listings is shown: see `NAMED`."""
    if not subject.verified:
        return UNVERIFIED
    if subject.badge is not None and subject.badge.by in ("name", "dns"):
        return NAMED
    at_home = subject.host and f".{url_host(subject.card.url)}".endswith(f".{subject.host}")
    return AT_HOME if at_home else VERIFIED


def text_keys(subject: Subject) -> Iterator[Key]:
    """What its text is compared by. Listings that share a key have the same words in their names, and meet the same
    filters by what their cards say, so that the one shown is found when the others would be."""
    card, kind = subject.card, subject.state.kind.value
    key = card.key if isinstance(card, Server) else ""
    said = frozenset[str]().union(*map(word_set, texts(card)))
    offers = [(each.amount, each.currency, each.interval_key, each.accepted, each.skill_ids) for each in card.offers]
    filtered = kind, sorted(card.tags), sorted((skill.id, sorted(skill.tags)) for skill in card.skills), offers
    # the name of each entry of a registry is its own; and each listing must be found by its name
    like = repr((sorted(word_set(card.name)) or card.name, filtered))
    clusters = [digest(str(number), band.hex(), like) for number, band in enumerate(bands(said))]
    same = digest(like, *sorted(said)) if clusters else digest(subject.state.card.hex(), kind, key, card.name)
    yield TEXT, same
    yield from ((CLUSTER, each) for each in (same, *clusters))


def other_keys(subject: Subject) -> Iterator[Key]:
    """What its name, URL and pay-to addresses are compared by."""
    for name in sorted(skeletons(subject.card.name)):
        yield NAME, digest(name)
    if url := same_url(subject.card.url):
        yield URL, digest(url)
    addresses = dict.fromkeys(map(same_address, (offer.address for offer in subject.card.offers)))
    for address in [each for each in addresses if each][:MOST_ADDRESSES]:
        yield ADDRESS, digest(address)


def same_url(url: str) -> str:
    """A URL as it compares: scheme and host without case, A-labels, no default port, fragment, user or slash at the
    end; "" for none."""
    try:
        parts = urlsplit(url.strip())
        host, port = url_host(f"https://{parts.hostname or ''}/") or parts.hostname, parts.port
        if not host:
            return ""
        own = "" if port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f":{port}"
        return f"{parts.scheme}://{host}{own}{parts.path.rstrip('/')}?{parts.query}"
    except ValueError:
        return ""


def same_address(address: str) -> str:
    """An address as it compares: those in hexadecimal and in Bech32 have no case."""
    text = address.strip()
    return text.lower() if text[:2].lower() == "0x" or text.isupper() else text


def digest(*parts: str) -> bytes:
    """128 bits of BLAKE2b: what compares equal."""
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()
