"""The ord envelope of a script the slow way: cut it into tokens, then try the grammar, recursively, at every one."""

from __future__ import annotations

Token = tuple[str, bytes]
EnvelopeFields = tuple[bytes, bytes, list[tuple[bytes, bytes]]]

OP_IF, OP_ENDIF, ORD = ("op", b"\x63"), ("op", b"\x68"), ("push", b"ord")


def tokens(script: bytes) -> list[Token]:
    """(kind, data): `zero` is the opcode 0, `push` what else pushes, `op` another opcode, `cut` a push cut short."""
    results: list[Token] = []
    while script and results[-1:] != [("cut", b"")]:
        token, script = _token(script[0], script[1:])
        results.append(token)
    return results


def _token(first: int, rest: bytes) -> tuple[Token, bytes]:
    if first == 0:
        return ("zero", b""), rest
    if first == 0x4F:
        return ("push", b"\x81"), rest
    if 0x51 <= first <= 0x60:
        return ("push", bytes([first - 0x50])), rest
    if first > 78:
        return ("op", bytes([first])), rest
    width = {76: 1, 77: 2, 78: 4}.get(first, 0)
    size = int.from_bytes(rest[:width], "little") if width else first
    data = rest[width : width + size]
    if len(rest) < width or len(data) < size:
        return ("cut", b""), b""
    return ("push", data), rest[width + size :]


def first_valid(script: bytes) -> EnvelopeFields | None:
    """Content type, body and fields of the first valid envelope, or None."""
    cut = tokens(script)
    for index in range(len(cut)):
        if cut[index : index + 3] == [("zero", b""), OP_IF, ORD]:
            result = _fields(cut[index + 3 :], [])
            if result is not None:
                return result
    return None


def _fields(rest: list[Token], fields: list[tuple[bytes, bytes]]) -> EnvelopeFields | None:
    if len(rest) < 2 or any(kind not in ("zero", "push") for kind, _ in rest[:2]):
        return None
    (_, name), (_, value) = rest[:2]
    if name not in (b"", b"\0"):
        return _fields(rest[2:], [*fields, (name, value)])
    if rest[2:3] != [OP_ENDIF]:
        return None
    types = [text for key, text in fields if key == b"\x01"]
    return (types[-1] if types else b"", value, fields)
