"""The element types the kernels read, by name and by the number the native code uses."""

from __future__ import annotations

from sonde.core.dtypes import dtype_named
from sonde.core.errors import SondeError

DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
_CODES = {name: code for code, name in enumerate(DTYPES)}


def dtype_code(name: str) -> int:
    """The number of dtype ``name``; SondeError for those without statistics, complex above all."""
    code = _CODES.get(name)
    if code is not None:
        return code
    if dtype_named(name).is_complex:
        raise SondeError(
            f"{name} tensors have no statistics, because complex numbers have no order; "
            "dump them as tensors",
            slug="statistics-dtype",
        )
    raise SondeError(
        f"{name} tensors have no statistics; convert them first, to one of {', '.join(DTYPES)}",
        slug="statistics-dtype",
    )
