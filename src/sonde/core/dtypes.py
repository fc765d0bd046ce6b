"""Element types: one table for their names, sizes, numbers on the wire and storage in ``.npy``.

Inside Sonde a dtype is its lower-case name, the one torch uses (``float32``, ``bfloat16``,
``float8_e4m3fn``). MindSpore's file names and graphs use their own spelling and numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from sonde.core.errors import SondeError


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    ``stored`` is the numpy type that holds the values in an ``.npy`` file: the type itself where
    numpy has it, else the smallest numpy type that holds every value exactly.
    """

    name: str
    label: str
    itemsize: int
    stored: str
    proto: int

    @property
    def is_float(self) -> bool:
        return self.name.startswith(("float", "bfloat"))

    @property
    def is_complex(self) -> bool:
        return self.name.startswith("complex")


_TABLE = (
    DType("bool", "Bool", 1, "bool", 1),
    DType("int8", "Int8", 1, "int8", 2),
    DType("int16", "Int16", 2, "int16", 3),
    DType("int32", "Int32", 4, "int32", 4),
    DType("int64", "Int64", 8, "int64", 5),
    DType("uint8", "UInt8", 1, "uint8", 6),
    DType("uint16", "UInt16", 2, "uint16", 7),
    DType("uint32", "UInt32", 4, "uint32", 8),
    DType("uint64", "UInt64", 8, "uint64", 9),
    DType("float16", "Float16", 2, "float16", 10),
    DType("float32", "Float32", 4, "float32", 11),
    DType("float64", "Float64", 8, "float64", 12),
    DType("complex32", "Complex32", 4, "complex64", 43),
    DType("complex64", "Complex64", 8, "complex64", 43),
    DType("complex128", "Complex128", 16, "complex128", 44),
    DType("bfloat16", "BFloat16", 2, "float32", 46),
    DType("float8_e4m3fn", "Float8E4M3FN", 1, "float32", 11),
    DType("float8_e4m3fnuz", "Float8E4M3FNUZ", 1, "float32", 11),
    DType("float8_e5m2", "Float8E5M2", 1, "float32", 11),
    DType("float8_e5m2fnuz", "Float8E5M2FNUZ", 1, "float32", 11),
    DType("float8_e8m0fnu", "Float8E8M0FNU", 1, "float32", 11),
    DType("qint8", "QInt8", 1, "int8", 2),
    DType("quint8", "QUInt8", 1, "uint8", 6),
    DType("qint32", "QInt32", 4, "int32", 4),
    DType("int4", "Int4", 1, "int8", 48),
)

BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in _TABLE}
_BY_LABEL: dict[str, DType] = {dtype.label.lower(): dtype for dtype in _TABLE}


def dtype_named(name: str) -> DType:
    """The dtype called ``name`` here, or spelled ``name`` by MindSpore (in any case)."""
    found = BY_NAME.get(name) or _BY_LABEL.get(name.lower())
    if found is None:
        raise SondeError(f"{name!r} is not an element type Sonde knows", slug="unknown-dtype")
    return found
