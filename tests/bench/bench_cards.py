"""Cards read a second, beside json.loads and pydantic on the same bytes: `python -m tests.bench.bench_cards`.

The pydantic models show what types alone cost there: `models` refuses a card at the first wrong field; `tolerant` turns
a wrong field into a warning, as the reader must, by a validator around each field. Neither bounds texts, replaces
U+0000, keeps the good items of a list beside a bad one, looks for secrets or checks what a version requires.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WrapValidator
from pydantic_core.core_schema import ValidationInfo, ValidatorFunctionWrapHandler

from parsers import cards
from parsers.cards import strict_json

ROUNDS = 5


def _keep(value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    try:
        return handler(value)
    except ValidationError as error:
        info.context.append((info.field_name, error.errors(include_url=False)[0]["type"]))
        return None


def _models(wrap: Callable[[Any], Any]) -> type[BaseModel]:
    class Model(BaseModel):
        model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    text, texts = wrap(str | None), wrap(list[str] | None)

    class Skill(Model):
        id: str
        name: text = None  # type: ignore[valid-type]
        description: text = None  # type: ignore[valid-type]
        tags: texts = None  # type: ignore[valid-type]
        examples: texts = None  # type: ignore[valid-type]

    class Price(Model):
        amount: wrap(Decimal | int) = None  # type: ignore[valid-type]
        currency: text = None  # type: ignore[valid-type]
        id: text = None  # type: ignore[valid-type]
        name: text = None  # type: ignore[valid-type]
        address: text = None  # type: ignore[valid-type]
        interval: text = None  # type: ignore[valid-type]
        description: text = None  # type: ignore[valid-type]
        accepted: texts = Field(None, alias="acceptedCurrencies")  # type: ignore[valid-type]
        skill_ids: texts = Field(None, alias="skillIds")  # type: ignore[valid-type]
        deposit: wrap(Decimal | int | None) = Field(None, alias="depositPct")  # type: ignore[valid-type]

    class Card(Model):
        name: str
        description: text = None  # type: ignore[valid-type]
        version: text = None  # type: ignore[valid-type]
        url: text = None  # type: ignore[valid-type]
        logo: text = Field(None, alias="iconUrl")  # type: ignore[valid-type]
        documentation: text = Field(None, alias="documentationUrl")  # type: ignore[valid-type]
        tags: texts = None  # type: ignore[valid-type]
        provider: wrap(dict[str, Any] | None) = None  # type: ignore[valid-type]
        capabilities: wrap(dict[str, Any] | None) = None  # type: ignore[valid-type]
        skills: list[Skill]
        prices: wrap(list[Price] | None) = Field(None, alias="x-payment-config")  # type: ignore[valid-type]

    Card.model_rebuild(_types_namespace=locals())
    return Card


def _per_second(read: Callable[[bytes], object], bodies: list[bytes]) -> float:
    """The best of some rounds, as others use the machine too."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = perf_counter()
        for body in bodies:
            read(body)
        best = min(best, perf_counter() - start)
    return len(bodies) / best


def _bodies(folder: Path) -> dict[str, list[bytes]]:
    sources = {
        "cards with prices": ("a2b-agent-cards-synthetic-pricing.jsonl", "card"),
        "real A2A cards": ("a2a-cards.jsonl", "card"),
        "MCP configs": ("a2b-mcp-payloads.jsonl", "payload"),
    }
    return {
        name: [json.dumps(json.loads(line)[member]).encode() for line in (folder / file).read_text().splitlines()]
        for name, (file, member) in sources.items()
    }


def main() -> None:
    """Print the table: cards a second, one row per way to read, one column per kind of body."""
    folder = Path(os.environ.get("A2B_TEST_SHARED", Path(__file__).parents[3] / "shared")) / "data"
    strict = _models(lambda kind: kind)
    tolerant = _models(lambda kind: Annotated[kind, WrapValidator(_keep)])
    ways: dict[str, Callable[[bytes], object]] = {
        "json.loads": json.loads,
        "strict_json.loads": strict_json.loads,
        "cards.examine": cards.examine,
        "pydantic, models": lambda body: _validated(strict, body),
        "pydantic, tolerant": lambda body: _validated(tolerant, body),
    }
    for kind, bodies in _bodies(folder).items():
        print(f"\n{len(bodies):,} {kind} of {sum(map(len, bodies)) // len(bodies):,} bytes")
        for way, read in ways.items():
            if kind != "MCP configs" or not way.startswith("pydantic"):
                print(f"  {way:20} {_per_second(read, bodies):10,.0f} /s")


def _validated(model: type[BaseModel], body: bytes) -> object:
    value, _ = strict_json.loads(body)
    try:
        return model.model_validate(value, context=[])
    except ValidationError as error:
        return error.errors(include_url=False)


if __name__ == "__main__":
    main()
