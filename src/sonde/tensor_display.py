"""Tensors and arrays of a program: their statistics, and how they are shown."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from sonde import kernels
from sonde.core.errors import UsageError
from sonde.core.finding import Finding
from sonde.core.statistics import Statistics, describe, type_text
from sonde.display.tensor_html import MOST_PICTURED, tensor_html
from sonde.dump.reader import Dump
from sonde.dump.tensor_record import TensorRecord

if TYPE_CHECKING:
    from sonde.adapters.torch.tensors.view import TorchView

_MOST_PRINTED: Final = 1 << 20
"""Characters of a tensor as Python prints it; torch and numpy abbreviate unless told otherwise."""


@dataclass(frozen=True, slots=True, eq=False)
class ShownTensor:
    """A tensor as it was when it was shown. ``values`` is None for one of more elements than are
    drawn, ``statistics`` for complex numbers, which have no order."""

    values: NDArray[Any] | None
    statistics: Statistics | None
    dtype: str
    shape: tuple[int, ...]
    name: str
    printed: str

    def __repr__(self) -> str:
        title = f"{self.name}: " if self.name else ""
        if self.statistics is None:
            return f"{title}{type_text(self.dtype, self.shape)}"
        return f"{title}{describe(self.statistics, self.dtype, self.shape)}"

    def _repr_html_(self) -> str:
        return tensor_html(
            self.values,
            self.statistics,
            dtype=self.dtype,
            shape=self.shape,
            name=self.name,
            printed=self.printed,
        )


def show(tensor: Any, name: str = "") -> None:
    """Show a torch tensor or a numpy array: statistics, histogram, heat map, NaN and Inf marked.

    A notebook shows it as HTML, a terminal as the line that `sonde.statistics` prints. ``name`` is
    a title. A `Dump`, one of its tensors and a finding can be shown, too. The tensor is not
    changed, and a running capture does not observe the call. Raises UsageError for anything else,
    and for a tensor without values.
    """
    if not isinstance(name, str):
        raise UsageError(
            f"name must be a text, not {type(name).__name__}: sonde.show takes one tensor",
            slug="statistics-type",
        )
    is_own = isinstance(tensor, Dump | TensorRecord | Finding | ShownTensor)
    shown = tensor if is_own else shown_tensor(tensor, name)
    ipython = sys.modules.get("IPython")
    if ipython is not None and ipython.get_ipython() is not None:
        from IPython.display import display

        display(shown)
    else:
        print(shown)


def shown_tensor(tensor: Any, name: str = "") -> ShownTensor:
    """What `show` shows of a torch tensor or a numpy array; UsageError for anything else."""
    printed = ""
    if isinstance(tensor, np.ndarray | np.generic):
        values, dtype, shape = _plain_array(tensor), tensor.dtype.name, tensor.shape
        printed = repr(tensor)
        is_ordered = values.dtype.kind in "biuf"
        statistics = kernels.summarize_array(values) if is_ordered else None
        kept = values.copy() if is_ordered and values.size <= MOST_PICTURED else None
        return ShownTensor(kept, statistics, dtype, shape, name, printed[:_MOST_PRINTED])
    view = _view(tensor, "show")
    from sonde.adapters.torch.private import unobserved

    with unobserved():
        printed = repr(tensor)
        is_ordered = not view.dtype.startswith("complex")
        statistics = view.statistics() if is_ordered else None
        is_small = view.tensor.numel() <= MOST_PICTURED
        drawn = view.numpy() if is_ordered and is_small else None
        shape = tuple(map(int, tensor.shape))
    return ShownTensor(drawn, statistics, view.dtype, shape, name, printed[:_MOST_PRINTED])


def measured(tensor: Any) -> tuple[Statistics, str]:
    """The statistics and the element type of a torch tensor or a numpy array; UsageError for
    anything else, SondeError for complex numbers."""
    if isinstance(tensor, np.ndarray | np.generic):
        return kernels.summarize_array(_plain_array(tensor)), tensor.dtype.name
    view = _view(tensor, "statistics")
    from sonde.adapters.torch.private import unobserved

    with unobserved():
        return view.statistics(), view.dtype


def _plain_array(array: Any) -> NDArray[Any]:
    # np.asarray would drop the mask and count what it hides.
    is_masked = isinstance(array, np.ma.MaskedArray)
    return np.ma.compressed(array) if is_masked else np.asarray(array)


def _view(tensor: Any, asked: str) -> TorchView:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(tensor, torch.Tensor):
        raise UsageError(
            f"{asked} takes a torch tensor or a numpy array, not {type(tensor).__name__}",
            slug="statistics-type",
        )
    from sonde.adapters.torch.private import unobserved
    from sonde.adapters.torch.tensors.view import TorchView

    with unobserved():
        view = TorchView(tensor, "output", 0, None, None)
        if view.problem is not None:
            raise UsageError(
                f"this tensor has no statistics: {view.problem}", slug="statistics-type"
            )
    return view
