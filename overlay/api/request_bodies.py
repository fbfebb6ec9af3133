"""Request bodies: strangers' JSON, validated by pydantic."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from overlay.api.problems import BadRequestError, Fault

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


def _bytes(text: str) -> int:
    """The number of bytes that a hex text encodes, -1 for other texts."""
    try:
        return len(bytes.fromhex(text))
    except ValueError:
        return -1


class RawTransaction(Body):
    """A raw transaction as hex."""

    rawTx: str  # noqa: N815 - the member's name in JSON

    @field_validator("rawTx")
    @classmethod
    def _is_hex(cls, text: str) -> str:
        if not text or _bytes(text) * 2 != len(text):
            raise ValueError("not pairs of hex digits")
        return text


class WantedTransaction(Body):
    """The txid of a transaction to fetch, 64 hex digits (display order)."""

    txid: str

    @field_validator("txid")
    @classmethod
    def _is_txid(cls, text: str) -> str:
        if len(text) != 64 or _bytes(text) != 32:
            raise ValueError("not 64 hex digits")
        return text.lower()


class PaymentBody(Body):
    """The proof of a payment as hex: a BEEF, and the transaction that its first input spends if that is not in it."""

    beef: str
    parent: str | None = None

    @field_validator("beef", "parent")
    @classmethod
    def _is_hex(cls, text: str | None) -> str | None:
        if text is not None and (not text or _bytes(text) * 2 != len(text)):
            raise ValueError("not pairs of hex digits")
        return text


class EvidenceBody(Body):
    """Evidence of work: a document of a kind, its payment, and the consent of its key to work for a listing."""

    kind: str | None = None
    document: Any = None
    listing: str | None = None
    bind: str | None = None
    payment: PaymentBody | None = None


class LookupQuestion(Body):
    """A question to a lookup service of a BSV overlay (BRC-24). What the query may be depends on the service."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    service: str
    query: Any


class SyncRequest(Body):
    """Another overlay's question for outputs with a score above `since` (GASP)."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    version: int
    since: float = Field(ge=0, allow_inf_nan=False)
    limit: int | None = Field(default=None, ge=1)


class ArcCallback(WantedTransaction):
    """What ARC reports of a transaction: its status, and its merkle path (BRC-74, hex) once it is in a block."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    txStatus: str | None = None  # noqa: N815 - the members' names in JSON
    merklePath: str | None = None  # noqa: N815


class NodeRequest(WantedTransaction):
    """Another overlay's question for a transaction of the graph that `graphID`, an outpoint, is the tip of (GASP)."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    graphID: str  # noqa: N815 - the member's name in JSON
    outputIndex: int = Field(ge=0)  # noqa: N815


def read(model: type[_Body], document: bytes) -> _Body:
    """The body of a document. Raises BadRequestError naming every fault by JSON Pointer."""
    try:
        return model.model_validate_json(document)
    except ValidationError as error:
        raise _refused(model, error) from None


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
