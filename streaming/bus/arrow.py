"""Arrow columns from numpy arrays and strings, without a copy; and Arrow in little memory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Array = NDArray[Any]

_DTYPES: Final[dict[pa.DataType, Any]] = {
    pa.int8(): np.int8,
    pa.uint8(): np.uint8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float64(): np.float64,
}


def use_little_memory() -> None:
    """Make Arrow allocate from the system, and let it do without pandas.

    A memory pool of its own holds 4 MB. ``pa.array`` imports pandas wherever it is installed, which
    is 55 MB (both measured); it looks for pandas once, and here it finds none. Whoever needs pandas
    can import it afterwards.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _WithoutPandas())
        try:
            pa.array([0])
        finally:
            del sys.meta_path[0]


class _WithoutPandas(MetaPathFinder):
    """Says that pandas is not installed."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - Python's interface
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def numbers(values: Array | Sequence[float], dtype: pa.DataType) -> pa.Array:
    """A column of numbers or booleans without nulls."""
    if pa.types.is_boolean(dtype):
        bits = np.packbits(np.asarray(values, bool), bitorder="little")
        return pa.Array.from_buffers(dtype, len(values), [None, pa.py_buffer(bits)])
    array = np.ascontiguousarray(values, _DTYPES[dtype])
    return pa.Array.from_buffers(dtype, len(array), [None, pa.py_buffer(array)])


def texts(values: Sequence[str]) -> pa.Array:
    """A column of strings."""
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def fixed(values: Sequence[bytes], width: int) -> pa.Array:
    """A column of byte strings that all have this width."""
    buffers = [None, pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(width), len(values), buffers)


def dictionary(indices: Array | Sequence[int], entries: pa.Array) -> pa.Array:
    """A dictionary-encoded column: row i has the value ``entries[indices[i]]``."""
    return pa.DictionaryArray.from_arrays(numbers(indices, pa.int32()), entries)


def lists(ends: Array, values: Array, dtype: pa.DataType) -> pa.Array:
    """A column of lists of numbers; list i is ``values[ends[i]:ends[i + 1]]``."""
    return pa.ListArray.from_arrays(
        numbers(ends, pa.int32()), numbers(values, dtype.value_type), type=dtype
    )
