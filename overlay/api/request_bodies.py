"""Request bodies: strangers' JSON, validated by pydantic."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from overlay.api.problems import BadRequestError, Fault
from parsers.cards import strict_json
from parsers.errors import ParseError

_CODES = {
    "json_invalid": "not-json",
    "missing": "missing",
    "extra_forbidden": "unknown-member",
    "model_type": "not-an-object",
    "value_error": "not-hex",
}
_Body = TypeVar("_Body", bound="Body")


class Body(BaseModel):
    """A JSON object with exactly these members, each of exactly its type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class OpenBody(Body):
    """A JSON object with these members, each of exactly its type; others are not read."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


def _is_hex(text: str) -> bool:
    try:
        return 2 * len(bytes.fromhex(text)) == len(text) > 0
    except ValueError:
        return False


def _hex(text: str) -> str:
    if not _is_hex(text):
        raise ValueError("not pairs of hex digits")
    return text


def _txid(text: str) -> str:
    if len(text) != 64 or not _is_hex(text):
        raise ValueError("not 64 hex digits")
    return text.lower()


Hex = Annotated[str, AfterValidator(_hex)]
"""Bytes as hex, at least one."""

Txid = Annotated[str, AfterValidator(_txid)]
"""A txid in display order."""


class RawTransaction(Body):
    """A raw transaction as hex."""

    rawTx: Hex  # noqa: N815 - the member's name in JSON


class WantedTransaction(Body):
    """The txid of a transaction to fetch, 64 hex digits (display order)."""

    txid: Txid


class PaymentBody(Body):
    """The proof of a payment as hex: a BEEF, and the transaction that its first input spends if that is not in it."""

    beef: Hex
    parent: Hex | None = None


class EvidenceBody(Body):
    """Evidence of work: a document of a kind, its payment, and the consent of its key to work for a listing."""

    kind: str | None = None
    document: Any = None
    listing: str | None = None
    bind: str | None = None
    payment: PaymentBody | None = None


class LookupQuestion(OpenBody):
    """A question to a lookup service of a BSV overlay (BRC-24). What the query may be depends on the service."""

    service: str
    query: Any


class SyncRequest(OpenBody):
    """Another overlay's question for outputs with a score above `since` (GASP)."""

    version: int
    since: float = Field(ge=0, allow_inf_nan=False)
    limit: int | None = Field(default=None, ge=1)


class ArcCallback(OpenBody):
    """What ARC reports of a transaction: its status, and its merkle path (BRC-74, hex) once it is in a block."""

    txid: Txid
    txStatus: str | None = None  # noqa: N815 - the members' names in JSON
    merklePath: str | None = None  # noqa: N815


class NodeRequest(OpenBody):
    """Another overlay's question for a transaction of the graph that `graphID`, an outpoint, is the tip of (GASP)."""

    txid: Txid
    graphID: str  # noqa: N815 - the member's name in JSON
    outputIndex: int = Field(ge=0)  # noqa: N815


def read(model: type[_Body], document: bytes) -> _Body:
    """The body of a document. Raises BadRequestError naming every fault by JSON Pointer."""
    try:
        return model.model_validate_json(document)
    except ValidationError as error:
        raise _refused(model, error) from None


def read_strictly(model: type[_Body], document: bytes) -> _Body:
    """The body of a document that a token comes with: one that parsers could read differently is refused as no JSON.
    Raises BadRequestError as `read` does."""
    try:
        value = strict_json.request(document)
    except ParseError as error:
        detail = f"the body: {error}; the body is a JSON object with {', '.join(model.model_fields)}"
        raise BadRequestError([Fault("not-json", detail, pointer="")]) from None
    return checked(model, value)


def checked(model: type[_Body], value: Any) -> _Body:
    """The body in a JSON value. Raises BadRequestError as `read` does."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _refused(model, error) from None


def _refused(model: type[Body], error: ValidationError) -> BadRequestError:
    return BadRequestError([_fault(model, one) for one in error.errors(include_url=False)])


def _fault(model: type[Body], error: Any) -> Fault:
    code = _CODES.get(error["type"], "wrong-type")
    pointer = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in error["loc"])
    members = ", ".join(model.model_fields)
    message = error["msg"].lower().removeprefix("value error, ")
    detail = f"{pointer[:100]!a}: {message}" if pointer else f"the body: {message}"
    return Fault(code, f"{detail}; the body is a JSON object with {members}", pointer=pointer[:200])
