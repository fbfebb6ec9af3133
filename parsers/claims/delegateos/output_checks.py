"""Verification of an output by the specification of a contract (§6, §10.3): schemas, the seven checks, composites.

An outcome is `{passed, score?, details?}`; a specification that cannot be evaluated raises DocumentError with the
code bad-verification, or one of `parsers/claims/json_schema.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from parsers.claims.canonical_json import DocumentError, jcs
from parsers.claims.json_schema import first_error, is_match, step_budget

MAX_STEPS, MAX_NESTING = 64, 8
"""Steps of a composite, nested ones included, and the depth of nested composites."""

PASS_THRESHOLD = 0.7
_MISSING = object()

Outcome = dict[str, Any]


def _outcome(is_passed: bool, details: str | None = None) -> Outcome:
    return {"passed": is_passed, "score": int(is_passed), **({"details": details} if details and not is_passed else {})}


def _field(output: Any, path: str) -> Any:
    """The value at a path of names with points between them, or _MISSING."""
    value = output
    for name in path.split("."):
        if isinstance(value, dict):
            value = value.get(name, _MISSING)
        elif isinstance(value, list):
            is_index = name.isascii() and name.isdigit() and str(int(name[:9])) == name and int(name) < len(value)
            value = len(value) if name == "length" else value[int(name)] if is_index else _MISSING
        else:
            return _MISSING
    return value


def _chosen(output: Any, params: Mapping[str, Any]) -> Any:
    return _field(output, params["field"]) if params.get("field") else output


def _regex_match(output: Any, params: Mapping[str, Any]) -> Outcome:
    value = _chosen(output, params)
    if not isinstance(value, str):
        return _outcome(False, "Value is not a string")
    return _outcome(is_match(_text(params, "pattern"), value, _text(params, "flags", "")))


def _json_schema(output: Any, params: Mapping[str, Any]) -> Outcome:
    error = first_error(params.get("schema"), output)
    return _outcome(error is None, error)


def _string_length(output: Any, params: Mapping[str, Any]) -> Outcome:
    """Lengths are in UTF-16 units."""
    value = _chosen(output, params)
    if not isinstance(value, str):
        return _outcome(False, "Value is not a string")
    length = len(value.encode("utf-16-le", "surrogatepass")) // 2
    return _outcome(_is_within(length, params), f"Length {length} out of bounds")


def _array_length(output: Any, params: Mapping[str, Any]) -> Outcome:
    value = _chosen(output, params)
    if not isinstance(value, list):
        return _outcome(False, "Value is not an array")
    return _outcome(_is_within(len(value), params), f"Array length {len(value)} out of bounds")


def _is_within(length: int, params: Mapping[str, Any]) -> bool:
    least, most = (_number(params.get(name, default)) for name, default in (("min", 0), ("max", float("inf"))))
    return least <= length <= most


def _field_exists(output: Any, params: Mapping[str, Any]) -> Outcome:
    fields = params.get("fields")
    if not isinstance(fields, list) or len(fields) > 1_000 or not all(isinstance(field, str) for field in fields):
        raise _refused("field_exists requires fields")
    missing = [field for field in fields if (_field(output, field) if field else output) is _MISSING]
    return _outcome(not missing, f"Missing fields: {', '.join(missing)}")


def _exit_code(output: Any, params: Mapping[str, Any]) -> Outcome:
    if not isinstance(output, dict) or "exitCode" not in output:
        return _outcome(False, "Output missing exitCode field")
    return _outcome(_is_same(output["exitCode"], params.get("expected")))


def _output_equals(output: Any, params: Mapping[str, Any]) -> Outcome:
    return _outcome(_is_same(output, params.get("expected")))


def _is_same(value: Any, other: Any) -> bool:
    return jcs(value) == jcs(other)


CHECKS: dict[str, Callable[[Any, Mapping[str, Any]], Outcome]] = {
    "regex_match": _regex_match,
    "json_schema": _json_schema,
    "string_length": _string_length,
    "array_length": _array_length,
    "field_exists": _field_exists,
    "exit_code": _exit_code,
    "output_equals": _output_equals,
}


def check_output(specification: Any, output: Any) -> Outcome:
    """The outcome of an output by a specification. Raises DocumentError."""
    with step_budget():
        return _check(specification, output, [0], 0)


def _check(specification: Any, output: Any, steps: list[int], depth: int) -> Outcome:
    steps[0] += 1
    if steps[0] > MAX_STEPS or depth > MAX_NESTING:
        raise _refused(f"more than {MAX_STEPS} steps, or {MAX_NESTING} composites in each other")
    method = specification.get("method") if isinstance(specification, dict) else None
    if method == "schema_match":
        if "schema" not in specification:
            raise _refused("schema_match requires schema")
        return _json_schema(output, specification)
    if method == "deterministic_check":
        return _deterministic(specification, output)
    if method == "composite":
        return _composite(specification, output, steps, depth)
    raise _refused(f"Unknown verification method: {str(method)[:100]}")


def _deterministic(specification: Mapping[str, Any], output: Any) -> Outcome:
    name = specification.get("checkName")
    if not name:
        raise _refused("deterministic_check requires checkName")
    check = CHECKS.get(name) if isinstance(name, str) else None
    if check is None:
        raise _refused(f"Check function not found: {str(name)[:100]}")
    params = specification.get("checkParams", {})
    if not isinstance(params, dict):
        raise _refused("checkParams is not an object")
    outcome = check(output, params)
    if "expectedResult" in specification:
        return {**outcome, "passed": _is_same(outcome, specification["expectedResult"])}
    return outcome


def _composite(specification: Mapping[str, Any], output: Any, steps: list[int], depth: int) -> Outcome:
    parts, mode = specification.get("steps"), specification.get("mode")
    if not isinstance(parts, list) or not mode:
        raise _refused("composite requires steps and mode")
    outcomes = []
    for number, part in enumerate(parts):
        outcomes.append(_check(part, output, steps, depth + 1))
        if mode == "all_pass" and not outcomes[-1]["passed"]:
            details = outcomes[-1].get("details", "no details")
            return {"passed": False, "score": 0, "details": f"Step {number} failed: {details}"}
    if mode == "all_pass":
        return {"passed": True, "score": 1}
    if mode == "majority":
        if not parts:
            raise _refused("majority requires steps")
        passed = sum(outcome["passed"] for outcome in outcomes)
        return {"passed": passed * 2 > len(parts), "score": passed / len(parts)}
    if mode == "weighted":
        return _weighted(specification, outcomes)
    raise _refused(f"Unknown composite mode: {str(mode)[:100]}")


def _weighted(specification: Mapping[str, Any], outcomes: list[Outcome]) -> Outcome:
    weights = specification.get("weights")
    if not isinstance(weights, list) or len(weights) != len(outcomes):
        raise _refused("weighted mode requires weights matching steps length")
    score = 0.0
    for weight, outcome in zip(weights, outcomes, strict=True):
        score += _number(weight) * outcome.get("score", int(outcome["passed"]))
    return {"passed": score >= _number(specification.get("passThreshold", PASS_THRESHOLD)), "score": score}


def check_weights(specification: Any) -> None:
    """Raises DocumentError for weights, in a composite or one inside of it, that do not add up to 1 (±0.001)."""
    todo = [specification]
    while todo:
        part = todo.pop()
        if not isinstance(part, dict):
            continue
        steps = part.get("steps")
        todo.extend(steps if isinstance(steps, list) else ())
        weights = part.get("weights")
        if part.get("mode") == "weighted" and isinstance(weights, list):
            total = sum(_number(weight) for weight in weights)
            if abs(total - 1) > 0.001:
                raise _refused(f"the weights add up to {total:g} and not to 1")


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refused(f"{str(value)[:40]!a} is not a number")
    return value


def _text(params: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = params.get(name, default)
    if not isinstance(value, str):
        raise _refused(f"{name} is not a text")
    return value


def _refused(detail: str) -> DocumentError:
    return DocumentError("bad-verification", detail)
