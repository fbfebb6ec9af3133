"""LLVM instructions that the kernels of blocks use beyond Python: loads and copies at memory addresses. Each is called
by the name of a function of the same effect, which runs while kernels are interpreted.

These kernels take the addresses (int64) of bytes instead of arrays, so that they load words of any alignment from any
buffer. Loads are unchecked: the kernel checks the bounds before every load.
"""

# ruff: noqa: ARG005, PLW0108 - Numba reads the names of a lambda's parameters, and compiles the inner one

from __future__ import annotations

import ctypes
import re
from typing import Any

import llvmlite.ir as llvm  # type: ignore[import-untyped,unused-ignore]
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

Address = int | np.int64


def _loader(bits: int, result: Any) -> Any:
    """An intrinsic that loads `bits` little-endian from an address of any alignment, widened to `result`.

    Only int64 addresses are accepted, because Numba adds int64 and uint64 to a float64.
    """

    def load(_context: Any, address: Any) -> Any:
        if address != types.int64:
            return None

        def generate(_generator: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], llvm.IntType(bits).as_pointer())
            value = builder.load(pointer, align=1)
            return value if bits == 64 else builder.zext(value, llvm.IntType(64))

        return result(address), generate

    return intrinsic(load)


_load8, _load16, _load32 = (_loader(bits, types.int64) for bits in (8, 16, 32))
_load63, _load64 = _loader(64, types.int64), _loader(64, types.uint64)


def load8(address: Address) -> int:
    """The byte at an address."""
    return ctypes.c_uint8.from_address(int(address)).value


def load16(address: Address) -> int:
    """The two bytes at an address, little-endian."""
    return int.from_bytes(ctypes.string_at(int(address), 2), "little")


def load32(address: Address) -> int:
    """The four bytes at an address, little-endian."""
    return int.from_bytes(ctypes.string_at(int(address), 4), "little")


def load63(address: Address) -> int:
    """The eight bytes at an address, little-endian, as a signed number."""
    return int.from_bytes(ctypes.string_at(int(address), 8), "little", signed=True)


def load64(address: Address) -> np.uint64:
    """The eight bytes at an address, little-endian."""
    return np.uint64(int.from_bytes(ctypes.string_at(int(address), 8), "little"))


overload(load8)(lambda address: lambda address: _load8(address))
overload(load16)(lambda address: lambda address: _load16(address))
overload(load32)(lambda address: lambda address: _load32(address))
overload(load63)(lambda address: lambda address: _load63(address))
overload(load64)(lambda address: lambda address: _load64(address))


def _copy(_context: Any, target: Any, source: Any, size: Any) -> Any:
    """Copy `size` bytes between two addresses, unchecked; the ranges must not overlap."""

    def generate(_generator: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        to, start = (builder.inttoptr(argument, llvm.IntType(8).as_pointer()) for argument in arguments[:2])
        cgutils.raw_memcpy(builder, to, start, arguments[2], 1)  # type: ignore[no-untyped-call,unused-ignore]
        return llvm.Constant(llvm.IntType(64), 0)

    return types.int64(target, source, size), generate


def _needles(_context: Any, address: Any) -> Any:
    """A mask of positions in 64 bytes (66 are read): bit i for `a2b`, `-m`, or a byte under 4 followed by `o`, at i.

    `-m` is the middle of `bsv-mcp`; a low byte and `o` are the end of a push opcode and the `o` of `ord`. Written as
    vector code because LLVM does not reliably vectorise the plain loop: three loads and eleven cheap operations.
    """
    vector = llvm.VectorType(llvm.IntType(8), 64)

    def generate(_generator: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        def load(shift: int) -> Any:
            start = builder.add(arguments[0], llvm.Constant(llvm.IntType(64), shift))
            return builder.load(builder.inttoptr(start, vector.as_pointer()), align=1)

        def repeated(value: int) -> Any:
            return llvm.Constant(vector, [value] * 64)

        def smaller(left: Any, right: Any) -> Any:
            return builder.select(builder.icmp_unsigned("<", left, right), left, right)

        first, second, third = load(0), load(1), load(2)
        a2b = builder.or_(
            builder.or_(builder.xor(first, repeated(ord("a"))), builder.xor(second, repeated(ord("2")))),
            builder.xor(third, repeated(ord("b"))),
        )
        envelope = builder.or_(builder.and_(first, repeated(0xFC)), builder.xor(second, repeated(ord("o"))))
        app = builder.or_(builder.xor(first, repeated(ord("-"))), builder.xor(second, repeated(ord("m"))))
        hits = builder.icmp_unsigned("==", smaller(a2b, smaller(envelope, app)), repeated(0))
        return builder.bitcast(hits, llvm.IntType(64))

    return types.uint64(address), generate


def _lowest(_context: Any, mask: Any) -> Any:
    """The index of the lowest set bit of a mask, which must not be zero."""

    def generate(_generator: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], llvm.Constant(llvm.IntType(1), 1))

    return types.int64(mask), generate


_copied: Any = intrinsic(_copy)
_mask: Any = intrinsic(_needles)
_index: Any = intrinsic(_lowest)
_NEEDLE = re.compile(rb"(?=a2b|-m|[\0-\3]o)", re.DOTALL)


def copy(target: Address, source: Address, size: Address) -> int:
    """As `_copy`."""
    ctypes.memmove(int(target), int(source), int(size))
    return 0


def needles(address: Address) -> np.uint64:
    """As `_needles`."""
    positions = (match.start() for match in _NEEDLE.finditer(ctypes.string_at(int(address), 66)))
    return np.uint64(sum(1 << position for position in positions if position < 64))


def lowest(mask: np.uint64) -> int:
    """As `_lowest`."""
    return (int(mask) & -int(mask)).bit_length() - 1


overload(copy)(lambda target, source, size: lambda target, source, size: _copied(target, source, size))
overload(needles)(lambda address: lambda address: _mask(address))
overload(lowest)(lambda mask: lambda mask: _index(mask))
