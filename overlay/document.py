"""What an engine is given to find: one `Document` per listing and stretch of heights in which it said the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from overlay.duplicates.claims import UNCONFIRMED
from parsers.cards import Skill
from parsers.offers import Offer

if TYPE_CHECKING:
    from overlay.duplicates.claims import Likeness


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A listing as it stood from `from_height` until before `until_height` (None: it still does).

    `id` is the listing's (laws 3, 6, 10: `<txid>_<vout>`, with `#<key>` for a tool of several servers);
    `registration` the plain id all its documents are replaced by. `chain` is the configured name, `caip2` its CAIP-2
    id, `also_on` the other chains that it stands on. Heights and times (seconds since 1970) are of the winning revision
    (`updated_*`) and of the first record (`created_*`); None while unconfirmed. `item` is what is shown: a UTF-8 JSON
    object without the members that depend on a query (`score`, `cheapest`, `highlights`). Texts are already bounded
    (law 12). `likeness` is what a current listing is compared by with others; `hidden_in` are the views in
    which another one is shown in its place: "" for all that is listed, the name of a chain, `facts.HERE` for those
    of its domain on its chains; `group` is the id of the one that is shown for it and others.
    `signed` says that the winning revision has a verified signature.
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
    likeness: Likeness | None = None
    hidden_in: tuple[str, ...] = ()
    group: str = ""
    signed: bool = False
    item: bytes

    @property
    def said_since(self) -> int | None:
        """Since when it has said what it says, in seconds since 1970; None while that is unconfirmed. What is no longer
        current counts from its first record."""
        worded = self.likeness.worded if self.likeness else None
        if worded is None:
            return self.created_time
        return worded.time if worded.time != UNCONFIRMED else None
