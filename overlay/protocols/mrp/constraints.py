"""The constraints of DISCOVER and NEGOTIATE: what a search can apply, and what no listing states."""

from __future__ import annotations

from typing import Any, NamedTuple

from overlay.api.values import shown
from overlay.protocols.mrp.envelopes import MrpError

_NEVER_STATED = ("policy", "data_residency", "max_latency_ms")
"""Requirements that no listing states, so that none is offered under them."""

_APPLIED = ("max_cost", "currency", "capability")


class RouteConstraints(NamedTuple):
    """A highest price with its currency, a capability, and the names of members that cannot be met or were not
    applied."""

    max_cost: str | None
    currency: str
    capability: str | None
    unmet: list[str]
    unapplied: list[str]


def read(constraints: dict[str, Any]) -> RouteConstraints:
    """The constraints in a payload. `max_cost` is in `currency`, by default USD. Raises MrpError."""
    max_cost, currency = constraints.get("max_cost"), constraints.get("currency", "USD")
    if max_cost is not None and (isinstance(max_cost, bool) or not isinstance(max_cost, int | float) or max_cost < 0):
        raise MrpError(
            "MRP_INVALID_REQUEST", f"constraints.max_cost is {shown(str(max_cost))}: a number from 0 is needed"
        )
    if not isinstance(currency, str):
        raise MrpError("MRP_INVALID_REQUEST", "constraints.currency is no text")
    capability = constraints.get("capability")
    if capability is not None and not isinstance(capability, str):
        raise MrpError("MRP_INVALID_REQUEST", "constraints.capability is no text")
    unmet = [name for name in _NEVER_STATED if constraints.get(name) not in (None, [])]
    unapplied = [name for name in constraints if name not in (*_APPLIED, *_NEVER_STATED)]
    return RouteConstraints(None if max_cost is None else _plain(max_cost), currency, capability, unmet, unapplied[:32])


def _plain(number: float) -> str:
    return format(number, "f") if isinstance(number, int) else format(number, ".12f").rstrip("0").rstrip(".")
