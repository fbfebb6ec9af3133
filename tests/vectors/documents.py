"""Vectors that are JSON documents: the matrix of MRP's fixtures, single fixtures, and JSON Schemas of records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema import SchemaError
from jsonschema.validators import validator_for

from parsers.claims.motebit import delegations, receipts
from parsers.claims.mrp.signed_envelope import schema_error
from parsers.claims.record_shape import RecordShape

GENERATIONS = {"schemas-strict": True, "schemas-lenient": False}

SHAPES: dict[str, RecordShape] = {
    "execution-receipt-v1": receipts.SHAPE,
    "delegation-token-v1": delegations.TOKEN_SHAPE,
    "standing-delegation-v1": delegations.GRANT_SHAPE,
    "delegation-revocation-v1": delegations.REVOCATION_SHAPE,
}
"""The records of Motebit that the product reads, by the name of their schema."""

Result = tuple[str, str | None]
"""The name of an evaluated case, and why the product does not agree."""


def documents(folder: Path) -> list[Path]:
    """The vectors in a folder: lines, matrices, and schemas; fixtures are evaluated by their matrix."""
    files = [path for path in sorted(folder.rglob("*.json*")) if path.suffix in (".json", ".jsonl")]
    matrices = [path.parent for path in files if path.name == "matrix.json"]
    return [path for path in files if path.parent in matrices or not any(one in path.parents for one in matrices)]


def evaluate_document(path: Path) -> Iterator[Result]:
    """The results of a document; one of no known form is a disagreement that says so."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        yield "", f"not JSON: {error}"
        return
    if isinstance(value, list) and value and all(isinstance(row, dict) and "fixture" in row for row in value):
        for row in value:
            yield from _matrix_row(path.parent, row)
    elif isinstance(value, dict) and "$schema" in value:
        yield path.stem, _schema_fault(path.stem, value)
    elif isinstance(value, dict) and "mrp_version" in value and path.parent.name in ("valid", "invalid"):
        yield (
            path.name,
            _fixture_fault(value, is_strict="mrpd" not in path.parts[-3], is_valid=path.parent.name == "valid"),
        )
    else:
        yield (
            "",
            "neither lines of vectors (.jsonl), a matrix of fixtures, a fixture in (in)valid/, nor a JSON Schema",
        )


def _matrix_row(folder: Path, row: dict[str, Any]) -> Iterator[Result]:
    fixture = folder / str(row["fixture"])
    for name, is_strict in GENERATIONS.items():
        title = f"{row['fixture']} by {name}"
        if not isinstance(row.get(name), dict) or not fixture.is_file():
            yield title, "the row has no such schemas, or there is no such fixture"
            continue
        document = json.loads(fixture.read_text("utf-8"))
        yield title, _fixture_fault(document, is_strict=is_strict, is_valid=row[name].get("valid"))


def _fixture_fault(document: Any, *, is_strict: bool, is_valid: Any) -> str | None:
    error = schema_error(document, is_strict=is_strict)
    if (error is None) is is_valid:
        return None
    return f"the product has it {'valid' if error is None else f'invalid ({error})'}, expected {is_valid}"


def _schema_fault(name: str, schema: dict[str, Any]) -> str | None:
    """The fault of a schema, None where there is none: of a record, a member that the product refuses or needs although
    the schema has it otherwise; of others, that the schema is none."""
    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        return f"no JSON Schema: {error.message}"
    shape = SHAPES.get(name)
    if shape is None:
        return None
    members, required = set(schema.get("properties", {})), set(schema.get("required", []))
    refused, needed = members - {*shape.required, *shape.optional}, set(shape.required) - required
    return f"the product refuses {sorted(refused)} and needs {sorted(needed)}" if refused or needed else None
