"""The text keys of a listing (text, name, URL, pay-to addresses) and their history. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b, sha256
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from overlay.duplicates.minhash import bands
from overlay.duplicates.skeleton import skeletons
from overlay.listings.card_texts import wording
from overlay.search.analysis import has_digit, words
from overlay.search.document import AT_HOME, NAMED, UNCONFIRMED, UNVERIFIED, VERIFIED, Fingerprint, Since, TextKey
from parsers.cards import AgentCard, McpServer
from parsers.pointers.locator import url_host

if TYPE_CHECKING:
    from overlay.listings.listing import Listing, Shown

TEXT, CLUSTER, SIMILAR, NAME, URL, ADDRESS = "text", "cluster", "similar", "name", "url", "address"
COMMAND = "command"
"""Kinds of text keys. Listings with the same `TEXT` meet the same filters on the content of cards; those that share a
`CLUSTER` have near-identical texts, too. Those that share a `SIMILAR` have near-identical texts and the same name but
for words with digits, whatever their prices, tags and skills."""

MOST_ADDRESSES = 16
"""Addresses of a card that are compared with those of other listings."""

_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_FILTERED = attrgetter("amount", "currency", "interval_key", "accepted", "skill_ids")
Key = tuple[str, int]


def unconfirmed(chain: str) -> Since:
    """The `Since` of an unconfirmed text key."""
    return Since(UNCONFIRMED, chain, UNCONFIRMED, UNCONFIRMED, 0)


class _Past(NamedTuple):
    """The text keys of a listing; its card, and since when a card has had the same wording."""

    text_keys: dict[Key, Since]
    card: AgentCard | McpServer
    wording_since: Since


class TextKeyHistory:
    """The history of the text keys of a registration, computed from its revisions, oldest first.

    A text key that is dropped and used again has its first date: a copy that is made in between is younger. A text has
    the date of the first one that it is near-identical to, whatever prices, tags and skills were; it does not date
    others, so that a series of small edits cannot carry a date to another text.
    """

    def __init__(self) -> None:
        self._past: dict[str, _Past] = {}
        self._first: dict[Key, Since] = {}

    def add(self, listings: Iterable[Listing], since: Since) -> None:
        """Add a revision: the listings of the registration since then."""
        self._past = {listing.id: self._after(self._past.get(listing.id), listing, since) for listing in listings}

    def fingerprint(self, listing: Listing) -> Fingerprint:
        """The present fingerprint of one of its listings."""
        past = self._past.get(listing.id)
        text_keys = [TextKey(*key, since) for key, since in past.text_keys.items()] if past else ()
        return Fingerprint(
            tuple(text_keys), rank(listing), listing.owner or "", past.wording_since if past else None,
            destination(listing), digest(host) if (host := url_host(listing.card.url)) else 0,
        )  # fmt: skip

    def _after(self, before: _Past | None, listing: Listing, since: Since) -> _Past:
        """The text keys of a listing after a revision."""
        keys, card = sorted(set(text_keys(listing))), listing.card
        similar = [key for key in keys if key[0] == SIMILAR]
        earlier = [self._first[key] for key in similar if key in self._first]
        text_since = min(earlier, default=since)
        if not earlier:
            self._first |= dict.fromkeys(similar, since)
        # which of two similar texts has a warning depends on the name: a text may be copied before it is confirmed
        name_since = self._first.setdefault(plain_name_key(listing), since)
        dated = {key: name_since if key[0] == SIMILAR else text_since for key in keys}
        others = (*other_keys(card), *command_keys(card))
        dated |= {key: self._first.setdefault(key, since) for key in others}
        is_same = before is not None and (before.card is card or wording(before.card) == wording(card))
        return _Past(dated, card, before.wording_since if before is not None and is_same else since)


def rank(subject: Listing) -> int:
    """The rank of a listing among its duplicates: see `NAMED`."""
    if not subject.verified:
        return UNVERIFIED
    if subject.badge is not None and subject.badge.by in ("name", "dns"):
        return NAMED
    at_home = subject.host and f".{url_host(subject.card.url)}".endswith(f".{subject.host}")
    return AT_HOME if at_home else VERIFIED


def text_keys(subject: Listing) -> Iterator[Key]:
    """The keys that texts are compared by. Listings that share a `TEXT` or a `CLUSTER` have the same words in their
    names and meet the same filters on cards, so that the shown one is found whenever the hidden ones would be."""
    card, kind = subject.card, subject.state.kind.value
    plain, hashes = subject.analysed.plain_words()
    if clusters := bands(hashes):
        _, named = plain_name_key(subject)
        skills = sorted((skill.id, sorted(skill.tags)) for skill in card.skills)
        filtered = digest(repr((named, sorted(card.tags), skills, list(map(_FILTERED, card.offers)))))
        yield TEXT, digest(str(filtered), *sorted(plain))
        for key, head in ((CLUSTER, filtered), (SIMILAR, named)):
            yield from (
                (key, _number(b"%b %d %d %b" % (key.encode(), head, number, band)))
                for number, band in enumerate(clusters)
            )
    else:
        key = card.key if isinstance(card, McpServer) else ""
        same = digest(_without_end(subject), kind, key, card.name)
        yield from ((TEXT, same), (CLUSTER, same), (SIMILAR, digest(SIMILAR, str(same))))


def _without_end(subject: Listing) -> str:
    """The SHA-256 (hex) of a card without the white space at its end, which editors add and copies differ in."""
    body = subject.card_body or b""
    text = body.rstrip(b" \t\r\n")
    return subject.state.card.hex() if text == body else sha256(text).hexdigest()


def plain_name_key(subject: Listing) -> Key:
    """The key of the words of a name without those that contain a digit; where all contain one, of the whole name."""
    # entries of a registry differ in their names only, and every listing must be found by its name
    name = sorted({word for word in words(subject.card.name) if not has_digit(word)}) or subject.card.name
    return "plain name", digest(repr((name, subject.state.kind.value)))


def destination(subject: Listing) -> int:
    """The digest of the targets of a listing: host, URLs, pay-to addresses, and the command of a tool."""
    card = subject.card
    if isinstance(card, McpServer):
        leads: object = (card.command, card.args)
    else:
        urls = (str(interface.get("url", "")) for interface in card.interfaces)
        leads = sorted(same_url(url) or url for url in urls)
    addresses = sorted({same_address(offer.address) for offer in card.offers})
    return digest(repr((subject.host, same_url(card.url) or card.url, leads, addresses)))


def other_keys(card: Shown) -> Iterator[Key]:
    """The keys that name, URL and pay-to addresses of a card are compared by."""
    return keys_of(card.name, card.url, (offer.address for offer in card.offers))


def command_keys(card: Shown) -> Iterator[Key]:
    """The key of the command of a tool, by which listings of one owner are compared."""
    return command_keys_of(card.command, card.args) if isinstance(card, McpServer) else iter(())


def command_keys_of(command: str, args: Iterable[str]) -> Iterator[Key]:
    """The key of a command with its arguments."""
    if command:
        yield COMMAND, digest(COMMAND, command, *args)


def keys_of(name: str, url: str, addresses: Iterable[str]) -> Iterator[Key]:
    """The keys of a name, a URL and pay-to addresses."""
    for skeleton in sorted(skeletons(name)):
        yield NAME, digest(NAME, skeleton)
    if normalised := same_url(url):
        yield URL, digest(URL, normalised)
    compared = dict.fromkeys(map(same_address, addresses))
    for address in [address for address in compared if address][:MOST_ADDRESSES]:
        yield ADDRESS, digest(ADDRESS, address)


def same_url(url: str) -> str:
    """A normalised URL: lower-case scheme and host as A-labels, without default port, fragment, user and trailing
    slash; "" for an invalid one."""
    try:
        parts = urlsplit(url.strip())
        host, port = url_host(f"https://{parts.hostname or ''}/") or parts.hostname, parts.port
        if not host:
            return ""
        port_part = "" if port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f":{port}"
        return f"{parts.scheme}://{host}{port_part}{parts.path.rstrip('/')}?{parts.query}"
    except ValueError:
        return ""


def same_address(address: str) -> str:
    """A normalised address: hexadecimal and Bech32 addresses in lower case."""
    text = address.strip()
    return text.lower() if text[:2].lower() == "0x" or text.isupper() else text


def digest(*parts: str) -> int:
    """64 bits of BLAKE2b over the parts, separated by NUL, as a signed integer."""
    return _number("\0".join(parts).encode("utf-8", "surrogatepass"))


def _number(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), signed=True)
