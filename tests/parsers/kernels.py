"""Kernels of the tests of `parsers.jit`, in a file of their own for its cache."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from parsers.jit import compiled, kernel

Floats = npt.NDArray[np.float64]


class Columns(NamedTuple):
    """Two arrays of equal length."""

    left: Floats
    right: Floats


@kernel("results")
def scale(factor: float, values: Floats, results: Floats) -> int:
    for number in range(len(values)):
        results[number] = factor * values[number]
    return len(values)


@kernel()
def dot(columns: Columns) -> float:
    total = 0.0
    for number in range(len(columns.left)):
        total += columns.left[number] * columns.right[number]
    return total


@kernel("columns")
def swap(columns: Columns) -> None:
    for number in range(len(columns.left)):
        columns.left[number], columns.right[number] = columns.right[number], columns.left[number]


@kernel()
def sum_pair(pair: tuple[Floats, Floats]) -> float:
    return pair[0][0] + pair[1][0]


@kernel()
def value_at(values: Floats, index: int) -> float:
    return values[index]


@kernel()
def overwrite(values: Floats) -> None:
    values[0] = 1


@compiled
def next_of(number: int) -> int:
    return number + 1


@kernel()
def count_to(last: int) -> int:
    number = next_of(0)
    while number < last:
        number = next_of(number)
    return number
