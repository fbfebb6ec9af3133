"""Scripts for the mint, byte by byte: locks, envelopes, MAP tapes, pointers. Independent of the parsers they test."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

MAP_PREFIX = b"1PuQa7K62MiKCtssSLKy1kh56WWU7MtUR5"
B_PREFIX = b"19HxigV4QyBv3tHpQVcUEQyq1pzZVdoAut"
OP_FALSE, OP_IF, OP_ENDIF, OP_RETURN, OP_CODESEPARATOR = b"\x00", b"\x63", b"\x68", b"\x6a", b"\xab"

Json = dict[str, Any] | list[Any]


def push(data: bytes | str, width: int | None = None) -> bytes:
    """Push data by the shortest form, or by PUSHDATA1, 2 or 4 when `width` says so."""
    data = data.encode() if isinstance(data, str) else data
    if width is None:
        width = 0 if len(data) < 76 else 1 if len(data) < 256 else 2 if len(data) < 65536 else 4
    if width == 0:
        return bytes((len(data),)) + data
    return bytes((75 + {1: 1, 2: 2, 4: 3}[width],)) + len(data).to_bytes(width, "little") + data


def pushes(*data: bytes | str) -> bytes:
    """Several pushes by their shortest forms."""
    return b"".join(push(item) for item in data)


def p2pkh(owner: str) -> bytes:
    """The lock of a named owner: 20 bytes derived from the name stand for its public key's hash."""
    return b"\x76\xa9\x14" + sha256(owner.encode()).digest()[:20] + b"\x88\xac"


def body_of(card: Json | bytes) -> bytes:
    """The bytes to inscribe: as given, or compact JSON in UTF-8."""
    return card if isinstance(card, bytes) else json.dumps(card, ensure_ascii=False, separators=(",", ":")).encode()


def map_pushes(fields: dict[str, str] | Sequence[str], command: str = "SET") -> bytes:
    """A MAP tape without its prefix; a sequence gives keys and values as they stand, also repeated or odd."""
    flat: Iterable[str] = [word for pair in fields.items() for word in pair] if isinstance(fields, dict) else fields
    return pushes(command, *flat)


def map_tape(fields: dict[str, str] | Sequence[str], command: str = "SET", *, before: bytes = b"") -> bytes:
    """OP_RETURN and a MAP tape; `before` are pushes of another tape, ended by `|`."""
    return OP_RETURN + (before + push("|") if before else b"") + push(MAP_PREFIX) + map_pushes(fields, command)


def envelope(
    body: bytes,
    content_type: str = "application/json",
    *,
    fields: Sequence[tuple[bytes, bytes]] = (),
    tag: bytes = b"\x51",
    width: int | None = None,
    close: bool = True,
    cut: int = 0,
) -> bytes:
    """An ord envelope. `fields` (name, value) stand before the content type; `tag` is the opcode or push that names it.

    `close=False` leaves out OP_ENDIF; `cut` takes that many bytes off the body's end, so that its push runs past.
    """
    named = b"".join(push(name) + push(value) for name, value in fields)
    start = OP_FALSE + OP_IF + push("ord") + named + tag + push(content_type) + b"\x00"
    if cut:
        return start + push(body, width)[:-cut]
    return start + push(body, width) + (OP_ENDIF if close else b"")


def inscription(
    body: bytes,
    fields: dict[str, str] | Sequence[str],
    owner: str,
    *,
    order: str = "lock-first",
    map_in: str = "tape",
    command: str = "SET",
    separator: bool = False,
    before: bytes = b"",
    tail: bytes = b"",
    **form: Any,
) -> bytes:
    """A locking script with an envelope. `order` is lock-first or envelope-first; `map_in` is tape or envelope.

    `before` is another bitcom tape ahead of MAP, `tail` ends the script; `form` is that of `envelope`.
    """
    if order not in ("lock-first", "envelope-first") or map_in not in ("tape", "envelope"):
        raise ValueError(f"order {order!r} or map_in {map_in!r} is unknown")
    if fields and map_in == "envelope":
        form["fields"] = [*form.get("fields", ()), (MAP_PREFIX, map_pushes(fields, command))]
    record = envelope(body, **form)
    lock = p2pkh(owner)
    parts = [lock, record] if order == "lock-first" else [record, lock]
    script = (OP_CODESEPARATOR if separator else b"").join(parts)
    if fields and map_in == "tape":
        script += map_tape(fields, command, before=before)
    return script + tail


def pointer_script(
    domain: str, digest: bytes | str | None = None, *, false: bool = True, uri: str | None = None, app: str = "test"
) -> bytes:
    """A pointer: `[OP_FALSE] OP_RETURN a2b <domain> [<digest>]`, or with `uri` the MAP record (digest as hex)."""
    start = OP_FALSE if false else b""
    if uri is not None:
        text = digest.hex() if isinstance(digest, bytes) else digest
        messages = {"app": app, "type": "a2b", **({"hash": text} if text is not None else {}), "uri": uri}
        return start + map_tape(messages)
    return start + OP_RETURN + pushes("a2b", domain) + (push(digest) if digest is not None else b"")


TAP_KEY = push(b"\x53" * 32) + b"\xac"
"""`<key> OP_CHECKSIG`, with which tapscripts begin."""


def tapscript(
    body: bytes,
    content_type: str = "application/json",
    *,
    map: dict[str, str] | None = None,  # noqa: A002 - the protocol has this name
    chunk: int = 520,
    close: bool = True,
    before: Sequence[tuple[bytes, bytes]] = (),
    pointer: int | None = None,
) -> bytes:
    """`<key> OP_CHECKSIG` and an ord envelope whose body is cut into pushes of at most `chunk` bytes (BTC, LTC).

    `before` are fields ahead of the content type, `pointer` the position that tag 2 names.
    """
    named = b"".join(push(name) + push(value) for name, value in before)
    if pointer is not None:
        named += push(b"\x02") + push(pointer.to_bytes((pointer.bit_length() + 7) // 8, "little"))
    fields = push(MAP_PREFIX) + push(map_pushes(map)) if map else b""
    chunks = b"".join(push(body[index : index + chunk]) for index in range(0, len(body), chunk))
    start = TAP_KEY + OP_FALSE + OP_IF + push("ord") + named
    return start + push(b"\x01") + push(content_type) + fields + b"\x00" + chunks + (OP_ENDIF if close else b"")


def batch(*scripts: bytes) -> bytes:
    """One tapscript with the envelopes of several."""
    return TAP_KEY + b"".join(script.removeprefix(TAP_KEY) for script in scripts)
