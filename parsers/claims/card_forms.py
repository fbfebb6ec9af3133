"""The canonical forms of an A2A card that signers in the field sign: RFC 8785 (JCS) of all its members, or of those
that its version of A2A defines, with or without empty ones; or what Python's `json` makes of these.

A2A 1.0 §8.4.1 wants the known members without empty ones; SDKs and hand-made signers differ (a2aproject/A2A#2122).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import rfc8785

_SAFE_INTEGER = 2**53 - 1
_Shape = dict[str, Any]


def _members(names: str) -> _Shape:
    """Members that stay as they are."""
    return dict.fromkeys(names.split())


_BOTH = _members(
    "name description version documentationUrl iconUrl defaultInputModes defaultOutputModes securitySchemes"
) | {"provider": _members("organization url")}
_EXTENSIONS = {"extensions": _members("uri description required params")}
_SKILL = "id name description tags examples inputModes outputModes"
_SHAPE_1_0 = _BOTH | {
    "securityRequirements": None,
    "supportedInterfaces": _members("url protocolBinding protocolVersion tenant"),
    "capabilities": _members("streaming pushNotifications extendedAgentCard") | _EXTENSIONS,
    "skills": _members(f"{_SKILL} securityRequirements"),
}
_SHAPE_0_3 = _BOTH | {
    **_members("protocolVersion url preferredTransport supportsAuthenticatedExtendedCard security"),
    "additionalInterfaces": _members("transport url"),
    "capabilities": _members("streaming pushNotifications stateTransitionHistory") | _EXTENSIONS,
    "skills": _members(f"{_SKILL} security"),
}
_DEFAULTS_0_3 = {"protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"}
"""Left out by a2a-sdk 0.3, as these are the defaults of its model."""


class CardForm(NamedTuple):
    """One canonical form: its name, whether members that A2A does not define are in it, and its bytes."""

    name: str
    has_unknown: bool
    payload: bytes


def canonical_forms(card: _Shape) -> Iterator[CardForm]:
    """The forms of a card (as parsed from JSON), each payload once, without those that cannot be encoded in UTF-8."""
    whole = {name: value for name, value in card.items() if name != "signatures"}
    is_new = isinstance(card.get("supportedInterfaces"), list)
    stated = _defined(whole, _SHAPE_1_0 if is_new else _SHAPE_0_3)
    present = _without_defaults(stated, is_new=is_new)
    bodies = (("all", whole), ("a2a", _nonempty(present)), ("known", stated), ("all-nonempty", _nonempty(whole)))
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
    """As a2a-sdk before 1.3 has it: sorted by code points, and other letters than those of ASCII escaped."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _as_doubles(value: Any) -> Any:
    """Integers that a double cannot hold as the nearest one, as a JSON parser in ECMAScript reads them."""
    if isinstance(value, dict):
        return {name: _as_doubles(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_as_doubles(element) for element in value]
    is_large = isinstance(value, int) and not -_SAFE_INTEGER <= value <= _SAFE_INTEGER
    return float(value) if is_large else value


def _defined(value: Any, shape: _Shape | None) -> Any:
    """The members that a shape names, in each object of a list."""
    if shape is None:
        return value
    if isinstance(value, list):
        return [_defined(element, shape) for element in value]
    if not isinstance(value, dict):
        return value
    return {name: _defined(member, shape[name]) for name, member in value.items() if name in shape}


def _without_defaults(card: _Shape, *, is_new: bool) -> _Shape:
    """The card without members that have the default of its version's model."""
    if not is_new:
        return {name: value for name, value in card.items() if _DEFAULTS_0_3.get(name) != value}
    capabilities = card.get("capabilities")
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    if not isinstance(capabilities, dict) or not isinstance(extensions, list):
        return card
    shown = [
        {name: value for name, value in extension.items() if (name, value) != ("required", False)}
        if isinstance(extension, dict)
        else extension
        for extension in extensions
    ]
    return card | {"capabilities": capabilities | {"extensions": shown}}


def _nonempty(value: Any) -> Any:
    """The value without null, empty texts, lists and objects at any depth; None where nothing is left."""
    if isinstance(value, dict):
        return {name: shown for name, member in value.items() if (shown := _nonempty(member)) is not None} or None
    if isinstance(value, list):
        return [shown for element in value if (shown := _nonempty(element)) is not None] or None
    return None if value == "" else value
