"""Pointers: a domain or URI with the hash of the card to be found there, on any chain (laws 8 and 10)."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from parsers import abi
from parsers.cards import Kind
from parsers.errors import ParseError
from parsers.locator import MAX_URI, a_label, host_of, locate
from parsers.reasons import Reason
from parsers.script import OP_FALSE, OP_RETURN, ops, push, pushes

MARK = b"a2b"
MAX_PARTS = 8
MAX_DATA_URI = 1_500_000  # base64 of a card of 1 MiB, with its head
TOPIC = bytes.fromhex("3be52a8baa7114adc7788f19c3d981d38e1f2fc3efb567608ff61d5b35eff7ce")
"""keccak256("A2BPointer(string,bytes32)"): topic 0 of the event."""
SOLANA_MARK = b"a2b\0"

_ZERO = bytes(32)
_HEX = re.compile(r"[0-9a-fA-F]*\Z", re.ASCII)
_PART = re.compile(rb"([0-9]{1,3})/([0-9]{1,3})\Z")
_TYPES = {"a2b": Kind.AGENT, "a2b-agent": Kind.AGENT, "a2b-mcp": Kind.TOOL}
_DATA_HEAD = "data:application/json;base64,"

_NO_DOMAIN = Reason("pointer-domain")
_NO_HASH = Reason("pointer-hash")
_NO_URI = Reason("pointer-uri")


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer as it stands on chain, valid when it has no `reasons`.

    `id` is its canonical name (law 10), None when it is invalid or carries its card (`body`) and is named by its place.
    `domain` is as written, or the URI's host. `digest` is SHA-256 of the card (32 bytes), None when absent or no
    hash. `form`: raw32, hex64, none, map, split, evm or solana. `kind` is what the card should be.
    """

    id: str | None
    domain: str
    digest: bytes | None
    uri: str | None
    form: str
    reasons: tuple[Reason, ...] = ()
    kind: Kind = Kind.AGENT
    body: bytes | None = None

    @property
    def valid(self) -> bool:
        """Whether every rule of its form is met."""
        return not self.reasons


def read(script: bytes) -> Pointer | None:
    """Read `[OP_FALSE] OP_RETURN a2b <domain> [<hash>]`; None for anything else, a part of a split pointer included.

    A `|` push or the end of the script ends it; a push cut short after the hash takes nothing back.
    """
    items, ending = _items(script)
    if items is None or (items and _PART.match(items[0])):
        return None
    domain = items[0] if items else b""
    digest, form, reasons = _hash(items[1]) if len(items) > 1 else (None, "none", [])
    if len(items) == 1 and ending == "truncated":
        form, reasons = "raw32", [_NO_HASH]
    if len(items) > 2 or ending == "opcode":
        reasons.append(Reason("pointer-extra"))
    return _of_domain(domain, digest, form, reasons)


def _items(script: bytes) -> tuple[list[bytes] | None, str]:
    """The pushes after `OP_RETURN a2b`, at most three, and what ended them; None when this is no such script."""
    head = script[:2]
    if MARK not in script[:12] or not (head[:1] == bytes((OP_RETURN,)) or head == bytes((OP_FALSE, OP_RETURN))):
        return None, ""
    walk = ops(script)
    if next(walk).opcode == OP_FALSE:
        next(walk)
    mark = next(walk, None)
    if mark is None or mark.data != MARK:
        return None, ""
    items: list[bytes] = []
    for op in walk:
        if op.data is None:
            return items, "truncated" if op.truncated else "opcode"
        is_part = len(items) == 1 and _PART.match(items[0])  # whose bytes may happen to be one `|`
        if (op.data == b"|" and not is_part) or len(items) == 3:
            break
        items.append(op.data)
    return items, ""


def _of_domain(written: bytes, digest: bytes | None, form: str, reasons: list[Reason]) -> Pointer:
    domain = written[:MAX_URI].decode("utf-8", "replace")
    name = a_label(domain) if len(written) <= MAX_URI else None
    if name is None:
        reasons.insert(0, _NO_DOMAIN)
    return Pointer(None if reasons else name, domain, digest, None, form, tuple(reasons))


