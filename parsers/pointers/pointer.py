"""Pointers: a domain or URI, with the hash of the card that it serves, on any chain (laws 8 and 10)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from parsers.bitcoin.script import OP_FALSE, OP_RETURN, ops, pushes
from parsers.cards import Kind, data_uri
from parsers.cards.card import KINDS
from parsers.errors import ParseError
from parsers.pointers import abi
from parsers.pointers.locator import MAX_URI, a_label, host_of, locate
from parsers.reasons import Reason

MARK = b"a2b"
MAX_PARTS = 8
TOPIC = bytes.fromhex("3be52a8baa7114adc7788f19c3d981d38e1f2fc3efb567608ff61d5b35eff7ce")
"""keccak256("A2BPointer(string,bytes32)"): topic 0 of the event."""
SOLANA_MARK = b"a2b\0"

_ZERO = bytes(32)
_HEX = re.compile(r"[0-9a-fA-F]*\Z", re.ASCII)
_PART = re.compile(rb"([0-9]{1,3})/([0-9]{1,3})\Z")

_NO_DOMAIN = Reason("pointer-domain")
_NO_HASH = Reason("pointer-hash")
_NO_URI = Reason("pointer-uri")


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer as parsed from a chain, valid without `reasons`.

    `id` is its canonical id (law 10), None when it is invalid, or contains its card (`body`) and has the id of its
    position on chain. `domain` is as written, or the URI's host. `digest` is the SHA-256 of the card (32 bytes), None
    when absent or malformed. `form`: raw32, hex64, none, map, split, evm or solana. `kind` is the kind of the card.
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
        """Whether the pointer meets every rule of its form."""
        return not self.reasons


def read(script: bytes) -> Pointer | None:
    """Parse `[OP_FALSE] OP_RETURN a2b <domain> [<hash>]`; None for any other script, and for a part of a split pointer.

    A `|` push or the end of the script ends it; a truncated push after the hash does not invalidate it.
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
    """The pushes after `OP_RETURN a2b`, at most three, and the reason why they ended; None for any other script."""
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
        is_part = len(items) == 1 and _PART.match(items[0])  # a part may be the byte `|`
        if (op.data == b"|" and not is_part) or len(items) == 3:
            break
        items.append(op.data)
    return items, ""


def _of_domain(stated: bytes, digest: bytes | None, form: str, reasons: list[Reason]) -> Pointer:
    domain = stated[:MAX_URI].decode("utf-8", "replace")
    name = a_label(domain) if len(stated) <= MAX_URI else None
    if name is None:
        reasons.insert(0, _NO_DOMAIN)
    return Pointer(None if reasons else name, domain, digest, None, form, tuple(reasons))


def _hash(raw: bytes) -> tuple[bytes | None, str, list[Reason]]:
    """A hash of 32 bytes or 64 hex digits in any case, its form (raw32 also for neither), and the broken rules."""
    if len(raw) == 32:
        return raw, "raw32", []
    digest = _hex(raw.decode("ascii", "replace")) if len(raw) == 64 else None
    return (None, "raw32", [_NO_HASH]) if digest is None else (digest, "hex64", [])


def _hex(text: str | None) -> bytes | None:
    return bytes.fromhex(text) if text and len(text) == 64 and _HEX.match(text) else None


def read_map(fields: Mapping[str, str]) -> Pointer | None:
    """Parse the MAP record `type a2b… [hash <64 hex digits>] uri <https|ipfs>`; None for another type,
    and without a uri."""
    map_type, stated, uri = fields.get("type", ""), fields.get("hash"), fields.get("uri")
    if not map_type.startswith("a2b") or uri is None:
        return None
    reasons = [] if map_type in KINDS else [Reason("map-type")]
    digest = _hex(stated)
    if stated is not None and digest is None:
        reasons.append(_NO_HASH)
    return _of_uri(uri, digest, "map", reasons, KINDS.get(map_type, Kind.AGENT))


