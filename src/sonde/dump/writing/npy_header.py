"""The header of an ``.npy`` file, version 1.0, as numpy writes it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

_MAGIC = b"\x93NUMPY\x01\x00"
_ALIGNMENT = 64


@lru_cache(maxsize=4096)
def npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """The bytes before the data of a C-contiguous array; its length is a multiple of 64."""
    shape_text = f"({shape[0]},)" if len(shape) == 1 else f"({', '.join(map(str, shape))})"
    text = f"{{'descr': '{np.dtype(dtype).str}', 'fortran_order': False, 'shape': {shape_text}, }}"
    used = len(_MAGIC) + 2 + len(text) + 1
    text += " " * (-used % _ALIGNMENT) + "\n"
    return _MAGIC + len(text).to_bytes(2, "little") + text.encode("latin1")
