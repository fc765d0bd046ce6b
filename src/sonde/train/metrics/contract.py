"""The contract of every metric: ``clear``, ``update`` with each batch, ``eval`` at the end."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from sonde.core.arguments import wrong_value
from sonde.core.errors import SondeError

AnyMetric = TypeVar("AnyMetric", bound="Metric")


class MetricNotReadyError(SondeError, RuntimeError):
    """``eval`` was called before the metric got any samples."""


class _InputError(SondeError):
    def __init__(self, message: str) -> None:
        super().__init__(message, slug="metric-input")


class MetricInputError(_InputError, ValueError):
    """Inputs of a metric that do not fit each other or the metric."""


class MetricInputTypeError(_InputError, TypeError):
    """An input of a metric that has the wrong type."""


class MetricValue(float):
    """A float that ``print`` shows with at most four decimals.

    Numbers below 0.001, and from a million on, are shown in scientific notation. Everything else
    uses the exact number: ``repr``, ``json``, f-strings and formats, comparisons, arithmetic (which
    returns a plain float), and ``str(value) + ".ckpt"``: two values that differ in the fifth
    decimal give two file names.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return _ShownValue(self._shown(), float.__repr__(self))

    def __format__(self, format_spec: str) -> str:
        return float.__repr__(self) if not format_spec else float.__format__(self, format_spec)

    def _shown(self) -> str:
        whole = float.__repr__(self)
        if not math.isfinite(self):
            return whole
        shown = f"{self:.4f}" if not self or 1e-3 <= abs(self) < 1e6 else f"{self:.4e}"
        mantissa, exponent, power = shown.partition("e")
        mantissa = mantissa.rstrip("0")
        if mantissa.endswith("."):
            mantissa += "0"
        shown = mantissa + exponent + power
        return min(shown, whole, key=len)


class _ShownValue(str):
    """The text of a ``MetricValue``: short by itself, with all digits when joined with ``+``."""

    _whole: str

    def __new__(cls, shown: str, whole: str) -> _ShownValue:
        text = super().__new__(cls, shown)
        text._whole = whole
        return text

    def __add__(self, following: str) -> str:
        return self._whole + following

    def __radd__(self, preceding: str) -> str:
        return preceding + self._whole

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (str.__str__(self),)


class Metric(ABC):
    """A measure of a model's quality, accumulated batch by batch.

    A subclass defines ``clear`` (reset), ``update`` (add one batch: predictions and labels, or
    whatever the metric needs) and ``eval`` (the value so far). ``eval`` of the built-in metrics
    returns a ``MetricValue`` or an array, over all ranks when ``torch.distributed`` is in use (so
    every rank must call it), and raises ``MetricNotReadyError``, a ``RuntimeError``, without
    samples. Unless their docstring says otherwise, the batch size does not change the result.
    """

    _indexes: list[int] | None = None

    @property
    def indexes(self) -> list[int] | None:
        """The positions of the inputs that ``update`` uses, in order; None means all."""
        return self._indexes

    def set_indexes(self: AnyMetric, indexes: list[int]) -> AnyMetric:
        """Choose and order the inputs of ``update``: ``[2, 1]`` uses the third, then the second.

        It takes effect if ``update`` is decorated with ``rearrange_inputs``, as in every built-in
        metric.
        """
        if not isinstance(indexes, list) or not all(type(index) is int for index in indexes):
            raise wrong_value("indexes", type(self).__name__, "must be a list of integers", indexes)
        self._indexes = indexes
        return self

    def __call__(self, *inputs: Any) -> Any:
        """The value of these inputs alone; resets the metric first."""
        self.clear()
        self.update(*inputs)
        return self.eval()

    @abstractmethod
    def clear(self) -> None:
        """Reset the metric."""

    @abstractmethod
    def update(self, *inputs: Any) -> None:
        """Add one batch."""

    @abstractmethod
    def eval(self) -> Any:
        """The value of all batches since the last ``clear``."""


def rearrange_inputs(update: Callable[..., Any]) -> Callable[..., Any]:
    """Make an ``update`` method obey ``set_indexes``."""

    @functools.wraps(update)
    def rearranged(self: Any, *inputs: Any) -> Any:
        indexes = self.indexes
        if not indexes:
            return update(self, *inputs)
        try:
            chosen = [inputs[index] for index in indexes]
        except IndexError:
            raise MetricInputError(
                f"{type(self).__name__}: indexes {indexes} do not fit {len(inputs)} inputs; "
                "give set_indexes positions that exist"
            ) from None
        return update(self, *chosen)

    return rearranged
