"""How loops are compiled: the only file that knows Numba and LLVM.

Kernels work on addresses (int64) rather than arrays, so that one compiled version serves bytes, memory maps and views,
read-only or not. The loads here are not checked: the kernel has to, before each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import llvmlite.ir as llvm  # type: ignore[import-untyped,unused-ignore]
import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_P = ParamSpec("_P")
_R = TypeVar("_R")


_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile into whichever kernel calls this."""
    return cast("Callable[_P, _R]", numba.njit(**_OPTIONS)(function))


def kernel(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile at the first call from Python, or load from the cache on disk what an earlier process compiled. Arguments
    are not named.

    Numba says "cannot cache function" at decoration when neither NUMBA_CACHE_DIR, the package's folder nor the user's
    cache can be written; then every process compiles. So does one that finds the cache damaged or the disk full:
    kernels raise nothing, so that what is raised comes from the cache, or else comes again without it.
    """
    plain = numba.njit(**_OPTIONS)(function)
    try:
        chosen = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:
        chosen = plain

    @wraps(function)
    def call(*arguments: Any) -> Any:
        nonlocal chosen
        tried = chosen
        try:
            return tried(*arguments)
        except Exception:
            if tried is plain:
                raise
            chosen = plain
            return plain(*arguments)

    return cast("Callable[_P, _R]", call)


def _loader(bits: int, result: Any) -> Any:
    """An intrinsic that loads `bits` little-endian from an address, however aligned, widened to `result`.

    An address of another type is refused: Numba makes int64 and uint64 together a float64.
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


Address = int | np.int64
load8: Callable[[Address], int] = _loader(8, types.int64)
load16: Callable[[Address], int] = _loader(16, types.int64)
load32: Callable[[Address], int] = _loader(32, types.int64)
load63: Callable[[Address], int] = _loader(64, types.int64)
load64: Callable[[Address], np.uint64] = _loader(64, types.uint64)


def _copy(_context: Any, target: Any, source: Any, size: Any) -> Any:
    """Copy `size` bytes from one address to another; neither is checked, and they must not overlap."""

    def generate(_generator: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        to, start = (builder.inttoptr(each, llvm.IntType(8).as_pointer()) for each in arguments[:2])
        cgutils.raw_memcpy(builder, to, start, arguments[2], 1)  # type: ignore[no-untyped-call,unused-ignore]
        return llvm.Constant(llvm.IntType(64), 0)

    return types.int64(target, source, size), generate


def _prefetch(_context: Any, address: Any) -> Any:
    """Ask for the line of memory at an address, without waiting for it. An address that is none does no harm."""

    def generate(_generator: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        line = builder.inttoptr(arguments[0], llvm.IntType(8).as_pointer())
        numbers = [llvm.Constant(llvm.IntType(32), number) for number in (0, 3, 1)]  # to read, to keep, data
        kind = llvm.FunctionType(llvm.VoidType(), [line.type, *[each.type for each in numbers]])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")  # type: ignore[no-untyped-call,unused-ignore]
        builder.call(function, [line, *numbers])
        return llvm.Constant(llvm.IntType(64), 0)

    return types.int64(address), generate


def _needles(_context: Any, address: Any) -> Any:
    """Where in 64 bytes (66 are read) something may be meant for us: bit i for `a2b`, `-m` or a low byte and `o` at i.

    `-m` is the middle of `bsv-mcp`, a low byte and `o` the end of a push opcode and the `o` of `ord`. Written as
    vector code because LLVM does not reliably turn the plain loop into it: three loads and eleven cheap operations.
    """
    vector = llvm.VectorType(llvm.IntType(8), 64)

    def generate(_generator: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        def at(shift: int) -> Any:
            start = builder.add(arguments[0], llvm.Constant(llvm.IntType(64), shift))
            return builder.load(builder.inttoptr(start, vector.as_pointer()), align=1)

        def every(value: int) -> Any:
            return llvm.Constant(vector, [value] * 64)

        def smaller(left: Any, right: Any) -> Any:
            return builder.select(builder.icmp_unsigned("<", left, right), left, right)

        first, second, third = at(0), at(1), at(2)
        a2b = builder.or_(
            builder.or_(builder.xor(first, every(ord("a"))), builder.xor(second, every(ord("2")))),
            builder.xor(third, every(ord("b"))),
        )
        envelope = builder.or_(builder.and_(first, every(0xFC)), builder.xor(second, every(ord("o"))))
        app = builder.or_(builder.xor(first, every(ord("-"))), builder.xor(second, every(ord("m"))))
        hits = builder.icmp_unsigned("==", smaller(a2b, smaller(envelope, app)), every(0))
        return builder.bitcast(hits, llvm.IntType(64))

    return types.uint64(address), generate


def _lowest(_context: Any, mask: Any) -> Any:
    """The number of the lowest bit set in a mask that is not zero."""

    def generate(_generator: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], llvm.Constant(llvm.IntType(1), 1))

    return types.int64(mask), generate


def _bits_set(_context: Any, _mask: Any) -> Any:
    """How many bits of 64 are set."""

    def generate(_generator: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


bits_set = cast("Callable[[np.uint64], int]", intrinsic(_bits_set))
prefetch = cast("Callable[[Address], int]", intrinsic(_prefetch))
copy = cast("Callable[[Address, Address, Address], int]", intrinsic(_copy))
needles = cast("Callable[[int], np.uint64]", intrinsic(_needles))
lowest = cast("Callable[[np.uint64], int]", intrinsic(_lowest))
