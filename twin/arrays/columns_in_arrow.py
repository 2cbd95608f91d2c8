"""Columns as numpy arrays and as Arrow's, and arrays of objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from twin.declarations.table import Array, Column

_OBJECTS: Final = (pa.binary(16), pa.binary())


def object_array(values: Iterable[Any]) -> Array:
    """A one-dimensional array of objects, even if all of them are sequences of the same length."""
    listed = list(values)
    return np.fromiter(listed, object, len(listed))


def to_numpy(values: pa.ChunkedArray | pa.Array) -> Array:
    """An Arrow column as numpy. Text and ids become Python objects, one per distinct value."""
    array = values
    if isinstance(values, pa.ChunkedArray):
        array = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    if pa.types.is_primitive(array.type):
        return array.to_numpy(zero_copy_only=False)
    if pa.types.is_dictionary(array.type):
        entries = object_array(array.dictionary.to_pylist())
        objects: Array = entries[array.indices.to_numpy(zero_copy_only=False)]
        return objects
    if array.type in _OBJECTS or pa.types.is_list(array.type):
        return object_array(array.to_pylist())
    return array.to_numpy(zero_copy_only=False)


def to_arrow(column: Column, values: Array) -> pa.Array:
    """The inverse of ``to_numpy``, in exactly the declared type."""
    if pa.types.is_dictionary(column.arrow):
        plain = pa.array(values.tolist(), column.arrow.value_type)
        return plain.dictionary_encode().cast(column.arrow)
    if column.dtype == object:
        return pa.array(values.tolist(), column.arrow)
    return pa.array(values, column.arrow)
