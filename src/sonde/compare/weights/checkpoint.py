"""Weights by name, whatever file they are in; nothing is read before it is asked for.

No framework is needed: element types numpy lacks (bfloat16, float8) are kept as their bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sonde.core.dtypes import BY_NAME
from sonde.core.errors import SondeError
from sonde.core.mindspore_ckpt import CheckpointError

if TYPE_CHECKING:
    from sonde.core.statistics import Statistics
    from sonde.kernels import Distances

MAX_DIMENSIONS = 32
"""What every numpy takes."""

Format = Literal["mindspore", "safetensors", "torch", "numpy", "dump"]


@dataclass(frozen=True, slots=True)
class Weight:
    """One named tensor of a checkpoint or a dump.

    ``load`` gives its elements, read-only, as ``storage`` says: the element type of the array, or
    of its bits where numpy lacks the type. ``storage`` is ``dtype`` unless the file holds wider
    values. ``trainable`` is None where nobody knows. A weight of which only ``summary`` is known
    has no ``load``.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    load: Callable[[], NDArray[Any]] | None
    trainable: bool | None = None
    stored_as: str | None = None
    summary: Mapping[str, float | int | str] | None = None

    @property
    def storage(self) -> str:
        return self.stored_as or self.dtype

    @property
    def count(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.count * BY_NAME[self.dtype].itemsize

    def bits(self) -> NDArray[Any]:
        """The elements as they are stored, contiguous; an error where only statistics are known."""
        if self.load is None:
            raise CheckpointError(
                f"{self.name}: only its statistics are known; dump with saved_data 'tensor' or "
                "'full' to have values",
                slug="no-values",
            )
        array = np.ascontiguousarray(self.load()).reshape(self.shape)
        return array.view(np.uint8) if array.dtype == np.bool_ else array

    def numbers(self) -> NDArray[Any]:
        """The elements as numbers numpy has, widened without rounding."""
        from sonde.kernels.low_precision import numbers

        return numbers(self.bits(), self.storage)

    def statistics(self) -> Statistics | None:
        """All summary numbers; None for complex elements and where there are no values."""
        from sonde import kernels

        if self.load is None or self.storage not in kernels.DTYPES:
            return None
        return kernels.summarize_array(self.bits(), self.storage)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The weights of one file or dump, in its order, and the texts that stand beside them."""

    path: Path
    format: Format
    weights: Mapping[str, Weight]
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Elements of all weights."""
        return sum(weight.count for weight in self.weights.values())


def same_bits(a: Weight, b: Weight) -> bool:
    """Whether two weights have one type, one shape and the same bits: NaN equals the same NaN."""
    if (a.storage, a.shape) != (b.storage, b.shape):
        return False
    return bool(np.array_equal(_bytes(a.bits()), _bytes(b.bits())))


def distances(a: NDArray[Any], storage_a: str, b: NDArray[Any], storage_b: str) -> Distances:
    """How the elements of ``a`` differ from the reference ``b``; complex ones as pairs of reals.

    SondeError when one of two is complex, or a type has no order.
    """
    from sonde import kernels

    if np.iscomplexobj(a) != np.iscomplexobj(b):
        raise SondeError("complex and real numbers are not compared", slug="statistics-dtype")
    if np.iscomplexobj(a):
        a, b = _as_reals(a), _as_reals(b)
        storage_a, storage_b = a.dtype.name, b.dtype.name
    return kernels.compare_arrays(a, b, storage_a, storage_b)


def is_shape(sizes: Any) -> bool:
    """Whether these are the sizes of a tensor numpy can have, empty ones included."""
    return (
        isinstance(sizes, list | tuple)
        and len(sizes) <= MAX_DIMENSIONS
        and all(type(size) is int and size >= 0 for size in sizes)
        and prod(size or 1 for size in sizes) < 1 << 59
    )


def damaged(path: Path, kind: str, reason: str) -> CheckpointError:
    """The error for a file that is cut off or is not what it says; ``reason`` has the place."""
    return CheckpointError(
        f"{path} is damaged or not a {kind}: {reason}", slug="checkpoint-damaged"
    )


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def _as_reals(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array).reshape(-1).view(array.real.dtype)
