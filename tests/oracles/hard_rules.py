"""The hard rules of a card (law 12, law 6), with the standard library's json and plain checks."""

from __future__ import annotations

import json
import re
from typing import Any

LARGEST = 1 << 20
DEEPEST = 64


def faults(body: bytes, kind: str) -> list[str]:
    """Why these bytes are no card of that kind (`agent` or `tool`), in order of importance; empty: they are one."""
    try:
        card = strict_json(body)
    except ValueError:
        return ["the card is not JSON"]
    if not isinstance(card, dict):
        return ["the card is not an object"]
    return _agent(card) if kind == "agent" else _tool(card)


def strict_json(body: bytes) -> Any:
    """The value, or ValueError: RFC 8259, UTF-8 without BOM, and the limits of law 12."""
    if len(body) > LARGEST:
        raise ValueError(f"{len(body)} bytes")
    text = body.decode("utf-8")
    if _depth(text) > DEEPEST:
        raise ValueError("too deep")
    return json.loads(text, parse_constant=_refuse, parse_int=_integer, parse_float=_real, object_pairs_hook=_object)


def _depth(text: str) -> int:
    """The deepest nesting of brackets outside of strings."""
    deep = deepest = 0
    for mark in re.findall(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text, re.DOTALL):
        deep += mark in "[{"
        deep -= mark in "]}"
        deepest = max(deepest, deep)
    return deepest


def _refuse(word: str) -> Any:
    raise ValueError(word)


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > 100:
        raise ValueError("number too long")
    return int(text)


def _real(text: str) -> float:
    mantissa, _, exponent = text.lower().partition("e")
    if len(re.sub(r"[-.]", "", mantissa)) > 100 or len(exponent) > 9 or abs(int(exponent or 0)) > 400:
        raise ValueError("number too long")
    return float(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for pair in pairs:
        _encodable(pair)
    return dict(pairs)


def _encodable(value: Any) -> None:
    """Raises ValueError for a lone surrogate in any string."""
    if isinstance(value, str):
        value.encode("utf-8")
    elif isinstance(value, list | tuple):
        for each in value:
            _encodable(each)


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _items(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _agent(card: dict[str, Any]) -> list[str]:
    found = []
    if not _text(card.get("name")):
        found.append("the card has no name")
    if not any(_text(skill.get("id")) for skill in _items(card.get("skills"))):
        found.append("the card has no skills")
    interfaces = _items(card.get("supportedInterfaces")) + _items(card.get("additionalInterfaces"))
    if not _text(card.get("url")) and not any(_text(each.get("url")) for each in interfaces):
        found.append("the card has no url")
    return found


def _tool(card: dict[str, Any]) -> list[str]:
    servers = card.get("mcpServers")
    if not isinstance(servers, dict) or not any(servers):
        return ["the config has no servers"]
    if len(servers) > 64:
        return ["the config has more than 64 servers"]
    return []
