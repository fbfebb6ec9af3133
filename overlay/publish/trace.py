"""The result of the trace of a transaction (`/v1/diagnose`): whether a step is done, open or failed, and whether the
transaction is listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OPEN = frozenset(("requested", "seen", "mined", "newest"))
"""Steps that are not done and are not a fault: the transaction waits, or a later card counts."""


def tone(step: Mapping[str, Any]) -> str:
    """`good` for a step that is done, `open` for one that waits, `bad` for one that failed."""
    if step["ok"]:
        return "good"
    waits = step["step"] in _OPEN or (step["step"] == "fetched" and not step.get("code"))
    return "open" if waits else "bad"


def is_listed(trace: Mapping[str, Any]) -> bool:
    """Whether the transaction lists something, or a valid record of it belongs to a listing that is live. Raw bytes:
    whether they would."""
    valid = [record for record in trace["records"] if record["valid"]]
    if trace["where"] == "raw":
        return any(record["kind"] != "near-miss" for record in valid)
    live = {state["id"] for state in trace.get("now") or () if state["status"] == "live"}
    return bool(trace["listed"]) or any(record.get("id") in live for record in valid)


def ends_well(trace: Mapping[str, Any]) -> bool:
    """Whether no step failed, also where the transaction delists something."""
    return is_listed(trace) or not any(map(_is_final_fault, trace["steps"]))


def _is_final_fault(step: Mapping[str, Any]) -> bool:
    return tone(step) == "bad" or step.get("code") == "given-up"


def is_settled(trace: Mapping[str, Any]) -> bool:
    """Whether following the transaction further shows nothing new: it is in an indexed block and the target of its
    pointer was fetched, a step failed, or the search for it was given up."""
    steps = trace["steps"]
    if any(map(_is_final_fault, steps)):
        return True
    return trace.get("height") is not None and all(step["ok"] or step["step"] != "fetched" for step in steps)
