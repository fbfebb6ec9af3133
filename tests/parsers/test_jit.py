"""Kernels are compiled for one signature, and write only what they name."""

from __future__ import annotations

import mmap
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from parsers.jit import kernel, read_only
from tests.parsers.kernels import Columns, count_to, dot, overwrite, scale, sum_pair, swap
from tests.running import environment

NUMBERS = np.arange(4, dtype=np.float64)


def run(program: str, **variables: str) -> str:
    """The text that a program prints in a process of its own."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment(**variables), check=True, capture_output=True, text=True).stdout


def test_one_signature_serves_arrays_in_memory_bytes_and_mapped_files(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(NUMBERS.tobytes())
    with path.open("rb") as file:
        mapped = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.float64)
    for values in (NUMBERS, np.frombuffer(NUMBERS.tobytes()), read_only(NUMBERS), mapped):
        results = np.zeros(4)
        assert scale(0.5, values, results) == 4
        assert results.tolist() == [0, 0.5, 1, 1.5]


def test_scalars_are_of_the_annotated_types_whatever_the_first_call_passes() -> None:
    results = np.zeros(4)
    for factor, largest in ((2, 6.0), (0.5, 1.5), (np.float32(0.25), 0.75)):
        scale(factor, NUMBERS, results)  # type: ignore[arg-type]
        assert results.max() == largest


def test_a_kernel_refuses_to_write_a_read_only_array_that_it_names() -> None:
    with pytest.raises(TypeError, match="readonly array"):
        scale(2.0, NUMBERS, read_only(np.zeros(4)))


def test_a_kernel_that_writes_what_it_does_not_name_cannot_be_compiled() -> None:
    values = np.zeros(1)
    with pytest.raises(Exception, match="Cannot modify readonly array"):
        overwrite(values)
    assert values.tolist() == [0]


@pytest.mark.parametrize(
    "other", [NUMBERS.astype(np.float32), NUMBERS.reshape(2, 2), np.arange(8.0)[::2]], ids=["type", "shape", "strides"]
)
def test_other_arrays_than_those_of_the_first_call_are_refused_and_not_compiled_for(other: np.ndarray) -> None:
    scale(1.0, NUMBERS, np.zeros(4))
    with pytest.raises(TypeError, match="No matching definition"):
        scale(1.0, other, np.zeros(4))


def test_named_tuples_are_read_with_read_only_arrays_and_written_as_a_whole() -> None:
    columns = Columns(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    swap(columns)
    assert dot(Columns(read_only(columns.left), read_only(columns.right))) == 11
    assert columns.left.tolist() == [3, 4]
    with pytest.raises(TypeError, match="No matching definition"):
        dot(columns)


def test_a_function_of_kernels_is_not_compiled_again_for_a_literal(tmp_path: Path) -> None:
    assert count_to(3) == 3
    program = (
        "from numba.core import event\n"
        "from tests.parsers.kernels import count_to, next_of\n"
        "with event.install_recorder('numba:compile') as compiled:\n"
        "    count_to(3)\n"
        "functions = [e.data['dispatcher'].py_func for _, e in compiled.buffer if e.is_start]\n"
        "print(functions.count(next_of))\n"
    )
    assert run(program, NUMBA_CACHE_DIR=str(tmp_path)) == "1\n"


def test_numba_is_loaded_when_the_first_kernel_runs() -> None:
    program = "import sys, tests.parsers.kernels\nprint('numba' in sys.modules)"
    assert run(program) == "False\n"


def test_tuples_are_read_with_arrays_of_both_kinds() -> None:
    assert sum_pair((NUMBERS, NUMBERS)) == sum_pair((read_only(NUMBERS), NUMBERS)) == 0


def test_bounds_are_checked_where_the_environment_says_so(tmp_path: Path) -> None:
    program = (
        "import numpy as np\n"
        "from tests.parsers.kernels import value_at\n"
        "try:\n"
        "    value_at(np.zeros(4), 4)\n"
        "except IndexError:\n"
        "    print('refused')\n"
    )
    assert run(program, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path)) == "refused\n"


def test_a_decorator_without_parentheses_is_refused() -> None:
    with pytest.raises(TypeError, match="write @kernel"):
        kernel(test_names_that_are_no_parameters_are_refused)  # type: ignore[arg-type]


def test_names_that_are_no_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="no parameters result"):

        @kernel("result")
        def double(results: np.ndarray) -> None: ...
