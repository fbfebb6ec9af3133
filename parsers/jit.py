"""Compilation of loops by Numba: once for a user and version, for one signature, without the GIL. Numba is loaded when
the first kernel runs.

A **kernel** is called from Python with positional arguments, a **compiled** function from kernels only. A kernel is
compiled for one signature, so that running it once on tiny arrays (`prepare` functions, in a separate process:
`overlay/app/compilation.py`) compiles all that will ever run, and no later call compiles again:

* Scalars are of the annotated types `int`, `float`, `bool`, or those of numpy, such as `np.uint64`. A caller may pass
  `1` for a `float`.
* Arrays are C-contiguous and aligned; their types and dimensions are those of the first call, and other arrays raise
  TypeError: also prepare a kernel with arrays of the right dtypes.
* Whether the arrays of a call are read-only, such as those of mapped files and of bytes, does not matter, since Numba
  would compile another version for these: **a kernel reads all its arrays as read-only, except those that are named in
  its decorator, which it writes**: `@kernel("scores", "order")`. So what is published cannot be written by mistake:
  that fails when it is compiled. A read-only array that is passed for one named there raises TypeError.
* While kernels are interpreted (`parsers.interpretation`), they run as Python: write nothing that depends on
  the overflow of annotated scalars; that of numpy's types is the same.
* A tuple of arrays is read or written as a whole. The arrays of a NamedTuple that is read must be read-only in each
  call, since Numba converts no named tuples: see `read_only`. They cost less than as many arguments are to read.

A module of kernels belongs in the list of its `CompiledLoops` (`overlay/app/compilation.py`), with each module of the
project that its kernels use, because Numba's cache notices changes only in the file of the kernel itself. Its function
`prepare`, or that of a module that uses it, runs each kernel once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
import numpy.typing as npt

from parsers.interpretation import compiles_here, declare, is_interpreting, prepared

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Scalar = TypeVar("_Scalar", bound=np.generic)

_functions: list[Callable[..., Any]] = []


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function that is called by kernels only, for the types of its arguments: not again for a literal."""
    _functions.append(function)
    return function


def kernel(
    *writes: str, interpreted: Callable[..., Any] | None = None
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Compile a function at its first call, or load it from the cache on disk of an earlier process. It writes only
    the arrays of these parameters. Raises TypeError for arguments of other types than those of the first call.
    `interpreted` is called instead of the function itself while kernels are interpreted: for one that cannot run as
    Python, or too slowly."""

    if not all(isinstance(name, str) for name in writes):
        raise TypeError('write @kernel(), or @kernel("array", ...) with the names of the arrays that it writes')

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        parameters = inspect.signature(function).parameters
        if unknown := set(writes) - set(parameters):
            raise ValueError(f"{function.__name__} has no parameters {', '.join(sorted(unknown))}")
        chosen: Callable[..., Any] | None = None
        scalars = tuple(_SCALARS.get(parameter.annotation) for parameter in parameters.values())
        declare(function)

        @wraps(function)
        def call(*arguments: Any) -> Any:
            nonlocal chosen
            if chosen is None:
                if is_interpreting() and not compiles_here():
                    return _interpreted(interpreted or function, scalars, arguments)
                from parsers import numba_compiler  # it loads Numba, which takes a quarter of a second

                numba_compiler.register(_functions)
                chosen = numba_compiler.compile_kernel(function, parameters, writes, arguments)
                prepared(function)
            return chosen(*arguments)

        return cast("Callable[_P, _R]", call)

    return decorate


_SCALARS = {"int": np.int64, "float": np.float64, "bool": np.bool_}


def _interpreted(
    function: Callable[..., Any], scalars: tuple[type[np.generic] | None, ...], arguments: tuple[Any, ...]
) -> Any:
    """The result of a kernel in Python, of scalars of the types that Numba would give them."""
    typed = (argument if kind is None else kind(argument) for kind, argument in zip(scalars, arguments, strict=True))
    with np.errstate(all="ignore"):
        return _unboxed(function(*typed))


def _unboxed(result: Any) -> Any:
    """A result with Python's scalars instead of numpy's, as Numba returns them."""
    if isinstance(result, np.generic):
        return result.item()
    if isinstance(result, tuple):
        members = map(_unboxed, result)
        return tuple(members) if type(result) is tuple else type(result)(*members)
    return result


def read_only(array: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    """A read-only view of an array, for a NamedTuple that a kernel reads."""
    view = array.view()
    view.flags.writeable = False
    return view
