"""Answers against their models and schemas, which are to have every member that is sent."""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from overlay.answers.items import Item, ListingIds, ServerList, listing_model
from overlay.answers.record import read
from overlay.answers.schemas import MODELS, SCHEMAS

LISTINGS = ("Listing", "ListingOrIds")


def fits(value: Any, name: str) -> Any:
    """The record that an answer is, by the name of its component. Raises where it has a member that the model lacks,
    or one that does not fit."""
    kind = listing_model(value) if name in LISTINGS else MODELS[name]
    component = NAMES[kind] if name in LISTINGS else name
    validator(component).validate(value)
    return read(value, kind)


NAMES: dict[Any, str] = {Item: "Item", ServerList: "ConfigServers", ListingIds: "ListingIds"}


@cache
def validator(name: str) -> Draft202012Validator:
    """A validator that refuses unknown members."""
    closed = {component: _closed(schema) for component, schema in SCHEMAS.items()}
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": {"schemas": closed}})


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {name: _closed(part) for name, part in schema.items()}
    return parts | {"additionalProperties": False} if isinstance(schema.get("properties"), dict) else parts
