"""The weights of a checkpoint by name, whatever its format; values are read on demand.

No framework is needed: values of types that numpy lacks (bfloat16, float8) are kept as bits.
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
from sonde.core.files.mindspore_ckpt import CheckpointError

if TYPE_CHECKING:
    from sonde.core.statistics import Statistics
    from sonde.kernels import Distances

MAX_DIMENSIONS = 32
"""The most dimensions that every version of numpy supports."""

Format = Literal["mindspore", "safetensors", "torch", "numpy", "dump"]


@dataclass(frozen=True, slots=True)
class Weight:
    """One named tensor of a checkpoint or a dump.

    ``load`` returns the elements, read-only, as an array of type ``storage``, or of its bits if
    numpy lacks the type. ``storage`` is ``dtype`` unless the file contains wider values.
    ``trainable`` is None if unknown. A weight with statistics only (``summary``) has no ``load``.
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
        """The elements as stored, contiguous; an error if only statistics are known."""
        if self.load is None:
            raise CheckpointError(
                f"{self.name}: only its statistics are known; dump with saved_data 'tensor' or "
                "'full' to have values",
                slug="no-values",
            )
        array = np.ascontiguousarray(self.load()).reshape(self.shape)
        return array.view(np.uint8) if array.dtype == np.bool_ else array

    def numbers(self) -> NDArray[Any]:
        """The elements in a type that numpy has, widened without rounding."""
        from sonde.kernels.low_precision import numbers

        return numbers(self.bits(), self.storage)

    def statistics(self) -> Statistics | None:
        """The statistics; None for complex elements and without values."""
        from sonde import kernels

        if self.load is None or self.storage not in kernels.DTYPES:
            return None
        return kernels.summarize_array(self.bits(), self.storage)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The weights and the texts of one file or dump, in its order. ``progress``: its keys that say
    how far a training was; ``has_optimizer``: it has the state of an optimizer beside them."""

    path: Path
    format: Format
    weights: Mapping[str, Weight]
    texts: Mapping[str, str] = field(default_factory=dict)
    progress: tuple[str, ...] = ()
    has_optimizer: bool = False

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: weight.shape for name, weight in self.weights.items()}

    @property
    def count(self) -> int:
        """Elements of all weights."""
        return sum(weight.count for weight in self.weights.values())


def same_bits(a: Weight, b: Weight) -> bool:
    """Whether two weights have the same type, shape and bits (NaN equals the same NaN)."""
    if (a.storage, a.shape) != (b.storage, b.shape):
        return False
    return bool(np.array_equal(_bytes(a.bits()), _bytes(b.bits())))


def distances(a: NDArray[Any], storage_a: str, b: NDArray[Any], storage_b: str) -> Distances:
    """How the elements of ``a`` differ from the reference ``b``; complex ones as pairs of reals.

    SondeError if only one is complex, or a type has no order.
    """
    from sonde import kernels

    if np.iscomplexobj(a) != np.iscomplexobj(b):
        raise SondeError("complex and real numbers are not compared", slug="statistics-dtype")
    if np.iscomplexobj(a):
        a, b = _as_reals(a), _as_reals(b)
        storage_a, storage_b = a.dtype.name, b.dtype.name
    return kernels.compare_arrays(a, b, storage_a, storage_b)


def is_shape(sizes: Any) -> bool:
    """Whether numpy can have an array of these sizes, including empty ones."""
    return (
        isinstance(sizes, list | tuple)
        and len(sizes) <= MAX_DIMENSIONS
        and all(type(size) is int and size >= 0 for size in sizes)
        and prod(size or 1 for size in sizes) < 1 << 59
    )


def damaged(path: Path, kind: str, reason: str) -> CheckpointError:
    """The error for a file that is truncated or not of its format; ``reason`` has the place."""
    return CheckpointError(
        f"{path} is damaged or not a {kind}: {reason}", slug="checkpoint-damaged"
    )


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)


def _as_reals(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array).reshape(-1).view(array.real.dtype)
