"""Request bodies: JSON that strangers wrote, validated once at the door by pydantic."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

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
    """A body: a JSON object of exactly these members, each of exactly its type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _bytes(text: str) -> int:
    """How many bytes a text tells in hex; -1 for one that is none. Spaces may stand between them."""
    try:
        return len(bytes.fromhex(text))
    except ValueError:
        return -1


class RawTransaction(Body):
    """A transaction handed in: its raw bytes as hex."""

    rawTx: str  # noqa: N815 - the member's name in JSON

    @field_validator("rawTx")
    @classmethod
    def _is_hex(cls, text: str) -> str:
        if not text or _bytes(text) * 2 != len(text):
            raise ValueError("not pairs of hex digits")
        return text


class WantedTransaction(Body):
    """A transaction to be fetched: its txid as 64 hex digits."""

    txid: str

    @field_validator("txid")
    @classmethod
    def _is_txid(cls, text: str) -> str:
        if len(text) != 64 or _bytes(text) != 32:
            raise ValueError("not 64 hex digits")
        return text.lower()


def read(model: type[_Body], document: bytes) -> _Body:
    """The body that `document` is. Raises BadRequestError naming everything that is wrong, by JSON Pointer."""
    try:
        return model.model_validate_json(document)
    except ValidationError as error:
        raise BadRequestError([_fault(model, one) for one in error.errors(include_url=False)]) from None


def _fault(model: type[Body], error: Any) -> Fault:
    code = _CODES.get(error["type"], "wrong-type")
    pointer = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in error["loc"])
    members = ", ".join(model.model_fields)
    said = error["msg"].lower().removeprefix("value error, ")
    detail = f"{pointer[:100]!a}: {said}" if pointer else f"the body: {said}"
    return Fault(code, f"{detail}; the body is a JSON object with {members}", pointer=pointer[:200])