def _hash(raw: bytes) -> tuple[bytes | None, str, list[Reason]]:
    """A hash of 32 bytes or 64 hex digits in any case, its form (raw32 also when it is neither), and what is wrong."""
    if len(raw) == 32:
        return raw, "raw32", []
    digest = _hex(raw.decode("ascii", "replace")) if len(raw) == 64 else None
    return (None, "raw32", [_NO_HASH]) if digest is None else (digest, "hex64", [])


def _hex(text: str | None) -> bytes | None:
    return bytes.fromhex(text) if text and len(text) == 64 and _HEX.match(text) else None


def read_map(fields: Mapping[str, str]) -> Pointer | None:
    """Read the MAP record `type a2b… [hash <64 hex digits>] uri <https|ipfs>`; None without such a type or a uri."""
    named, written, uri = fields.get("type", ""), fields.get("hash"), fields.get("uri")
    if not named.startswith("a2b") or uri is None:
        return None
    reasons = [] if named in _TYPES else [Reason("map-type")]
    digest = _hex(written)
    if written is not None and digest is None:
        reasons.append(_NO_HASH)
    return _of_uri(uri, digest, "map", reasons, _TYPES.get(named, Kind.AGENT))


def read_split(scripts: Sequence[bytes]) -> tuple[int, Pointer] | None:
    """Read the split form from a transaction's output scripts: outputs in order, each `OP_RETURN a2b <i>/<n> <part>`.

    The parts joined are the domain, a space (which may be missing) and the 32 bytes of the hash. Gives the number of
    the first output that is a part, and the pointer; None when no output is one.
    """
    parts: list[tuple[int, int, bytes]] = []
    first = -1
    for vout, script in enumerate(scripts):
        items, _ = _items(script)
        if items and (numbers := _PART.match(items[0])):
            first = vout if first < 0 else first
            parts.append((int(numbers[1]), int(numbers[2]), items[1] if len(items) == 2 else b""))
    return (first, _joined(parts)) if parts else None


def _joined(parts: list[tuple[int, int, bytes]]) -> Pointer:
    count = parts[0][1]
    whole = b"".join(part for _, _, part in parts)
    problem = ""
    if not 1 <= count <= MAX_PARTS:
        problem = f"{count} parts, where 1 to {MAX_PARTS} are allowed"
    elif [(number, of) for number, of, _ in parts] != [(number, count) for number in range(1, count + 1)]:
        problem = f"found {', '.join(f'{number}/{of}' for number, of, _ in parts[: MAX_PARTS + 1])}"
    elif len(whole) <= 32 or not all(part for _, _, part in parts):
        problem = "a part is empty" if len(whole) > 32 else "too short for a domain and a hash"
    domain, digest = whole[:-32].removesuffix(b" "), whole[-32:]
    if problem:
        return Pointer(None, "", None, None, "split", (Reason("pointer-split", problem),))
    return _of_domain(domain, digest, "split", [])


def read_evm_log(data: bytes) -> Pointer:
    """Read the data of the log `A2BPointer(string uri, bytes32 hash)`, ABI-encoded. A zero hash is none.

    A `data:application/json;base64,…` uri carries the card itself: then `body` holds it, and `id` is None.
    """
    try:
        uri, digest = _abi(data)
    except ParseError as error:
        return Pointer(None, "", None, None, "evm", (Reason("pointer-encoding", str(error)),))
    if not uri.lower().startswith("data:"):
        return _of_uri(uri, digest, "evm")
    body = data_uri(uri)
    if body is None:
        return Pointer(None, "", digest, None, "evm", (_NO_URI,))
    return _with_card(body, digest, "evm")


def _abi(data: bytes) -> tuple[str, bytes | None]:
    """Decode (string, bytes32) of at most 1.5 MB; raises ParseError when the data do not hold what they claim."""
    abi.word(data, 2)  # the length of the string, at the least
    digest = abi.word(data, 1)
    try:
        uri = abi.dynamic(data, 0, MAX_DATA_URI).decode("utf-8")
    except UnicodeDecodeError:
        raise ParseError("the string is not UTF-8") from None
    return uri, None if digest == _ZERO else digest


