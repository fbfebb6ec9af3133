"""Envelopes in the tapscripts of inputs (law 3a), as the reference reader `ord` reads them (inscriptions/envelope.rs
and tag.rs).

Other than in outputs (law 2), every envelope counts; the first value of a repeated field counts; the opening may be any
empty push; the body is all pushes after the first empty tag, joined; and nothing is read of a script with a push that
runs past its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from parsers.bitcoin.script import OP_ENDIF, OP_IF, Op, ops
from parsers.inscriptions.envelope import MARK, Field, Inscription, inscription

POINTER = b"\x02"

_ANNEX = 0x50
_CONTROL_BLOCKS = frozenset(range(33, 33 + 32 * 128 + 1, 32))


@dataclass(frozen=True, slots=True)
class TapscriptEnvelope:
    """One envelope of a tapscript. `inscription` has the first value of each field; where `fault`, a reason code, is
    set, its body is empty.

    `pointer` is the position among the satoshis of the transaction's outputs that the envelope names (tag 2, little-
    endian), None without one and for more than 64 bits. `unknown_tag` is an even tag without a meaning: by ordinals the
    envelope is then bound to no satoshi.
    """

    inscription: Inscription
    fault: str = ""
    pointer: int | None = None
    unknown_tag: bytes | None = None

    @property
    def is_numbered(self) -> bool:
        """Whether the envelope is an inscription to ordinals, which number the inscriptions of a transaction from 0."""
        return self.fault in ("", "envelope-no-body")


def read(witness: tuple[bytes, ...]) -> Iterator[TapscriptEnvelope]:
    """Every envelope in the tapscript of an input's witness stack, in order, faulty ones included; none without a
    tapscript (BIP 341). Takes time linear in the script; never raises."""
    script = tapscript(witness)
    if script is None or MARK not in script:
        return
    is_truncated = any(op.truncated for op in ops(script))
    for envelope in _envelopes(_OpcodeWalk(script)):
        yield replace(envelope, fault="script-truncated") if is_truncated else envelope


def tapscript(witness: tuple[bytes, ...]) -> bytes | None:
    """The script of a taproot script-path spend: the item before the control block, ignoring the annex (BIP 341).

    None for any other witness.
    """
    stack = witness[:-1] if len(witness) >= 2 and witness[-1][:1] == bytes((_ANNEX,)) else witness
    if len(stack) < 2 or len(stack[-1]) not in _CONTROL_BLOCKS:
        return None
    return stack[-2]


class _OpcodeWalk:
    """The opcodes of a script, one at a time: `op` is the current one, None at the end."""

    def __init__(self, script: bytes) -> None:
        self._ops = ops(script)
        self.op: Op | None = None
        self.step()

    def step(self) -> None:
        """Go on by one opcode."""
        self.op = next(self._ops, None)


def _envelopes(walk: _OpcodeWalk) -> Iterator[TapscriptEnvelope]:
    while (op := walk.op) is not None:
        walk.step()
        if op.data != b"" or walk.op is None or walk.op.opcode != OP_IF:
            continue
        walk.step()
        if walk.op is not None and walk.op.data == MARK:
            walk.step()
            yield _envelope(walk, op.start)


def _envelope(walk: _OpcodeWalk, start: int) -> TapscriptEnvelope:
    """The envelope of the pushes from here to the first opcode that pushes nothing, which is passed, too."""
    items: list[bytes] = []
    while (op := walk.op) is not None and op.data is not None:
        items.append(op.data)
        walk.step()
    walk.step()
    body_tag = next((index for index in range(0, len(items), 2) if not items[index]), None)
    named = items if body_tag is None else items[:body_tag]
    fields = list(zip(named[0::2], named[1::2], strict=False))
    body = b"" if body_tag is None else b"".join(items[body_tag + 1 :])
    fault = "envelope-no-body" if body_tag is None else ""
    if op is None or op.opcode != OP_ENDIF:
        fault = "envelope-open" if op is None or op.truncated else "envelope-opcode"
    shown = inscription(body, fields, start, op.end if op is not None else start)
    raw = next((value for tag, value in fields if tag == POINTER), None)
    pointer = None if raw is None or any(raw[8:]) else int.from_bytes(raw[:8], "little")
    return TapscriptEnvelope(shown, fault, pointer, _unknown_tag(fields))


def _unknown_tag(fields: list[Field]) -> bytes | None:
    """The first tag with an even first byte, except the first pointer: ord counts a second one as unknown."""
    pointers = 0
    for tag, _ in fields:
        pointers += tag == POINTER
        if tag[:1] and tag[0] % 2 == 0 and (tag != POINTER or pointers > 1):
            return tag
    return None
