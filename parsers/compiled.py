"""How loops are compiled: the only file that knows Numba and LLVM.

Kernels work on addresses (int64) rather than arrays, so that one compiled version serves bytes, memory maps and views,
read-only or not. The loads here are not checked: the kernel has to, before each.
"""

from __future__ import annotations

from collections.abc import Callable
from pickle import PickleError
from typing import Any, ParamSpec, TypeVar, cast

import llvmlite.ir as llvm  # type: ignore[import-untyped,unused-ignore]
import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile at the first call, from the cache on disk where there is one, and without one where nothing is writable.

    Numba says "cannot cache function" at decoration when neither NUMBA_CACHE_DIR, the package's folder nor the user's
    cache can be written. A cache that cannot be written or read later (disk full, damaged): see `call`.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        cached = numba.njit(cache=True, **options)(function)
    except RuntimeError:
        return cast("Callable[_P, _R]", numba.njit(**options)(function))
    return cast("Callable[_P, _R]", cached)


_replaced: dict[str, Callable[..., Any]] = {}


def call(kernel: Callable[_P, _R], *arguments: _P.args, **named: _P.kwargs) -> _R:
    """Call a kernel; when its cache on disk cannot be read or written, compile it for this process only."""
    name = cast("Any", kernel).__name__
    try:
        return cast("Callable[_P, _R]", _replaced.get(name, kernel))(*arguments, **named)
    except (OSError, EOFError, PickleError):
        function = cast("Any", kernel).py_func
        _replaced[name] = numba.njit(nogil=True, error_model="numpy")(function)
        return cast("_R", _replaced[name](*arguments, **named))


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


load8: Callable[[int], int] = _loader(8, types.int64)
load16: Callable[[int], int] = _loader(16, types.int64)
load32: Callable[[int], int] = _loader(32, types.int64)
load63: Callable[[int], int] = _loader(64, types.int64)
load64: Callable[[int], np.uint64] = _loader(64, types.uint64)


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


needles = cast("Callable[[int], np.uint64]", intrinsic(_needles))
lowest = cast("Callable[[np.uint64], int]", intrinsic(_lowest))
