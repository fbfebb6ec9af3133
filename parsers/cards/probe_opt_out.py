"""Whether a card asks registries not to visit the endpoints that it names."""

from __future__ import annotations

from parsers.cards import strict_json
from parsers.errors import CardError

MEMBER = "x-a2b-probe"


def opts_out(body: bytes) -> bool:
    """Whether the member `x-a2b-probe` of a card, or of a config, is `off`."""
    if MEMBER.encode() not in body:
        return False
    try:
        card, _ = strict_json.loads(body)
    except CardError:
        return False
    return isinstance(card, dict) and card.get(MEMBER) == "off"
