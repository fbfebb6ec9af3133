"""Documents that engines index: one `Document` per listing and range of heights in which it did not change."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import pack
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from parsers.cards import Skill
from parsers.cards.offers import Offer
from parsers.cards.usage import UNSTATED, Usage

if TYPE_CHECKING:
    from overlay.search.forward import Analysed


UNCONFIRMED = 2**62
"""The time and the height of unconfirmed text keys: later than any block."""

NAMED, AT_HOME, VERIFIED, UNVERIFIED = range(4)
"""The ranks that decide which duplicate is shown: named by id by its domain, served by the domain of its URL, verified
otherwise, unverified."""


class Since(NamedTuple):
    """The first block of a text key: its time (seconds since 1970), chain and height; and of the registration's first
    record the time of its block, which compares registrations, and its position in the chain, which orders those of
    one block."""

    time: int
    chain: str
    height: int
    registered_time: int
    registered: int

    def ordering(self, rank: int, id_: str) -> bytes:
        """45 bytes that sort by rank, then by age of the text key, then by age of the registration, which are the last
        20. The order of servers of one registration, and of unconfirmed text keys, is arbitrary but fixed."""
        chain, last = self.chain.encode(), crc32(id_.encode())  # of the chain 8 bytes count
        return pack(">BQ8sQQQI", rank, self.time, chain, self.height, self.registered_time, self.registered, last)


class TextKey(NamedTuple):
    """One text key; `value` is the digest of the normalised text, name, URL or address."""

    kind: str
    value: int
    since: Since


class Fingerprint(NamedTuple):
    """The features by which a listing is compared with others: its text keys, its rank (`NAMED` … `UNVERIFIED`), its
    owner, since when its text has been the same (`card_texts.wording`), and digests of where it leads
    (`text_keys.destination`) and of the host of its URL, 0 for none."""

    text_keys: tuple[TextKey, ...]
    rank: int = UNVERIFIED
    owner: str = ""
    text_since: Since | None = None
    destination: int = 0
    host: int = 0


NOTHING = Fingerprint(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The state of a listing from `from_height` until before `until_height` (None: the current state).

    `id` is the listing's (laws 3, 6, 10: `<txid>_<vout>`, with `#<key>` for a tool of several servers); `registration`
    the plain id by which all its documents are replaced together. `chain` is the configured name, `caip2` its CAIP-2
    id, `also_on` the other chains with a pointer to it. Heights and times (seconds since 1970) are of the winning
    revision (`updated_*`) and of the first record (`created_*`); None while unconfirmed. `item` is the stored item: a
    UTF-8 JSON object without the members that depend on a query (`score`, `cheapest`, `highlights`). Texts are already
    bounded (law 12). `fingerprint` holds the features by which a current listing is compared with others; `hidden_in`
    are the views in which another listing represents it: "" for all listings, the name of a chain, `facts.HERE` for
    those of its domain on its chains; `group` is the id of the representative. `drifted`: its host serves another
    card now, so that it ranks as `verified` but the filter does not find it. `signed`: the winning revision has a
    verified signature. `deprecated`: its owner says so. `health` is the state of the last visit to its URL, "" where
    nobody looked, and `lost`: it has not answered for long. `not_runnable`: it has neither a command nor a URL that
    every reader reaches. `notice_time` is of the block since which its MAP says that or
    takes it back (seconds since 1970), a change as an update is. `source` is its `diversity.source_number`, 0 where its
    domain confirms it. `usage` is how it is used, by its card alone. `rating` is in thousandths, None without one.
    `more_facts` are filter terms of other protocols, and the identifiers of a listing. `analysed` are its texts if they
    are already analysed.
    """

    id: str
    registration: str
    kind: str
    status: str
    chain: str
    caip2: str
    owner: str
    domain: str = ""
    verified: bool = False
    drifted: bool = False
    also_on: tuple[str, ...] = ()
    from_height: int | None
    until_height: int | None
    updated_height: int | None
    updated_time: int | None
    created_height: int | None
    created_time: int | None
    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    skills: tuple[Skill, ...] = ()
    words: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()
    fingerprint: Fingerprint | None = None
    hidden_in: tuple[str, ...] = ()
    group: str = ""
    signed: bool = False
    deprecated: bool = False
    health: str = ""
    lost: bool = False
    not_runnable: bool = False
    source: int = 0
    rating: int | None = None
    notice_time: int | None = None
    usage: Usage = UNSTATED
    more_facts: tuple[str, ...] = ()
    item: bytes
    analysed: Analysed | None = field(default=None, compare=False, repr=False)

    @property
    def text_since(self) -> int | None:
        """When its current text was first registered, in seconds since 1970; None while that is unconfirmed. A state
        that is not current counts from the first record."""
        since = self.fingerprint.text_since if self.fingerprint else None
        if since is None:
            return self.created_time
        return since.time if since.time != UNCONFIRMED else None
