"""Whether an answer of another overlay has the shape that the OpenAPI document promises.

Only what a command relies on is looked at: types, members and lengths of lists. Words, patterns and sizes may be those
of a newer version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "null": lambda value: value is None,
}
_PREFIX = "#/components/schemas/"


def fault(value: Any, name: str, schemas: Mapping[str, Schema]) -> str | None:
    """What is wrong with a JSON value first, by the JSON Schema `name`: the RFC 6901 pointer of the member and what is
    the matter with it. None where nothing is."""
    return next(_faults(value, schemas[name], "", schemas), None)


def _faults(value: Any, schema: Schema, at: str, schemas: Mapping[str, Schema]) -> Iterator[str]:
    if "$ref" in schema:
        yield from _faults(value, schemas[schema["$ref"].removeprefix(_PREFIX)], at, schemas)
    for choices in (schema[word] for word in ("anyOf", "oneOf") if word in schema):
        failed = [next(_faults(value, choice, at, schemas), None) for choice in choices]
        if None not in failed:
            yield failed[0] or ""
    if (wanted := _wanted(schema)) and not any(_TYPES[kind](value) for kind in wanted):
        yield f"{at or '/'} is {_kind(value)}, and not {' or '.join(wanted)}"
    elif isinstance(value, dict):
        yield from _in_object(value, schema, at, schemas)
    elif isinstance(value, list):
        yield from _in_list(value, schema, at, schemas)
    elif isinstance(value, int) and value < schema.get("minimum", value):
        yield f"{at or '/'} is below {schema['minimum']}"


def _wanted(schema: Schema) -> list[str]:
    """The types that a schema allows; none where it allows all. An enumeration is one of strings here."""
    wanted = schema.get("type", "string" if "enum" in schema else [])
    return [wanted] if isinstance(wanted, str) else list(wanted)


def _kind(value: Any) -> str:
    return next(kind for kind, is_one in _TYPES.items() if is_one(value))


def _in_object(value: dict[str, Any], schema: Schema, at: str, schemas: Mapping[str, Schema]) -> Iterator[str]:
    yield from (f"{at}/{name} is missing" for name in schema.get("required", ()) if name not in value)
    named, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for name, member in value.items():
        pointer = f"{at}/{name[:100].replace('~', '~0').replace('/', '~1')}"
        yield from _faults(member, named.get(name, others), pointer, schemas)


def _in_list(value: list[Any], schema: Schema, at: str, schemas: Mapping[str, Schema]) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{at or '/'} has {len(value):,} items"
    for number, item in enumerate(value):
        yield from _faults(item, schema.get("items", {}), f"{at}/{number}", schemas)
