"""The hard rules of a card (law 12, law 6), with the standard library's json and plain checks."""

from __future__ import annotations

import json
import re
from typing import Any

LARGEST = 1 << 20
DEEPEST = 64
TOO_LONG = "a number of the card has more than 100 digits or an exponent beyond 400"


class UnfitError(ValueError):
    """Bytes that are not a card; the message is the sentence for the publisher."""


def faults(body: bytes, kind: str) -> list[str]:
    """Why these bytes are not a card of that kind (`agent` or `tool`), in order of importance; empty: they are one."""
    try:
        card = strict_json(body)
    except UnfitError as error:
        return [str(error)]
    except ValueError:
        return ["the card is not JSON"]
    if not isinstance(card, dict):
        return ["the card is not a JSON object"]
    return _agent(card) if kind == "agent" else _tool(card)


def strict_json(body: bytes) -> Any:
    """The value, or ValueError: RFC 8259, UTF-8 without BOM, and the limits of law 12."""
    if len(body) > LARGEST:
        raise UnfitError("the card is larger than 1 MiB")
    if body.startswith(b"\xef\xbb\xbf"):
        raise UnfitError("the card begins with a byte order mark, which JSON does not allow")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise UnfitError("the card is not UTF-8") from None
    if _depth(text) > DEEPEST:
        raise UnfitError("the card is nested deeper than 64 levels")
    value = json.loads(text, parse_constant=_refuse, parse_int=_integer, parse_float=_real, object_pairs_hook=_object)
    _encodable(value)
    return value


def _depth(text: str) -> int:
    """The deepest nesting of brackets outside of strings."""
    deep = deepest = 0
    for mark in re.findall(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text, re.DOTALL):
        deep += mark in "[{"
        deep -= mark in "]}"
        deepest = max(deepest, deep)
    return deepest


def _refuse(word: str) -> Any:
    raise UnfitError(f"the card holds {word}, which is not a JSON number")


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > 100:
        raise UnfitError(TOO_LONG)
    return int(text)


def _real(text: str) -> float:
    mantissa, _, exponent = text.lower().partition("e")
    if len(re.sub(r"[-.]", "", mantissa)) > 100 or len(exponent) > 9 or abs(int(exponent or 0)) > 400:
        raise UnfitError(TOO_LONG)
    return float(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for pair in pairs:
        _encodable(pair)
    return dict(pairs)


def _encodable(value: Any) -> None:
    """Raises UnfitError for a lone surrogate in any string."""
    if isinstance(value, str) and re.search("[\ud800-\udfff]", value):
        raise UnfitError("the card holds half of a surrogate pair")
    if isinstance(value, list | tuple):
        for item in value:
            _encodable(item)


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _items(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _agent(card: dict[str, Any]) -> list[str]:
    results = []
    if not _text(card.get("name")):
        results.append("the card has no name")
    if not any(_text(skill.get("id")) for skill in _items(card.get("skills"))):
        results.append("the card has no skills")
    interfaces = _items(card.get("supportedInterfaces")) + _items(card.get("additionalInterfaces"))
    if not _text(card.get("url")) and not any(_text(interface.get("url")) for interface in interfaces):
        results.append("the card has neither a url nor an interface")
    return results


def _tool(card: dict[str, Any]) -> list[str]:
    servers = card.get("mcpServers")
    if not isinstance(servers, dict):
        return ["the config has no object mcpServers"]
    if not any(servers):
        return ["mcpServers has no named entry"]
    if len(servers) > 64:
        return ["mcpServers has more than 64 entries"]
    if any(len(key.encode()) > 256 for key in servers):
        return ["a name in mcpServers is longer than 256 bytes"]
    return []
