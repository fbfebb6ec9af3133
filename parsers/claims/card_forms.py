"""The canonical forms of an A2A card that signers in the field sign: RFC 8785 (JCS) of all its members, or of those
that its version of A2A defines, with or without empty ones; or what Python's `json` makes of these.

A2A 1.0 §8.4.1 wants the defined members, empty ones only where they are REQUIRED, `optional` or messages; its SDKs
leave these out, too, and hand-made signers differ (a2aproject/A2A#2122, a2aproject/a2a-js#627).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import rfc8785

_SAFE_INTEGER = 2**53 - 1
_Card = dict[str, Any]


class _Member(NamedTuple):
    """A member that A2A defines: whether it is in the canonical form though it is empty, the message that it is or
    lists (empty for a plain value), and whether it is a map to these messages."""

    stays_empty: bool
    message: str
    is_map: bool


_Messages = dict[str, dict[str, _Member]]


def _messages(text: str) -> _Messages:
    """The messages of lines `Message: member member! member!=Message member=*Message`; `!` marks what stays empty."""
    messages: _Messages = {}
    for line in text.strip().splitlines():
        name, _, members = line.partition(": ")
        parts = [member.partition("=") for member in members.split()]
        messages[name] = {
            member.removesuffix("!"): _Member(member.endswith("!"), kind.removeprefix("*"), kind.startswith("*"))
            for member, _, kind in parts
        }
    return messages


_MESSAGES_1_0 = _messages(
    """
Card: name! description! supportedInterfaces!=Interface provider!=Provider version! documentationUrl! iconUrl! \
capabilities!=Capabilities securitySchemes=*Scheme securityRequirements=Requirement \
defaultInputModes! defaultOutputModes! skills!=Skill
Interface: url! protocolBinding! tenant protocolVersion!
Provider: url! organization!
Capabilities: streaming! pushNotifications! extensions=Extension extendedAgentCard!
Extension: uri description required params!
Skill: id! name! description! tags! examples inputModes outputModes securityRequirements=Requirement
Requirement: schemes=*StringList
StringList: list
Scheme: apiKeySecurityScheme!=ApiKey httpAuthSecurityScheme!=HttpAuth oauth2SecurityScheme!=OAuth2 \
openIdConnectSecurityScheme!=OpenIdConnect mtlsSecurityScheme!=MutualTls
ApiKey: description location! name!
HttpAuth: description scheme! bearerFormat
OAuth2: description flows!=Flows oauth2MetadataUrl
OpenIdConnect: description openIdConnectUrl!
MutualTls: description
Flows: authorizationCode!=CodeFlow clientCredentials!=TokenFlow implicit!=OldFlow \
password!=OldFlow deviceCode!=DeviceFlow
CodeFlow: authorizationUrl! tokenUrl! refreshUrl scopes! pkceRequired
TokenFlow: tokenUrl! refreshUrl scopes!
OldFlow: authorizationUrl tokenUrl refreshUrl scopes
DeviceFlow: deviceAuthorizationUrl! tokenUrl! refreshUrl scopes!
"""
)
"""The messages by `specification/a2a.proto` of A2A 1.0: REQUIRED and `optional` members and messages stay."""

_MESSAGES_0_3 = _messages(
    """
Card: name! description! version! documentationUrl iconUrl defaultInputModes! defaultOutputModes! securitySchemes \
provider=Provider protocolVersion! url! preferredTransport supportsAuthenticatedExtendedCard! security \
additionalInterfaces=Interface capabilities!=Capabilities skills!=Skill
Interface: url! transport!
Provider: url! organization!
Capabilities: streaming! pushNotifications! stateTransitionHistory! extensions=Extension
Extension: uri! description required! params
Skill: id! name! description! tags! examples inputModes outputModes security
"""
)
"""The messages by the JSON Schema of A2A 0.3: required members stay, and so do booleans, which have no default
there."""

_DEFAULTS_0_3 = {"protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"}
"""Left out by a2a-sdk 0.3, as these are the defaults of its model."""


class CardForm(NamedTuple):
    """One canonical form: its name, whether members that A2A does not define are in it, and its bytes."""

    name: str
    has_unknown: bool
    payload: bytes


def canonical_forms(card: _Card) -> Iterator[CardForm]:
    """The forms of a card (as parsed from JSON), each payload once, without those that cannot be encoded in UTF-8."""
    whole = {name: value for name, value in card.items() if name != "signatures"}
    is_new = isinstance(card.get("supportedInterfaces"), list)
    messages = _MESSAGES_1_0 if is_new else _MESSAGES_0_3
    stated = _defined(whole, "Card", messages, with_empty=True)
    required = _defined(whole, "Card", messages, with_empty=False)
    shown = (
        required if is_new else {name: value for name, value in required.items() if _DEFAULTS_0_3.get(name) != value}
    )
    bodies = (
        ("all", whole), ("a2a", _nonempty(shown)), ("a2a-required", required), ("known", stated),
        ("all-nonempty", _nonempty(whole)),
    )  # fmt: skip
    seen: set[bytes] = set()
    for name, body in bodies:
        for encoding, encode in (("jcs", _jcs), ("python", _python)):
            try:
                payload = encode(body or {})
            except ValueError:
                continue
            if payload not in seen:
                seen.add(payload)
                yield CardForm(f"{name}-{encoding}", name.startswith("all"), payload)


def _jcs(value: Any) -> bytes:
    return rfc8785.dumps(_as_doubles(value))


def _python(value: Any) -> bytes:
    """The form of a2a-sdk before 1.3: sorted by code points, and letters beyond ASCII escaped."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _as_doubles(value: Any) -> Any:
    """Integers that a double cannot hold as the nearest one, as a JSON parser in ECMAScript reads them."""
    if isinstance(value, dict):
        return {name: _as_doubles(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_as_doubles(element) for element in value]
    is_large = isinstance(value, int) and not -_SAFE_INTEGER <= value <= _SAFE_INTEGER
    return float(value) if is_large else value


def _defined(value: Any, message: str, messages: _Messages, *, with_empty: bool) -> Any:
    """The members that A2A defines at any depth; with empty ones and null, or only with the empty ones of §8.4.1."""
    if isinstance(value, list) and message:
        return [_defined(element, message, messages, with_empty=with_empty) for element in value]
    if not isinstance(value, dict) or not message:
        return value
    reduced = {}
    for name, member in messages[message].items():
        stated = value.get(name)
        if name not in value or not (with_empty or stated or (member.stays_empty and stated is not None)):
            continue
        if member.is_map and isinstance(stated, dict):
            entries = stated.items()
            reduced[name] = {
                key: _defined(entry, member.message, messages, with_empty=with_empty) for key, entry in entries
            }
        else:
            reduced[name] = _defined(stated, member.message, messages, with_empty=with_empty)
    return reduced


def _nonempty(value: Any) -> Any:
    """The value without null, empty texts, lists and objects at any depth; None where nothing is left."""
    if isinstance(value, dict):
        return {name: shown for name, member in value.items() if (shown := _nonempty(member)) is not None} or None
    if isinstance(value, list):
        return [shown for element in value if (shown := _nonempty(element)) is not None] or None
    return None if value == "" else value
