"""SHA-256 of sixteen messages at once, as vector code for LLVM: one lane a message (FIPS 180-4).

Written out because LLVM does not turn the plain loop into it. Sixteen lanes are one register with AVX-512, two with
AVX2, four with SSE2 or NEON; LLVM splits them for the machine it runs on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import llvmlite.binding  # type: ignore[import-untyped,unused-ignore]
import llvmlite.ir as llvm  # type: ignore[import-untyped,unused-ignore]
from numba import config, types
from numba.extending import intrinsic


def _lanes() -> int:
    """Words that fit into a register of the machine that code is compiled for."""
    told = config.CPU_FEATURES  # type: ignore[attr-defined,unused-ignore]
    has = llvmlite.binding.get_host_cpu_features().flatten() if told is None else told
    return 16 if "+avx512f" in has.split(",") else 8 if "+avx2" in has.split(",") else 4


LANES = _lanes()
"""Messages hashed at once: 16 with AVX-512, 8 with AVX2, 4 with SSE2 or NEON."""

_TABLE = "sha256_round_constants"

_WORD, _ADDRESS = llvm.IntType(32), llvm.IntType(64)
_ROW = llvm.VectorType(_WORD, LANES)


def _fraction(number: int, root: int) -> int:
    """The first 32 bits of the fractional part of a prime's square or cube root."""
    shifted = number << (32 * root)
    guess = 1 << ((shifted.bit_length() + root - 1) // root)
    while True:
        smaller = ((root - 1) * guess + shifted // guess ** (root - 1)) // root
        if smaller >= guess:
            return guess & 0xFFFFFFFF
        guess = smaller


_PRIMES = [number for number in range(2, 312) if all(number % other for other in range(2, number))]
FIRST = tuple(_fraction(prime, 2) for prime in _PRIMES[:8])
"""The state before the first block, eight words."""

_K = [_fraction(prime, 3) for prime in _PRIMES]


class _Writer:
    """Writes the instructions: every value is a row of sixteen 32-bit words, one of each message."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def every(self, word: int) -> Any:
        return llvm.Constant(_ROW, [word] * LANES)

    def at(self, address: Any, row: int) -> Any:
        """A pointer to the row of that number behind an address."""
        there = self.builder.add(address, llvm.Constant(_ADDRESS, 4 * LANES * row))
        return self.builder.inttoptr(there, _ROW.as_pointer())

    def add(self, *rows: Any) -> Any:
        total = rows[0]
        for row in rows[1:]:
            total = self.builder.add(total, row)
        return total

    def xor(self, *rows: Any) -> Any:
        total = rows[0]
        for row in rows[1:]:
            total = self.builder.xor(total, row)
        return total

    def shifted(self, row: Any, bits: int) -> Any:
        return self.builder.lshr(row, self.every(bits))

    def rotated(self, row: Any, bits: int) -> Any:
        return self.builder.or_(self.shifted(row, bits), self.builder.shl(row, self.every(32 - bits)))

    def message(self, addresses: Any) -> list[Any]:
        """The blocks of 64 bytes that these addresses name, turned so that row i holds the i-th word of each."""
        words = []
        for part in range(16 // LANES):
            rows = [self.big_endian(self.load(addresses, lane, part)) for lane in range(LANES)]
            for _ in range(LANES.bit_length() - 1):  # so many perfect shuffles swap rows and columns
                pairs = zip(rows[: LANES // 2], rows[LANES // 2 :], strict=True)
                rows = [self.shuffled(*pair, half) for pair in pairs for half in (0, LANES // 2)]
            words += rows
        return words

    def load(self, addresses: Any, lane: int, part: int) -> Any:
        """As many words as there are lanes, of the block that a lane reads."""
        named = self.builder.add(addresses, llvm.Constant(_ADDRESS, 8 * lane))
        address = self.builder.load(self.builder.inttoptr(named, _ADDRESS.as_pointer()), align=1)
        return self.builder.load(self.at(address, part), align=1)

    def shuffled(self, one: Any, other: Any, first: int) -> Any:
        """Words of two rows in turn, from `first` on."""
        order = [first + n // 2 + LANES * (n % 2) for n in range(LANES)]
        return self.builder.shuffle_vector(one, other, llvm.Constant(_ROW, order))

    def big_endian(self, row: Any) -> Any:
        octets = llvm.VectorType(llvm.IntType(8), 4 * LANES)
        order = [4 * (n // 4) + 3 - n % 4 for n in range(4 * LANES)]
        raw = self.builder.bitcast(row, octets)
        turned = self.builder.shuffle_vector(raw, raw, llvm.Constant(llvm.VectorType(_WORD, 4 * LANES), order))
        return self.builder.bitcast(turned, _ROW)

    def sixteen(self, state: list[Any], words: list[Any], constants: list[Any]) -> list[Any]:
        """Sixteen rounds."""
        a, b, c, d, e, f, g, h = state
        for word, constant in zip(words, constants, strict=True):
            choice = self.xor(g, self.builder.and_(e, self.xor(f, g)))
            majority = self.builder.or_(self.builder.and_(a, b), self.builder.and_(c, self.builder.or_(a, b)))
            upper = self.xor(self.rotated(e, 6), self.rotated(e, 11), self.rotated(e, 25))
            lower = self.xor(self.rotated(a, 2), self.rotated(a, 13), self.rotated(a, 22))
            first = self.add(h, upper, choice, self.add(word, constant))
            a, b, c, d, e, f, g, h = self.add(first, lower, majority), a, b, c, self.add(d, first), e, f, g
        return [a, b, c, d, e, f, g, h]

    def rounds(self, state: list[Any], words: list[Any]) -> list[Any]:
        """The sixty-four rounds over one block of each message: sixteen, and a loop of three times sixteen more."""
        builder = self.builder
        state = self.sixteen(state, words, [self.every(constant) for constant in _K[:16]])
        before, again, done = builder.block, builder.append_basic_block(), builder.append_basic_block()
        builder.branch(again)
        builder.position_at_end(again)
        turn = builder.phi(_ADDRESS)
        turn.add_incoming(llvm.Constant(_ADDRESS, 16), before)
        held = [builder.phi(_ROW) for _ in range(24)]
        for phi, value in zip(held, [*state, *words], strict=True):
            phi.add_incoming(value, before)
        schedule = held[8:]
        for n in range(16):
            schedule[n] = self.extended(schedule[n], *(schedule[(n + far) % 16] for far in (1, 9, 14)))
        state = self.sixteen(held[:8], schedule, [self.constant(turn, n) for n in range(16)])
        for phi, value in zip(held, [*state, *schedule], strict=True):
            phi.add_incoming(value, builder.block)
        following = builder.add(turn, llvm.Constant(_ADDRESS, 16))
        turn.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_unsigned("<", following, llvm.Constant(_ADDRESS, 64)), again, done)
        builder.position_at_end(done)
        return state

    def constant(self, turn: Any, number: int) -> Any:
        """The round constant of that number behind a place in the table, in every lane."""
        zero = llvm.Constant(_ADDRESS, 0)
        place = self.builder.add(turn, llvm.Constant(_ADDRESS, number))
        word = self.builder.load(self.builder.gep(self.table(), [zero, place], inbounds=True))
        alone = self.builder.insert_element(llvm.Constant(_ROW, llvm.Undefined), word, llvm.Constant(_WORD, 0))
        return self.builder.shuffle_vector(alone, alone, llvm.Constant(_ROW, [0] * LANES))

    def table(self) -> Any:
        """The sixty-four round constants in memory."""
        kind, module = llvm.ArrayType(_WORD, len(_K)), self.builder.module
        if _TABLE in module.globals:
            return module.globals[_TABLE]
        made = llvm.GlobalVariable(module, kind, _TABLE)
        made.initializer, made.global_constant, made.linkage = llvm.Constant(kind, _K), True, "internal"
        return made

    def extended(self, sixteenth: Any, fifteenth: Any, seventh: Any, second: Any) -> Any:
        """The next word of the message schedule, from those so many before it."""
        early = self.xor(self.rotated(fifteenth, 7), self.rotated(fifteenth, 18), self.shifted(fifteenth, 3))
        late = self.xor(self.rotated(second, 17), self.rotated(second, 19), self.shifted(second, 10))
        return self.add(sixteenth, early, seventh, late)


def _compress(_context: Any, state: Any, addresses: Any) -> Any:
    """Take the next block of 64 bytes of each message into its state.

    `state` is the address of eight rows of sixteen 32-bit words, `addresses` that of the sixteen blocks' addresses.
    """

    def generate(_generator: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        writer = _Writer(builder)
        places = [writer.at(arguments[0], row) for row in range(8)]
        before = [builder.load(place, align=1) for place in places]
        after = writer.rounds(before, writer.message(arguments[1]))
        for place, old, new in zip(places, before, after, strict=True):
            builder.store(builder.add(old, new), place, align=1)
        return llvm.Constant(_ADDRESS, 0)

    return types.int64(state, addresses), generate


compress = cast("Callable[[int, int], int]", intrinsic(_compress))
