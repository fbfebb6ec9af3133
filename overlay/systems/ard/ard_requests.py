"""Requests of ARD v0.9 as searches of the API: bodies (§7.2, §7.3), filters (§7.1), filter expressions (App. A)."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from indexer.model import LATEST_TIME
from overlay.api import values
from overlay.api.parameters import MAX_LIMIT
from overlay.api.problems import BadRequestError, Fault, bad_request
from overlay.api.request_bodies import Body
from overlay.systems.ard.catalog_entries import MEDIA_TYPES
from overlay.text.timestamps import timestamp

Pairs = list[tuple[str, str]]


class ArdQuery(Body):
    """Words and constraints of `/explore`. Both narrow the result."""

    text: str = ""
    filter: dict[str, str | list[str]] = {}  # noqa: RUF012 - pydantic copies it


class ArdSearchQuery(ArdQuery):
    """Words and constraints of `/search`, where words are required."""

    text: str


class ArdSearch(Body):
    """The body of `POST /search`. `federation` changes nothing, as this registry refers to no other registry."""

    query: ArdSearchQuery
    federation: Literal["auto", "referrals", "none"] = "auto"
    pageSize: int = 10  # noqa: N815 - the member's name in JSON
    pageToken: str | None = None  # noqa: N815


class FacetRequest(Body):
    """One field to count the values of."""

    field: str
    limit: int = 20
    minCount: int = 1  # noqa: N815


class FacetRequests(Body):
    """The result type of `/explore`."""

    facets: list[FacetRequest]


class ArdExplore(Body):
    """The body of `POST /explore`."""

    query: ArdQuery = ArdQuery()
    resultType: FacetRequests  # noqa: N815


PARAMETERS = {
    "tags": "tag",
    "capabilities": "skillId",
    "metadata.chain": "chain",
    "metadata.owner": "owner",
    "metadata.domain": "domain",
}
"""The search parameter for each field path of an entry that it selects exactly."""

FACETS = {"type": "type", "tags": "tag", "capabilities": "skillId", "metadata.chain": "chain"}
"""The facet of the API for each field path that can be counted."""

_FILTERS = ("type", "publisher", *PARAMETERS)
_ORDERS = {
    "displayName": ("name", "-name"),
    "name": ("name", "-name"),
    "updatedAt": ("-updated", "updated"),
    "updated_at": ("-updated", "updated"),
    "createdAt": ("-created", "created"),
    "created_at": ("-created", "created"),
}
"""For each field: the sort of the API that puts the least first, and that which puts the greatest first."""

_CLAUSE = re.compile(r"""\s*([\w.]{1,60})\s*(=|>|>=)\s*(?:'([^']*)'|"([^"]*)")\s*""")


class Constraints(NamedTuple):
    """The search parameters of a filter, and whether any entry can satisfy it."""

    pairs: Pairs
    satisfiable: bool = True


def constraints(
    filters: Mapping[str, str | Sequence[str]], publisher: str, chains: Mapping[str, str], where: str
) -> Constraints:
    """A filter's constraints: any of the values of a field, all fields. `publisher` is that of all entries, `chains`
    are the configured ones with their CAIP-2 ids. Raises BadRequestError for a field that is not supported."""
    pairs: Pairs = []
    unsupported = [path for path in filters if path not in _FILTERS]
    if unsupported:
        raise BadRequestError([_unsupported(path, where) for path in unsupported])
    for path, value in filters.items():
        requested = [value] if isinstance(value, str) else list(value)
        usable = _usable(path, requested, publisher, chains)
        if requested and not usable:
            return Constraints([], satisfiable=False)
        if path == "type":
            pairs += [("type", kind) for kind in usable] if len(usable) == 1 else []
        elif path in PARAMETERS:
            pairs += [(PARAMETERS[path], entry) for entry in usable]
    return Constraints(pairs)


def _usable(path: str, requested: Iterable[str], publisher: str, chains: Mapping[str, str]) -> list[str]:
    """The values that an entry can have, as the API writes them."""
    if path == "type":
        return [kind for kind, media in MEDIA_TYPES.items() if media in requested]
    if path == "publisher":
        return [value for value in requested if value.lower() == publisher.lower()]
    if path == "metadata.chain":
        return [value for value in requested if value in (*chains, *chains.values())]
    return list(requested)


def _unsupported(path: str, where: str) -> Fault:
    detail = f"{where}: {values.shown(path)} cannot be filtered by; supported are {', '.join(_FILTERS)}"
    return Fault("unsupported-filter", detail, pointer=f"/{where}"[:200])


def expression(text: str, publisher: str, chains: Mapping[str, str]) -> Constraints:
    """The constraints of a filter expression: clauses like `type = 'a,b'` or `updatedAt > '2026-01-01'`, joined by AND.
    Raises BadRequestError."""
    filters: dict[str, list[str]] = {}
    since: Pairs = []
    for clause in re.split(r"\sAND\s", text, flags=re.IGNORECASE) if text.strip() else ():
        parsed = _CLAUSE.fullmatch(clause)
        if parsed is None:
            detail = f"filter: {values.shown(clause)} is not a clause such as type = 'application/mcp-server-card+json'"
            raise bad_request("bad-filter", detail, "filter")
        path, operator, value = parsed[1], parsed[2], parsed[3] if parsed[3] is not None else parsed[4]
        if path == "updatedAfter" or (path == "updatedAt" and operator != "="):
            since.append(("updatedSince", _moment(value, later=operator != ">=")))
        elif operator != "=":
            raise bad_request("bad-filter", f"filter: {path} can only be compared by =", "filter")
        else:
            filters.setdefault("publisher" if path == "publisherId" else path, []).extend(value.split(","))
    narrowed = constraints(filters, publisher, chains, "filter")
    return Constraints([*narrowed.pairs, *since], narrowed.satisfiable)


def _moment(value: str, *, later: bool) -> str:
    """The first second that is later than a time, or not earlier. Raises BadRequestError."""
    try:
        return timestamp(min(values.moment(value) + later, LATEST_TIME))
    except values.ValueRefusedError as error:
        raise bad_request(error.code, f"filter: {error}", "filter") from None


def order(text: str) -> str:
    """The sort of the API for `orderBy`. The default is the oldest first: new entries come last. Raises
    BadRequestError."""
    field, _, direction = text.strip().partition(" ")
    direction = direction.strip().upper()
    if not field:
        return "-created"
    if field not in _ORDERS or direction not in ("", "ASC", "DESC"):
        detail = f"orderBy: {values.shown(text)} is not one of {', '.join(_ORDERS)}, with ASC or DESC after it"
        raise bad_request("bad-order", detail, "orderBy")
    return _ORDERS[field][direction == "DESC"]


def page(size: int, token: str | None) -> Pairs:
    """The parameters for a page: sizes above 100 are cut. A token is a page cursor of the API, or the base64 of an
    offset. Raises BadRequestError for a size below 1."""
    if size < 1:
        raise bad_request("too-small", f"pageSize: {size} is below 1", "pageSize")
    pairs = [("limit", str(min(size, MAX_LIMIT)))]
    if not token:
        return pairs
    try:
        offset = b64decode(token, validate=True)
    except (Base64Error, ValueError):
        offset = b""
    return [*pairs, ("offset", offset.decode()) if offset.isdigit() and len(offset) < 9 else ("cursor", token)]
