"""The calls of Numba that `parsers.jit` makes, imported when the first kernel runs."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, cast

import numba
from numba import types
from numba.core import config
from numba.extending import register_jitable

# nothing calls kernels from C: without that wrapper, compiling takes a twelfth less time
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

_typeof: Any = numba.typeof
_reload_config: Any = config.reload_config
_SCALARS = {"int": types.int64, "float": types.float64, "bool": types.boolean}
_SCALARS |= {f"np.{name}": getattr(types, name) for name in ("uint64", "int32", "uint32", "uint8", "float32")}

_registering = Lock()


def register(functions: list[Callable[..., Any]]) -> None:
    """Let kernels call these functions, and empty the list."""
    with _registering:
        while functions:
            register_jitable(**_OPTIONS)(functions.pop())


def compile_kernel(
    function: Callable[..., Any], parameters: Any, writes: tuple[str, ...], arguments: tuple[Any, ...]
) -> Callable[..., Any]:
    """The function for exactly the types of these arguments, from the cache when it is there.

    Numba raises RuntimeError when neither NUMBA_CACHE_DIR, the package's folder nor the user's cache is writable, and
    all kinds of errors for a damaged cache or a full disk; then every process compiles.
    """
    _reload_config()  # Numba may have been imported before NUMBA_CACHE_DIR was set
    signature = []
    for (name, parameter), argument in zip(parameters.items(), arguments, strict=True):
        scalar = _SCALARS.get(parameter.annotation)
        type_ = _typeof(argument) if scalar is None else scalar
        signature.append(type_ if name in writes else _as_read_only(type_))
    for is_cached in (True, False):
        dispatcher = numba.njit(cache=is_cached, **_OPTIONS)(function)
        try:
            dispatcher.compile(tuple(signature))
        except Exception:
            if not is_cached:
                raise
        else:
            break
    dispatcher.disable_compile()
    return cast("Callable[..., Any]", dispatcher)


def _as_read_only(type_: Any) -> Any:
    """A type of read-only arrays."""
    if isinstance(type_, types.Array):
        return type_.copy(readonly=True)
    if isinstance(type_, types.BaseTuple):
        members: Any = type_
        of_tuples: Any = types.BaseTuple
        return of_tuples.from_types(
            [_as_read_only(member) for member in members], getattr(type_, "instance_class", tuple)
        )
    return type_
