"""The compression function of SHA-256 (FIPS 180-4) over several messages at once, as vector code: a lane per message.

Written as LLVM instructions because plain loops, vectorised by LLVM, ran at less than a third of the speed, and hashlib
brings catching up below its bar (`docs/decisions/sha256.md`). LLVM compiles it for the processor it runs on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import llvmlite.binding  # type: ignore[import-untyped,unused-ignore]
import llvmlite.ir as llvm  # type: ignore[import-untyped,unused-ignore]
from numba import config, types
from numba.extending import intrinsic


def _lanes() -> int:
    """The number of 32-bit words in a vector register of the processor that code is compiled for."""
    features = config.CPU_FEATURES  # type: ignore[attr-defined,unused-ignore]
    if features is None:
        features = llvmlite.binding.get_host_cpu_features().flatten()
    return 16 if "+avx512f" in features.split(",") else 8 if "+avx2" in features.split(",") else 4


LANES = _lanes()
"""Messages hashed at once: 16 with AVX-512, 8 with AVX2, 4 with SSE2 or NEON."""

_TABLE = "sha256_round_constants"

_WORD, _ADDRESS = llvm.IntType(32), llvm.IntType(64)
_ROW = llvm.VectorType(_WORD, LANES)


def _fraction(number: int, root: int) -> int:
    """The first 32 bits of the fractional part of the square or cube `root` of a number."""
    shifted = number << (32 * root)
    guess = 1 << ((shifted.bit_length() + root - 1) // root)
    while True:
        smaller = ((root - 1) * guess + shifted // guess ** (root - 1)) // root
        if smaller >= guess:
            return guess & 0xFFFFFFFF
        guess = smaller


_PRIMES = [number for number in range(2, 312) if all(number % other for other in range(2, number))]
INITIAL_STATE = tuple(_fraction(prime, 2) for prime in _PRIMES[:8])
"""The state before the first block: eight words."""

_K = [_fraction(prime, 3) for prime in _PRIMES]


class _RowBuilder:
    """Emits the instructions; every value is a row, a vector with a 32-bit word of every message."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def repeated(self, word: int) -> Any:
        """A row that holds the same word in every lane."""
        return llvm.Constant(_ROW, [word] * LANES)

    def row_pointer(self, address: Any, row: int) -> Any:
        """A pointer to row number `row` of the rows at an address."""
        start = self.builder.add(address, llvm.Constant(_ADDRESS, 4 * LANES * row))
        return self.builder.inttoptr(start, _ROW.as_pointer())

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

    def shift(self, row: Any, bits: int) -> Any:
        return self.builder.lshr(row, self.repeated(bits))

    def rotate(self, row: Any, bits: int) -> Any:
        return self.builder.or_(self.shift(row, bits), self.builder.shl(row, self.repeated(32 - bits)))

    def message(self, addresses: Any) -> list[Any]:
        """The blocks of 64 bytes at these addresses, transposed: row i holds word i of every block."""
        words = []
        for part in range(16 // LANES):
            rows = [self.big_endian(self.load(addresses, lane, part)) for lane in range(LANES)]
            for _ in range(LANES.bit_length() - 1):  # log2(LANES) perfect shuffles transpose the matrix
                pairs = zip(rows[: LANES // 2], rows[LANES // 2 :], strict=True)
                rows = [self.interleave(*pair, half) for pair in pairs for half in (0, LANES // 2)]
            words += rows
        return words

    def load(self, addresses: Any, lane: int, part: int) -> Any:
        """Part number `part` (LANES words) of the block that a lane reads."""
        pointer = self.builder.add(addresses, llvm.Constant(_ADDRESS, 8 * lane))
        address = self.builder.load(self.builder.inttoptr(pointer, _ADDRESS.as_pointer()), align=1)
        return self.builder.load(self.row_pointer(address, part), align=1)

    def interleave(self, left: Any, right: Any, first: int) -> Any:
        """The words of two rows alternately, from word `first`."""
        order = [first + n // 2 + LANES * (n % 2) for n in range(LANES)]
        return self.builder.shuffle_vector(left, right, llvm.Constant(_ROW, order))

    def big_endian(self, row: Any) -> Any:
        """The row with the bytes of every word reversed."""
        octets = llvm.VectorType(llvm.IntType(8), 4 * LANES)
        order = [4 * (n // 4) + 3 - n % 4 for n in range(4 * LANES)]
        raw = self.builder.bitcast(row, octets)
        swapped = self.builder.shuffle_vector(raw, raw, llvm.Constant(llvm.VectorType(_WORD, 4 * LANES), order))
        return self.builder.bitcast(swapped, _ROW)

    def sixteen_rounds(self, state: list[Any], words: list[Any], constants: list[Any]) -> list[Any]:
        """The state after sixteen rounds."""
        a, b, c, d, e, f, g, h = state
        for word, constant in zip(words, constants, strict=True):
            choice = self.xor(g, self.builder.and_(e, self.xor(f, g)))
            majority = self.builder.or_(self.builder.and_(a, b), self.builder.and_(c, self.builder.or_(a, b)))
            upper = self.xor(self.rotate(e, 6), self.rotate(e, 11), self.rotate(e, 25))
            lower = self.xor(self.rotate(a, 2), self.rotate(a, 13), self.rotate(a, 22))
            first = self.add(h, upper, choice, self.add(word, constant))
            a, b, c, d, e, f, g, h = self.add(first, lower, majority), a, b, c, self.add(d, first), e, f, g
        return [a, b, c, d, e, f, g, h]

    def rounds(self, state: list[Any], words: list[Any]) -> list[Any]:
        """The 64 rounds over one block of every message: sixteen, then a loop of three times sixteen."""
        builder = self.builder
        state = self.sixteen_rounds(state, words, [self.repeated(constant) for constant in _K[:16]])
        entry, loop, done = builder.block, builder.append_basic_block(), builder.append_basic_block()
        builder.branch(loop)
        builder.position_at_end(loop)
        first_round = builder.phi(_ADDRESS)
        first_round.add_incoming(llvm.Constant(_ADDRESS, 16), entry)
        phis = [builder.phi(_ROW) for _ in range(24)]
        for phi, value in zip(phis, [*state, *words], strict=True):
            phi.add_incoming(value, entry)
        schedule = phis[8:]
        for n in range(16):
            schedule[n] = self.extend(schedule[n], *(schedule[(n + distance) % 16] for distance in (1, 9, 14)))
        state = self.sixteen_rounds(phis[:8], schedule, [self.constant(first_round, n) for n in range(16)])
        for phi, value in zip(phis, [*state, *schedule], strict=True):
            phi.add_incoming(value, builder.block)
        following = builder.add(first_round, llvm.Constant(_ADDRESS, 16))
        first_round.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_unsigned("<", following, llvm.Constant(_ADDRESS, 64)), loop, done)
        builder.position_at_end(done)
        return state

    def constant(self, first_round: Any, number: int) -> Any:
        """The constant of round `first_round + number`, in every lane."""
        zero = llvm.Constant(_ADDRESS, 0)
        index = self.builder.add(first_round, llvm.Constant(_ADDRESS, number))
        word = self.builder.load(self.builder.gep(self.table(), [zero, index], inbounds=True))
        single = self.builder.insert_element(llvm.Constant(_ROW, llvm.Undefined), word, llvm.Constant(_WORD, 0))
        return self.builder.shuffle_vector(single, single, llvm.Constant(_ROW, [0] * LANES))

    def table(self) -> Any:
        """The 64 round constants in memory."""
        kind, module = llvm.ArrayType(_WORD, len(_K)), self.builder.module
        if _TABLE in module.globals:
            return module.globals[_TABLE]
        table = llvm.GlobalVariable(module, kind, _TABLE)
        table.initializer, table.global_constant, table.linkage = llvm.Constant(kind, _K), True, "internal"
        return table

    def extend(self, sixteenth: Any, fifteenth: Any, seventh: Any, second: Any) -> Any:
        """The next word of the message schedule, from the words at these distances before it."""
        early = self.xor(self.rotate(fifteenth, 7), self.rotate(fifteenth, 18), self.shift(fifteenth, 3))
        late = self.xor(self.rotate(second, 17), self.rotate(second, 19), self.shift(second, 10))
        return self.add(sixteenth, early, seventh, late)


def _compress(_context: Any, state: Any, addresses: Any) -> Any:
    """Update the state of every message by its next block of 64 bytes.

    `state` is the address of eight rows of LANES 32-bit words, `addresses` that of the LANES addresses of the blocks.
    """

    def generate(_generator: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        rows = _RowBuilder(builder)
        pointers = [rows.row_pointer(arguments[0], row) for row in range(8)]
        before = [builder.load(pointer, align=1) for pointer in pointers]
        after = rows.rounds(before, rows.message(arguments[1]))
        for pointer, old, new in zip(pointers, before, after, strict=True):
            builder.store(builder.add(old, new), pointer, align=1)
        return llvm.Constant(_ADDRESS, 0)

    return types.int64(state, addresses), generate


compress = cast("Callable[[int, int], int]", intrinsic(_compress))
