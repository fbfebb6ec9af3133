"""Signed JSON: read strictly, within limits that keep verification below 50 ms, and written by RFC 8785 (JCS).

The errors of a signed document, by code:

too-large, too-many-values, too-deep, truncated, not-json, duplicate-key, number-range, not-a-number, bad-text: the
document cannot be read without doubt about what was signed; the codes of each kind of document are in its module.
"""

from __future__ import annotations

import math
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import rfc8785

from parsers.cards import strict_json
from parsers.errors import CardError

MAX_BYTES = 256 << 10
"""Bytes of a document."""

MAX_VALUES = 5_000
"""Values in a document: RFC 8785 takes some 4 µs for one."""

SAFE_INTEGER = 2**53 - 1

_CODES = {
    "card-size": "too-large",
    "card-nesting": "too-deep",
    "card-number": "number-range",
    "card-constant": "not-a-number",
    "card-surrogate": "bad-text",
    "card-utf8": "bad-text",
    "card-bom": "bad-text",
}


class DocumentError(Exception):
    """A document that does not verify: a stable code, a sentence about its fault, and the names of members that it
    needs to count and does not have."""

    def __init__(self, code: str, detail: str, missing: Sequence[str] = ()) -> None:
        super().__init__(detail)
        self.code, self.detail, self.missing = code, detail, tuple(missing)


def read(body: bytes, *, max_bytes: int = MAX_BYTES) -> Any:
    """The value of a JSON text: numbers are int, or float where they have a fraction or an exponent. Raises
    DocumentError."""
    check_size(body, max_bytes=max_bytes)
    try:
        value, repeated = strict_json.loads(body)
    except CardError as error:
        code = _CODES.get(error.reasons[0].code) or ("truncated" if _is_truncated(body) else "not-json")
        raise DocumentError(code, error.about("the document")) from None
    if repeated:
        raise DocumentError("duplicate-key", f"the key at {repeated[0].pointer} is repeated")
    return plain(value)


def check_size(body: bytes, *, max_bytes: int = MAX_BYTES) -> None:
    """Check that a document is within the size limit of verification. Raises DocumentError."""
    if len(body) > max_bytes:
        raise DocumentError("too-large", f"{len(body):,} bytes; at most {max_bytes:,} are verified")
    if strict_json.outline(body).marks > MAX_VALUES:
        raise DocumentError("too-many-values", f"more than {MAX_VALUES:,} values")


def _is_truncated(body: bytes) -> bool:
    """Whether a text that is not JSON has more opening than closing brackets, or nothing."""
    outside = strict_json.outline(body)
    opened, closed = (sum(map(body.count, marks)) for marks in ((b"[", b"{"), (b"]", b"}")))
    return not body.strip() or (outside.depth > 0 and opened > closed)


def plain(value: Any) -> Any:
    """A value that `strict_json` read, with numbers that RFC 8785 can write. Raises DocumentError."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [plain(element) for element in value]
    if isinstance(value, Decimal):
        return _finite(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > SAFE_INTEGER:
        real = _finite(Decimal(value))
        if rfc8785.dumps(real) != str(value).encode():  # the number that ECMAScript writes for the double
            raise DocumentError("number-range", f"{str(value)[:40]} is not an integer that a double holds exactly")
        return real
    return value


def _finite(number: Decimal) -> float:
    real = float(number)
    if not math.isfinite(real):
        raise DocumentError("number-range", f"{str(number)[:40]} is beyond the range of a double")
    return real


def jcs(value: Any) -> bytes:
    """The form of a value by RFC 8785. Raises DocumentError."""
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, RecursionError) as error:
        raise DocumentError("not-canonicalizable", f"RFC 8785 has no form of it: {error}") from None


def joined(members: Mapping[str, bytes]) -> bytes:
    """The form of an object by RFC 8785, made from the forms of its members."""
    names = sorted(members, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    return b"{" + b",".join(jcs(name) + b":" + members[name] for name in names) + b"}"


def without(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """An object without these members."""
    return {name: member for name, member in value.items() if name not in names}


class Decoded(NamedTuple):
    """Bytes of a base64url text, and whether it is spelt as RFC 4648 §5 without padding spells them."""

    data: bytes
    is_canonical: bool


def base64url_text(data: bytes) -> str:
    """Base64url (RFC 4648 §5) without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: object) -> Decoded:
    """Bytes of base64url, or of base64 with padding, as `atob` in other implementations takes them. Raises
    DocumentError."""
    if not isinstance(text, str) or not text.isascii() or len(text) > 2 * MAX_BYTES:
        raise DocumentError("bad-encoding", "no base64url text")
    bare = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        data = b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except ValueError:
        raise DocumentError("bad-encoding", "no base64url text") from None
    return Decoded(data, base64url_text(data) == text)
