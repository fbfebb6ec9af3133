"""Where a card to be published begins: an example, the fields that matter, or a document that a host serves."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from parsers.cards import money, strict_json
from parsers.cards.official_server import config_of
from parsers.errors import CardError
from parsers.pointers.locator import WELL_KNOWN

AGENT_PATHS = WELL_KNOWN[::-1]
"""Where a host serves the card of its agent, first where A2A has it today."""

FIELDS = {
    "name": "Name", "url": "URL of the agent", "description": "What it does, and for whom", "skill": "Name of a skill",
    "skill_description": "What the skill does", "example": "What somebody would ask it", "tags": "Tags, with commas",
    "amount": "Price", "currency": "Currency of the price", "interval": "What it pays for: month, year (empty: a call)",
    "address": "Address to pay to",
}  # fmt: skip
"""The fields of an agent's card that matter, with their labels."""

EXAMPLE = {
    "name": "Tide tables", "url": "https://tides.example/a2a",
    "description": "Tells when the tide is high or low at a harbour, for sailors and anglers.",
    "skill": "Tide forecast", "skill_description": "High and low water at a harbour on a day, in local time.",
    "example": "When is high tide in Dover tomorrow?", "tags": "tides, sailing, weather", "amount": "0.01",
    "currency": "USD", "interval": "", "address": "1BitcoinEaterAddressDontSendf59kuE",
}  # fmt: skip
"""A card as a publisher may begin with, by its fields."""

_SKILL_ID = re.compile(r"[^a-z0-9]+")


def card_of_fields(fields: Mapping[str, str]) -> str:
    """The card of an agent with these fields, as JSON. Raises ValueError for an amount that
    cannot be read."""
    values = {name: fields.get(name, "").strip() for name in FIELDS}
    skill_name = values["skill"] or values["name"]
    skill: dict[str, Any] = {
        "id": _SKILL_ID.sub("-", skill_name.casefold()).strip("-") or "skill",
        "name": skill_name,
        "description": values["skill_description"] or values["description"],
        "tags": [tag.strip() for tag in values["tags"].split(",") if tag.strip()],
    }
    if values["example"]:
        skill["examples"] = [values["example"]]
    card: dict[str, Any] = {
        "protocolVersion": "0.3.0", "name": values["name"], "description": values["description"], "url": values["url"],
        "version": "1.0.0", "capabilities": {}, "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"], "skills": [skill],
    }  # fmt: skip
    if values["amount"]:
        card["x-payment-config"] = [_price(values)]
    return _written(card)


def _price(values: Mapping[str, str]) -> dict[str, Any]:
    amount = money.amount(values["amount"])
    if amount is None:
        raise ValueError(f"the price {values['amount'][:40]!a} is not a number")
    currency = values["currency"].upper() or "USD"
    price: dict[str, Any] = {"id": "basic", "amount": _number(amount), "currency": currency}
    if values["address"] and currency != "BSV":
        price["acceptedCurrencies"] = ["BSV"]
    return price | {name: values[name] for name in ("interval", "address") if values[name]}


def _number(amount: Decimal) -> float | str:
    """An amount as a number of JSON, as a text where no number of Python is equal to it."""
    number = float(amount)
    return number if Decimal(repr(number)) == amount else money.plain(amount)


def card_of_document(body: bytes) -> str:
    """The card in a document that a host serves: as it is, or a `server.json` as an MCP config. Raises ValueError for
    another value than a JSON object."""
    try:
        value, _ = strict_json.loads(body)
    except CardError as error:
        raise ValueError(f"it serves no card: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("it serves no card: the JSON there is not an object")
    config = config_of(value)
    return body.decode() if config is None else _written(config)


def _written(card: Mapping[str, Any]) -> str:
    return json.dumps(card, indent=2, ensure_ascii=False)
