"""Request bodies: strangers' JSON, validated by pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from overlay.answers.schemas import tidy
from overlay.api.problems import BadRequestError, Fault, bad_request
from parsers.cards import strict_json
from parsers.errors import CardError, ParseError

_CODES = {
    "json_invalid": "not-json",
    "missing": "missing",
    "extra_forbidden": "unknown-member",
    "model_type": "not-an-object",
    "value_error": "not-hex",
    "literal_error": "not-one-of",
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


Hex = Annotated[str, AfterValidator(_hex), Field(json_schema_extra={"pattern": "^([0-9a-fA-F]{2})+$"})]
"""Bytes as hex, at least one."""

Txid = Annotated[str, AfterValidator(_txid), Field(json_schema_extra={"pattern": "^[0-9a-fA-F]{64}$"})]
"""A txid in display order."""


class RawTransaction(Body):
    """A raw transaction as hex."""

    rawTx: Hex  # noqa: N815 - the member's name in JSON


class WantedTransaction(Body):
    """The txid of a transaction to fetch, 64 hex digits (display order)."""

    txid: Txid


def _prices(value: Any) -> Any:
    if not isinstance(value, dict | list | None):
        raise PydanticCustomError("wrong-type", "config is a price, a list of prices or a card")
    return value


Prices = Annotated[Any, AfterValidator(_prices), Field(json_schema_extra={"type": ["object", "array", "null"]})]


class PaymentCheckBody(Body):
    """A payment claim, and the listing or price that it pays for: either the listing `id` or `config` is needed."""

    claim: Any = Field(
        None, description="The claim (A2B §4.2): `configId`, `stage`, `rawTx`, `currency`; null or absent for none."
    )
    id: str | None = Field(None, description="The listing with the price; else `config` is needed.")
    config: Prices = Field(None, description="A price, a list of prices, or a card.")
    skillId: str | None = None  # noqa: N815 - the member's name in JSON
    state: Literal["pending", "running", "needsFinal", "completed", "failed"] | None = Field(
        None, description="Of the task (A2B §5.4), which decides the stages that are taken; by default, any stage is."
    )

    @model_validator(mode="after")
    def _one_price(self) -> PaymentCheckBody:
        if (self.id is None) == (self.config is None):
            raise PydanticCustomError("missing", "either id is needed, the listing that is paid, or config")
        return self


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


def read_exactly(model: type[_Body], document: bytes) -> _Body:
    """A document with prices as a model: numbers with a fraction are Decimal. Raises BadRequestError as `read` does,
    also for a repeated key, as another parser may read the other value."""
    try:
        value, repeated = strict_json.loads(document)
    except CardError as error:
        raise bad_request("not-json", error.about("the body"), pointer="") from None
    if repeated:
        raise bad_request("repeated", f"the key at {repeated[0].pointer} is repeated", pointer=repeated[0].pointer)
    return checked(model, value)


def checked(model: type[_Body], value: Any) -> _Body:
    """The body in a JSON value. Raises BadRequestError as `read` does."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _refused(model, error) from None


def _refused(model: type[Body], error: ValidationError) -> BadRequestError:
    return BadRequestError([_fault(model, detail) for detail in error.errors(include_url=False)])


def _fault(model: type[Body], error: Any) -> Fault:
    code = _CODES.get(error["type"], "wrong-type")
    pointer = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in error["loc"])
    members = ", ".join(model.model_fields)
    message = "not an object" if code == "not-an-object" else error["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    detail = f"{pointer[:100]!a}: {message}" if pointer else f"the body: {message}"
    return Fault(code, f"{detail}; the body is a JSON object with {members}", pointer=pointer[:200])


BODIES: dict[str, type[Body]] = {
    "PaymentClaim": PaymentCheckBody,
    "RawTransaction": RawTransaction,
    "WantedTransaction": WantedTransaction,
}
"""The bodies of the API by their names in the OpenAPI document."""


def body_schemas(bodies: Mapping[str, type[Body]]) -> dict[str, Any]:
    """The JSON Schemas of bodies by their names, and of the objects inside by the names of their classes."""
    schemas: dict[str, Any] = {}
    for name, model in bodies.items():
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= schema.pop("$defs", {}) | {name: schema}
    return {name: tidy(schema) for name, schema in schemas.items()}
