"""Inscriptions in tapscripts as ord reads them, the slow and obvious way: a list of tokens, then the grammar at every
one of them. Sources: ord's handbook (inscriptions, pointers, unbound inscriptions) and its inscriptions/envelope.rs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.oracles.envelope import Token, tokens
from tests.oracles.scripts import BODILESS, NO_PUSH, OPEN, Envelope

CUT = "a push runs past the end of the tapscript, so nothing in it is read"


@dataclass
class Revealed:
    """An envelope; `fault` says why it is none, or has no body. `number` counts the inscriptions of a transaction."""

    number: int = 0
    fault: str = ""
    pairs: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""

    @property
    def envelope(self) -> Envelope:
        """As the other oracles have it: the first value of a field counts."""
        first: dict[bytes, bytes] = {}
        for name, value in self.pairs:
            if name not in first:
                first[name] = value
        return Envelope(0, 0, first, self.body)

    @property
    def pointer(self) -> int | None:
        """The position that tag 2 names, if it fits into eight bytes."""
        values = [value for name, value in self.pairs if name == b"\x02"]
        if not values or values[0][8:].strip(b"\0"):
            return None
        return sum(byte << 8 * index for index, byte in enumerate(values[0][:8]))

    @property
    def unknown_tags(self) -> list[bytes]:
        """Even tags without a meaning: all but the first pointer."""
        rest = list(self.pairs)
        pointers = [pair for pair in rest if pair[0] == b"\x02"]
        if pointers:
            rest.remove(pointers[0])
        return [name for name, _ in rest if name and not name[0] & 1]


def inscriptions(stacks: list[tuple[bytes, ...]]) -> list[tuple[int, Revealed]]:
    """All envelopes of a transaction, by the witness stacks of its inputs, each with the number of its input."""
    results, number = [], 0
    for index, stack in enumerate(stacks):
        for revealed in envelopes(script_of(stack)):
            revealed.number = number
            number += revealed.fault in ("", BODILESS)
            results.append((index, revealed))
    return results


def script_of(stack: tuple[bytes, ...]) -> bytes:
    """The script of a taproot script spend: the last but one item, an annex (0x50…) left aside (BIP 341)."""
    if len(stack) >= 2 and stack[-1][:1] == b"\x50":
        stack = stack[:-1]
    is_control = bool(stack) and len(stack[-1]) in {33 + 32 * depth for depth in range(129)}
    return stack[-2] if len(stack) >= 2 and is_control else b""


def envelopes(script: bytes) -> list[Revealed]:
    """The envelopes of a script, good and bad, in order."""
    left, results = tokens(script), []
    is_cut = bool(left) and left[-1][0] == "cut"
    while left:
        if not _is_push(left[0]) or left[0][1] != b"" or left[1:2] != [("op", b"\x63")]:
            left = left[1:]
        elif left[2:3] != [("push", b"ord")]:
            left = left[2:]
        else:
            left = left[3:]
            items = []
            while left and _is_push(left[0]):
                items.append(left[0][1])
                left = left[1:]
            results.append(_revealed(items, left))
            left = left[1:]
    for revealed in results:
        revealed.fault = CUT if is_cut else revealed.fault
    return results


def _is_push(token: Token) -> bool:
    return token[0] in ("zero", "push")


def _revealed(items: list[bytes], rest: list[Token]) -> Revealed:
    ends = [index for index in range(0, len(items), 2) if items[index] == b""]
    head = items[: ends[0]] if ends else items
    revealed = Revealed(pairs=list(zip(head[::2], head[1::2], strict=False)))
    revealed.body = b"".join(items[ends[0] + 1 :]) if ends else b""
    revealed.fault = "" if ends else BODILESS
    if not rest or rest[0][0] == "cut":
        revealed.fault = OPEN
    elif rest[0] != ("op", b"\x68"):
        revealed.fault = NO_PUSH
    return revealed
