"""YAML of strangers, as the JSON that it is the same as: no anchors, aliases, tags or repeated keys, and bounded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from parsers.claims.canonical_json import DocumentError

MAX_BYTES, MAX_DEPTH, MAX_NODES = 64 << 10, 16, 2_000

_LITERALS = {"": None, "~": None, "null": None, "true": True, "false": False}
_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_INTEGER, _REAL = re.compile(r"-?(?:0|[1-9][0-9]{0,15})"), re.compile(r"-?[0-9]{1,17}\.[0-9]{1,17}")


def load(text: str) -> Any:
    """The value of one YAML document. Raises DocumentError with the codes too-large and malformed."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise DocumentError("too-large", f"YAML of more than {MAX_BYTES:,} bytes")
    try:
        return _value(text)
    except (yaml.YAMLError, UnicodeError, ValueError) as error:
        detail = str(error).partition("\n")[0]
        raise DocumentError("malformed", f"no YAML of plain values: {detail[:200]}") from None


def dump(content: dict[str, Any]) -> str:
    """The YAML of an object, in blocks with texts in double quotes, without a line break at its end. Raises
    DocumentError where `load` would read something else."""
    text = "\n".join(_lines(content))
    if load(text) != content:
        raise DocumentError("malformed", "a value has no form in YAML of plain values")
    return text


def _lines(value: Any) -> Iterator[str]:
    """The lines of an object or a list that is not empty."""
    items = value.items() if isinstance(value, dict) else ((None, element) for element in value)
    for name, member in items:
        key = "" if name is None else f"{name if _PLAIN_KEY.fullmatch(name) else json.dumps(name)}:"
        is_block = isinstance(member, dict | list) and len(member) > 0
        if not is_block:
            yield f"{key or '-'} {json.dumps(member, ensure_ascii=False)}"
        elif name is None:
            first, *rest = _lines(member)
            yield from (f"- {first}", *(f"  {line}" for line in rest))
        else:
            yield from (key, *(f"  {line}" for line in _lines(member)))


def _value(text: str) -> Any:
    root: list[Any] = []
    open_nodes: list[tuple[Any, list[Any]]] = [(root, [])]
    for number, event in enumerate(yaml.parse(text, Loader=yaml.CSafeLoader)):
        if number > MAX_NODES or len(open_nodes) > MAX_DEPTH:
            raise ValueError("too many or too deeply nested nodes")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) or getattr(event, "tag", None):
            raise ValueError("anchors, aliases and tags are not taken")
        if isinstance(event, yaml.ScalarEvent):
            _add(open_nodes[-1], _scalar(event))
        elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            node: Any = [] if isinstance(event, yaml.SequenceStartEvent) else {}
            _add(open_nodes[-1], node)
            open_nodes.append((node, []))
        elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            open_nodes.pop()
    if len(root) != 1:
        raise ValueError("not one document")
    return root[0]


def _add(parent: tuple[Any, list[Any]], value: Any) -> None:
    """Add a value to a list; in an object, add it as a key that waits for its value, or as the value of the waiting
    key."""
    node, waiting = parent
    if isinstance(node, list):
        node.append(value)
    elif not waiting:
        if not isinstance(value, str) or value in node:
            raise ValueError("a key is not a text, or repeated")
        waiting.append(value)
    else:
        node[waiting.pop()] = value


def _scalar(event: yaml.ScalarEvent) -> Any:
    text = event.value
    if event.style:  # quoted, or a block
        return text
    if text in _LITERALS:
        return _LITERALS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _REAL.fullmatch(text) else text
