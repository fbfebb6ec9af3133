"""The contents of a locking script, read the slow and obvious way (laws 1, 2, 8): a list of operations, then loops."""

from __future__ import annotations

import ipaddress
import itertools
import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

MAP = b"1PuQa7K62MiKCtssSLKy1kh56WWU7MtUR5"
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
OPEN = "the envelope is not closed"
TRUNCATED = "the body push runs past the script"
BODILESS = "the envelope has no body"
NO_PUSH = "an opcode is where the envelope needs a push"
PUBLIC_KEY_HASH = {"mainnet": 0, "regtest": 0x6F}


class Op(NamedTuple):
    """An operation: its opcode, and what it pushes (None when it is not a push). `cut`: the push runs past the
    script."""

    code: int
    data: bytes | None
    cut: bool = False


def operations(script: bytes) -> list[Op]:
    """The operations of a script; the last may be a push cut short."""
    ops, position = [], 0
    while position < len(script):
        code = script[position]
        position += 1
        if code > 78:
            numbers = {0x4F: b"\x81"} | {0x50 + number: bytes((number,)) for number in range(1, 17)}
            ops.append(Op(code, numbers.get(code)))
            continue
        size = code
        if code > 75:
            width = {76: 1, 77: 2, 78: 4}[code]
            if position + width > len(script):
                return [*ops, Op(code, None, cut=True)]
            size = int.from_bytes(script[position : position + width], "little")
            position += width
        if position + size > len(script):
            return [*ops, Op(code, None, cut=True)]
        ops.append(Op(code, script[position : position + size]))
        position += size
    return ops


@dataclass
class Envelope:
    """An ord envelope: `start` and `end` count operations. `fault` says why it is none, "" when it is one."""

    start: int
    end: int
    fields: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""
    fault: str = ""

    @property
    def is_json(self) -> bool:
        """Whether the content type is application/json, in any case, with any parameters."""
        decoded = self.fields.get(b"\x01", b"").decode("utf-8", "replace")
        return decoded.split(";")[0].strip().lower() == "application/json"

    @property
    def encoded(self) -> list[str]:
        """Why the body cannot be read as it is: it is said to be compressed."""
        encoding = self.fields.get(b"\x09", b"")[:100].decode("utf-8", "replace")
        why = f"the envelope declares the content encoding {encoding}, which is not read: "
        return [f"{why}inscribe the card uncompressed"] if encoding else []


def envelopes(ops: list[Op]) -> list[Envelope]:
    """All envelopes that are begun, good and bad, in order."""
    codes = [op.code for op in ops]
    begun = [
        index
        for index in range(len(ops) - 2)
        if codes[index : index + 2] == [0, 0x63] and ops[index + 2].data == b"ord"
    ]
    return [_envelope(ops, position) for position in begun]


def _envelope(ops: list[Op], start: int) -> Envelope:
    envelope = Envelope(start, start + 3, fault=OPEN)
    position = start + 3
    while position + 1 < len(ops):
        name, value = ops[position].data, ops[position + 1].data
        if name in (b"", b"\x00"):
            return _body(ops, position, envelope)
        if ops[position].cut or ops[position + 1].cut:
            return envelope
        if name is None or value is None:
            envelope.fault = BODILESS if ops[position].code == 0x68 else NO_PUSH
            return envelope
        envelope.fields[name] = value
        position += 2
    if position < len(ops) and ops[position].code == 0x68:
        envelope.fault = BODILESS
    return envelope


def _body(ops: list[Op], position: int, envelope: Envelope) -> Envelope:
    envelope.body = ops[position + 1].data or b""
    envelope.end = position + 3
    if ops[position + 1].cut:
        envelope.fault = TRUNCATED
    elif ops[position + 1].data is None:
        envelope.fault = BODILESS if ops[position + 1].code == 0x68 else NO_PUSH
    elif position + 2 < len(ops) and ops[position + 2].code == 0x68:
        envelope.fault = ""
    return envelope


@dataclass
class OutputContents:
    """All that one output says: its first good envelope, the first bad one, MAP, owner and pointer."""

    envelope: Envelope | None
    fault: str
    fault_is_json: bool
    in_push: bool
    map: dict[str, str]
    unset: dict[str, str]
    owner: str | None
    pointer: dict[str, object] | None


def say(script: bytes, network: str = "regtest") -> OutputContents:
    """Everything that an output's script says."""
    ops = operations(script)
    begun = envelopes(ops)
    good = [item for item in begun if not item.fault]
    bad = [item for item in begun if item.fault]
    answer, unset = map_fields(ops, good[0] if good else None)
    pointer = None if good else pointer_of(ops, answer)
    in_push = any(op.data and b"\x00\x63\x03ord" in op.data for op in ops)
    return OutputContents(
        envelope=good[0] if good else None,
        fault=bad[0].fault if bad and not good else "",
        fault_is_json=bool(bad) and bad[0].is_json,
        in_push=in_push,
        map=answer,
        unset=unset,
        owner=_owner(ops, good, network),
        pointer=pointer,
    )