def data_uri(uri: str) -> bytes | None:
    """The bytes of a `data:application/json;base64,…` URI, None when it is none or its base64 is broken."""
    if uri[: len(_DATA_HEAD)].lower() != _DATA_HEAD or len(uri) > MAX_DATA_URI:
        return None
    try:
        return base64.b64decode(uri[len(_DATA_HEAD) :], validate=True)
    except (binascii.Error, ValueError):
        return None


def read_solana_account(data: bytes) -> Pointer | None:
    """Read an account's data: `a2b`, 0x00, then the JSON card (`body`, exact bytes) or `{"uri": …, "hash": …}`.

    Zero bytes at the end are the account's unused room, not part of it. None when the data do not begin so.
    """
    if not data.startswith(SOLANA_MARK):
        return None
    body = data[len(SOLANA_MARK) :].rstrip(b"\0")
    record = _uri_record(body)
    if record is None:
        return Pointer(None, "", None, None, "solana", body=body)
    uri, written = record.get("uri"), record.get("hash")
    if not isinstance(uri, str):
        return Pointer(None, "", None, None, "solana", (_NO_URI,))
    if written is None:
        return _of_uri(uri, None, "solana")
    digest = _hex(written) if isinstance(written, str) else None
    return _of_uri(uri, digest, "solana", [_NO_HASH] if digest is None else [])


def _uri_record(body: bytes) -> dict[str, object] | None:
    """The object `{"uri", "hash"}`; None for everything else, which is a card for `cards.read` to judge."""
    if len(body) > 3 * MAX_URI:
        return None
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and "uri" in found and found.keys() <= {"uri", "hash"} else None


def _of_uri(
    uri: str, digest: bytes | None, form: str, reasons: Sequence[Reason] = (), kind: Kind = Kind.AGENT
) -> Pointer:
    found = locate(uri)
    if isinstance(found, Reason):
        reasons = (found, *reasons)
    host = host_of(uri) if isinstance(found, Reason) else found.host
    name = None if reasons or isinstance(found, Reason) else found.id
    return Pointer(name, host, digest, uri[:MAX_URI], form, tuple(reasons), kind)


def _with_card(body: bytes, digest: bytes | None, form: str) -> Pointer:
    reasons: tuple[Reason, ...] = ()
    if digest is not None and (actual := sha256(body).digest()) != digest:
        detail = f"the pointer names {digest.hex()}, and the card has the SHA-256 {actual.hex()}"
        reasons = (Reason("pointer-mismatch", detail),)
    return Pointer(None, "", digest, None, form, reasons, body=body)


def build(domain: str, digest: bytes | None = None, *, hexadecimal: bool = False, false: bool = True) -> bytes:
    """The output script of a pointer; `domain` is a name `a_label` takes. Raises ValueError for anything else."""
    _check(domain, digest)
    items = [MARK, domain.encode()]
    if digest is not None:
        items.append(digest.hex().encode() if hexadecimal else digest)
    return bytes((OP_FALSE, OP_RETURN) if false else (OP_RETURN,)) + pushes(*items)


def build_split(domain: str, digest: bytes, size: int = 66) -> list[bytes]:
    """The output scripts of the split form, each part of at most `size` bytes (66 fits 80-byte OP_RETURN outputs)."""
    _check(domain, digest)
    whole = domain.encode() + b" " + digest
    parts = [whole[at : at + size] for at in range(0, len(whole), size)]
    if len(parts) > MAX_PARTS:
        raise ValueError(f"{len(parts)} parts of {size} bytes, where at most {MAX_PARTS} are allowed")
    head = bytes((OP_RETURN,)) + push(MARK)
    return [head + pushes(f"{number}/{len(parts)}".encode(), part) for number, part in enumerate(parts, 1)]


def _check(domain: str, digest: bytes | None) -> None:
    if a_label(domain) is None:
        raise ValueError(f"{domain[:253]!r} is not a domain name")
    if digest is not None and len(digest) != 32:
        raise ValueError(f"a SHA-256 hash is 32 bytes, not {len(digest)}")
