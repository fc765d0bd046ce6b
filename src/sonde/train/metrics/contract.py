"""The contract of every metric: ``clear``, ``update`` with each batch, ``eval`` at the end."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from sonde.core.errors import SondeError
from sonde.train.validator import wrong_value

AnyMetric = TypeVar("AnyMetric", bound="Metric")


class MetricNotReadyError(SondeError, RuntimeError):
    """A metric asked for its value before it has seen anything."""


class MetricInputError(SondeError, ValueError):
    """Predictions and labels that do not fit each other or the metric."""


class MetricInputTypeError(SondeError, TypeError):
    """An argument of a metric that is not a tensor, list or array."""


class MetricValue(float):
    """The number a metric gives: a float in every way, exact, that prints four decimals.

    ``str``, ``print`` and an f-string without a format show at most four decimals, as torch prints
    tensors; ``repr``, ``json``, formats, comparisons and arithmetic use the whole number, and the
    result of arithmetic is a plain float. Numbers smaller than 0.001 or of a million and more are
    shown with four decimals of their scientific form. NaN and Inf show as ``nan`` and ``inf``.
    """

    __slots__ = ()

    def __str__(self) -> str:
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


class Metric(ABC):
    """A judgement of a model, gathered batch by batch.

    A subclass defines ``clear`` (forget everything), ``update`` (take one batch: predictions and
    labels, or what the metric needs) and ``eval`` (the value so far). The built-in ones return a
    ``MetricValue`` or an array, give the value over all ranks when ``torch.distributed`` is in use
    (so every rank must call ``eval``), do not depend on how the data were cut into batches unless
    they say so, and raise ``MetricNotReadyError``, a ``RuntimeError``, when nothing was seen.
    """

    _indexes: list[int] | None = None

    @property
    def indexes(self) -> list[int] | None:
        """Which inputs of ``update`` are used, in which order; None means all as they come."""
        return self._indexes

    def set_indexes(self: AnyMetric, indexes: list[int]) -> AnyMetric:
        """Choose and order the inputs of ``update``: ``[2, 1]`` uses the third, then the second.

        It takes effect where ``update`` is decorated with ``rearrange_inputs``, as it is in every
        built-in metric.
        """
        if not isinstance(indexes, list) or not all(type(index) is int for index in indexes):
            raise wrong_value("indexes", type(self).__name__, "must be a list of integers", indexes)
        self._indexes = indexes
        return self

    def __call__(self, *inputs: Any) -> Any:
        """The value of these inputs alone; what was gathered before is forgotten."""
        self.clear()
        self.update(*inputs)
        return self.eval()

    @abstractmethod
    def clear(self) -> None:
        """Forget everything gathered so far."""

    @abstractmethod
    def update(self, *inputs: Any) -> None:
        """Take one batch."""

    @abstractmethod
    def eval(self) -> Any:
        """The value of everything since the last ``clear``."""


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
                "give set_indexes positions that exist",
                slug="metric-input",
            ) from None
        return update(self, *chosen)

    return rearranged
