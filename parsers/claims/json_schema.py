"""JSON Schemas of strangers, evaluated within limits: patterns by RE2, no references to other documents, bounded steps.

Errors have the words of Ajv, which answers to contracts of DelegateOS use: the first error in its order of keywords.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import re2
from jsonschema import Draft7Validator, SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

from parsers.claims.canonical_json import DocumentError, jcs

MAX_SCHEMA_BYTES, MAX_STEPS, MAX_PATTERN = 12 << 10, 1_000, 1_000
"""Bytes of a schema, keywords that are evaluated (some 30 µs for one), and characters of a pattern."""

_BYTES_A_STEP, _VALUES_A_STEP, _SIZES_A_STEP, _STATES_A_STEP = 12, 8, 60, 2_500
"""Work that takes as long as evaluating a keyword: bytes of a schema that are checked, values that a keyword iterates
over or names that it matches, instructions of a pattern that are compiled, and characters of a text times
instructions."""

_ORDER = (
    "$ref", "type", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf", "maxLength",
    "minLength", "pattern", "maxProperties", "minProperties", "required", "maxItems", "minItems", "uniqueItems",
    "const", "enum", "not", "anyOf", "oneOf", "allOf", "if", "contains", "propertyNames", "additionalProperties",
    "dependencies", "properties", "patternProperties", "items", "additionalItems",
)  # fmt: skip
_RANKS = {keyword: rank for rank, keyword in enumerate(_ORDER)}


@dataclass(slots=True)
class _StepCount:
    """The steps of an evaluation until now, and the patterns that it has compiled."""

    steps: float = 0.0
    patterns: set[tuple[str, str]] = field(default_factory=set)


_STEPS: ContextVar[_StepCount] = ContextVar("steps of an evaluation")


@lru_cache(maxsize=256)
def compile_pattern(pattern: str, flags: str = "") -> Any:
    """A pattern by RE2, which takes time linear in the text. Raises DocumentError for others, those with
    look-around and back-references among them."""
    unknown = set(flags) - set("gimsuy")
    if len(pattern) > MAX_PATTERN or unknown:
        raise DocumentError("bad-pattern", f"the pattern is too long, or has the flags {''.join(sorted(unknown))}")
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = "i" not in flags
    options.max_mem = 1 << 20
    prefix = "".join(flag for flag in "ms" if flag in flags)
    source = re2.sub(r"\\u([0-9a-fA-F]{4})", r"\\x{\1}", pattern)
    try:
        return re2.compile(f"(?{prefix}){source}" if prefix else source, options)
    except re2.error as error:
        raise DocumentError("bad-pattern", f"no pattern that RE2 takes: {str(error)[:200]}") from None


def is_match(pattern: str, text: str, flags: str = "") -> bool:
    """Whether a pattern matches somewhere in a text, within the budget of steps, if there is one. RE2 takes up to 16 ns
    for a character and an instruction of the pattern. Raises DocumentError."""
    compiled = compile_pattern(pattern, flags)
    count = _STEPS.get(None)
    if count is not None:
        if (pattern, flags) not in count.patterns:
            count.patterns.add((pattern, flags))
            _take(compiled.programsize / _SIZES_A_STEP)
        _take(2 / _VALUES_A_STEP + len(text) * compiled.programsize / _STATES_A_STEP)
    return compiled.search(text) is not None


@contextmanager
def step_budget() -> Iterator[None]:
    """Count the steps of all evaluations inside together."""
    token = _STEPS.set(_StepCount())
    try:
        yield
    finally:
        _STEPS.reset(token)


def _take(count: float) -> None:
    steps = _STEPS.get()
    steps.steps += count
    if steps.steps > MAX_STEPS:
        raise DocumentError("schema-too-costly", f"the schema takes more than {MAX_STEPS:,} steps")


def _counted(keyword: Callable[..., Any]) -> Callable[..., Iterator[ValidationError]]:
    """The keyword, which takes a step, and more for the values that it iterates over: its own list and the instance."""

    def evaluate(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        _take(1 + (_length(value) + _length(instance)) / _VALUES_A_STEP)
        yield from keyword(validator, value, instance, schema) or ()

    return evaluate


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 0


def _size(value: Any) -> int:
    """The values in a value, itself included."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_size, inner))