def map_fields(ops: list[Op], envelope: Envelope | None) -> tuple[dict[str, str], dict[str, str]]:
    """The merged MAP fields, and those that commands other than SET name."""
    answers: dict[str, str] = {}
    unset: dict[str, str] = {}
    tapes = []
    if envelope and MAP in envelope.fields:
        tapes.append([op.data for op in operations(envelope.fields[MAP])])
    codes = [op.code for op in ops]
    if 0x6A in codes:
        tape: list[bytes | None] = []
        after = [op.data for op in ops[codes.index(0x6A) + 1 :]]
        for data in [*after, b"|"]:
            if data == b"|":
                tapes += [tape[1:]] if tape[:1] == [MAP] else []
                tape = []
            else:
                tape.append(data)
    for words in tapes:
        pairs = _pairs(words[1:])
        (answers if words[:1] == [b"SET"] else unset).update(pairs)
    return answers, unset


def _pairs(words: list[bytes | None]) -> dict[str, str]:
    """Keys and values by twos, up to what is not a push; an odd last key is dropped."""
    whole = itertools.takewhile(lambda word: word is not None, words)
    items = [word for word in whole if word is not None]
    pairs = [pair for pair in zip(items[::2], items[1::2], strict=False) if all(map(_is_text, pair))]
    return {key.decode(): value.decode() for key, value in pairs}


def _is_text(word: bytes) -> bool:
    return word.decode("utf-8", "replace").encode() == word


def _owner(ops: list[Op], good: list[Envelope], network: str) -> str | None:
    """The address of the first P2PKH lock outside the envelopes and before OP_RETURN, or None."""
    inside = {number for item in good for number in range(item.start, item.end)}
    plain = []
    for index, op in enumerate(ops):
        if op.code == 0x6A:
            break
        if index not in inside:
            plain.append(op)
    for index in range(len(plain) - 4):
        lock = plain[index : index + 5]
        if [op.code for op in lock] == [0x76, 0xA9, 20, 0x88, 0xAC]:
            return address(lock[2].data or b"", network)
    return None


def address(key_hash: bytes, network: str) -> str:
    """Base58check of a public key's hash."""
    raw = bytes((PUBLIC_KEY_HASH[network],)) + key_hash
    raw += sha256(sha256(raw).digest()).digest()[:4]
    number, text = int.from_bytes(raw, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = BASE58[digit] + text
    return "1" * (len(raw) - len(raw.lstrip(b"\0"))) + text


def pointer_of(ops: list[Op], answer: dict[str, str]) -> dict[str, object] | None:
    """The pointer that a script without envelope makes (law 8), in the words of the sample chain."""
    start = 2 if [op.code for op in ops[:2]] == [0, 0x6A] else 1
    if ops[start - 1 : start] and ops[start - 1].code == 0x6A:
        pushed = [op.data for op in ops[start:]]
        if pushed[:1] == [b"a2b"] and len(pushed) in (2, 3) and None not in pushed:
            words = [word for word in pushed if word is not None]
            return _short_pointer(words[1].decode("utf-8", "replace"), words[2] if len(words) == 3 else None)
    if answer.get("type", "").startswith("a2b") and "uri" in answer:
        return _map_pointer(answer["uri"], answer.get("hash"))
    return None


def _short_pointer(domain: str, raw: bytes | None) -> dict[str, object]:
    if raw is None:
        form, digest, reason = "none", None, ""
    elif len(raw) == 32:
        form, digest, reason = "raw32", raw.hex(), ""
    elif re.fullmatch(rb"[0-9a-fA-F]{64}", raw):
        form, digest, reason = "hex64", raw.decode().lower(), ""
    else:
        form, digest, reason = "raw32", None, "the hash is neither 32 bytes nor 64 hex digits"
    if not is_domain(domain):
        reason = "not a domain name"
    return _pointer(domain, digest, form, None, reason)


def _map_pointer(uri: str, text: str | None) -> dict[str, object]:
    match = re.fullmatch(r"(https|ipfs)://([^/?#]+)([/?#].*)?", uri)
    domain = match[2] if match else uri
    digest = text.lower() if text is not None and re.fullmatch("[0-9a-fA-F]{64}", text) else None
    reason = ""
    if match is None:
        reason = "the uri is neither https nor ipfs"
    elif text is not None and digest is None:
        reason = "the hash is neither 32 bytes nor 64 hex digits"
    elif match[1] == "https" and not is_domain(domain):
        reason = "not a domain name"
    return _pointer(domain, digest, "map", uri, reason)


def _pointer(domain: str, digest: str | None, form: str, uri: str | None, reason: str) -> dict[str, object]:
    return {"domain": domain, "hash": digest, "form": form, "uri": uri, "valid": not reason, "reason": reason}


def is_domain(text: str) -> bool:
    """Whether a text is a name with a dot: letters, digits and hyphens (ASCII is all this oracle judges)."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        label = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
        return bool(re.fullmatch(rf"({label}\.)+{label}", text.lower())) and len(text) <= 253
    return False
