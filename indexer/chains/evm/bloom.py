"""The bloom filter that stands in each header: whether a block can hold a log of a contract (yellow paper §4.4.3)."""

from __future__ import annotations

from collections.abc import Iterable

_MASK = (1 << 64) - 1
_RATE = 136  # bytes of keccak-256


def _constants() -> list[int]:
    """The constants of the 24 rounds, from the linear feedback shift register of FIPS 202 §3.2.5."""
    found, state = [], 1
    for _ in range(24):
        constant = 0
        for power in range(7):
            if state & 1:
                constant |= 1 << ((1 << power) - 1)
            state = (state << 1) ^ (0x171 if state & 0x80 else 0)
        found.append(constant)
    return found


_ROUNDS = _constants()


def _turn(lane: int, by: int) -> int:
    return ((lane << by) | (lane >> (64 - by))) & _MASK if by else lane


def _permute(lanes: list[int]) -> list[int]:
    """Keccak-f[1600] over 25 lanes, lane x + 5 y (FIPS 202 §3.3)."""
    for constant in _ROUNDS:
        column = [lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20] for x in range(5)]
        lanes = [lane ^ column[(at % 5 - 1) % 5] ^ _turn(column[(at % 5 + 1) % 5], 1) for at, lane in enumerate(lanes)]
        x, y, moving = 1, 0, lanes[1]
        for step in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            lanes[x + 5 * y], moving = _turn(moving, (step + 1) * (step + 2) // 2 % 64), lanes[x + 5 * y]
        lanes = [
            lane ^ (~lanes[at - at % 5 + (at + 1) % 5] & lanes[at - at % 5 + (at + 2) % 5] & _MASK)
            for at, lane in enumerate(lanes)
        ]
        lanes[0] ^= constant
    return lanes


def keccak256(message: bytes) -> bytes:
    """The hash of Ethereum: Keccak with the padding from before SHA-3. Milliseconds, for what is hashed once."""
    padded = bytearray(message + bytes(_RATE - len(message) % _RATE))
    padded[len(message)] ^= 0x01
    padded[-1] ^= 0x80
    lanes = [0] * 25
    for start in range(0, len(padded), _RATE):
        for lane in range(_RATE // 8):
            lanes[lane] ^= int.from_bytes(padded[start + lane * 8 : start + lane * 8 + 8], "little")
        lanes = _permute(lanes)
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[:4])


def bits(item: bytes) -> int:
    """The three bits that an address or a topic sets in a bloom filter of 2,048, as an integer."""
    digest = keccak256(item)
    return sum({1 << (int.from_bytes(digest[at : at + 2], "big") & 2047) for at in (0, 2, 4)})


class Filter:
    """Blocks that can hold a log of a contract with one of some first topics."""

    def __init__(self, address: bytes, topics: Iterable[bytes]) -> None:
        self._wanted = [bits(address) | bits(topic) for topic in topics]

    def may_hold(self, bloom: bytes) -> bool:
        """Whether a block with this bloom can hold one; one of a hundred blocks that hold none says yes as well."""
        held = int.from_bytes(bloom, "big")
        return any(held & each == each for each in self._wanted)