def _compared(keyword: Callable[..., Any]) -> Callable[..., Any]:
    """A keyword that iterates over all nested values of its value or the instance."""

    def evaluate(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        _take((_size(value) + _size(instance)) / _VALUES_A_STEP)
        return keyword(validator, value, instance, schema)

    return evaluate


def _pattern(_validator: Any, pattern: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not is_match(pattern, instance):
        yield ValidationError("pattern")


def _unique(_validator: Any, is_unique: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if is_unique and isinstance(instance, list) and len(set(map(jcs, instance))) < len(instance):
        yield ValidationError("uniqueItems")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, inner in patterns.items():
            for name, member in instance.items():
                if is_match(pattern, name):
                    yield from validator.descend(member, inner, path=name, schema_path=pattern)


def _additional(validator: Any, inner: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    patterns = schema.get("patternProperties", {})
    for name, member in instance.items():
        if name in schema.get("properties", {}) or any(is_match(pattern, name) for pattern in patterns):
            continue
        if inner is False:
            yield ValidationError("additionalProperties")
        elif inner is not True:
            yield from validator.descend(member, inner, path=name)


_OWN_WORDING = {
    "pattern": _pattern,
    "uniqueItems": _compared(_unique),
    "enum": _compared(Draft7Validator.VALIDATORS["enum"]),
    "const": _compared(Draft7Validator.VALIDATORS["const"]),
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
}


_Bounded: Any = extend(
    Draft7Validator,
    {name: _counted(keyword) for name, keyword in {**Draft7Validator.VALIDATORS, **_OWN_WORDING}.items()},
)


def first_error(schema: Any, instance: Any) -> str | None:
    """The first error of a value by a schema (draft 7), as `data/path message`; None where it is valid.
    Raises DocumentError for a schema that cannot be evaluated: bad-schema, bad-pattern, remote-reference,
    schema-too-costly."""
    with step_budget() if _STEPS.get(None) is None else nullcontext():
        return _first_error(check_schema(schema), instance)


def own_schema_error(schema: Any, instance: Any) -> str | None:
    """The first error of an instance by a schema of this program, which is not checked. Raises DocumentError:
    schema-too-costly."""
    with step_budget():
        return _first_error(schema, instance)


def _first_error(schema: Any, instance: Any) -> str | None:
    validator = _Bounded(schema, registry=Registry[Any]())
    try:
        errors = list(validator.iter_errors(instance))
    except Unresolvable as error:
        raise DocumentError("remote-reference", f"a reference is not in the schema: {error.ref[:200]!a}") from None
    except RecursionError:
        raise DocumentError("schema-too-costly", "the schema refers to itself without end") from None
    if not errors:
        return None
    return _worded(min(errors, key=lambda error: _rank(schema, error)))


def check_schema(schema: Any) -> Any:
    """The schema, in a budget of steps. Raises DocumentError for an invalid or too large schema."""
    size = len(jcs(schema))
    if not isinstance(schema, dict | bool) or size > MAX_SCHEMA_BYTES:
        raise DocumentError("bad-schema", f"a schema is an object of at most {MAX_SCHEMA_BYTES:,} bytes")
    _take(size // _BYTES_A_STEP)
    remote = next((target for target in _references(schema) if not target.startswith("#")), None)
    if remote is not None:
        raise DocumentError("remote-reference", f"{remote[:200]!a} is not part of the schema")
    try:
        Draft7Validator.check_schema(schema)
    except (SchemaError, RecursionError) as error:
        raise DocumentError("bad-schema", f"no JSON Schema: {str(error).partition(chr(10))[0][:200]}") from None
    return schema


def _references(schema: Any) -> Iterator[str]:
    todo = [schema]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                yield node["$ref"]
            todo.extend(node.values())
        elif isinstance(node, list):
            todo.extend(node)


def _rank(schema: Any, error: ValidationError) -> list[tuple[int, int]]:
    """The order of an error: keywords in the order of Ajv, and members in that of the schema."""
    ranks, node = [], schema
    for step in error.absolute_schema_path:
        names = list(node) if isinstance(node, Mapping) else []
        position = names.index(step) if step in names else step if isinstance(step, int) else 0
        ranks.append((_RANKS.get(str(step), -1), position))
        is_inside = isinstance(node, Mapping) and step in node
        is_item = isinstance(node, list) and isinstance(step, int) and step < len(node)
        node = node[step] if is_inside or is_item else None
    return ranks


def _worded(error: ValidationError) -> str:
    path = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in error.absolute_path)
    if error.validator in ("anyOf", "oneOf") and error.context:
        inner = sorted(error.context, key=lambda cause: list(map(str, cause.schema_path)))
        return ", ".join([*map(_worded, inner), f"data{path} {_message(error)}"])
    return f"data{path} {_message(error)}"


def _message(error: ValidationError) -> str:
    value = error.validator_value
    keyword = str(error.validator)
    if keyword == "type":
        return f"must be {','.join(value) if isinstance(value, list) else value}"
    if keyword == "required":
        missing = next((name for name in value if name not in error.instance), "")
        return f"must have required property '{missing}'"
    if keyword in _BOUNDS:
        return f"must be {_BOUNDS[keyword]} {value}"
    if keyword in _COUNTS:
        return f"must NOT have {_COUNTS[keyword][0]} than {value} {_COUNTS[keyword][1]}"
    if keyword == "pattern":
        return f'must match pattern "{value}"'
    return _MESSAGES.get(keyword, "is not valid")


_BOUNDS = {
    "minimum": ">=",
    "maximum": "<=",
    "exclusiveMinimum": ">",
    "exclusiveMaximum": "<",
    "multipleOf": "multiple of",
}
_COUNTS = {
    "minLength": ("fewer", "characters"),
    "maxLength": ("more", "characters"),
    "minItems": ("fewer", "items"),
    "maxItems": ("more", "items"),
    "minProperties": ("fewer", "properties"),
    "maxProperties": ("more", "properties"),
}
_MESSAGES = {
    "additionalProperties": "must NOT have additional properties",
    "enum": "must be equal to one of the allowed values",
    "const": "must be equal to constant",
    "uniqueItems": "must NOT have duplicate items",
    "not": "must NOT be valid",
    "anyOf": "must match a schema in anyOf",
    "oneOf": "must match exactly one schema in oneOf",
    "contains": "must contain at least 1 valid item(s)",
    "propertyNames": "property name must be valid",
}
