"""Errors as RFC 9457 problem details, which name every fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

from overlay.listings.lookup import ListingHiddenError, ListingNotFoundError
from overlay.text.timestamps import timestamp

TYPE = "application/problem+json"
_NAMED_IN_DETAIL = 5
MAX_FAULTS = 100
"""Faults in an answer, which a body of a megabyte may have 100,000 of."""


class Fault(NamedTuple):
    """One fault of a request, with its parameter or the RFC 6901 pointer into the body.

    `code` is stable and for programs; `detail` is a sentence with the value and what would be right.
    """

    code: str
    detail: str
    parameter: str | None = None
    pointer: str | None = None

    def as_json(self) -> dict[str, str]:
        """An entry of `errors`, without absent members."""
        locations = {"parameter": self.parameter, "pointer": self.pointer}
        return {k: v for k, v in locations.items() if v is not None} | {"code": self.code, "detail": self.detail}


class ProblemError(Exception):
    """A request that cannot be answered. `status` is 400 to 599, `detail` a sentence for people, and `members` further
    members of its JSON."""

    def __init__(
        self,
        status: int,
        detail: str,
        faults: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.faults, self.headers = status, detail, tuple(faults), dict(headers or {})
        self.members = dict(members or {})

    def as_json(self, request_id: str) -> dict[str, Any]:
        """The body: RFC 9457 members, `errors`, `requestId`, and `error` for clients that read only a string."""
        return {
            "type": "about:blank",
            "status": self.status,
            "title": HTTPStatus(self.status).phrase,
            "detail": self.detail,
            "errors": [fault.as_json() for fault in self.faults],
            "requestId": request_id,
            "error": self.detail,
        } | self.members


class BadRequestError(ProblemError):
    """A 400 that names each fault, up to MAX_FAULTS, and counts all of them."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        named = [fault.detail for fault in faults[:_NAMED_IN_DETAIL]]
        if len(faults) > _NAMED_IN_DETAIL:
            named.append(f"and {len(faults) - _NAMED_IN_DETAIL} more")
        super().__init__(400, "; ".join(named), faults[:MAX_FAULTS])


def bad_request(code: str, detail: str, parameter: str | None = None, *, pointer: str | None = None) -> BadRequestError:
    """A 400 with one fault."""
    return BadRequestError((Fault(code, detail, parameter, pointer),))


class NotFoundError(ProblemError):
    """A 404."""

    def __init__(self, detail: str) -> None:
        super().__init__(404, detail)


def listing_problem(error: ListingNotFoundError, base: str) -> ProblemError:
    """The problem for a listing that is not there: a 404; a 451 (RFC 7725) where the operator of the server at this
    base URL hides it."""
    if not isinstance(error, ListingHiddenError):
        return NotFoundError(str(error))
    decision = error.decision
    members = {"reason": decision.reason.value, "law": decision.law or None, "since": timestamp(decision.since)}
    stated = {name: value for name, value in members.items() if value} | (
        {} if decision.until is None else {"until": timestamp(decision.until)}
    )
    return ProblemError(451, str(error), headers={"Link": f'<{base}/>; rel="blocked-by"'}, members=stated)