def read_split(scripts: Sequence[bytes]) -> tuple[int, Pointer] | None:
    """Parse the split form from a transaction's output scripts: outputs in order, each `OP_RETURN a2b <i>/<n> <part>`.

    The concatenated parts are the domain, a space (which may be missing) and the 32 bytes of the hash. Returns the
    number of the first output with a part, and the pointer; None without any part.
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
    """Parse the ABI-encoded data of the log `A2BPointer(string uri, bytes32 hash)`; a zero hash means no hash.

    A `data:application/json` uri contains the card itself: `body` holds it, and `id` is None.
    """
    try:
        uri, digest = _abi(data)
    except ParseError as error:
        return Pointer(None, "", None, None, "evm", (Reason("pointer-encoding", str(error)),))
    raw = uri.encode()
    if not data_uri.is_data_uri(raw):
        return _of_uri(uri, digest, "evm")
    body = data_uri.read(raw) if data_uri.media_type(raw) == "application/json" else _NO_URI
    if isinstance(body, Reason):
        return Pointer(None, "", digest, None, "evm", (body,))
    reasons: tuple[Reason, ...] = ()
    if digest is not None and (actual := sha256(body).digest()) != digest:
        detail = f"the pointer names {digest.hex()}, and the card has the SHA-256 {actual.hex()}"
        reasons = (Reason("pointer-mismatch", detail),)
    return Pointer(None, "", digest, None, "evm", reasons, body=body)


def _abi(data: bytes) -> tuple[str, bytes | None]:
    """Decode (string, bytes32) of at most 1.5 MB. Raises ParseError for malformed data."""
    abi.word(data, 2)  # the length of the string, at the least
    digest = abi.word(data, 1)
    try:
        uri = abi.dynamic(data, 0, data_uri.MAX_URI).decode("utf-8")
    except UnicodeDecodeError:
        raise ParseError("the string is not UTF-8") from None
    return uri, None if digest == _ZERO else digest


def read_solana_account(data: bytes) -> Pointer | None:
    """Parse an account's data: `a2b`, 0x00, then the JSON card (`body`, exact bytes) or `{"uri": …, "hash": …}`.

    Zero bytes at the end are unused space of the account and ignored. None for data that begin with other bytes.
    """
    if not data.startswith(SOLANA_MARK):
        return None
    body = data[len(SOLANA_MARK) :].rstrip(b"\0")
    record = _uri_record(body)
    if record is None:
        return Pointer(None, "", None, None, "solana", body=body)
    uri, stated = record.get("uri"), record.get("hash")
    if not isinstance(uri, str):
        return Pointer(None, "", None, None, "solana", (_NO_URI,))
    if stated is None:
        return _of_uri(uri, None, "solana")
    digest = _hex(stated) if isinstance(stated, str) else None
    return _of_uri(uri, digest, "solana", [_NO_HASH] if digest is None else [])


def _uri_record(body: bytes) -> dict[str, object] | None:
    """The object `{"uri", "hash"}`; None for other bytes, which `cards.read` parses as a card."""
    if len(body) > 3 * MAX_URI:
        return None
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and "uri" in value and value.keys() <= {"uri", "hash"} else None


def _of_uri(
    uri: str, digest: bytes | None, form: str, reasons: Sequence[Reason] = (), kind: Kind = Kind.AGENT
) -> Pointer:
    located = locate(uri)
    if isinstance(located, Reason):
        reasons = (located, *reasons)
    host = host_of(uri) if isinstance(located, Reason) else located.host
    id_ = None if reasons or isinstance(located, Reason) else located.id
    return Pointer(id_, host, digest, uri[:MAX_URI], form, tuple(reasons), kind)


def build(domain: str, digest: bytes | None = None, *, hexadecimal: bool = False, false: bool = True) -> bytes:
    """The output script of a pointer. Raises ValueError for a name that is not a domain, and a hash not of 32 bytes."""
    if a_label(domain) is None:
        raise ValueError(f"{domain[:253]!r} is not a domain name")
    if digest is not None and len(digest) != 32:
        raise ValueError(f"a SHA-256 hash is 32 bytes, not {len(digest)}")
    items = [MARK, domain.encode()]
    if digest is not None:
        items.append(digest.hex().encode() if hexadecimal else digest)
    return bytes((OP_FALSE, OP_RETURN) if false else (OP_RETURN,)) + pushes(*items)
