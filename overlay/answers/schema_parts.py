"""Parts of JSON Schemas (2020-12), for answers in the form of a foreign protocol."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
BOOL: Schema = {"type": "boolean"}
TXID: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
HEX: Schema = {"type": "string", "pattern": "^([0-9a-f]{2})+$"}
TIME: Schema = {"type": "string", "format": "date-time"}
REFERENCE = "#/components/schemas/"


def ref(name: str) -> Schema:
    """A reference to a component."""
    return {"$ref": f"{REFERENCE}{name}"}


def maybe(schema: Schema) -> Schema:
    """The schema or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def array_of(schema: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": schema}


def record(required: dict[str, Schema], optional: dict[str, Schema] | None = None, **more: Any) -> Schema:
    """An object; members that are not named may be added later."""
    return {"type": "object", "properties": required | (optional or {}), "required": list(required), **more}
