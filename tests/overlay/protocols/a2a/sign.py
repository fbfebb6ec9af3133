"""Sign the card on standard input with a2a-sdk, 1.x or 0.3, and print it with its signature, as the SDK writes it.

Argument: the private key, as PEM.
"""

from __future__ import annotations

import json
import sys

from a2a.utils.signing import create_agent_card_signer

try:
    from a2a.client.card_resolver import parse_agent_card
    from google.protobuf.json_format import MessageToDict
except ImportError:
    from a2a.types import AgentCard

    parse_agent_card, MessageToDict = AgentCard.model_validate, None

header = {"alg": "ES256", "typ": "JOSE", "kid": "k1", "jku": None}
card = json.load(sys.stdin)
signed = create_agent_card_signer(sys.argv[1], header)(parse_agent_card(dict(card)))
written = MessageToDict(signed) if MessageToDict else signed.model_dump(mode="json", by_alias=True, exclude_none=True)
print(json.dumps(card | {"signatures": written["signatures"]}))
