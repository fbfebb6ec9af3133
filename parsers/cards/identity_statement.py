"""The Motebit identity that an agent card states in its member `x-motebit`, in the form of the A2A bridge of Motebit's
relay: `{motebit_id, did, public_key, spec}`. It is a statement: nothing in a card proves the holder of the key."""

from __future__ import annotations

import re

from parsers.cards.card import IdentityStatement
from parsers.cards.fields import Fields, Json

MEMBER = "x-motebit"
MAX_ID = 256
_KEY = re.compile(r"[0-9a-fA-F]{64}")


def read_motebit(card: Json, fields: Fields) -> IdentityStatement | None:
    """The identity that a card states; None without one, with a warning where it is incomplete."""
    statement = fields.object(card, MEMBER)
    if not statement:
        return None
    identity, key, did = (fields.text(statement, name, f"/{MEMBER}") for name in ("motebit_id", "public_key", "did"))
    if not 0 < len(identity) <= MAX_ID or not identity.isprintable() or identity != identity.strip():
        fields.warn("motebit-claim", f"motebit_id is not a text of 1 to {MAX_ID} characters", f"/{MEMBER}/motebit_id")
        return None
    if not _KEY.fullmatch(key):
        fields.warn("motebit-claim", "public_key is not 64 hex digits", f"/{MEMBER}/public_key")
        return None
    return IdentityStatement(identity, key.lower(), did if len(did) <= MAX_ID else "")
